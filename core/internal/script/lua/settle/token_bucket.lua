-- Settles reservations of token buckets. Each settlement is a request of its own.
--
-- KEYS  for each settlement its key and, if the charge was reserved for a time, that of the key's open reservations.
-- ARGV  for each row of settlements of the same limit: capacity, pace, tick and numbers, "?" to be told the used units
--       afterwards, how many settlements the row has, and 1 if they were reserved for a time, or else 0. Then for each of
--       these the units to add or, below 0, to give back, the number of the reservation, and the name of the text that has
--       its slot unless the newest has it; and if it was reserved for a time, its member of the open reservations: see
--       reserve.lua.
--
-- Returns for each settlement a 0 or, if Redis refused it, a 1. The used units follow after a comma if they were asked for.
-- A "*" says that nothing was done, since the state is not as this limit leaves it, more texts of its notes have to change,
-- or reservations have ended: settle.lua or close.lua has to be asked. A line of its own says why Redis refused the first of
-- these.
--
-- A key is a hash: the tokens of the bucket, and the instant at which the bucket had them. Beside these it has notes of the
-- reservations that are open: notes.lua explains them.

local call, try, format, tonumber, match = redis.call, redis.pcall, string.format, tonumber, string.match
local letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
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
  local present, instant = now - now % tick, format('%d', now - now % tick)
  word = word + 7

  for _ = 1, rows do
    local key, units, order, name = KEYS[first], tonumber(ARGV[word]), tonumber(ARGV[word + 1]), ARGV[word + 2]
    local result, used, expires, charge = nil, 0, 0, 0
    local lowest, at, noted, following, counted, newest, own, missing
    local state = try('HMGET', key, 'tokens', 'last_refill', 'numbers', 'low', 'newest', name)
    if state[1] or state[2] or state.err then
      local tokens, since = tonumber(state[1]), tonumber(state[2])
      if tokens and since and tokens >= 0 and tokens <= capacity and tokens % 1 == 0 and since >= 0 and since <= present
        and since % 1 == 0 and (state[3] or '') == numbers then
        local level = capacity - tokens
        used = math.max(0, level - (present - since) / tick * pace)
        expires = since + level / pace * tick
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
    if lowest and not result and units < 0 then
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

    if reserved and not result and (try('ZCOUNT', KEYS[first + 1], '-inf', format('%d', now)) ~= 0 or try('ZREM', KEYS[first + 1], ARGV[word + 3]) ~= 1) then
      result = '0*'
    end
    if charge ~= 0 and not result then
      used = used + charge
      local tokens, done = format('%d', capacity - used), nil
      local low = format('%d %d %d %s %s', used, now, noted, following, numbers)
      if used == 0 then
        done = try('UNLINK', key)
      elseif own then
        done = try('HSET', key, 'tokens', tokens, 'last_refill', instant, 'low', low, 'newest', newest, name, own)
      else
        done = try('HSET', key, 'tokens', tokens, 'last_refill', instant, 'low', low, 'newest', newest)
      end
      local lives = present + used / pace * tick
      if type(done) == 'table' then
        result, refusal = '1', refusal or done.err
      elseif lives - lives % 1000000 > expires - expires % 1000000 then
        call('PEXPIREAT', key, format('%d', (lives - lives % 1000000) / 1000 + grace))
      end
    end
    reply[#reply + 1] = result or asked and format('0,%d', used) or '0'
    first, word = first + (reserved and 2 or 1), word + (reserved and 4 or 3)
  end
end
return table.concat(reply, ' ') .. (refusal and '\n' .. refusal or '')
