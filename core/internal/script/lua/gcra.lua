-- GCRA is a string: the theoretical arrival time in microseconds. Where more than
-- one unit drains in a tick, the units left at that instant follow it, and then a named
-- limit's numbers. Its past comes last, behind a semicolon; a key that has nothing else has the instant 0.

--- observe
state = try('GET', key)
if type(state) ~= 'table' then
  if state then
    found, level, at, numbers, absolute = true, 0, tonumber(state), '', true
    if not at then
      at, level, numbers, kept = string.match(state, '^(%d+) (%d+) ?([^;]*);?(.*)$')
      level, at = tonumber(level), tonumber(at)
      found = at ~= 0
    end
  end
  state = nil
end

--- store
local level, pace, tick = used + charge, limit.pace, limit.tick
local left = level % pace
local at = limit.present + (level - left) / pace * tick
full = at + left / pace * tick
if at ~= written then
  written, digits = at, format('%d', at)
end
text = digits
if limit.numbers ~= '' then
  text = format('%s %d %s', text, left, limit.numbers)
elseif pace > 1 or kept then
  text = format('%s %d', text, left)
end

--- past
call('SET', key, '0 0;' .. kept)
