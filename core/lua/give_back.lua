-- Gives back what a decision charged whose question was refused elsewhere.
--
-- KEYS  a key for each check.
-- ARGV  for each check: algorithm, cost, capacity, pace, tick, numbers, what was used
--       before the charge, and the instant of the decision.

-- lower takes from what is used, and leaves no key that says nothing.
local function lower(check, cost)
  if check.used > cost then
    check.algorithm.store(check, -cost)
  elseif cost > 0 then
    call('DEL', check.key)
  end
end

-- restore gives a check's cost back that was charged at an instant. The state has
-- been observed.
local restore = {}

-- A meter gets it back less what has drained of it since: what would have found
-- the meter empty without it. If others have charged meanwhile, less may have;
-- then too little is given back, never too much.
restore['leaky'] = function(check, at)
  local tick = check.tick
  local elapsed = (now - now % tick - at + at % tick) / tick
  local left = check.before + check.cost - math.max(0, elapsed) * check.pace
  lower(check, math.max(0, math.min(check.cost, left)))
end
restore['shaping'] = restore['leaky']
restore['token-bucket'] = restore['leaky']
restore['gcra'] = restore['leaky']

restore['fixed-window'] = function(check, at)
  if check.left > 0 and at >= now + check.left - check.pace then -- its window is open
    lower(check, check.cost)
  end
end

restore['sliding-window'] = function(check, at)
  local tick = check.tick
  local age = (now - now % tick - at + at % tick) / tick - check.elapsed
  if age <= 0 then
    check.used = math.max(0, check.used - check.cost)
  elseif age <= check.pace then
    check.previous = math.max(0, check.previous - check.cost)
  end
  if check.used + check.previous > 0 then
    check.algorithm.store(check, 0)
  else
    call('DEL', check.key)
  end
end

restore['sliding-log'] = function(check, at)
  call('LREM', check.key, format('%d', -check.cost), format('%d', at))
end

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
  if not check.damaged and check.used + (check.previous or 0) > 0 then
    restore[ARGV[argument + 1]](check, tonumber(ARGV[argument + 8]))
  end
end

return ''
