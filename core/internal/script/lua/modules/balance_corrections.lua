-- Carries out corrections of balances.

local call, try, format, tonumber = redis.call, redis.pcall, string.format, tonumber
local now, state, balance = require('clock').now, require('state'), require('balance')
local most_top_ups = 128 -- that a balance remembers

-- top_up adds units, unless a top-up of that name is remembered. It returns the reply in that case. A line has a top-up: when, how
-- many units, and its name, in which there are neither spaces nor ends of lines.
local function top_up(key, limit, correction, left, spent, lines)
  if string.find(lines, ' ' .. correction.word .. '\n', 1, true) then
    return '2'
  end
  lines = lines .. format('%d %d ', now, correction.units) .. correction.word .. '\n'
  local _, number = string.gsub(lines, '\n', '')
  if number > most_top_ups then
    lines = string.sub(lines, string.find(lines, '\n', 1, true) + 1)
  end
  call('PERSIST', key) -- first: a server without memory denies the writes below unless the script has written before
  call('HSET', key, 'topups', lines)
  balance.write(key, math.min(left + correction.units, limit.capacity), spent)
end

-- settle carries out a correction.
local function settle(key, limit, correction)
  local fields, left, spent = try('HMGET', key, 'left', 'spent', 'reset', 'topups'), nil, nil
  local damaged = state.is_damage(fields)
  if not damaged then
    left, spent = balance.read(limit, fields[1], fields[2])
    damaged = not left
  end
  if damaged then
    call('UNLINK', key)
    fields, left, spent = {}, 0, 0
  end
  if correction.how == 'topup' then
    return top_up(key, limit, correction, left, spent, fields[4] or '')
  elseif correction.how == 'reset' then
    if fields[1] or fields[2] then
      call('HSET', key, 'reset', format('%d', now))
      balance.write(key, 0, 0)
    end
    return nil
  end
  local units = math.min(correction.units, left)
  if units < 0 then
    units = math.max(units, -spent, left - limit.capacity)
  end
  if units == 0 or correction.how == 'raise' or units < 0 and correction.at > 0 and correction.at <= (tonumber(fields[3]) or 0) then
    return nil
  end
  if left == 0 then
    call('PERSIST', key)
  end
  balance.write(key, left - units, spent + units)
end

return settle
