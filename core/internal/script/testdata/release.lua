-- Gives back places of concurrent limits, one for each holder: what settle.lua does with them, without the words
-- that it needs to tell settlements apart.
--
-- KEYS  for each place its key. Several places of one key may stand in a row.
-- ARGV  for each place who holds it.
--
-- Returns what settle.lua does: for each place a 0, or a 1 if Redis refused, and then, in a line of its own, why it
-- refused the first of these. A place that nobody holds, and a key of another type, are no errors.

-- A script makes its functions and tables anew in every call, and a call is
-- short: they would be a third of its time. So a script is one piece, put together
-- from files. Where a line begins with three dashes and a name, the file of that
-- name goes in. Some names stand for parts of the algorithms' files, which are what
-- follows the name there; what a meter's file lacks is in meter.lua:
--
--   functions  what is called in more than one place, if anything is.
--   observe    reads the state of a check and writes nothing. A meter leaves all but the reading
--              to meter.lua. It sets these variables, where they differ from what check.lua
--              has set them to:
--                used, previous  what has been used, and what of the former window still counts;
--                seen            the numbers for the caller as text;
--                room            what still fits, where that is not ceiling - used;
--                former          the instant at which the state it found has recovered;
--                damaged         the state makes no sense at all;
--                repair          the state could not be: it is from the future, or was left by
--                                other numbers of a named limit;
--                renumbered      the key may have got its time to live under other numbers;
--                own             whatever the algorithm's other parts need.
--   store      writes the state with charge added to what is used, and sets full, the
--              instant at which that will have recovered. One that is a string it does not
--              write, but sets text to it: write.lua writes that with its time to live.
--   strike     of a check that heeds a ban: has it written where it has to be, though it is not charged.
--   holder     of a concurrent limit: reads the holder of a check.
--   hold       of a settlement, unless it is a reset: carries it out under a concurrent limit, or sends it back
--              if the window of a calendar is missing.
--   renumber   of a settlement: gives the limit the numbers that the state was left with,
--              if it is named and those differ, and for a meter former_weight and weight,
--              which an event had and has by these. It sets drains if what is used drains at a pace, and
--              tells if the state itself says what is left of a charge.
--   adjust     of a settlement: sets charge, which is to be added to what is used, and for
--              a meter noted, the level that later settlements have to know of. A log it
--              writes itself.
--
-- The values of a check are local variables, not fields of a table, which would take an eighth of
-- its time. A call of several checks reads all of them before it writes any: all but the last are
-- kept in tables meanwhile.
--
-- A check has a key and a limit. It has a cost and count, how often it is asked, or costs, one
-- for each time. A limit has capacity, ceiling (what may be used after the check: the
-- capacity, less the headroom of the check) and all costs in its own
-- units, pace (what drains in a tick, or the ticks in a window), tick (its length
-- in microseconds) and numbers (empty, or what a named limit has to leave for its
-- successors to read).
--
-- Numbers are whole and below 2^53, where Lua's arithmetic is exact, and they are
-- handed on as text that says every digit, since tostring would not.

local call, try, format, tonumber, KEYS, ARGV = redis.call, redis.pcall, string.format, tonumber, KEYS, ARGV
local largest = 9007199254740991
local now -- in microseconds, once somebody waits for what is given back
-- instant returns the instant at an index of the log.
local function instant(log, index)
  local at = tonumber(call('LINDEX', log.key, index))
  if at and at >= 0 and at % 1 == 0 and at <= largest then
    return at
  end
  log.damaged = true
end

-- append_instants puts instants at the end of the log, as many at once as Lua can unpack.
local function append_instants(log, instants)
  for first = 1, #instants, 1000 do
    call('RPUSH', log.key, unpack(instants, first, math.min(first + 999, #instants)))
  end
end

-- first_after returns the index of the first instant after a moment, doubling the
-- step from the head, where the expired ones are, and then halving it.
local function first_after(log, moment, length)
  local low, high, step = 0, 0, 1 -- all before low are not after, high is
  while high < length do
    local at = instant(log, high)
    if not at then
      return 0
    end
    if at > moment then
      break
    end
    low, high, step = high + 1, high + step, step * 2
  end
  if high > length then
    high = length
  end
  while low < high do
    local middle = (low + high - (low + high) % 2) / 2
    local at = instant(log, middle)
    if not at then
      return 0
    end
    if at > moment then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

-- left_of returns how long the instant at an index still counts. One from the
-- future counts as from now.
local function left_of(log, index)
  local at, window = instant(log, index), log.limit.pace
  if not at or at <= now - window then -- the log is not in order
    log.damaged = true
    return 0
  end
  if at > now then
    at = now
  end
  return at + window - now
end

-- observe_log returns how long the oldest unit of a log still counts, how long the first check
-- has to wait that does not fit, and how long the newest unit still counts.
local function observe_log(log, length, count)
  local limit = log.limit
  local first = first_after(log, now - limit.pace, length)
  if length - first > limit.capacity then
    first = length - limit.capacity
    log.repair = true
  end
  log.first, log.used = first, length - first
  if log.used > 0 and not log.damaged then
    local newest = instant(log, -1)
    if newest then
      log.former = newest + limit.pace
      if newest > now then
        log.future = length - math.max(first, first_after(log, now, length))
        log.repair = true
      end
    end
  end
  if log.damaged and log.used > 0 then
    return 0, 0, 0
  end
  local wait, granted, room, costs = 0, 0, limit.ceiling - log.used, log.costs
  local next = log.cost
  if costs then
    while granted < count and costs[granted + 1] <= room do
      granted = granted + 1
      room = room - costs[granted]
    end
    next = costs[granted + 1] or 0
  elseif next > 0 and room > 0 then
    granted = (room - room % next) / next
    room = room - granted * next
  end
  if granted < count and next > room and next <= limit.ceiling then
    local missing = next - room
    if missing > log.used then -- of those that are granted now
      wait = limit.pace
    else
      wait = left_of(log, first + missing - 1)
    end
  end
  if log.used == 0 then
    return 0, wait, 0
  end
  return left_of(log, first), wait, left_of(log, length - 1)
end

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

-- unless_damaged returns what a command has replied, or nil if the key has another type.
local function unless_damaged(reply)
  if type(reply) ~= 'table' or not reply.err then
    return reply
  elseif not string.find(reply.err, 'WRONGTYPE', 1, true) then
    error(reply.err, 0)
  end
end

-- named returns the name under which a holder has so many places.
local function named(name, places)
  if places > 1 then
    return name .. '*' .. places
  end
  return name
end

-- places_of returns how many places a member has.
local function places_of(name)
  return tonumber(string.match(name, '%*(%d+)$')) or 1
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

-- ended returns holders whose lease has ended, the ones that ended first, but not all if they are many.
local function ended(key)
  return call('ZRANGE', key, '0', instant, 'BYSCORE', 'LIMIT', '0', most)
end

-- in_use returns how many places are held.
local function in_use(key)
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
local function first_of(key, above, score)
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
local function tell(key, name)
  local prefix, process, line = string.match(key, '^(.-):{'), string.match(name, ' ~?([^-]+)%-(%d+)$')
  local sent = prefix and process and try('PUBLISH', prefix .. ':waiting:' .. process, line)
  return type(sent) == 'number'
end

-- hand_over hands places that are free to the waiters that came before an instant. The first of those who want the same go
-- in their order: one that fits has its places kept until it asks, and is told so. A waiter that does not fit blocks
-- nobody until its patience is over, and then those whose ceiling is not above its own. hand_over returns how many places
-- are in use then, and the ceiling up to which callers are blocked.
local function hand_over(key, used, before)
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
      first[place] = first_of(key, nil, one.score)
      if not first[place] then
        table.remove(first, place)
      end
    end
  end
  return used, blocked
end

-- given_back hands over what has been given back of a key, if somebody waits.
local function given_back(key)
  local first = call('ZRANGE', key, '0', '0')[1]
  if first and string.byte(first) >= 48 and string.byte(first) <= 57 then
    hand_over(key, in_use(key), largest)
  end
end

-- leave removes what is known of a waiter. It returns whether places were kept for it.
local function leave(key, name, cost)
  call('ZREM', key, name, '@' .. name)
  if call('ZREM', key, named('+' .. name, cost)) == 0 then
    return false
  elseif cost > 1 then
    add_further(key, 1 - cost)
  end
  return true
end

local banned -- the number of the latest check whose ban is in force
local most_bans = 1000000

-- read_terms reads the terms of a ban behind its numbers, once for each limit.
local function read_terms(limit)
  if not limit.forget then
    local first, factor, longest, forget, extend, mode = string.match(limit.numbers, '^(%d+) (%d+) (%d+) (%d+) (%d) ?(%a*)$')
    limit.first, limit.factor, limit.longest = tonumber(first), tonumber(factor), tonumber(longest)
    limit.forget, limit.mode = tonumber(forget), mode
    limit.extends = extend == '1'
  end
end

-- is_instant reports whether a number can be an instant.
local function is_instant(at)
  return at and at >= 0 and at % 1 == 0 and at <= largest
end

-- read_ban returns the ban with so many bans begun as it stands now, or nil if it makes no sense.
local function read_ban(limit, count, since, ends, text)
  read_terms(limit)
  count, since, ends = tonumber(count), tonumber(since or '0'), tonumber(ends or '0')
  if not is_instant(count) or count > most_bans or not is_instant(since) or not is_instant(ends) or since > ends then
    return nil
  end
  local ban = { length = ends - since, early = since > now, strikes = {}, count = count }
  if ban.early then -- the clock has stepped back
    since, ends = now, now + ban.length
  end
  ban.since, ban.ends, ban.left = since, ends, math.max(0, ends - now)
  ban.gone = ends + limit.forget - now
  if ban.gone <= 0 and ban.left == 0 then
    ban.count = 0
  end
  if ban.count == 0 and ban.left == 0 then
    ban.gone, ban.since, ban.ends = 0, 0, 0
  end
  local last, strikes = 0, ban.strikes
  for instant in string.gmatch(text or '', '%S+') do
    local at = tonumber(instant)
    if not is_instant(at) or at < last then
      return nil
    end
    last = at
    if ban.left == 0 and at > now - limit.pace then
      strikes[#strikes + 1] = math.min(at, now)
    end
  end
  while #strikes >= limit.capacity do -- the limit has been made smaller
    table.remove(strikes, 1)
  end
  return ban
end

-- write_ban writes the fields of a ban that is not in force with its strikes, or of one that has just
-- begun, and returns when it will be forgotten.
local function write_ban(limit, key, ban, reason)
  local text = {}
  for i, at in ipairs(ban.strikes) do
    text[i] = format('%d', at)
  end
  call('HSET', key, 'count', format('%d', ban.count), 'since', format('%d', ban.since), 'until', format('%d', ban.ends),
    'strikes', table.concat(text, ' '), 'reason', reason)
  local forgotten = 0
  if ban.ends > 0 then
    forgotten = ban.ends + limit.forget
  end
  if #text > 0 then
    forgotten = math.max(forgotten, ban.strikes[#text] + limit.pace)
  end
  return forgotten
end

-- extend_ban begins a ban that is in force anew, and returns when it will be forgotten.
local function extend_ban(limit, key, ban)
  call('HSET', key, 'since', format('%d', now), 'until', format('%d', now + ban.length))
  return now + ban.length + limit.forget
end

-- add_strikes adds strikes to a ban that is not in force. It returns when it will be forgotten, and whether
-- they have begun a ban.
local function add_strikes(limit, key, ban, number)
  read_terms(limit)
  ban = ban or { strikes = {}, count = 0, since = 0, ends = 0 }
  local strikes = ban.strikes
  for _ = 1, number do
    strikes[#strikes + 1] = now
  end
  if #strikes < limit.capacity then
    return write_ban(limit, key, ban, ''), false
  end
  local length, factor, bans = limit.first, limit.factor, ban.count
  local last = (limit.longest - limit.longest % factor) / factor -- what a factor makes no more than the longest
  while factor > 1 and bans > 0 and length < limit.longest do
    if length > last then
      length = limit.longest
    else
      length = length * factor
    end
    bans = bans - 1
  end
  -- What it lasts longer, up to a tenth: the instant and the count decide that.
  local tenth = (length - length % 10) / 10
  local part = (tenth - tenth % 1020) / 1020
  ban.ends = now + length + part * ((now + 359 * ban.count) % 1021)
  ban.since, ban.count, ban.strikes = now, math.min(ban.count + 1, most_bans), {}
  return write_ban(limit, key, ban, ''), true
end

-- find_ban returns the ban of a key for a settlement, or nil if there is none. It deletes what is none.
local function find_ban(limit, key)
  local fields = try('HMGET', key, 'count', 'since', 'until', 'strikes')
  if fields.err and not string.find(fields.err, 'WRONGTYPE', 1, true) then
    error(fields.err, 0)
  end
  local ban = not fields.err and fields[1] and read_ban(limit, fields[1], fields[2], fields[3], fields[4]) or nil
  if not ban and (fields.err or fields[1] or fields[2] or fields[3] or fields[4]) then
    call('DEL', key)
  end
  return ban
end

-- lingering returns until when events may count of a window: if it ends in the middle of another one by some
-- reckoning, a little longer than until its end.
local function lingering(start, finish)
  local length = finish - start
  return finish + math.min(10800000000, (length - length % 8) / 8)
end

-- find_window sets when the window of this moment begins (opens) and ends (closes), until when its events may
-- count (lingers), and when the next one ends (later), if the caller has sent them. All checks of a script run
-- have the same moment.
local function find_window(limit)
  local opens, closes, later, next, last = string.match(limit.numbers, '^(%d+) (%d+) (%d+) (%d+) (%d+)$')
  opens, closes, later = tonumber(opens), tonumber(closes), tonumber(later)
  limit.found = true
  if now >= closes then
    opens, closes, later = closes, later, tonumber(next)
    if now >= closes then
      opens, closes, later = closes, later, tonumber(last)
    end
  end
  if now >= opens and now < closes then
    limit.opens, limit.closes, limit.later, limit.lingers = opens, closes, later, lingering(opens, closes)
  end
end


local results, refusal, first = {}, nil, 1

while first <= #KEYS do
  local key, last = KEYS[first], first
  while KEYS[last + 1] == key and last - first < 999 do
    last = last + 1
  end
  local gone, result
  if last == first then
    gone = try('ZREM', key, ARGV[first])
  else
    gone = try('ZREM', key, unpack(ARGV, first, last))
  end
  result = '0'
  if type(gone) == 'table' then
    if not string.find(gone.err, 'WRONGTYPE', 1, true) then
      result, refusal = '1', refusal or gone.err
    end
  elseif gone > 0 and call('ZRANGE', key, '0', '0')[1] ~= '.' then
    if not now then
      local clock = call('TIME')
      now = tonumber(ARGV[#KEYS + 1]) or clock[1] * 1000000 + clock[2]
    end
    given_back(key)
  end
  for place = first, last do
    results[place] = result
  end
  first = last + 1
end
if refusal then
  results[#results] = results[#results] .. '\n' .. refusal
end
return table.concat(results, ' ')
