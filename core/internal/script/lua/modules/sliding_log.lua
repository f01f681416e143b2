-- A sliding log is a list of the instants at which units were admitted, oldest first. It never holds more of them than the limit,
-- and only a charge (or a repair) removes the instants that have left the window.
--
-- The key is never empty: in a slot that is being moved it could not be made again. So the instants at the head, or all of a log of
-- the future, are removed last.

local call, try, format, tonumber = redis.call, redis.pcall, string.format, tonumber
local unpack = table.unpack or unpack -- Lua 5.2 and later have it in table
local now, state = require('clock').now, require('state')
local largest = 9007199254740991

-- instant_of returns the instant at an index of a log.
local function instant_of(log, index)
  local at = tonumber(call('LINDEX', log.key, format('%d', index)))
  if at and at >= 0 and at % 1 == 0 and at <= largest then
    return at
  end
  log.damaged = true
end

-- append appends instants to a list, as many at once as Lua can unpack.
local function append(key, instants)
  for first = 1, #instants, 1000 do
    call('RPUSH', key, unpack(instants, first, math.min(first + 999, #instants)))
  end
end

-- first_after returns the index of the first instant after a moment, doubling the step from the head, where the expired ones
-- are, and then halving it.
local function first_after(log, moment, length)
  local low, high, step = 0, 0, 1 -- all before low are not after, high is
  while high < length do
    local at = instant_of(log, high)
    if not at then
      return 0
    end
    if at > moment then
      break
    end
    low, high, step = high + 1, high + step, step * 2
  end
  high = math.min(high, length)
  while low < high do
    local middle = (low + high - (low + high) % 2) / 2
    local at = instant_of(log, middle)
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

-- left_of returns how long the instant at an index still counts. One from the future counts as from now.
local function left_of(log, index, window)
  local at = instant_of(log, index)
  if not at or at <= now - window then -- the log is not in order
    log.damaged = true
    return 0
  end
  return math.min(at, now) + window - now
end

-- wait_of returns how long the first time of a check has to wait that does not fit.
local function wait_of(log, limit, asked)
  local granted, room, costs, count = 0, limit.ceiling - log.used, asked.costs, asked.count
  local next = asked.cost
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
  if granted == count or granted > count or next <= room or next > limit.ceiling then
    return 0
  end
  local missing = next - room
  if missing > log.used then -- it waits for units granted now
    return limit.pace
  end
  return left_of(log, log.first + missing - 1, limit.pace)
end

-- read returns the findings about a list of a length. They also have the index of the first instant that counts (first), how many
-- instants are of the future (future), and how long the newest one still counts (newest).
local function read(key, limit, asked, length)
  local log = { key = key, used = 0, expires = -1, seen = '', first = 0, future = 0, newest = 0 }
  local first = first_after(log, now - limit.pace, length)
  if length - first > limit.capacity then
    first = length - limit.capacity
    log.repair = true
  end
  log.first, log.used = first, length - first
  if log.used > 0 and not log.damaged then
    local newest = instant_of(log, -1)
    if newest then
      log.expires = newest + limit.pace
      if newest > now then
        log.future = length - math.max(first, first_after(log, now, length))
        log.repair = true
      end
    end
  end
  if log.damaged then
    return log
  end
  local wait, oldest = wait_of(log, limit, asked), 0
  if log.used > 0 then
    oldest, log.newest = left_of(log, first, limit.pace), left_of(log, length - 1, limit.pace)
  end
  log.seen = format('%d %d %d %d', log.used, oldest, wait, log.newest)
  log.unsure = limit.numbers ~= '' -- perhaps: the instants do not tell
  return log
end

local function observe(key, limit, asked)
  local length = try('LLEN', key)
  local damaged = state.is_damage(length)
  local log = not damaged and read(key, limit, asked, length)
  if damaged or log.damaged then -- as good as empty
    log = read(key, limit, asked, 0)
    log.damaged = true
  end
  return log
end

local function store(key, limit, found, units)
  local gone = found.first
  if found.future > 0 and found.future == found.used then
    gone = gone + found.used
  elseif found.future > 0 then
    call('LTRIM', key, '0', format('%d', -1 - found.future))
  end
  local instants, at = {}, format('%d', now)
  for unit = 1, units + found.future do
    instants[unit] = at
  end
  append(key, instants)
  if gone > 0 then
    call('LTRIM', key, format('%d', gone), '-1')
  end
  if units == 0 then
    return now + found.newest
  end
  return now + limit.pace
end

return { observe = observe, store = store, append = append, first_after = first_after, corrections = 'sliding_log_corrections' }
