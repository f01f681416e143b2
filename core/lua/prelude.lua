-- A script makes its functions and tables anew in every call, and a call is
-- short: they would be a third of its time. So a script is one piece, put together
-- from files. Where a line begins with three dashes and a name, the file of that
-- name goes in. Three names stand for parts of the algorithms' files, which are what
-- follows the name there:
--
--   functions  what is called in more than one place, if anything is.
--   observe    sets check.used, and seen, which are the numbers for the caller as
--              text, and room, what still fits, where that is not capacity - used.
--              count is how often the check is asked. It sets check.former, the instant at which the state it found has recovered;
--              check.repair if that state could not be (it is from the future, or was
--              left by other numbers of a named limit); check.renumbered if the key may
--              have got its time to live under other numbers; and check.damaged if it makes
--              no sense at all. It writes nothing. A meter leaves that to meter.lua.
--   store      writes the state with charge added to what is used, and sets full, the
--              instant at which that will have recovered.
--
-- A check has key, limit and cost, or costs; a limit has capacity and all costs in its own
-- units, pace (what drains in a tick, or the ticks in a window), tick (its length
-- in microseconds) and numbers (empty, or what a named limit has to leave for its
-- successors to read).
--
-- Numbers are whole and below 2^53, where Lua's arithmetic is exact, and they are
-- handed on as text that says every digit, since tostring would not.

local call, try, format, tonumber, KEYS, ARGV = redis.call, redis.pcall, string.format, tonumber, KEYS, ARGV
local largest = 9007199254740991
