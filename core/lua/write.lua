-- Writes the state of a check, and renews its time to live if the recovery reaches into another
-- second. One time in sixteen it looks whether the key has been robbed of that.
local full
--- store
full = full - full % 1000000
local renew = check.repair or full ~= check.former - check.former % 1000000
if not renew and now % 16 == 0 and call('PTTL', check.key) == -1 then
  mark, renew = '+', true
end
if renew then
  call('PEXPIREAT', check.key, format('%d', full / 1000 + grace))
end
