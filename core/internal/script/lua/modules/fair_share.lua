-- A tenant's share of a cap is a string: the tenant's level in parts, the product as of the tenant's last charge, the instant of
-- that, and the cap's level then. The check in front of it in the call is that of the cap, which is a hash: it also
-- has the product and the instant of that (shares). See internal/exact/fair_share.go for the arithmetic.
--
-- A product is m / 2^(52+e), where m is above 2^51 and at most 2^52. Only products of the same epoch compare. The numbers
-- of the limit begin with the tenant's weight.

local call, try, format, tonumber, match, floor = redis.call, redis.pcall, string.format, tonumber, string.match, math.floor
local now, state = require('clock').now, require('state')
local parts, spare = 4503599627370496, 32

-- scale_of returns how many parts a unit has.
local function scale_of(limit)
  local scale = limit.scale or 1
  while not limit.scale and limit.capacity * scale * 2 < parts do
    scale = scale * 2
  end
  limit.scale = scale
  return scale
end

-- read_product reads the product of a cap, and multiplies it by used / (used + drained) for the time since then.
local function read_product(found, cap, limit, key)
  local m, e, epoch, at, numbers
  if not cap.damaged then
    m, e, epoch, at, numbers = match(call('HMGET', key, 'shares')[1] or '', '^(%d+) (%d+) (%d+) (%d+) ?(.*)$')
    m, e, epoch, at = tonumber(m), tonumber(e), tonumber(epoch), tonumber(at)
  end
  if not m or cap.used == 0 or numbers ~= limit.numbers or m <= parts / 2 or m > parts then
    found.m, found.e, found.epoch = parts, 0, math.max(now, (epoch or -1) + 1)
    return
  end
  local elapsed = (limit.present - at + at % limit.tick) / limit.tick
  if elapsed > 0 then
    local used, drained = cap.used, elapsed * limit.pace
    m = math.min(m, floor(m * (used / (used + drained))) + 1)
    while m <= parts / 2 do
      m, e = m * 2, e + 1
    end
  end
  found.m, found.e, found.epoch = m, e, epoch
end

-- read reads the text of a share, and sets when that lapses.
local function read(key, limit)
  local text = try('GET', key)
  if type(text) ~= 'string' then
    return nil, state.is_damage(text)
  end
  local level, m, e, epoch, at, of = match(text, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
  if not level then
    return nil, true
  end
  level, m, e, epoch, at, of = tonumber(level), tonumber(m), tonumber(e), tonumber(epoch), tonumber(at), tonumber(of)
  return { level = level, m = m, e = e, epoch = epoch, at = at, of = of, lapses = at + math.ceil(of / limit.pace) * limit.tick }
end

-- observe finds besides the tenant's level in parts (level), the product, the cap, its limit and its key.
local function observe(key, limit, _, _, _, finds, rows, number)
  local cap, own, damaged = finds[number - 1], read(key, limit)
  local found = { level = 0, expires = -1, damaged = damaged, cap = cap, cap_limit = rows[number - 1].limit, cap_key = KEYS[number - 1] }
  read_product(found, cap, found.cap_limit, found.cap_key)
  local lapses = 0
  if own and own.epoch == found.epoch and now < own.lapses then
    local level, halvings = own.level, found.e - own.e
    if own.m ~= found.m or halvings ~= 0 then
      local quotient = 0
      if halvings >= 0 and halvings <= 100 then
        quotient = found.m / own.m / 2 ^ halvings
      end
      level = math.min(level, floor(level * quotient) + 1)
    end
    found.level, lapses, found.expires = math.min(level, cap.used * scale_of(limit)), own.lapses - limit.present, own.lapses
  end
  local used, scale = 0, scale_of(limit)
  if found.level > spare then
    used = math.ceil((found.level - spare) / scale)
  end
  found.used, found.room = used, match(limit.numbers, '^%d+') * (found.cap_limit.ceiling - cap.used) - used
  local short = found.e % 4096 * 1099511627776 + floor((found.m - 1) / 4096)
  found.seen = format('%d %d %d %d', found.level, lapses, cap.used, short)
  return found
end

-- store also writes the product into the cap, unless that is damage, which is about to be deleted.
local function store(_, limit, found, units)
  local of = found.cap.used + units
  if not found.cap.damaged then
    local numbers, shares = found.cap_limit.numbers, format('%d %d %d %d', found.m, found.e, found.epoch, limit.present)
    call('HSET', found.cap_key, 'shares', numbers == '' and shares or shares .. ' ' .. numbers)
  end
  local level, lapses = found.level + units * scale_of(limit), limit.present + math.ceil(of / limit.pace) * limit.tick
  return lapses, format('%d %d %d %d %d %d', level, found.m, found.e, found.epoch, limit.present, of)
end

return { observe = observe, store = store, corrections = 'fair_share_corrections', read = read, scale_of = scale_of }
