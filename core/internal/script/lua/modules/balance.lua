-- A balance is a hash: how many units are left (left) and how many were spent (spent), the latest top-ups (topups), and when it was
-- reset (reset). It has a time to live only while it is empty. See internal/exact/balance.go.

local call, try, format, tonumber = redis.call, redis.pcall, string.format, tonumber
local now, state = require('clock').now, require('state')
local largest = 9007199254740991
local remembered = 2592000000000 -- how long an empty balance is kept: 30 days

-- is_count returns whether a number can be one of units.
local function is_count(count)
  return count and count >= 0 and count % 1 == 0 and count <= largest
end

-- read returns the units left and the units spent of two fields, or nil if they make no sense.
local function read(limit, left, spent)
  left, spent = tonumber(left or '0'), tonumber(spent or '0')
  if not is_count(left) or left > limit.capacity or not is_count(spent) then
    return nil
  end
  return left, spent
end

-- write writes the units left and the units spent.
local function write(key, left, spent)
  call('HSET', key, 'left', format('%d', left), 'spent', format('%d', math.min(spent, largest)))
  if left == 0 then
    state.expire(key, now + remembered)
  end
end

-- observe also finds the units spent (spent).
local function observe(key, limit)
  local fields = try('HMGET', key, 'left', 'spent')
  local damaged = state.is_damage(fields)
  local left, spent = 0, 0
  if not damaged then
    left, spent = read(limit, fields[1], fields[2])
    damaged = not left
  end
  local used = limit.capacity - (left or 0)
  return { used = used, spent = spent, expires = -1, seen = format('%d', used), damaged = damaged }
end

-- store returns nothing: a balance with units has no time to live. Nothing is written of a damaged one, which is empty.
local function store(key, limit, found, units)
  if units > 0 then
    write(key, limit.capacity - found.used - units, found.spent + units)
  end
end

return { observe = observe, store = store, read = read, write = write, corrections = 'balance_corrections' }
