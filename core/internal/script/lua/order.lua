-- Keeps the order in which the lines of all processes wait for units of a limit: one waiter of each line, the first.
--
-- KEYS  a sorted set of waiters. The score of a waiter is the instant since when it has waited. The member "@" and the waiter
--       has the instant at which the waiter counts as gone unless it asks again, added to living.
-- ARGV  the waiter, or nothing if none is left: its id, a space and its cost; the former waiter of this line, or nothing;
--       for how many microseconds it has waited; the instant since when, if this script has returned it before, or else 0; in
--       how many microseconds it asks again; how many units there are for older waiters, which are to ask at once as far as these reach;
--       the channel of processes, without the name of one.
--
-- Returns since when it has waited, and for each other waiter by how much longer that one has waited, and its cost.
-- A process may have several lines. It looks at the 64 waiters that have waited longest.

local call, try, format, tonumber = redis.call, redis.pcall, string.format, tonumber
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local grace = 2000
local living, pause, most = -9000000000000000, 500000, 64
local key, name, former, since = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[4])

if former ~= '' and former ~= name then
  call('ZREM', key, former, '@' .. former)
end
if name == '' then
  return ''
end
local latest = now - tonumber(ARGV[3]) -- less than since where the clock has stepped back
if since == 0 or since > latest then
  since = latest
end
local own, told, room = string.match(name, '^%S+'), { format('%d', since) }, tonumber(ARGV[6])
local list = call('ZRANGE', key, '0', '+inf', 'BYSCORE', 'LIMIT', '0', most, 'WITHSCORES')
for i = 1, #list, 2 do
  local other = list[i]
  if other ~= name then
    local lives, longer = (call('ZSCORE', key, '@' .. other) or living) - living, since - list[i + 1]
    if lives <= now then
      call('ZREM', key, other, '@' .. other)
    else
      local line, cost = string.match(other, '^(%S+) (%d+)$')
      local process, number = string.match(line, '^(.*)%-(%d+)$')
      if line ~= own then -- else it is about to leave
        told[#told + 1] = format('%d %s', longer, cost)
      end
      if line ~= own and longer > 0 then
        room = room - tonumber(cost) -- the oldest one comes first
        if room >= 0 then
          try('PUBLISH', ARGV[7] .. process, number)
          if lives > now + pause then -- it says more by then, or is gone
            call('ZADD', key, format('%d', living + now + pause), '@' .. other)
          end
        end
      end
    end
  end
end
call('ZADD', key, format('%d', since), name, format('%d', living + now + tonumber(ARGV[5]) + pause), '@' .. name)
call('PEXPIREAT', key, format('%d', now / 1000 + 600000 + grace))
return table.concat(told, ' ')
