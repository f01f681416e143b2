-- Carries out corrections, one after the other. settle.lua explains the words.
--
-- A correction has units, the units used after the charge (after) and its number (order), the instant of the charge, or 0 (at),
-- how it is meant (how), whether the caller asks for the units used afterwards (asked), and the word that stands for the holder of
-- places or the reason of a ban (word). The settle of an algorithm's module returns the reply if that is not "0", and the units
-- used afterwards as text, if it knows them.

local tonumber, match = tonumber, string.match
local read_limit = require('limit')
local words_of_correction = 5

-- read returns the key, the limit and the correction at a place.
local function read(keys, words, number)
  local first = (number - 1) * words_of_correction
  local how, asked = match(words[first + 5], '^(%a+)(%??)$')
  local after, order = match(words[first + 3], '^(%d+) ?(%d*)$')
  return keys[number], read_limit(words[first + 1]), {
    units = tonumber(words[first + 2]),
    after = tonumber(after),
    order = tonumber(order),
    at = tonumber(words[first + 4]),
    how = how,
    asked = asked == '?',
    word = words[first + 3],
  }
end

-- settle carries out the correction at a place. It returns the reply, whether the reply lacks the units used afterwards, and these
-- units, if they are known.
local function settle(keys, words, number)
  local key, limit, correction = read(keys, words, number)
  local result, seen = require(limit.algorithm.corrections)(key, limit, correction)
  return result or '0', correction.asked and not (result and string.find(result, '^4')), seen
end

-- look returns the used units of a key.
local function look(keys, words, number)
  local key, limit = read(keys, words, number)
  return limit.algorithm.observe(key, limit, { cost = 0, count = 1 }).seen
end

-- carry_out carries out the corrections of keys, and returns the reply.
local function carry_out(keys, words)
  local results, asking, refusal = {}, {}, nil
  local told = {} -- by the keys: the units used after their latest correction, and under which limit
  for number, key in ipairs(keys) do
    local settled, result, asks, seen = pcall(settle, keys, words, number)
    if settled then
      results[number] = result
      told[key] = seen and { seen = seen, limit = words[(number - 1) * words_of_correction + 1] }
      if asks then
        asking[#asking + 1] = number
      end
    else
      results[number], told[key] = '1', nil
      refusal = refusal or type(result) == 'table' and result.err or tostring(result)
    end
  end
  for _, number in ipairs(asking) do
    local known, read, seen = told[keys[number]], true, nil
    if known and known.limit == words[(number - 1) * words_of_correction + 1] then
      seen = known.seen
    else
      read, seen = pcall(look, keys, words, number)
    end
    if read then -- else the caller misses the numbers
      results[number] = results[number] .. ',' .. string.gsub(seen, ' ', ',')
    end
  end
  if refusal then
    results[#results] = results[#results] .. '\n' .. refusal
  end
  return table.concat(results, ' ')
end

return { carry_out = carry_out, words_of_correction = words_of_correction }
