-- Reads the cost of a check from the arguments.
--
-- A call that is made several times at once has that number behind each of its costs. If its first
-- check has another cost each time, all of these costs stand there instead, with commas in between.
-- Checks in a row with the same limit, cost and times have these words once, followed by the number
-- of the checks. If several checks take turns, the first one's words end with how often that is and with
-- how many they are. The words of the others follow.
cost, count, costs = tonumber(ARGV[argument + 1]), 1, nil
if not cost then
  local times, checks
  cost, count, times, checks = string.match(ARGV[argument + 1], '^(%d+) (%d+) ?(%d*) ?(%d*)$')
  cost, count = tonumber(cost), tonumber(count)
  repeats, period = tonumber(times) or repeats, tonumber(checks) or period
  if not cost then
    costs = {}
    for each in string.gmatch(ARGV[argument + 1], '%d+') do
      costs[#costs + 1] = tonumber(each)
    end
    cost, count = costs[1], #costs
  end
end
