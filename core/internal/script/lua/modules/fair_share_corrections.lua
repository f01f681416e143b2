-- Carries out corrections of shares. The number behind the units of a correction is the product in short, as of the charge: 40 bits of m, and
-- above these the lowest 12 bits of e.

local call, format, floor = redis.call, string.format, math.floor
local clock = require('clock')
local now, grace = clock.now, clock.grace

-- left_of returns how much of a charge is left by a product, as a part of the charge.
local function left_of(own, short)
  local m = short % 1099511627776 * 4096 + 1
  local halvings = (own.e - floor(short / 1099511627776)) % 4096
  if halvings > 100 then
    return 0
  end
  return math.min(1, own.m / m / 2 ^ halvings)
end

-- settle carries out a correction of a share.
local function settle(key, limit, correction)
  if correction.how == 'reset' then
    call('UNLINK', key)
    return nil
  end
  local module = limit.algorithm
  local own, units, at = module.read(key, limit), correction.units, correction.at
  if not own or units == 0 or now >= own.lapses or correction.how == 'raise' or at > 0 and at < own.epoch then
    return nil
  end
  local scale = module.scale_of(limit)
  local amount = math.min(math.abs(units), limit.capacity)
  local change = amount * scale
  if at > 0 then
    change = floor(change * left_of(own, correction.after))
  end
  local level, of = math.max(0, own.level - change), math.max(0, own.of - amount)
  if units > 0 then
    level, of = math.min(limit.capacity * scale, own.level + change), math.min(limit.capacity, own.of + amount)
  end
  if level == 0 then
    call('UNLINK', key)
    return nil
  end
  local lapses = own.at + math.ceil(of / limit.pace) * limit.tick
  call('SET', key, format('%d %d %d %d %d %d', level, own.m, own.e, own.epoch, own.at, of), 'PXAT',
    format('%d', (lapses - lapses % 1000000) / 1000 + grace))
  return nil
end

return settle
