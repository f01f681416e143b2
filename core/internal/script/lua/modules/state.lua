-- The rules that the states of all algorithms share: a key may hold a value of another program, and it has a time to live.

local call, format = redis.call, string.format
local clock = require('clock')
local now, grace = clock.now, clock.grace

-- is_damage returns whether a reply says that the key has another type. Any other error ends the script.
local function is_damage(reply)
  if type(reply) ~= 'table' or not reply.err then
    return false
  end
  if not string.find(reply.err, 'WRONGTYPE', 1, true) then
    error(reply.err, 0)
  end
  return true
end

-- is_due returns whether a key needs a new time to live, to live until an instant. It may have lost its own.
local function is_due(key, found, lives)
  local left = call('PTTL', key)
  if left == -1 then
    found.mark = '+'
  end
  return left == -1 or left < (lives - lives % 1000000 - now) / 1000
end

-- write writes the found state of a key with units added, and renews the time to live if the recovery reaches into a later
-- second. Otherwise one write in sixteen looks whether it is long enough, and each write does if it may be another one. fields are
-- the fields of a meter's notes, or nil.
local function write(key, limit, found, units, fields)
  local lives, text = limit.algorithm.store(key, limit, found, units, fields)
  if not lives then -- it is kept until it is changed
    return
  end
  local expires = found.expires
  lives = lives - lives % 1000000
  local renews = found.repair or lives > expires - expires % 1000000
    or (found.unsure or now % 16 == 0) and is_due(key, found, lives)
  if text and renews then
    call('SET', key, text, 'PXAT', format('%d', lives / 1000 + grace))
  elseif text then
    call('SET', key, text, 'KEEPTTL')
  elseif renews then
    call('PEXPIREAT', key, format('%d', lives / 1000 + grace))
  end
end

-- expire has a key live until an instant.
local function expire(key, lives)
  call('PEXPIREAT', key, format('%d', (lives - lives % 1000000) / 1000 + grace))
end

-- keep has a key of which nothing was written live for as long as it counts.
local function keep(key, found)
  if found.expires >= 0 and (found.unsure or now % 16 == 0) and is_due(key, found, found.expires) then
    expire(key, found.expires)
  end
end

return { is_damage = is_damage, write = write, keep = keep, expire = expire }
