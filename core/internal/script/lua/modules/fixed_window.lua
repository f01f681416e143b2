-- A fixed window is a hash: how many events it has admitted, and when it opened.

local call, try, format, tonumber, match = redis.call, redis.pcall, string.format, tonumber, string.match
local now, state = require('clock').now, require('state')
local largest = 9007199254740991

-- paid returns the unpaid part of a count, and the rest of the time of its window. A window that closes in debt is followed by others
-- at once, each of which pays a part (each), until the debt is paid. If the rest of the time is below 0, the window has closed.
local function paid(count, left, length, each)
  if left > 0 or not each then
    return count, left
  end
  local passed = 1 + (-left - -left % length) / length
  if passed * each >= count then
    return 0, 0
  end
  return count - passed * each, left + passed * length
end

-- lasting returns for how much longer than its window a count has to live.
local function lasting(limit, count)
  if not limit.each or count <= limit.each then
    return 0
  end
  return (count - 1 - (count - 1) % limit.each) / limit.each * limit.pace
end

-- observe finds besides for how long the window is still open (open), and whether its opening is stored as it is (stands).
local function observe(key, limit)
  local fields = try('HMGET', key, 'count', 'start', 'past', 'numbers')
  local found = { used = 0, expires = -1, seen = '0 0', damaged = state.is_damage(fields), open = 0 }
  if fields[1] or fields[2] then
    local count, start, length, each = tonumber(fields[1]), tonumber(fields[2]), limit.pace, limit.each
    if (fields[4] or '') ~= limit.numbers then
      length, each = match(fields[4] or '', '^(%d+) ?(%d*)$')
      length, each = tonumber(length), tonumber(each)
    end
    if not (count and start and length and count > 0 and start >= 0 and length >= 0)
      or count % 1 + start % 1 + length % 1 ~= 0 or count > largest or start > largest then
      found.damaged = true
    else
      -- An open window closes when its denials have said, also if the next one has another length, but never later than a full
      -- window from now.
      local units, left = paid(count, start + length - now, length, each)
      if left > limit.pace then
        left = limit.pace
        found.repair = true
      end
      if left > 0 then
        found.open, found.used = left, units
        if units > limit.capacity then
          found.used = limit.capacity
          found.repair = true
        end
        if not found.repair then
          found.expires, found.stands = now + left + lasting(limit, units), limit.numbers == '' and units == count
        end
        found.seen = format('%d %d', found.used, left)
      end
    end
  end
  if fields[3] and fields[3] ~= '' then
    require('window').observe_past(found, fields[3])
  end
  return found
end

local function store(key, limit, found, units)
  local closes, used = now + (found.open > 0 and found.open or limit.pace), found.used + units
  local count, lives = format('%d', used), closes + lasting(limit, used)
  if found.stands then
    call('HSET', key, 'count', count)
  elseif limit.numbers == '' then
    call('HSET', key, 'count', count, 'start', format('%d', closes - limit.pace))
  else
    call('HSET', key, 'count', count, 'start', format('%d', closes - limit.pace), 'numbers', limit.numbers)
  end
  return found.past and require('window').keep_past(key, found, lives) or lives
end

local function left_with(key, limit)
  local left = require('window').uncut(limit)
  if limit.numbers ~= '' then
    local text = try('HMGET', key, 'numbers')[1]
    local length, each = match(text or '', '^(%d+) ?(%d*)$')
    if length and tonumber(length) > 0 then
      left.pace, left.each, left.numbers = tonumber(length), tonumber(each), text
    end
  end
  return left
end

local function adjust(limit, charged, found, correction)
  local used, units, at = found.used, correction.units, correction.at
  if at > 0 and not (found.open > 0 and at >= now + found.open - limit.pace) and not (charged.each and units > 0) then
    return 0, 0 -- its window has closed
  end
  if correction.how == 'raise' then
    units = math.max(0, units - used)
  end
  return math.max(-used, math.min(units, math.max(0, charged.capacity - used))), 0
end

local function clear(key)
  call('HDEL', key, 'count', 'start', 'numbers')
end

return {
  observe = observe, store = store, corrections = 'window_corrections', left_with = left_with, adjust = adjust, clear = clear,
}
