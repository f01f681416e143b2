-- Gives back what has ended of open reservations, and settles.

-- correct carries out settlements, as settle.lua does.
do
  local KEYS, ARGV
  --- settle
  correct = function(keys, words)
    KEYS, ARGV = keys, words
    return carry_out()
  end
end

-- give_back gives back what has ended of the open reservations of a key, if any are due: those that have ended last, the newest
-- charge first. It returns whether it has.
give_back = function(key, open, ended)
  if type(ended) == 'table' then
    call('UNLINK', open) -- somebody else has written it
    return false
  end
  local list, given = {}, false
  for i, member in ipairs(call('ZRANGE', open, format('%d', now), '-inf', 'BYSCORE', 'REV', 'LIMIT', '0', most_ended)) do
    local at, after, order, units, limit = string.match(member, '^%S+ (%d+) (%d+) (%d+) (%d+) (.+)$')
    list[i] = { member = member, at = tonumber(at), after = tonumber(after), order = tonumber(order), units = units, limit = limit }
  end
  most_ended = most_ended - #list
  table.sort(list, function(a, b)
    if a.at ~= b.at then
      return a.at > b.at
    elseif a.order ~= b.order then
      return a.order > b.order
    elseif a.after ~= b.after then
      return a.after > b.after
    end
    return a.member > b.member
  end)
  for _, one in ipairs(list) do
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
