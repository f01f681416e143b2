-- A leaky bucket is a hash: its level, and the instant at which it had it.
algorithms['leaky'] = {
  observe = function(check)
    local state = read(check, 'HMGET', check.key, 'level', 'last_leak', 'numbers')
    if state and (state[1] or state[2]) then
      drained(check, whole(state[1]), whole(state[2]), state[3], false)
    end
    return verdict(check)
  end,

  store = function(check, cost)
    local level, at = check.used + cost, digits(now - now % check.tick)
    if check.numbers == '' then
      redis.call('HSET', check.key, 'level', digits(level), 'last_leak', at)
    else
      redis.call('HSET', check.key, 'level', digits(level), 'last_leak', at, 'numbers', check.numbers)
    end
    expire(check, level / check.pace)
  end,

  restore = lowered,
}
