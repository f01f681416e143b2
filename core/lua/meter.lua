-- The arithmetic of a meter: a level that drains at a steady pace. A leaky bucket
-- stores the level, a token bucket what is missing from full, GCRA and shaping
-- the instant at which the level will have drained to less than one tick's worth.

-- rescaled returns ceil(level · weight / former), exactly.
local function rescaled(level, weight, former)
  local part = level % former
  local events = (level - part) / former
  -- ceil(part · weight / former) by long multiplication, from the highest bit of
  -- weight down: the product itself may need more than 53 bits.
  local result, rest, bit = 0, 0, 1
  while bit * 2 <= weight do
    bit = bit * 2
  end
  while bit >= 1 do
    result, rest = result * 2, rest * 2
    if rest >= former then
      result, rest = result + 1, rest - former
    end
    if weight >= bit then
      weight = weight - bit
      if rest >= former - part then
        result, rest = result + 1, rest - (former - part)
      else
        rest = rest + part
      end
    end
    bit = bit / 2
  end
  if rest > 0 then
    result = result + 1
  end
  return events, result
end

-- drained sets check.used from the level that a state had at an instant. absolute
-- says that a clock which steps back counts the time twice, as it must where only
-- an instant is stored; else the level stands until the clock has moved on.
local function drained(check, level, at, numbers, absolute)
  local capacity, drain, tick = check.capacity, check.pace, check.tick
  local weight
  numbers = numbers or ''
  if numbers ~= check.numbers then
    local former = {string.match(numbers, '^(%d+) (%d+) (%d+) (%d+)$')}
    capacity, weight, drain, tick = whole(former[1]), whole(former[2]), whole(former[3]), whole(former[4])
    if not (level and at and capacity and weight and drain and tick and weight * drain * tick > 0) then
      check.damaged = true
      return
    end
    check.repair = true
  elseif not (level and at) then
    check.damaged = true
    return
  end
  local elapsed = (now - now % tick - at) / tick
  if elapsed < 0 and not absolute then
    elapsed = 0
    check.repair = true
  end
  local used = level - elapsed * drain
  if used < 0 then
    used = 0
  elseif used > capacity then
    used = capacity
    check.repair = true
  end
  if weight then
    local own = tonumber(string.match(check.numbers, '^%d+ (%d+)'))
    local events, part = rescaled(used, own, weight)
    used = events * own + part
    if used > check.capacity then
      used = check.capacity
    end
  end
  check.used = used
end

-- verdict ends the observation of a meter.
local function verdict(check)
  reply[#reply + 1] = check.used
  return check.cost <= check.capacity - check.used
end

-- lowered gives the cost of a meter back, less what has drained of it since: what
-- would have found the meter empty without it. If others have charged meanwhile,
-- less may have; then too little is given back, never too much.
local function lowered(check, at)
  local elapsed = math.max(0, quotient(now, check.tick) - quotient(at, check.tick))
  local left = math.min(check.cost, check.before + check.cost - elapsed * check.pace)
  if left <= 0 then
    return
  end
  if check.used > left then
    check.algorithm.store(check, -left)
  else
    redis.call('DEL', check.key)
  end
end

-- instant returns when a level will have drained to less than one tick's worth,
-- in microseconds, and what is left of it then.
local function instant(check, level)
  local left = level % check.pace
  return now - now % check.tick + (level - left) / check.pace * check.tick, left
end
