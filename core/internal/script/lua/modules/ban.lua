-- A ban is a hash: how many bans have begun (count), when the last one began (since) and ends (until), the instants of the strikes
-- that count (strikes, with spaces in between), and the reason of a ban by hand (reason). A key under no ban and without
-- strikes has none.

local call, try, format, tonumber, match = redis.call, redis.pcall, string.format, tonumber, string.match
local now, state = require('clock').now, require('state')
local largest, most_bans = 9007199254740991, 1000000

-- read_terms reads the terms of a ban behind its numbers, once for each limit.
local function read_terms(limit)
  if not limit.forget then
    local first, factor, longest, forget, extend, mode = string.match(limit.numbers, '^(%d+) (%d+) (%d+) (%d+) (%d) ?(%a*)$')
    limit.first, limit.factor, limit.longest = tonumber(first), tonumber(factor), tonumber(longest)
    limit.forget, limit.mode = tonumber(forget), mode
    limit.extends = extend == '1'
  end
end

-- is_instant reports whether a number can be an instant.
local function is_instant(at)
  return at and at >= 0 and at % 1 == 0 and at <= largest
end

-- read_ban returns the ban as it stands now after a number of begun bans, or nil if it makes no sense.
local function read_ban(limit, count, since, ends, text)
  read_terms(limit)
  count, since, ends = tonumber(count), tonumber(since or '0'), tonumber(ends or '0')
  if not is_instant(count) or count > most_bans or not is_instant(since) or not is_instant(ends) or since > ends then
    return nil
  end
  local ban = { length = ends - since, early = since > now, strikes = {}, count = count }
  if ban.early then -- the clock has stepped back
    since, ends = now, now + ban.length
  end
  ban.since, ban.ends, ban.left = since, ends, math.max(0, ends - now)
  ban.gone = ends + limit.forget - now
  if ban.gone <= 0 and ban.left == 0 then
    ban.count = 0
  end
  if ban.count == 0 and ban.left == 0 then
    ban.gone, ban.since, ban.ends = 0, 0, 0
  end
  local last, strikes = 0, ban.strikes
  for instant in string.gmatch(text or '', '%S+') do
    local at = tonumber(instant)
    if not is_instant(at) or at < last then
      return nil
    end
    last = at
    if ban.left == 0 and at > now - limit.pace then
      strikes[#strikes + 1] = math.min(at, now)
    end
  end
  while #strikes >= limit.capacity do -- the limit has been made smaller
    table.remove(strikes, 1)
  end
  return ban
end

-- write_ban writes the fields of a ban that is not in force with its strikes, or of one that has just
-- begun, and returns when it will be forgotten.
local function write_ban(limit, key, ban, reason)
  local text = {}
  for i, at in ipairs(ban.strikes) do
    text[i] = format('%d', at)
  end
  call('HSET', key, 'count', format('%d', ban.count), 'since', format('%d', ban.since), 'until', format('%d', ban.ends),
    'strikes', table.concat(text, ' '), 'reason', reason)
  local forgotten = 0
  if ban.ends > 0 then
    forgotten = ban.ends + limit.forget
  end
  if #text > 0 then
    forgotten = math.max(forgotten, ban.strikes[#text] + limit.pace)
  end
  return forgotten
end

-- extend_ban begins a ban that is in force anew, and returns when it will be forgotten.
local function extend_ban(limit, key, ban)
  call('HSET', key, 'since', format('%d', now), 'until', format('%d', now + ban.length))
  return now + ban.length + limit.forget
end

-- add_strikes adds strikes to a ban that is not in force. It returns when it will be forgotten, and whether
-- they have begun a ban.
local function add_strikes(limit, key, ban, number)
  read_terms(limit)
  ban = ban or { strikes = {}, count = 0, since = 0, ends = 0 }
  local strikes = ban.strikes
  for _ = 1, number do
    strikes[#strikes + 1] = now
  end
  if #strikes < limit.capacity then
    return write_ban(limit, key, ban, ''), false
  end
  local length, factor, bans = limit.first, limit.factor, ban.count
  local last = (limit.longest - limit.longest % factor) / factor -- the longest time that the factor does not lift above longest
  while factor > 1 and bans > 0 and length < limit.longest do
    if length > last then
      length = limit.longest
    else
      length = length * factor
    end
    bans = bans - 1
  end
  -- The ban lasts up to a tenth longer: the instant and the count decide by how much.
  local tenth = (length - length % 10) / 10
  local part = (tenth - tenth % 1020) / 1020
  ban.ends = now + length + part * ((now + 359 * ban.count) % 1021)
  ban.since, ban.count, ban.strikes = now, math.min(ban.count + 1, most_bans), {}
  return write_ban(limit, key, ban, ''), true
end

-- observe also finds the ban (ban), and whether it is in force (banned).
local function observe(key, limit)
  local fields = try('HMGET', key, 'count')
  local found = { used = 0, room = largest, expires = -1, seen = '0 0 0 0', damaged = state.is_damage(fields) }
  if not fields[1] then
    return found
  end
  local others = call('HMGET', key, 'since', 'until', 'strikes')
  local ban = read_ban(limit, fields[1], others[1], others[2], others[3])
  found.ban, found.damaged = ban, not ban
  if ban and ban.left > 0 then
    found.banned, found.room, found.used, found.repair = true, 0, limit.capacity, ban.early
    if limit.extends and (limit.charged or limit.mode == 'strike') then
      ban.left, found.repair = ban.length, true
      ban.gone = ban.length + limit.forget
    end
    found.seen = format('%d %d %d %d', found.used, ban.left, ban.count, ban.gone)
  elseif ban then
    local strikes = ban.strikes
    found.used = #strikes
    if found.used > 0 then
      local newest = strikes[found.used] + limit.pace - now
      found.seen = format('%d %d %d %d', found.used, strikes[1] + limit.pace - now, ban.count, math.max(ban.gone, newest))
    else
      found.seen = format('0 0 %d %d', ban.count, ban.gone)
    end
  end
  return found
end

-- heed returns how many strikes are added to a ban that a check only heeds, and whether the ban is to be written: to mend it, or with
-- the strikes of a call that is denied, though by no ban.
local function heed(limit, found, strikes)
  read_terms(limit)
  if limit.mode ~= 'strike' then
    strikes = 0
  end
  local writes = strikes > 0 or (found.damaged or found.repair) and limit.mode ~= ''
  found.repair = found.repair or writes
  return strikes, writes
end

local function store(key, limit, found, strikes)
  if found.ban and found.ban.left > 0 then
    return extend_ban(limit, key, found.ban)
  end
  return (add_strikes(limit, key, found.ban, strikes))
end

return {
  observe = observe, store = store, heed = heed, read_terms = read_terms, read_ban = read_ban, write_ban = write_ban,
  extend_ban = extend_ban, add_strikes = add_strikes, corrections = 'ban_corrections',
}
