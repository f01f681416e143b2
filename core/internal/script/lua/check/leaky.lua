-- Decides checks of leaky buckets. Each check is a call of its own.
--
-- KEYS  a key for each check.
-- ARGV  for each row of checks that ask the same: 1 if they are charged or else 0, capacity, ceiling, pace, tick, numbers
--       and cost, how often each check is asked, and how many checks the row has. Then "at", if the instant of the
--       decision is to be told.
--
-- Returns for each check how many units its key had used before. A "+" behind it says that the key had no time to live and
-- has one now, a "*" that nothing was done, since the state is not as this limit leaves it: decide.lua has to be asked.
--
-- A key is a hash: the level of the bucket, and the instant at which the bucket had it. A level and its capacity are units,
-- of which pace drain in each tick. Tick is in microseconds. Ceiling is the capacity less the headroom of the check. A limit
-- with a name leaves its numbers beside the level.

local call, try, format, tonumber = redis.call, redis.pcall, string.format, tonumber
local largest = 9007199254740991
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local grace = 2000
local reply, first, word = {}, 1, 1
local written, digits

while first <= #KEYS do
  local charged, capacity, ceiling = ARGV[word] == '1', tonumber(ARGV[word + 1]), tonumber(ARGV[word + 2])
  local pace, tick, numbers = tonumber(ARGV[word + 3]), tonumber(ARGV[word + 4]), ARGV[word + 5]
  local cost, times, checks = tonumber(ARGV[word + 6]), tonumber(ARGV[word + 7]), tonumber(ARGV[word + 8])
  local present = now - now % tick
  local at = format('%d', present)

  for number = first, first + checks - 1 do
    local key, used, expires, mark = KEYS[number], 0, -1, ''
    local state = try('HMGET', key, 'level', 'last_leak', 'numbers')
    if state.err and not string.find(state.err, 'WRONGTYPE', 1, true) then
      error(state.err, 0)
    end
    if state.err then
      mark = '*'
    elseif state[1] or state[2] then
      local level, since = tonumber(state[1]), tonumber(state[2])
      if level and since and level >= 0 and level <= largest and level % 1 == 0 and since >= 0 and since <= present
        and since % 1 == 0 and (state[3] or '') == numbers and level - (present - since) / tick * pace <= capacity then
        used = math.max(0, level - (present - since) / tick * pace)
        expires = since + level / pace * tick
      else
        mark = '*'
      end
    end

    if charged and mark == '' then
      local room, lives = ceiling - used, expires
      local granted = math.min(times, (room - room % cost) / cost)
      if granted > 0 then
        local level = used + cost * granted
        lives = present + level / pace * tick
        if level ~= written then
          written, digits = level, format('%d', level)
        end
        if numbers == '' then
          call('HSET', key, 'level', digits, 'last_leak', at)
        else
          call('HSET', key, 'level', digits, 'last_leak', at, 'numbers', numbers)
        end
      end
      lives = (lives - lives % 1000000) / 1000
      local renew = lives ~= (expires - expires % 1000000) / 1000
      if not renew and expires >= 0 and now % 16 == 0 then -- the key may have lost its time to live
        local left = call('PTTL', key)
        renew = left == -1 or left < lives - now / 1000
        mark = left == -1 and '+' or ''
      end
      if renew then
        call('PEXPIREAT', key, format('%d', lives + grace))
      end
    end
    reply[number] = (used > 0 and format('%d', used) or '0') .. mark
  end
  first, word = first + checks, word + 9
end

if ARGV[word] == 'at' then
  reply[first] = format('%d', now)
end
return table.concat(reply, ' ')
