-- A token bucket is a hash: its tokens, and the instant at which it had them.
algorithms['token-bucket'] = {
  observe = function(check)
    local state = usable(check, pcall('HMGET', check.key, 'tokens', 'last_refill', 'numbers'))
    if not (state and (state[1] or state[2])) then
      return observed(check)
    end
    local capacity, tokens, level = check.capacity, whole(state[1]), nil
    if state[3] and state[3] ~= check.numbers then
      capacity = whole(string.match(state[3], '^%d+'))
    end
    if capacity and tokens and tokens <= capacity then
      level = capacity - tokens
    end
    return observed(check, true, level, whole(state[2]), state[3])
  end,

  store = function(check, cost)
    local level, at = check.used + cost, format('%d', now - now % check.tick)
    local tokens = format('%d', check.capacity - level)
    if check.numbers == '' then
      call('HSET', check.key, 'tokens', tokens, 'last_refill', at)
    else
      call('HSET', check.key, 'tokens', tokens, 'last_refill', at, 'numbers', check.numbers)
    end
    call('PEXPIRE', check.key, format('%.0f', level / check.pace * check.tick / 1000 + slack))
  end,
}
