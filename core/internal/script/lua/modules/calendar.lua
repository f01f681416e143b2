-- A calendar window is a hash: how many events it has admitted, when it began and when it ends. Behind its end stands how many units
-- of a debt each window pays, if the limit has debt. The caller knows the calendar, and
-- sends when the windows around its own clock begin. The server's clock chooses one of them. If none suits, the caller is told
-- the server's time, and asks again. See internal/exact/calendar.go for the window that a state has with it.

local call, try, format, tonumber, match = redis.call, redis.pcall, string.format, tonumber, string.match
local now, state = require('clock').now, require('state')
local largest = 9007199254740991

-- lingering returns until when events of a window may count: a little longer than until its end, if it ends later by some
-- reckoning.
local function lingering(start, finish)
  local length = finish - start
  return finish + math.min(10800000000, (length - length % 8) / 8)
end

-- ending returns until when events count of a window that ends between these two instants, or at the latter, if they are a window
-- by the caller's reckoning. That one may be the same as others reckon it.
local function ending(start, finish, lingers, opens, closes)
  if finish < closes and closes <= lingers and math.abs(opens - start) <= lingers - finish then
    return closes
  end
  return finish
end

-- find_window sets when the window of this moment begins (opens) and ends (closes), until when its events may count (lingers), and
-- when the next one ends (later), and returns whether the caller has sent it. All checks of a
-- script run have the same moment.
local function find_window(limit)
  if not limit.sought then
    limit.sought, limit.begins = true, {}
    for begin in string.gmatch(limit.numbers, '%d+') do
      limit.begins[#limit.begins + 1] = tonumber(begin)
    end
    local begins = limit.begins
    local first = limit.each and 2 or 1
    for number = first, first + 2 do
      if now >= begins[number] and now < begins[number + 1] then
        limit.opens, limit.closes, limit.later = begins[number], begins[number + 1], begins[number + 2]
        limit.lingers = lingering(limit.opens, limit.closes)
      end
    end
  end
  return limit.opens
end

-- paid returns the end of the window that pays the rest of a count in debt, which begins when that closes (ends). There is none if
-- a limit of the same name has left the count that has another capacity or no debt (each), or another period, by which the
-- count is of no window.
local function paid(limit, used, each, start, ends, near)
  if limit.each and each == limit.each and used > each then
    for number, begin in ipairs(limit.begins) do
      if begin == ends and number > 1 and math.abs(start - limit.begins[number - 1]) <= near then
        return limit.begins[number + 1]
      end
    end
  end
end

-- owing returns until when the count of a window in debt has to live. The next window pays, and no window of the same calendar is
-- longer by more than a quarter.
local function owing(start, finish)
  local length = finish - start
  return finish + length + (length - length % 4) / 4
end

-- count sets the used units in the window of a state, and when the window ends.
local function count(found, limit, fields)
  local opens, closes = limit.opens, limit.closes
  local used, start = tonumber(fields[1]), tonumber(fields[2])
  local finish, each = match(fields[3] or '', '^(%d+) ?(%d*)$')
  finish, each = tonumber(finish), tonumber(each)
  if not (used and start and finish and used > 0 and start >= 0 and finish > start)
    or used % 1 + start % 1 + finish % 1 ~= 0 or used > largest or finish > largest
    or finish - start > 31795200000000 then -- 368 days: none is as long
    found.damaged = true
    return
  end
  if start == opens and finish == closes then
    found.used, found.stands, found.expires = used, each == limit.each, limit.lingers
    found.paid = paid(limit, used, each, start, closes, limit.lingers - closes)
  else
    if start - closes > lingering(start, finish) - finish then -- the clock has stepped back, behind the window before
      start, finish, found.repair = opens, closes, true
    end
    local lingers, last = lingering(start, finish), finish
    if finish < closes then
      last = ending(start, finish, lingers, opens, closes)
    elseif finish > closes then
      last = ending(start, finish, lingers, closes, limit.later)
    end
    if last > now then
      found.used, found.ends, found.expires = used, last, lingers
      found.start, found.finish, found.lingers = start, finish, lingers
      found.paid = paid(limit, used, each, start, last, lingers - finish)
    elseif paid(limit, used, each, start, last, lingers - finish) == closes then -- this window pays for the one before
      found.used = used - limit.each
    end
  end
  if found.used > limit.capacity then
    found.used, found.repair = limit.capacity, true
  end
  if limit.each and used > limit.each and found.used > 0 then
    found.expires = owing(start, finish)
  end
  found.unsure = limit.each -- without a debt it would live for less time
end

-- observe also finds when the next window opens (ends), whether the stored window stands as it is (stands), or which one it is.
local function observe(key, limit)
  if not find_window(limit) then
    local seen = limit.each and format('%d %d %d?', limit.capacity, now, now) or format('%d %d?', limit.capacity, now)
    return { used = limit.capacity, expires = -1, seen = seen, undated = true }
  end
  local fields = try('HMGET', key, 'count', 'start', 'end', 'past')
  local found = { used = 0, expires = -1, seen = '', damaged = state.is_damage(fields), ends = limit.closes }
  if fields[1] or fields[2] or fields[3] then
    count(found, limit, fields)
  end
  found.seen = format('%d %d', found.used, found.ends - now)
  if limit.each then
    found.seen = found.seen .. format(' %d', (found.paid or found.ends) - now)
  end
  if fields[4] and fields[4] ~= '' then
    require('window').observe_past(found, fields[4])
  end
  return found
end

local function store(key, limit, found, units)
  local used, lives = found.used + units, limit.lingers
  local admitted = format('%d', used)
  if found.stands then
    call('HSET', key, 'count', admitted)
  else
    local start, finish = found.start or limit.opens, found.finish or limit.closes
    lives = found.lingers or lives
    finish = limit.each and format('%d %d', finish, limit.each) or format('%d', finish)
    call('HSET', key, 'count', admitted, 'start', format('%d', start), 'end', finish)
  end
  if limit.each and used > limit.each then
    lives = owing(found.start or limit.opens, found.finish or limit.closes)
  end
  return found.past and require('window').keep_past(key, found, lives) or lives
end

local function adjust(limit, charged, found, correction)
  local used, units, at = found.used, correction.units, correction.at
  if at > 0 and at < math.min(found.start or limit.opens, limit.opens) and not (charged.each and units > 0) then
    return 0, 0 -- its window has closed
  end
  if correction.how == 'raise' then
    units = math.max(0, units - used)
  end
  return math.max(-used, math.min(units, math.max(0, charged.capacity - used))), 0
end

-- left_with returns nothing if the window of this moment was not sent.
local function left_with(_, limit)
  return find_window(limit) and require('window').uncut(limit)
end

local function clear(key)
  call('HDEL', key, 'count', 'start', 'end')
end

return {
  observe = observe, store = store, corrections = 'window_corrections', left_with = left_with, adjust = adjust, clear = clear,
}
