-- A shaped queue is a hash: the instant at which it will be free, and where more
-- than one unit drains in a tick, the units left at that instant.

--- observe
if noted_in then
  state = try('HMGET', key, 'next_free', 'left', 'numbers', 'low', 'newest', noted_in)
elseif limit.numbers ~= '' then
  state = try('HMGET', key, 'next_free', 'left', 'numbers')
elseif limit.pace > 1 then
  state = try('HMGET', key, 'next_free', 'left')
else
  state = try('HMGET', key, 'next_free')
end
if state[1] or state[2] then
  found, level, at, numbers, absolute = true, tonumber(state[2] or '0'), tonumber(state[1]), state[3] or '', true
end

--- store
local level, pace, tick = used + charge, limit.pace, limit.tick
local left = level % pace
local at = limit.present + (level - left) / pace * tick
full = at + left / pace * tick
if at ~= written then
  written, digits = at, format('%d', at)
end
if limit.numbers ~= '' then
  call('HSET', key, 'next_free', digits, 'left', format('%d', left), 'numbers', limit.numbers)
elseif pace > 1 then
  call('HSET', key, 'next_free', digits, 'left', format('%d', left))
else
  call('HSET', key, 'next_free', digits)
end
