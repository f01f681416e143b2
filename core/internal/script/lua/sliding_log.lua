-- A sliding log is a list of the instants at which units were admitted, oldest
-- first. It never holds more of them than the limit, and nothing but a charge (or
-- a repair) removes those that have left the window.

--- functions
-- instant returns the instant at an index of the log.
local function instant(check, index)
  local at = tonumber(call('LINDEX', check.key, index))
  if at and at >= 0 and at % 1 == 0 and at <= largest then
    return at
  end
  check.damaged = true
end

-- append_instants puts instants at the end of the log, as many at once as Lua can unpack.
local function append_instants(check, instants)
  for first = 1, #instants, 1000 do
    call('RPUSH', check.key, unpack(instants, first, math.min(first + 999, #instants)))
  end
end

-- first_after returns the index of the first instant after a moment, doubling the
-- step from the head, where the expired ones are, and then halving it.
local function first_after(check, moment, length)
  local low, high, step = 0, 0, 1 -- all before low are not after, high is
  while high < length do
    local at = instant(check, high)
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
    local at = instant(check, middle)
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
local function left_of(check, index)
  local at, window = instant(check, index), check.limit.pace
  if not at or at <= now - window then -- the log is not in order
    check.damaged = true
    return 0
  end
  if at > now then
    at = now
  end
  return at + window - now
end

-- observe_log returns how long the oldest unit of a log still counts, how long the first check
-- has to wait that does not fit, and how long the newest unit still counts.
local function observe_log(check, length, count)
  local limit = check.limit
  local first = first_after(check, now - limit.pace, length)
  check.first = first
  if first == length or check.damaged then
    return 0, 0, 0
  end
  if length - first > limit.capacity then
    first = length - limit.capacity
    check.first, check.repair = first, true
  end
  check.used = length - first
  local newest = instant(check, -1)
  if not newest then
    return 0, 0, 0
  end
  check.former = newest + limit.pace
  if newest > now then
    check.future = length - math.max(first, first_after(check, now, length))
    check.repair = true
  end
  local wait, granted, room, costs = 0, 0, limit.capacity - check.used, check.costs
  local next = check.cost
  if costs then
    while granted < count and costs[granted + 1] <= room do
      granted = granted + 1
      room = room - costs[granted]
    end
    next = costs[granted + 1] or 0
  elseif next > 0 then
    granted = (room - room % next) / next
    room = room - granted * next
  end
  if granted < count and next > room and next <= limit.capacity then
    local missing = next - room
    if missing > check.used then -- of those that are granted now
      wait = limit.pace
    else
      wait = left_of(check, first + missing - 1)
    end
  end
  return left_of(check, first), wait, left_of(check, length - 1)
end

--- observe
state = try('LLEN', check.key)
check.first, check.future, check.newest = 0, 0, 0
check.renumbered = limit.numbers ~= '' -- perhaps: the instants do not tell
seen = '0 0 0 0'
if type(state) ~= 'table' then
  if state > 0 then
    local oldest, wait, newest = observe_log(check, state, count)
    if check.damaged then
      check.used, check.first, check.future = 0, 0, 0
    else
      check.newest = newest
      seen = format('%d %d %d %d', check.used, oldest, wait, newest)
    end
  end
  state = nil
end

--- store
if check.first > 0 or check.future > 0 then
  call('LTRIM', check.key, format('%d', check.first), format('%d', -1 - check.future))
end
local instants, at = {}, format('%d', now)
for unit = 1, charge + check.future do
  instants[unit] = at
end
append_instants(check, instants)
full = now + limit.pace
if charge == 0 then
  full = now + check.newest
end

--- renumber
tells = true -- its instants say what is left of a charge
limit.capacity = largest -- what others have used is not cut down to this one's

--- adjust
if units < 0 then
  if known then
    call('LREM', check.key, format('%d', units), format('%d', at))
  else
    call('LTRIM', check.key, '0', format('%d', units - 1))
  end
else
  if raise then
    units = units - check.used
  end
  units = math.min(units, charged.capacity - check.used)
  if not known then
    at = now
  end
  if units > 0 and at > now - limit.pace then
    if check.first > 0 then
      call('LTRIM', check.key, format('%d', check.first), '-1')
    end
    -- The log is in order, so what was admitted later is put behind.
    local place = first_after(check, at, check.used)
    local later = call('LRANGE', check.key, format('%d', place), '-1')
    if #later > 0 then
      call('LTRIM', check.key, '0', format('%d', -1 - #later))
    end
    local instants, text = {}, format('%d', at)
    for unit = 1, units + #later do
      instants[unit] = later[unit - units] or text
    end
    append_instants(check, instants)
  end
end
local newest = tonumber(call('LINDEX', check.key, '-1'))
if newest then
  local full = newest + limit.pace
  if not check.renumbered or call('PTTL', check.key) < (full - now) / 1000 then
    call('PEXPIREAT', check.key, format('%d', (full - full % 1000000) / 1000 + grace))
  end
end
