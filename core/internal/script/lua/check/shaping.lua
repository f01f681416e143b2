-- Decides checks of shaped queues. Each check is a call of its own.
--
-- KEYS  a key for each check.
-- ARGV  for each row of checks that ask the same: 1 if they are charged or else 0, capacity, ceiling, pace, tick, numbers
--       and cost, how often each check is asked, and how many checks the row has. Then "at", if the instant of the
--       decision is to be told.
--
-- Returns for each check how many units its key had used before. A "+" behind it says that the key had no time to live and
-- has one now, a "*" that nothing was done, since the state is not as this limit leaves it: decide.lua has to be asked.
--
-- A key is a hash: the instant at which the queue will be free and, where more than one unit drains in a tick, the units
-- that are left at that instant. The capacity is units, of which pace drain in each tick. Tick is in microseconds. Ceiling
-- is the capacity less the headroom of the check. A limit with a name leaves its numbers beside the instant.

local call, try, format, tonumber = redis.call, redis.pcall, string.format, tonumber
local largest = 9007199254740991
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local grace = 2000
local reply, first, word = {}, 1, 1

while first <= #KEYS do
  local charged, capacity, ceiling = ARGV[word] == '1', tonumber(ARGV[word + 1]), tonumber(ARGV[word + 2])
  local pace, tick, numbers = tonumber(ARGV[word + 3]), tonumber(ARGV[word + 4]), ARGV[word + 5]
  local cost, times, checks = tonumber(ARGV[word + 6]), tonumber(ARGV[word + 7]), tonumber(ARGV[word + 8])
  local present = now - now % tick

  for number = first, first + checks - 1 do
    local key, used, expires, mark = KEYS[number], 0, -1, ''
    local state = try('HMGET', key, 'next_free', 'left', 'numbers')
    if state.err and not string.find(state.err, 'WRONGTYPE', 1, true) then
      error(state.err, 0)
    end
    if state.err then
      mark = '*'
    elseif state[1] or state[2] then
      local free, left = tonumber(state[1]), tonumber(state[2] or '0')
      if free and left and free >= 0 and free <= largest and free % 1 == 0 and left >= 0 and left <= largest and left % 1 == 0
        and (state[3] or '') == numbers and left + (free - present) / tick * pace <= capacity then
        used = math.max(0, left + (free - present) / tick * pace)
        expires = free + left / pace * tick
      else
        mark = '*'
      end
    end

    if charged and mark == '' then
      local room, lives = ceiling - used, expires
      local granted = math.min(times, (room - room % cost) / cost)
      if granted > 0 then
        local level = used + cost * granted
        local left = level % pace
        local free = present + (level - left) / pace * tick
        lives = free + left / pace * tick
        if numbers ~= '' then
          call('HSET', key, 'next_free', format('%d', free), 'left', format('%d', left), 'numbers', numbers)
        elseif pace > 1 then
          call('HSET', key, 'next_free', format('%d', free), 'left', format('%d', left))
        else
          call('HSET', key, 'next_free', format('%d', free))
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
