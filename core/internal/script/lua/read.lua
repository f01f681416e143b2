-- Reads what the key of a check has used. Lua sets variables faster one by one than together, and those
-- that are declared in this order to nil all at once.
used = 0
previous = 0
former = -1
seen = '0'
damaged = nil
repair = nil
renumbered = nil
room = nil
own = nil
kept = nil
local state, found, level, at, numbers, absolute

--- observe
--- meter

-- A key of another type is damage, too. Any other error ends the script.
if state and state.err then
  if not string.find(state.err, 'WRONGTYPE', 1, true) then
    error(state.err, 0)
  end
  damaged = true
end
if kept == '' or damaged then
  kept = nil
end
