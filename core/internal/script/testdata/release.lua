-- Gives back places of concurrent limits, one for each holder: what settle.lua does with them, without the words
-- that it needs to tell settlements apart.
--
-- KEYS  for each place its key. Several places of one key may stand in a row.
-- ARGV  for each place who holds it.
--
-- Returns what settle.lua does: for each place a 0, or a 1 if Redis refused, and then, in a line of its own, why it
-- refused the first of these. A place that nobody holds, and a key of another type, are no errors.

local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local results, refusal, first = {}, nil, 1
local waited -- the keys for whose places somebody waits, if any

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
  elseif gone > 0 then
    local foremost = call('ZRANGE', key, '0', '0')[1]
    if foremost and string.find(foremost, '^%d') then -- a waiter: its name begins with its first instant
      waited = waited or {}
      waited[#waited + 1] = key
    end
  end
  for place = first, last do
    results[place] = result
  end
  first = last + 1
end

if waited then -- the functions are made in here: without a waiter they would be more than half of the time
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
  local clock = call('TIME')
  local now = tonumber(ARGV[#KEYS + 1]) or clock[1] * 1000000 + clock[2]
  local uses_places = true
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

  for _, key in ipairs(waited) do
    hand_over(key, in_use(key), largest)
  end
end
if refusal then
  results[#results] = results[#results] .. '\n' .. refusal
end
return table.concat(results, ' ')
