-- Decides checks of fixed windows. Each check is a call of its own.
--
-- KEYS  a key for each check.
-- ARGV  for each row of checks that ask the same: 1 if they are charged or else 0, capacity, ceiling, pace, tick, numbers
--       and cost, how often each check is asked, and how many checks the row has. Then "at", if the instant of the
--       decision is to be told.
--
-- Returns for each check how many units its window had admitted before, and for how long the window stays open. A "+" behind
-- it says that the key had no time to live and has one now, a "*" that nothing was done, since the state is not as this
-- limit leaves it: decide.lua has to be asked.
--
-- A key is a hash: how many events the window has admitted, and the instant at which it opened. Pace is the length of the
-- window in microseconds. Ceiling is the capacity less the headroom of the check. A limit with a name leaves its numbers
-- beside the count.

local call, try, format, tonumber = redis.call, redis.pcall, string.format, tonumber
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local grace = 2000
local reply, first, word = {}, 1, 1

while first <= #KEYS do
  local charged, capacity, ceiling = ARGV[word] == '1', tonumber(ARGV[word + 1]), tonumber(ARGV[word + 2])
  local pace, numbers = tonumber(ARGV[word + 3]), ARGV[word + 5]
  local cost, times, checks = tonumber(ARGV[word + 6]), tonumber(ARGV[word + 7]), tonumber(ARGV[word + 8])

  for number = first, first + checks - 1 do
    local key, used, open, expires, mark = KEYS[number], 0, 0, -1, ''
    local state = try('HMGET', key, 'count', 'start', 'numbers')
    if state.err and not string.find(state.err, 'WRONGTYPE', 1, true) then
      error(state.err, 0)
    end
    if state.err then
      mark = '*'
    elseif state[1] or state[2] then
      local count, start = tonumber(state[1]), tonumber(state[2])
      if count and start and count > 0 and count % 1 == 0 and start >= 0 and start <= now and start % 1 == 0
        and (state[3] or '') == numbers and count <= capacity then
        if start + pace > now then
          used, open, expires = count, start + pace - now, start + pace
        end
      else
        mark = '*'
      end
    end

    if charged and mark == '' then
      local room, lives = ceiling - used, expires
      local granted = math.min(times, (room - room % cost) / cost)
      if granted > 0 then
        local count = format('%d', used + cost * granted)
        if open > 0 then
          call('HSET', key, 'count', count)
        else
          lives = now + pace
          if numbers == '' then
            call('HSET', key, 'count', count, 'start', format('%d', now))
          else
            call('HSET', key, 'count', count, 'start', format('%d', now), 'numbers', numbers)
          end
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
    reply[number] = format('%d %d', used, open) .. mark
  end
  first, word = first + checks, word + 9
end

if ARGV[word] == 'at' then
  reply[first] = format('%d', now)
end
return table.concat(reply, ' ')
