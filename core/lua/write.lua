-- Writes the state of a check, and renews its time to live if the recovery reaches
-- into another second; and one time in sixteen in any case, so that a key which has
-- been robbed of it gets it back.
local full
--- store
full = full - full % 1000000
if check.repair or now % 16 == 0 or full ~= check.former - check.former % 1000000 then
  call('PEXPIREAT', check.key, format('%d', full / 1000 + grace))
end
