-- Decides checks of shaped queues, of which some reserve: they are charged until they are settled. Each check is a call of
-- its own.
--
-- KEYS  for each check its key and, if it reserves for a time, that of the key's open reservations.
-- ARGV  for each row of checks that ask the same: 2 if they reserve, 1 if they are only charged or else 0, capacity, ceiling,
--       pace, tick, numbers and cost, how often each check is asked, how many checks the row has, and for how many
--       microseconds they reserve, or 0 if it is for good. If it is for a time, their limit follows as settle.lua reads it,
--       and for each check who reserves.
--
-- Returns for each check how many units its key had used before and, if it reserves, the number of the reservation, or 0. At
-- the end comes the instant of the decision. A "+" behind the used units says that the key had no time to live and has one
-- now, a "*" that nothing was done, since the state is not as this limit leaves it, reservations have ended, or more texts
-- of the notes have to change: decide.lua or reserve.lua has to be asked, and for later checks of the key, too.
--
-- A key is a hash: the instant at which the queue will be free and, where more than one unit drains in a tick, the units
-- that are left at that instant. Beside these it has notes of the reservations that are open: notes.lua explains them.
-- Reservations for a time are members of a sorted set, too: reserve.lua explains them. Ceiling is the capacity less the
-- headroom of the check. A limit with a name leaves its numbers beside the units.

local call, try, format, tonumber, match = redis.call, redis.pcall, string.format, tonumber, string.match
local unpack = table.unpack or unpack -- Lua 5.2 and later have it in table
local largest, letters = 9007199254740991, 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local grace = 2000
local reply, unknown, first, word = {}, {}, 1, 1

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
  local mode, capacity, ceiling = ARGV[word], tonumber(ARGV[word + 1]), tonumber(ARGV[word + 2])
  local pace, tick, numbers, limit = tonumber(ARGV[word + 3]), tonumber(ARGV[word + 4]), ARGV[word + 5], ARGV[word + 10]
  local cost, times, checks, lasts = tonumber(ARGV[word + 6]), tonumber(ARGV[word + 7]), tonumber(ARGV[word + 8]), tonumber(ARGV[word + 9])
  local present, recovers = now - now % tick, now + math.max(lasts, math.ceil(capacity / pace) * tick)
  word = word + (lasts > 0 and 11 or 10)

  for _ = 1, checks do
    local key, open, left, used, expires, order, mark = KEYS[first], KEYS[first + 1], -2, 0, -1, 0, ''
    local state = try('HMGET', key, 'next_free', 'left', 'numbers', 'low', 'newest')
    if state[1] or state[2] or state.err then
      local free, rest = tonumber(state[1]), tonumber(state[2] or '0')
      if free and rest and free >= 0 and free <= largest and free % 1 == 0 and rest >= 0 and rest <= largest and rest % 1 == 0
        and (state[3] or '') == numbers and rest + (free - present) / tick * pace <= capacity then
        used = math.max(0, rest + (free - present) / tick * pace)
        expires = free + rest / pace * tick
      else
        unknown[key] = true
      end
    end
    if lasts > 0 then
      left = call('PTTL', open)
      unknown[key] = unknown[key] or left ~= -2 and try('ZCOUNT', open, '-inf', format('%d', now)) ~= 0
    end

    local room = ceiling - used
    local granted = mode == '0' and 0 or math.min(times, (room - room % cost) / cost)
    local level, fields = used + cost * granted, {}
    if numbers ~= '' then
      fields = { 'left', format('%d', level % pace), 'numbers', numbers }
    elseif pace > 1 then
      fields = { 'left', format('%d', level % pace) }
    end
    if mode == '2' and granted > 0 and not unknown[key] then
      local low = state[4] or format('0 0 0 %d %s', now % 1099511627776 * 4096, numbers)
      local lowest, since, noted, following, counted = match(low, '^(%d+) (%d+) (%d+) (%d+) ?(.*)$')
      unknown[key] = counted ~= numbers or not state[4] and state[5]
      if not unknown[key] then
        -- Units that have drained since the latest note are taken from the newest slots.
        local least = math.max(0, math.min(used, lowest - math.max(0, present - since + since % tick) / tick * pace))
        local slots, missing = take(state[5] or '', math.max(0, noted - least))
        local units, older = used - math.min(tonumber(noted), least) + cost, nil
        order, slots, unknown[key] = tonumber(following), least > 0 and slots or '', missing > 0
        for number = order, order + granted - 1 do
          if number % 52 == 0 and string.find(slots, '[1-9]') then -- the text is full
            older = (older or call('HMGET', key, 'older')[1] or '') .. format('n%016d', number / 52 - 1)
            fields[#fields + 1], fields[#fields + 2] = string.sub(older, -17), slots
            fields[#fields + 1], fields[#fields + 2] = 'older', older
            unknown[key] = unknown[key] or #older > 2176
          end
          slots = (number % 52 > 0 and slots or '') .. string.sub(letters, number % 52 + 1, number % 52 + 1) .. format('%d', units)
          units = cost
        end
        fields[#fields + 1], fields[#fields + 2] = 'newest', slots
        fields[#fields + 1], fields[#fields + 2] = 'low', format('%d %d %d %d %s', level, now, level, order + granted, numbers)
      end
    end

    if unknown[key] then
      mark = '*'
    elseif mode ~= '0' then
      local lives = granted > 0 and present + level / pace * tick or expires
      lives = (lives - lives % 1000000) / 1000
      local same = lives == (expires - expires % 1000000) / 1000
      if granted > 0 then
        call('HSET', key, 'next_free', format('%d', present + (level - level % pace) / pace * tick), unpack(fields))
      end
      local rest = same and expires >= 0 and now % 16 == 0 and call('PTTL', key) or lives -- it may have lost its time to live
      mark = rest == -1 and '+' or ''
      if not same or rest == -1 or rest < lives - now / 1000 then
        call('PEXPIREAT', key, format('%d', lives + grace))
      end
      if granted > 0 and lasts > 0 then
        local member = format('%s %d %d %d %d %s', ARGV[word], now, level, order, level - used, limit)
        call('ZADD', open, format('%d', now + lasts), member)
        if left < (recovers - recovers % 1000000 - now) / 1000 then
          call('PEXPIREAT', open, format('%d', (recovers - recovers % 1000000) / 1000 + grace))
        end
      end
    end
    reply[#reply + 1] = format('%d', used) .. mark .. (mode == '2' and format(' %d', order) or '')
    first, word = first + (lasts > 0 and 2 or 1), word + (lasts > 0 and 1 or 0)
  end
end

return table.concat(reply, ' ') .. format(' %d', now)
