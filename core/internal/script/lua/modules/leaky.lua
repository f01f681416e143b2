-- A leaky bucket is a hash: its level, and the instant at which it had it.

local call, try, format, tonumber = redis.call, redis.pcall, string.format, tonumber
local unpack = table.unpack or unpack -- Lua 5.2 and later have it in table
local observe_meter = require('meter')
local written, digits -- the level that was written last, and its text: most keys have recovered, and get the same one

local function observe(key, limit, _, _, slots)
  local fields = slots and try('HMGET', key, 'level', 'last_leak', 'numbers', 'low', 'newest', slots) or try('HMGET', key, 'level', 'last_leak', 'numbers')
  return observe_meter(limit, fields, tonumber(fields[1]), tonumber(fields[2]), (fields[1] or fields[2]) and (fields[3] or ''), false)
end

local function store(key, limit, found, units, fields)
  local level = found.used + units
  if level ~= written then
    written, digits = level, format('%d', level)
  end
  limit.at = limit.at or format('%d', limit.present) -- the same for all checks of a script run
  if limit.numbers ~= '' then
    call('HSET', key, 'numbers', limit.numbers, 'level', digits, 'last_leak', limit.at, unpack(fields or {}))
  elseif fields then
    call('HSET', key, 'level', digits, 'last_leak', limit.at, unpack(fields))
  else
    call('HSET', key, 'level', digits, 'last_leak', limit.at)
  end
  return limit.present + level / limit.pace * limit.tick
end

return { observe = observe, store = store, corrections = 'meter_corrections' }
