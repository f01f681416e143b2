-- Gives back reservations for a time that have ended. reserve.lua tells how open ones are kept.

local call, try, format, tonumber, match = redis.call, redis.pcall, string.format, tonumber, string.match
local now = require('clock').now
local most_ended = 4 -- how many ended ones a script run still looks at: the others stay charged until later runs
local reservations = {}

-- due returns how many open reservations of a key have ended, or 0 if the script run has looked at enough of them.
function reservations.due(open)
  return most_ended > 0 and try('ZCOUNT', open, '-inf', format('%d', now)) or 0 -- which Redis answers sooner than which one ends first
end

-- recovery returns for how many microseconds a part of a charge can still count, by its limit.
function reservations.recovery(limit)
  local algorithm, capacity, pace, tick = match(limit, '^%a+ (%S+) (%d+)[%-/%d]* (%d+) (%d+)')
  capacity, pace = tonumber(capacity), tonumber(pace)
  if string.find(algorithm, '^sliding') or algorithm == 'fixed-window' then
    return 2 * pace * tick
  end
  return math.ceil(capacity / pace) * tick
end

-- read reads a member of a set of open reservations.
local function read(member)
  local at, after, order, units, limit = match(member, '^%S+ (%d+) (%d+) (%d+) (%d+) (.+)$')
  return { member = member, at = tonumber(at), after = tonumber(after), order = tonumber(order), units = units, limit = limit }
end

-- is_newer compares two reservations: the newest charge is the first to be given back.
local function is_newer(a, b)
  if a.at ~= b.at then
    return a.at > b.at
  elseif a.order ~= b.order then
    return a.order > b.order
  elseif a.after ~= b.after then
    return a.after > b.after
  end
  return a.member > b.member
end

-- give_back gives back open reservations of a key that have ended, if any are due (ended): the ones that ended last, the
-- newest charge first. It returns whether it has given back any.
function reservations.give_back(key, open, ended)
  if type(ended) == 'table' then
    call('UNLINK', open) -- another program has written it
    return false
  end
  local list, given = {}, false
  for i, member in ipairs(call('ZRANGE', open, format('%d', now), '-inf', 'BYSCORE', 'REV', 'LIMIT', '0', most_ended)) do
    list[i] = read(member)
  end
  most_ended = most_ended - #list
  table.sort(list, is_newer)
  for _, one in ipairs(list) do
    -- It is taken out first: if Redis refuses in the middle, the reservation is not given back another time.
    if try('ZREM', open, one.member) == 1 then -- else Redis has refused, and the next call tries again
      if one.limit and now < one.at + reservations.recovery(one.limit) then -- else nothing can be left of it
        local after = one.order > 0 and format('%d %d', one.after, one.order) or format('%d', one.after)
        require('corrections').carry_out({ key }, { one.limit, '-' .. one.units, after, format('%d', one.at), 'settle' })
      end
      given = true
    end
  end
  return given
end

return reservations
