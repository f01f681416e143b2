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
    --- limit
    --- check
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
          --- write
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
