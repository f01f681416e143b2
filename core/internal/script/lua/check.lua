-- Reads what the key of a check has used.
used, previous, former, damaged, repair, renumbered, seen, room, own = 0, 0, -1, false, false, false, '0', nil, nil
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
