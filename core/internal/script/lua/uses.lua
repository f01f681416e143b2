-- Functions are made in each call anew, so those of an algorithm are made only if one of the limits is under it. Words that
-- say so by chance have them made for nothing.
local words = table.concat(ARGV, ' ')
local uses_places, uses_bans = string.find(words, ' concurrent ', 1, true), string.find(words, ' ban ', 1, true)
local uses_logs, uses_calendars = string.find(words, ' sliding-log ', 1, true), string.find(words, ' calendar ', 1, true)
