-- Carries out corrections of windows.

local call, format, tonumber, match = redis.call, string.format, tonumber, string.match
local now, state = require('clock').now, require('state')

-- leave_past leaves a key nothing but a past. The key is never deleted and made again: in a slot that is being moved it could
-- not be. Its time to live comes first, since a server that has no memory left denies the rest unless the script has
-- written before.
local function leave_past(key, algorithm, past, lasts)
  state.expire(key, lasts)
  call('HSET', key, 'past', past)
  algorithm.clear(key)
  state.expire(key, lasts)
end

-- reset forgets all but that it has done so.
local function reset(key, limit, charged, found, last)
  if found.damaged then
    call('UNLINK', key)
  elseif call('PTTL', key) ~= -2 then
    last = math.max(last or 0, now)
    local lasts = last + 2 * math.max(limit.pace * limit.tick, charged.pace * charged.tick)
    leave_past(key, limit.algorithm, format('%d;%d', lasts, last), lasts)
  end
end

-- settle carries out a correction of a window.
local function settle(key, charged, correction)
  local algorithm, units, at = charged.algorithm, correction.units, correction.at
  local limit = algorithm.left_with(key, charged)
  if not limit and correction.how ~= 'reset' then
    return '4,' .. format('%d', now)
  end
  limit = limit or charged
  local found = algorithm.observe(key, limit)
  if found.used + (found.previous or 0) == 0 and limit.numbers ~= charged.numbers then
    limit = charged -- it has recovered, so that the numbers which it was left with mean nothing
  end
  local last = found.past and tonumber(match(found.past, '^%d+;(%d+)$'))
  if correction.how == 'reset' then
    reset(key, limit, charged, found, last)
    return nil
  end
  local gone = units < 0 and at > 0 and (at > now or last and last > at)
  if found.damaged or units == 0 or gone then -- the next check repairs it, or nothing is to change
    return nil
  end
  local charge, former = algorithm.adjust(limit, charged, found, correction)
  if charge == 0 and former == 0 then
    return nil
  end
  if former ~= 0 then
    found.previous = found.previous + former
  end
  if found.used + charge + (found.previous or 0) > 0 then
    state.write(key, limit, found, charge)
  elseif found.past and found.lasts > now then
    leave_past(key, algorithm, found.past, found.lasts)
  else
    call('UNLINK', key)
  end
end

return settle
