-- Carries out corrections of bans.

local call, try, format = redis.call, redis.pcall, string.format
local now, state, bans = require('clock').now, require('state'), require('ban')

-- find returns the ban of a key for a settlement, or nil if there is none. It deletes a value that is no ban.
local function find(limit, key)
  local fields = try('HMGET', key, 'count', 'since', 'until', 'strikes')
  local damaged = state.is_damage(fields)
  local ban = fields[1] and bans.read_ban(limit, fields[1], fields[2], fields[3], fields[4]) or nil
  if not ban and (damaged or fields[1] or fields[2] or fields[3] or fields[4]) then
    call('UNLINK', key)
  end
  return ban
end

-- settle carries out a correction: the units are strikes, or microseconds of a ban by hand.
local function settle(key, limit, correction)
  local how, strikes = correction.how, correction.units
  if how == 'reset' then
    call('UNLINK', key)
    return nil
  end
  bans.read_terms(limit)
  local ban, forgotten, begun = find(limit, key), nil, false
  if how == 'raise' and ban then
    strikes = math.max(0, strikes - #ban.strikes)
  end
  if how == 'ban' then
    ban = ban or { count = 0 }
    ban.since, ban.ends, ban.strikes = now, now + strikes, {}
    forgotten = bans.write_ban(limit, key, ban, correction.word)
  elseif ban and ban.left > 0 then
    if strikes > 0 and limit.extends then
      forgotten = bans.extend_ban(limit, key, ban)
    end
  elseif strikes > 0 then
    forgotten, begun = bans.add_strikes(limit, key, ban, strikes)
  elseif strikes < 0 and ban and #ban.strikes > 0 then
    for _ = strikes, -1 do
      table.remove(ban.strikes)
    end
    if #ban.strikes > 0 or ban.ends > 0 then
      forgotten = bans.write_ban(limit, key, ban, '')
    else
      call('UNLINK', key)
    end
  end
  if forgotten then
    state.expire(key, forgotten)
  end
  return begun and '3' or nil
end

return settle
