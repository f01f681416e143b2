-- A script makes its functions and tables anew in every call, and a call is
-- short: they would be a third of its time. So a script is one piece, put together
-- from files. Where a line begins with three dashes and a name, the file of that
-- name goes in. Some names stand for parts of the algorithms' files, which are what
-- follows the name there; what a meter's file lacks is in meter.lua:
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
--   renumber   of a settlement: gives the limit the numbers that the state was left with,
--              if it is named and those differ, and for a meter former and weight, which an
--              event had and has by these. It sets drains if what is used drains at a pace, and
--              tells if the state itself says what is left of a charge.
--   adjust     of a settlement: sets charge, which is to be added to what is used, and for
--              a meter noted, the level that later settlements have to know of. A log it
--              writes itself.
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
-- The clock is the server's, in whole microseconds, read once: every check of
-- every question in this call is decided at the same instant.
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- How many milliseconds after the second in which it has recovered a key dies. A
-- time to live only collects garbage; no decision depends on it.
local grace = 2000
-- Decides a list of calls, one after the other.
--
-- KEYS  a key for each check.
-- ARGV  for each check its limit, such as "take leaky 10000000 1 1", and its cost: see check.lua.
--       Then "at", if the instant of the decision is to be told.
--
-- Of a call that is asked several times as many are granted as fit, one after the other.
--
-- Returns whole numbers in a text, which is the cheapest reply. For each check, what its key had
-- used before the call: one or more, as many as its algorithm says, and behind them a "!" if the
-- key was damaged, or a "+" if it had no time to live and has one now. The caller works out the
-- rest from them. Then the instant in microseconds, if it was asked for.

local limits, checks, reply, number, argument = {}, {}, {}, 1, 1

while number <= #KEYS do
  -- Read and decide all checks of a call,
  local first, times, more = number, nil, true
  while more do
-- Reads the limit of a check from the arguments.
--
-- The checks of a call share their limits, so each is taken apart once. It is
-- written as whether it is charged ("take") or only asked ("ask"), with a "+" if
-- the next check belongs to the same question, then algorithm, capacity, pace,
-- tick, and numbers.
local limit = limits[ARGV[argument]]
if not limit then
  local mode, joined, algorithm, capacity, pace, tick, numbers =
    string.match(ARGV[argument], '^(%a+)(%+?) (%S+) (%d+) (%d+) (%d+) ?(.*)$')
  limit = {
    charged = mode == 'take',
    more = joined == '+',
    algorithm = algorithm,
    capacity = tonumber(capacity),
    pace = tonumber(pace),
    tick = tonumber(tick),
    numbers = numbers,
  }
  limits[ARGV[argument]] = limit
end
-- Reads a check of a limit from the arguments, and what its key has used.
--
-- A call that is asked several times at once has how often behind each of its costs. One whose
-- first check has another cost each time has all of these instead, with commas in between.
local cost, count, costs = tonumber(ARGV[argument + 1]), 1, nil
if not cost then
  cost, count = string.match(ARGV[argument + 1], '^(%d+) (%d+)$')
  cost, count = tonumber(cost), tonumber(count)
  if not cost then
    costs = {}
    for each in string.gmatch(ARGV[argument + 1], '%d+') do
      costs[#costs + 1] = tonumber(each)
    end
    cost, count = costs[1], #costs
  end
end
local check = { key = KEYS[number], limit = limit, cost = cost, costs = costs, used = 0, former = -1 }
local seen, room = '0', nil
local state, found, level, at, numbers, absolute

if limit.algorithm == 'shaping' then
if limit.numbers ~= '' then
  state = try('HMGET', check.key, 'next_free', 'left', 'numbers')
elseif limit.pace > 1 then
  state = try('HMGET', check.key, 'next_free', 'left')
else
  state = try('HMGET', check.key, 'next_free')
end
if state[1] or state[2] then
  found, level, at, numbers, absolute = true, tonumber(state[2] or '0'), tonumber(state[1]), state[3] or '', true
end

end
if found then
  local used, capacity, tick, pace = 0, limit.capacity, limit.tick, limit.pace
  if not (level and at and level >= 0 and at >= 0 and level % 1 == 0 and at % 1 == 0)
    or level > largest or at > largest then
    check.damaged = true
  elseif numbers == limit.numbers then
    check.former = at + level / pace * tick
    local elapsed = (now - now % tick - at) / tick
    if elapsed < 0 and not absolute then
      elapsed = 0
      check.repair = true
    end
    used = level - elapsed * pace
    if used < 0 then
      used = 0
    elseif used > capacity then
      used = capacity
      check.repair = true
    end
  else
    -- A named limit whose numbers have changed. What was used drains with the former
    -- ones until now, and becomes ceil(used · weight / former weight), exactly.
    local full, former, drain, length = string.match(numbers, '^(%d+) (%d+) (%d+) (%d+)$')
    full, former, drain, length = tonumber(full), tonumber(former), tonumber(drain), tonumber(length)
    if limit.numbers == '' or not (full and former * drain * length > 0)
      or full > largest or former > largest or drain > largest or length > largest then
      check.damaged = true
    else
      check.repair = true
      local elapsed = (now - now % length - at) / length
      if elapsed < 0 and not absolute then
        elapsed = 0
      end
      used = math.min(full, math.max(0, level - elapsed * drain))
      local weight = tonumber(string.match(limit.numbers, '^%d+ (%d+)'))
      local part = used % former
      local events = (used - part) / former
      -- ceil(part · weight / former) by long multiplication, from the highest bit of
      -- weight down: the product itself may need more than 53 bits.
      local result, rest, bit, left = 0, 0, 1, weight
      while bit * 2 <= left do
        bit = bit * 2
      end
      while bit >= 1 do
        result, rest = result * 2, rest * 2
        if rest >= former then
          result, rest = result + 1, rest - former
        end
        if left >= bit then
          left = left - bit
          if rest >= former - part then
            result, rest = result + 1, rest - (former - part)
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
  check.used, seen = used, format('%d', used)
end


-- A key of another type is damage, too. Any other error ends the script.
if state and state.err then
  if not string.find(state.err, 'WRONGTYPE', 1, true) then
    error(state.err, 0)
  end
  check.damaged = true
end
    times = times or count
    if cost > 0 then
      room = room or limit.capacity - check.used
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
    check.seen = seen
    checks[number] = check
    number, argument, more = number + 1, argument + 2, limit.more
  end

  -- then write all.
  for i = first, number - 1 do
    local check = checks[i]
    local limit, charge, mark = check.limit, check.cost * times, ''
    if check.costs then
      charge = 0
      for place = 1, times do
        charge = charge + check.costs[place]
      end
    end
    if check.damaged then
      mark = '!'
    end
    if limit.charged then
      if times > 0 or check.repair or check.damaged then
        if check.damaged then
          call('DEL', check.key)
          check.former = -1
        end
        if charge + check.used + (check.previous or 0) > 0 then
-- Writes the state of a check, and renews its time to live if the recovery reaches into another
-- second. It looks whether that is long enough one time in sixteen, since the key may have been
-- robbed of it, and each time where it may have been set under other numbers.
local full
if limit.algorithm == 'shaping' then
local level, pace, tick = check.used + charge, limit.pace, limit.tick
local left = level % pace
local at = now - now % tick + (level - left) / pace * tick
full = at + left / pace * tick
if limit.numbers ~= '' then
  call('HSET', check.key, 'next_free', format('%d', at), 'left', format('%d', left), 'numbers', limit.numbers)
elseif pace > 1 then
  call('HSET', check.key, 'next_free', format('%d', at), 'left', format('%d', left))
else
  call('HSET', check.key, 'next_free', format('%d', at))
end
end
full = full - full % 1000000
local renew = check.repair or full ~= check.former - check.former % 1000000
if not renew and (check.renumbered or now % 16 == 0) then
  local lives = call('PTTL', check.key)
  if lives == -1 then
    mark = '+'
  end
  renew = lives < (full - now) / 1000
end
if renew then
  call('PEXPIREAT', check.key, format('%d', full / 1000 + grace))
end
        end
      elseif check.former >= 0 and (check.renumbered or now % 16 == 0) then
        -- A denial only sees to it that the key lives for as long as it counts.
        local lives = call('PTTL', check.key)
        if lives == -1 then
          mark = '+'
        end
        if lives == -1 or lives < (check.former - now) / 1000 then
          call('PEXPIREAT', check.key, format('%d', (check.former - check.former % 1000000) / 1000 + grace))
        end
      end
    end
    reply[i] = check.seen .. mark
  end
end

if ARGV[argument] == 'at' then
  reply[number] = format('%d', now)
end
return table.concat(reply, ' ')
