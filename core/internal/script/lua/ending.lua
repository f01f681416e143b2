-- How many ended reservations a script run still looks at. What is left over stays charged until later ones.
local most_ended = 4
local correct, give_back -- see give_back.lua

-- due returns how many open reservations of a key have ended, or 0 if the script run has looked at enough of them.
local function due(open)
  return most_ended > 0 and try('ZCOUNT', open, '-inf', format('%d', now)) or 0 -- which Redis answers sooner than which one ends first
end

-- recovery returns how many microseconds after a charge something can be left of it, by its limit.
local function recovery(limit)
  local algorithm, capacity, pace, tick = string.match(limit, '^%a+ (%S+) (%d+) (%d+) (%d+)')
  capacity, pace = tonumber(capacity), tonumber(pace)
  if string.find(algorithm, '^sliding') or algorithm == 'fixed-window' then
    return 2 * pace * tick
  end
  return math.ceil(capacity / pace) * tick
end
