-- A shaped queue is a hash: the instant at which it will be free, and where more
-- than one unit drains in a tick, the units left at that instant.
algorithms['shaping'] = {
  observe = function(check)
    local state = usable(check, pcall('HMGET', check.key, 'next_free', 'left', 'numbers'))
    if not (state and (state[1] or state[2])) then
      return observed(check)
    end
    return observed(check, true, whole(state[2] or '0'), whole(state[1]), state[3], true)
  end,

  store = function(check, cost)
    local level, pace, tick = check.used + cost, check.pace, check.tick
    local left = level % pace
    local at = format('%d', now - now % tick + (level - left) / pace * tick)
    if check.numbers ~= '' then
      call('HSET', check.key, 'next_free', at, 'left', format('%d', left), 'numbers', check.numbers)
    elseif pace > 1 then
      call('HSET', check.key, 'next_free', at, 'left', format('%d', left))
    else
      call('HSET', check.key, 'next_free', at)
    end
    call('PEXPIRE', check.key, format('%.0f', level / pace * tick / 1000 + slack))
  end,
}
