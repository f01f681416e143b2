-- A fixed window is a hash: how many events it has admitted, and when it opened.
algorithms['fixed-window'] = {
  observe = function(check)
    local state = read(check, 'HMGET', check.key, 'count', 'start', 'numbers')
    local left = 0
    if state and (state[1] or state[2]) then
      local count, start, window = whole(state[1]), whole(state[2]), check.pace
      if (state[3] or '') ~= check.numbers then
        window = whole(state[3])
        check.repair = true
      end
      if not (count and start and window and count > 0) then
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
    reply[#reply + 1] = check.used
    reply[#reply + 1] = left
    return check.cost <= check.capacity - check.used
  end,

  store = function(check, cost)
    if check.left == 0 then
      check.left = check.pace
    end
    local count, start = digits(check.used + cost), digits(now + check.left - check.pace)
    if check.numbers == '' then
      redis.call('HSET', check.key, 'count', count, 'start', start)
    else
      redis.call('HSET', check.key, 'count', count, 'start', start, 'numbers', check.numbers)
    end
    expire(check, check.left)
  end,

  restore = function(check, at)
    if check.left == 0 or at < now + check.left - check.pace then
      return -- the window of the charge has closed
    end
    if check.used > check.cost then
      check.algorithm.store(check, -check.cost)
    else
      redis.call('DEL', check.key)
    end
  end,
}
