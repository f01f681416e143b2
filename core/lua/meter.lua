-- The arithmetic of a meter: a level that drains at a steady pace. A leaky bucket
-- stores the level, a token bucket what is missing from full, GCRA and shaping
-- the instant at which the level will have drained to less than one tick's worth.
-- What they found, if they found anything, is the level at an instant and the
-- numbers under which it was left. absolute says that a clock which steps back
-- counts the time twice, as it must where only an instant is stored; else the
-- level stands until the clock has moved on.

if found then
  local used, capacity, tick, pace = 0, limit.capacity, limit.tick, limit.pace
  if not (level and at and level >= 0 and at >= 0 and level % 1 == 0 and at % 1 == 0)
    or level > largest or at > largest then
    check.damaged = true
  elseif numbers == limit.numbers then
    check.former = at + level / pace * tick
    local elapsed = (now - now % tick - at) / tick
    if elapsed < 0 and not absolute then
      elapsed = 0
      check.repair = true
    end
    used = level - elapsed * pace
    if used < 0 then
      used = 0
    elseif used > capacity then
      used = capacity
      check.repair = true
    end
  else
    -- A named limit whose numbers have changed. What was used drains with the former
    -- ones until now, and becomes ceil(used · weight / former weight), exactly.
    local full, former, drain, length = string.match(numbers, '^(%d+) (%d+) (%d+) (%d+)$')
    full, former, drain, length = tonumber(full), tonumber(former), tonumber(drain), tonumber(length)
    if limit.numbers == '' or not (full and former * drain * length > 0)
      or full > largest or former > largest or drain > largest or length > largest then
      check.damaged = true
    else
      check.repair = true
      local elapsed = (now - now % length - at) / length
      if elapsed < 0 and not absolute then
        elapsed = 0
      end
      used = math.min(full, math.max(0, level - elapsed * drain))
      local weight = tonumber(string.match(limit.numbers, '^%d+ (%d+)'))
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
      used = math.min(capacity, events * weight + result)
    end
  end
  check.used, seen = used, format('%d', used)
end
