-- How many checks there are, and where their words begin.
local asked, argument = #KEYS, 1
