-- GCRA is a string: the theoretical arrival time in microseconds. Where more than
-- one unit drains in a tick, the units left at that instant follow it, and then a named
-- limit's numbers. While reservations are open it is a hash instead, which has that text as tat (own): see notes.lua.

--- observe
local fields, text
if noted_in then
  fields = try('HMGET', key, 'tat', 'left', 'numbers', 'low', 'newest', noted_in)
end
if not (fields and fields[1]) then
  text = try('GET', key)
  if type(text) == 'table' and string.find(text.err, 'WRONGTYPE', 1, true) then
    fields = try('HMGET', key, 'tat')
  end
end
if fields and fields[1] then
  own, text, state = true, fields[1], fields
elseif type(text) == 'table' then
  state = text
end
if type(text) == 'string' then
  found, level, at, numbers, absolute = true, 0, tonumber(text), '', true
  if not at then
    at, level, numbers = string.match(text, '^(%d+) (%d+) ?(.*)$')
    level, at = tonumber(level), tonumber(at)
  end
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
elseif pace > 1 then
  text = format('%s %d', text, left)
end
