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
--                renumbered      the key may have got its time to live under other numbers; a meter tells which;
--                own             whatever the algorithm's other parts need;
--                kept            the past of a window, if it has one: see settle.lua.
--              If noted_in names a field, which only a settlement has, it reads the notes of a meter besides.
--   store      writes the state with charge added to what is used, and sets full, the
--              instant at which that will have recovered. One that is a string it does not
--              write, but sets text to it: write.lua writes that with its time to live.
--   past       leaves a window nothing but its past.
--   strike     of a check that heeds a ban: has it written where it has to be, though it is not charged.
--   holder     of a concurrent limit: reads the holder of a check.
--   hold       of a settlement, unless it is a reset: carries it out under a concurrent limit, or sends it back
--              if the window of a calendar is missing.
--   renumber   of a settlement: gives the limit the numbers that the state was left with,
--              if it is named and those differ, and for a meter former_weight and weight,
--              which an event had and has by these. It sets drains if what is used drains at a pace, and
--              tells if the state itself says what is left of a charge.
--   adjust     of a settlement: sets charge, which is to be added to what is used, and for
--              a meter sunk, the fields of its notes. A log it
--              writes itself.
--   noting     of a call: makes what notes a meter that may be settled; see notes.lua.
--   note       of a call: notes it.
--   closing    of a settlement: makes what gives back to a meter that was noted.
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
-- The clock is the server's, in whole microseconds, read once: every check of
-- every call in this batch is decided at the same instant.
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- How many milliseconds a key outlives the second in which it has recovered. A
-- time to live only collects garbage; no decision depends on it.
local grace = 2000
-- Functions are made in each call anew, so those of an algorithm are made only if one of the limits is under it. Words that
-- say so by chance have them made for nothing.
local words = table.concat(ARGV, ' ')
local uses_places, uses_bans = string.find(words, ' concurrent ', 1, true), string.find(words, ' ban ', 1, true)
local uses_logs, uses_calendars = string.find(words, ' sliding-log ', 1, true), string.find(words, ' calendar ', 1, true)
local instant, append_instants, first_after, left_of, observe_log
if uses_logs then
  -- instant returns the instant at an index of the log.
  function instant(log, index)
    local at = tonumber(call('LINDEX', log.key, index))
    if at and at >= 0 and at % 1 == 0 and at <= largest then
      return at
    end
    log.damaged = true
  end

  -- append_instants puts instants at the end of the log, as many at once as Lua can unpack.
  function append_instants(log, instants)
    for first = 1, #instants, 1000 do
      call('RPUSH', log.key, unpack(instants, first, math.min(first + 999, #instants)))
    end
  end

  -- first_after returns the index of the first instant after a moment, doubling the
  -- step from the head, where the expired ones are, and then halving it.
  function first_after(log, moment, length)
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
  function left_of(log, index)
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
  function observe_log(log, length, count)
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

local banned -- the number of the latest check whose ban is in force
local most_bans = 1000000
local read_terms, is_instant, read_ban, write_ban, extend_ban, add_strikes, find_ban
if uses_bans then
  -- read_terms reads the terms of a ban behind its numbers, once for each limit.
  function read_terms(limit)
    if not limit.forget then
      local first, factor, longest, forget, extend, mode = string.match(limit.numbers, '^(%d+) (%d+) (%d+) (%d+) (%d) ?(%a*)$')
      limit.first, limit.factor, limit.longest = tonumber(first), tonumber(factor), tonumber(longest)
      limit.forget, limit.mode = tonumber(forget), mode
      limit.extends = extend == '1'
    end
  end

  -- is_instant reports whether a number can be an instant.
  function is_instant(at)
    return at and at >= 0 and at % 1 == 0 and at <= largest
  end

  -- read_ban returns the ban with so many bans begun as it stands now, or nil if it makes no sense.
  function read_ban(limit, count, since, ends, text)
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
  function write_ban(limit, key, ban, reason)
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
  function extend_ban(limit, key, ban)
    call('HSET', key, 'since', format('%d', now), 'until', format('%d', now + ban.length))
    return now + ban.length + limit.forget
  end

  -- add_strikes adds strikes to a ban that is not in force. It returns when it will be forgotten, and whether
  -- they have begun a ban.
  function add_strikes(limit, key, ban, number)
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
  function find_ban(limit, key)
    local fields = try('HMGET', key, 'count', 'since', 'until', 'strikes')
    if fields.err and not string.find(fields.err, 'WRONGTYPE', 1, true) then
      error(fields.err, 0)
    end
    local ban = not fields.err and fields[1] and read_ban(limit, fields[1], fields[2], fields[3], fields[4]) or nil
    if not ban and (fields.err or fields[1] or fields[2] or fields[3] or fields[4]) then
      call('UNLINK', key)
    end
    return ban
  end
end

local lingering, ending, find_window
if uses_calendars then
  -- lingering returns until when events of a window may count: a little longer than until its end, if it ends later
  -- by some reckoning.
  function lingering(start, finish)
    local length = finish - start
    return finish + math.min(10800000000, (length - length % 8) / 8)
  end

  -- ending returns until when events count of a window that ends between these two instants, or at the latter, if they
  -- are a window by the caller's reckoning. That one may be the same as others reckon it.
  function ending(start, finish, lingers, opens, closes)
    if finish < closes and closes <= lingers and math.abs(opens - start) <= lingers - finish then
      return closes
    end
    return finish
  end

  -- find_window sets when the window of this moment begins (opens) and ends (closes), until when its events may
  -- count (lingers), and when the next one ends (later), if the caller has sent them. All checks of a script run
  -- have the same moment.
  function find_window(limit)
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
end

-- Decides calls some of whose checks reserve for a time: what such a check is charged is given back at its
-- end, unless it is settled before.
--
-- KEYS  as decide.lua has them; then for each check that reserves the key of its open reservations. That is a sorted set: the score of a member is its end, and
--       the member says who has reserved, when it was charged, what was used then, its number or 0, what was charged, and its
--       limit as settle.lua has it.
-- ARGV  how many checks reserve, and how many words of decide.lua follow; those words; then who reserves,
--       for each of these checks. Those in a row which share their limit, and for how many microseconds they
--       reserve, have in front of them the place of the first one, their number, these microseconds, and
--       their limit for settle.lua.
--
-- Returns what decide.lua does. A "-" says that reservations had ended which nobody has settled.

local asked, argument = #KEYS - ARGV[1], 3
local terms, names, opens = {}, {}, {} -- of the checks that reserve, by their places
local lives = {} -- how many milliseconds a set of open reservations lives, at least, or less than 0
local reclaimed = {} -- the places of those where reservations had ended

-- How many ended reservations a script run still looks at. What is left over stays charged until later ones.
local most_ended = 4
local correct, give_back -- see give_back.lua

-- due returns how many open reservations of a key have ended, or 0 if the script run has looked at enough of them.
local function due(open)
  return most_ended > 0 and try('ZCOUNT', open, '-inf', format('%d', now)) or 0 -- which Redis answers sooner than which one ends first
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

-- read_row reads what checks in a row share that reserve. It returns the place of the first one and their number
-- besides.
local function read_row(text)
  local place, number, lasts, limit = string.match(text, '^(%d+) (%d+) (%d+) (.+)$')
  local ends = now + lasts
  local expires = math.max(now + recovery(limit), ends)
  return { limit = limit, ends = format('%d', ends), expires = expires - expires % 1000000 }, tonumber(place), tonumber(number)
end

-- reserve notes what a check was charged, what is used after that, and its number.
local function reserve(place, units, after, order)
  local row, open = terms[place], opens[place]
  if after ~= row.after or units ~= row.units or order > 0 then -- most keys have recovered, and get the same
    row.after, row.units = after, units
    row.charged = format(' %d %d %d %d %s', now, after, order, units, row.limit)
  end
  call('ZADD', open, row.ends, names[place] .. row.charged)
  local left = (row.expires - now) / 1000
  if lives[open] < left then
    row.expiry = row.expiry or format('%d', row.expires / 1000 + grace)
    call('PEXPIREAT', open, row.expiry)
    lives[open] = left
  end
end

local row, place, behind = nil, 0, 0
local word = argument + ARGV[2]
for key = asked + 1, #KEYS do
  if behind == 0 then
    row, place, behind = read_row(ARGV[word])
    word = word + 1
  end
  local open = KEYS[key]
  terms[place], names[place], opens[place] = row, ARGV[word], open
  local left = call('PTTL', open)
  local ended = left ~= -2 and due(open) or 0
  if ended ~= 0 then
    if not give_back then -- its functions are many
-- Gives back what has ended of open reservations, and settles.

-- correct carries out settlements, as settle.lua does.
do
  local KEYS, ARGV
-- Settles what decisions have charged: gives back what was too much, and adds what was
-- too little.
--
-- KEYS  for each check its key. The state of a
--       window may have a past (kept): the instant until which it means something, a semicolon, and the instant at
--       which the key was reset, so that nothing is given back of what was charged before. A key may have nothing but a past.
-- ARGV  for each check: its limit; the units to add or, below 0, to give back; what was
--       used after the charge, and its number behind a space if it was noted; the instant of the charge, or 0 if it
--       is not known; and
--       how: "raise" if the units are the least to be used, "last" for a place in a queue,
--       which is given back only while no other request queues behind it, "reset" if nothing
--       is to be left of the key, or "settle". Of a concurrent limit the holder stands where
--       others have what was used, and "renew" begins its lease anew; the units are its places.
--       "ban" begins a ban by hand, which lasts so many microseconds as there are units; the reason stands
--       where others have what was used.
--       A "?" behind it asks what is used afterwards.
--
-- Returns for each check a 0 if it was settled, a 1 if Redis refused, a 2 if the places were lost
-- that were to be renewed, a 3 if strikes have begun a ban, or a 4 if it has to be sent again for the
-- instant behind it, since the window of that was not among those sent; then, in a line of its own, why
-- Redis refused the first of these. Behind a 0, a 2 or a 3 follow the numbers that were asked for, each after a comma: they are those of decide.lua,
-- when all of the checks have been settled.

local limits, argument = {}, 1
local read_notes, drain, written_notes, close -- made when a meter has notes
local written, digits -- as in decide.lua
local told_by, told = {}, {} -- by the key of a meter that was settled: its limit, and what is used since

-- copied returns a limit that may be changed.
local function copied(limit)
  local copy = {}
  for name, value in pairs(limit) do
    copy[name] = value
  end
  return copy
end

-- settle settles a check, and returns whether it is asked what is used afterwards, and what the reply
-- says of it if that is not 0. With look it changes nothing and returns what is used, as text.
local function settle(number, look)
  argument = (number - 1) * 5 + 1
  local limit
-- Reads the limit of a check from the arguments.
--
-- The checks of a call share their limits, so each is taken apart once. It is
-- written as whether it is charged ("take"; "note" if that may be settled, "sum" if all times are settled as
-- one) or only asked (another word), with a "+" if
-- the next check belongs to the same call, then algorithm, capacity, pace,
-- tick, and numbers. A "|" behind the first word says that the next check of the
-- call is an alternative of this one, and a "/" that this one is the last of some
-- alternatives. Headroom, which has to stay free, follows the capacity
-- after a "-". present is now, in microseconds, as the limit's ticks count it.
limit = limits[ARGV[argument]]
if not limit then
  local mode, either, joined, algorithm, capacity, pace, tick, numbers =
    string.match(ARGV[argument], '^(%a+)([|/]?)(%+?) (%S+) (%S+) (%d+) (%d+) ?(.*)$')
  local full = tonumber(capacity)
  local ceiling = full
  if not full then
    local headroom
    capacity, headroom = string.match(capacity, '^(%d+)%-(%d+)$')
    full = tonumber(capacity)
    ceiling = full - tonumber(headroom)
  end
  limit = {
    charged = mode == 'take' or mode == 'note' or mode == 'sum',
    noted = mode == 'note' or mode == 'sum' and mode,
    more = joined == '+' or either == '|',
    either = either ~= '' and either,
    algorithm = algorithm,
    capacity = full,
    ceiling = ceiling,
    pace = tonumber(pace),
    tick = tonumber(tick),
    numbers = numbers,
  }
  limit.present = now - now % limit.tick
  limits[ARGV[argument]] = limit
end
  local how = ARGV[argument + 4]
  local asked = string.byte(how, -1) == 63 -- a "?"
  if asked then
    how = string.sub(how, 1, -2)
  end
  -- A named limit's numbers may have changed since the charge: those stand that the
  -- state has. Capacities of windows are no part of them, so what others have used is
  -- not cut down to this one's.
  local charged, drains, tells, weight, former_weight = limit, false, false, 1, 1
  local order, noted_in, returns -- of a meter: the number of the charge, where its slot is, and how much may come back
  if not look then
if limit.algorithm == 'leaky' or limit.algorithm == 'shaping' or limit.algorithm == 'token-bucket' or limit.algorithm == 'gcra' then
drains = true
order = string.match(ARGV[argument + 2], ' (%d+)$')
order = order and tonumber(order)
noted_in = format('n%016d', order and (order - order % 52) / 52 or 0)
if charged.numbers ~= '' then
  local pattern, text = '^(%d+) (%d+) (%d+) (%d+)$', nil
  local fields = try('HMGET', KEYS[number], 'numbers', 'tat')
  local whole = fields[2]
  if fields.err then -- it is no hash, but may be a string that ends with the numbers
    whole = try('GET', KEYS[number])
  else
    text = fields[1]
  end
  if type(whole) == 'string' then
    text = string.match(whole, '^%d+ %d+ (.*)')
  end
  local full, event, drain, tick = string.match(text or '', pattern)
  full, event, drain, tick = tonumber(full), tonumber(event), tonumber(drain), tonumber(tick)
  if text ~= charged.numbers and full and full * event * drain * tick > 0 then
    former_weight, weight = tonumber((select(2, string.match(charged.numbers, pattern)))), event
    limit = copied(limit)
    limit.capacity, limit.pace, limit.tick, limit.numbers = full, drain, tick, text
    limit.present = now - now % tick
  end
end

elseif limit.algorithm == 'fixed-window' then
limit = copied(limit)
limit.capacity = largest -- no part of the numbers: what others have used is not cut down to this one's
if charged.numbers ~= '' then
  local text = try('HMGET', KEYS[number], 'numbers')[1]
  local window = string.match(text or '', '^%d+$')
  window = window and tonumber(window)
  if window and window > 0 then
    limit.pace, limit.numbers = window, text
  end
end

elseif limit.algorithm == 'sliding-window' then
limit = copied(limit)
limit.capacity = largest -- no part of the numbers: what others have used is not cut down to this one's
if charged.numbers ~= '' then
  local text = try('HMGET', KEYS[number], 'numbers')[1]
  local window, tick = string.match(text or '', '^(%d+) (%d+) %d+$')
  window, tick = tonumber(window), tonumber(tick)
  if window and window * tick > 0 then
    limit.pace, limit.tick, limit.numbers = window, tick, text
  end
end

elseif limit.algorithm == 'sliding-log' then
tells = true -- its instants say what is left of a charge
limit = copied(limit)
limit.capacity = largest -- what others have used is not cut down to this one's

end
  end
  local key, cost, count, costs = KEYS[number], 0, 1, nil -- a settlement asks for nothing
  local used, previous, former, seen, damaged, repair, renumbered, room, own, undated, kept, sunk
  local forgotten -- whether a meter has notes that mean nothing
-- Reads what the key of a check has used. Lua sets variables faster one by one than together, and those
-- that are declared in this order to nil all at once.
used = 0
previous = 0
former = -1
seen = '0'
damaged = nil
repair = nil
renumbered = nil
room = nil
own = nil
kept = nil
local state, found, level, at, numbers, absolute

if limit.algorithm == 'leaky' then
if noted_in then
  state = try('HMGET', key, 'level', 'last_leak', 'numbers', 'low', 'newest', noted_in)
elseif limit.numbers == '' then
  state = try('HMGET', key, 'level', 'last_leak')
else
  state = try('HMGET', key, 'level', 'last_leak', 'numbers')
end
if state[1] or state[2] then
  level = state[1] == digits and written or tonumber(state[1])
  found, at, numbers = true, tonumber(state[2]), state[3] or ''
end

elseif limit.algorithm == 'shaping' then
if noted_in then
  state = try('HMGET', key, 'next_free', 'left', 'numbers', 'low', 'newest', noted_in)
elseif limit.numbers ~= '' then
  state = try('HMGET', key, 'next_free', 'left', 'numbers')
elseif limit.pace > 1 then
  state = try('HMGET', key, 'next_free', 'left')
else
  state = try('HMGET', key, 'next_free')
end
if state[1] or state[2] then
  found, level, at, numbers, absolute = true, tonumber(state[2] or '0'), tonumber(state[1]), state[3] or '', true
end

elseif limit.algorithm == 'token-bucket' then
if noted_in then
  state = try('HMGET', key, 'tokens', 'last_refill', 'numbers', 'low', 'newest', noted_in)
elseif limit.numbers == '' then
  state = try('HMGET', key, 'tokens', 'last_refill')
else
  state = try('HMGET', key, 'tokens', 'last_refill', 'numbers')
end
if state[1] or state[2] then
  found, at, numbers = true, tonumber(state[2]), state[3] or ''
  local capacity, tokens = limit.capacity, state[1] == digits and written or tonumber(state[1])
  if numbers ~= limit.numbers then
    capacity = tonumber(string.match(numbers, '^%d+'))
  end
  level = capacity and tokens and tokens >= 0 and capacity - tokens
end

elseif limit.algorithm == 'gcra' then
local fields, text
if noted_in then
  fields = try('HMGET', key, 'tat', 'left', 'numbers', 'low', 'newest', noted_in)
end
if not (fields and fields[1]) then
  text = try('GET', key)
  if type(text) == 'table' and string.find(text.err, 'WRONGTYPE', 1, true) then
    fields = try('HMGET', key, 'tat')
  end
end
if fields and fields[1] then
  own, text, state = true, fields[1], fields
elseif type(text) == 'table' then
  state = text
end
if type(text) == 'string' then
  found, level, at, numbers, absolute = true, 0, tonumber(text), '', true
  if not at then
    at, level, numbers = string.match(text, '^(%d+) (%d+) ?(.*)$')
    level, at = tonumber(level), tonumber(at)
  end
end

elseif limit.algorithm == 'fixed-window' then
if limit.numbers == '' then
  state = try('HMGET', key, 'count', 'start', 'past')
else
  state = try('HMGET', key, 'count', 'start', 'past', 'numbers')
end
kept = state[3]
own = 0 -- how long the window is still open
if state[1] or state[2] then
  local count, start, window = tonumber(state[1]), tonumber(state[2]), limit.pace
  if (state[4] or '') ~= limit.numbers then
    window = tonumber(state[4])
  end
  if not (count and start and window and count > 0 and start >= 0 and window >= 0)
    or count % 1 + start % 1 + window % 1 ~= 0 or count > largest or start > largest then
    damaged = true
  else
    -- An open window closes when its denials have said, whatever the length of the
    -- next one, but never later than a full window from now.
    local left = start + window - now
    if left > limit.pace then
      left = limit.pace
      repair = true
    end
    if left > 0 then
      own, used = left, count
      if count > limit.capacity then
        used = limit.capacity
        repair = true
      end
      if not repair then
        former = start + window
      end
    end
  end
end
seen = format('%d %d', used, own)

elseif limit.algorithm == 'sliding-window' then
if limit.numbers == '' then
  state = try('HMGET', key, 'current', 'previous', 'start', 'past')
else
  state = try('HMGET', key, 'current', 'previous', 'start', 'past', 'numbers')
end
kept = state[4]
local capacity, window, tick = limit.capacity, limit.pace, limit.tick
local ticks = (now - now % tick) / tick
local elapsed = ticks % window
local current = 0
if state[1] or state[2] or state[3] then
  local start, former_numbers, then_elapsed = tonumber(state[3]), state[5] or '', elapsed
  current, previous = tonumber(state[1]), tonumber(state[2])
  if former_numbers ~= limit.numbers then
    window, tick = string.match(former_numbers, '^(%d+) (%d+) %d+$')
    window, tick = tonumber(window), tonumber(tick)
    if window and window * tick > 0 and window <= largest and tick <= largest then
      ticks = (now - now % tick) / tick
      then_elapsed = ticks % window
    else
      damaged = true
    end
  end
  if damaged or not (current and previous and start and current >= 0 and previous >= 0 and start >= 0)
    or current % 1 + previous % 1 + start % 1 ~= 0
    or current > largest or previous > largest or start > largest then
    damaged, current, previous = true, 0, 0
  else
    -- The counts as they stand in the window of this instant.
    local age = ticks - then_elapsed - start / tick
    if age < 0 then -- the clock has stepped back: all moves into this window, where it weighs no less than before
      current, previous, repair = current + previous, 0, true
    elseif age >= 2 * window then
      current, previous = 0, 0
    elseif age >= window then
      previous = current
      current = 0
    end
    if window == limit.pace and tick == limit.tick then
      former = start + 2 * window * tick
      if former_numbers == limit.numbers then
        own = previous -- as it is stored
      end
    else
      -- Windows of another length: what is used moves into the current one. A
      -- denial leaves it there only if that window ends sooner. Otherwise two lengths
      -- that take turns, as during a deployment, would put the end off for ever.
      current, previous = current + math.ceil(previous * (window - then_elapsed) / window), 0
      repair = repair or limit.pace * limit.tick < window * tick
    end
    -- Counts of another capacity stand as far as what is used of them, by their weights, fits
    -- in this one.
    if former_numbers ~= limit.numbers or current > capacity or previous > capacity then
      if current > capacity then
        current = capacity
        repair = true
      end
      local free, left = (capacity - current) * limit.pace, limit.pace - elapsed
      if previous * left > free then
        previous = (free - free % left) / left
        repair = true
      end
    end
  end
end
used = current
seen = format('%d %d %d', current, previous, elapsed)
local weighted = previous * (limit.pace - elapsed)
room = limit.ceiling - current - math.ceil(weighted / limit.pace) -- exact, since both are whole and below 2^53

elseif limit.algorithm == 'sliding-log' then
state = try('LLEN', key)
own = { key = key, limit = limit, cost = cost, costs = costs, used = 0, former = -1, first = 0, future = 0, newest = 0 }
renumbered = limit.numbers ~= '' -- perhaps: the instants do not tell
local length = state
if type(state) == 'table' then -- an error: see below
  length = 0
else
  state = nil
end
local oldest, wait, newest = observe_log(own, length, count)
if own.damaged then -- as good as empty
  own.first, own.future, own.former = 0, 0, -1
  oldest, wait, newest = observe_log(own, 0, count)
end
former, repair, damaged = own.former, own.repair, own.damaged
used, own.newest = own.used, newest
seen = format('%d %d %d %d', used, oldest, wait, newest)

end
if found then
  local capacity, tick, pace = limit.capacity, limit.tick, limit.pace
  if not (level and at and level >= 0 and at >= 0 and level % 1 == 0 and at % 1 == 0)
    or level > largest or at > largest then
    damaged = true
  elseif numbers == limit.numbers then
    former = at + level / pace * tick
    local elapsed = (limit.present - at) / tick
    if elapsed < 0 and not absolute then
      elapsed = 0
      repair = true
    end
    used = level - elapsed * pace
    if used < 0 then
      used = 0
    elseif used > capacity then
      used = capacity
      repair = true
    end
  else
    -- A named limit whose numbers have changed. What was used drains with the former
    -- ones until now, and becomes ceil(used · weight / former weight), exactly.
    local full, weighed, drain, length = string.match(numbers, '^(%d+) (%d+) (%d+) (%d+)$')
    full, weighed, drain, length = tonumber(full), tonumber(weighed), tonumber(drain), tonumber(length)
    if limit.numbers == '' or not (full and weighed * drain * length > 0)
      or full > largest or weighed > largest or drain > largest or length > largest then
      damaged = true
    else
      repair, renumbered = true, numbers
      local elapsed = (now - now % length - at) / length
      if elapsed < 0 and not absolute then
        elapsed = 0
      end
      used = math.min(full, math.max(0, level - elapsed * drain))
      local weight = tonumber(string.match(limit.numbers, '^%d+ (%d+)'))
      local part = used % weighed
      local events = (used - part) / weighed
      -- ceil(part · weight / weighed) by long multiplication, from the highest bit of
      -- weight down: the product itself may need more than 53 bits.
      local result, rest, bit, left = 0, 0, 1, weight
      while bit * 2 <= left do
        bit = bit * 2
      end
      while bit >= 1 do
        result, rest = result * 2, rest * 2
        if rest >= weighed then
          result, rest = result + 1, rest - weighed
        end
        if left >= bit then
          left = left - bit
          if rest >= weighed - part then
            result, rest = result + 1, rest - (weighed - part)
          else
            rest = rest + part
          end
        end
        bit = bit / 2
      end
      if rest > 0 then
        result = result + 1
      end
      used = math.min(capacity, events * weight + result)
    end
  end
  if used > 0 then
    seen = format('%d', used)
  else
    own = nil -- nothing is left of what was noted
  end
end


-- A key of another type is damage, too. Any other error ends the script.
if state and state.err then
  if not string.find(state.err, 'WRONGTYPE', 1, true) then
    error(state.err, 0)
  end
  damaged = true
end
if kept == '' or damaged then
  kept = nil
end
  if look then
    return seen
  end
  if used + previous == 0 and limit.numbers ~= charged.numbers then
    -- It has recovered, so that the numbers which it was left with mean nothing, nor do notes.
    limit, forgotten = charged, drains and state and state[4]
  end
  local units, after, at = tonumber(ARGV[argument + 1]), tonumber(ARGV[argument + 2]), tonumber(ARGV[argument + 3])
  local known, raise = at > 0, how == 'raise'
  local ticks = (now - now % limit.tick - at + at % limit.tick) / limit.tick -- since the charge
  local charge, before, mark = 0, previous, nil
  local reset, bare = how == 'reset', false -- bare: nothing is to be left but the past
  local lasts, last = 0, nil
  if kept then
    lasts, last = string.match(kept, '^(%d+);(%d+)$')
    lasts, last = tonumber(lasts) or 0, tonumber(last)
  end
  -- Of a list the instants tell: those of before a reset are gone. Of a meter the notes tell.
  local gone = units < 0 and known and not tells and not drains and (at > now or last and last > at)

  if reset then
    if tells or drains or damaged then
      call('UNLINK', key)
    elseif call('PTTL', key) ~= -2 then
      bare, last = true, math.max(last or 0, now)
      lasts = last + 2 * math.max(limit.pace * limit.tick, charged.pace * charged.tick)
      kept = format('%d;%d', lasts, last)
    end
  elseif damaged then
    -- The next check repairs it.
  elseif units == 0 or gone then
    -- Nothing is to change, or nothing is left of it.
  else
    if drains and state and state[4] and not read_notes then
local letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
local most_looks, most_older = 16, 128 -- fields that are read to take units from them, and that are kept
local state, level, since, noted, following -- of a key
local latest, slots_of, changed -- the name of the newest text, the texts by their names, and which are to be written

-- name_of returns the name of the text that has the slot of a number.
local function name_of(number)
  return format('n%016d', (number - number % 52) / 52)
end

-- letter_of returns the letter that stands for a number.
local function letter_of(number)
  return string.sub(letters, number % 52 + 1, number % 52 + 1)
end

-- text_of returns a text.
local function text_of(name)
  slots_of[name] = slots_of[name] or call('HMGET', state, name)[1] or ''
  return slots_of[name]
end

-- put changes a text. One without units is not kept, but for the newest.
local function put(name, slots)
  if name ~= latest and not string.find(slots, '[1-9]') then
    local older = text_of('older')
    local first = string.find(older, name, 1, true)
    slots, slots_of.older, changed.older = '', string.sub(older, 1, first - 1) .. string.sub(older, first + 17), true
  end
  slots_of[name], changed[name] = slots, true
end

-- take takes units from slots, the newest first. It returns the slots, and how many units they have not had.
local function take(slots, units)
  local backwards = string.reverse(slots)
  local first, last, digits = string.find(backwards, '(0*[1-9]%d*)%a')
  while first do
    local has = tonumber(string.reverse(digits))
    if has > units then
      local above = string.gsub(string.sub(slots, #slots - first + 2), '%d+', '0')
      return string.sub(slots, 1, #slots - last + 1) .. format('%d', has - units) .. above, 0
    end
    units = units - has
    first, last, digits = string.find(backwards, '(0*[1-9]%d*)%a', last + 1)
  end
  return string.gsub(slots, '%d+', '0'), units
end

-- take_older takes units from the texts before one, the latest first. It returns how many they have not had.
local function take_older(units, before)
  local older, looks = text_of('older'), most_looks
  local first = #older - 16
  while units > 0 and first > 0 and looks > 0 do
    local name = string.sub(older, first, first + 16)
    if name < before then
      local slots
      slots, units = take(text_of(name), units)
      put(name, slots)
      looks = looks - 1
    end
    first = first - 17
  end
  return units
end

-- forget empties all slots.
local function forget()
  for name in string.gmatch(text_of('older'), 'n%d+') do
    put(name, '')
  end
  put(latest, '')
  noted = 0
end

-- drain takes from the slots what may have drained since they were written, if so much is used now. Where that is in too
-- many texts to look at, nothing is known any more.
drain = function(limit, used)
  local least = math.min(used, level - math.max(0, limit.present - since + since % limit.tick) / limit.tick * limit.pace)
  if least <= 0 then
    forget()
  elseif noted > least then
    local slots, rest = take(slots_of[latest], noted - least)
    put(latest, slots)
    noted = least
    if rest > 0 and take_older(rest, latest) > 0 then
      forget()
    end
  end
end

-- read_notes reads notes, and returns the instant of the latest one, or nil if they were counted under other numbers.
read_notes = function(key, limit, low, newest)
  local numbers
  state, slots_of, changed = key, {}, {}
  level, since, noted, following, numbers = string.match(low, '^(%d+) (%d+) (%d+) (%d+) ?(.*)$')
  level, since, noted, following = tonumber(level), tonumber(since), tonumber(noted), tonumber(following)
  latest = name_of(following - 1)
  slots_of[latest] = newest or ''
  return numbers == limit.numbers and since or nil
end

-- written_notes returns the fields that the state has to have besides if so much is used.
written_notes = function(limit, used)
  local fields = { 'low', format('%d %d %d %d %s', used, now, noted, following, limit.numbers) }
  for name in pairs(changed) do
    if slots_of[name] == '' and name ~= latest and name ~= 'older' then
      call('HDEL', state, name)
    else
      fields[#fields + 1], fields[#fields + 2] = name == latest and 'newest' or name, slots_of[name]
    end
  end
  return fields
end

-- close closes the slot of a reservation and takes units from it and from those below. It returns how many they have had.
-- The text of the slot is given, unless it is the newest.
close = function(order, units, slots)
  local name, letter, rest = name_of(order), letter_of(order), units
  slots = slots_of[name] or slots or ''
  slots_of[name] = slots
  local at = string.find(slots, letter, 1, true)
  if at then
    local _, last, digits = string.find(slots, '^(%d+)', at + 1)
    local below, above, left = string.sub(slots, 1, at - 1), string.sub(slots, last + 1), tonumber(digits) - units
    if left < 0 then
      below, rest = take(below, -left)
      left = 0
    else
      rest = 0
    end
    _, last, digits = string.find(above, '^%a(%d+)')
    if last then
      above = string.sub(above, 1, 1) .. format('%d', left + tonumber(digits)) .. string.sub(above, last + 1)
    elseif name == latest then
      noted = noted - left -- for nobody
    elseif left > 0 then
      above = letter .. format('%d', left)
    end
    put(name, below .. above)
  elseif order >= following or slots ~= '' or name == latest then
    return 0
  end
  if rest > 0 then -- also if the slot was not kept, which had none
    rest = take_older(rest, name)
  end
  noted = noted - units + rest
  return units - rest
end
    end
if limit.algorithm == 'leaky' or limit.algorithm == 'shaping' or limit.algorithm == 'token-bucket' or limit.algorithm == 'gcra' then
-- Of a charge a meter gets back what has not drained since: the rest would have
-- found it empty without the charge.
after = tonumber(string.match(ARGV[argument + 2], '^%d+'))
local since_then = math.max(0, ticks)
local elsewhen = math.max(0, (now - now % charged.tick - at + at % charged.tick) / charged.tick)
local left = after -- of what has to be left for it
if how ~= 'last' then
  left = -units
end
if limit.numbers == charged.numbers then
  left = left - since_then * limit.pace
else
  -- It has drained under both numbers, for unknown times: under which more has.
  local then_left = math.max(0, left - elsewhen * charged.pace)
  left = math.min(limit.capacity, (left - left % former_weight) / former_weight * weight) - since_then * limit.pace
  left = math.min(left, (then_left - then_left % former_weight) / former_weight * weight)
  units = units / former_weight * weight
end
units = math.max(-limit.capacity, math.min(units, limit.capacity))
local low, since = state and state[4], nil
if low then
  since = read_notes(key, limit, low, state[5])
end
if raise then
  charge = math.max(0, units - used)
elseif units > 0 then
  charge = math.min(units, limit.capacity - used)
elseif not known then
  charge = -math.min(used, -units)
elseif how == 'last' and used > math.max(0, left) then
  charge = 0 -- others have queued behind it
elseif order and (since or not low) then
  returns = since and math.min(used, -units)
elseif at <= now and (order or not (since and at <= since)) then
  -- What drains takes no more from all such charges together than from each of them.
  charge = -math.max(0, math.min(used, -units, left))
end
if since and (returns or charge ~= 0) then
  drain(limit, math.min(used, used + charge))
  if returns then
    charge = -close(order, returns, state[6])
  end
  if charge ~= 0 then -- else nothing is written: what has drained since can be told later, too
    sunk = written_notes(limit, used + charge)
  end
end
elseif limit.algorithm == 'fixed-window' then
if not known or own > 0 and at >= now + own - limit.pace then -- its window is open
  if raise then
    units = math.max(0, units - used)
  end
  charge = math.max(-used, math.min(units, math.max(0, charged.capacity - used)))
end
elseif limit.algorithm == 'sliding-window' then
local elapsed = (now - now % limit.tick) / limit.tick % limit.pace
local age = known and ticks - elapsed or 0
if age <= 0 then
  local weighted = previous * (limit.pace - elapsed)
  weighted = math.ceil(weighted / limit.pace)
  if raise then
    units = math.max(0, units - used - weighted)
  end
  if units > 0 then
    units = math.max(0, math.min(units, charged.capacity - used - weighted))
  end
  charge = math.max(-used, units)
  if not known then
    previous = math.max(0, previous + units - charge)
  end
elseif age <= limit.pace then
  if raise then
    units = math.max(0, units - previous)
  end
  units = math.min(units, math.max(0, charged.capacity - previous))
  previous = math.max(0, previous + units)
end
elseif limit.algorithm == 'sliding-log' then
if units < 0 then
  if known then
    call('LREM', key, format('%d', units), format('%d', at))
  else
    call('LTRIM', key, '0', format('%d', units - 1))
  end
else
  if raise then
    units = units - used
  end
  units = math.min(units, charged.capacity - used)
  if not known then
    at = now
  end
  if units > 0 and at > now - limit.pace then
    -- The log is in order, so what was admitted later is put behind. What has to go from the head goes last: see above.
    local gone, length = own.first, own.first + used
    local place = math.max(gone, first_after(own, at, length))
    local later = call('LRANGE', key, format('%d', place), '-1')
    if place == gone then
      gone = length
    elseif place < length then
      call('LTRIM', key, '0', format('%d', place - 1))
    end
    local instants, text = {}, format('%d', at)
    for unit = 1, units + #later do
      instants[unit] = later[unit - units] or text
    end
    append_instants(own, instants)
    if gone > 0 then
      call('LTRIM', key, format('%d', gone), '-1')
    end
  end
end
local newest = tonumber(call('LINDEX', key, '-1'))
if newest then
  local full = newest + limit.pace
  if not renumbered or call('PTTL', key) < (full - now) / 1000 then
    call('PEXPIREAT', key, format('%d', (full - full % 1000000) / 1000 + grace))
  end
end
end
  end
  if not reset and (charge ~= 0 or previous ~= before) then
    if used + charge + previous > 0 then
      if forgotten and not sunk then
        call('HDEL', key, 'low')
      end
-- Writes the state of a check, and renews the key's time to live if the recovery reaches into
-- a later second. The key may have lost its time to live: one write in sixteen looks whether it is
-- long enough, and each write does if it may have been set under other numbers.
local full, text
if limit.algorithm == 'leaky' then
local level = used + charge
full = limit.present + level / limit.pace * limit.tick
if level ~= written then
  written, digits = level, format('%d', level)
end
limit.at = limit.at or format('%d', limit.present) -- the same for all checks of a script run
if limit.numbers == '' and sunk then
  call('HSET', key, 'level', digits, 'last_leak', limit.at, unpack(sunk))
  sunk = nil
elseif limit.numbers == '' then
  call('HSET', key, 'level', digits, 'last_leak', limit.at)
else
  call('HSET', key, 'level', digits, 'last_leak', limit.at, 'numbers', limit.numbers)
end
elseif limit.algorithm == 'shaping' then
local level, pace, tick = used + charge, limit.pace, limit.tick
local left = level % pace
local at = limit.present + (level - left) / pace * tick
full = at + left / pace * tick
if at ~= written then
  written, digits = at, format('%d', at)
end
if limit.numbers ~= '' then
  call('HSET', key, 'next_free', digits, 'left', format('%d', left), 'numbers', limit.numbers)
elseif pace > 1 then
  call('HSET', key, 'next_free', digits, 'left', format('%d', left))
else
  call('HSET', key, 'next_free', digits)
end
elseif limit.algorithm == 'token-bucket' then
local level = used + charge
local tokens = limit.capacity - level
full = limit.present + level / limit.pace * limit.tick
if tokens ~= written then
  written, digits = tokens, format('%d', tokens)
end
limit.at = limit.at or format('%d', limit.present) -- the same for all checks of a script run
if limit.numbers == '' and sunk then
  call('HSET', key, 'tokens', digits, 'last_refill', limit.at, unpack(sunk))
  sunk = nil
elseif limit.numbers == '' then
  call('HSET', key, 'tokens', digits, 'last_refill', limit.at)
else
  call('HSET', key, 'tokens', digits, 'last_refill', limit.at, 'numbers', limit.numbers)
end
elseif limit.algorithm == 'gcra' then
local level, pace, tick = used + charge, limit.pace, limit.tick
local left = level % pace
local at = limit.present + (level - left) / pace * tick
full = at + left / pace * tick
if at ~= written then
  written, digits = at, format('%d', at)
end
text = digits
if limit.numbers ~= '' then
  text = format('%s %d %s', text, left, limit.numbers)
elseif pace > 1 then
  text = format('%s %d', text, left)
end
elseif limit.algorithm == 'fixed-window' then
local opens = own == 0
if opens then
  own = limit.pace
end
full = now + own
local admitted = format('%d', used + charge)
if full == former and not opens and limit.numbers == '' then -- the same window
  call('HSET', key, 'count', admitted)
elseif limit.numbers == '' then
  call('HSET', key, 'count', admitted, 'start', format('%d', full - limit.pace))
else
  call('HSET', key, 'count', admitted, 'start', format('%d', full - limit.pace), 'numbers', limit.numbers)
end

elseif limit.algorithm == 'sliding-window' then
local elapsed = (now - now % limit.tick) / limit.tick % limit.pace
local start = now - now % limit.tick - elapsed * limit.tick
full = start + 2 * limit.pace * limit.tick
local current = format('%d', used + charge)
if full == former and previous == own and not repair then -- the same window
  call('HSET', key, 'current', current)
elseif limit.numbers == '' then
  call('HSET', key, 'current', current, 'previous', format('%d', previous), 'start', format('%d', start))
else
  call('HSET', key, 'current', current, 'previous', format('%d', previous), 'start', format('%d', start), 'numbers', limit.numbers)
end

elseif limit.algorithm == 'sliding-log' then
-- The key is never empty: in a slot that is being moved it could not be made again. So what has to go from the head, or all of a
-- log of the future, goes last.
if own.future > 0 and own.future == used then
  own.first = own.first + used
elseif own.future > 0 then
  call('LTRIM', key, '0', format('%d', -1 - own.future))
end
local instants, at = {}, format('%d', now)
for unit = 1, charge + own.future do
  instants[unit] = at
end
append_instants(own, instants)
if own.first > 0 then
  call('LTRIM', key, format('%d', own.first), '-1')
end
full = now + limit.pace
if charge == 0 then
  full = now + own.newest
end

end
if text and sunk then
  call('HSET', key, 'tat', text, unpack(sunk))
  text = nil
elseif text and own then
  call('HSET', key, 'tat', text)
  text = nil
elseif sunk then
  call('HSET', key, unpack(sunk))
end
if kept then
  local lasts = tonumber(string.match(kept, '^%d+')) or 0
  former = math.max(former, lasts)
  if lasts <= now then
    kept = ''
  elseif lasts > full then
    full = lasts
  end
  if kept == '' then
    call('HSET', key, 'past', '')
  end
end
full = full - full % 1000000
local renew = repair or full > former - former % 1000000
if not renew and (renumbered or now % 16 == 0) then
  local lives = call('PTTL', key)
  if lives == -1 then
    mark = '+'
  end
  renew = lives == -1 or lives < (full - now) / 1000
end
if text and renew then
  call('SET', key, text, 'PXAT', format('%d', full / 1000 + grace))
elseif text then
  call('SET', key, text, 'KEEPTTL')
elseif renew then
  call('PEXPIREAT', key, format('%d', full / 1000 + grace))
end
    elseif lasts > now then
      bare = true
    else
      call('UNLINK', key)
    end
  end
  if drains then -- what is used needs not be read again
    told_by[key] = not (reset or damaged) and limit == charged and ARGV[argument]
    told[key] = asked and format('%d', used + charge)
  end
  if bare then
    -- The key is never deleted and made again: in a slot that is being moved it could not be. Its time to live comes first,
    -- since a server that has no memory left denies the rest unless the script has written before.
    local expires = format('%d', (lasts - lasts % 1000000) / 1000 + grace)
    call('PEXPIREAT', key, expires)
if limit.algorithm == 'leaky' or limit.algorithm == 'shaping' or limit.algorithm == 'token-bucket' or limit.algorithm == 'gcra' or limit.algorithm == 'sliding-log' then
elseif limit.algorithm == 'fixed-window' then
call('HSET', key, 'past', kept)
call('HDEL', key, 'count', 'start', 'numbers')

elseif limit.algorithm == 'sliding-window' then
call('HSET', key, 'past', kept)
call('HDEL', key, 'current', 'previous', 'start', 'numbers')

end
    call('PEXPIREAT', key, expires)
  end
  return asked
end

-- carry_out carries out all settlements, and returns the reply.
local function carry_out()
  local results, asking, refusal = {}, nil, nil
  for number = 1, #KEYS do
    local settled, asks, other = pcall(settle, number)
    if settled then
      results[#results + 1] = other or '0'
      if asks then
        asking = asking or {}
        asking[#asking + 1] = number
      end
    else
      results[#results + 1] = '1'
      told_by[KEYS[number]] = nil
      refusal = refusal or type(asks) == 'table' and asks.err or tostring(asks)
    end
  end
  if asking then
    for _, number in ipairs(asking) do
      local key, read, seen = KEYS[number], true, nil
      if told_by[key] and told_by[key] == ARGV[(number - 1) * 5 + 1] and told[key] then
        seen = told[key]
      else
        read, seen = pcall(settle, number, true)
      end
      if read then -- else the caller misses the numbers
        results[number] = results[number] .. ',' .. string.gsub(seen, ' ', ',')
      end
    end
  end
  if refusal then
    results[#results] = results[#results] .. '\n' .. refusal
  end
  return table.concat(results, ' ')
end

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
    end
    reclaimed[place] = give_back(KEYS[place], open, ended)
    left = call('PTTL', open)
  end
  lives[open] = left
  place, behind, word = place + 1, behind - 1, word + 1
end

-- Decides a list of calls, one after the other.
--
-- KEYS  a key for each check.
-- ARGV  for each check its limit, such as "take leaky 10000000 1 1", and its cost: see cost.lua.
--       Checks in a row that share both have them once, and so have calls in a row whose checks
--       share them. Behind them stands the holder of each check
--       that takes places. Then "at", if the instant of the decision is to be told. A check that
--       heeds a ban writes only to mend it; one that may strike has its strikes as its cost, and
--       writes them if its call is denied, though by no ban.
--
-- If a call is made several times, as many are granted as fit, one after the other.
--
-- Of alternatives in a row, the first that fits is charged. A call with alternatives is made once.
--
-- Returns whole numbers in a text, which is the cheapest reply. For each check it says what the key
-- had used before the call, in as many numbers as the algorithm needs. A "!" behind them says that
-- the key was damaged, a "+" that it had no time to live and has one now, a "-" that leases had ended
-- whose places nobody has given back, a "?" that the call has been denied and has to be made again for the
-- instant in front of it, since the window of that was not among those sent. Behind a check that is to be noted
-- comes its number, or 0. The caller works out the
-- rest. Last comes the instant in microseconds, if it was asked for.

local limits, checks, reply, number = {}, {}, {}, 1
local limit, cost, count, costs
local rest = 0 -- how many of the next checks have limits and costs that have been read
local note, read_notes, drain, written_notes -- made when a check is to be noted
local noted_in -- of settlements
local turn, place -- if several of these take turns: what each of them has, and the place of the latest one
local written, digits -- the number that a meter has written last, and its text: most keys have recovered, and get the same one

while number <= asked do
  -- Read and decide all checks of a call,
  local first, times, more = number, nil, true
  local chosen, waived -- whether an alternative has been found that fits, and which ones are not charged
  local undated -- the window of this moment was not sent: the call is denied, costs nothing, and is made again
  local key, used, previous, former, seen, damaged, repair, renumbered, room, own, kept
  while more do
    if rest == 0 then
      local repeats, period = 1, 1
      turn, place = nil, 0
      repeat
-- Reads the limit of a check from the arguments.
--
-- The checks of a call share their limits, so each is taken apart once. It is
-- written as whether it is charged ("take"; "note" if that may be settled, "sum" if all times are settled as
-- one) or only asked (another word), with a "+" if
-- the next check belongs to the same call, then algorithm, capacity, pace,
-- tick, and numbers. A "|" behind the first word says that the next check of the
-- call is an alternative of this one, and a "/" that this one is the last of some
-- alternatives. Headroom, which has to stay free, follows the capacity
-- after a "-". present is now, in microseconds, as the limit's ticks count it.
limit = limits[ARGV[argument]]
if not limit then
  local mode, either, joined, algorithm, capacity, pace, tick, numbers =
    string.match(ARGV[argument], '^(%a+)([|/]?)(%+?) (%S+) (%S+) (%d+) (%d+) ?(.*)$')
  local full = tonumber(capacity)
  local ceiling = full
  if not full then
    local headroom
    capacity, headroom = string.match(capacity, '^(%d+)%-(%d+)$')
    full = tonumber(capacity)
    ceiling = full - tonumber(headroom)
  end
  limit = {
    charged = mode == 'take' or mode == 'note' or mode == 'sum',
    noted = mode == 'note' or mode == 'sum' and mode,
    more = joined == '+' or either == '|',
    either = either ~= '' and either,
    algorithm = algorithm,
    capacity = full,
    ceiling = ceiling,
    pace = tonumber(pace),
    tick = tonumber(tick),
    numbers = numbers,
  }
  limit.present = now - now % limit.tick
  limits[ARGV[argument]] = limit
end
-- Reads the cost of a check from the arguments.
--
-- A call that is made several times at once has that number behind each of its costs. If its first
-- check has another cost each time, all of these costs stand there instead, with commas in between.
-- Checks in a row with the same limit, cost and times have these words once, followed by the number
-- of the checks. If several checks take turns, the first one's words end with how often that is and with
-- how many they are. The words of the others follow.
cost, count, costs = tonumber(ARGV[argument + 1]), 1, nil
if not cost then
  local times, checks
  cost, count, times, checks = string.match(ARGV[argument + 1], '^(%d+) (%d+) ?(%d*) ?(%d*)$')
  cost, count = tonumber(cost), tonumber(count)
  repeats, period = tonumber(times) or repeats, tonumber(checks) or period
  if not cost then
    costs = {}
    for each in string.gmatch(ARGV[argument + 1], '%d+') do
      costs[#costs + 1] = tonumber(each)
    end
    cost, count = costs[1], #costs
  end
end
        argument, place = argument + 2, place + 1
        if period > 1 then
          turn = turn or {}
          turn[place] = { limit, cost, count }
        end
      until place >= period
      rest = repeats * period
    end
    rest = rest - 1
    if turn then
      place = place % #turn + 1
      local check = turn[place]
      limit, cost, count = check[1], check[2], check[3]
    end
if limit.charged and limit.algorithm == 'concurrent' then
  holder = ARGV[argument]
  argument = argument + 1
end

    key = KEYS[number]
-- Reads what the key of a check has used. Lua sets variables faster one by one than together, and those
-- that are declared in this order to nil all at once.
used = 0
previous = 0
former = -1
seen = '0'
damaged = nil
repair = nil
renumbered = nil
room = nil
own = nil
kept = nil
local state, found, level, at, numbers, absolute

if limit.algorithm == 'leaky' then
if noted_in then
  state = try('HMGET', key, 'level', 'last_leak', 'numbers', 'low', 'newest', noted_in)
elseif limit.numbers == '' then
  state = try('HMGET', key, 'level', 'last_leak')
else
  state = try('HMGET', key, 'level', 'last_leak', 'numbers')
end
if state[1] or state[2] then
  level = state[1] == digits and written or tonumber(state[1])
  found, at, numbers = true, tonumber(state[2]), state[3] or ''
end

elseif limit.algorithm == 'shaping' then
if noted_in then
  state = try('HMGET', key, 'next_free', 'left', 'numbers', 'low', 'newest', noted_in)
elseif limit.numbers ~= '' then
  state = try('HMGET', key, 'next_free', 'left', 'numbers')
elseif limit.pace > 1 then
  state = try('HMGET', key, 'next_free', 'left')
else
  state = try('HMGET', key, 'next_free')
end
if state[1] or state[2] then
  found, level, at, numbers, absolute = true, tonumber(state[2] or '0'), tonumber(state[1]), state[3] or '', true
end

elseif limit.algorithm == 'token-bucket' then
if noted_in then
  state = try('HMGET', key, 'tokens', 'last_refill', 'numbers', 'low', 'newest', noted_in)
elseif limit.numbers == '' then
  state = try('HMGET', key, 'tokens', 'last_refill')
else
  state = try('HMGET', key, 'tokens', 'last_refill', 'numbers')
end
if state[1] or state[2] then
  found, at, numbers = true, tonumber(state[2]), state[3] or ''
  local capacity, tokens = limit.capacity, state[1] == digits and written or tonumber(state[1])
  if numbers ~= limit.numbers then
    capacity = tonumber(string.match(numbers, '^%d+'))
  end
  level = capacity and tokens and tokens >= 0 and capacity - tokens
end

elseif limit.algorithm == 'gcra' then
local fields, text
if noted_in then
  fields = try('HMGET', key, 'tat', 'left', 'numbers', 'low', 'newest', noted_in)
end
if not (fields and fields[1]) then
  text = try('GET', key)
  if type(text) == 'table' and string.find(text.err, 'WRONGTYPE', 1, true) then
    fields = try('HMGET', key, 'tat')
  end
end
if fields and fields[1] then
  own, text, state = true, fields[1], fields
elseif type(text) == 'table' then
  state = text
end
if type(text) == 'string' then
  found, level, at, numbers, absolute = true, 0, tonumber(text), '', true
  if not at then
    at, level, numbers = string.match(text, '^(%d+) (%d+) ?(.*)$')
    level, at = tonumber(level), tonumber(at)
  end
end

elseif limit.algorithm == 'fixed-window' then
if limit.numbers == '' then
  state = try('HMGET', key, 'count', 'start', 'past')
else
  state = try('HMGET', key, 'count', 'start', 'past', 'numbers')
end
kept = state[3]
own = 0 -- how long the window is still open
if state[1] or state[2] then
  local count, start, window = tonumber(state[1]), tonumber(state[2]), limit.pace
  if (state[4] or '') ~= limit.numbers then
    window = tonumber(state[4])
  end
  if not (count and start and window and count > 0 and start >= 0 and window >= 0)
    or count % 1 + start % 1 + window % 1 ~= 0 or count > largest or start > largest then
    damaged = true
  else
    -- An open window closes when its denials have said, whatever the length of the
    -- next one, but never later than a full window from now.
    local left = start + window - now
    if left > limit.pace then
      left = limit.pace
      repair = true
    end
    if left > 0 then
      own, used = left, count
      if count > limit.capacity then
        used = limit.capacity
        repair = true
      end
      if not repair then
        former = start + window
      end
    end
  end
end
seen = format('%d %d', used, own)

elseif limit.algorithm == 'sliding-window' then
if limit.numbers == '' then
  state = try('HMGET', key, 'current', 'previous', 'start', 'past')
else
  state = try('HMGET', key, 'current', 'previous', 'start', 'past', 'numbers')
end
kept = state[4]
local capacity, window, tick = limit.capacity, limit.pace, limit.tick
local ticks = (now - now % tick) / tick
local elapsed = ticks % window
local current = 0
if state[1] or state[2] or state[3] then
  local start, former_numbers, then_elapsed = tonumber(state[3]), state[5] or '', elapsed
  current, previous = tonumber(state[1]), tonumber(state[2])
  if former_numbers ~= limit.numbers then
    window, tick = string.match(former_numbers, '^(%d+) (%d+) %d+$')
    window, tick = tonumber(window), tonumber(tick)
    if window and window * tick > 0 and window <= largest and tick <= largest then
      ticks = (now - now % tick) / tick
      then_elapsed = ticks % window
    else
      damaged = true
    end
  end
  if damaged or not (current and previous and start and current >= 0 and previous >= 0 and start >= 0)
    or current % 1 + previous % 1 + start % 1 ~= 0
    or current > largest or previous > largest or start > largest then
    damaged, current, previous = true, 0, 0
  else
    -- The counts as they stand in the window of this instant.
    local age = ticks - then_elapsed - start / tick
    if age < 0 then -- the clock has stepped back: all moves into this window, where it weighs no less than before
      current, previous, repair = current + previous, 0, true
    elseif age >= 2 * window then
      current, previous = 0, 0
    elseif age >= window then
      previous = current
      current = 0
    end
    if window == limit.pace and tick == limit.tick then
      former = start + 2 * window * tick
      if former_numbers == limit.numbers then
        own = previous -- as it is stored
      end
    else
      -- Windows of another length: what is used moves into the current one. A
      -- denial leaves it there only if that window ends sooner. Otherwise two lengths
      -- that take turns, as during a deployment, would put the end off for ever.
      current, previous = current + math.ceil(previous * (window - then_elapsed) / window), 0
      repair = repair or limit.pace * limit.tick < window * tick
    end
    -- Counts of another capacity stand as far as what is used of them, by their weights, fits
    -- in this one.
    if former_numbers ~= limit.numbers or current > capacity or previous > capacity then
      if current > capacity then
        current = capacity
        repair = true
      end
      local free, left = (capacity - current) * limit.pace, limit.pace - elapsed
      if previous * left > free then
        previous = (free - free % left) / left
        repair = true
      end
    end
  end
end
used = current
seen = format('%d %d %d', current, previous, elapsed)
local weighted = previous * (limit.pace - elapsed)
room = limit.ceiling - current - math.ceil(weighted / limit.pace) -- exact, since both are whole and below 2^53

elseif limit.algorithm == 'sliding-log' then
state = try('LLEN', key)
own = { key = key, limit = limit, cost = cost, costs = costs, used = 0, former = -1, first = 0, future = 0, newest = 0 }
renumbered = limit.numbers ~= '' -- perhaps: the instants do not tell
local length = state
if type(state) == 'table' then -- an error: see below
  length = 0
else
  state = nil
end
local oldest, wait, newest = observe_log(own, length, count)
if own.damaged then -- as good as empty
  own.first, own.future, own.former = 0, 0, -1
  oldest, wait, newest = observe_log(own, 0, count)
end
former, repair, damaged = own.former, own.repair, own.damaged
used, own.newest = own.used, newest
seen = format('%d %d %d %d', used, oldest, wait, newest)

elseif limit.algorithm == 'concurrent' then
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

elseif limit.algorithm == 'ban' then
state = try('HMGET', key, 'count')
room = largest
seen = '0 0 0 0'
if state[1] then
  local fields = call('HMGET', key, 'since', 'until', 'strikes')
  own = read_ban(limit, state[1], fields[1], fields[2], fields[3])
  if not own then
    damaged = true
  elseif own.left > 0 then
    banned, room, used, repair = number, 0, limit.capacity, own.early
    if limit.extends and (limit.charged or limit.mode == 'strike') then
      own.left, repair = own.length, true
      own.gone = own.length + limit.forget
    end
    seen = format('%d %d %d %d', used, own.left, own.count, own.gone)
  else
    local strikes = own.strikes
    used = #strikes
    if used > 0 then
      local newest = strikes[used] + limit.pace - now
      seen = format('%d %d %d %d', used, strikes[1] + limit.pace - now, own.count, math.max(own.gone, newest))
    else
      seen = format('0 0 %d %d', own.count, own.gone)
    end
  end
end

elseif limit.algorithm == 'calendar' then
if not limit.found then
  find_window(limit)
end
local opens, closes = limit.opens, limit.closes
if not opens then
  undated, used = true, limit.capacity
  seen = format('%d %d?', used, now)
else
  state = try('HMGET', key, 'count', 'start', 'end', 'past')
  kept = state[4]
  local ends = closes -- when the next window opens
  if state[1] or state[2] or state[3] then
    local count, start, finish = tonumber(state[1]), tonumber(state[2]), tonumber(state[3])
    if not (count and start and finish and count > 0 and start >= 0 and finish > start)
      or count % 1 + start % 1 + finish % 1 ~= 0 or count > largest or finish > largest
      or finish - start > 31795200000000 then -- 368 days: none is as long
      damaged = true
    elseif start == opens and finish == closes then
      used, own, former = count, true, limit.lingers
    else
      if start >= closes then -- the clock has stepped back
        start, finish, repair = opens, closes, true
      end
      local lingers, last = lingering(start, finish), finish
      if finish < closes then
        last = ending(start, finish, lingers, opens, closes)
      elseif finish > closes then
        last = ending(start, finish, lingers, closes, limit.later)
      end
      if last > now then
        ends = last
        used, own, former = count, { start, finish, lingers }, lingers
      end
    end
    if used > limit.capacity then
      used, repair = limit.capacity, true
    end
  end
  seen = format('%d %d', used, ends - now)
end

end
if found then
  local capacity, tick, pace = limit.capacity, limit.tick, limit.pace
  if not (level and at and level >= 0 and at >= 0 and level % 1 == 0 and at % 1 == 0)
    or level > largest or at > largest then
    damaged = true
  elseif numbers == limit.numbers then
    former = at + level / pace * tick
    local elapsed = (limit.present - at) / tick
    if elapsed < 0 and not absolute then
      elapsed = 0
      repair = true
    end
    used = level - elapsed * pace
    if used < 0 then
      used = 0
    elseif used > capacity then
      used = capacity
      repair = true
    end
  else
    -- A named limit whose numbers have changed. What was used drains with the former
    -- ones until now, and becomes ceil(used · weight / former weight), exactly.
    local full, weighed, drain, length = string.match(numbers, '^(%d+) (%d+) (%d+) (%d+)$')
    full, weighed, drain, length = tonumber(full), tonumber(weighed), tonumber(drain), tonumber(length)
    if limit.numbers == '' or not (full and weighed * drain * length > 0)
      or full > largest or weighed > largest or drain > largest or length > largest then
      damaged = true
    else
      repair, renumbered = true, numbers
      local elapsed = (now - now % length - at) / length
      if elapsed < 0 and not absolute then
        elapsed = 0
      end
      used = math.min(full, math.max(0, level - elapsed * drain))
      local weight = tonumber(string.match(limit.numbers, '^%d+ (%d+)'))
      local part = used % weighed
      local events = (used - part) / weighed
      -- ceil(part · weight / weighed) by long multiplication, from the highest bit of
      -- weight down: the product itself may need more than 53 bits.
      local result, rest, bit, left = 0, 0, 1, weight
      while bit * 2 <= left do
        bit = bit * 2
      end
      while bit >= 1 do
        result, rest = result * 2, rest * 2
        if rest >= weighed then
          result, rest = result + 1, rest - weighed
        end
        if left >= bit then
          left = left - bit
          if rest >= weighed - part then
            result, rest = result + 1, rest - (weighed - part)
          else
            rest = rest + part
          end
        end
        bit = bit / 2
      end
      if rest > 0 then
        result = result + 1
      end
      used = math.min(capacity, events * weight + result)
    end
  end
  if used > 0 then
    seen = format('%d', used)
  else
    own = nil -- nothing is left of what was noted
  end
end


-- A key of another type is damage, too. Any other error ends the script.
if state and state.err then
  if not string.find(state.err, 'WRONGTYPE', 1, true) then
    error(state.err, 0)
  end
  damaged = true
end
if kept == '' or damaged then
  kept = nil
end
    times = times or count
    if limit.either then
      local fits = cost == 0 or cost <= (room or limit.ceiling - used)
      if chosen or not fits then
        waived = waived or {}
        waived[number] = true
      end
      chosen = chosen or fits
      if limit.either == '/' then
        if not chosen then
          times = 0
        end
        chosen = nil
      end
    elseif cost > 0 then
      room = room or limit.ceiling - used
      if cost > room then
        times = 0
      elseif count > 1 and limit.charged then
        local granted, rest = 0, room
        if costs then
          while granted < count and costs[granted + 1] <= rest do
            granted = granted + 1
            rest = rest - costs[granted]
          end
        else
          granted = (room - room % cost) / cost
        end
        times = math.min(times, granted)
      end
    end
    more = limit.more
    if more then
      checks[number] = { key, used, previous, former, damaged, repair, renumbered, seen, limit, cost, costs, own, kept }
    end
    number = number + 1
  end

  if undated then
    times = 0
  end

  -- then write all, the last one first, since the variables still hold its values.
  for i = number - 1, first, -1 do
    local limit, cost, costs = limit, cost, costs
    if i < number - 1 then
      key, used, previous, former, damaged, repair, renumbered, seen, limit, cost, costs, own, kept = unpack(checks[i], 1, 13)
    end
    local times, mark, order, sunk = times, '', 0, nil
    if waived and waived[i] then
      times = 0
    end
    local charge = cost * times
    if costs then
      charge = 0
      for place = 1, times do
        charge = charge + costs[place]
      end
    end
    if damaged then
      mark = '!'
    end
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

if limit.algorithm == 'ban' and not limit.charged then
  charge = 0
  if times == 0 or damaged or repair then
    read_terms(limit)
    if times == 0 and not undated and limit.mode == 'strike' and not (banned and banned >= first) then
      charge = cost
    end
  end
  if charge > 0 or (damaged or repair) and limit.mode ~= '' then
    repair = true
    limit.writing = limit.writing or setmetatable({ charged = true }, { __index = limit })
    limit = limit.writing
  end
end

    if limit.charged then
      if times > 0 or repair or damaged then
        if damaged then
          call('UNLINK', key)
          former = -1
        end
        if charge + used + previous > 0 then
          if limit.noted and not note then
local letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
local most_looks, most_older = 16, 128 -- fields that are read to take units from them, and that are kept
local state, level, since, noted, following -- of a key
local latest, slots_of, changed -- the name of the newest text, the texts by their names, and which are to be written

-- name_of returns the name of the text that has the slot of a number.
local function name_of(number)
  return format('n%016d', (number - number % 52) / 52)
end

-- letter_of returns the letter that stands for a number.
local function letter_of(number)
  return string.sub(letters, number % 52 + 1, number % 52 + 1)
end

-- text_of returns a text.
local function text_of(name)
  slots_of[name] = slots_of[name] or call('HMGET', state, name)[1] or ''
  return slots_of[name]
end

-- put changes a text. One without units is not kept, but for the newest.
local function put(name, slots)
  if name ~= latest and not string.find(slots, '[1-9]') then
    local older = text_of('older')
    local first = string.find(older, name, 1, true)
    slots, slots_of.older, changed.older = '', string.sub(older, 1, first - 1) .. string.sub(older, first + 17), true
  end
  slots_of[name], changed[name] = slots, true
end

-- take takes units from slots, the newest first. It returns the slots, and how many units they have not had.
local function take(slots, units)
  local backwards = string.reverse(slots)
  local first, last, digits = string.find(backwards, '(0*[1-9]%d*)%a')
  while first do
    local has = tonumber(string.reverse(digits))
    if has > units then
      local above = string.gsub(string.sub(slots, #slots - first + 2), '%d+', '0')
      return string.sub(slots, 1, #slots - last + 1) .. format('%d', has - units) .. above, 0
    end
    units = units - has
    first, last, digits = string.find(backwards, '(0*[1-9]%d*)%a', last + 1)
  end
  return string.gsub(slots, '%d+', '0'), units
end

-- take_older takes units from the texts before one, the latest first. It returns how many they have not had.
local function take_older(units, before)
  local older, looks = text_of('older'), most_looks
  local first = #older - 16
  while units > 0 and first > 0 and looks > 0 do
    local name = string.sub(older, first, first + 16)
    if name < before then
      local slots
      slots, units = take(text_of(name), units)
      put(name, slots)
      looks = looks - 1
    end
    first = first - 17
  end
  return units
end

-- forget empties all slots.
local function forget()
  for name in string.gmatch(text_of('older'), 'n%d+') do
    put(name, '')
  end
  put(latest, '')
  noted = 0
end

-- drain takes from the slots what may have drained since they were written, if so much is used now. Where that is in too
-- many texts to look at, nothing is known any more.
drain = function(limit, used)
  local least = math.min(used, level - math.max(0, limit.present - since + since % limit.tick) / limit.tick * limit.pace)
  if least <= 0 then
    forget()
  elseif noted > least then
    local slots, rest = take(slots_of[latest], noted - least)
    put(latest, slots)
    noted = least
    if rest > 0 and take_older(rest, latest) > 0 then
      forget()
    end
  end
end

-- read_notes reads notes, and returns the instant of the latest one, or nil if they were counted under other numbers.
read_notes = function(key, limit, low, newest)
  local numbers
  state, slots_of, changed = key, {}, {}
  level, since, noted, following, numbers = string.match(low, '^(%d+) (%d+) (%d+) (%d+) ?(.*)$')
  level, since, noted, following = tonumber(level), tonumber(since), tonumber(noted), tonumber(following)
  latest = name_of(following - 1)
  slots_of[latest] = newest or ''
  return numbers == limit.numbers and since or nil
end

-- written_notes returns the fields that the state has to have besides if so much is used.
written_notes = function(limit, used)
  local fields = { 'low', format('%d %d %d %d %s', used, now, noted, following, limit.numbers) }
  for name in pairs(changed) do
    if slots_of[name] == '' and name ~= latest and name ~= 'older' then
      call('HDEL', state, name)
    else
      fields[#fields + 1], fields[#fields + 2] = name == latest and 'newest' or name, slots_of[name]
    end
  end
  return fields
end

-- note_level notes a reservation after which so much is used.
local function note_level(used)
  local name, former = name_of(following), latest
  if name ~= former then
    latest, slots_of[name] = name, ''
    local kept = string.find(slots_of[former], '[1-9]')
    changed[former] = kept
    if kept then
      slots_of.older, changed.older = text_of('older') .. former, true
      if #slots_of.older > 17 * most_older then -- the oldest ones count for nothing
        local oldest = string.sub(slots_of.older, 1, 17)
        for units in string.gmatch(text_of(oldest), '%d+') do
          noted = noted - tonumber(units)
        end
        put(oldest, '')
      end
    end
  end
  put(latest, slots_of[latest] .. letter_of(following) .. format('%d', used - noted))
  noted, following = used, following + 1
end

-- note notes a check that is charged so many times. It returns the number of the first time, and the fields that the state
-- has to have besides.
note = function(key, limit, used, charge, times, cost, costs)
  local found = call('HMGET', key, 'low', 'newest', 'older')
  -- No notes of before a reset have begun with that number for days, unless the clock steps back to the same microsecond.
  local low = found[1] or format('0 0 0 %d ', now % 1099511627776 * 4096)
  local counted = read_notes(key, limit, low, found[2])
  slots_of.older = found[3] or ''
  if counted then
    drain(limit, used)
  else
    forget()
  end
  local order = following
  if limit.noted == 'sum' then
    note_level(used + charge)
  else
    for time = 1, times do
      used, charge = used + (costs and costs[time] or cost), 0
      note_level(used)
    end
  end
  return order, written_notes(limit, used + charge)
end

          end
if type(renumbered) == 'string' and (own or limit.algorithm ~= 'gcra') then -- the numbers that a meter was left with
  local low = call('HMGET', key, 'low')[1]
  if low and string.match(low, '^%d+ %d+ %d+ %d+ ?(.*)$') ~= renumbered then
    call('HDEL', key, 'low') -- it has drained under numbers of which the notes know nothing
  end
end
if limit.noted and times > 0 then
  local can = true
  if limit.algorithm == 'gcra' and not own then -- A string becomes a hash. In a slot that is being moved it could not.
    can = former < 0 or type(try('PTTL', key .. '=')) ~= 'table'
    if can then
      call('UNLINK', key)
      own, repair = true, true
    end
  end
  if can then
    order, sunk = note(key, limit, used, charge, times, cost, costs)
  end
end

-- Writes the state of a check, and renews the key's time to live if the recovery reaches into
-- a later second. The key may have lost its time to live: one write in sixteen looks whether it is
-- long enough, and each write does if it may have been set under other numbers.
local full, text
if limit.algorithm == 'leaky' then
local level = used + charge
full = limit.present + level / limit.pace * limit.tick
if level ~= written then
  written, digits = level, format('%d', level)
end
limit.at = limit.at or format('%d', limit.present) -- the same for all checks of a script run
if limit.numbers == '' and sunk then
  call('HSET', key, 'level', digits, 'last_leak', limit.at, unpack(sunk))
  sunk = nil
elseif limit.numbers == '' then
  call('HSET', key, 'level', digits, 'last_leak', limit.at)
else
  call('HSET', key, 'level', digits, 'last_leak', limit.at, 'numbers', limit.numbers)
end
elseif limit.algorithm == 'shaping' then
local level, pace, tick = used + charge, limit.pace, limit.tick
local left = level % pace
local at = limit.present + (level - left) / pace * tick
full = at + left / pace * tick
if at ~= written then
  written, digits = at, format('%d', at)
end
if limit.numbers ~= '' then
  call('HSET', key, 'next_free', digits, 'left', format('%d', left), 'numbers', limit.numbers)
elseif pace > 1 then
  call('HSET', key, 'next_free', digits, 'left', format('%d', left))
else
  call('HSET', key, 'next_free', digits)
end
elseif limit.algorithm == 'token-bucket' then
local level = used + charge
local tokens = limit.capacity - level
full = limit.present + level / limit.pace * limit.tick
if tokens ~= written then
  written, digits = tokens, format('%d', tokens)
end
limit.at = limit.at or format('%d', limit.present) -- the same for all checks of a script run
if limit.numbers == '' and sunk then
  call('HSET', key, 'tokens', digits, 'last_refill', limit.at, unpack(sunk))
  sunk = nil
elseif limit.numbers == '' then
  call('HSET', key, 'tokens', digits, 'last_refill', limit.at)
else
  call('HSET', key, 'tokens', digits, 'last_refill', limit.at, 'numbers', limit.numbers)
end
elseif limit.algorithm == 'gcra' then
local level, pace, tick = used + charge, limit.pace, limit.tick
local left = level % pace
local at = limit.present + (level - left) / pace * tick
full = at + left / pace * tick
if at ~= written then
  written, digits = at, format('%d', at)
end
text = digits
if limit.numbers ~= '' then
  text = format('%s %d %s', text, left, limit.numbers)
elseif pace > 1 then
  text = format('%s %d', text, left)
end
elseif limit.algorithm == 'fixed-window' then
local opens = own == 0
if opens then
  own = limit.pace
end
full = now + own
local admitted = format('%d', used + charge)
if full == former and not opens and limit.numbers == '' then -- the same window
  call('HSET', key, 'count', admitted)
elseif limit.numbers == '' then
  call('HSET', key, 'count', admitted, 'start', format('%d', full - limit.pace))
else
  call('HSET', key, 'count', admitted, 'start', format('%d', full - limit.pace), 'numbers', limit.numbers)
end

elseif limit.algorithm == 'sliding-window' then
local elapsed = (now - now % limit.tick) / limit.tick % limit.pace
local start = now - now % limit.tick - elapsed * limit.tick
full = start + 2 * limit.pace * limit.tick
local current = format('%d', used + charge)
if full == former and previous == own and not repair then -- the same window
  call('HSET', key, 'current', current)
elseif limit.numbers == '' then
  call('HSET', key, 'current', current, 'previous', format('%d', previous), 'start', format('%d', start))
else
  call('HSET', key, 'current', current, 'previous', format('%d', previous), 'start', format('%d', start), 'numbers', limit.numbers)
end

elseif limit.algorithm == 'sliding-log' then
-- The key is never empty: in a slot that is being moved it could not be made again. So what has to go from the head, or all of a
-- log of the future, goes last.
if own.future > 0 and own.future == used then
  own.first = own.first + used
elseif own.future > 0 then
  call('LTRIM', key, '0', format('%d', -1 - own.future))
end
local instants, at = {}, format('%d', now)
for unit = 1, charge + own.future do
  instants[unit] = at
end
append_instants(own, instants)
if own.first > 0 then
  call('LTRIM', key, format('%d', own.first), '-1')
end
full = now + limit.pace
if charge == 0 then
  full = now + own.newest
end

elseif limit.algorithm == 'concurrent' then
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

elseif limit.algorithm == 'ban' then
if own and own.left > 0 then
  full = extend_ban(limit, key, own)
else
  full = add_strikes(limit, key, own, charge)
end

elseif limit.algorithm == 'calendar' then
local admitted = format('%d', used + charge)
full = limit.lingers
if own == true then -- it stands as it is
  call('HSET', key, 'count', admitted)
else
  local start, finish = limit.opens, limit.closes
  if own then
    start, finish, full = own[1], own[2], own[3]
  end
  call('HSET', key, 'count', admitted, 'start', format('%d', start), 'end', format('%d', finish))
end

end
if text and sunk then
  call('HSET', key, 'tat', text, unpack(sunk))
  text = nil
elseif text and own then
  call('HSET', key, 'tat', text)
  text = nil
elseif sunk then
  call('HSET', key, unpack(sunk))
end
if kept then
  local lasts = tonumber(string.match(kept, '^%d+')) or 0
  former = math.max(former, lasts)
  if lasts <= now then
    kept = ''
  elseif lasts > full then
    full = lasts
  end
  if kept == '' then
    call('HSET', key, 'past', '')
  end
end
full = full - full % 1000000
local renew = repair or full > former - former % 1000000
if not renew and (renumbered or now % 16 == 0) then
  local lives = call('PTTL', key)
  if lives == -1 then
    mark = '+'
  end
  renew = lives == -1 or lives < (full - now) / 1000
end
if text and renew then
  call('SET', key, text, 'PXAT', format('%d', full / 1000 + grace))
elseif text then
  call('SET', key, text, 'KEEPTTL')
elseif renew then
  call('PEXPIREAT', key, format('%d', full / 1000 + grace))
end
if terms[i] and times > 0 then
  reserve(i, charge, used + charge, order)
end

        end
      elseif former >= 0 and (renumbered or now % 16 == 0) then
        -- A denial only makes the key live for as long as it counts, or its past does.
        local lasts = string.match(kept or '', '^%d+')
        former = math.max(former, tonumber(lasts or 0))
        local lives = call('PTTL', key)
        if lives == -1 then
          mark = '+'
        end
        if lives == -1 or lives < (former - now) / 1000 then
          call('PEXPIREAT', key, format('%d', (former - former % 1000000) / 1000 + grace))
        end
      end
    end
if reclaimed[i] and mark == '' then
  mark = '-'
end
    reply[i] = seen .. mark
    if limit.noted then
      reply[i] = format('%s %d', reply[i], order)
    end
  end
end

if ARGV[argument] == 'at' then
  reply[number] = format('%d', now)
end
return table.concat(reply, ' ')

