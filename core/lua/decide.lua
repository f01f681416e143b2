-- Decides a list of questions, one after the other.
--
-- KEYS  a key for each check.
-- ARGV  for each question the number of its checks, and for each of those:
--       algorithm, charge ("1", or "0" to ask only), cost, capacity, pace, tick,
--       numbers.
--
-- Returns what each check's key had used before the question: one or more whole
-- numbers, as many as its algorithm says. The caller works out the rest from
-- them. The instant of the decision follows in microseconds, and if keys were
-- damaged and replaced, their number.

local argument, key, damaged = 1, 0, 0

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
  end

  -- then write all.
  for i = 1, count do
    local check = checks[i]
    if check.charge then
      if check.damaged then
        damaged = damaged + 1
        redis.call('DEL', check.key)
      end
      if passed then
        check.algorithm.store(check, check.cost)
      elseif check.repair and check.used > 0 then
        check.algorithm.store(check, 0)
      end
    end
  end
end

reply[#reply + 1] = now
if damaged > 0 then
  reply[#reply + 1] = damaged
end
return reply
