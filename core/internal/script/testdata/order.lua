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
-- Keeps the order in which processes wait for units of a limit: one waiter of each, the first of its queue.
--
-- KEYS  a sorted set of waiters, each with the instant since when it has waited. "@" and a waiter has the instant until which
--       it lives unless it says more, above living.
-- ARGV  the waiter, or nothing if none is left: its id, a space and what it costs; which one this process has told of
--       before, or nothing; for how many microseconds it has waited; since when, if this has been told it, and else 0; in how
--       many microseconds it asks again; "call" if the older ones are to ask at once, since there is room for them;
--       a channel, behind which the name of a process follows.
--
-- Returns since when it has waited, and for each of other processes' by how much longer, and what it costs. It looks at the 64
-- that have waited longest.

local living, grace, most = -9000000000000000, 500000, 64
local key, name, former, since = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[4])

if former ~= '' and former ~= name then
  call('ZREM', key, former, '@' .. former)
end
if name == '' then
  return ''
end
if since == 0 then
  since = now - tonumber(ARGV[3])
end
local own, told = string.match(name, '^[^-]+'), { format('%d', since) }
local list = call('ZRANGE', key, '0', '+inf', 'BYSCORE', 'LIMIT', '0', most, 'WITHSCORES')
for i = 1, #list, 2 do
  local other = list[i]
  if other ~= name then
    local lives, longer = (call('ZSCORE', key, '@' .. other) or living) - living, since - list[i + 1]
    if lives <= now then
      call('ZREM', key, other, '@' .. other)
    else
      local process, line, cost = string.match(other, '^([^-]+)%-(%d+) (%d+)$')
      if process ~= own then -- else it is about to leave
        told[#told + 1] = format('%d %s', longer, cost)
      end
      if process ~= own and longer > 0 and ARGV[6] == 'call' then
        try('PUBLISH', ARGV[7] .. process, line)
        if lives > now + grace then -- it says more by then, or is gone
          call('ZADD', key, format('%d', living + now + grace), '@' .. other)
        end
      end
    end
  end
end
call('ZADD', key, format('%d', since), name, format('%d', living + now + tonumber(ARGV[5]) + grace), '@' .. name)
call('PEXPIREAT', key, format('%d', now / 1000 + 602000))
return table.concat(told, ' ')
