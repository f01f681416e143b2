-- GCRA is a string: the theoretical arrival time in microseconds. Where more than
-- one unit drains in a tick, the units left at that instant follow it; a named
-- limit's numbers come last.
algorithms['gcra'] = {
  observe = function(check)
    local state = read(check, 'GET', check.key)
    if state then
      local at, left, numbers = whole(state), 0, nil
      if not at then
        at, left, numbers = string.match(state, '^(%d+) (%d+) ?(.*)$')
        at, left = whole(at), whole(left)
      end
      drained(check, left, at, numbers, true)
    end
    return verdict(check)
  end,

  store = function(check, cost)
    local level = check.used + cost
    local at, left = instant(check, level)
    local state = digits(at)
    if check.numbers ~= '' then
      state = state .. ' ' .. digits(left) .. ' ' .. check.numbers
    elseif check.pace > 1 then
      state = state .. ' ' .. digits(left)
    end
    redis.call('SET', check.key, state, 'PX', digits(math.ceil(level / check.pace * check.tick / 1000) + slack))
  end,

  restore = lowered,
}
