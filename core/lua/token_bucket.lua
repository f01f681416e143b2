-- A token bucket is a hash: its tokens, and the instant at which it had them.
algorithms['token-bucket'] = {
  observe = function(check)
    local state = read(check, 'HMGET', check.key, 'tokens', 'last_refill', 'numbers')
    if state and (state[1] or state[2]) then
      local capacity, tokens = check.capacity, whole(state[1])
      if (state[3] or '') ~= check.numbers then
        capacity = whole(string.match(state[3] or '', '^%d+'))
      end
      local level
      if capacity and tokens and tokens <= capacity then
        level = capacity - tokens
      end
      drained(check, level, whole(state[2]), state[3], false)
    end
    return verdict(check)
  end,

  store = function(check, cost)
    local level, at = check.used + cost, digits(now - now % check.tick)
    local tokens = digits(check.capacity - level)
    if check.numbers == '' then
      redis.call('HSET', check.key, 'tokens', tokens, 'last_refill', at)
    else
      redis.call('HSET', check.key, 'tokens', tokens, 'last_refill', at, 'numbers', check.numbers)
    end
    expire(check, level / check.pace)
  end,

  restore = lowered,
}
