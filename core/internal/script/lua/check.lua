-- Reads a check of a limit from the arguments, and what its key has used.
--
-- A call that is asked several times at once has how often behind each of its costs. One whose
-- first check has another cost each time has all of these instead, with commas in between.
local cost, count, costs = tonumber(ARGV[argument + 1]), 1, nil
if not cost then
  cost, count = string.match(ARGV[argument + 1], '^(%d+) (%d+)$')
  cost, count = tonumber(cost), tonumber(count)
  if not cost then
    costs = {}
    for each in string.gmatch(ARGV[argument + 1], '%d+') do
      costs[#costs + 1] = tonumber(each)
    end
    cost, count = costs[1], #costs
  end
end
local check = { key = KEYS[number], limit = limit, cost = cost, costs = costs, used = 0, former = -1 }
local seen, room = '0', nil
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
