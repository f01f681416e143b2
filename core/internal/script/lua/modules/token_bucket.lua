-- A token bucket is a hash: its tokens, and the instant at which it had them.

local call, try, format, tonumber = redis.call, redis.pcall, string.format, tonumber
local unpack = table.unpack or unpack -- Lua 5.2 and later have it in table
local observe_meter = require('meter')
local written, digits -- the tokens that were written last, and their text: most keys have recovered, and get the same ones

local function observe(key, limit, _, _, slots)
  local fields = slots and try('HMGET', key, 'tokens', 'last_refill', 'numbers', 'low', 'newest', slots) or try('HMGET', key, 'tokens', 'last_refill', 'numbers')
  local numbers = (fields[1] or fields[2]) and (fields[3] or '')
  local capacity, tokens = limit.capacity, tonumber(fields[1])
  if numbers and numbers ~= limit.numbers then
    capacity = tonumber(string.match(numbers, '^%d+'))
  end
  local level = capacity and tokens and tokens >= 0 and capacity - tokens
  return observe_meter(limit, fields, level, tonumber(fields[2]), numbers, false)
end

local function store(key, limit, found, units, fields)
  local level = found.used + units
  local tokens = limit.capacity - level
  if tokens ~= written then
    written, digits = tokens, format('%d', tokens)
  end
  limit.at = limit.at or format('%d', limit.present) -- the same for all checks of a script run
  if limit.numbers ~= '' then
    call('HSET', key, 'numbers', limit.numbers, 'tokens', digits, 'last_refill', limit.at, unpack(fields or {}))
  elseif fields then
    call('HSET', key, 'tokens', digits, 'last_refill', limit.at, unpack(fields))
  else
    call('HSET', key, 'tokens', digits, 'last_refill', limit.at)
  end
  return limit.present + level / limit.pace * limit.tick
end

return { observe = observe, store = store, corrections = 'meter_corrections' }
