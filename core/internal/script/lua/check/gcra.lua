-- Decides checks of GCRA. Each check is a call of its own.
--
-- KEYS  a key for each check.
-- ARGV  for each row of checks that ask the same: 1 if they are charged or else 0, capacity, ceiling, pace, tick, numbers
--       and cost, how often each check is asked, and how many checks the row has. Then "at", if the instant of the
--       decision is to be told.
--
-- Returns for each check how many units its key had used before. A "+" behind it says that the key had no time to live and
-- has one now, a "*" that nothing was done, since the state is not as this limit leaves it: decide.lua has to be asked.
--
-- A key is a string: the theoretical arrival time in microseconds and, where more than one unit drains in a tick, the units
-- that are left at that instant. A limit with a name leaves its numbers behind the units. While reservations are open the
-- key is a hash instead, which has that text as tat: see notes.lua. The capacity is units, of which pace drain in each tick.
-- Tick is in microseconds. Ceiling is the capacity less the headroom of the check.

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

  for number = first, first + checks - 1 do
    local key, used, expires, mark, noted = KEYS[number], 0, -1, '', false
    local state = try('GET', key)
    if type(state) == 'table' then
      local fields = try('HMGET', key, 'tat')
      if not string.find((fields.err or state.err), 'WRONGTYPE', 1, true) then
        error(fields.err or state.err, 0)
      end
      state, noted = fields[1], true
      mark = state and '' or '*'
    end
    if state then
      local arrival, left, former = tonumber(state), 0, ''
      if not arrival then
        arrival, left, former = string.match(state, '^(%d+) (%d+) ?(.*)$')
        arrival, left = tonumber(arrival), tonumber(left)
      end
      if arrival and arrival >= 0 and arrival <= largest and arrival % 1 == 0 and left <= largest
        and former == numbers and left + (arrival - present) / tick * pace <= capacity then
        used = math.max(0, left + (arrival - present) / tick * pace)
        expires = arrival + left / pace * tick
      else
        mark = '*'
      end
      if noted and used == 0 then -- it becomes a string again
        mark = '*'
      end
    end

    if charged and mark == '' then
      local room, lives, text = ceiling - used, expires, nil
      local granted = math.min(times, (room - room % cost) / cost)
      if granted > 0 then
        local level = used + cost * granted
        local left = level % pace
        local arrival = present + (level - left) / pace * tick
        lives = arrival + left / pace * tick
        if arrival ~= written then
          written, digits = arrival, format('%d', arrival)
        end
        text = digits
        if numbers ~= '' then
          text = format('%s %d %s', text, left, numbers)
        elseif pace > 1 then
          text = format('%s %d', text, left)
        end
      end
      lives = (lives - lives % 1000000) / 1000
      local renew = lives ~= (expires - expires % 1000000) / 1000
      if not renew and expires >= 0 and now % 16 == 0 then -- the key may have lost its time to live
        local left = call('PTTL', key)
        renew = left == -1 or left < lives - now / 1000
        mark = left == -1 and '+' or ''
      end
      if text and noted then
        call('HSET', key, 'tat', text)
        text = nil
      end
      if text and renew then
        call('SET', key, text, 'PXAT', format('%d', lives + grace))
      elseif text then
        call('SET', key, text, 'KEEPTTL')
      elseif renew then
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
