-- The arithmetic of a meter: a level that drains at a steady pace. A leaky bucket stores the level, a token bucket the tokens that
-- are left, GCRA and shaping the instant at which the level will have drained to less than one tick's worth.

local state = require('state')
local largest = 9007199254740991

-- observe returns the findings about a level at an instant, and the numbers under which it was left. There is nothing if there
-- are no numbers. absolute says that a clock which steps back counts the time twice, as it must where only an instant is
-- stored; else the level stands until the clock has moved on. The findings also have the fields that were read (fields), and
-- the numbers that the meter was left with if these are other ones (numbers).
local function observe(limit, fields, level, at, numbers, absolute)
  if not numbers then
    return { used = 0, expires = -1, seen = '0', damaged = state.is_damage(fields), fields = fields }
  elseif not (level and at and level >= 0 and at >= 0 and level % 1 == 0 and at % 1 == 0)
    or level > largest or at > largest then
    return { used = 0, expires = -1, seen = '0', damaged = true, fields = fields }
  elseif numbers ~= limit.numbers then
    return require('meter_numbers')(limit, fields, level, at, numbers, absolute)
  end
  local tick, pace, repair = limit.tick, limit.pace, false
  local elapsed = (limit.present - at) / tick
  if elapsed < 0 and not absolute then
    elapsed = 0
    repair = true
  end
  local used = level - elapsed * pace
  if used < 0 then
    used = 0
  elseif used > limit.capacity then
    used = limit.capacity
    repair = true
  end
  return {
    used = used, expires = at + level / pace * tick, seen = used > 0 and string.format('%d', used) or '0', repair = repair, fields = fields,
  }
end

return observe
