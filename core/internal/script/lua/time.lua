-- The clock is the server's, in whole microseconds, read once: every check of
-- every call in this batch is decided at the same instant.
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- How many milliseconds a key outlives the second in which it has recovered. A
-- time to live only collects garbage; no decision depends on it.
local grace = 2000
