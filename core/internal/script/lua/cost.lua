-- Reads the cost of a check from the arguments.
--
-- A call that is asked several times at once has how often behind each of its costs. One whose
-- first check has another cost each time has all of these instead, with commas in between. Where
-- the limit, the cost and how often are those of several checks in a row, how many checks these
-- are comes last, and the words stand there once.
cost, count, costs = tonumber(ARGV[argument + 1]), 1, nil
if not cost then
  cost, count, repeats = string.match(ARGV[argument + 1], '^(%d+) (%d+) ?(%d*)$')
  cost, count, repeats = tonumber(cost), tonumber(count), (tonumber(repeats) or 1) - 1
  if not cost then
    costs = {}
    for each in string.gmatch(ARGV[argument + 1], '%d+') do
      costs[#costs + 1] = tonumber(each)
    end
    cost, count = costs[1], #costs
  end
end
