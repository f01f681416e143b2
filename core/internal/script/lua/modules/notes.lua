-- The notes of a meter: how low its level has been since each open reservation was charged. See internal/exact/notes.go.
--
-- There is a slot for each open reservation, in the order of their charges, with a number of units. The least that the
-- level has been since a reservation is the sum of its slot and of the slots below. So drained units are taken from the newest
-- slots, and units that a reservation gives back from its own slot and then from the slots below. The rest of a slot that is
-- closed counts for the slot above.
--
-- Reservations are numbered, and 52 numbers in a row share a text, such as "A200B0D1500": a letter stands for the number,
-- and its units follow. The text of the latest numbers is the field newest of the state's hash. Those before it are fields
-- of their own, named n and 16 digits. A text with 0 units in all its slots is not kept, and older has the names of the
-- others in a row. The field low has the level after the latest note or settlement, the instant of it, the sum
-- of all slots, the next number, and the numbers of a named limit under which all this was counted. A check without a settlement
-- neither reads nor writes any of this. GCRA is a hash only while it has notes.
--
-- Notes that were read are a table: the key, the level then (level), since when it has drained (since), the sum of the slots
-- (sum), the number of the next reservation (following), whether they were counted under the numbers of the limit (counts), the
-- name of the newest text (latest), the texts by their names (texts), and which of them are to be written (changed).

local call, format, tonumber, match = redis.call, string.format, tonumber, string.match
local now = require('clock').now
local letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
local most_looks, most_older = 16, 128 -- texts that are read to take units from them, and that are kept
local notes = {}

-- name_of returns the name of the text that has the slot of a number.
local function name_of(number)
  return format('n%016d', (number - number % 52) / 52)
end

-- letter_of returns the letter that stands for a number.
local function letter_of(number)
  return string.sub(letters, number % 52 + 1, number % 52 + 1)
end

-- text_of returns a text.
local function text_of(noted, name)
  local texts = noted.texts
  texts[name] = texts[name] or call('HMGET', noted.key, name)[1] or ''
  return texts[name]
end

-- put changes a text. One without units is not kept, but for the newest.
local function put(noted, name, slots)
  local texts, changed = noted.texts, noted.changed
  if name ~= noted.latest and not string.find(slots, '[1-9]') then
    local older = text_of(noted, 'older')
    local first = string.find(older, name, 1, true)
    slots, texts.older, changed.older = '', string.sub(older, 1, first - 1) .. string.sub(older, first + 17), true
  end
  texts[name], changed[name] = slots, true
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
local function take_older(noted, units, before)
  local older, looks = text_of(noted, 'older'), most_looks
  local first = #older - 16
  while units > 0 and first > 0 and looks > 0 do
    local name = string.sub(older, first, first + 16)
    if name < before then
      local slots
      slots, units = take(text_of(noted, name), units)
      put(noted, name, slots)
      looks = looks - 1
    end
    first = first - 17
  end
  return units
end

-- forget empties all slots.
local function forget(noted)
  for name in string.gmatch(text_of(noted, 'older'), 'n%d+') do
    put(noted, name, '')
  end
  put(noted, noted.latest, '')
  noted.sum = 0
end

-- read returns notes by the fields low and newest.
function notes.read(key, limit, low, newest)
  local level, since, sum, following, numbers = match(low, '^(%d+) (%d+) (%d+) (%d+) ?(.*)$')
  following = tonumber(following)
  local latest = name_of(following - 1)
  return {
    key = key, level = tonumber(level), since = tonumber(since), sum = tonumber(sum), following = following,
    counts = numbers == limit.numbers, latest = latest, texts = { [latest] = newest or '' }, changed = {},
  }
end

-- drain takes from the slots the units that may have drained since they were written, if used is the level now. It forgets all
-- slots if it would have to look at too many texts.
function notes.drain(noted, limit, used)
  local drained = math.max(0, limit.present - noted.since + noted.since % limit.tick) / limit.tick * limit.pace
  local least = math.min(used, noted.level - drained)
  if least <= 0 then
    forget(noted)
  elseif noted.sum > least then
    local slots, rest = take(noted.texts[noted.latest], noted.sum - least)
    put(noted, noted.latest, slots)
    noted.sum = least
    if rest > 0 and take_older(noted, rest, noted.latest) > 0 then
      forget(noted)
    end
  end
end

-- written returns the further fields of the state at the level used, and deletes the fields of texts without units.
function notes.written(noted, limit, used)
  local fields = { 'low', format('%d %d %d %d %s', used, now, noted.sum, noted.following, limit.numbers) }
  for name in pairs(noted.changed) do
    local text = noted.texts[name]
    if text == '' and name ~= noted.latest and name ~= 'older' then
      call('HDEL', noted.key, name)
    else
      fields[#fields + 1], fields[#fields + 2] = name == noted.latest and 'newest' or name, text
    end
  end
  return fields
end

-- note_level notes a reservation, after which used is the level.
local function note_level(noted, used)
  local following, former, texts, changed = noted.following, noted.latest, noted.texts, noted.changed
  local name = name_of(following)
  if name ~= former then
    noted.latest, texts[name] = name, ''
    local kept = string.find(texts[former], '[1-9]')
    changed[former] = kept
    if kept then
      texts.older, changed.older = text_of(noted, 'older') .. former, true
      if #texts.older > 17 * most_older then -- the oldest ones count for nothing
        local oldest = string.sub(texts.older, 1, 17)
        for units in string.gmatch(text_of(noted, oldest), '%d+') do
          noted.sum = noted.sum - tonumber(units)
        end
        put(noted, oldest, '')
      end
    end
  end
  put(noted, name, texts[name] .. letter_of(following) .. format('%d', used - noted.sum))
  noted.sum, noted.following = used, following + 1
end

-- note notes a check that is charged a number of times, for units in all. It returns the number of the first time, or 0, and the further fields
-- of the state, or nil. Notes of a meter that has drained under other numbers count for nothing.
function notes.note(key, row, found, times, units)
  local limit, used = row.limit, found.used
  local become_hash = limit.algorithm.become_hash -- of GCRA
  if found.numbers and (found.is_hash or not become_hash) then
    local low = call('HMGET', key, 'low')[1]
    if low and match(low, '^%d+ %d+ %d+ %d+ ?(.*)$') ~= found.numbers then
      call('HDEL', key, 'low') -- it has drained under numbers of which the notes know nothing
    end
  end
  if not limit.noted or times == 0 or become_hash and not become_hash(key, found) then
    return 0, nil
  end
  local fields = call('HMGET', key, 'low', 'newest', 'older')
  -- No notes of before a reset have begun with that number for days, unless the clock steps back to the same microsecond.
  local noted = notes.read(key, limit, fields[1] or format('0 0 0 %d ', now % 1099511627776 * 4096), fields[2])
  noted.texts.older = fields[3] or ''
  if noted.counts then
    notes.drain(noted, limit, used)
  else
    forget(noted)
  end
  local order = noted.following
  if limit.noted == 'sum' then
    note_level(noted, used + units)
  else
    for time = 1, times do
      used, units = used + (row.costs and row.costs[time] or row.cost), 0
      note_level(noted, used)
    end
  end
  return order, notes.written(noted, limit, used + units)
end

-- close closes the slot of a reservation and takes units from it and from those below. It returns how many they have had.
-- The text of the slot is given, unless it is the newest.
function notes.close(noted, order, units, slots)
  local name, letter, rest = name_of(order), letter_of(order), units
  slots = noted.texts[name] or slots or ''
  noted.texts[name] = slots
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
    elseif name == noted.latest then
      noted.sum = noted.sum - left -- no slot is below
    elseif left > 0 then
      above = letter .. format('%d', left)
    end
    put(noted, name, below .. above)
  elseif order >= noted.following or slots ~= '' or name == noted.latest then
    return 0
  end
  if rest > 0 then -- also if the slot was not kept, which had none
    rest = take_older(noted, rest, name)
  end
  noted.sum = noted.sum - units + rest
  return units - rest
end

return notes
