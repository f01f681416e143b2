-- A concurrent limit is a sorted set: a member for each place that is held, whose score is the instant
-- at which its lease ends, and the member "." whose score is the latest token, negated, so that it comes
-- first. A holder of several places has its name for the first one, and its name, a slash and a number
-- for each other one.

--- functions
local holder -- of the check whose cost was read last
local present -- the token of whoever takes a place now, as text, if no clock has stepped back

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

-- unless_damaged runs a command, and returns nil if the key has another type.
local function unless_damaged(...)
  local done = try(...)
  if type(done) ~= 'table' or not done.err then
    return done
  elseif not string.find(done.err, 'WRONGTYPE', 1, true) then
    error(done.err, 0)
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
if not cost and string.find(ARGV[argument + 1], '.', 1, true) then
  cost, holder = 1, ARGV[argument + 1]
  local at = string.find(holder, '@', 1, true)
  if at then
    cost, holder = tonumber(string.sub(holder, 1, at - 1)), string.sub(holder, at + 1)
  end
end

--- observe
own = holder
local latest, ends, wait = 0, 0, 0
state = try('ZRANGE', key, '0', '1', 'WITHSCORES')
if state[1] then
  latest = -(tonumber(state[2]) or 0)
  local first = tonumber(state[4])
  if state[1] ~= '.' or latest < 0 or latest % 1 ~= 0 or latest >= largest then
    damaged, latest = true, 0
  else
    former = latest
    if former > now then
      former = now
    end
    former = former + limit.pace + remembered
    if first then
      if first > now then
        used = call('ZCARD', key) - 1
      else
        repair = true
        used = call('ZCOUNT', key, '(' .. format('%d', now), '+inf')
        first = nil
      end
    end
  end
  if used > 0 then
    -- The places are in order, and the last ones are held: so their ranks count from the end.
    local excess, missing = used - limit.capacity, used + cost - limit.ceiling
    if not first or excess > 0 then
      first = tonumber(call('ZRANGE', key, math.max(excess, 0) - used, math.max(excess, 0) - used, 'WITHSCORES')[2])
    end
    ends = math.min(first - now, remembered)
    if cost > 0 and missing > 0 then
      if missing == math.max(excess, 0) + 1 then
        wait = ends
      elseif cost <= limit.ceiling then
        wait = tonumber(call('ZRANGE', key, missing - 1 - used, missing - 1 - used, 'WITHSCORES')[2])
        wait = math.min(wait - now, remembered)
      end
      repair = repair or tonumber(call('ZRANGE', key, '-1', '-1', 'WITHSCORES')[2]) > now + remembered
    end
  end
end
room = limit.ceiling - used
if used > 0 or latest >= now then
  seen = format('%d %d %d %d', used, ends, wait, latest)
else
  seen = '0 0 0 0' -- a token of the past does not matter
end

--- store
if repair then
  if call('ZREMRANGEBYSCORE', key, '0', format('%d', now)) > 0 then
    mark = '-'
  end
  local latest = format('%d', now + remembered)
  for _, late in ipairs(call('ZRANGE', key, '(' .. latest, '+inf', 'BYSCORE')) do
    call('ZADD', key, latest, late)
  end
end
full = now + limit.pace + remembered
if charge > 0 then
  present = present or format('%d', -now)
  limit.ends = limit.ends or format('%d', now + limit.pace) -- the same for all checks of a script run
  local token = present
  if former == full then -- the latest one may be greater
    token = format('%d', -math.max(now, string.match(seen, '%d+$') + 1))
  end
  if charge == 1 then
    call('ZADD', key, token, '.', limit.ends, own)
  else
    local words = { token, '.' }
    append_places(words, own, charge, limit.ends)
    change_places('ZADD', key, words)
  end
end

--- hold
if limit.algorithm == 'concurrent' and not look then
  local key, holder = KEYS[number], ARGV[argument + 2]
  local places = -ARGV[argument + 1]
  if how == 'reset' then
    if not unless_damaged('ZREMRANGEBYSCORE', key, '0', '+inf') then
      call('DEL', key)
    end
    return
  end
  if how == 'renew' then
    local ends = unless_damaged('ZSCORE', key, holder)
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
  elseif unless_damaged('ZREM', key, holder) == 1 and places > 1 then
    local words = {}
    append_places(words, holder, places, nil)
    change_places('ZREM', key, words)
  end
  return asked
end
