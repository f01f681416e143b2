-- Settles charges of sliding logs at known instants. Each settlement is a request of its own.
--
-- KEYS  for each settlement its key and, if the charge was reserved for a time, that of the key's open reservations.
-- ARGV  for each row of settlements of the same limit: capacity, pace, tick and numbers, "?" to be told the used units
--       afterwards, how many settlements the row has, and 1 if they were reserved for a time, or else 0. Then for each of
--       these the units to add or, below 0, to give back, and the instant of the charge; and if it was reserved for a time,
--       its member of the open reservations: see reserve.lua.
--
-- Returns for each settlement a 0 or, if Redis refused it, a 1. How many units the window has admitted, for how long the
-- oldest of them counts, a 0, and for how long the newest unit counts, follow after commas if they were asked for. A "*"
-- says that nothing was done, since the state is not as this limit leaves it, more than a thousand instants would have to be
-- written, or reservations have ended: settle.lua or close.lua has to be asked. A line of its own says why Redis refused the
-- first of these.
--
-- A key is a list of the instants at which units were admitted, the oldest first. They count until they are as old as pace,
-- the length of the window in microseconds. Units that are given back are taken out at the instant of their charge, and
-- units that are added have that instant, too. The instants do not tell whether a limit with a name has had a longer window.

local call, try, format, tonumber = redis.call, redis.pcall, string.format, tonumber
local unpack = table.unpack or unpack -- Lua 5.2 and later have it in table
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local grace = 2000
local reply, refusal, first, word = {}, nil, 1, 1

-- instant returns the instant at an index of a log, or nil if that makes no sense.
local function instant(key, index)
  local at = tonumber(call('LINDEX', key, format('%d', index)))
  return at and at >= 0 and at <= now and at % 1 == 0 and at or nil
end

-- first_after returns the index of the first instant after a moment, or nil if one makes no sense. It doubles the step from
-- the head, where the expired ones are, and then halves it.
local function first_after(key, moment, length)
  local low, high, step = 0, 0, 1 -- none before low is after the moment, and the one at high is
  while high < length do
    local at = instant(key, high)
    if not at then
      return nil
    elseif at > moment then
      break
    end
    low, high, step = high + 1, high + step, step * 2
  end
  high = math.min(high, length)
  while low < high do
    local middle = (low + high - (low + high) % 2) / 2
    local at = instant(key, middle)
    if not at then
      return nil
    elseif at > moment then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

-- insert puts an instant several times at a place of a log of which the first ones have expired. It returns the reply of Redis.
-- The key is never empty: in a slot that is being moved it could not be made again.
local function insert(key, at, times, place, expired, length)
  local later = call('LRANGE', key, format('%d', place), '-1')
  for unit = #later, 1, -1 do
    later[unit + times] = later[unit]
  end
  for unit = 1, times do
    later[unit] = at
  end
  if place > expired then
    call('LTRIM', key, '0', format('%d', place - 1))
  else
    expired = length
  end
  local done = try('RPUSH', key, unpack(later))
  if type(done) == 'number' and expired > 0 then
    call('LTRIM', key, format('%d', expired), '-1')
  end
  return done
end

while first <= #KEYS do
  local capacity, pace, numbers = tonumber(ARGV[word]), tonumber(ARGV[word + 1]), ARGV[word + 3]
  local asked, rows, reserved = ARGV[word + 4] == '?', tonumber(ARGV[word + 5]), ARGV[word + 6] == '1'
  word = word + 7

  for _ = 1, rows do
    local key, units, at = KEYS[first], tonumber(ARGV[word]), tonumber(ARGV[word + 1])
    local length, expired, place, result, done = try('LLEN', key), 0, 0, nil, 0
    if at > now or type(length) == 'table' then
      length, result = 0, '0*'
    elseif length > 0 then
      expired = first_after(key, now - pace, length)
      place = units > 0 and first_after(key, at, length) or length
      result = not (expired and length - expired <= capacity and instant(key, -1)) and '0*' or nil
    end
    if units > 0 and at > now - pace and not result then
      units = math.min(units, capacity - length + expired)
      result = units + length - place > 1000 and '0*' or nil
    end

    if reserved and not result and (try('ZCOUNT', KEYS[first + 1], '-inf', format('%d', now)) ~= 0 or try('ZREM', KEYS[first + 1], ARGV[word + 2]) ~= 1) then
      result = '0*'
    elseif units < 0 and not result then
      done = try('LREM', key, ARGV[word], ARGV[word + 1])
    elseif units > 0 and at > now - pace and not result then
      done = insert(key, ARGV[word + 1], units, place, expired, length)
    end
    if type(done) == 'table' then
      result, refusal = '1', refusal or done.err
    elseif ARGV[word] ~= '0' and not result then
      local newest = tonumber(call('LINDEX', key, '-1'))
      local lives = newest and (newest + pace - (newest + pace) % 1000000) / 1000
      if newest and (numbers == '' or call('PTTL', key) < lives - now / 1000) then
        call('PEXPIREAT', key, format('%d', lives + grace))
      end
    end
    if asked and not result then
      length = call('LLEN', key)
      expired = first_after(key, now - pace, length) or length
      local oldest, newest = instant(key, expired), instant(key, -1)
      local lasts = oldest and oldest + pace - now or 0
      result = format('0,%d,%d,0,%d', length - expired, lasts, oldest and newest and newest + pace - now or 0)
    end
    reply[#reply + 1] = result or '0'
    first, word = first + (reserved and 2 or 1), word + (reserved and 3 or 2)
  end
end
return table.concat(reply, ' ') .. (refusal and '\n' .. refusal or '')
