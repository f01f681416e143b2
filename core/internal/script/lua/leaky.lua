-- A leaky bucket is a hash: its level, and the instant at which it had it.

--- observe
if limit.numbers == '' then
  state = try('HMGET', key, 'level', 'last_leak')
else
  state = try('HMGET', key, 'level', 'last_leak', 'numbers')
end
if state[1] or state[2] then
  found, level, at, numbers = true, tonumber(state[1]), tonumber(state[2]), state[3] or ''
end

--- store
local level, at = used + charge, now - now % limit.tick
full = at + level / limit.pace * limit.tick
if limit.numbers == '' then
  call('HSET', key, 'level', format('%d', level), 'last_leak', format('%d', at))
else
  call('HSET', key, 'level', format('%d', level), 'last_leak', format('%d', at), 'numbers', limit.numbers)
end
