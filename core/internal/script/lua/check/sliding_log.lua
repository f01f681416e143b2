-- Decides checks of sliding logs. Each check is a call of its own.
--
-- KEYS  a key for each check.
-- ARGV  for each row of checks that ask the same: 1 if they are charged or else 0, capacity, ceiling, pace, tick, numbers
--       and cost, how often each check is asked, and how many checks the row has. Then "at", if the instant of the
--       decision is to be told.
--
-- Returns for each check how many units its window had admitted, and for how long the oldest of them counts, how long the
-- first check that does not fit has to wait, and for how long the newest unit counts. A "+" behind it says that the key had
-- no time to live and has one now, a "*" that nothing was done, since the state is not as this limit leaves it: decide.lua
-- has to be asked.
--
-- A key is a list of the instants at which units were admitted, the oldest first. Only a charge removes instants that are as
-- old as pace, the length of the window in microseconds. Ceiling is the capacity less the headroom of the check. The
-- instants do not tell whether a limit with a name has had another window.

local call, try, format, tonumber = redis.call, redis.pcall, string.format, tonumber
local unpack = table.unpack or unpack -- Lua 5.2 and later have it in table
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local grace = 2000
local reply, first, word = {}, 1, 1

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

while first <= #KEYS do
  local charged, capacity, ceiling = ARGV[word] == '1', tonumber(ARGV[word + 1]), tonumber(ARGV[word + 2])
  local pace, numbers = tonumber(ARGV[word + 3]), ARGV[word + 5]
  local cost, times, checks = tonumber(ARGV[word + 6]), tonumber(ARGV[word + 7]), tonumber(ARGV[word + 8])
  local at = format('%d', now)

  for number = first, first + checks - 1 do
    local key, used, expires, mark = KEYS[number], 0, -1, ''
    local oldest, wait, newest = 0, 0, 0
    local length, expired = try('LLEN', key), 0
    if type(length) == 'table' then
      if not string.find(length.err, 'WRONGTYPE', 1, true) then
        error(length.err, 0)
      end
      mark = '*'
    elseif length > 0 then
      expired = first_after(key, now - pace, length)
      used = expired and length - expired or 0
      if used > 0 and used <= capacity then
        oldest, newest = instant(key, expired), instant(key, -1)
      end
      if not expired or used > capacity or used > 0 and not (oldest and newest and oldest <= newest) then
        mark, used, oldest, newest = '*', 0, 0, 0
      elseif used > 0 then
        expires = newest + pace
        oldest, newest = oldest + pace - now, newest + pace - now
      end
    end

    local room = ceiling - used
    local granted = cost > 0 and room > 0 and (room - room % cost) / cost or 0
    local missing = cost - room + granted * cost -- the units that the first check that does not fit lacks
    if mark == '' and granted < times and missing > 0 and cost <= ceiling then
      wait = pace
      if missing <= used then
        local since = instant(key, expired + missing - 1)
        if since and since > now - pace then
          wait = since + pace - now
        else -- the log is not in order
          mark, used, oldest, newest = '*', 0, 0, 0
        end
      end
    end

    if charged and mark == '' then
      local lives = expires
      granted = math.min(times, granted)
      if granted > 0 then
        lives = now + pace
        local units = {}
        for unit = 1, math.min(1000, cost * granted) do
          units[unit] = at
        end
        for pushed = 0, cost * granted - 1, 1000 do -- Lua cannot unpack many more
          call('RPUSH', key, unpack(units, 1, math.min(1000, cost * granted - pushed)))
        end
        if expired > 0 then -- behind that, so that the key is never empty: in a slot that is being moved it could not be made again
          call('LTRIM', key, format('%d', expired), '-1')
        end
      end
      lives = (lives - lives % 1000000) / 1000
      local renew = lives ~= (expires - expires % 1000000) / 1000
      if not renew and expires >= 0 and (numbers ~= '' or now % 16 == 0) then -- the key may have lost its time to live
        local left = call('PTTL', key)
        renew = left == -1 or left < lives - now / 1000
        mark = left == -1 and '+' or ''
      end
      if renew then
        call('PEXPIREAT', key, format('%d', lives + grace))
      end
    end
    reply[number] = format('%d %d %d %d', used, oldest, wait, newest) .. mark
  end
  first, word = first + checks, word + 9
end

if ARGV[word] == 'at' then
  reply[first] = format('%d', now)
end
return table.concat(reply, ' ')
