-- GCRA is a string: the theoretical arrival time in microseconds. Where more than one unit drains in a tick, the units left at
-- that instant follow it, and then a named limit's numbers. While reservations are open it is a hash instead, which has
-- that text as tat: see notes.lua.

local call, try, format, tonumber, match = redis.call, redis.pcall, string.format, tonumber, string.match
local unpack = table.unpack or unpack -- Lua 5.2 and later have it in table
local observe_meter = require('meter')

-- read returns the text and, if it is in a hash, the fields of that. It is nil if there is none, or damage.
local function read(key, slots)
  local fields = slots and try('HMGET', key, 'tat', 'left', 'numbers', 'low', 'newest', slots)
  if fields and fields[1] then
    return fields[1], fields
  end
  local text = try('GET', key)
  if type(text) == 'table' and string.find(text.err, 'WRONGTYPE', 1, true) then
    fields = try('HMGET', key, 'tat')
    if fields[1] then
      return fields[1], fields
    end
  end
  if type(text) == 'string' then
    return text, nil
  end
  return nil, text
end

local function observe(key, limit, _, _, slots)
  local text, fields = read(key, slots)
  if not text then
    return observe_meter(limit, fields, nil, nil, nil, true)
  end
  local at, level, numbers = tonumber(text), 0, ''
  if not at then
    at, level, numbers = match(text, '^(%d+) (%d+) ?(.*)$')
    at, level, numbers = tonumber(at), tonumber(level), numbers or ''
  end
  local found = observe_meter(limit, fields, level, at, numbers, true)
  found.is_hash = fields and found.used > 0 -- else its notes count no more
  return found
end

local function store(key, limit, found, units, fields)
  local level, pace, tick = found.used + units, limit.pace, limit.tick
  local left = level % pace
  local at = limit.present + (level - left) / pace * tick
  local text = format('%d', at)
  if limit.numbers ~= '' then
    text = format('%s %d %s', text, left, limit.numbers)
  elseif pace > 1 then
    text = format('%s %d', text, left)
  end
  local lives = at + left / pace * tick
  if found.is_hash or fields then
    call('HSET', key, 'tat', text, unpack(fields or {}))
    return lives
  end
  return lives, text
end

-- become_hash has a string become a hash that may have notes, and returns whether it has. In a slot that is being moved it could
-- not: its key is deleted, and made again.
local function become_hash(key, found)
  if found.is_hash then
    return true
  elseif found.expires >= 0 and type(try('PTTL', key .. '=')) == 'table' then
    return false
  end
  call('UNLINK', key)
  found.is_hash, found.repair = true, true
  return true
end

return { observe = observe, store = store, corrections = 'meter_corrections', become_hash = become_hash }
