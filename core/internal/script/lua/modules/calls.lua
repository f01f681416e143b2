-- Decides calls: all checks of a call are charged, or none. decide.lua explains the words.

local call, format, tonumber = redis.call, string.format, tonumber
local now, state, read_limit = require('clock').now, require('state'), require('limit')

-- read_cost reads the cost of a check. It returns the cost, how often the check is asked, and a list of all costs if they differ. Then
-- follow the number of checks in a row with this limit and cost, and the number of checks that take turns, beginning with this one.
--
-- A call that is made several times at once has that number behind each of its costs. If its first check has another cost
-- each time, all of these costs stand there instead, with commas in between. Checks in a row with the same limit, cost and
-- times have these words once, followed by the number of the checks. If several checks take turns, the first one's words end
-- with how often that is and with how many they are. The words of the others follow.
local function read_cost(limit, text)
  local cost = tonumber(text)
  if cost then
    return { limit = limit, cost = cost, count = 1, costs = nil }, 1, 1
  end
  local one, count, checks, turns = string.match(text, '^(%d+) (%d+) ?(%d*) ?(%d*)$')
  if one then
    return { limit = limit, cost = tonumber(one), count = tonumber(count), costs = nil }, tonumber(checks) or 1, tonumber(turns) or 1
  end
  local costs = {}
  for each in string.gmatch(text, '%d+') do
    costs[#costs + 1] = tonumber(each)
  end
  return { limit = limit, cost = costs[1], count = #costs, costs = costs }, 1, 1
end

-- read_checks reads the words of a number of checks. It returns the row of each check, its holder if it takes places, and the place of
-- the word behind them.
local function read_checks(asked, word)
  local rows, holders, number = { nil, nil, nil, nil }, {}, 1
  while number <= asked do
    local row, checks, turns = read_cost(read_limit(ARGV[word]), ARGV[word + 1])
    word = word + 2
    for turn = 1, turns do
      if turn > 1 then
        row = read_cost(read_limit(ARGV[word]), ARGV[word + 1])
        word = word + 2
      end
      local places = row.limit.charged and row.limit.algorithm.holds
      for check = 0, checks - 1 do
        rows[number + check * turns] = row
        if places then
          holders[number + check * turns] = ARGV[word]
          word = word + 1
        end
      end
      number = number + 1
    end
    number = number + (checks - 1) * turns
  end
  return rows, holders, word
end

-- granted returns how often a check fits into some room that is asked several times.
local function granted(row, room)
  if not row.costs then
    return (room - room % row.cost) / row.cost
  end
  local times = 0
  while times < row.count and row.costs[times + 1] <= room do
    times = times + 1
    room = room - row.costs[times]
  end
  return times
end

-- sum_of returns the sum of the first costs of a check.
local function sum_of(row, times)
  local sum = 0
  for time = 1, times do
    sum = sum + row.costs[time]
  end
  return sum
end

-- charge writes the state that a check of a call has found, with the cost of the check. It returns whether it has written, and the
-- number of the charge if the charge is noted.
local function charge(key, row, found, times, units)
  local limit, order, fields = row.limit, 0, nil
  if found.damaged then
    call('UNLINK', key)
    found.expires = -1
  end
  if units + found.used + (found.previous or 0) <= 0 then
    return false, 0
  end
  if limit.noted and times > 0 or found.numbers then
    order, fields = require('notes').note(key, row, found, times, units)
  end
  state.write(key, limit, found, units, fields)
  return true, order
end

-- decide decides calls and returns the reply. Their checks have the first keys, and the words of the checks begin at a place.
-- charged, unless it is nil, is called for each check: with the state that the check found, whether it was charged, the units, and the
-- number of the charge.
local function decide(asked, word, charged)
  local finds, reply, number = { nil, nil, nil, nil }, { nil, nil, nil, nil }, 1
  local rows, holders, behind = read_checks(asked, word)
  while number <= asked do
    -- Read and decide all checks of a call,
    local first, times, more = number, rows[number].count, true
    local chosen, waived -- whether an alternative has been found that fits, and which ones are not charged
    local undated, banned -- the window of this moment was not sent; a ban is in force
    while more do
      local row = rows[number]
      local limit, cost = row.limit, row.cost
      local found = limit.algorithm.observe(KEYS[number], limit, row, holders[number], nil, finds, rows, number)
      local room = found.room or limit.ceiling - found.used
      finds[number], undated, banned = found, undated or found.undated, banned or found.banned
      if limit.either then
        local fits = cost == 0 or cost <= room
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
      elseif cost > room and cost > 0 then
        times = 0
      elseif row.count > 1 and cost > 0 and limit.charged then
        times = math.min(times, granted(row, room))
      end
      more, number = limit.more, number + 1
    end
    if undated then -- it costs nothing, and is made again
      times = 0
    end

    -- then write all, the last one first.
    for i = number - 1, first, -1 do
      local key, row, found, order = KEYS[i], rows[i], finds[i], 0
      local limit, own = row.limit, times
      if waived and waived[i] then
        own = 0
      end
      local units, writes = row.costs and sum_of(row, own) or row.cost * own, limit.charged and (own > 0 or found.repair or found.damaged)
      if found.damaged then
        found.mark = '!'
      end
      if limit.algorithm.heed and not limit.charged then
        units, writes = limit.algorithm.heed(limit, found, own == 0 and not undated and not banned and row.cost or 0)
      elseif found.waiter and own == 0 then
        require('waiters').wait(key, limit, found, row.cost)
      end
      if writes then
        writes, order = charge(key, row, found, own, units)
      elseif limit.charged then -- a denial
        state.keep(key, found)
      end
      if charged then
        charged(i, found, writes and own > 0, units, order)
      end
      reply[i] = found.mark and found.seen .. found.mark or found.seen
      if limit.noted then
        reply[i] = format('%s %d', reply[i], order)
      end
    end
  end

  if ARGV[behind] == 'at' then
    reply[number] = format('%d', now)
  end
  return table.concat(reply, ' ')
end

return decide
