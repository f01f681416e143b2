-- What windows share: they settle in one way, and may have a past.
--
-- A past is the instant until which it means something, a semicolon, and the instant at which the key was reset, so that nothing
-- is given back of what was charged before. A key may have nothing but a past. What is found of a window has it as past, and
-- until when it means something as lasts. The module of a window has these functions besides those of any algorithm:
--
--   left_with   returns a limit with the numbers that a key was left with;
--   adjust      returns how much is to be added to what is used, and to what is left of the former window;
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

-- keep_past returns until when a window with a past has to live that was written, and has to until an instant for its count.
local function keep_past(key, found, lives)
  if found.lasts > now then
    return math.max(lives, found.lasts)
  end
  call('HSET', key, 'past', '')
  return lives
end

-- uncut returns a copy of a limit that is as large as can be: what others have used is not cut down to this one's capacity.
local function uncut(limit)
  local copy = {}
  for name, value in pairs(limit) do
    copy[name] = value
  end
  copy.capacity = 9007199254740991
  return copy
end

return { observe_past = observe_past, keep_past = keep_past, uncut = uncut }
