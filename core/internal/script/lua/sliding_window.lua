-- A sliding window is a hash: how many events were admitted in the current window
-- and in the one before it, and when the current one started. Windows are aligned
-- to 1970 on the server's clock.

--- observe
if limit.numbers == '' then
  state = try('HMGET', key, 'current', 'previous', 'start', 'past')
else
  state = try('HMGET', key, 'current', 'previous', 'start', 'past', 'numbers')
end
kept = state[4]
local capacity, window, tick = limit.capacity, limit.pace, limit.tick
local ticks = (now - now % tick) / tick
local elapsed = ticks % window
local current = 0
if state[1] or state[2] or state[3] then
  local start, former_numbers, then_elapsed = tonumber(state[3]), state[5] or '', elapsed
  current, previous = tonumber(state[1]), tonumber(state[2])
  if former_numbers ~= limit.numbers then
    window, tick = string.match(former_numbers, '^(%d+) (%d+) %d+$')
    window, tick = tonumber(window), tonumber(tick)
    if window and window * tick > 0 and window <= largest and tick <= largest then
      ticks = (now - now % tick) / tick
      then_elapsed = ticks % window
    else
      damaged = true
    end
  end
  if damaged or not (current and previous and start and current >= 0 and previous >= 0 and start >= 0)
    or current % 1 + previous % 1 + start % 1 ~= 0
    or current > largest or previous > largest or start > largest then
    damaged, current, previous = true, 0, 0
  else
    -- The counts as they stand in the window of this instant.
    local age = ticks - then_elapsed - start / tick
    if age < 0 then -- the clock has stepped back: all moves into this window, where it weighs no less than before
      current, previous, repair = current + previous, 0, true
    elseif age >= 2 * window then
      current, previous = 0, 0
    elseif age >= window then
      previous = current
      current = 0
    end
    if window == limit.pace and tick == limit.tick then
      former = start + 2 * window * tick
      if former_numbers == limit.numbers then
        own = previous -- as it is stored
      end
    else
      -- Windows of another length: what is used moves into the current one. A
      -- denial leaves it there only if that window ends sooner. Otherwise two lengths
      -- that take turns, as during a deployment, would put the end off for ever.
      current, previous = current + math.ceil(previous * (window - then_elapsed) / window), 0
      repair = repair or limit.pace * limit.tick < window * tick
    end
    -- Counts of another capacity stand as far as what is used of them, by their weights, fits
    -- in this one.
    if former_numbers ~= limit.numbers or current > capacity or previous > capacity then
      if current > capacity then
        current = capacity
        repair = true
      end
      local free, left = (capacity - current) * limit.pace, limit.pace - elapsed
      if previous * left > free then
        previous = (free - free % left) / left
        repair = true
      end
    end
  end
end
used = current
seen = format('%d %d %d', current, previous, elapsed)
local weighted = previous * (limit.pace - elapsed)
room = limit.ceiling - current - math.ceil(weighted / limit.pace) -- exact, since both are whole and below 2^53

--- store
local elapsed = (now - now % limit.tick) / limit.tick % limit.pace
local start = now - now % limit.tick - elapsed * limit.tick
full = start + 2 * limit.pace * limit.tick
local current = format('%d', used + charge)
if full == former and previous == own and not repair then -- the same window
  call('HSET', key, 'current', current)
elseif limit.numbers == '' then
  call('HSET', key, 'current', current, 'previous', format('%d', previous), 'start', format('%d', start))
else
  call('HSET', key, 'current', current, 'previous', format('%d', previous), 'start', format('%d', start), 'numbers', limit.numbers)
end

--- past
call('HSET', key, 'past', kept)
call('HDEL', key, 'current', 'previous', 'start', 'numbers')

--- renumber
limit = copied(limit)
limit.capacity = largest -- no part of the numbers: what others have used is not cut down to this one's
if charged.numbers ~= '' then
  local text = try('HMGET', KEYS[number], 'numbers')[1]
  local window, tick = string.match(text or '', '^(%d+) (%d+) %d+$')
  window, tick = tonumber(window), tonumber(tick)
  if window and window * tick > 0 then
    limit.pace, limit.tick, limit.numbers = window, tick, text
  end
end

--- adjust
local elapsed = (now - now % limit.tick) / limit.tick % limit.pace
local age = known and ticks - elapsed or 0
if age <= 0 then
  local weighted = previous * (limit.pace - elapsed)
  weighted = math.ceil(weighted / limit.pace)
  if raise then
    units = math.max(0, units - used - weighted)
  end
  if units > 0 then
    units = math.max(0, math.min(units, charged.capacity - used - weighted))
  end
  charge = math.max(-used, units)
  if not known then
    previous = math.max(0, previous + units - charge)
  end
elseif age <= limit.pace then
  if raise then
    units = math.max(0, units - previous)
  end
  units = math.min(units, math.max(0, charged.capacity - previous))
  previous = math.max(0, previous + units)
end
