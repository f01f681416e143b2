-- Decides calls with checks that reserve for a time: the charge of such a check is given back at the end of that
-- time, unless it is settled before.
--
-- KEYS  as decide.lua has them; then for each check that reserves the key of its open reservations. That is a sorted set: the
--       score of a member is its end. The member has the holder, the instant of the charge, the units used then, the number
--       of the reservation or 0, the charged units, and the limit as settle.lua reads it.
-- ARGV  how many checks reserve, and how many words of decide.lua follow; those words; then the holder of each
--       check that reserves. In front of checks in a row with the same limit and the same time stand the place of
--       the first one, their number, the time in microseconds, and their limit for settle.lua.
--
-- Returns the reply of decide.lua. A "-" says that reservations had ended before they were settled.

local call, format, match = redis.call, string.format, string.match
local clock, state, reservations = require('clock'), require('state'), require('reservations')
local now, checks = clock.now, #KEYS - ARGV[1]
local terms, names, opens = {}, {}, {} -- of the checks that reserve, by their places
local lives = {} -- how many milliseconds a set of open reservations lives, at least, or less than 0
local reclaimed = {} -- the places of checks with ended reservations of their keys

-- read_row reads the words that checks in a row share. It also returns the place of the first check, and how many they
-- are.
local function read_row(text)
  local place, number, lasts, limit = match(text, '^(%d+) (%d+) (%d+) (.+)$')
  local ends = now + lasts
  local expires = math.max(now + reservations.recovery(limit), ends)
  return { limit = limit, ends = format('%d', ends), expires = expires }, tonumber(place), tonumber(number)
end

-- reserve notes the units that the check at a place was charged, the units used after that, and its number.
local function reserve(place, units, after, order)
  local row, open = terms[place], opens[place]
  if after ~= row.after or units ~= row.units or order > 0 then -- most keys have recovered, and get the same
    row.after, row.units = after, units
    row.charged = format(' %d %d %d %d %s', now, after, order, units, row.limit)
  end
  call('ZADD', open, row.ends, names[place] .. row.charged)
  local left = (row.expires - row.expires % 1000000 - now) / 1000
  if lives[open] < left then
    state.expire(open, row.expires)
    lives[open] = left
  end
end

-- charged is told whether the check at a place was charged.
local function charged(place, found, was, units, order)
  if was and terms[place] then
    reserve(place, units, found.used + units, order)
  end
  if reclaimed[place] and not found.mark then
    found.mark = '-'
  end
end

local row, place, behind = nil, 0, 0
local word = 3 + ARGV[2]
for key = checks + 1, #KEYS do
  if behind == 0 then
    row, place, behind = read_row(ARGV[word])
    word = word + 1
  end
  local open = KEYS[key]
  terms[place], names[place], opens[place] = row, ARGV[word], open
  local left = call('PTTL', open)
  local ended = left ~= -2 and reservations.due(open) or 0
  if ended ~= 0 then
    reclaimed[place] = reservations.give_back(KEYS[place], open, ended)
    left = call('PTTL', open)
  end
  lives[open] = left
  place, behind, word = place + 1, behind - 1, word + 1
end

return require('calls')(checks, 3, charged)
