-- Writes the state of a check, and renews its time to live if the recovery reaches into another
-- second. It looks whether that is long enough one time in sixteen, since the key may have been
-- robbed of it, and each time where it may have been set under other numbers.
local full
--- store
full = full - full % 1000000
local renew = check.repair or full ~= check.former - check.former % 1000000
if not renew and (check.renumbered or now % 16 == 0) then
  local lives = call('PTTL', check.key)
  if lives == -1 then
    mark = '+'
  end
  renew = lives < (full - now) / 1000
end
if renew then
  call('PEXPIREAT', check.key, format('%d', full / 1000 + grace))
end
