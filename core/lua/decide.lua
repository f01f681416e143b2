-- Decides a list of questions, one after the other.
--
-- KEYS  a key for each check.
-- ARGV  for each question the number of its checks, and for each of those:
--       algorithm, charge ("1", or "0" to ask only), cost, capacity, pace, tick,
--       numbers.
--       Then "at", if the instant of the decision is to be told.
--
-- Returns whole numbers in a text, which is the cheapest reply. For each check,
-- what its key had used before the question: one or more, as many as its algorithm
-- says. The caller works out the rest from them. Then the instant in microseconds,
-- if it was asked for, and the number of keys that were damaged and have been
-- replaced, if there are any.

local argument, key, damaged, reply = 1, 0, 0, nil

while key < #KEYS do
  local count, passed, checks = tonumber(ARGV[argument]), true, {}
  argument = argument + 1

  -- Read and decide all,
  for i = 1, count do
    key = key + 1
    local check = {
      key = KEYS[key],
      algorithm = algorithms[ARGV[argument]],
      charge = ARGV[argument + 1] == '1',
      cost = tonumber(ARGV[argument + 2]),
      capacity = tonumber(ARGV[argument + 3]),
      pace = tonumber(ARGV[argument + 4]),
      tick = tonumber(ARGV[argument + 5]),
      numbers = ARGV[argument + 6],
      used = 0,
    }
    argument = argument + 7
    checks[i] = check
    if not check.algorithm.observe(check) and check.cost > 0 then
      passed = false
    end
    reply = reply and reply .. ' ' .. check.seen or check.seen
  end

  -- then write all.
  for i = 1, count do
    local check = checks[i]
    if check.charge then
      if check.damaged then
        damaged = damaged + 1
        call('DEL', check.key)
      end
      if passed then
        check.algorithm.store(check, check.cost)
      elseif check.repair and check.used + (check.previous or 0) > 0 then
        check.algorithm.store(check, 0)
      end
    end
  end
end

if ARGV[argument] == 'at' then
  reply = reply .. format(' %d', now)
end
if damaged > 0 then
  reply = reply .. format(' %d', damaged)
end
return reply or ''
