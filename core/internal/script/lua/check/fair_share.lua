-- Decides calls of two checks each: that of a cap, which is a leaky or a token bucket, and behind it that of a tenant's share of
-- the cap.
--
-- KEYS  a key of a cap and one of a share for each call.
-- ARGV  for each row of calls that ask the same: 1 if they are charged or else 0, the cap's capacity, ceiling, pace, tick and numbers,
--       as leaky.lua has them; the cost, the tenant's weight, and the cap's algorithm; how often each call is asked, which is
--       once; and how many calls the row has. Then "at", if the instant of the decision is to be told.
--
-- Returns for each call how many units its cap had used before, and four numbers of the share: see modules/fair_share.lua, which
-- has the states. A "+" behind the first number says that the cap had no time to live and has one now, a "*" that nothing was
-- done, since a state is not as these limits leave it: decide.lua has to be asked.

local call, try, format, tonumber, match = redis.call, redis.pcall, string.format, tonumber, string.match
local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
local largest, parts, spare = 9007199254740991, 4503599627370496, 32
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local grace = 2000
local reply, first, word = {}, 1, 1

while first <= #KEYS do
  local charged, capacity, ceiling = ARGV[word] == '1', tonumber(ARGV[word + 1]), tonumber(ARGV[word + 2])
  local pace, tick, numbers = tonumber(ARGV[word + 3]), tonumber(ARGV[word + 4]), ARGV[word + 5]
  local cost, weight, algorithm = match(ARGV[word + 6], '^(%d+) (%d+) (%S+)$')
  local amount, instant, tokens = 'level', 'last_leak', algorithm == 'token-bucket'
  if tokens then
    amount, instant = 'tokens', 'last_refill'
  end
  cost, weight = tonumber(cost), tonumber(weight)
  local present, scale = now - now % tick, 1
  while capacity * scale * 2 < parts do
    scale = scale * 2
  end

  for key = first, first + 2 * ARGV[word + 8] - 2, 2 do
    local cap, own, used, expires, mark = KEYS[key], KEYS[key + 1], 0, -1, ''
    local state = try('HMGET', cap, amount, instant, 'numbers', 'shares')
    local text = try('GET', own)
    for _, one in ipairs({ state, text }) do
      if type(one) == 'table' and one.err then
        if not string.find(one.err, 'WRONGTYPE', 1, true) then
          error(one.err, 0)
        end
        mark = '*'
      end
    end
    if mark == '' and (state[1] or state[2]) then
      local level, since = tonumber(state[1]), tonumber(state[2])
      if level and tokens then
        level = capacity - level
      end
      if level and since and level >= 0 and level <= largest and level % 1 == 0 and since >= 0 and since <= present
        and since % 1 == 0 and (state[3] or '') == numbers and level - (present - since) / tick * pace <= capacity then
        used = max(0, level - (present - since) / tick * pace)
        expires = since + level / pace * tick
      else
        mark = '*'
      end
    end

    -- The product of the cap, as of now.
    local m, e, epoch, at, by
    if mark == '' then
      m, e, epoch, at, by = match(state[4] or '', '^(%d+) (%d+) (%d+) (%d+) ?(.*)$')
      m, e, epoch, at = tonumber(m), tonumber(e), tonumber(epoch), tonumber(at)
    end
    if not m or used == 0 or by ~= numbers or m <= parts / 2 or m > parts then
      m, e, epoch = parts, 0, max(now, (epoch or -1) + 1)
    elseif present > at then
      local drained = (present - at + at % tick) / tick * pace
      m = min(m, floor(m * (used / (used + drained))) + 1)
      while m <= parts / 2 do
        m, e = m * 2, e + 1
      end
    end

    -- The level of the tenant.
    local held, lapses = 0, 0
    if mark == '' and text then
      local level, m_then, e_then, of_epoch, since, of = match(text, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
      local until_then = level and since + ceil(of / pace) * tick
      if not level then
        mark = '*'
      elseif tonumber(of_epoch) == epoch and now < until_then then
        level, m_then = tonumber(level), tonumber(m_then)
        local halvings = e - e_then
        if m_then ~= m or halvings ~= 0 then
          local quotient = 0
          if halvings >= 0 and halvings <= 100 then
            quotient = m / m_then / 2 ^ halvings
          end
          level = min(level, floor(level * quotient) + 1)
        end
        held, lapses = min(level, used * scale), until_then - present
      end
    end
    local units = held > spare and ceil((held - spare) / scale) or 0

    if mark == '' and charged and cost <= ceiling - used and cost <= weight * (ceiling - used) - units then
      local level = used + cost
      local lives, until_now = present + level / pace * tick, present + ceil(level / pace) * tick
      local shares = format('%d %d %d %d', m, e, epoch, present)
      local stored = format('%d', tokens and capacity - level or level)
      if numbers == '' then
        call('HSET', cap, amount, stored, instant, format('%d', present), 'shares', shares)
      else
        call('HSET', cap, amount, stored, instant, format('%d', present), 'numbers', numbers, 'shares', shares .. ' ' .. numbers)
      end
      lives = (lives - lives % 1000000) / 1000
      local left = now % 16 == 0 and expires >= 0 and call('PTTL', cap) or 0
      if left == -1 then
        mark = '+' -- it had lost its time to live
      end
      if lives ~= (expires - expires % 1000000) / 1000 or left == -1 then
        call('PEXPIREAT', cap, format('%d', lives + grace))
      end
      call('SET', own, format('%d %d %d %d %d %d', held + cost * scale, m, e, epoch, present, level), 'PXAT',
        format('%d', (until_now - until_now % 1000000) / 1000 + grace))
    end
    reply[key] = format('%d', used) .. mark
    reply[key + 1] = format('%d %d %d %d', held, lapses, used, e % 4096 * 1099511627776 + floor((m - 1) / 4096))
  end
  first, word = first + 2 * ARGV[word + 8], word + 9
end

if ARGV[word] == 'at' then
  reply[first] = format('%d', now)
end
return table.concat(reply, ' ')
