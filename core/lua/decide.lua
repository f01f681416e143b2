-- Decides a list of questions, one after the other.
--
-- KEYS  a key for each check.
-- ARGV  for each check its limit, such as "take leaky 10000000 1 1", and its cost.
--       Then "at", if the instant of the decision is to be told.
--
-- Returns whole numbers in a text, which is the cheapest reply. For each check,
-- what its key had used before the question: one or more, as many as its algorithm
-- says, and a "!" behind them if the key was damaged. The caller works out the rest
-- from them. Then the instant in microseconds, if it was asked for.

local limits, checks, reply, number, argument = {}, {}, nil, 1, 1

while number <= #KEYS do
  -- Read and decide all checks of a question,
  local first, passed, more = number, true, true
  while more do
    --- limit
    --- check
    if fits == nil then
      fits = check.cost <= limit.capacity - check.used
    end
    if not fits and check.cost > 0 then
      passed = false
    end
    if check.damaged then
      seen = seen .. '!'
    end
    reply = reply and reply .. ' ' .. seen or seen
    checks[number] = check
    number, argument, more = number + 1, argument + 2, limit.more
  end

  -- then write all.
  for i = first, number - 1 do
    local check = checks[i]
    local limit, charge = check.limit, check.cost
    if not passed then
      charge = 0
    end
    if limit.charged and (passed or check.repair or check.damaged) then
      if check.damaged then
        call('DEL', check.key)
        check.former = -1
      end
      if charge + check.used + (check.previous or 0) > 0 then
        --- write
      end
    end
  end
end

if ARGV[argument] == 'at' then
  reply = reply .. format(' %d', now)
end
return reply or ''
