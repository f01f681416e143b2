-- Carries out corrections of sliding logs.

local call, format, tonumber = redis.call, string.format, tonumber
local now, state, log = require('clock').now, require('state'), require('sliding-log')

-- insert adds units to a charge of an instant. The log is in order, so the units admitted later are written again behind them.
local function insert(key, found, units, at)
  local gone, length = found.first, found.first + found.used
  local place = math.max(gone, log.first_after(found, at, length))
  local later = call('LRANGE', key, format('%d', place), '-1')
  if place == gone then
    gone = length
  elseif place < length then
    call('LTRIM', key, '0', format('%d', place - 1))
  end
  local instants, text = {}, format('%d', at)
  for unit = 1, units + #later do
    instants[unit] = later[unit - units] or text
  end
  log.append(key, instants)
  if gone > 0 then
    call('LTRIM', key, format('%d', gone), '-1')
  end
end

local function settle(key, limit, correction)
  local uncut = require('window').uncut(limit) -- the use of other plans is not cut down to this capacity
  local found = log.observe(key, uncut, { cost = 0, count = 1 })
  if correction.how == 'reset' then
    call('UNLINK', key)
    return nil
  elseif found.damaged or correction.units == 0 then -- the next check repairs it, or nothing is to change
    return nil
  end
  local units, at = correction.units, correction.at
  if units < 0 and at > 0 then
    call('LREM', key, format('%d', units), format('%d', at))
  elseif units < 0 then
    call('LTRIM', key, '0', format('%d', units - 1))
  else
    if correction.how == 'raise' then
      units = units - found.used
    end
    units = math.min(units, limit.capacity - found.used)
    if at == 0 then
      at = now
    end
    if units > 0 and at > now - limit.pace then
      insert(key, found, units, at)
    end
  end
  local newest = tonumber(call('LINDEX', key, '-1'))
  if newest then
    local lives = newest + limit.pace
    if not found.unsure or call('PTTL', key) < (lives - now) / 1000 then
      state.expire(key, lives)
    end
  end
end

return settle
