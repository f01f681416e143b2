-- Reads what the key of a check has used.
used, previous, former, seen = 0, 0, -1, '0'
damaged, repair, renumbered, room, own = nil, nil, nil, nil, nil
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
