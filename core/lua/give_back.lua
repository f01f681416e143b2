-- Gives back what a decision charged whose question was refused elsewhere.
--
-- KEYS  a key for each check.
-- ARGV  for each check: algorithm, cost, capacity, pace, tick, numbers, what was used
--       before the charge, and the instant of the decision.

for i = 1, #KEYS do
  local argument = (i - 1) * 8
  local check = {
    key = KEYS[i],
    algorithm = algorithms[ARGV[argument + 1]],
    cost = tonumber(ARGV[argument + 2]),
    capacity = tonumber(ARGV[argument + 3]),
    pace = tonumber(ARGV[argument + 4]),
    tick = tonumber(ARGV[argument + 5]),
    numbers = ARGV[argument + 6],
    before = tonumber(ARGV[argument + 7]),
    used = 0,
  }
  check.algorithm.observe(check)
  if check.used > 0 and not check.damaged then
    check.algorithm.restore(check, tonumber(ARGV[argument + 8]))
  end
end

return {}
