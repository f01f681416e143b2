-- Decides checks of sliding windows, of which some reserve for a time: their charges are given back at its end, unless they
-- are settled before. Each check is a call of its own.
--
-- KEYS  for each check its key and, if it reserves for a time, that of the key's open reservations.
-- ARGV  for each row of checks that ask the same: 1 if they are charged or else 0, capacity, ceiling, pace, tick, numbers
--       and cost, how often each check is asked, how many checks the row has, and for how many microseconds they reserve, or 0
--       if it is for good. If it is for a time, their limit follows as settle.lua reads it, and for each check who reserves.
--
-- Returns for each check how many units its window and the one before had admitted, and how many ticks of its window are
-- over. At the end comes the instant of the decision. A "+" behind the third number says that the key had no time to live
-- and has one now, a "*" that nothing was done, since the state is not as this limit leaves it, or was reset, or
-- reservations have ended: decide.lua or reserve.lua has to be asked, and for later checks of the key, too.
--
-- A key is a hash: how many events the current window and the one before have admitted, and the instant at which the current
-- one began. Windows begin at multiples of pace since 1970. Pace is their length in ticks, and tick is in microseconds. The
-- units that the window before has admitted count in the proportion in which it overlaps with the last full window.
-- Reservations are members of a sorted set: reserve.lua explains them. Ceiling is the capacity less the headroom of the
-- check. A limit with a name leaves its numbers beside the counts.

local call, try, format, tonumber = redis.call, redis.pcall, string.format, tonumber
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local grace = 2000
local reply, unknown, first, word = {}, {}, 1, 1

while first <= #KEYS do
  local charged, capacity, ceiling = ARGV[word] == '1', tonumber(ARGV[word + 1]), tonumber(ARGV[word + 2])
  local pace, tick, numbers, limit = tonumber(ARGV[word + 3]), tonumber(ARGV[word + 4]), ARGV[word + 5], ARGV[word + 10]
  local cost, times, checks, lasts = tonumber(ARGV[word + 6]), tonumber(ARGV[word + 7]), tonumber(ARGV[word + 8]), tonumber(ARGV[word + 9])
  local ticks = (now - now % tick) / tick
  local elapsed = ticks % pace
  local start, recovers = (ticks - elapsed) * tick, now + math.max(lasts, 2 * pace * tick)
  local at = format('%d', start)
  word = word + (lasts > 0 and 11 or 10)

  for _ = 1, checks do
    local key, reserved, left, current, previous, same, expires, mark = KEYS[first], KEYS[first + 1], -2, 0, 0, false, -1, ''
    local state = try('HMGET', key, 'current', 'previous', 'start', 'numbers', 'past')
    if state[1] or state[2] or state[3] or state[5] or state.err then
      local began, age
      current, previous, began = tonumber(state[1]), tonumber(state[2]), tonumber(state[3])
      if current and previous and began and current >= 0 and current <= capacity and current % 1 == 0 and previous >= 0
        and previous <= capacity and previous % 1 == 0 and began >= 0 and began <= start and began % 1 == 0
        and (state[4] or '') == numbers and (state[5] or '') == '' then
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
        current, previous, unknown[key] = 0, 0, true
      end
    end
    if lasts > 0 then
      left = call('PTTL', reserved)
      unknown[key] = unknown[key] or left ~= -2 and try('ZCOUNT', reserved, '-inf', format('%d', now)) ~= 0
    end

    if unknown[key] then
      mark = '*'
    elseif charged then
      local room = ceiling - current - math.ceil(previous * (pace - elapsed) / pace) -- exact, since both are whole and below 2^53
      local granted, lives = math.min(times, (room - room % cost) / cost), expires
      local count = current + cost * granted
      if granted > 0 then
        lives = start + 2 * pace * tick
        if same then
          call('HSET', key, 'current', format('%d', count))
        elseif numbers == '' then
          call('HSET', key, 'current', format('%d', count), 'previous', format('%d', previous), 'start', at)
        else
          call('HSET', key, 'current', format('%d', count), 'previous', format('%d', previous), 'start', at, 'numbers', numbers)
        end
      end
      lives = (lives - lives % 1000000) / 1000
      local kept = lives == (expires - expires % 1000000) / 1000
      local rest = kept and expires >= 0 and now % 16 == 0 and call('PTTL', key) or lives -- it may have lost its time to live
      mark = rest == -1 and '+' or ''
      if not kept or rest == -1 or rest < lives - now / 1000 then
        call('PEXPIREAT', key, format('%d', lives + grace))
      end
      if granted > 0 and lasts > 0 then
        local member = format('%s %d %d 0 %d %s', ARGV[word], now, count, cost * granted, limit)
        call('ZADD', reserved, format('%d', now + lasts), member)
        if left < (recovers - recovers % 1000000 - now) / 1000 then
          call('PEXPIREAT', reserved, format('%d', (recovers - recovers % 1000000) / 1000 + grace))
        end
      end
    end
    reply[#reply + 1] = format('%d %d %d', current, previous, elapsed) .. mark
    first, word = first + (lasts > 0 and 2 or 1), word + (lasts > 0 and 1 or 0)
  end
end

return table.concat(reply, ' ') .. format(' %d', now)
