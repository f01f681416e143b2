-- A leaky bucket is a hash: its level, and the instant at which it had it.

--- observe
if noted_in then
  state = try('HMGET', key, 'level', 'last_leak', 'numbers', 'low', 'newest', noted_in)
elseif limit.numbers == '' then
  state = try('HMGET', key, 'level', 'last_leak')
else
  state = try('HMGET', key, 'level', 'last_leak', 'numbers')
end
if state[1] or state[2] then
  level = state[1] == digits and written or tonumber(state[1])
  found, at, numbers = true, tonumber(state[2]), state[3] or ''
end

--- store
local level = used + charge
full = limit.present + level / limit.pace * limit.tick
if level ~= written then
  written, digits = level, format('%d', level)
end
limit.at = limit.at or format('%d', limit.present) -- the same for all checks of a script run
if limit.numbers == '' and sunk then
  call('HSET', key, 'level', digits, 'last_leak', limit.at, unpack(sunk))
  sunk = nil
elseif limit.numbers == '' then
  call('HSET', key, 'level', digits, 'last_leak', limit.at)
else
  call('HSET', key, 'level', digits, 'last_leak', limit.at, 'numbers', limit.numbers)
end
