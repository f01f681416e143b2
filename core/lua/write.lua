-- Writes the state of a check, and renews its time to live if the recovery reaches
-- into another second. (So a key that somebody has robbed of it gets it back then.)
local full
--- store
full = full - full % 1000000
if check.repair or full ~= check.former - check.former % 1000000 then
  call('PEXPIREAT', check.key, format('%d', full / 1000 + grace))
end
