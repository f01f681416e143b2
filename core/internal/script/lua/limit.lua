-- Reads the limit of a check from the arguments.
--
-- The checks of a call share their limits, so each is taken apart once. It is
-- written as whether it is charged ("take"; "note" if that may be settled, "sum" if all times are settled as
-- one) or only asked (another word), with a "+" if
-- the next check belongs to the same call, then algorithm, capacity, pace,
-- tick, and numbers. A "|" behind the first word says that the next check of the
-- call is an alternative of this one, and a "/" that this one is the last of some
-- alternatives. Headroom, which has to stay free, follows the capacity
-- after a "-". present is now, in microseconds, as the limit's ticks count it.
limit = limits[ARGV[argument]]
if not limit then
  local mode, either, joined, algorithm, capacity, pace, tick, numbers =
    string.match(ARGV[argument], '^(%a+)([|/]?)(%+?) (%S+) (%S+) (%d+) (%d+) ?(.*)$')
  local full = tonumber(capacity)
  local ceiling = full
  if not full then
    local headroom
    capacity, headroom = string.match(capacity, '^(%d+)%-(%d+)$')
    full = tonumber(capacity)
    ceiling = full - tonumber(headroom)
  end
  limit = {
    charged = mode == 'take' or mode == 'note' or mode == 'sum',
    noted = mode == 'note' or mode == 'sum' and mode,
    more = joined == '+' or either == '|',
    either = either ~= '' and either,
    algorithm = algorithm,
    capacity = full,
    ceiling = ceiling,
    pace = tonumber(pace),
    tick = tonumber(tick),
    numbers = numbers,
  }
  limit.present = now - now % limit.tick
  limits[ARGV[argument]] = limit
end
