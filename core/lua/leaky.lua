-- A leaky bucket is a hash: its level, and the instant at which it had it.
algorithms['leaky'] = {
  observe = function(check)
    local state = usable(check, pcall('HMGET', check.key, 'level', 'last_leak', 'numbers'))
    if not (state and (state[1] or state[2])) then
      return observed(check)
    end
    return observed(check, true, whole(state[1]), whole(state[2]), state[3])
  end,

  store = function(check, cost)
    local level, at = check.used + cost, format('%d', now - now % check.tick)
    if check.numbers == '' then
      call('HSET', check.key, 'level', format('%d', level), 'last_leak', at)
    else
      call('HSET', check.key, 'level', format('%d', level), 'last_leak', at, 'numbers', check.numbers)
    end
    call('PEXPIRE', check.key, format('%.0f', level / check.pace * check.tick / 1000 + slack))
  end,
}
