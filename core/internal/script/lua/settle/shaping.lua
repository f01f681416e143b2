-- Settles reservations of shaped queues. Each settlement is a request of its own.
--
-- KEYS  for each settlement its key and, if the charge was reserved for a time, that of the key's open reservations.
-- ARGV  for each row of settlements of the same limit: capacity, pace, tick and numbers, "?" to be told the used units
--       afterwards, how many settlements the row has, and 1 if they were reserved for a time, or else 0. Then for each of
--       these the units to add or, below 0, to give back, the number of the reservation, the name of the text that has its
--       slot unless the newest has it, the instant of the charge, and the units used then, or nothing if others may have
--       queued behind it; and if it was reserved for a time, its member of the open reservations: see reserve.lua.
--
-- Returns for each settlement a 0 or, if Redis refused it, a 1. The used units follow after a comma if they were asked for.
-- A "*" says that nothing was done, since the state is not as this limit leaves it, more texts of its notes have to change,
-- or reservations have ended: settle.lua or close.lua has to be asked. A line of its own says why Redis refused the first of
-- these.
--
-- A key is a hash: the instant at which the queue will be free and, where more than one unit drains in a tick, the units
-- that are left at that instant. Beside these it has notes of the reservations that are open: notes.lua explains them.

local call, try, format, tonumber, match = redis.call, redis.pcall, string.format, tonumber, string.match
local largest, letters = 9007199254740991, 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local grace = 2000
local reply, refusal, first, word = {}, nil, 1, 1

-- take takes units from slots, the newest first. It returns the slots, and how many units they have not had.
local function take(slots, units)
  local below, has, above = match(slots, '^(.*%a)(%d*[1-9]%d*)([%a0]*)$')
  while below and units > 0 do
    local left = math.max(0, has - units)
    slots, units = below .. format('%d', left) .. above, units - has + left
    below, has, above = match(slots, '^(.*%a)(%d*[1-9]%d*)([%a0]*)$')
  end
  return slots, units
end

while first <= #KEYS do
  local capacity, pace, tick = tonumber(ARGV[word]), tonumber(ARGV[word + 1]), tonumber(ARGV[word + 2])
  local numbers, asked, rows, reserved = ARGV[word + 3], ARGV[word + 4] == '?', tonumber(ARGV[word + 5]), ARGV[word + 6] == '1'
  local present = now - now % tick
  word = word + 7

  for _ = 1, rows do
    local key, units, order, name = KEYS[first], tonumber(ARGV[word]), tonumber(ARGV[word + 1]), ARGV[word + 2]
    local result, used, expires, charge = nil, 0, 0, 0
    local lowest, at, noted, following, counted, newest, own, missing
    local state = try('HMGET', key, 'next_free', 'left', 'numbers', 'low', 'newest', name)
    if state[1] or state[2] or state.err then
      local free, left = tonumber(state[1]), tonumber(state[2] or '0')
      if free and left and free >= 0 and free <= largest and free % 1 == 0 and left >= 0 and left <= largest and left % 1 == 0
        and (state[3] or '') == numbers and left + (free - present) / tick * pace <= capacity then
        used = math.max(0, left + (free - present) / tick * pace)
        expires = free + left / pace * tick
      else
        result = '0*'
      end
    end

    if not result and (used > 0 or units > 0) then
      lowest, at, noted, following, counted = match(state[4] or '', '^(%d+) (%d+) (%d+) (%d+) ?(.*)$')
      result = (counted ~= numbers or order >= tonumber(following)) and '0*' or nil
    end
    if lowest and not result then
      -- Units that have drained since the latest note are taken from the newest slots.
      local least = math.max(0, math.min(used, lowest - math.max(0, present - at + at % tick) / tick * pace))
      newest, noted = state[5] or '', tonumber(noted)
      if noted > least then
        newest, missing = take(newest, noted - least)
        noted, result = least, missing > 0 and '0*' or nil
      end
      newest = least > 0 and newest or ''
      charge = math.min(units, capacity - used)
    end
    local then_at, after = ARGV[word + 3], tonumber(ARGV[word + 4])
    if after and units < 0 and used > math.max(0, after - math.max(0, present - then_at + then_at % tick) / tick * pace) then
      charge = 0 -- others have queued behind it
    elseif lowest and not result and units < 0 then
      -- Units that are given back are taken from the slot of the reservation and from those below.
      local older, letter = order < following - 1 - (following - 1) % 52, string.sub(letters, order % 52 + 1, order % 52 + 1)
      local below, has, next, its, above = match(older and (state[6] or '') or newest, '^(.-)' .. letter .. '(%d+)(%a?)(%d*)(.*)$')
      charge = 0
      if below then
        local back = math.min(used, -units)
        local left = math.max(0, has - back)
        local rest = back - has + left
        if rest > 0 then
          below, rest = take(below, rest)
        end
        charge = rest - back
        noted = noted + charge - (next == '' and left or 0)
        its = next == '' and '' or format('%d', its + left) -- the rest of the slot counts for the one above, or is lost
        local slots = below .. next .. its .. above
        if older then
          own, result = slots, (rest > 0 or next == '' or not string.find(slots, '[1-9]')) and '0*' or nil
        else
          newest, result = slots, rest > 0 and (call('HMGET', key, 'older')[1] or '') ~= '' and '0*' or nil
        end
      elseif older and not state[6] and noted > 0 then -- texts before that one may have some
        result = '0*'
      end
    end

    if reserved and not result and (try('ZCOUNT', KEYS[first + 1], '-inf', format('%d', now)) ~= 0 or try('ZREM', KEYS[first + 1], ARGV[word + 5]) ~= 1) then
      result = '0*'
    end
    if charge ~= 0 and not result then
      used = used + charge
      local left, free = used % pace, present + (used - used % pace) / pace * tick
      local low = format('%d %d %d %s %s', used, now, noted, following, numbers)
      local fields = { 'next_free', format('%d', free), 'low', low, 'newest', newest, own and name, own }
      if pace > 1 or numbers ~= '' then
        fields[#fields + 1], fields[#fields + 2] = 'left', format('%d', left)
      end
      local done = used > 0 and try('HSET', key, (table.unpack or unpack)(fields)) or used == 0 and try('UNLINK', key)
      local lives = free + left / pace * tick
      if type(done) == 'table' then
        result, refusal = '1', refusal or done.err
      elseif lives - lives % 1000000 > expires - expires % 1000000 then
        call('PEXPIREAT', key, format('%d', (lives - lives % 1000000) / 1000 + grace))
      end
    end
    reply[#reply + 1] = result or asked and format('0,%d', used) or '0'
    first, word = first + (reserved and 2 or 1), word + (reserved and 6 or 5)
  end
end
return table.concat(reply, ' ') .. (refusal and '\n' .. refusal or '')
