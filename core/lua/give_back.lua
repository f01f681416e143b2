-- Gives back what a decision charged whose question was refused elsewhere.
--
-- KEYS  a key for each check.
-- ARGV  for each check: its limit, its cost, what was used before the charge, and
--       the instant of the decision.

local limits, argument = {}, 1

for number = 1, #KEYS do
  --- check
  local before, decided = tonumber(ARGV[argument + 2]), tonumber(ARGV[argument + 3])
  argument = argument + 4

  if not check.damaged and check.used + (check.previous or 0) > 0 then
    local ticks = (now - now % limit.tick - decided + decided % limit.tick) / limit.tick -- since then
    local charge, algorithm = 0, limit.algorithm
    if algorithm == 'sliding-log' then
      call('LREM', check.key, format('%d', -check.cost), format('%d', decided))
    elseif algorithm == 'sliding-window' then
      local age = ticks - check.elapsed
      if age <= 0 then
        charge = -math.min(check.used, check.cost)
      elseif age <= limit.pace then
        check.previous = math.max(0, check.previous - check.cost)
      end
    elseif algorithm == 'fixed-window' then
      if check.left > 0 and decided >= now + check.left - limit.pace then -- its window is open
        charge = -math.min(check.used, check.cost)
      end
    else
      -- A meter gets it back less what has drained of it since: what would have found
      -- the meter empty without it. If others have charged meanwhile, less may have;
      -- then too little is given back, never too much.
      local left = before + check.cost - math.max(0, ticks) * limit.pace
      charge = -math.max(0, math.min(check.used, check.cost, left))
    end

    if algorithm ~= 'sliding-log' then
      if check.used + charge + (check.previous or 0) > 0 then
        --- write
      else
        call('DEL', check.key)
      end
    end
  end
end

return ''
