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

-- How many checks there are, and where their words begin.
local asked, argument = #KEYS, 1
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

do
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

    if limit.charged then
      if times > 0 or repair or damaged then
        if damaged then
          call('UNLINK', key)
          former = -1
        end
        if charge + used + previous > 0 then
          if limit.noted and not note then
          end
-- Writes the state of a check, and renews the key's time to live if the recovery reaches into
-- a later second. The key may have lost its time to live: one write in sixteen looks whether it is
-- long enough, and each write does if it may have been set under other numbers.
local full, text
do
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
