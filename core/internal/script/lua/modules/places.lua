-- The places of a key that are held, and when they are given back: see concurrent.lua for the members of a key.

local call, format = redis.call, string.format
local unpack = table.unpack or unpack -- Lua 5.2 and later have it in table
local now, remembered = require('clock').now, require('concurrent').remembered
local instant = format('%d', now)

-- The scores of members in front of the token begin here: the wants of waiters, how many further places are held, until when
-- waiters live, and since when the overdue ones have waited. most_cost is more than any cost.
local wanted, further, living = -9000000000000000, -8200000000000000, -8000000000000000
local overdue, front, most_cost = -5000000000000000, -4990000000000000, 1048576

-- How many members a script run looks at or removes at most, of each kind.
local most = 256

-- named returns the name of a holder with a number of places.
local function named(name, places)
  if places > 1 then
    return name .. '*' .. places
  end
  return name
end

-- places_of returns how many places a member has.
local function places_of(name)
  local many = string.match(name, '%*(%d+)$')
  return many and tonumber(many) or 1
end

-- count_further returns how many places are held beyond the first ones of their holders.
local function count_further(key)
  return (call('ZSCORE', key, '*') or further) - further
end

-- add_further changes how many these are.
local function add_further(key, places)
  local sum = count_further(key) + places
  if sum > 0 then
    call('ZADD', key, format('%d', further + sum), '*')
  else
    call('ZREM', key, '*')
  end
end

-- further_of returns how many places beyond the first ones some members have.
local function further_of(names)
  local sum = 0
  for _, name in ipairs(names) do
    sum = sum + places_of(name) - 1
  end
  return sum
end

-- ended returns holders with an ended lease, the ones that ended first, but not all if they are many.
local function ended(key)
  return call('ZRANGE', key, '0', instant, 'BYSCORE', 'LIMIT', '0', most)
end

-- ended_further returns how many places beyond their first ones the holders with an ended lease have.
local function ended_further(key)
  return further_of(ended(key))
end

-- in_use returns how many places are held.
local function in_use(key)
  local behind = call('ZREVRANK', key, '.') or 0
  local sum = count_further(key)
  local gone = call('ZCOUNT', key, '0', instant)
  if gone > 0 and sum > 0 then
    sum = sum - ended_further(key)
  end
  return behind - gone + sum
end

-- mend removes holders with an ended lease. A lease from before a clock has stepped back may end later than any lease can: mend has
-- it end as late as a lease can, unless places are taken now.
local function mend(key, found, charge)
  local dead = ended(key)
  if #dead > 0 then
    found.mark = '-'
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
end

-- waits_of returns in how many microseconds the first lease ends by which fewer places are used than the capacity, and in how many
-- the cost fits. The places are in order, and the last ones are held: so their ranks count from the end.
local function waits_of(key, limit, found, cost)
  local excess, missing, count = math.max(found.used - limit.capacity, 0), cost - limit.ceiling + found.used, found.behind - found.gone
  local ends, wait = nil, 0
  if found.further > 0 then
    local list, freed = call('ZRANGE', key, -count, math.min(-1, most - count), 'WITHSCORES'), 0
    for i = 1, #list, 2 do
      if freed <= excess then
        ends = list[i + 1] - now
      end
      if freed < missing then
        wait = list[i + 1] - now
      end
      freed = freed + places_of(list[i])
    end
    return ends or 0, wait
  end
  local first = found.first
  if not first or excess > 0 then
    first = tonumber(call('ZRANGE', key, excess - count, excess - count, 'WITHSCORES')[2])
  end
  ends = first - now
  if missing == excess + 1 then
    wait = ends
  elseif missing > 0 and cost <= limit.ceiling then
    wait = call('ZRANGE', key, missing - 1 - count, missing - 1 - count, 'WITHSCORES')[2] - now
  end
  return ends, wait
end

-- deny completes the findings about places that do not fit, or are only asked about.
local function deny(key, limit, found, cost, blocked)
  local ends, wait = waits_of(key, limit, found, cost)
  local missing = cost - limit.ceiling + found.used
  ends, wait = math.min(ends, remembered), math.min(wait, remembered)
  found.expires = now + ends + remembered
  if blocked then
    wait = math.max(ends, wait)
    found.used = math.max(found.used, limit.ceiling - cost + 1) -- the caller works out that it does not fit
  elseif cost == 0 or missing <= 0 or cost > limit.ceiling then
    wait = 0
  end
  if cost > 0 and missing > 0 then
    found.repair = found.repair or call('ZCOUNT', key, format('(%d', now + remembered), '+inf') > 0
  end
  found.seen = format('%d %d %d 0', found.used, ends, wait)
end

return {
  wanted = wanted, further = further, living = living, overdue = overdue, front = front, most_cost = most_cost, most = most,
  named = named, places_of = places_of, count_further = count_further, add_further = add_further, further_of = further_of, in_use = in_use,
  ended_further = ended_further, mend = mend, deny = deny,
}
