-- Reads a check of a limit from the arguments, and what its key has used.
local check = { key = KEYS[number], limit = limit, cost = tonumber(ARGV[argument + 1]), used = 0, former = -1 }
local seen, fits = '0', nil
local state, found, level, at, numbers, absolute

--- observe
--- meter

-- A key of another type is damage, too. Any other error ends the script.
if state and state.err then
  if not string.find(state.err, 'WRONGTYPE', 1, true) then
    error(state.err, 0)
  end
  check.damaged = true
end
