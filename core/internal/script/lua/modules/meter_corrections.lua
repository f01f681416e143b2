-- Carries out corrections of meters.

local call, try, format, tonumber, match = redis.call, redis.pcall, string.format, tonumber, string.match
local now, state = require('clock').now, require('state')

-- left_with returns the limit with the numbers that a key was left with, if that is a named limit and they differ, and the
-- weight of an event by these numbers and by the limit's own.
local function left_with(key, limit)
  if limit.numbers == '' then
    return limit, 1, 1
  end
  local pattern, text = '^(%d+) (%d+) (%d+) (%d+)$', nil
  local fields = try('HMGET', key, 'numbers', 'tat')
  local whole = fields[2]
  if fields.err then -- it is no hash, but may be a string that ends with the numbers
    whole = try('GET', key)
  else
    text = fields[1]
  end
  if type(whole) == 'string' then
    text = match(whole, '^%d+ %d+ (.*)')
  end
  local full, event, drain, tick = match(text or '', pattern)
  full, event, drain, tick = tonumber(full), tonumber(event), tonumber(drain), tonumber(tick)
  if text == limit.numbers or not full or full == 0 or event == 0 or drain == 0 or tick == 0 then
    return limit, 1, 1
  end
  local other = {
    algorithm = limit.algorithm,
    capacity = full,
    pace = drain,
    tick = tick,
    numbers = text,
    present = now - now % tick,
  }
  return other, event, tonumber((select(2, match(limit.numbers, pattern))))
end

-- adjust returns the units to be added to the used units, and the fields of the notes then, if they change. Of a charge a
-- meter gets back the part that has not drained since: the rest would have found it empty without the charge.
local function adjust(key, charged, limit, weight, weighed, found, correction)
  local used, units, at, how, order = found.used, correction.units, correction.at, correction.how, correction.order
  local since_then = math.max(0, (limit.present - at + at % limit.tick) / limit.tick)
  local left = -units -- the part of the charge that has not drained: all of it at first
  if how == 'last' then
    left = correction.after
  end
  if limit == charged then
    left = left - since_then * limit.pace
  else
    -- It has drained under both numbers, for unknown times: under which more has.
    local elsewhen = math.max(0, (charged.present - at + at % charged.tick) / charged.tick)
    local then_left = math.max(0, left - elsewhen * charged.pace)
    left = math.min(limit.capacity, (left - left % weighed) / weighed * weight) - since_then * limit.pace
    left = math.min(left, (then_left - then_left % weighed) / weighed * weight)
    units = units / weighed * weight
  end
  units = math.max(-limit.capacity, math.min(units, limit.capacity))
  local notes, noted = nil, nil
  if found.fields and found.fields[4] then
    notes = require('notes')
    noted = notes.read(key, limit, found.fields[4], found.fields[5])
  end
  local since, returns, charge = noted and noted.counts and noted.since, nil, 0
  if how == 'raise' then
    charge = math.max(0, units - used)
  elseif units > 0 then
    charge = math.min(units, limit.capacity - used)
  elseif at == 0 then
    charge = -math.min(used, -units)
  elseif how == 'last' and used > math.max(0, left) then
    charge = 0 -- others have queued behind it
  elseif order and (since or not noted) then
    returns = since and math.min(used, -units)
  elseif at <= now and (order or not (since and at <= since)) then
    -- The units that drain take no more from all such charges together than from each of them.
    charge = -math.max(0, math.min(used, -units, left))
  end
  if since and (returns or charge ~= 0) then
    notes.drain(noted, limit, math.min(used, used + charge))
    if returns then
      charge = -notes.close(noted, order, returns, found.fields[6])
    end
    if charge ~= 0 then -- else nothing is written: the drained units can be told later, too
      return charge, notes.written(noted, limit, used + charge)
    end
  end
  return charge, nil
end

-- settle carries out a correction of a meter.
local function settle(key, charged, correction)
  local limit, weight, weighed = left_with(key, charged)
  local order = correction.order
  local found = limit.algorithm.observe(key, limit, nil, nil, format('n%016d', order and (order - order % 52) / 52 or 0))
  local forgets = false -- whether it has notes that mean nothing
  if found.used == 0 and limit ~= charged then
    -- It has recovered, so that the numbers which it was left with mean nothing, nor do notes.
    limit, forgets = charged, found.fields and found.fields[4]
  end
  if correction.how == 'reset' then
    call('UNLINK', key)
    return nil
  elseif found.damaged then -- the next check repairs it
    return nil
  end
  local charge, fields = 0, nil
  if correction.units ~= 0 then
    charge, fields = adjust(key, charged, limit, weight, weighed, found, correction)
  end
  if charge ~= 0 and found.used + charge > 0 then
    if forgets and not fields then
      call('HDEL', key, 'low')
    end
    state.write(key, limit, found, charge, fields)
  elseif charge ~= 0 then
    call('UNLINK', key)
  end
  return nil, limit == charged and correction.asked and format('%d', found.used + charge) or nil
end

return settle
