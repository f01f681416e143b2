-- A concurrent limit is a sorted set: a member for each place that is held, whose score is the instant
-- at which its lease ends, and the member "." whose score is the latest token, negated, so that it comes
-- first. A holder of several places has its name for the first one, and its name, a slash and a number
-- for each other one.

--- functions
local holder -- of the check whose cost was read last

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
if not cost then
  cost, holder = string.match(ARGV[argument + 1], '^(%d+)@(%S+)$')
  cost, count = tonumber(cost), 1
end

--- observe
own = holder
local latest, ends, wait = 0, 0, 0
state = try('ZRANGE', key, '0', '1', 'WITHSCORES')
if state[1] then
  latest = -(tonumber(state[2]) or 0)
  local first = tonumber(state[4])
  if state[1] ~= '.' or latest < 0 or latest % 1 ~= 0 or latest > largest then
    damaged, latest = true, 0
  else
    former = latest + limit.pace + remembered
  end
  if first and not damaged then
    if first > now then
      used = call('ZCARD', key) - 1
    else
      repair = true
      used = call('ZCOUNT', key, '(' .. format('%d', now), '+inf')
      if used > 0 then
        first = tonumber(call('ZRANGE', key, -used, -used, 'WITHSCORES')[2])
      end
    end
    if used > 0 then
      ends = first - now
      local missing = used + cost - limit.capacity
      if missing == 1 then
        wait = ends
      elseif missing > 1 and cost <= limit.capacity then
        wait = tonumber(call('ZRANGE', key, missing - 1 - used, missing - 1 - used, 'WITHSCORES')[2]) - now
      end
    end
  end
end
room = limit.capacity - used
seen = format('%d %d %d %d', used, ends, wait, latest)

--- store
if repair then
  call('ZREMRANGEBYSCORE', key, '0', format('%d', now))
end
full = now + limit.pace + remembered
if charge > 0 then
  local latest = 0
  if former >= 0 then
    latest = former - limit.pace - remembered
  end
  local token, ends = format('%d', -math.max(latest + 1, now)), format('%d', now + limit.pace)
  if charge == 1 then
    call('ZADD', key, token, '.', ends, own)
  else
    local words = { token, '.' }
    append_places(words, own, charge, ends)
    change_places('ZADD', key, words)
  end
end

--- hold
if limit.algorithm == 'concurrent' and how ~= 'reset' and not look then
  local key, units, holder, words = KEYS[number], tonumber(ARGV[argument + 1]), ARGV[argument + 2], {}
  if how ~= 'renew' then
    append_places(words, holder, -units, nil)
    change_places('ZREM', key, words)
    return asked
  end
  if (tonumber(call('ZSCORE', key, holder) or '') or 0) <= now then
    return asked, true
  end
  append_places(words, holder, units, format('%d', now + limit.pace))
  change_places('ZADD', key, words, 'XX')
  call('PEXPIREAT', key, format('%d', (now + limit.pace + remembered) / 1000 + grace))
  return asked
end
