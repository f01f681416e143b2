-- A fixed window is a hash: how many events it has admitted, and when it opened.

--- observe
if limit.numbers == '' then
  state = try('HMGET', key, 'count', 'start', 'past')
else
  state = try('HMGET', key, 'count', 'start', 'past', 'numbers')
end
kept = state[3]
own = 0 -- how long the window is still open
if state[1] or state[2] then
  local count, start, window = tonumber(state[1]), tonumber(state[2]), limit.pace
  if (state[4] or '') ~= limit.numbers then
    window = tonumber(state[4])
  end
  if not (count and start and window and count > 0 and start >= 0 and window >= 0)
    or count % 1 + start % 1 + window % 1 ~= 0 or count > largest or start > largest then
    damaged = true
  else
    -- An open window closes when its denials have said, whatever the length of the
    -- next one, but never later than a full window from now.
    local left = start + window - now
    if left > limit.pace then
      left = limit.pace
      repair = true
    end
    if left > 0 then
      own, used = left, count
      if count > limit.capacity then
        used = limit.capacity
        repair = true
      end
      if not repair then
        former = start + window
      end
    end
  end
end
seen = format('%d %d', used, own)

--- store
local opens = own == 0
if opens then
  own = limit.pace
end
full = now + own
local admitted = format('%d', used + charge)
if full == former and not opens and limit.numbers == '' then -- the same window
  call('HSET', key, 'count', admitted)
elseif limit.numbers == '' then
  call('HSET', key, 'count', admitted, 'start', format('%d', full - limit.pace))
else
  call('HSET', key, 'count', admitted, 'start', format('%d', full - limit.pace), 'numbers', limit.numbers)
end

--- past
call('HSET', key, 'past', kept)
call('HDEL', key, 'count', 'start', 'numbers')

--- renumber
limit = copied(limit)
limit.capacity = largest -- no part of the numbers: what others have used is not cut down to this one's
if charged.numbers ~= '' then
  local text = try('HMGET', KEYS[number], 'numbers')[1]
  local window = string.match(text or '', '^%d+$')
  window = window and tonumber(window)
  if window and window > 0 then
    limit.pace, limit.numbers = window, text
  end
end

--- adjust
if not known or own > 0 and at >= now + own - limit.pace then -- its window is open
  if raise then
    units = math.max(0, units - used)
  end
  charge = math.max(-used, math.min(units, math.max(0, charged.capacity - used)))
end
