-- correct carries out a settlement.
local function correct(KEYS, ARGV)
  --- settle
end

-- recovery returns how many microseconds after a charge something can be left of it, by its limit.
local function recovery(limit)
  local algorithm, capacity, pace, tick = string.match(limit, '^%a+ (%S+) (%d+) (%d+) (%d+)')
  capacity, pace = tonumber(capacity), tonumber(pace)
  if string.find(algorithm, '^sliding') or algorithm == 'fixed-window' then
    return 2 * pace * tick
  end
  return math.ceil(capacity / pace) * tick
end

-- How many ended reservations a script run still looks at. What is left over stays charged until later ones.
local most_ended = 4

-- give_back gives back what has ended of the open reservations of a key: those that have ended last, the newest charge
-- first. It returns whether it has, or nil if none has ended or the script run has looked at enough of them.
local function give_back(key, open)
  if most_ended == 0 then
    return nil
  end
  local instant = format('%d', now)
  local due = try('ZCOUNT', open, '-inf', instant) -- which Redis answers sooner than which one ends first
  if due == 0 then
    return nil
  elseif type(due) == 'table' then
    call('UNLINK', open) -- somebody else has written it
    return false
  end
  local ended, given = {}, false
  for i, member in ipairs(call('ZRANGE', open, instant, '-inf', 'BYSCORE', 'REV', 'LIMIT', '0', most_ended)) do
    local at, after, order, units, limit = string.match(member, '^%S+ (%d+) (%d+) (%d+) (%d+) (.+)$')
    ended[i] = { member = member, at = tonumber(at), after = tonumber(after), order = tonumber(order), units = units, limit = limit }
  end
  most_ended = most_ended - #ended
  table.sort(ended, function(a, b)
    if a.at ~= b.at then
      return a.at > b.at
    elseif a.order ~= b.order then
      return a.order > b.order
    elseif a.after ~= b.after then
      return a.after > b.after
    end
    return a.member > b.member
  end)
  for _, one in ipairs(ended) do
    -- It is taken out first: if Redis refuses in the middle, what has ended is not given back another time.
    if try('ZREM', open, one.member) == 1 then -- else Redis has refused, and the next call tries again
      if one.limit and now < one.at + recovery(one.limit) then -- else nothing can be left of it
        local after = format('%d', one.after)
        if one.order > 0 then
          after = format('%d %d', one.after, one.order)
        end
        correct({ key }, { one.limit, '-' .. one.units, after, format('%d', one.at), 'settle' })
      end
      given = true
    end
  end
  return given
end
