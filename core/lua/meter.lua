-- The arithmetic of a meter: a level that drains at a steady pace. A leaky bucket
-- stores the level, a token bucket what is missing from full, GCRA and shaping
-- the instant at which the level will have drained to less than one tick's worth.

-- renumbered returns what is used under a named limit whose numbers have changed:
-- drained with the former ones until now, and then ceil(used · weight / former
-- weight), exactly.
local function renumbered(check, level, at, numbers, absolute)
  local capacity, former, drain, tick = string.match(numbers or '', '^(%d+) (%d+) (%d+) (%d+)$')
  capacity, former, drain, tick = whole(capacity), whole(former), whole(drain), whole(tick)
  if check.numbers == '' or not (level and at and capacity and former and drain and tick and former * drain * tick > 0) then
    check.damaged = true
    return 0
  end
  check.repair = true
  local elapsed = (now - now % tick - at) / tick
  if elapsed < 0 and not absolute then
    elapsed = 0
  end
  local used = math.min(capacity, math.max(0, level - elapsed * drain))
  local weight = tonumber(string.match(check.numbers, '^%d+ (%d+)'))
  local part = used % former
  local events = (used - part) / former
  -- ceil(part · weight / former) by long multiplication, from the highest bit of
  -- weight down: the product itself may need more than 53 bits.
  local result, rest, bit, left = 0, 0, 1, weight
  while bit * 2 <= left do
    bit = bit * 2
  end
  while bit >= 1 do
    result, rest = result * 2, rest * 2
    if rest >= former then
      result, rest = result + 1, rest - former
    end
    if left >= bit then
      left = left - bit
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
  return math.min(check.capacity, events * weight + result)
end

-- observed ends the observation of a meter whose state had a level at an instant,
-- if there is one. absolute says that a clock which steps back counts the time
-- twice, as it must where only an instant is stored; else the level stands until
-- the clock has moved on.
local function observed(check, found, level, at, numbers, absolute)
  local used, capacity = 0, check.capacity
  if not found then
    used = 0
  elseif (numbers or '') ~= check.numbers then
    used = renumbered(check, level, at, numbers, absolute)
  elseif not (level and at) then
    check.damaged = true
  else
    local tick = check.tick
    local elapsed = (now - now % tick - at) / tick
    if elapsed < 0 and not absolute then
      elapsed = 0
      check.repair = true
    end
    used = level - elapsed * check.pace
    if used < 0 then
      used = 0
    elseif used > capacity then
      used = capacity
      check.repair = true
    end
  end
  check.used, check.seen = used, format('%d', used)
  return check.cost <= capacity - used
end
