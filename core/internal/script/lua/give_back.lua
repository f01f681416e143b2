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
  return (capacity + -capacity % pace) / pace * tick
end

-- give_back gives back what has ended of the reservations of a check, the newest charge first.
local function give_back(r)
  local first = try('ZRANGE', r.open, '0', '0', 'WITHSCORES')
  if first.err then
    call('DEL', r.open) -- somebody else has written it
    return
  elseif not first[1] or tonumber(first[2]) > now then
    return
  end
  local ended = {}
  for i, member in ipairs(call('ZRANGE', r.open, '-inf', format('%d', now), 'BYSCORE')) do
    local at, after, units, limit = string.match(member, '^%S+ (%d+) (%d+) (%d+) (.+)$')
    ended[i] = { member = member, at = tonumber(at), after = tonumber(after), units = units, limit = limit }
  end
  table.sort(ended, function(a, b)
    if a.at ~= b.at then
      return a.at > b.at
    elseif a.after ~= b.after then
      return a.after > b.after
    end
    return a.member > b.member
  end)
  for _, one in ipairs(ended) do
    local done = '0'
    if one.limit and now < one.at + recovery(one.limit) then -- else nothing can be left of it
      done = correct({ r.key, r.past }, { one.limit, '-' .. one.units, format('%d', one.after), format('%d', one.at), 'settle' })
    end
    if string.byte(done) == 48 then -- else Redis has refused, and the next call tries again
      call('ZREM', r.open, one.member)
      r.mark = '-'
    end
  end
end
