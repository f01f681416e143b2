-- A shaped queue is a hash: the instant at which it will be free, and where more
-- than one unit drains in a tick, the units left at that instant.
algorithms['shaping'] = {
  observe = function(check)
    local state = read(check, 'HMGET', check.key, 'next_free', 'left', 'numbers')
    if state and (state[1] or state[2]) then
      drained(check, whole(state[2] or '0'), whole(state[1]), state[3], true)
    end
    return verdict(check)
  end,

  store = function(check, cost)
    local level = check.used + cost
    local at, left = instant(check, level)
    if check.numbers ~= '' then
      redis.call('HSET', check.key, 'next_free', digits(at), 'left', digits(left), 'numbers', check.numbers)
    elseif check.pace > 1 then
      redis.call('HSET', check.key, 'next_free', digits(at), 'left', digits(left))
    else
      redis.call('HSET', check.key, 'next_free', digits(at))
    end
    expire(check, level / check.pace)
  end,

  restore = lowered,
}
