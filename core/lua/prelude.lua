-- What the algorithms share. Numbers are whole and below 2^53, where Lua's
-- arithmetic is exact, and they are handed to commands as text that says every
-- digit, since tostring would not.

-- Each algorithm is a table of three functions:
--
--   observe(check) sets check.used, appends its numbers to the reply, and returns
--     whether the cost fits. It sets check.repair if the state could not be (it
--     is from the future, or was left by other numbers of a named limit) and
--     check.damaged if it makes no sense at all. It writes nothing.
--   store(check, cost) writes the state with cost charged, and its time to live.
--   restore(check, at) gives the cost back that was charged at an instant, when
--     check.before was used. It comes after observe, and leaves no key that says
--     nothing.
--
-- A check has: key, cost, capacity (both in the limit's units), pace (what drains
-- in a tick, or the ticks in a window), tick (its length in microseconds) and
-- numbers (empty, or what a named limit has to leave for its successors to read).
local algorithms = {}

local reply = {}

local function digits(number)
  return string.format('%d', number)
end

-- whole returns the number that a text says, if it is whole, at least 0 and below
-- 2^53, and otherwise nil.
local function whole(text)
  local number = tonumber(text)
  if number and number >= 0 and number < 9007199254740992 and number % 1 == 0 then
    return number
  end
end

-- quotient returns a/b rounded down. Dividing first would round wrongly.
local function quotient(a, b)
  return (a - a % b) / b
end

-- read runs a command that reads a state. A key of another type is damage, which
-- is replaced; any other error ends the script before it has written anything.
local function read(check, ...)
  local state = redis.pcall(...)
  if type(state) == 'table' and state.err then
    if not string.find(state.err, 'WRONGTYPE', 1, true) then
      error(state.err, 0)
    end
    check.damaged = true
    return nil
  end
  return state
end

-- expire sets the time to live of a key that is as good as new after so many
-- ticks.
local function expire(check, ticks)
  redis.call('PEXPIRE', check.key, digits(math.ceil(ticks * check.tick / 1000) + slack))
end
