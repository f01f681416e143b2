-- Carries out corrections of concurrent limits.

local call, try, format, tonumber = redis.call, redis.pcall, string.format, tonumber
local unpack = table.unpack or unpack -- Lua 5.2 and later have it in table
local now, state, places, waiters = require('clock').now, require('state'), require('places'), require('waiters')

-- renew begins the lease of a holder anew, and returns "2" if that holds no places any more.
local function renew(key, limit, name)
  local ends = try('ZSCORE', key, name)
  if state.is_damage(ends) or not ends or tonumber(ends) <= now then
    return '2'
  end
  limit.ends = limit.ends or format('%d', now + limit.pace)
  -- It comes first: a server that has no memory left denies ZADD unless the script has written before.
  state.expire(key, now + limit.pace + require('concurrent').remembered)
  call('ZADD', key, 'XX', limit.ends, name)
end

-- reset takes all places, and returns "5" if there may be more of them.
local function reset(key)
  local holders = try('ZRANGE', key, '0', '+inf', 'BYSCORE', 'LIMIT', '0', places.most)
  if state.is_damage(holders) then
    call('UNLINK', key)
  elseif #holders == places.most then
    call('ZREM', key, unpack(holders))
    local further = places.further_of(holders)
    if further > 0 then
      places.add_further(key, -further)
    end
    return '5'
  else
    call('ZREM', key, '*', unpack(holders))
    waiters.given_back(key)
  end
end

-- oldest gives back a number of places of any holders. The leases that end first come first.
local function oldest(key, wanted)
  local names = try('ZRANGE', key, format('(%d', now), '+inf', 'BYSCORE', 'LIMIT', '0', wanted + places.most)
  if state.is_damage(names) then
    return
  end
  local gone, further, rest, ends = {}, 0, nil, nil
  for _, name in ipairs(names) do
    if wanted == 0 then
      break
    elseif string.byte(name) ~= 43 then -- a "+": it is kept for a waiter, and not held
      local own = places.places_of(name)
      gone[#gone + 1] = name
      if own > wanted then -- its holder keeps the rest
        rest, ends = places.named(string.match(name, '^[^*]+'), own - wanted), call('ZSCORE', key, name)
        further, wanted = further + wanted, 0
      else
        further, wanted = further + own - 1, wanted - own
      end
    end
  end
  if #gone > 0 then
    call('ZREM', key, unpack(gone)) -- a server that has no memory left denies ZADD unless the script has written before
    if rest then
      call('ZADD', key, ends, rest)
    end
    if further > 0 then
      places.add_further(key, -further)
    end
    waiters.given_back(key)
  end
end

-- settle carries out a correction: the units are places, less than 0, and the word is their holder. "leave" removes a waiter.
local function settle(key, limit, correction)
  local how, holder, number = correction.how, correction.word, -correction.units
  if how == 'renew' then
    return renew(key, limit, places.named(holder, number))
  elseif how == 'reset' then
    return reset(key)
  elseif how == 'settle' then
    local gone = try('ZREM', key, places.named(holder, number))
    if not state.is_damage(gone) and gone == 1 then
      if number > 1 then
        places.add_further(key, 1 - number)
      end
      waiters.given_back(key)
    end
  elseif how == 'oldest' then
    oldest(key, number)
  elseif how == 'leave' and not state.is_damage(try('ZCARD', key)) then
    waiters.leave(key, holder, number)
    waiters.given_back(key) -- also if it has only held up others
  end
end

return settle
