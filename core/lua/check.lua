-- Reads a check from the arguments, and what its key has used.
--
-- The checks of a call share their limits, so each is taken apart once. It is
-- written as whether it is charged ("take") or only asked ("ask"), with a "+" if
-- the next check belongs to the same question, then algorithm, capacity, pace,
-- tick, and numbers.
local limit = limits[ARGV[argument]]
if not limit then
  local mode, more, algorithm, capacity, pace, tick, numbers =
    string.match(ARGV[argument], '^(%a+)(%+?) (%S+) (%d+) (%d+) (%d+) ?(.*)$')
  limit = {
    charged = mode == 'take',
    more = more == '+',
    algorithm = algorithm,
    capacity = tonumber(capacity),
    pace = tonumber(pace),
    tick = tonumber(tick),
    numbers = numbers,
  }
  limits[ARGV[argument]] = limit
end
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
