-- Decides a list of calls, one after the other.
--
-- KEYS  a key for each check.
-- ARGV  for each check its limit, such as "take leaky 10000000 1 1", and its cost: see cost.lua.
--       Checks in a row that share both have them once, and so have calls in a row whose checks
--       share them. Behind them stands the holder of each check
--       that takes places. Then "at", if the instant of the decision is to be told. A check that
--       heeds a ban writes only to mend it; one that may strike has its strikes as its cost, and
--       writes them if its call is denied, though by no ban.
--
-- If a call is made several times, as many are granted as fit, one after the other.
--
-- Of alternatives in a row, the first that fits is charged. A call with alternatives is made once.
--
-- Returns whole numbers in a text, which is the cheapest reply. For each check it says what the key
-- had used before the call, in as many numbers as the algorithm needs. A "!" behind them says that
-- the key was damaged, a "+" that it had no time to live and has one now, a "-" that leases had ended
-- whose places nobody has given back, a "?" that the call has been denied and has to be made again for the
-- instant in front of it, since the window of that was not among those sent. Behind a check that is to be noted
-- comes its number, or 0. The caller works out the
-- rest. Last comes the instant in microseconds, if it was asked for.

local limits, checks, reply, number = {}, {}, {}, 1
local limit, cost, count, costs
local rest = 0 -- how many of the next checks have limits and costs that have been read
local note, read_notes, drain, written_notes -- made when a check is to be noted
local noted_in -- of settlements
local turn, place -- if several of these take turns: what each of them has, and the place of the latest one
local written, digits -- the number that a meter has written last, and its text: most keys have recovered, and get the same one

while number <= asked do
  -- Read and decide all checks of a call,
  local first, times, more = number, nil, true
  local chosen, waived -- whether an alternative has been found that fits, and which ones are not charged
  local undated -- the window of this moment was not sent: the call is denied, costs nothing, and is made again
  local key, used, previous, former, seen, damaged, repair, renumbered, room, own, kept
  while more do
    if rest == 0 then
      local repeats, period = 1, 1
      turn, place = nil, 0
      repeat
        --- limit
        --- cost
        argument, place = argument + 2, place + 1
        if period > 1 then
          turn = turn or {}
          turn[place] = { limit, cost, count }
        end
      until place >= period
      rest = repeats * period
    end
    rest = rest - 1
    if turn then
      place = place % #turn + 1
      local check = turn[place]
      limit, cost, count = check[1], check[2], check[3]
    end
    --- holder
    key = KEYS[number]
    --- read
    times = times or count
    if limit.either then
      local fits = cost == 0 or cost <= (room or limit.ceiling - used)
      if chosen or not fits then
        waived = waived or {}
        waived[number] = true
      end
      chosen = chosen or fits
      if limit.either == '/' then
        if not chosen then
          times = 0
        end
        chosen = nil
      end
    elseif cost > 0 then
      room = room or limit.ceiling - used
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
    more = limit.more
    if more then
      checks[number] = { key, used, previous, former, damaged, repair, renumbered, seen, limit, cost, costs, own, kept }
    end
    number = number + 1
  end

  if undated then
    times = 0
  end

  -- then write all, the last one first, since the variables still hold its values.
  for i = number - 1, first, -1 do
    local limit, cost, costs = limit, cost, costs
    if i < number - 1 then
      key, used, previous, former, damaged, repair, renumbered, seen, limit, cost, costs, own, kept = unpack(checks[i], 1, 13)
    end
    local times, mark, order, sunk = times, '', 0, nil
    if waived and waived[i] then
      times = 0
    end
    local charge = cost * times
    if costs then
      charge = 0
      for place = 1, times do
        charge = charge + costs[place]
      end
    end
    if damaged then
      mark = '!'
    end
    --- strike
    if limit.charged then
      if times > 0 or repair or damaged then
        if damaged then
          call('UNLINK', key)
          former = -1
        end
        if charge + used + previous > 0 then
          if limit.noted and not note then
            --- noting
          end
          --- note
          --- write
          --- open
        end
      elseif former >= 0 and (renumbered or now % 16 == 0) then
        -- A denial only makes the key live for as long as it counts, or its past does.
        local lasts = string.match(kept or '', '^%d+')
        former = math.max(former, tonumber(lasts or 0))
        local lives = call('PTTL', key)
        if lives == -1 then
          mark = '+'
        end
        if lives == -1 or lives < (former - now) / 1000 then
          call('PEXPIREAT', key, format('%d', (former - former % 1000000) / 1000 + grace))
        end
      end
    end
    --- returned
    reply[i] = seen .. mark
    if limit.noted then
      reply[i] = format('%s %d', reply[i], order)
    end
  end
end

if ARGV[argument] == 'at' then
  reply[number] = format('%d', now)
end
return table.concat(reply, ' ')
