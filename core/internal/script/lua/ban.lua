-- A ban is a hash: how many bans have begun (count), when the last one began (since) and ends (until), the
-- instants of the strikes that count (strikes, with spaces in between), and what was said of a ban by hand
-- (reason). A key under no ban and without strikes has none.

--- functions
local banned -- the number of the latest check whose ban is in force
local most_bans = 1000000
local read_terms, is_instant, read_ban, write_ban, extend_ban, add_strikes, find_ban
if uses_bans then
  -- read_terms reads the terms of a ban behind its numbers, once for each limit.
  function read_terms(limit)
    if not limit.forget then
      local first, factor, longest, forget, extend, mode = string.match(limit.numbers, '^(%d+) (%d+) (%d+) (%d+) (%d) ?(%a*)$')
      limit.first, limit.factor, limit.longest = tonumber(first), tonumber(factor), tonumber(longest)
      limit.forget, limit.mode = tonumber(forget), mode
      limit.extends = extend == '1'
    end
  end

  -- is_instant reports whether a number can be an instant.
  function is_instant(at)
    return at and at >= 0 and at % 1 == 0 and at <= largest
  end

  -- read_ban returns the ban with so many bans begun as it stands now, or nil if it makes no sense.
  function read_ban(limit, count, since, ends, text)
    read_terms(limit)
    count, since, ends = tonumber(count), tonumber(since or '0'), tonumber(ends or '0')
    if not is_instant(count) or count > most_bans or not is_instant(since) or not is_instant(ends) or since > ends then
      return nil
    end
    local ban = { length = ends - since, early = since > now, strikes = {}, count = count }
    if ban.early then -- the clock has stepped back
      since, ends = now, now + ban.length
    end
    ban.since, ban.ends, ban.left = since, ends, math.max(0, ends - now)
    ban.gone = ends + limit.forget - now
    if ban.gone <= 0 and ban.left == 0 then
      ban.count = 0
    end
    if ban.count == 0 and ban.left == 0 then
      ban.gone, ban.since, ban.ends = 0, 0, 0
    end
    local last, strikes = 0, ban.strikes
    for instant in string.gmatch(text or '', '%S+') do
      local at = tonumber(instant)
      if not is_instant(at) or at < last then
        return nil
      end
      last = at
      if ban.left == 0 and at > now - limit.pace then
        strikes[#strikes + 1] = math.min(at, now)
      end
    end
    while #strikes >= limit.capacity do -- the limit has been made smaller
      table.remove(strikes, 1)
    end
    return ban
  end

  -- write_ban writes the fields of a ban that is not in force with its strikes, or of one that has just
  -- begun, and returns when it will be forgotten.
  function write_ban(limit, key, ban, reason)
    local text = {}
    for i, at in ipairs(ban.strikes) do
      text[i] = format('%d', at)
    end
    call('HSET', key, 'count', format('%d', ban.count), 'since', format('%d', ban.since), 'until', format('%d', ban.ends),
      'strikes', table.concat(text, ' '), 'reason', reason)
    local forgotten = 0
    if ban.ends > 0 then
      forgotten = ban.ends + limit.forget
    end
    if #text > 0 then
      forgotten = math.max(forgotten, ban.strikes[#text] + limit.pace)
    end
    return forgotten
  end

  -- extend_ban begins a ban that is in force anew, and returns when it will be forgotten.
  function extend_ban(limit, key, ban)
    call('HSET', key, 'since', format('%d', now), 'until', format('%d', now + ban.length))
    return now + ban.length + limit.forget
  end

  -- add_strikes adds strikes to a ban that is not in force. It returns when it will be forgotten, and whether
  -- they have begun a ban.
  function add_strikes(limit, key, ban, number)
    read_terms(limit)
    ban = ban or { strikes = {}, count = 0, since = 0, ends = 0 }
    local strikes = ban.strikes
    for _ = 1, number do
      strikes[#strikes + 1] = now
    end
    if #strikes < limit.capacity then
      return write_ban(limit, key, ban, ''), false
    end
    local length, factor, bans = limit.first, limit.factor, ban.count
    local last = (limit.longest - limit.longest % factor) / factor -- what a factor makes no more than the longest
    while factor > 1 and bans > 0 and length < limit.longest do
      if length > last then
        length = limit.longest
      else
        length = length * factor
      end
      bans = bans - 1
    end
    -- What it lasts longer, up to a tenth: the instant and the count decide that.
    local tenth = (length - length % 10) / 10
    local part = (tenth - tenth % 1020) / 1020
    ban.ends = now + length + part * ((now + 359 * ban.count) % 1021)
    ban.since, ban.count, ban.strikes = now, math.min(ban.count + 1, most_bans), {}
    return write_ban(limit, key, ban, ''), true
  end

  -- find_ban returns the ban of a key for a settlement, or nil if there is none. It deletes what is none.
  function find_ban(limit, key)
    local fields = try('HMGET', key, 'count', 'since', 'until', 'strikes')
    if fields.err and not string.find(fields.err, 'WRONGTYPE', 1, true) then
      error(fields.err, 0)
    end
    local ban = not fields.err and fields[1] and read_ban(limit, fields[1], fields[2], fields[3], fields[4]) or nil
    if not ban and (fields.err or fields[1] or fields[2] or fields[3] or fields[4]) then
      call('UNLINK', key)
    end
    return ban
  end
end

--- observe
state = try('HMGET', key, 'count')
room = largest
seen = '0 0 0 0'
if state[1] then
  local fields = call('HMGET', key, 'since', 'until', 'strikes')
  own = read_ban(limit, state[1], fields[1], fields[2], fields[3])
  if not own then
    damaged = true
  elseif own.left > 0 then
    banned, room, used, repair = number, 0, limit.capacity, own.early
    if limit.extends and (limit.charged or limit.mode == 'strike') then
      own.left, repair = own.length, true
      own.gone = own.length + limit.forget
    end
    seen = format('%d %d %d %d', used, own.left, own.count, own.gone)
  else
    local strikes = own.strikes
    used = #strikes
    if used > 0 then
      local newest = strikes[used] + limit.pace - now
      seen = format('%d %d %d %d', used, strikes[1] + limit.pace - now, own.count, math.max(own.gone, newest))
    else
      seen = format('0 0 %d %d', own.count, own.gone)
    end
  end
end

--- strike
if limit.algorithm == 'ban' and not limit.charged then
  charge = 0
  if times == 0 or damaged or repair then
    read_terms(limit)
    if times == 0 and not undated and limit.mode == 'strike' and not (banned and banned >= first) then
      charge = cost
    end
  end
  if charge > 0 or (damaged or repair) and limit.mode ~= '' then
    repair = true
    limit.writing = limit.writing or setmetatable({ charged = true }, { __index = limit })
    limit = limit.writing
  end
end

--- store
if own and own.left > 0 then
  full = extend_ban(limit, key, own)
else
  full = add_strikes(limit, key, own, charge)
end

--- hold
if limit.algorithm == 'ban' and not look then
  local key, strikes = KEYS[number], tonumber(ARGV[argument + 1])
  if how == 'reset' then
    call('UNLINK', key)
    return
  end
  read_terms(limit)
  local ban, forgotten, begun = find_ban(limit, key), nil, false
  if how == 'raise' and ban then
    strikes = math.max(0, strikes - #ban.strikes)
  end
  if how == 'ban' then
    ban = ban or { count = 0 }
    ban.since, ban.ends, ban.strikes = now, now + strikes, {}
    forgotten = write_ban(limit, key, ban, ARGV[argument + 2])
  elseif ban and ban.left > 0 then
    if strikes > 0 and limit.extends then
      forgotten = extend_ban(limit, key, ban)
    end
  elseif strikes > 0 then
    forgotten, begun = add_strikes(limit, key, ban, strikes)
  elseif strikes < 0 and ban and #ban.strikes > 0 then
    for _ = strikes, -1 do
      table.remove(ban.strikes)
    end
    if #ban.strikes > 0 or ban.ends > 0 then
      forgotten = write_ban(limit, key, ban, '')
    else
      call('UNLINK', key)
    end
  end
  if forgotten then
    call('PEXPIREAT', key, format('%d', (forgotten - forgotten % 1000000) / 1000 + grace))
  end
  return asked, begun and '3'
end
