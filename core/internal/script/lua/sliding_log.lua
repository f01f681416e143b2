-- A sliding log is a list of the instants at which units were admitted, oldest
-- first. It never holds more of them than the limit, and nothing but a charge (or
-- a repair) removes those that have left the window.

--- functions
local instant, append_instants, first_after, left_of, observe_log
if uses_logs then
  -- instant returns the instant at an index of the log.
  function instant(log, index)
    local at = tonumber(call('LINDEX', log.key, index))
    if at and at >= 0 and at % 1 == 0 and at <= largest then
      return at
    end
    log.damaged = true
  end

  -- append_instants puts instants at the end of the log, as many at once as Lua can unpack.
  function append_instants(log, instants)
    for first = 1, #instants, 1000 do
      call('RPUSH', log.key, unpack(instants, first, math.min(first + 999, #instants)))
    end
  end

  -- first_after returns the index of the first instant after a moment, doubling the
  -- step from the head, where the expired ones are, and then halving it.
  function first_after(log, moment, length)
    local low, high, step = 0, 0, 1 -- all before low are not after, high is
    while high < length do
      local at = instant(log, high)
      if not at then
        return 0
      end
      if at > moment then
        break
      end
      low, high, step = high + 1, high + step, step * 2
    end
    if high > length then
      high = length
    end
    while low < high do
      local middle = (low + high - (low + high) % 2) / 2
      local at = instant(log, middle)
      if not at then
        return 0
      end
      if at > moment then
        high = middle
      else
        low = middle + 1
      end
    end
    return low
  end

  -- left_of returns how long the instant at an index still counts. One from the
  -- future counts as from now.
  function left_of(log, index)
    local at, window = instant(log, index), log.limit.pace
    if not at or at <= now - window then -- the log is not in order
      log.damaged = true
      return 0
    end
    if at > now then
      at = now
    end
    return at + window - now
  end

  -- observe_log returns how long the oldest unit of a log still counts, how long the first check
  -- has to wait that does not fit, and how long the newest unit still counts.
  function observe_log(log, length, count)
    local limit = log.limit
    local first = first_after(log, now - limit.pace, length)
    if length - first > limit.capacity then
      first = length - limit.capacity
      log.repair = true
    end
    log.first, log.used = first, length - first
    if log.used > 0 and not log.damaged then
      local newest = instant(log, -1)
      if newest then
        log.former = newest + limit.pace
        if newest > now then
          log.future = length - math.max(first, first_after(log, now, length))
          log.repair = true
        end
      end
    end
    if log.damaged and log.used > 0 then
      return 0, 0, 0
    end
    local wait, granted, room, costs = 0, 0, limit.ceiling - log.used, log.costs
    local next = log.cost
    if costs then
      while granted < count and costs[granted + 1] <= room do
        granted = granted + 1
        room = room - costs[granted]
      end
      next = costs[granted + 1] or 0
    elseif next > 0 and room > 0 then
      granted = (room - room % next) / next
      room = room - granted * next
    end
    if granted < count and next > room and next <= limit.ceiling then
      local missing = next - room
      if missing > log.used then -- of those that are granted now
        wait = limit.pace
      else
        wait = left_of(log, first + missing - 1)
      end
    end
    if log.used == 0 then
      return 0, wait, 0
    end
    return left_of(log, first), wait, left_of(log, length - 1)
  end
end

--- observe
state = try('LLEN', key)
own = { key = key, limit = limit, cost = cost, costs = costs, used = 0, former = -1, first = 0, future = 0, newest = 0 }
renumbered = limit.numbers ~= '' -- perhaps: the instants do not tell
local length = state
if type(state) == 'table' then -- an error: see below
  length = 0
else
  state = nil
end
local oldest, wait, newest = observe_log(own, length, count)
if own.damaged then -- as good as empty
  own.first, own.future, own.former = 0, 0, -1
  oldest, wait, newest = observe_log(own, 0, count)
end
former, repair, damaged = own.former, own.repair, own.damaged
used, own.newest = own.used, newest
seen = format('%d %d %d %d', used, oldest, wait, newest)

--- store
-- The key is never empty: in a slot that is being moved it could not be made again. So what has to go from the head, or all of a
-- log of the future, goes last.
if own.future > 0 and own.future == used then
  own.first = own.first + used
elseif own.future > 0 then
  call('LTRIM', key, '0', format('%d', -1 - own.future))
end
local instants, at = {}, format('%d', now)
for unit = 1, charge + own.future do
  instants[unit] = at
end
append_instants(own, instants)
if own.first > 0 then
  call('LTRIM', key, format('%d', own.first), '-1')
end
full = now + limit.pace
if charge == 0 then
  full = now + own.newest
end

--- renumber
tells = true -- its instants say what is left of a charge
limit = copied(limit)
limit.capacity = largest -- what others have used is not cut down to this one's

--- adjust
if units < 0 then
  if known then
    call('LREM', key, format('%d', units), format('%d', at))
  else
    call('LTRIM', key, '0', format('%d', units - 1))
  end
else
  if raise then
    units = units - used
  end
  units = math.min(units, charged.capacity - used)
  if not known then
    at = now
  end
  if units > 0 and at > now - limit.pace then
    -- The log is in order, so what was admitted later is put behind. What has to go from the head goes last: see above.
    local gone, length = own.first, own.first + used
    local place = math.max(gone, first_after(own, at, length))
    local later = call('LRANGE', key, format('%d', place), '-1')
    if place == gone then
      gone = length
    elseif place < length then
      call('LTRIM', key, '0', format('%d', place - 1))
    end
    local instants, text = {}, format('%d', at)
    for unit = 1, units + #later do
      instants[unit] = later[unit - units] or text
    end
    append_instants(own, instants)
    if gone > 0 then
      call('LTRIM', key, format('%d', gone), '-1')
    end
  end
end
local newest = tonumber(call('LINDEX', key, '-1'))
if newest then
  local full = newest + limit.pace
  if not renumbered or call('PTTL', key) < (full - now) / 1000 then
    call('PEXPIREAT', key, format('%d', (full - full % 1000000) / 1000 + grace))
  end
end
