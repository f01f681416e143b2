-- The level of a meter that was left with other numbers of a named limit.

local format, tonumber, match = string.format, tonumber, string.match
local now, largest = require('clock').now, 9007199254740991

-- converted returns the used units by other numbers of a named limit: ceil(used · weight / weighed), exactly.
local function converted(used, weight, weighed)
  local part = used % weighed
  local events = (used - part) / weighed
  -- ceil(part · weight / weighed) by long multiplication, from the highest bit of weight down: the product itself may need
  -- more than 53 bits.
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
  return events * weight + result
end

-- observe returns the findings about a level that was left with other numbers: see meter.lua. It drains with these until now.
local function observe(limit, fields, level, at, numbers, absolute)
  local found = { used = 0, expires = -1, seen = '0', fields = fields }
  local full, weighed, drain, length = match(numbers, '^(%d+) (%d+) (%d+) (%d+)$')
  full, weighed, drain, length = tonumber(full), tonumber(weighed), tonumber(drain), tonumber(length)
  if limit.numbers == '' or not (full and weighed > 0 and drain > 0 and length > 0)
    or full > largest or weighed > largest or drain > largest or length > largest then
    found.damaged = true
    return found
  end
  found.repair, found.unsure, found.numbers = true, true, numbers
  local elapsed = (now - now % length - at) / length
  if elapsed < 0 and not absolute then
    elapsed = 0
  end
  local used = math.min(full, math.max(0, level - elapsed * drain))
  used = math.min(limit.capacity, converted(used, tonumber(match(limit.numbers, '^%d+ (%d+)')), weighed))
  found.used, found.seen = used, format('%d', used)
  return found
end

return observe
