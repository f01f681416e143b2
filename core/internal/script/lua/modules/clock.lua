-- The clock is the server's, in whole microseconds, read once: every check of a script run is decided at the same instant.
--
-- grace is how many milliseconds a key outlives the second in which it has recovered. A time to live only collects
-- garbage: no decision depends on it.

local call = redis.call
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local grace = 2000
return { now = now, grace = grace }
