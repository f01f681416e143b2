-- Settles charges of sliding windows at known instants. Each settlement is a request of its own.
--
-- KEYS  for each settlement its key and, if the charge was reserved for a time, that of the key's open reservations.
-- ARGV  for each row of settlements of the same limit: capacity, pace, tick and numbers, "?" to be told the used units
--       afterwards, how many settlements the row has, and 1 if they were reserved for a time, or else 0. Then for each of
--       these the events to add or, below 0, to give back, and the instant of the charge; and if it was reserved for a time,
--       its member of the open reservations: see reserve.lua.
--
-- Returns for each settlement a 0 or, if Redis refused it, a 1. How many units its window and the one before have admitted,
-- and how many ticks of its window are over, follow after commas if they were asked for. A "*" says that nothing was done,
-- since the state is not as this limit leaves it or was reset, or reservations have ended: settle.lua or close.lua has to be
-- asked. A line of its own says why Redis refused the first of these.
--
-- A key is a hash: how many events the current window and the one before have admitted, and the instant at which the current
-- one began. Windows begin at multiples of pace since 1970. Pace is their length in ticks, and tick is in microseconds. A
-- settlement changes the window of the charge, unless that no longer counts.

local call, try, format, tonumber = redis.call, redis.pcall, string.format, tonumber
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local grace = 2000
local reply, refusal, first, word = {}, nil, 1, 1

while first <= #KEYS do
  local capacity, pace, tick = tonumber(ARGV[word]), tonumber(ARGV[word + 1]), tonumber(ARGV[word + 2])
  local numbers, asked, rows, reserved = ARGV[word + 3], ARGV[word + 4] == '?', tonumber(ARGV[word + 5]), ARGV[word + 6] == '1'
  local ticks = (now - now % tick) / tick
  local elapsed = ticks % pace
  local start = (ticks - elapsed) * tick
  word = word + 7

  for _ = 1, rows do
    local key, units, at = KEYS[first], tonumber(ARGV[word]), tonumber(ARGV[word + 1])
    local current, previous, expires, result, done = 0, 0, -1, nil, nil
    local state = try('HMGET', key, 'current', 'previous', 'start', 'numbers', 'past')
    if state[1] or state[2] or state[3] or state.err then
      local began
      current, previous, began = tonumber(state[1]), tonumber(state[2]), tonumber(state[3])
      if current and previous and began and current >= 0 and current <= capacity and current % 1 == 0 and previous >= 0
        and previous <= capacity and previous % 1 == 0 and began >= 0 and began <= start and began % 1 == 0
        and (state[4] or '') == numbers and (state[5] or '') == '' and at <= now then
        local age = (start - began) / tick
        if age >= 2 * pace then
          current, previous = 0, 0
        elseif age >= pace then
          previous = current
          current = 0
        end
        expires = current + previous > 0 and began + 2 * pace * tick or -1
      else
        result = '0*'
      end
    end

    if expires < 0 and units > 0 then
      result = '0*'
    elseif reserved and not result and (try('ZCOUNT', KEYS[first + 1], '-inf', format('%d', now)) ~= 0 or try('ZREM', KEYS[first + 1], ARGV[word + 2]) ~= 1) then
      result = '0*'
    elseif expires >= 0 then
      local age = (start - at + at % tick) / tick -- of the window since the charge, in ticks
      local now_current, now_previous = current, previous
      if age <= 0 then
        local room = capacity - current - math.ceil(previous * (pace - elapsed) / pace)
        now_current = current + math.max(-current, units > 0 and math.max(0, math.min(units, room)) or units)
      elseif age <= pace then
        now_previous = math.max(0, previous + math.min(units, capacity - previous))
      end
      if now_current + now_previous == 0 then
        done = try('UNLINK', key)
      elseif now_current ~= current or now_previous ~= previous then
        local lives = start + 2 * pace * tick
        done = try('HSET', key, 'current', format('%d', now_current), 'previous', format('%d', now_previous), 'start', format('%d', start))
        if type(done) == 'number' and lives - lives % 1000000 > expires - expires % 1000000 then
          call('PEXPIREAT', key, format('%d', (lives - lives % 1000000) / 1000 + grace))
        end
      end
      current, previous = now_current, now_previous
      if type(done) == 'table' then
        result, refusal = '1', refusal or done.err
      end
    end
    reply[#reply + 1] = result or asked and format('0,%d,%d,%d', current, previous, elapsed) or '0'
    first, word = first + (reserved and 2 or 1), word + (reserved and 3 or 2)
  end
end
return table.concat(reply, ' ') .. (refusal and '\n' .. refusal or '')
