-- Writes the state of a check, and renews the key's time to live if the recovery reaches into
-- a later second. The key may have lost its time to live: one write in sixteen looks whether it is
-- long enough, and each write does if it may have been set under other numbers.
local full, text
--- store
if text and sunk then
  call('HSET', key, 'tat', text, unpack(sunk))
  text = nil
elseif text and own then
  call('HSET', key, 'tat', text)
  text = nil
elseif sunk then
  call('HSET', key, unpack(sunk))
end
if kept then
  local lasts = tonumber(string.match(kept, '^%d+')) or 0
  former = math.max(former, lasts)
  if lasts <= now then
    kept = ''
  elseif lasts > full then
    full = lasts
  end
  if kept == '' then
    call('HSET', key, 'past', '')
  end
end
full = full - full % 1000000
local renew = repair or full > former - former % 1000000
if not renew and (renumbered or now % 16 == 0) then
  local lives = call('PTTL', key)
  if lives == -1 then
    mark = '+'
  end
  renew = lives == -1 or lives < (full - now) / 1000
end
if text and renew then
  call('SET', key, text, 'PXAT', format('%d', full / 1000 + grace))
elseif text then
  call('SET', key, text, 'KEEPTTL')
elseif renew then
  call('PEXPIREAT', key, format('%d', full / 1000 + grace))
end
