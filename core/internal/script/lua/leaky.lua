-- A leaky bucket is a hash: its level, and the instant at which it had it.

--- observe
if limit.numbers == '' then
  state = try('HMGET', key, 'level', 'last_leak', 'past')
else
  state = try('HMGET', key, 'level', 'last_leak', 'past', 'numbers')
end
kept = state[3]
if state[1] or state[2] then
  level = state[1] == digits and written or tonumber(state[1])
  found, at, numbers = true, tonumber(state[2]), state[4] or ''
end

--- store
local level = used + charge
full = limit.present + level / limit.pace * limit.tick
if level ~= written then
  written, digits = level, format('%d', level)
end
limit.at = limit.at or format('%d', limit.present) -- the same for all checks of a script run
if limit.numbers == '' then
  call('HSET', key, 'level', digits, 'last_leak', limit.at)
else
  call('HSET', key, 'level', digits, 'last_leak', limit.at, 'numbers', limit.numbers)
end

--- past
call('HSET', key, 'past', kept)
call('HDEL', key, 'level', 'last_leak', 'numbers')
