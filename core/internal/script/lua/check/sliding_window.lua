-- Decides checks of sliding windows. Each check is a call of its own.
--
-- KEYS  a key for each check.
-- ARGV  for each row of checks that ask the same: 1 if they are charged or else 0, capacity, ceiling, pace, tick, numbers
--       and cost, how often each check is asked, and how many checks the row has. Then "at", if the instant of the
--       decision is to be told.
--
-- Returns for each check how many units its window and the one before had admitted, and how many ticks of its window are
-- over. A "+" behind it says that the key had no time to live and has one now, a "*" that nothing was done, since the state
-- is not as this limit leaves it: decide.lua has to be asked.
--
-- A key is a hash: how many events the current window and the one before have admitted, and the instant at which the current
-- one began. Windows begin at multiples of pace since 1970. Pace is their length in ticks, and tick is in microseconds. The
-- units that the window before has admitted count in the proportion in which it overlaps with the last full window. Ceiling
-- is the capacity less the headroom of the check. A limit with a name leaves its numbers beside the counts.

local call, try, format, tonumber = redis.call, redis.pcall, string.format, tonumber
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local grace = 2000
local reply, first, word = {}, 1, 1

while first <= #KEYS do
  local charged, capacity, ceiling = ARGV[word] == '1', tonumber(ARGV[word + 1]), tonumber(ARGV[word + 2])
  local pace, tick, numbers = tonumber(ARGV[word + 3]), tonumber(ARGV[word + 4]), ARGV[word + 5]
  local cost, times, checks = tonumber(ARGV[word + 6]), tonumber(ARGV[word + 7]), tonumber(ARGV[word + 8])
  local ticks = (now - now % tick) / tick
  local elapsed = ticks % pace
  local start = (ticks - elapsed) * tick
  local at = format('%d', start)

  for number = first, first + checks - 1 do
    local key, current, previous, same, expires, mark = KEYS[number], 0, 0, false, -1, ''
    local state = try('HMGET', key, 'current', 'previous', 'start', 'numbers')
    if state.err and not string.find(state.err, 'WRONGTYPE', 1, true) then
      error(state.err, 0)
    end
    if state.err then
      mark = '*'
    elseif state[1] or state[2] or state[3] then
      local began, age
      current, previous, began = tonumber(state[1]), tonumber(state[2]), tonumber(state[3])
      if current and previous and began and current >= 0 and current <= capacity and current % 1 == 0 and previous >= 0
        and previous <= capacity and previous % 1 == 0 and began >= 0 and began <= start and began % 1 == 0
        and (state[4] or '') == numbers then
        expires = began + 2 * pace * tick
        age = (start - began) / tick
        same = age == 0
        if age >= 2 * pace then
          current, previous = 0, 0
        elseif age >= pace then
          previous = current
          current = 0
        end
      else
        current, previous, mark = 0, 0, '*'
      end
    end

    if charged and mark == '' then
      local weighted = previous * (pace - elapsed)
      local room = ceiling - current - math.ceil(weighted / pace) -- exact, since both are whole and below 2^53
      local lives = expires
      local granted = math.min(times, (room - room % cost) / cost)
      if granted > 0 then
        local count = format('%d', current + cost * granted)
        lives = start + 2 * pace * tick
        if same then
          call('HSET', key, 'current', count)
        elseif numbers == '' then
          call('HSET', key, 'current', count, 'previous', format('%d', previous), 'start', at)
        else
          call('HSET', key, 'current', count, 'previous', format('%d', previous), 'start', at, 'numbers', numbers)
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
    reply[number] = format('%d %d %d', current, previous, elapsed) .. mark
  end
  first, word = first + checks, word + 9
end

if ARGV[word] == 'at' then
  reply[first] = format('%d', now)
end
return table.concat(reply, ' ')
