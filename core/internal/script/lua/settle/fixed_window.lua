-- Settles charges of fixed windows at known instants. Each settlement is a request of its own.
--
-- KEYS  for each settlement its key and, if the charge was reserved for a time, that of the key's open reservations.
-- ARGV  for each row of settlements of the same limit: capacity, pace, tick and numbers, "?" to be told the used units
--       afterwards, how many settlements the row has, and 1 if they were reserved for a time, or else 0. Then for each of
--       these the events to add or, below 0, to give back, and the instant of the charge; and if it was reserved for a time,
--       its member of the open reservations: see reserve.lua.
--
-- Returns for each settlement a 0 or, if Redis refused it, a 1. How many units the window has admitted, and for how long it
-- is still open, follow after commas if they were asked for. A "*" says that nothing was done, since the state is not as
-- this limit leaves it or was reset, or reservations have ended: settle.lua or close.lua has to be asked. A line of its own
-- says why Redis refused the first of these.
--
-- A key is a hash: how many events the window has admitted, and when it opened. It closes after pace, in microseconds. A
-- charge in a window that has closed is not there to be given back, and weighs on no client.

local call, try, format, tonumber = redis.call, redis.pcall, string.format, tonumber
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local grace = 2000
local reply, refusal, first, word = {}, nil, 1, 1

while first <= #KEYS do
  local capacity, pace, numbers = tonumber(ARGV[word]), tonumber(ARGV[word + 1]), ARGV[word + 3]
  local asked, rows, reserved = ARGV[word + 4] == '?', tonumber(ARGV[word + 5]), ARGV[word + 6] == '1'
  word = word + 7

  for _ = 1, rows do
    local key, units, at, used, open, result = KEYS[first], tonumber(ARGV[word]), tonumber(ARGV[word + 1]), 0, 0, nil
    local state = try('HMGET', key, 'count', 'start', 'numbers', 'past')
    if state[1] or state[2] or state.err then
      local count, start = tonumber(state[1]), tonumber(state[2])
      if not (count and start and count > 0 and count % 1 == 0 and start >= 0 and start <= now and start % 1 == 0
        and (state[3] or '') == numbers and count <= capacity and at <= now) or (state[4] or '') ~= '' then
        result = '0*'
      elseif start + pace > now then
        used, open = count, start + pace - now
      end
    end

    if reserved and not result and (try('ZCOUNT', KEYS[first + 1], '-inf', format('%d', now)) ~= 0 or try('ZREM', KEYS[first + 1], ARGV[word + 2]) ~= 1) then
      result = '0*'
    end
    local charge = math.max(-used, math.min(units, capacity - used))
    if not result and open > 0 and at >= now + open - pace and charge ~= 0 then
      used = used + charge
      local done
      if used > 0 then
        done = try('HSET', key, 'count', format('%d', used))
      else
        done, open = try('UNLINK', key), 0
      end
      if type(done) == 'table' then
        result, refusal = '1', refusal or done.err
      end
    end
    reply[#reply + 1] = result or asked and format('0,%d,%d', used, open) or '0'
    first, word = first + (reserved and 2 or 1), word + (reserved and 3 or 2)
  end
end
return table.concat(reply, ' ') .. (refusal and '\n' .. refusal or '')
