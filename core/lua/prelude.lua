-- What the algorithms share. Numbers are whole and below 2^53, where Lua's
-- arithmetic is exact, and they are handed on as text that says every digit,
-- since tostring would not.
--
-- A script defines its functions anew in every call, and a call is short. So
-- there are few of them, and what is needed once in a blue moon is defined there.

local call, pcall, format = redis.call, redis.pcall, string.format

-- Each algorithm is a table of two functions:
--
--   observe(check) sets check.used and check.seen, the numbers for the caller as
--     text, and returns whether the cost fits. It sets check.repair if the state
--     could not be (it is from the future, or was left by other numbers of a named
--     limit) and check.damaged if it makes no sense at all. It writes nothing.
--   store(check, cost) writes the state with cost charged, and its time to live.
--
-- A check has: key, cost, capacity (both in the limit's units), pace (what drains
-- in a tick, or the ticks in a window), tick (its length in microseconds) and
-- numbers (empty, or what a named limit has to leave for its successors to read).
local algorithms = {}

-- whole returns the number that a text says, if it is whole, at least 0 and below
-- 2^53, and otherwise nil.
local function whole(text)
  local number = tonumber(text)
  if number and number >= 0 and number < 9007199254740992 and number % 1 == 0 then
    return number
  end
end

-- usable reports whether a command has found a state, or something like it. A key
-- of another type is damage, which is replaced; any other error ends the script
-- before it has written anything.
local function usable(check, state)
  if type(state) ~= 'table' or not state.err then
    return state
  end
  if not string.find(state.err, 'WRONGTYPE', 1, true) then
    error(state.err, 0)
  end
  check.damaged = true
end
