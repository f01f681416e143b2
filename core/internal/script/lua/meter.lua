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
      repair, renumbered = true, numbers
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
  else
    own = nil -- nothing is left of what was noted
  end
end

--- renumber
drains = true
order = string.match(ARGV[argument + 2], ' (%d+)$')
order = order and tonumber(order)
noted_in = format('n%016d', order and (order - order % 52) / 52 or 0)
if charged.numbers ~= '' then
  local pattern, text = '^(%d+) (%d+) (%d+) (%d+)$', nil
  local fields = try('HMGET', KEYS[number], 'numbers', 'tat')
  local whole = fields[2]
  if fields.err then -- it is no hash, but may be a string that ends with the numbers
    whole = try('GET', KEYS[number])
  else
    text = fields[1]
  end
  if type(whole) == 'string' then
    text = string.match(whole, '^%d+ %d+ (.*)')
  end
  local full, event, drain, tick = string.match(text or '', pattern)
  full, event, drain, tick = tonumber(full), tonumber(event), tonumber(drain), tonumber(tick)
  if text ~= charged.numbers and full and full * event * drain * tick > 0 then
    former_weight, weight = tonumber((select(2, string.match(charged.numbers, pattern)))), event
    limit = copied(limit)
    limit.capacity, limit.pace, limit.tick, limit.numbers = full, drain, tick, text
    limit.present = now - now % tick
  end
end

--- adjust
-- Of a charge a meter gets back what has not drained since: the rest would have
-- found it empty without the charge.
after = tonumber(string.match(ARGV[argument + 2], '^%d+'))
local since_then = math.max(0, ticks)
local elsewhen = math.max(0, (now - now % charged.tick - at + at % charged.tick) / charged.tick)
local left = after -- of what has to be left for it
if how ~= 'last' then
  left = -units
end
if limit.numbers == charged.numbers then
  left = left - since_then * limit.pace
else
  -- It has drained under both numbers, for unknown times: under which more has.
  local then_left = math.max(0, left - elsewhen * charged.pace)
  left = math.min(limit.capacity, (left - left % former_weight) / former_weight * weight) - since_then * limit.pace
  left = math.min(left, (then_left - then_left % former_weight) / former_weight * weight)
  units = units / former_weight * weight
end
units = math.max(-limit.capacity, math.min(units, limit.capacity))
local low, since = state and state[4], nil
if low then
  since = read_notes(key, limit, low, state[5])
end
if raise then
  charge = math.max(0, units - used)
elseif units > 0 then
  charge = math.min(units, limit.capacity - used)
elseif not known then
  charge = -math.min(used, -units)
elseif how == 'last' and used > math.max(0, left) then
  charge = 0 -- others have queued behind it
elseif order and (since or not low) then
  returns = since and math.min(used, -units)
elseif at <= now and (order or not (since and at <= since)) then
  -- What drains takes no more from all such charges together than from each of them.
  charge = -math.max(0, math.min(used, -units, left))
end
if since and (returns or charge ~= 0) then
  drain(limit, math.min(used, used + charge))
  if returns then
    charge = -close(order, returns, state[6])
  end
  if charge ~= 0 then -- else nothing is written: what has drained since can be told later, too
    sunk = written_notes(limit, used + charge)
  end
end
