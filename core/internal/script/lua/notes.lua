-- The notes of a meter: how low its level has been since each open reservation was charged. See internal/exact/notes.go.
--
-- There is a slot for each open reservation, in the order of their charges, with a number of units. The least that the
-- level has been since a reservation is the sum of its slot and of those below. So what drains is taken from the newest
-- slots, and what a reservation gives back from its own slot and then from those below. What is left of a slot that is
-- closed counts for the one above.
--
-- Reservations are numbered, and 52 numbers in a row share a text, such as "A200B0D1500": a letter stands for the number,
-- and its units follow. The text of the latest numbers is the field newest of the state's hash. Those before it are fields
-- of their own, whose names are an n and 16 digits. One whose units are all 0 is not kept, and older has the names of the
-- others in a row. The field low has what was used when something was noted or settled last, the instant of that, the sum
-- of all slots, the next number, and the numbers of a named limit under which all this was counted. A check that nobody
-- settles neither reads nor writes any of this. GCRA is a hash only while it has notes.

--- functions
local letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
local most_looks, most_older = 16, 128 -- fields that are read to take units from them, and that are kept
local state, level, since, noted, following -- of a key
local latest, slots_of, changed -- the name of the newest text, the texts by their names, and which are to be written

-- name_of returns the name of the text that has the slot of a number.
local function name_of(number)
  return format('n%016d', (number - number % 52) / 52)
end

-- letter_of returns the letter that stands for a number.
local function letter_of(number)
  return string.sub(letters, number % 52 + 1, number % 52 + 1)
end

-- text_of returns a text.
local function text_of(name)
  slots_of[name] = slots_of[name] or call('HMGET', state, name)[1] or ''
  return slots_of[name]
end

-- put changes a text. One without units is not kept, but for the newest.
local function put(name, slots)
  if name ~= latest and not string.find(slots, '[1-9]') then
    local older = text_of('older')
    local first = string.find(older, name, 1, true)
    slots, slots_of.older, changed.older = '', string.sub(older, 1, first - 1) .. string.sub(older, first + 17), true
  end
  slots_of[name], changed[name] = slots, true
end

-- take takes units from slots, the newest first. It returns the slots, and how many units they have not had.
local function take(slots, units)
  local backwards = string.reverse(slots)
  local first, last, digits = string.find(backwards, '(0*[1-9]%d*)%a')
  while first do
    local has = tonumber(string.reverse(digits))
    if has > units then
      local above = string.gsub(string.sub(slots, #slots - first + 2), '%d+', '0')
      return string.sub(slots, 1, #slots - last + 1) .. format('%d', has - units) .. above, 0
    end
    units = units - has
    first, last, digits = string.find(backwards, '(0*[1-9]%d*)%a', last + 1)
  end
  return string.gsub(slots, '%d+', '0'), units
end

-- take_older takes units from the texts before one, the latest first. It returns how many they have not had.
local function take_older(units, before)
  local older, looks = text_of('older'), most_looks
  local first = #older - 16
  while units > 0 and first > 0 and looks > 0 do
    local name = string.sub(older, first, first + 16)
    if name < before then
      local slots
      slots, units = take(text_of(name), units)
      put(name, slots)
      looks = looks - 1
    end
    first = first - 17
  end
  return units
end

-- forget empties all slots.
local function forget()
  for name in string.gmatch(text_of('older'), 'n%d+') do
    put(name, '')
  end
  put(latest, '')
  noted = 0
end

-- drain takes from the slots what may have drained since they were written, if so much is used now. Where that is in too
-- many texts to look at, nothing is known any more.
drain = function(limit, used)
  local least = math.min(used, level - math.max(0, limit.present - since + since % limit.tick) / limit.tick * limit.pace)
  if least <= 0 then
    forget()
  elseif noted > least then
    local slots, rest = take(slots_of[latest], noted - least)
    put(latest, slots)
    noted = least
    if rest > 0 and take_older(rest, latest) > 0 then
      forget()
    end
  end
end

-- read_notes reads notes, and returns the instant of the latest one, or nil if they were counted under other numbers.
read_notes = function(key, limit, low, newest)
  local numbers
  state, slots_of, changed = key, {}, {}
  level, since, noted, following, numbers = string.match(low, '^(%d+) (%d+) (%d+) (%d+) ?(.*)$')
  level, since, noted, following = tonumber(level), tonumber(since), tonumber(noted), tonumber(following)
  latest = name_of(following - 1)
  slots_of[latest] = newest or ''
  return numbers == limit.numbers and since or nil
end

-- written_notes returns the fields that the state has to have besides if so much is used.
written_notes = function(limit, used)
  local fields = { 'low', format('%d %d %d %d %s', used, now, noted, following, limit.numbers) }
  for name in pairs(changed) do
    if slots_of[name] == '' and name ~= latest and name ~= 'older' then
      call('HDEL', state, name)
    else
      fields[#fields + 1], fields[#fields + 2] = name == latest and 'newest' or name, slots_of[name]
    end
  end
  return fields
end

--- noting
-- note_level notes a reservation after which so much is used.
local function note_level(used)
  local name, former = name_of(following), latest
  if name ~= former then
    latest, slots_of[name] = name, ''
    local kept = string.find(slots_of[former], '[1-9]')
    changed[former] = kept
    if kept then
      slots_of.older, changed.older = text_of('older') .. former, true
      if #slots_of.older > 17 * most_older then -- the oldest ones count for nothing
        local oldest = string.sub(slots_of.older, 1, 17)
        for units in string.gmatch(text_of(oldest), '%d+') do
          noted = noted - tonumber(units)
        end
        put(oldest, '')
      end
    end
  end
  put(latest, slots_of[latest] .. letter_of(following) .. format('%d', used - noted))
  noted, following = used, following + 1
end

-- note notes a check that is charged so many times. It returns the number of the first time, and the fields that the state
-- has to have besides.
note = function(key, limit, used, charge, times, cost, costs)
  local found = call('HMGET', key, 'low', 'newest', 'older')
  -- No notes of before a reset have begun with that number for days, unless the clock steps back to the same microsecond.
  local low = found[1] or format('0 0 0 %d ', now % 1099511627776 * 4096)
  local counted = read_notes(key, limit, low, found[2])
  slots_of.older = found[3] or ''
  if counted then
    drain(limit, used)
  else
    forget()
  end
  local order = following
  if limit.noted == 'sum' then
    note_level(used + charge)
  else
    for time = 1, times do
      used, charge = used + (costs and costs[time] or cost), 0
      note_level(used)
    end
  end
  return order, written_notes(limit, used + charge)
end

--- note
if type(renumbered) == 'string' and (own or limit.algorithm ~= 'gcra') then -- the numbers that a meter was left with
  local low = call('HMGET', key, 'low')[1]
  if low and string.match(low, '^%d+ %d+ %d+ %d+ ?(.*)$') ~= renumbered then
    call('HDEL', key, 'low') -- it has drained under numbers of which the notes know nothing
  end
end
if limit.noted and times > 0 then
  local can = true
  if limit.algorithm == 'gcra' and not own then -- A string becomes a hash. In a slot that is being moved it could not.
    can = former < 0 or type(try('PTTL', key .. '=')) ~= 'table'
    if can then
      call('UNLINK', key)
      own, repair = true, true
    end
  end
  if can then
    order, sunk = note(key, limit, used, charge, times, cost, costs)
  end
end

--- closing
-- close closes the slot of a reservation and takes units from it and from those below. It returns how many they have had.
-- The text of the slot is given, unless it is the newest.
close = function(order, units, slots)
  local name, letter, rest = name_of(order), letter_of(order), units
  slots = slots_of[name] or slots or ''
  slots_of[name] = slots
  local at = string.find(slots, letter, 1, true)
  if at then
    local _, last, digits = string.find(slots, '^(%d+)', at + 1)
    local below, above, left = string.sub(slots, 1, at - 1), string.sub(slots, last + 1), tonumber(digits) - units
    if left < 0 then
      below, rest = take(below, -left)
      left = 0
    else
      rest = 0
    end
    _, last, digits = string.find(above, '^%a(%d+)')
    if last then
      above = string.sub(above, 1, 1) .. format('%d', left + tonumber(digits)) .. string.sub(above, last + 1)
    elseif name == latest then
      noted = noted - left -- for nobody
    elseif left > 0 then
      above = letter .. format('%d', left)
    end
    put(name, below .. above)
  elseif order >= following or slots ~= '' or name == latest then
    return 0
  end
  if rest > 0 then -- also if the slot was not kept, which had none
    rest = take_older(rest, name)
  end
  noted = noted - units + rest
  return units - rest
end
