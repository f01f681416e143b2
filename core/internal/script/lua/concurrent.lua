-- A concurrent limit is a sorted set. Its members are, in the order of their scores:
--
--   waiters   an instant of 16 digits, a space and an id: the first waiter of a line of a process has registered since
--             then. The score says what it wants: its ceiling and its cost. See hand_over.
--   "*"       how many places holders have beyond their first ones. It is missing while that is 0.
--   "@" and a waiter   until when the waiter lives unless it asks again.
--   "."       the latest token, negated.
--   holders   each with the instant at which its lease ends. The name of one that has several places ends in a "*" and
--             their number. A "+" and a waiter holds places that are kept for that waiter.

--- functions
local holder -- of the check that was read last, if it takes places
local present, instant -- now as text, and the token of whoever takes a place now if no clock has stepped back
local told = {} -- what the caller is told of so many places, where one fits
local tokens = {} -- the latest ones of keys where they are not of the past

-- How long a key lives, in microseconds, after a lease that begins now has ended: for as long as a lease
-- may be, so that no holder is forgotten and its token is remembered.
local remembered = 600000000

-- The scores in front of the token begin here: what waiters want, how many further places are held, and until when
-- waiters live. most_cost is more than any cost.
local wanted, further, living, front, most_cost = -9000000000000000, -8200000000000000, -8000000000000000, -5000000000000000, 1048576

-- How long a waiter is overtaken before others wait for it, and how long it lives after it has asked, or has been called.
local patience, life = 500000, 900000

-- How many members a script run looks at or removes at most, of each kind.
local most = 256
local unless_damaged, named, places_of, count_further, add_further, further_of, ended, in_use, first_of, tell,
  hand_over, given_back, leave
if uses_places then
  -- unless_damaged returns what a command has replied, or nil if the key has another type.
  function unless_damaged(reply)
    if type(reply) ~= 'table' or not reply.err then
      return reply
    elseif not string.find(reply.err, 'WRONGTYPE', 1, true) then
      error(reply.err, 0)
    end
  end

  -- named returns the name under which a holder has so many places.
  function named(name, places)
    if places > 1 then
      return name .. '*' .. places
    end
    return name
  end

  -- places_of returns how many places a member has.
  function places_of(name)
    local many = string.match(name, '%*(%d+)$')
    return many and tonumber(many) or 1
  end

  -- count_further returns how many places are held beyond the first ones of their holders.
  function count_further(key)
    return (call('ZSCORE', key, '*') or further) - further
  end

  -- add_further changes how many these are.
  function add_further(key, places)
    local sum = count_further(key) + places
    if sum > 0 then
      call('ZADD', key, format('%d', further + sum), '*')
    else
      call('ZREM', key, '*')
    end
  end

  -- further_of returns how many places beyond the first ones some members have.
  function further_of(names)
    local sum = 0
    for _, name in ipairs(names) do
      sum = sum + places_of(name) - 1
    end
    return sum
  end

  -- ended returns holders whose lease has ended, the ones that ended first, but not all if they are many.
  function ended(key)
    return call('ZRANGE', key, '0', instant, 'BYSCORE', 'LIMIT', '0', most)
  end

  -- in_use returns how many places are held.
  function in_use(key)
    instant = instant or format('%d', now)
    local behind = call('ZREVRANK', key, '.') or 0
    local sum = count_further(key)
    local gone = call('ZCOUNT', key, '0', instant)
    if gone > 0 and sum > 0 then
      sum = sum - further_of(ended(key))
    end
    return behind - gone + sum
  end

  -- first_of returns the first of the waiters who want the same as another one, or, without one, the first waiter whose score
  -- is above a text.
  function first_of(key, above, score)
    local found = call('ZRANGE', key, score or above, score or format('(%d', further), 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES')
    if #found == 0 then
      return nil
    end
    local class = found[2] - wanted
    local cost = class % most_cost
    return {
      name = found[1],
      score = format('%d', found[2]),
      cost = cost,
      ceiling = (class - cost) / most_cost,
      at = tonumber(string.sub(found[1], 1, 16)),
    }
  end

  -- tell tells the process of a waiter that its turn has come, and returns whether that was permitted.
  function tell(key, name)
    local prefix, process, line = string.match(key, '^(.-):{'), string.match(name, ' ~?([^-]+)%-(%d+)$')
    local sent = prefix and process and try('PUBLISH', prefix .. ':waiting:' .. process, line)
    return type(sent) == 'number'
  end

  -- hand_over hands places that are free to the waiters that came before an instant. The first of those who want the same go
  -- in their order: one that fits has its places kept until it asks, and is told so. A waiter that does not fit blocks
  -- nobody until its patience is over, and then those whose ceiling is not above its own. hand_over returns how many places
  -- are in use then, and the ceiling up to which callers are blocked.
  function hand_over(key, used, before)
    local first, blocked = {}, -1
    local one = first_of(key, format('%d', wanted))
    while one and #first < 32 do
      first[#first + 1] = one
      one = first_of(key, '(' .. one.score)
    end
    for _ = 1, 64 do
      local place
      for i, other in ipairs(first) do
        if other.at < before and (not place or other.at < first[place].at) then
          place = i
        end
      end
      if not place then
        break
      end
      one = first[place]
      local lives = (call('ZSCORE', key, '@' .. one.name) or living) - living > now
      local fits = one.cost <= one.ceiling - used and one.ceiling > blocked
      if lives and fits and not tell(key, one.name) then
        break -- nobody can be told: whoever asks first has the place
      elseif lives and not fits then
        if now - one.at >= patience then
          blocked = math.max(blocked, one.ceiling)
        end
        table.remove(first, place)
      else
        call('ZREM', key, one.name, '@' .. one.name)
        if lives then
          used = used + one.cost
          if not string.find(one.name, '~', 1, true) then -- else its call needs something else, too
            call('ZADD', key, format('%d', now + life), named('+' .. one.name, one.cost))
            if one.cost > 1 then
              add_further(key, one.cost - 1)
            end
          end
        end
        local behind = first_of(key, nil, one.score)
        if behind then
          first[place] = behind
        else
          table.remove(first, place)
        end
      end
    end
    return used, blocked
  end

  -- given_back hands over what has been given back of a key, if somebody waits.
  function given_back(key)
    local first = call('ZRANGE', key, '0', '0')[1]
    if first and string.byte(first) >= 48 and string.byte(first) <= 57 then
      hand_over(key, in_use(key), largest)
    end
  end

  -- leave removes what is known of a waiter, and what is kept for it.
  function leave(key, name, cost)
    call('ZREM', key, name, '@' .. name)
    if call('ZREM', key, named('+' .. name, cost)) == 1 and cost > 1 then
      add_further(key, 1 - cost)
    end
  end
end

--- holder
if limit.charged and limit.algorithm == 'concurrent' then
  holder = ARGV[argument]
  argument = argument + 1
end

--- observe
-- Redis takes longer to print a score than to count members. All places are behind the token, so its rank
-- from the end is their number, and the token itself need not be read. When the first lease ends is read
-- only for whoever cannot have a place, or only asks.
own = holder
local first, gone, waits, sum = nil, 0, false, 0
local behind = try('ZREVRANK', key, '.')
if tonumber(behind) then
  former, instant = now, instant or format('%d', now)
  local others = call('ZCARD', key) - 1 - behind
  if others > 0 then
    damaged = call('ZCOUNT', key, format('%d', wanted), format('(%d', front)) ~= others
    sum, waits = count_further(key), first_of(key, format('%d', wanted)) ~= nil
  end
  if behind > 0 then
    if not limit.charged or cost > limit.ceiling - behind - sum then
      first = tonumber(call('ZRANGE', key, -behind, -behind, 'WITHSCORES')[2])
    end
    if not first or first <= now then
      first, gone = nil, call('ZCOUNT', key, '-inf', instant) - 1 - others -- the token is no place
      damaged = damaged or gone ~= 0 and gone ~= call('ZCOUNT', key, '0', instant) -- there is one before the token or before 1970
    end
    if gone > 0 and sum > 0 and not damaged then
      sum = sum - further_of(ended(key))
    end
    repair, used = gone > 0, behind - gone + sum
  end
else
  state = behind or nil
  damaged = not state and call('ZCARD', key) > 0
end
if damaged then
  used, former, waits = 0, -1, false
end
if own and string.byte(own) == 63 then -- a "?": it waits
  local name, age, since, id = string.match(own, '^%?(%S+) (%d+) (%d+) (%S+)$')
  since = tonumber(since)
  if since == 0 then
    since = now - tonumber(age)
  end
  own = { holder = name, since = since, name = format('%016d', since) .. ' ' .. id }
  local ends = former >= 0 and call('ZSCORE', key, named('+' .. own.name, cost))
  if ends and tonumber(ends) > now then
    own.kept = true
    leave(key, own.name, cost) -- its places are free for nobody else
    behind, sum, waits = behind - 1, sum + 1 - cost, false
    used = used - cost
  end
end
room = limit.ceiling - used
local blocked -- places may be free, and are kept for others
if waits and limit.charged and cost <= room then
  local taken, ceiling = hand_over(key, used, type(own) == 'table' and own.since or now)
  if taken > used then
    behind, sum = call('ZREVRANK', key, '.'), count_further(key)
    used, gone, first = taken, call('ZCOUNT', key, '0', instant), nil
    if gone > 0 and sum > 0 then
      sum = sum - further_of(ended(key))
    end
    used = behind - gone + sum
  end
  room = limit.ceiling - math.max(used, taken)
  blocked = cost > room or ceiling >= limit.ceiling
  if blocked then
    room = math.min(room, cost - 1)
  end
end
seen = '0 0 0 0'
if used == 0 and not blocked then
  -- That is all.
elseif used == 0 then -- all is free, and left to waiters who have been told
  used = limit.ceiling - cost + 1
  seen = format('%d 0 %d 0', used, life)
elseif limit.charged and cost <= room then
  former = now + limit.pace + remembered
  seen = told[used] or format('%d 0 0 0', used)
  told[used] = seen
else
  -- The places are in order, and the last ones are held: so their ranks count from the end.
  local excess, missing, wait, held = math.max(used - limit.capacity, 0), cost - limit.ceiling + used, 0, behind - gone
  local ends
  if sum > 0 then
    local list, freed = call('ZRANGE', key, -held, math.min(-1, most - held), 'WITHSCORES'), 0
    for i = 1, #list, 2 do
      if freed <= excess then
        ends = list[i + 1] - now
      end
      if freed < missing then
        wait = list[i + 1] - now
      end
      freed = freed + places_of(list[i])
    end
  else
    if not first or excess > 0 then
      first = tonumber(call('ZRANGE', key, excess - held, excess - held, 'WITHSCORES')[2])
    end
    ends = first - now
    if missing == excess + 1 then
      wait = ends
    elseif missing > 0 and cost <= limit.ceiling then
      wait = call('ZRANGE', key, missing - 1 - held, missing - 1 - held, 'WITHSCORES')[2] - now
    end
  end
  ends, wait = math.min(ends or 0, remembered), math.min(wait, remembered)
  former = now + ends + remembered
  if blocked then
    wait = math.max(ends, wait)
  elseif cost == 0 or missing <= 0 or cost > limit.ceiling then
    wait = 0
  end
  if cost > 0 and missing > 0 then
    repair = repair or call('ZCOUNT', key, format('(%d', now + remembered), '+inf') > 0
  end
  if blocked then -- the caller works out that it does not fit
    used = math.max(used, limit.ceiling - cost + 1)
  end
  seen = format('%d %d %d 0', used, ends, wait)
end
if type(own) == 'table' then
  own.lacks = cost > room
end

--- store
if repair then
  local dead = ended(key)
  if #dead > 0 then
    mark = '-'
    call('ZREM', key, unpack(dead))
    local sum = further_of(dead)
    if sum > 0 then
      add_further(key, -sum)
    end
  end
  if charge == 0 then
    local latest = format('%d', now + remembered)
    for _, late in ipairs(call('ZRANGE', key, '(' .. latest, '+inf', 'BYSCORE', 'LIMIT', '0', most)) do
      call('ZADD', key, latest, late)
    end
  end
  repair = false -- the time to live is looked at in any case
end
full = now + limit.pace + remembered
if charge > 0 then
  present = present or format('%d', -now)
  limit.ends = limit.ends or format('%d', now + limit.pace) -- the same for all checks of a script run
  local name = own
  if type(own) == 'table' then
    name = own.holder
    call('ZREM', key, own.name, '@' .. own.name)
  end
  name = named(name, charge)
  local latest = tokens[key]
  -- The token is now, if that lowers the score of the latest one: then two scores change.
  if latest or call('ZADD', key, 'LT', 'CH', present, '.', limit.ends, name) < 2 then
    latest = latest or -call('ZSCORE', key, '.')
    if latest % 1 == 0 and latest < largest then
      seen = string.match(seen, '.* ') .. format('%d', latest)
    else
      call('UNLINK', key)
      latest, former, seen, mark = 0, -1, '0 0 0 0', '!'
    end
    tokens[key] = math.max(latest + 1, now)
    call('ZADD', key, format('%d', -tokens[key]), '.', limit.ends, name)
  end
  if charge > 1 then
    add_further(key, charge - 1)
  end
end
if former >= 0 then
  former, renumbered = full, true
end

--- strike
if limit.algorithm == 'concurrent' and type(own) == 'table' and times == 0 then
  if own.lacks and used > 0 and cost <= limit.ceiling then
    call('ZADD', key, format('%d', wanted + limit.ceiling * most_cost + cost), own.name,
      format('%d', living + now + life), '@' .. own.name)
    seen = string.match(seen, '.* ') .. format('%d', own.since)
  else
    call('ZREM', key, own.name, '@' .. own.name)
  end
  if own.kept then -- other checks have denied the call, or calls with a larger plan have taken more
    given_back(key)
  end
end

--- hold
if limit.algorithm == 'concurrent' and not look then
  local key, holder = KEYS[number], ARGV[argument + 2]
  local places = -ARGV[argument + 1]
  if how == 'settle' then
    local gone = unless_damaged(try('ZREM', key, named(holder, places)))
    if gone == 1 then
      if places > 1 then
        add_further(key, 1 - places)
      end
      given_back(key)
    end
  elseif how == 'leave' then -- a waiter: its id, and since when it has waited
    if unless_damaged(try('ZCARD', key)) then
      leave(key, holder, places)
      given_back(key) -- also if it has only held up others
    end
  elseif how == 'renew' then
    holder = named(holder, places)
    local ends = unless_damaged(try('ZSCORE', key, holder))
    if not ends or tonumber(ends) <= now then
      return asked, '2'
    end
    limit.ends = limit.ends or format('%d', now + limit.pace)
    limit.expires = limit.expires or format('%d', (now + limit.pace + remembered) / 1000 + grace)
    -- It comes first: a server that has no memory left denies ZADD unless the script has written before.
    call('PEXPIREAT', key, limit.expires)
    call('ZADD', key, 'XX', limit.ends, holder)
  elseif how == 'reset' then
    local holders = unless_damaged(try('ZRANGE', key, '0', '+inf', 'BYSCORE', 'LIMIT', '0', most))
    if not holders then
      call('UNLINK', key)
    elseif #holders == most then -- there may be more of them
      call('ZREM', key, unpack(holders))
      local places = further_of(holders)
      if places > 0 then
        add_further(key, -places)
      end
      return asked, '5'
    else
      call('ZREM', key, '*', unpack(holders))
      given_back(key)
    end
  end
  return asked
end
