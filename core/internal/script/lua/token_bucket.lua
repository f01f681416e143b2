-- A token bucket is a hash: its tokens, and the instant at which it had them.

--- observe
if noted_in then
  state = try('HMGET', key, 'tokens', 'last_refill', 'numbers', 'low', 'newest', noted_in)
elseif limit.numbers == '' then
  state = try('HMGET', key, 'tokens', 'last_refill')
else
  state = try('HMGET', key, 'tokens', 'last_refill', 'numbers')
end
if state[1] or state[2] then
  found, at, numbers = true, tonumber(state[2]), state[3] or ''
  local capacity, tokens = limit.capacity, state[1] == digits and written or tonumber(state[1])
  if numbers ~= limit.numbers then
    capacity = tonumber(string.match(numbers, '^%d+'))
  end
  level = capacity and tokens and tokens >= 0 and capacity - tokens
end

--- store
local level = used + charge
local tokens = limit.capacity - level
full = limit.present + level / limit.pace * limit.tick
if tokens ~= written then
  written, digits = tokens, format('%d', tokens)
end
limit.at = limit.at or format('%d', limit.present) -- the same for all checks of a script run
if limit.numbers == '' and sunk then
  call('HSET', key, 'tokens', digits, 'last_refill', limit.at, unpack(sunk))
  sunk = nil
elseif limit.numbers == '' then
  call('HSET', key, 'tokens', digits, 'last_refill', limit.at)
else
  call('HSET', key, 'tokens', digits, 'last_refill', limit.at, 'numbers', limit.numbers)
end
