-- A shaped queue is a hash: the instant at which it will be free, and where more than one unit drains in a tick, the units left
-- at that instant.

local call, try, format, tonumber = redis.call, redis.pcall, string.format, tonumber
local unpack = table.unpack or unpack -- Lua 5.2 and later have it in table
local observe_meter = require('meter')

local function observe(key, limit, _, _, slots)
  local fields = slots and try('HMGET', key, 'next_free', 'left', 'numbers', 'low', 'newest', slots) or try('HMGET', key, 'next_free', 'left', 'numbers')
  local numbers = (fields[1] or fields[2]) and (fields[3] or '')
  return observe_meter(limit, fields, tonumber(fields[2] or '0'), tonumber(fields[1]), numbers, true)
end

local function store(key, limit, found, units, fields)
  local level, pace, tick = found.used + units, limit.pace, limit.tick
  local left = level % pace
  local at = limit.present + (level - left) / pace * tick
  local free = format('%d', at)
  if limit.numbers ~= '' then
    call('HSET', key, 'numbers', limit.numbers, 'next_free', free, 'left', format('%d', left), unpack(fields or {}))
  elseif pace > 1 then
    call('HSET', key, 'next_free', free, 'left', format('%d', left), unpack(fields or {}))
  elseif fields then
    call('HSET', key, 'next_free', free, unpack(fields))
  else
    call('HSET', key, 'next_free', free)
  end
  return at + left / pace * tick
end

return { observe = observe, store = store, corrections = 'meter_corrections' }
