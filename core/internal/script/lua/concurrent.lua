-- A concurrent limit is a sorted set: a member for each place that is held, whose score is the instant
-- at which its lease ends, and the member "." whose score is the latest token, negated, so that it comes
-- first. A holder of several places has its name for the first one, and its name, a slash and a number
-- for each other one.

--- functions
local holder -- of the check that was read last, if it takes places
local present, instant -- now as text, and the token of whoever takes a place now if no clock has stepped back
local told = {} -- what the caller is told of so many places, where one fits
local tokens = {} -- the latest ones of keys where they are not of the past

-- How long a key lives, in microseconds, after a lease that begins now has ended: for as long as a lease
-- may be, so that no holder is forgotten and its token is remembered.
local remembered = 600000000

-- append_places appends the members of a holder to a list, each behind a score unless that is nil.
local function append_places(list, holder, places, score)
  list[#list + 1] = score
  list[#list + 1] = holder
  for place = 2, places do
    list[#list + 1] = score
    list[#list + 1] = holder .. '/' .. place
  end
end

-- unless_damaged returns what a command has replied, or nil if the key has another type.
local function unless_damaged(reply)
  if type(reply) ~= 'table' or not reply.err then
    return reply
  elseif not string.find(reply.err, 'WRONGTYPE', 1, true) then
    error(reply.err, 0)
  end
end

-- change_places runs a command for all words of a list, an even number at a time.
local function change_places(command, key, words, ...)
  for first = 1, #words, 1000 do
    local some = { command, key, ... }
    for i = first, math.min(first + 999, #words) do
      some[#some + 1] = words[i]
    end
    call(unpack(some))
  end
end

--- holder
if limit.charged and limit.algorithm == 'concurrent' then
  holder = ARGV[argument]
  argument = argument + 1
end

--- observe
-- Redis takes longer to print a score than to count members. All places are behind the token, so its rank
-- from the end is their number, and the token itself need not be read. When the first lease ends is read
-- only for whoever cannot have a place, or only asks.
own = holder
local first, gone = nil, 0
local behind = try('ZREVRANK', key, '.')
if behind == 0 then
  former, damaged = now, call('ZCARD', key) > 1
elseif tonumber(behind) then
  former, instant = now, instant or format('%d', now)
  if not limit.charged or cost > limit.ceiling - behind then
    first = tonumber(call('ZRANGE', key, '1', '1', 'WITHSCORES')[2])
  end
  if not first or first <= now then
    first, gone = nil, call('ZCOUNT', key, '-inf', instant) - 1 -- the token is no place
    damaged = gone ~= 0 and gone ~= call('ZCOUNT', key, '0', instant) -- there is one before the token or before 1970
  end
  repair, used = gone > 0, behind - gone
else
  state = behind or nil
  damaged = not state and call('ZCARD', key) > 0
end
if damaged then
  used, former = 0, -1
end
room = limit.ceiling - used
seen = '0 0 0 0'
if used == 0 then
  -- That is all.
elseif limit.charged and cost <= room then
  former = now + limit.pace + remembered
  seen = told[used] or format('%d 0 0 0', used)
  told[used] = seen
else
  -- The places are in order, and the last ones are held: so their ranks count from the end.
  local excess, missing, wait = math.max(used - limit.capacity, 0), cost - room, 0
  if not first or excess > 0 then
    first = tonumber(call('ZRANGE', key, excess - used, excess - used, 'WITHSCORES')[2])
  end
  local ends = math.min(first - now, remembered)
  former = now + ends + remembered
  if cost > 0 and missing > 0 then
    if missing == excess + 1 then
      wait = ends
    elseif cost <= limit.ceiling then
      wait = tonumber(call('ZRANGE', key, missing - 1 - used, missing - 1 - used, 'WITHSCORES')[2])
      wait = math.min(wait - now, remembered)
    end
    repair = repair or call('ZCOUNT', key, format('(%d', now + remembered), '+inf') > 0
  end
  seen = format('%d %d %d 0', used, ends, wait)
end

--- store
if repair then
  if call('ZREMRANGEBYSCORE', key, '0', instant) > 0 then
    mark = '-'
  end
  if charge == 0 then
    local latest = format('%d', now + remembered)
    for _, late in ipairs(call('ZRANGE', key, '(' .. latest, '+inf', 'BYSCORE')) do
      call('ZADD', key, latest, late)
    end
  end
  repair = false -- the time to live is looked at in any case
end
full = now + limit.pace + remembered
if charge > 0 then
  present = present or format('%d', -now)
  limit.ends = limit.ends or format('%d', now + limit.pace) -- the same for all checks of a script run
  local latest = tokens[key]
  -- The token is now, if that lowers the score of the latest one: then two scores change.
  if latest or call('ZADD', key, 'LT', 'CH', present, '.', limit.ends, own) < 2 then
    latest = latest or -call('ZSCORE', key, '.')
    if latest % 1 == 0 and latest < largest then
      seen = string.match(seen, '.* ') .. format('%d', latest)
    else
      call('DEL', key)
      latest, former, seen, mark = 0, -1, '0 0 0 0', '!'
    end
    tokens[key] = math.max(latest + 1, now)
    call('ZADD', key, format('%d', -tokens[key]), '.', limit.ends, own)
  end
  if charge > 1 then
    local words = {}
    append_places(words, own, charge, limit.ends)
    change_places('ZADD', key, words)
  end
end
if former >= 0 then
  former, renumbered = full, true
end

--- hold
if limit.algorithm == 'concurrent' and not look then
  local key, holder = KEYS[number], ARGV[argument + 2]
  local places = -ARGV[argument + 1]
  if how == 'settle' then
    local gone = try('ZREM', key, holder)
    if places > 1 and gone == 1 then
      local words = {}
      append_places(words, holder, places, nil)
      change_places('ZREM', key, words)
    elseif gone ~= 0 and gone ~= 1 then
      unless_damaged(gone)
    end
  elseif how == 'renew' then
    local ends = unless_damaged(try('ZSCORE', key, holder))
    if not ends or tonumber(ends) <= now then
      return asked, '2'
    end
    limit.ends = limit.ends or format('%d', now + limit.pace)
    limit.expires = limit.expires or format('%d', (now + limit.pace + remembered) / 1000 + grace)
    -- It comes first: a server that has no memory left denies ZADD unless the script has written before.
    call('PEXPIREAT', key, limit.expires)
    if places == 1 then
      call('ZADD', key, 'XX', limit.ends, holder)
    else
      local words = {}
      append_places(words, holder, places, limit.ends)
      change_places('ZADD', key, words, 'XX')
    end
  elseif how == 'reset' and not unless_damaged(try('ZREMRANGEBYSCORE', key, '0', '+inf')) then
    call('DEL', key)
  end
  return asked
end
