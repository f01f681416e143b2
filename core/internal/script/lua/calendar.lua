-- A calendar window is a hash: how many events it has admitted, when it began and when it ends. The caller
-- knows the calendar, and sends when the windows around its own clock begin. The server's clock chooses one
-- of them. If none suits, the caller is told the server's time, and asks again. See
-- internal/exact/calendar.go for the window that a state has with it.

--- functions
local lingering, ending, find_window
if uses_calendars then
  -- lingering returns until when events of a window may count: a little longer than until its end, if it ends later
  -- by some reckoning.
  function lingering(start, finish)
    local length = finish - start
    return finish + math.min(10800000000, (length - length % 8) / 8)
  end

  -- ending returns until when events count of a window that ends between these two instants, or at the latter, if they
  -- are a window by the caller's reckoning. That one may be the same as others reckon it.
  function ending(start, finish, lingers, opens, closes)
    if finish < closes and closes <= lingers and math.abs(opens - start) <= lingers - finish then
      return closes
    end
    return finish
  end

  -- find_window sets when the window of this moment begins (opens) and ends (closes), until when its events may
  -- count (lingers), and when the next one ends (later), if the caller has sent them. All checks of a script run
  -- have the same moment.
  function find_window(limit)
    local opens, closes, later, next, last = string.match(limit.numbers, '^(%d+) (%d+) (%d+) (%d+) (%d+)$')
    opens, closes, later = tonumber(opens), tonumber(closes), tonumber(later)
    limit.found = true
    if now >= closes then
      opens, closes, later = closes, later, tonumber(next)
      if now >= closes then
        opens, closes, later = closes, later, tonumber(last)
      end
    end
    if now >= opens and now < closes then
      limit.opens, limit.closes, limit.later, limit.lingers = opens, closes, later, lingering(opens, closes)
    end
  end
end

--- observe
if not limit.found then
  find_window(limit)
end
local opens, closes = limit.opens, limit.closes
if not opens then
  undated, used = true, limit.capacity
  seen = format('%d %d?', used, now)
else
  state = try('HMGET', key, 'count', 'start', 'end', 'past')
  kept = state[4]
  local ends = closes -- when the next window opens
  if state[1] or state[2] or state[3] then
    local count, start, finish = tonumber(state[1]), tonumber(state[2]), tonumber(state[3])
    if not (count and start and finish and count > 0 and start >= 0 and finish > start)
      or count % 1 + start % 1 + finish % 1 ~= 0 or count > largest or finish > largest
      or finish - start > 31795200000000 then -- 368 days: none is as long
      damaged = true
    elseif start == opens and finish == closes then
      used, own, former = count, true, limit.lingers
    else
      if start >= closes then -- the clock has stepped back
        start, finish, repair = opens, closes, true
      end
      local lingers, last = lingering(start, finish), finish
      if finish < closes then
        last = ending(start, finish, lingers, opens, closes)
      elseif finish > closes then
        last = ending(start, finish, lingers, closes, limit.later)
      end
      if last > now then
        ends = last
        used, own, former = count, { start, finish, lingers }, lingers
      end
    end
    if used > limit.capacity then
      used, repair = limit.capacity, true
    end
  end
  seen = format('%d %d', used, ends - now)
end

--- store
local admitted = format('%d', used + charge)
full = limit.lingers
if own == true then -- it stands as it is
  call('HSET', key, 'count', admitted)
else
  local start, finish = limit.opens, limit.closes
  if own then
    start, finish, full = own[1], own[2], own[3]
  end
  call('HSET', key, 'count', admitted, 'start', format('%d', start), 'end', format('%d', finish))
end

--- past
call('HSET', key, 'past', kept)
call('HDEL', key, 'count', 'start', 'end')

--- hold
if limit.algorithm == 'calendar' and how ~= 'reset' then
  if not limit.found then
    find_window(limit)
  end
  if not limit.opens then
    return false, '4,' .. format('%d', now)
  end
end

--- renumber
limit = copied(limit)
limit.capacity = largest -- no part of the numbers: what others have used is not cut down to this one's

--- adjust
local start = limit.opens or now
if type(own) == 'table' then
  start = own[1]
end
if not known or at >= start then -- its window is open
  if raise then
    units = math.max(0, units - used)
  end
  charge = math.max(-used, math.min(units, math.max(0, charged.capacity - used)))
end
