-- A concurrent limit is a sorted set. Its members are, in the order of their scores:
--
--   waiters   an instant of 16 digits, a space and an id: the first waiter of a line of a process has registered since
--             then. The score has its ceiling and its cost. See hand_over.
--   "*"       how many places holders have beyond their first ones. It is missing while that is 0.
--   "@" and a waiter   until when the waiter lives unless it asks again.
--   "!" and a waiter   since when an overdue waiter has waited, in milliseconds: its patience is over.
--   "."       the latest token, negated.
--   holders   each with the instant at which its lease ends. The name of one that has several places ends in a "*" and
--             their number. A "+" and a waiter holds places that are kept for that waiter.
--
-- Most keys have holders alone, each of one place. places.lua and waiters.lua handle all other keys, and are required for them alone.

local call, try, format, tonumber = redis.call, redis.pcall, string.format, tonumber
local now, state = require('clock').now, require('state')
local instant, token = format('%d', now), format('%d', -now) -- now, and the token of a holder that takes a place if no clock has stepped back
local told = {} -- by the number of places in use: the text for the caller if one more fits

-- How long a key lives, in microseconds, after a lease that begins now has ended: for as long as a lease may be, so that no
-- holder is forgotten and its token is remembered.
local remembered = 600000000

local tokens = {} -- the latest ones of keys where they are not of the past

-- count sets which places of a key are held behind the token. behind is the place of the token from the end: see observe.
local function count(key, limit, found, behind, cost)
  local others, first, gone = call('ZCARD', key) - 1 - behind, nil, 0
  if others > 0 then
    local places = require('places')
    found.damaged = call('ZCOUNT', key, format('%d', places.wanted), format('(%d', places.front)) ~= others
    found.further, found.waits = places.count_further(key), require('waiters').is_there(key)
  end
  if behind > 0 then
    if not limit.charged or cost > limit.ceiling - behind - found.further then
      first = tonumber(call('ZRANGE', key, -behind, -behind, 'WITHSCORES')[2])
    end
    if not first or first <= now then
      first, gone = nil, call('ZCOUNT', key, '-inf', instant) - 1 - others -- the token is no place
      found.damaged = found.damaged or gone ~= 0 and gone ~= call('ZCOUNT', key, '0', instant) -- there is one before the token or before 1970
    end
    if gone > 0 and found.further > 0 and not found.damaged then
      found.further = found.further - require('places').ended_further(key)
    end
    found.behind, found.gone, found.first = behind, gone, first
  end
  if found.damaged then
    found.waits = false
  else
    found.used, found.repair, found.expires = behind - gone + found.further, gone > 0, now
  end
end

-- observe also finds which places are held: how many members are behind the token (behind), how many of these leases have ended
-- (gone), how many further places are held (further), whether anyone waits (waits), and when the first lease ends, if that is
-- known (first). Redis takes longer to print a score than to count members. All places are behind the token, so its rank from the
-- end is their number, and the token itself need not be read. The end of the first lease is read only for a caller that cannot
-- have a place, or only asks. observe also finds the caller: the name of a holder (holder), and if it waits its registration (waiter),
-- whether places were kept for it (kept), and whether it lacks places (lacks).
local function observe(key, limit, asked, holder)
  local found = {
    used = 0, room = 0, expires = -1, seen = '0 0 0 0', damaged = false, repair = false, unsure = false,
    behind = 0, gone = 0, further = 0, holder = holder,
  }
  local cost, behind = asked.cost, try('ZREVRANK', key, '.')
  if tonumber(behind) then
    count(key, limit, found, behind, cost)
  else
    found.damaged = state.is_damage(behind) or call('ZCARD', key) > 0
  end
  local waiter = holder and string.byte(holder) == 63 and require('waiters').read(holder) -- a "?"
  if waiter then
    found.holder, found.waiter = waiter.holder, waiter
    waiter.kept = require('waiters').take_kept(key, found, waiter, cost)
  end
  local room, blocked = limit.ceiling - found.used, false -- blocked: places may be free, and are kept for others
  if found.waits and limit.charged and cost <= room then
    room, blocked = require('waiters').let_others_go(key, limit, found, cost, waiter and waiter.since or now)
  end
  if found.used == 0 and blocked then -- all is free, and left to waiters who have been told
    found.used = limit.ceiling - cost + 1
    found.seen = format('%d 0 %d 0', found.used, require('waiters').life)
  elseif found.used > 0 and limit.charged and cost <= room then
    found.expires = now + limit.pace + remembered
    told[found.used] = told[found.used] or format('%d 0 0 0', found.used)
    found.seen = told[found.used]
  elseif found.used > 0 then
    require('places').deny(key, limit, found, cost, blocked)
  end
  found.room = room
  if waiter then
    waiter.lacks = cost > room
  end
  return found
end

local function store(key, limit, found, charge)
  if found.repair then
    require('places').mend(key, found, charge)
  end
  local lives = now + limit.pace + remembered
  if charge > 0 then
    limit.ends = limit.ends or format('%d', now + limit.pace) -- the same for all checks of a script run
    if found.waiter then
      require('waiters').forget(key, found.waiter.known_as)
    end
    local name, latest = found.holder, tokens[key]
    if charge > 1 then
      name = require('places').named(name, charge)
    end
    -- The token is now, if that lowers the score of the latest one: then two scores change.
    if latest or call('ZADD', key, 'LT', 'CH', token, '.', limit.ends, name) < 2 then
      latest = latest or -call('ZSCORE', key, '.')
      if latest % 1 == 0 and latest < 9007199254740991 then
        found.seen = string.match(found.seen, '.* ') .. format('%d', latest)
      else
        call('UNLINK', key)
        latest, found.expires, found.seen, found.mark = 0, -1, '0 0 0 0', '!'
      end
      tokens[key] = math.max(latest + 1, now)
      call('ZADD', key, format('%d', -tokens[key]), '.', limit.ends, name)
    end
    if charge > 1 then
      require('places').add_further(key, charge - 1)
    end
  end
  found.repair = false -- the time to live is looked at in any case
  if found.expires >= 0 then
    found.expires, found.unsure = lives, true
  end
  return lives
end

return { observe = observe, store = store, holds = true, remembered = remembered, corrections = 'concurrent_corrections' }
