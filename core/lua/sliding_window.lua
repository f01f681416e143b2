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
    local state = usable(check, pcall('HMGET', check.key, 'current', 'previous', 'start', 'numbers'))
    local window, ticks = check.pace, (now - now % check.tick) / check.tick
    local elapsed = ticks % window
    local current, previous = 0, 0
    if state and (state[1] or state[2] or state[3]) then
      local start
      current, previous, start = whole(state[1]), whole(state[2]), whole(state[3])
      if not (current and previous and start) or state[4] and check.numbers == '' then
        check.damaged = true
      elseif (state[4] or '') == check.numbers then
        current, previous, check.repair = rolled(current, previous, ticks - elapsed - start / check.tick, window)
      else
        -- Windows of another length: what is used moves into the current one. A
        -- refusal leaves it so only if that ends sooner. Else two lengths that take
        -- turns, as during a deployment, would put the end off for ever.
        local former, tick = string.match(state[4] or '', '^(%d+) (%d+)$')
        former, tick = whole(former), whole(tick)
        if not (former and tick and former * tick > 0) then
          check.damaged = true
        else
          local then_ticks = (now - now % tick) / tick
          local then_elapsed = then_ticks % former
          current, previous, check.repair = rolled(current, previous, then_ticks - then_elapsed - start / tick, former)
          local weighted = previous * (former - then_elapsed)
          local part = weighted % former
          current, previous = current + (weighted - part) / former, 0
          if part > 0 then
            current = current + 1
          end
          check.repair = check.repair or window * check.tick < former * tick
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
    check.seen = format('%d %d %d', current, previous, elapsed)
    local room = check.capacity - current - check.cost
    return room >= 0 and previous * (window - elapsed) <= room * window
  end,

  store = function(check, cost)
    local current, previous = format('%d', check.used + cost), format('%d', check.previous)
    local start = format('%d', now - now % check.tick - check.elapsed * check.tick)
    if check.numbers == '' then
      call('HSET', check.key, 'current', current, 'previous', previous, 'start', start)
    else
      call('HSET', check.key, 'current', current, 'previous', previous, 'start', start, 'numbers', check.numbers)
    end
    call('PEXPIRE', check.key, format('%.0f', (2 * check.pace - check.elapsed) * check.tick / 1000 + slack))
  end,
}
