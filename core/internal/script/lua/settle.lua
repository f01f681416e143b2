-- Settles what decisions have charged: gives back what was too much, and adds what was
-- too little.
--
-- KEYS  for each check its key. The state of a
--       window may have a past (kept): the instant until which it means something, a semicolon, and the instant at
--       which the key was reset, so that nothing is given back of what was charged before. A key may have nothing but a past.
-- ARGV  for each check: its limit; the units to add or, below 0, to give back; what was
--       used after the charge, and its number behind a space if it was noted; the instant of the charge, or 0 if it
--       is not known; and
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

local limits, argument = {}, 1
local read_notes, drain, written_notes, close -- made when a meter has notes
local written, digits -- as in decide.lua
local told_by, told = {}, {} -- by the key of a meter that was settled: its limit, and what is used since

-- copied returns a limit that may be changed.
local function copied(limit)
  local copy = {}
  for name, value in pairs(limit) do
    copy[name] = value
  end
  return copy
end

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
  local order, noted_in, returns -- of a meter: the number of the charge, where its slot is, and how much may come back
  if not look then
    --- renumber
  end
  local key, cost, count, costs = KEYS[number], 0, 1, nil -- a settlement asks for nothing
  local used, previous, former, seen, damaged, repair, renumbered, room, own, undated, kept, sunk
  local forgotten -- whether a meter has notes that mean nothing
  --- read
  if look then
    return seen
  end
  if used + previous == 0 and limit.numbers ~= charged.numbers then
    -- It has recovered, so that the numbers which it was left with mean nothing, nor do notes.
    limit, forgotten = charged, drains and state and state[4]
  end
  local units, after, at = tonumber(ARGV[argument + 1]), tonumber(ARGV[argument + 2]), tonumber(ARGV[argument + 3])
  local known, raise = at > 0, how == 'raise'
  local ticks = (now - now % limit.tick - at + at % limit.tick) / limit.tick -- since the charge
  local charge, before, mark = 0, previous, nil
  local reset, bare = how == 'reset', false -- bare: nothing is to be left but the past
  local lasts, last = 0, nil
  if kept then
    lasts, last = string.match(kept, '^(%d+);(%d+)$')
    lasts, last = tonumber(lasts) or 0, tonumber(last)
  end
  -- Of a list the instants tell: those of before a reset are gone. Of a meter the notes tell.
  local gone = units < 0 and known and not tells and not drains and (at > now or last and last > at)

  if reset then
    if tells or drains or damaged then
      call('UNLINK', key)
    elseif call('PTTL', key) ~= -2 then
      bare, last = true, math.max(last or 0, now)
      lasts = last + 2 * math.max(limit.pace * limit.tick, charged.pace * charged.tick)
      kept = format('%d;%d', lasts, last)
    end
  elseif damaged then
    -- The next check repairs it.
  elseif units == 0 or gone then
    -- Nothing is to change, or nothing is left of it.
  else
    if drains and state and state[4] and not read_notes then
      --- closing
    end
    --- adjust
  end
  if not reset and (charge ~= 0 or previous ~= before) then
    if used + charge + previous > 0 then
      if forgotten and not sunk then
        call('HDEL', key, 'low')
      end
      --- write
    elseif lasts > now then
      bare = true
    else
      call('UNLINK', key)
    end
  end
  if drains then -- what is used needs not be read again
    told_by[key] = not (reset or damaged) and limit == charged and ARGV[argument]
    told[key] = asked and format('%d', used + charge)
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

-- carry_out carries out all settlements, and returns the reply.
local function carry_out()
  local results, asking, refusal = {}, nil, nil
  for number = 1, #KEYS do
    local settled, asks, other = pcall(settle, number)
    if settled then
      results[#results + 1] = other or '0'
      if asks then
        asking = asking or {}
        asking[#asking + 1] = number
      end
    else
      results[#results + 1] = '1'
      told_by[KEYS[number]] = nil
      refusal = refusal or type(asks) == 'table' and asks.err or tostring(asks)
    end
  end
  if asking then
    for _, number in ipairs(asking) do
      local key, read, seen = KEYS[number], true, nil
      if told_by[key] and told_by[key] == ARGV[(number - 1) * 5 + 1] and told[key] then
        seen = told[key]
      else
        read, seen = pcall(settle, number, true)
      end
      if read then -- else the caller misses the numbers
        results[number] = results[number] .. ',' .. string.gsub(seen, ' ', ',')
      end
    end
  end
  if refusal then
    results[#results] = results[#results] .. '\n' .. refusal
  end
  return table.concat(results, ' ')
end

--- reply
return carry_out()
