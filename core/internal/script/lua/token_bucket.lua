-- A token bucket is a hash: its tokens, and the instant at which it had them.

--- observe
if limit.numbers == '' then
  state = try('HMGET', key, 'tokens', 'last_refill')
else
  state = try('HMGET', key, 'tokens', 'last_refill', 'numbers')
end
if state[1] or state[2] then
  found, at, numbers = true, tonumber(state[2]), state[3] or ''
  local capacity, tokens = limit.capacity, tonumber(state[1])
  if numbers ~= limit.numbers then
    capacity = tonumber(string.match(numbers, '^%d+'))
  end
  level = capacity and tokens and tokens >= 0 and capacity - tokens
end

--- store
local level, at = used + charge, now - now % limit.tick
full = at + level / limit.pace * limit.tick
local tokens = format('%d', limit.capacity - level)
if limit.numbers == '' then
  call('HSET', key, 'tokens', tokens, 'last_refill', format('%d', at))
else
  call('HSET', key, 'tokens', tokens, 'last_refill', format('%d', at), 'numbers', limit.numbers)
end
