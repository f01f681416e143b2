-- Settles reservations for a time, and does all that settle.lua does. It first gives back the reservations that have
-- ended. If the charge to be settled is one of these, its whole cost is charged again.
--
-- KEYS  as settle.lua has them; then for each reservation for a time the key of its open reservations, as
--       reserve.lua writes it.
-- ARGV  how many reservations for a time there are; the words of settle.lua; then for each of them its place
--       among all settlements, its member of the set, and the units to be charged if that is gone.
--
-- Returns the results of settle.lua, with a 2 for each reservation that had been given back.

local corrections, reservations = require('corrections'), require('reservations')
local closed, each = tonumber(ARGV[1]), corrections.words_of_correction
local keys, words, late = {}, {}, {}
for i = 1, #KEYS - closed do
  keys[i] = KEYS[i]
end
for i = 1, #keys * each do
  words[i] = ARGV[1 + i]
end

for i = 0, closed - 1 do
  local argument = 2 + #words + 3 * i
  local place, open = tonumber(ARGV[argument]), KEYS[#keys + 1 + i]
  local ended = reservations.due(open)
  if ended ~= 0 then
    reservations.give_back(keys[place], open, ended)
  end
  if redis.call('ZREM', open, ARGV[argument + 1]) == 0 then
    late[place] = true
    local first = (place - 1) * each
    words[first + 2], words[first + 3], words[first + 4] = ARGV[argument + 2], '0', '0'
  end
end

local results = corrections.carry_out(keys, words)
if next(late) then
  local place = 0
  local line, rest = string.match(results, '^([^\n]*)(.*)$')
  results = string.gsub(line, '%S+', function(word)
    place = place + 1
    return late[place] and string.gsub(word, '^0', '2') or word
  end) .. rest
end
return results
