-- A shaped queue is a hash: the instant at which it will be free, and where more
-- than one unit drains in a tick, the units left at that instant.

--- observe
if limit.numbers ~= '' then
  state = try('HMGET', key, 'next_free', 'past', 'left', 'numbers')
elseif limit.pace > 1 then
  state = try('HMGET', key, 'next_free', 'past', 'left')
else
  state = try('HMGET', key, 'next_free', 'past')
end
kept = state[2]
if state[1] or state[3] then
  found, level, at, numbers, absolute = true, tonumber(state[3] or '0'), tonumber(state[1]), state[4] or '', true
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

--- past
call('HSET', key, 'past', kept)
call('HDEL', key, 'next_free', 'left', 'numbers')
