-- Gives back places of concurrent limits, one for each holder. settle.lua does the same, but needs more words to tell
-- settlements apart.
--
-- KEYS  for each place its key. Several places of one key may stand in a row.
-- ARGV  for each place its holder.
--
-- Returns the results of settle.lua: for each place a 0, or a 1 if Redis refused, and then, in a line of its own, why it
-- refused the first of these. A place that the holder does not have, and a key of another type, are no errors.

local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local unpack = table.unpack or unpack -- Lua 5.2 and later have it in table
local results, refusal, first = {}, nil, 1
local waited = {} -- the keys with waiters

while first <= #KEYS do
  local key, last = KEYS[first], first
  while KEYS[last + 1] == key and last - first < 999 do
    last = last + 1
  end
  local gone, result
  if last == first then
    gone = try('ZREM', key, ARGV[first])
  else
    gone = try('ZREM', key, unpack(ARGV, first, last))
  end
  result = '0'
  if type(gone) == 'table' then
    if not string.find(gone.err, 'WRONGTYPE', 1, true) then
      result, refusal = '1', refusal or gone.err
    end
  elseif gone > 0 then
    local foremost = call('ZRANGE', key, '0', '0')[1]
    if foremost and string.find(foremost, '^%d') then -- a waiter: its name begins with its first instant
      waited[#waited + 1] = key
    end
  end
  for place = first, last do
    results[place] = result
  end
  first = last + 1
end

for _, key in ipairs(waited) do
  require('waiters').given_back(key)
end
if refusal then
  results[#results] = results[#results] .. '\n' .. refusal
end
return table.concat(results, ' ')
