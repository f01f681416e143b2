-- Settles what decisions have charged: gives back what was too much, and adds what was
-- too little.
--
-- KEYS  a key for each check.
-- ARGV  for each check: its limit; the units to add or, below 0, to give back; what was
--       used after the charge; the instant of the charge, or 0 if it is not known; and
--       how: "raise" if the units are the least to be used, "firm" if a place in a queue
--       is given back even if others queue behind it, or "settle".

local limits, argument = {}, 1

for number = 1, #KEYS do
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
  if charged.numbers ~= '' then
    local text
    if algorithm == 'gcra' then
      text = pcall('GET', KEYS[number])
      text = type(text) == 'string' and string.match(text, '^%d+ %d+ (.*)$')
    else
      text = pcall('HMGET', KEYS[number], 'numbers')[1]
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
  argument = argument + 5
  local known, raise = at > 0, how == 'raise'
  local ticks = (now - now % limit.tick - at + at % limit.tick) / limit.tick -- since the charge
  local charge, before = 0, check.previous

  if check.damaged then
    -- The next question mends it.
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
        instants[#instants + 1] = later[unit - units] or text
        if #instants == 1000 then
          call('RPUSH', check.key, unpack(instants))
          instants = {}
        end
      end
      if #instants > 0 then
        call('RPUSH', check.key, unpack(instants))
      end
    end
  end

  if algorithm == 'sliding-log' then
    local newest = not check.damaged and tonumber(call('LINDEX', check.key, '-1'))
    if newest then
      local full = newest + limit.pace
      call('PEXPIREAT', check.key, format('%d', (full - full % 1000000) / 1000 + grace))
    end
  elseif charge ~= 0 or check.previous ~= before then
    if check.used + charge + (check.previous or 0) > 0 then
      --- write
    else
      call('DEL', check.key)
    end
  end
end

return ''
