-- Decides checks of windows that a calendar cuts. Each check is a call of its own.
--
-- KEYS  a key for each check.
-- ARGV  for each row of checks that ask the same: 1 if they are charged or else 0, capacity, ceiling, pace, tick, numbers
--       and cost, how often each check is asked, and how many checks the row has. Then "at", if the instant of the
--       decision is to be told.
--
-- Returns for each check how many units its window had admitted before, and how long it takes until the window ends. A "+"
-- behind it says that the key had no time to live and has one now, a "*" that nothing was done, since the state is not as
-- this limit leaves it: decide.lua has to be asked. A "?" behind the server's time in place of the second number says that
-- the window of that time was not sent: nothing was done.
--
-- A key is a hash: how many events the window has admitted, when it began and when it ends. The numbers are the instants at
-- which five windows in a row begin, around the clock of the caller. A key lives for longer than its window by an eighth of
-- that, since another process may end the window later. Ceiling is the capacity less the headroom of the check.

local call, try, format, tonumber = redis.call, redis.pcall, string.format, tonumber
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local grace = 2000
local reply, first, word = {}, 1, 1

while first <= #KEYS do
  local charged, capacity, ceiling = ARGV[word] == '1', tonumber(ARGV[word + 1]), tonumber(ARGV[word + 2])
  local begins, ends, third, fourth = string.match(ARGV[word + 5], '^(%d+) (%d+) (%d+) (%d+)')
  local cost, times, checks = tonumber(ARGV[word + 6]), tonumber(ARGV[word + 7]), tonumber(ARGV[word + 8])
  begins, ends = tonumber(begins), tonumber(ends)
  if now >= ends then
    begins, ends = ends, tonumber(third)
  end
  if now >= ends then
    begins, ends = ends, tonumber(fourth)
  end
  local found = now >= begins and now < ends
  local lingers = ends + math.min(10800000000, (ends - begins - (ends - begins) % 8) / 8)

  for number = first, first + checks - 1 do
    local key, used, expires, mark = KEYS[number], 0, -1, found and '' or '?'
    local state = found and try('HMGET', key, 'count', 'start', 'end') or {}
    if state.err and not string.find(state.err, 'WRONGTYPE', 1, true) then
      error(state.err, 0)
    end
    if state.err then
      mark = '*'
    elseif state[1] or state[2] or state[3] then
      local count, finish = tonumber(state[1]), tonumber(state[3])
      if count and count > 0 and count % 1 == 0 and count <= capacity and finish == ends and tonumber(state[2]) == begins then
        used, expires = count, lingers
      elseif finish ~= begins then -- else it is the window before
        mark = '*'
      end
    end

    if charged and mark == '' then
      local room, lives = ceiling - used, expires
      local granted = math.min(times, (room - room % cost) / cost)
      if granted > 0 then
        local count = format('%d', used + cost * granted)
        lives = lingers
        if used > 0 then
          call('HSET', key, 'count', count)
        else
          call('HSET', key, 'count', count, 'start', format('%d', begins), 'end', format('%d', ends))
        end
      end
      lives = (lives - lives % 1000000) / 1000
      local renew = lives ~= (expires - expires % 1000000) / 1000
      if not renew and expires >= 0 and now % 16 == 0 then -- the key may have lost its time to live
        local left = call('PTTL', key)
        renew = left == -1 or left < lives - now / 1000
        mark = left == -1 and '+' or ''
      end
      if renew then
        call('PEXPIREAT', key, format('%d', lives + grace))
      end
    end
    reply[number] = format('%d %d', found and used or capacity, found and ends - now or now) .. mark
  end
  first, word = first + checks, word + 9
end

if ARGV[word] == 'at' then
  reply[first] = format('%d', now)
end
return table.concat(reply, ' ')
