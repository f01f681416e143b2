-- GCRA is a string: the theoretical arrival time in microseconds. Where more than
-- one unit drains in a tick, the units left at that instant follow it; a named
-- limit's numbers come last.
algorithms['gcra'] = {
  observe = function(check)
    local state = usable(check, pcall('GET', check.key))
    if not state then
      return observed(check)
    end
    local at, left, numbers = whole(state), 0, nil
    if not at then
      at, left, numbers = string.match(state, '^(%d+) (%d+) ?(.*)$')
      at, left = whole(at), whole(left)
    end
    return observed(check, true, left, at, numbers, true)
  end,

  store = function(check, cost)
    local level, pace, tick = check.used + cost, check.pace, check.tick
    local left = level % pace
    local state = format('%d', now - now % tick + (level - left) / pace * tick)
    if check.numbers ~= '' then
      state = format('%s %d %s', state, left, check.numbers)
    elseif pace > 1 then
      state = format('%s %d', state, left)
    end
    call('SET', check.key, state, 'PX', format('%.0f', level / pace * tick / 1000 + slack))
  end,
}
