-- The arithmetic of a meter: a level that drains at a steady pace. A leaky bucket
-- stores the level, a token bucket what is missing from full, GCRA and shaping
-- the instant at which the level will have drained to less than one tick's worth.
-- What they found, if they found anything, is the level at an instant and the
-- numbers under which it was left. absolute says that a clock which steps back
-- counts the time twice, as it must where only an instant is stored; else the
-- level stands until the clock has moved on.

--- observe
if found then
  local capacity, tick, pace = limit.capacity, limit.tick, limit.pace
  if not (level and at and level >= 0 and at >= 0 and level % 1 == 0 and at % 1 == 0)
    or level > largest or at > largest then
    damaged = true
  elseif numbers == limit.numbers then
    former = at + level / pace * tick
    local elapsed = (limit.present - at) / tick
    if elapsed < 0 and not absolute then
      elapsed = 0
      repair = true
    end
    used = level - elapsed * pace
    if used < 0 then
      used = 0
    elseif used > capacity then
      used = capacity
      repair = true
    end
  else
    -- A named limit whose numbers have changed. What was used drains with the former
    -- ones until now, and becomes ceil(used · weight / former weight), exactly.
    local full, weighed, drain, length = string.match(numbers, '^(%d+) (%d+) (%d+) (%d+)$')
    full, weighed, drain, length = tonumber(full), tonumber(weighed), tonumber(drain), tonumber(length)
    if limit.numbers == '' or not (full and weighed * drain * length > 0)
      or full > largest or weighed > largest or drain > largest or length > largest then
      damaged = true
    else
      repair = true
      local elapsed = (now - now % length - at) / length
      if elapsed < 0 and not absolute then
        elapsed = 0
      end
      used = math.min(full, math.max(0, level - elapsed * drain))
      local weight = tonumber(string.match(limit.numbers, '^%d+ (%d+)'))
      local part = used % weighed
      local events = (used - part) / weighed
      -- ceil(part · weight / weighed) by long multiplication, from the highest bit of
      -- weight down: the product itself may need more than 53 bits.
      local result, rest, bit, left = 0, 0, 1, weight
      while bit * 2 <= left do
        bit = bit * 2
      end
      while bit >= 1 do
        result, rest = result * 2, rest * 2
        if rest >= weighed then
          result, rest = result + 1, rest - weighed
        end
        if left >= bit then
          left = left - bit
          if rest >= weighed - part then
            result, rest = result + 1, rest - (weighed - part)
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
  if used > 0 then
    seen = format('%d', used)
  end
end

--- renumber
drains = true
if charged.numbers ~= '' then
  local pattern, text = '^(%d+) (%d+) (%d+) (%d+)$', try('HMGET', KEYS[number], 'numbers')
  if text.err then -- it is no hash, but may be a string that ends with the numbers
    text = try('GET', KEYS[number])
    text = type(text) == 'string' and string.match(text, '^%d+ %d+ ([^;]*)')
  else
    text = text[1]
  end
  local full, event, drain, tick = string.match(text or '', pattern)
  full, event, drain, tick = tonumber(full), tonumber(event), tonumber(drain), tonumber(tick)
  if text ~= charged.numbers and full and full * event * drain * tick > 0 then
    former_weight, weight = tonumber((select(2, string.match(charged.numbers, pattern)))), event
    limit.capacity, limit.pace, limit.tick, limit.numbers = full, drain, tick, text
    limit.present = now - now % tick
  end
end

--- adjust
-- Of a charge a meter gets back what has not drained since: the rest would have
-- found it empty without the charge. If others have charged meanwhile, less may
-- have drained; then too little is given back.
local left = after - math.max(0, ticks) * limit.pace
if limit.numbers ~= charged.numbers then
  -- It has drained under both numbers, for unknown times: under which more has.
  local elsewhen = (now - now % charged.tick - at + at % charged.tick) / charged.tick
  local then_left = math.max(0, after - math.max(0, elsewhen) * charged.pace)
  left = math.min(limit.capacity, (after - after % former_weight) / former_weight * weight) - math.max(0, ticks) * limit.pace
  left = math.min(left, (then_left - then_left % former_weight) / former_weight * weight)
  units = units / former_weight * weight
end
-- No later charge depends on this one: no note is needed.
local alone = known and low == largest and limit.numbers == charged.numbers and used == math.max(0, left)
left = math.min(left, low)
units = math.max(-limit.capacity, math.min(units, limit.capacity))
if raise then
  charge = math.max(0, units - used)
elseif units > 0 then
  charge = math.min(units, limit.capacity - used)
elseif not known then
  charge = -math.min(used, -units)
elseif how ~= 'last' or used <= math.max(0, left) then
  charge = -math.max(0, math.min(used, -units, left))
end
if charge < 0 and not alone then
  noted = used + charge
end
