-- Settles what decisions have charged: gives back what was too much, and adds what was
-- too little.
--
-- KEYS  for each check its key, and one for its past: how low the level of a meter may
--       have come since something was charged, as far as settlements have seen it. That
--       is a text of numbers (empty, or those of a named limit), a semicolon, and points:
--       the instant at which something was given back, or the key was reset, and the
--       least that was used from then on until the last point. See internal/exact/past.go.
-- ARGV  for each check: its limit; the units to add or, below 0, to give back; what was
--       used after the charge; the instant of the charge, or 0 if it is not known; and
--       how: "raise" if the units are the least to be used, "firm" if a place in a queue
--       is given back even if others queue behind it, "reset" if nothing is to be left of
--       the key, or "settle".
--
-- Returns for each check a 0 if it was settled, or a 1 if Redis refused; then, in a line of its
-- own, why it refused the first of these.

local limits, argument, most_points = {}, 1, 16

local function settle(number)
  argument = (number - 1) / 2 * 5 + 1
  --- limit
  -- A named limit's numbers may have changed since the charge: those stand that the
  -- state has. Capacities of windows are no part of them, so what others have used is
  -- not cut down to this one's.
  local charged, algorithm = limit, limit.algorithm
  local meter = not (algorithm == 'fixed-window' or algorithm == 'sliding-window' or algorithm == 'sliding-log')
  local weight, former = 1, 1
  limit = {}
  for name, value in pairs(charged) do
    limit[name] = value
  end
  if not meter then
    limit.capacity = largest
  end
  if charged.numbers ~= '' and algorithm ~= 'sliding-log' then
    local text
    if algorithm == 'gcra' then
      text = try('GET', KEYS[number])
      text = type(text) == 'string' and string.match(text, '^%d+ %d+ (.*)$')
    else
      text = try('HMGET', KEYS[number], 'numbers')[1]
    end
    if text and text ~= charged.numbers then
      local pattern = '^(%d+) ?(%d*) ?(%d*) ?(%d*)$'
      local first, second, third, fourth = string.match(text, pattern)
      first, second, third, fourth = tonumber(first), tonumber(second), tonumber(third), tonumber(fourth)
      if meter and first and second and third and fourth and first * second * third * fourth > 0 then
        former = tonumber((select(2, string.match(charged.numbers, pattern))))
        weight = second
        limit.capacity, limit.pace, limit.tick, limit.numbers = first, third, fourth, text
      elseif algorithm == 'fixed-window' and first and first > 0 then
        limit.pace, limit.numbers = first, text
      elseif algorithm == 'sliding-window' and first and second and first * second > 0 then
        limit.pace, limit.tick, limit.numbers = first, second, text
      end
    end
  end
  --- check
  if check.used + (check.left or check.previous or 0) == 0 and limit.numbers ~= charged.numbers then
    -- It has recovered, so that the numbers which it was left with mean nothing.
    limit = charged
    if check.elapsed then
      check.elapsed = (now - now % limit.tick) / limit.tick % limit.pace
    end
  end
  local units, after, at, how =
    check.cost, tonumber(ARGV[argument + 2]), tonumber(ARGV[argument + 3]), ARGV[argument + 4]
  local known, raise = at > 0, how == 'raise'
  local ticks = (now - now % limit.tick - at + at % limit.tick) / limit.tick -- since the charge
  local charge, before, mark = 0, check.previous, nil
  local reset, noted = how == 'reset', nil

  -- How low the level may have come since the charge, where it is to be given back. Of a log its
  -- instants tell: those of before a reset are gone.
  local log = algorithm == 'sliding-log'
  local points, low = {}, largest
  local numbers, list
  if (units < 0 or reset) and not log then
    local text = try('GET', KEYS[number + 1])
    if type(text) == 'string' then
      numbers, list = string.match(text, '^([^;]*);(.*)$')
      for instant, level in string.gmatch(list or '', '(%d+) (%d+)') do
        points[#points + 1] = { at = tonumber(instant), low = tonumber(level) }
      end
    end
  end
  local last = points[#points]
  local open = 0 -- what has certainly been used since the last point
  if last and last.low > 0 and numbers == limit.numbers and now >= last.at then
    open = math.max(0, last.low - (now - now % limit.tick - last.at + last.at % limit.tick) / limit.tick * limit.pace)
  end
  if known and at > now and not log then
    low = 0 -- it was charged before the clock stepped back, nobody knows when
  elseif known then
    for _, point in ipairs(points) do
      if point.at > at then
        low = math.min(point.low, open)
        break
      end
    end
  end

  if reset then
    if call('DEL', KEYS[number]) == 1 and not log or last then
      noted = 0
    end
    charge, before, check.previous = 0, nil, nil
  elseif check.damaged then
    -- The next question mends it.
  elseif units < 0 and low == 0 then
    -- Nothing is left of it.
  elseif meter then
    -- Of a charge a meter gets back what has not drained since: the rest would have
    -- found it empty without the charge. If others have charged meanwhile, less may
    -- have drained; then too little is given back.
    local left = after - math.max(0, ticks) * limit.pace
    if limit.numbers ~= charged.numbers then
      -- It has drained under both numbers, for unknown times: under which more has.
      local elsewhen = (now - now % charged.tick - at + at % charged.tick) / charged.tick
      local then_left = math.max(0, after - math.max(0, elsewhen) * charged.pace)
      left = math.min(limit.capacity, (after - after % former) / former * weight) - math.max(0, ticks) * limit.pace
      left = math.min(left, (then_left - then_left % former) / former * weight)
      units = units / former * weight
    end
    -- Of a charge that nobody came after nobody has to know.
    local alone = known and low == largest and limit.numbers == charged.numbers and check.used == math.max(0, left)
    left = math.min(left, low)
    units = math.max(-limit.capacity, math.min(units, limit.capacity))
    if raise then
      charge = math.max(0, units - check.used)
    elseif units > 0 then
      charge = math.min(units, limit.capacity - check.used)
    elseif not known then
      charge = -math.min(check.used, -units)
    elseif algorithm ~= 'shaping' or how == 'firm' or check.used <= math.max(0, left) then
      charge = -math.max(0, math.min(check.used, -units, left))
    end
    if charge < 0 and not alone then
      noted = check.used + charge
    end
  elseif algorithm == 'fixed-window' then
    if not known or check.left > 0 and at >= now + check.left - limit.pace then -- its window is open
      if raise then
        units = math.max(0, units - check.used)
      end
      charge = math.max(-check.used, math.min(units, math.max(0, charged.capacity - check.used)))
    end
  elseif algorithm == 'sliding-window' then
    local age = known and ticks - check.elapsed or 0
    if age <= 0 then
      local weighted = check.previous * (limit.pace - check.elapsed)
      weighted = (weighted + (-weighted) % limit.pace) / limit.pace
      if raise then
        units = math.max(0, units - check.used - weighted)
      end
      if units > 0 then
        units = math.max(0, math.min(units, charged.capacity - check.used - weighted))
      end
      charge = math.max(-check.used, units)
      if not known then
        check.previous = math.max(0, check.previous + units - charge)
      end
    elseif age <= limit.pace then
      if raise then
        units = math.max(0, units - check.previous)
      end
      units = math.min(units, math.max(0, charged.capacity - check.previous))
      check.previous = math.max(0, check.previous + units)
    end
  elseif units < 0 then -- of a log
    if known then
      call('LREM', check.key, format('%d', units), format('%d', at))
    else
      call('LTRIM', check.key, '0', format('%d', units - 1))
    end
  else
    if raise then
      units = units - check.used
    end
    units = math.min(units, charged.capacity - check.used)
    if not known then
      at = now
    end
    if units > 0 and at > now - limit.pace then
      if check.first > 0 then
        call('LTRIM', check.key, format('%d', check.first), '-1')
      end
      -- The log is in order, so what was admitted later is put behind.
      local place = first_after(check, at, check.used)
      local later = call('LRANGE', check.key, format('%d', place), '-1')
      if #later > 0 then
        call('LTRIM', check.key, '0', format('%d', -1 - #later))
      end
      local instants, text = {}, format('%d', at)
      for unit = 1, units + #later do
        instants[unit] = later[unit - units] or text
      end
      append_instants(check, instants)
    end
  end

  if noted then
    local instant = now
    if last then
      if now < last.at then
        instant, noted = last.at, 0
      end
      open = math.min(open, noted)
      while #points > 0 and points[#points].low >= open do
        points[#points] = nil
      end
      if open < noted then
        points[#points + 1] = { at = last.at, low = open }
      end
    end
    points[#points + 1] = { at = instant, low = noted }
    if #points > most_points then
      points[2].low = points[1].low
      table.remove(points, 1)
    end
    local text, recovery = {}, 0
    for i, point in ipairs(points) do
      text[i] = format('%d %d', point.at, point.low)
    end
    for _, l in ipairs({ limit, charged }) do
      local ticks = 2 * l.pace
      if meter then
        ticks = (l.capacity + (-l.capacity) % l.pace) / l.pace
      end
      recovery = math.max(recovery, ticks * l.tick)
    end
    local full = instant + recovery
    local set = { KEYS[number + 1], limit.numbers .. ';' .. table.concat(text, ' '),
      'PXAT', format('%d', (full - full % 1000000) / 1000 + grace) }
    if reset then
      try('SET', unpack(set)) -- a server that has no memory left can still reset
    else
      call('SET', unpack(set))
    end
  end
  if reset then
    -- That is all.
  elseif log then
    local newest = not check.damaged and tonumber(call('LINDEX', check.key, '-1'))
    if newest then
      local full = newest + limit.pace
      if not check.renumbered or call('PTTL', check.key) < (full - now) / 1000 then
        call('PEXPIREAT', check.key, format('%d', (full - full % 1000000) / 1000 + grace))
      end
    end
  elseif charge ~= 0 or check.previous ~= before then
    if check.used + charge + (check.previous or 0) > 0 then
      --- write
    else
      call('DEL', check.key)
    end
  end
end

local results, refusal = {}, nil
for number = 1, #KEYS, 2 do
  local settled, problem = pcall(settle, number)
  if settled then
    results[#results + 1] = '0'
  else
    results[#results + 1] = '1'
    refusal = refusal or type(problem) == 'table' and problem.err or tostring(problem)
  end
end
if refusal then
  results[#results] = results[#results] .. '\n' .. refusal
end
return table.concat(results, ' ')
