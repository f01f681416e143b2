-- Decides checks of fixed windows, of which some reserve for a time: their charges are given back at its end, unless they
-- are settled before. Each check is a call of its own.
--
-- KEYS  for each check its key and, if it reserves for a time, that of the key's open reservations.
-- ARGV  for each row of checks that ask the same: 1 if they are charged or else 0, capacity, ceiling, pace, tick, numbers
--       and cost, how often each check is asked, how many checks the row has, and for how many microseconds they reserve, or 0
--       if it is for good. If it is for a time, their limit follows as settle.lua reads it, and for each check who reserves.
--
-- Returns for each check how many units its window had admitted before, and for how long it is still open. At the end comes
-- the instant of the decision. A "+" behind the second number says that the key had no time to live and has one now, a "*"
-- that nothing was done, since the state is not as this limit leaves it, or was reset, or reservations have ended:
-- decide.lua or reserve.lua has to be asked, and for later checks of the key, too.
--
-- A key is a hash: how many events the window has admitted, and when it opened. It closes after pace, in microseconds.
-- Reservations are members of a sorted set: reserve.lua explains them. Ceiling is the capacity less the headroom of the
-- check. A limit with a name leaves its numbers beside the count.

local call, try, format, tonumber = redis.call, redis.pcall, string.format, tonumber
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local grace = 2000
local reply, unknown, first, word = {}, {}, 1, 1

while first <= #KEYS do
  local charged, capacity, ceiling = ARGV[word] == '1', tonumber(ARGV[word + 1]), tonumber(ARGV[word + 2])
  local pace, numbers, limit = tonumber(ARGV[word + 3]), ARGV[word + 5], ARGV[word + 10]
  local cost, times, checks, lasts = tonumber(ARGV[word + 6]), tonumber(ARGV[word + 7]), tonumber(ARGV[word + 8]), tonumber(ARGV[word + 9])
  local recovers = now + math.max(lasts, 2 * pace)
  word = word + (lasts > 0 and 11 or 10)

  for _ = 1, checks do
    local key, reserved, left, used, open, expires, mark = KEYS[first], KEYS[first + 1], -2, 0, 0, -1, ''
    local state = try('HMGET', key, 'count', 'start', 'numbers', 'past')
    if state[1] or state[2] or state[4] or state.err then
      local count, start = tonumber(state[1]), tonumber(state[2])
      if not (count and start and count > 0 and count % 1 == 0 and start >= 0 and start <= now and start % 1 == 0
        and (state[3] or '') == numbers and (state[4] or '') == '' and count <= capacity) then
        unknown[key] = true
      elseif start + pace > now then
        used, open, expires = count, start + pace - now, start + pace
      end
    end
    if lasts > 0 then
      left = call('PTTL', reserved)
      unknown[key] = unknown[key] or left ~= -2 and try('ZCOUNT', reserved, '-inf', format('%d', now)) ~= 0
    end

    if unknown[key] then
      mark = '*'
    elseif charged then
      local room, lives = ceiling - used, expires
      local granted = math.min(times, (room - room % cost) / cost)
      if granted > 0 then
        lives = open > 0 and lives or now + pace
        local count, start = format('%d', used + cost * granted), format('%d', lives - pace)
        if numbers == '' then
          call('HSET', key, 'count', count, 'start', start)
        else
          call('HSET', key, 'count', count, 'start', start, 'numbers', numbers)
        end
      end
      lives = (lives - lives % 1000000) / 1000
      local same = lives == (expires - expires % 1000000) / 1000
      local rest = same and expires >= 0 and now % 16 == 0 and call('PTTL', key) or lives -- it may have lost its time to live
      mark = rest == -1 and '+' or ''
      if not same or rest == -1 or rest < lives - now / 1000 then
        call('PEXPIREAT', key, format('%d', lives + grace))
      end
      if granted > 0 and lasts > 0 then
        local member = format('%s %d %d 0 %d %s', ARGV[word], now, used + cost * granted, cost * granted, limit)
        call('ZADD', reserved, format('%d', now + lasts), member)
        if left < (recovers - recovers % 1000000 - now) / 1000 then
          call('PEXPIREAT', reserved, format('%d', (recovers - recovers % 1000000) / 1000 + grace))
        end
      end
    end
    reply[#reply + 1] = format('%d %d', used, open) .. mark
    first, word = first + (lasts > 0 and 2 or 1), word + (lasts > 0 and 1 or 0)
  end
end

return table.concat(reply, ' ') .. format(' %d', now)
