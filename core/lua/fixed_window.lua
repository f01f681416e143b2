-- A fixed window is a hash: how many events it has admitted, and when it opened.
algorithms['fixed-window'] = {
  observe = function(check)
    local state = usable(check, pcall('HMGET', check.key, 'count', 'start', 'numbers'))
    local left = 0
    if state and (state[1] or state[2]) then
      local count, start, window = whole(state[1]), whole(state[2]), check.pace
      if (state[3] or '') ~= check.numbers then
        window = whole(state[3])
        check.repair = true
      end
      if not (count and start and window and count > 0) or state[3] and check.numbers == '' then
        check.damaged = true
      else
        -- An open window closes when it was said to, whatever the length of the
        -- next one, but never later than a full window from now.
        left = start + window - now
        if left > check.pace then
          left = check.pace
          check.repair = true
        end
        if left > 0 then
          check.used = count
          if count > check.capacity then
            check.used = check.capacity
            check.repair = true
          end
        else
          left = 0
        end
      end
    end
    check.left = left
    check.seen = format('%d %d', check.used, left)
    return check.cost <= check.capacity - check.used
  end,

  store = function(check, cost)
    if check.left == 0 then
      check.left = check.pace
    end
    local count, start = format('%d', check.used + cost), format('%d', now + check.left - check.pace)
    if check.numbers == '' then
      call('HSET', check.key, 'count', count, 'start', start)
    else
      call('HSET', check.key, 'count', count, 'start', start, 'numbers', check.numbers)
    end
    call('PEXPIRE', check.key, format('%.0f', check.left / 1000 + slack))
  end,
}
