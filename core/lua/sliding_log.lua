-- A sliding log is a list of the instants at which units were admitted, oldest
-- first. It never holds more of them than the limit, and nothing but a charge (or
-- a repair) removes those that have left the window.

-- first_after returns the index of the first instant after a moment, doubling the
-- step from the head, where the expired ones are, and then halving it.
local function first_after(check, moment, length)
  local low, high, step = 0, 0, 1 -- all before low are not after, high is
  while high < length do
    local at = whole(call('LINDEX', check.key, high))
    if not at then
      check.damaged = true
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
    local at = whole(call('LINDEX', check.key, middle))
    if not at then
      check.damaged = true
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

-- left returns how long the instant at an index still counts. One from the future
-- counts as from now.
local function left(check, index)
  local at = whole(call('LINDEX', check.key, index))
  if not at or at <= now - check.pace then -- the log is not in order
    check.damaged = true
    return 0
  end
  if at > now then
    at = now
  end
  return at + check.pace - now
end

local function observe_log(check)
  local length = usable(check, pcall('LLEN', check.key))
  if not length or length == 0 then
    return 0, 0, 0
  end
  local first = first_after(check, now - check.pace, length)
  if first == length or check.damaged then
    check.first = first
    return 0, 0, 0
  end
  if length - first > check.capacity then
    first = length - check.capacity
    check.repair = true
  end
  check.first = first
  check.used = length - first
  local newest = call('LINDEX', check.key, -1)
  if not whole(newest) then
    check.damaged = true
    return 0, 0, 0
  end
  if whole(newest) > now then
    check.future = length - math.max(first, first_after(check, now, length))
    check.repair = true
  end
  local wait, missing = 0, check.used + check.cost - check.capacity
  if missing > 0 and check.cost <= check.capacity then
    wait = left(check, first + missing - 1)
  end
  return left(check, first), wait, left(check, length - 1)
end

algorithms['sliding-log'] = {
  observe = function(check)
    check.first, check.future = 0, 0
    local oldest, wait, newest = observe_log(check)
    if check.damaged then
      check.used, check.first, check.future, oldest, wait, newest = 0, 0, 0, 0, 0, 0
    end
    check.newest = newest
    check.seen = format('%d %d %d %d', check.used, oldest, wait, newest)
    return check.cost <= check.capacity - check.used
  end,

  store = function(check, cost)
    if check.first > 0 or check.future > 0 then
      call('LTRIM', check.key, format('%d', check.first), format('%d', -1 - check.future))
    end
    local instants, at = {}, format('%d', now)
    for unit = 1, cost + check.future do
      instants[#instants + 1] = at
      if #instants == 1000 then
        call('RPUSH', check.key, unpack(instants))
        instants = {}
      end
    end
    if #instants > 0 then
      call('RPUSH', check.key, unpack(instants))
    end
    local left = check.pace
    if cost == 0 then
      left = check.newest
    end
    call('PEXPIRE', check.key, format('%.0f', left / 1000 + slack))
  end,
}
