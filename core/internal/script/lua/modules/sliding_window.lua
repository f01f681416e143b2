-- A sliding window is a hash: how many events were admitted in the current window and in the one before it, and when the current
-- one started. Windows are aligned to 1970 on the server's clock.

local call, try, format, tonumber, match = redis.call, redis.pcall, string.format, tonumber, string.match
local now, state = require('clock').now, require('state')
local largest = 9007199254740991

-- elapsed_of returns the ticks since 1970, and of these the ones since the current window started.
local function elapsed_of(pace, tick)
  local ticks = (now - now % tick) / tick
  return ticks, ticks % pace
end

-- numbers_of returns the window and the tick in the numbers of a named limit, or nil.
local function numbers_of(text)
  local pace, tick = match(text or '', '^(%d+) (%d+) %d+$')
  pace, tick = tonumber(pace), tonumber(tick)
  if pace and pace * tick > 0 and pace <= largest and tick <= largest then
    return pace, tick
  end
end

-- cut lowers the counts until the units that they use, by their weights, fit in the capacity.
local function cut(found, limit, elapsed)
  if found.used > limit.capacity then
    found.used = limit.capacity
    found.repair = true
  end
  local free, left = (limit.capacity - found.used) * limit.pace, limit.pace - elapsed
  if found.previous * left > free then
    found.previous = (free - free % left) / left
    found.repair = true
  end
end

-- count sets the counts of a state as they stand in the window of this instant.
local function count(found, limit, fields, elapsed)
  local current, previous, start, numbers = tonumber(fields[1]), tonumber(fields[2]), tonumber(fields[3]), fields[5] or ''
  local pace, tick = limit.pace, limit.tick
  if numbers ~= limit.numbers then
    pace, tick = numbers_of(numbers)
  end
  if not (pace and current and previous and start and current >= 0 and previous >= 0 and start >= 0)
    or current % 1 + previous % 1 + start % 1 ~= 0 or current > largest or previous > largest or start > largest then
    found.damaged = true
    return
  end
  local ticks, then_elapsed = elapsed_of(pace, tick)
  local age = ticks - then_elapsed - start / tick
  if age < 0 then -- the clock has stepped back: all moves into this window, where it weighs no less than before
    current, previous, found.repair = current + previous, 0, true
  elseif age >= 2 * pace then
    current, previous = 0, 0
  elseif age >= pace then
    previous = current
    current = 0
  end
  found.used, found.previous = current, previous
  if pace == limit.pace and tick == limit.tick then
    found.ends = start + 2 * pace * tick
    found.expires, found.stands = found.ends, numbers == limit.numbers and previous
  else
    -- Windows of another length: the used units move into the current window. A denial leaves them there only if that window ends
    -- sooner. Otherwise two lengths that take turns, as during a deployment, would put the end off for ever.
    found.used, found.previous = current + math.ceil(previous * (pace - then_elapsed) / pace), 0
    found.repair = found.repair or limit.pace * limit.tick < pace * tick
  end
  if numbers ~= limit.numbers or found.used > limit.capacity or found.previous > limit.capacity then
    cut(found, limit, elapsed)
  end
end

-- observe also finds when the window after the stored one ends (ends), and the stored count of the window before (stands), if that
-- count is still right.
local function observe(key, limit)
  local fields = try('HMGET', key, 'current', 'previous', 'start', 'past', 'numbers')
  local found = { used = 0, previous = 0, expires = -1, seen = '', room = 0, damaged = state.is_damage(fields) }
  local _, elapsed = elapsed_of(limit.pace, limit.tick)
  if fields[1] or fields[2] or fields[3] then
    count(found, limit, fields, elapsed)
  end
  found.seen = format('%d %d %d', found.used, found.previous, elapsed)
  local weighted = found.previous * (limit.pace - elapsed)
  found.room = limit.ceiling - found.used - math.ceil(weighted / limit.pace) -- exact, since both are whole and below 2^53
  if fields[4] and fields[4] ~= '' then
    require('window').observe_past(found, fields[4])
  end
  return found
end

local function store(key, limit, found, units)
  local ticks, elapsed = elapsed_of(limit.pace, limit.tick)
  local start = (ticks - elapsed) * limit.tick
  local lives, current = start + 2 * limit.pace * limit.tick, format('%d', found.used + units)
  if lives == found.ends and found.previous == found.stands and not found.repair then
    call('HSET', key, 'current', current)
  elseif limit.numbers == '' then
    call('HSET', key, 'current', current, 'previous', format('%d', found.previous), 'start', format('%d', start))
  else
    call('HSET', key, 'current', current, 'previous', format('%d', found.previous), 'start', format('%d', start),
      'numbers', limit.numbers)
  end
  return found.past and require('window').keep_past(key, found, lives) or lives
end

local function left_with(key, limit)
  local left = require('window').uncut(limit)
  if limit.numbers ~= '' then
    local text = try('HMGET', key, 'numbers')[1]
    local pace, tick = numbers_of(text)
    if pace then
      left.pace, left.tick, left.numbers = pace, tick, text
    end
  end
  return left
end

local function adjust(limit, charged, found, correction)
  local used, previous, units, at, raises = found.used, found.previous, correction.units, correction.at, correction.how == 'raise'
  local ticks, elapsed = elapsed_of(limit.pace, limit.tick)
  local age = at > 0 and (ticks * limit.tick - at + at % limit.tick) / limit.tick - elapsed or 0 -- of the charge's window
  if age <= 0 then
    local weighted = math.ceil(previous * (limit.pace - elapsed) / limit.pace)
    if raises then
      units = math.max(0, units - used - weighted)
    end
    if units > 0 then
      units = math.max(0, math.min(units, charged.capacity - used - weighted))
    end
    local charge = math.max(-used, units)
    return charge, at == 0 and math.max(-previous, units - charge) or 0
  elseif age <= limit.pace then
    if raises then
      units = math.max(0, units - previous)
    end
    return 0, math.max(-previous, math.min(units, math.max(0, charged.capacity - previous)))
  end
  return 0, 0
end

local function clear(key)
  call('HDEL', key, 'current', 'previous', 'start', 'numbers')
end

return {
  observe = observe, store = store, corrections = 'window_corrections', left_with = left_with, adjust = adjust, clear = clear,
}
