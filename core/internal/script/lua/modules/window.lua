-- The rules that windows share: they settle in one way, and may have a past.
--
-- A past is the instant until which it counts, a semicolon, and the instant at which the key was reset, so that no earlier charge
-- is given back. A key may have only a past. The findings about a window have it as past, and the instant until which it counts as
-- lasts. The module of a window has these functions beside those of any algorithm:
--
--   left_with   returns a limit with the numbers that a key was left with;
--   adjust      returns the units to be added to the used units, and to the rest of the former window;
--   clear       deletes the fields of the state but the past.

local call, tonumber, match = redis.call, tonumber, string.match
local now = require('clock').now

-- observe_past adds the past of a window, unless the rest of the key is damage.
local function observe_past(found, past)
  if not found.damaged then
    found.past, found.lasts = past, tonumber(match(past, '^%d+')) or 0
    found.expires = math.max(found.expires, found.lasts)
  end
end

-- keep_past returns until when a written window with a past has to live, if its count has to live until an instant.
local function keep_past(key, found, lives)
  if found.lasts > now then
    return math.max(lives, found.lasts)
  end
  call('HSET', key, 'past', '')
  return lives
end

-- uncut returns a copy of a limit that is as large as can be: the use of other plans is not cut down to this limit's capacity.
local function uncut(limit)
  local copy = {}
  for name, value in pairs(limit) do
    copy[name] = value
  end
  copy.capacity = 9007199254740991
  return copy
end

return { observe_past = observe_past, keep_past = keep_past, uncut = uncut }
