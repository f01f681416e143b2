-- The processes that wait for places of a key, and the order in which they get them: see concurrent.lua for the members of a key.

local call, try, format, tonumber, match = redis.call, redis.pcall, string.format, tonumber, string.match
local now, places = require('clock').now, require('places')
local wanted, living, overdue, most_cost, largest = places.wanted, places.living, places.overdue, places.most_cost, 9007199254740991

-- How long a waiter is overtaken before others wait for it, and how long it lives after it has asked, or has been called.
local patience, life = 500000, 900000

-- How many different wants of waiters hand_over looks at, at how many overdue waiters for further wants, and at how many wants all
-- calls of given_back look in one run of a script. Waiters that it does not look at ask by themselves.
local most_wants, most_overdue, most_handed, handed = 32, 64, 64, 0

-- first_of returns the first of the waiters that want the same as another one, or, without one, the first waiter with a score
-- above a text.
local function first_of(key, above, score)
  local found = call('ZRANGE', key, score or above, score or format('(%d', places.further), 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES')
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

-- add_overdue adds the first waiters of the wants from a score on for which overdue waiters have waited longest.
local function add_overdue(key, first, from)
  local list, added = call('ZRANGE', key, format('%d', overdue), format('(%d', places.front), 'BYSCORE', 'LIMIT', '0', most_overdue), {}
  for _, name in ipairs(list) do
    local score = call('ZSCORE', key, string.sub(name, 2))
    if score and tonumber(score) >= from and not added[score] and #first < 2 * most_wants then
      added[score] = true
      first[#first + 1] = first_of(key, nil, score)
    end
  end
end

-- forget removes a waiter.
local function forget(key, name)
  call('ZREM', key, name, '@' .. name, '!' .. name)
end

-- is_there returns whether anyone waits.
local function is_there(key)
  return first_of(key, format('%d', wanted)) ~= nil
end

-- tell tells the process of a waiter that its turn has come, and returns whether that was permitted.
local function tell(key, name)
  local prefix, process, line = match(key, '^(.-):{'), match(name, ' ~?([^-]+)%-(%d+)$')
  local sent = prefix and process and try('PUBLISH', prefix .. ':waiting:' .. process, line)
  return type(sent) == 'number'
end

-- first_ones returns the first waiter of each want, but not all if these are many. Those of the oldest waiters are always among them.
local function first_ones(key)
  local first = {}
  local one = first_of(key, format('%d', wanted))
  while one and #first < most_wants do
    first[#first + 1] = one
    one = first_of(key, '(' .. one.score)
  end
  if one then
    add_overdue(key, first, tonumber(one.score))
  end
  return first
end

-- hand_over hands places that are free to the waiters that came before an instant. Of the waiters that want the same only the
-- first one counts. These first ones are served in the order in which they came: one that fits has its places kept until it asks, and
-- is told so. One that does not fit blocks no other until its patience is over, and then the ones with a ceiling that is not above
-- its own. A "~" waiter needs more than the places: it is only told, and has them kept once its patience is over. hand_over returns
-- how many places are in use then, and the ceiling up to which callers are blocked.
local function hand_over(key, used, before)
  local first, blocked = first_ones(key), -1
  handed = handed + #first
  for _ = 1, 2 * most_wants do
    local place
    for i, other in ipairs(first) do
      if other.at < before and (not place or other.at < first[place].at) then
        place = i
      end
    end
    if not place then
      break
    end
    local one = first[place]
    local lives = (call('ZSCORE', key, '@' .. one.name) or living) - living > now
    local fits = one.cost <= one.ceiling - used and one.ceiling > blocked
    if lives and fits and not tell(key, one.name) then
      break -- no waiter can be told: the first caller has the place
    elseif lives and not fits then
      if now - one.at >= patience then
        blocked = math.max(blocked, one.ceiling)
      end
      table.remove(first, place)
    else
      forget(key, one.name)
      if lives then
        used = used + one.cost
        if now - one.at >= patience or not string.find(one.name, '~', 1, true) then
          call('ZADD', key, format('%d', now + life), places.named('+' .. one.name, one.cost))
          if one.cost > 1 then
            places.add_further(key, one.cost - 1)
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

-- given_back hands over the places of a key that were given back, if anyone waits.
local function given_back(key)
  local first = call('ZRANGE', key, '0', '0')[1]
  if handed < most_handed and first and string.byte(first) >= 48 and string.byte(first) <= 57 then
    hand_over(key, places.in_use(key), largest)
  end
end

-- leave removes a waiter, and the places that are kept for it.
local function leave(key, name, cost)
  forget(key, name)
  if call('ZREM', key, places.named('+' .. name, cost)) == 1 and cost > 1 then
    places.add_further(key, 1 - cost)
  end
end

-- name_of returns the name of a waiter.
local function name_of(since, id)
  return format('%016d %s', since, id)
end

-- read returns the waiter with the name of a holder, or nil if that holder does not wait. known_as is the name under which it is
-- registered, and name the name under which it will be: another one if it has not been registered, or if the clock has stepped back.
local function read(holder)
  local name, age, since, id = match(holder or '', '^%?(%S+) (%d+) (%d+) (%S+)$')
  if not name then
    return nil
  end
  local known, came = tonumber(since), now - tonumber(age)
  if known > 0 and known <= came + patience then
    came = known
  end
  return { holder = name, since = came, name = name_of(came, id), known_as = name_of(known, id) }
end

-- take_kept gives a waiter the places that are kept for it: they are free for no other. It returns whether there are any.
local function take_kept(key, found, waiter, cost)
  local ends = found.expires >= 0 and call('ZSCORE', key, places.named('+' .. waiter.known_as, cost))
  if ends and tonumber(ends) > now then
    leave(key, waiter.known_as, cost)
    found.behind, found.further, found.waits = found.behind - 1, found.further + 1 - cost, false
    found.used = found.used - cost
    return true
  end
end

-- let_others_go hands free places to older waiters. It returns the rest of the room, and whether a part of the room is kept for others
-- (blocked).
local function let_others_go(key, limit, found, cost, since)
  local taken, ceiling = hand_over(key, found.used, since)
  if taken > found.used then
    found.behind, found.further, found.first = call('ZREVRANK', key, '.'), places.count_further(key), nil
    found.gone = call('ZCOUNT', key, '0', format('%d', now))
    if found.gone > 0 and found.further > 0 then
      found.further = found.further - places.ended_further(key)
    end
    found.used = found.behind - found.gone + found.further
  end
  local room = limit.ceiling - math.max(found.used, taken)
  if cost > room or ceiling >= limit.ceiling then
    return math.min(room, cost - 1), true
  end
  return room, false
end

-- wait registers a waiter that lacks places of a denied call, or else removes it.
local function wait(key, limit, found, cost)
  local waiter = found.waiter
  local lacks = waiter.lacks and found.used > 0 and cost <= limit.ceiling
  if not lacks or waiter.name ~= waiter.known_as then
    forget(key, waiter.known_as)
  end
  if lacks then
    call('ZADD', key, format('%d', wanted + limit.ceiling * most_cost + cost), waiter.name,
      format('%d', living + now + life), '@' .. waiter.name)
    if now - waiter.since >= patience then
      call('ZADD', key, format('%d', overdue + math.floor(waiter.since / 1000)), '!' .. waiter.name)
    end
    found.seen = match(found.seen, '.* ') .. format('%d', waiter.since)
  end
  if waiter.kept then -- other checks have denied the call, or calls with a larger plan have taken more
    given_back(key)
  end
end

return {
  life = life, is_there = is_there, forget = forget, given_back = given_back, leave = leave, read = read, take_kept = take_kept, let_others_go = let_others_go, wait = wait,
}
