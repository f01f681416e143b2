-- A sliding window is a hash: how many events were admitted in the current window
-- and in the one before it, and when the current one started. Windows are aligned
-- to 1970 on the server's clock.

-- rolled returns the counts of a state as they stand in the window that starts at
-- an instant (in ticks), and whether the state was from a later one.
local function rolled(current, previous, age, window)
  if age < 0 then
    return current, previous, true
  elseif age < window then
    return current, previous, false
  elseif age < 2 * window then
    return 0, current, false
  end
  return 0, 0, false
end

algorithms['sliding-window'] = {
  observe = function(check)
    local state = read(check, 'HMGET', check.key, 'current', 'previous', 'start', 'numbers')
    local window, ticks = check.pace, quotient(now, check.tick)
    local elapsed = ticks % window
    local current, previous = 0, 0
    if state and (state[1] or state[2] or state[3]) then
      local start
      current, previous, start = whole(state[1]), whole(state[2]), whole(state[3])
      if not (current and previous and start) then
        check.damaged = true
      elseif (state[4] or '') == check.numbers then
        current, previous, check.repair = rolled(current, previous, ticks - elapsed - start / check.tick, window)
      else
        -- Windows of another length: what is used moves into the current one.
        local former, tick = string.match(state[4] or '', '^(%d+) (%d+)$')
        former, tick = whole(former), whole(tick)
        if not (former and tick and former * tick > 0) then
          check.damaged = true
        else
          local then_ticks = quotient(now, tick)
          local then_elapsed = then_ticks % former
          current, previous = rolled(current, previous, then_ticks - then_elapsed - start / tick, former)
          current = current - quotient(-(previous * (former - then_elapsed)), former)
          previous = 0
          check.repair = true
        end
      end
      if check.damaged then
        current, previous = 0, 0
      end
      if current > check.capacity then
        current = check.capacity
        check.repair = true
      end
      if previous > check.capacity then
        previous = check.capacity
        check.repair = true
      end
    end
    check.used, check.previous, check.elapsed = current, previous, elapsed
    reply[#reply + 1] = current
    reply[#reply + 1] = previous
    reply[#reply + 1] = elapsed
    local room = check.capacity - current - check.cost
    return room >= 0 and previous * (window - elapsed) <= room * window
  end,

  store = function(check, cost)
    local current, previous = digits(check.used + cost), digits(check.previous)
    local start = digits(now - now % check.tick - check.elapsed * check.tick)
    if check.numbers == '' then
      redis.call('HSET', check.key, 'current', current, 'previous', previous, 'start', start)
    else
      redis.call('HSET', check.key, 'current', current, 'previous', previous, 'start', start, 'numbers', check.numbers)
    end
    expire(check, 2 * check.pace - check.elapsed)
  end,

  restore = function(check, at)
    local age = quotient(now, check.tick) - check.elapsed - quotient(at, check.tick)
    if age <= 0 then
      check.used = math.max(0, check.used - check.cost)
    elseif age <= check.pace then
      check.previous = math.max(0, check.previous - check.cost)
    end
    if check.used + check.previous > 0 then
      check.algorithm.store(check, 0)
    else
      redis.call('DEL', check.key)
    end
  end,
}
