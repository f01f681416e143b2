-- Settles what decisions have charged: gives back what was too much, and adds what was
-- too little.
--
-- KEYS  for each check its key. The state in it may have a past (kept): how low the level of a meter may
--       have come since something was charged, as far as settlements have seen it. That
--       is a text of the instant until which it means something, a semicolon, numbers (empty, or those of a named limit),
--       a semicolon, and points: the instant at which something was given back, or the key was reset, and the
--       least that was used from then on until the last point. See internal/exact/past.go. A key may have
--       nothing but a past.
-- ARGV  for each check: its limit; the units to add or, below 0, to give back; what was
--       used after the charge; the instant of the charge, or 0 if it is not known; and
--       how: "raise" if the units are the least to be used, "last" for a place in a queue,
--       which is given back only while no other request queues behind it, "reset" if nothing
--       is to be left of the key, or "settle". Of a concurrent limit the holder stands where
--       others have what was used, and "renew" begins its lease anew; the units are its places.
--       "ban" begins a ban by hand, which lasts so many microseconds as there are units; the reason stands
--       where others have what was used.
--       A "?" behind it asks what is used afterwards.
--
-- Returns for each check a 0 if it was settled, a 1 if Redis refused, a 2 if the places were lost
-- that were to be renewed, a 3 if strikes have begun a ban, or a 4 if it has to be sent again for the
-- instant behind it, since the window of that was not among those sent; then, in a line of its own, why
-- Redis refused the first of these. Behind a 0, a 2 or a 3 follow the numbers that were asked for, each after a comma: they are those of decide.lua,
-- when all of the checks have been settled.

local limits, argument, most_points = {}, 1, 16
local written, digits -- as in decide.lua

-- settle settles a check, and returns whether it is asked what is used afterwards, and what the reply
-- says of it if that is not 0. With look it changes nothing and returns what is used, as text.
local function settle(number, look)
  argument = (number - 1) * 5 + 1
  local limit
  --- limit
  local how = ARGV[argument + 4]
  local asked = string.byte(how, -1) == 63 -- a "?"
  if asked then
    how = string.sub(how, 1, -2)
  end
  --- hold
  -- A named limit's numbers may have changed since the charge: those stand that the
  -- state has. Capacities of windows are no part of them, so what others have used is
  -- not cut down to this one's.
  local charged, drains, tells, weight, former_weight = limit, false, false, 1, 1
  limit = {}
  for name, value in pairs(charged) do
    limit[name] = value
  end
  if look then
    limit = charged
  else
    --- renumber
  end
  local key, cost, count, costs = KEYS[number], 0, 1, nil -- a settlement asks for nothing
  local used, previous, former, seen, damaged, repair, renumbered, room, own, undated, kept
  --- check
  if look then
    return seen
  end
  if used + previous == 0 and limit.numbers ~= charged.numbers then
    -- It has recovered, so that the numbers which it was left with mean nothing.
    limit = charged
  end
  local units, after, at = tonumber(ARGV[argument + 1]), tonumber(ARGV[argument + 2]), tonumber(ARGV[argument + 3])
  local known, raise = at > 0, how == 'raise'
  local ticks = (now - now % limit.tick - at + at % limit.tick) / limit.tick -- since the charge
  local charge, before, mark = 0, previous, nil
  local reset, noted = how == 'reset', nil

  -- How low the level may have come since the charge, where it is to be given back. Of a log its
  -- instants tell: those of before a reset are gone.
  local points, low = {}, largest
  local numbers, list
  if (units < 0 or reset) and not tells then
    if kept then
      numbers, list = string.match(kept, '^%d+;([^;]*);(.*)$')
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
  if known and at > now and not tells then
    low = 0 -- it was charged before the clock stepped back, at an unknown time
  elseif known then
    for _, point in ipairs(points) do
      if point.at > at then
        low = math.min(point.low, open)
        break
      end
    end
  end

  if reset then
    if call('PTTL', key) ~= -2 and not tells then
      noted = 0
    end
    if tells or damaged then
      call('UNLINK', key)
    end
    charge, before, previous = 0, 0, 0
  elseif damaged then
    -- The next check repairs it.
  elseif units == 0 or units < 0 and low == 0 then
    -- Nothing is to change, or nothing is left of it.
  else
    --- adjust
  end

  if noted then
    local instant = now
    if last then
      if now < last.at then
        instant, noted = last.at, 0
      end
      if known and charge < 0 then
        -- All that is given back of what was charged before a point was a part of what was used then.
        if last.at > at then
          open = math.max(0, open + charge)
        end
        for i = #points, 1, -1 do
          if points[i].at > at then
            points[i].low = math.max(0, points[i].low + charge)
          end
          if i < #points and points[i].low >= points[i + 1].low then
            table.remove(points, i)
          end
        end
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
      if drains then
        ticks = (l.capacity + (-l.capacity) % l.pace) / l.pace
      end
      recovery = math.max(recovery, ticks * l.tick)
    end
    kept = format('%d;%s;%s', instant + recovery, limit.numbers, table.concat(text, ' '))
  end
  local lasts = kept and tonumber(string.match(kept, '^%d+')) or 0
  local bare = reset and noted -- nothing is to be left but the past
  if reset then
    -- That is all.
  elseif charge ~= 0 or previous ~= before then
    if used + charge + previous > 0 then
      --- write
      if noted and not text then -- else it is in the text
        call('HSET', key, 'past', kept)
      end
    elseif lasts > now then
      bare = true
    else
      call('UNLINK', key)
    end
  end
  if bare then
    -- The key is never deleted and made again: in a slot that is being moved it could not be. Its time to live comes first,
    -- since a server that has no memory left denies the rest unless the script has written before.
    local expires = format('%d', (lasts - lasts % 1000000) / 1000 + grace)
    call('PEXPIREAT', key, expires)
    --- past
    call('PEXPIREAT', key, expires)
  end
  return asked
end

local results, asking, refusal = {}, nil, nil
for number = 1, #KEYS do
  local settled, told, other = pcall(settle, number)
  if settled then
    results[#results + 1] = other or '0'
    if told then
      asking = asking or {}
      asking[#asking + 1] = number
    end
  else
    results[#results + 1] = '1'
    refusal = refusal or type(told) == 'table' and told.err or tostring(told)
  end
end
if asking then
  for _, number in ipairs(asking) do
    local read, seen = pcall(settle, number, true)
    if read then -- else the caller misses the numbers
      results[number] = results[number] .. ',' .. string.gsub(seen, ' ', ',')
    end
  end
end
if refusal then
  results[#results] = results[#results] .. '\n' .. refusal
end
return table.concat(results, ' ')
