-- The clock is the server's, in whole microseconds, read once: every check of
-- every question in this call is decided at the same instant.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- How long a key outlives its recovery, in milliseconds. A time to live only
-- collects garbage; no decision depends on it.
local slack = 1000
