-- Decides calls some of whose checks reserve for a time: what such a check is charged is given back at its
-- end, unless it is settled before.
--
-- KEYS  as decide.lua has them; then for each check that reserves the key of its past, as settle.lua has
--       it, and that of its open reservations. That is a sorted set: the score of a member is its end, and
--       the member says who has reserved, when it was charged, what was used then, what was charged, and its
--       limit as settle.lua has it.
-- ARGV  how many checks reserve, and how many words of decide.lua follow; those words; then for each of
--       the checks that reserve its place, its limit for settle.lua, who reserves, and for how many
--       microseconds.
--
-- Returns what decide.lua does. A "-" says that reservations had ended which nobody has settled.

local reserving = {} -- by the place of the check
local words = tonumber(ARGV[2])
local checks = #KEYS - 2 * ARGV[1]

--- give_back

-- reserve notes what a check was charged, and what is used after that.
local function reserve(r, units, after)
  local ends = now + r.lasts
  local lives = call('PTTL', r.open)
  call('ZADD', r.open, format('%d', ends), format('%s %d %d %d %s', r.name, now, after, units, r.limit))
  local expires = math.max(now + recovery(r.limit), ends) / 1000 + grace
  if lives < expires - now / 1000 then
    call('PEXPIREAT', r.open, format('%d', expires))
  end
end

for i = 0, ARGV[1] - 1 do
  local argument, key = 3 + words + 4 * i, checks + 1 + 2 * i
  local place = tonumber(ARGV[argument])
  local r = {
    key = KEYS[place], past = KEYS[key], open = KEYS[key + 1],
    limit = ARGV[argument + 1], name = ARGV[argument + 2], lasts = tonumber(ARGV[argument + 3]), mark = '',
  }
  reserving[place] = r
  give_back(r)
end

local function decide(KEYS, ARGV)
  --- decide
end

local keys, own = {}, {}
for i = 1, checks do
  keys[i] = KEYS[i]
end
for i = 1, words do
  own[i] = ARGV[2 + i]
end
return decide(keys, own)

--- open
local r = reserving[i]
if r and times > 0 then
  reserve(r, charge, used + charge)
end

--- returned
if reserving[i] and mark == '' then
  mark = reserving[i].mark
end
