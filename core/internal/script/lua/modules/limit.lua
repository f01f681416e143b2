-- Reads limits.
--
-- A limit has a capacity, a ceiling (the most that may be used after the check: the capacity, less the headroom of the check) and all
-- costs in its own units, a pace (the units that drain in a tick, or the ticks in a window), a tick (its length in microseconds) and
-- numbers (empty, or the text that a named limit leaves for its successors to read). present is now, as its ticks count it.
-- algorithm is the module of its algorithm, which has these functions:
--
--   observe   returns its findings about a key, and writes nothing.
--   store     writes the state that was found with units added, and returns the instant at which it will have recovered. It
--             may also return a text to be written as the whole value of the key.
--   settle    carries out a correction: see corrections.lua.
--
-- The findings are a table. Beside the fields that an algorithm needs for itself, it has:
--
--   used      the units in use, and previous, the units of the former window that still count, or nil;
--   seen      the numbers for the caller, as text;
--   room      the units that still fit, or nil if that is the ceiling less used;
--   expires   until when the key has to live for it, or -1;
--   damaged   whether it makes no sense at all;
--   repair    whether it could not be: it is from the future, or was left by other numbers of a named limit;
--   unsure    whether the key may have got its time to live under other numbers;
--   mark      the mark of the key in the reply: see decide.lua.

local now = require('clock').now
local limits = {} -- by their texts: the checks of a script run share their limits

-- read_limit reads a limit. Its text is whether it is charged ("take"; "note" if that may be settled, "sum" if all times are
-- settled as one) or only asked (another word), with a "+" if the next check belongs to the same call, then algorithm,
-- capacity, pace, tick, and numbers. A "|" behind the first word says that the next check of the call is an alternative of this
-- one, and a "/" that this one is the last of some alternatives. Headroom, which has to stay free, follows the capacity after
-- a "-", and after a "/" how many units of a debt each window pays (each).
local function read_limit(text)
  local limit = limits[text]
  if limit then
    return limit
  end
  local mode, either, joined, algorithm, capacity, pace, tick, numbers =
    string.match(text, '^(%a+)([|/]?)(%+?) (%S+) (%S+) (%d+) (%d+) ?(.*)$')
  local full, headroom, each = tonumber(capacity), 0, nil
  if not full then
    full, headroom, each = string.match(capacity, '^(%d+)%-(%d+)/?(%d*)$')
    full, each = tonumber(full), tonumber(each)
  end
  tick = tonumber(tick)
  limit = {
    charged = mode == 'take' or mode == 'note' or mode == 'sum',
    noted = mode == 'note' or mode == 'sum' and mode,
    more = joined == '+' or either == '|',
    either = either ~= '' and either,
    algorithm = require(algorithm),
    capacity = full,
    ceiling = full - headroom,
    each = each,
    pace = tonumber(pace),
    tick = tick,
    numbers = numbers,
    present = now - now % tick,
  }
  limits[text] = limit
  return limit
end

return read_limit
