-- Runs scripts of Redis in Lua 5.4. Requests come on standard input, and replies go to standard output, all in the protocol of Redis:
--
--   load, a source                        the reply is an error or "OK"
--   run, a source's place, how many keys, keys and arguments
--                                         the reply is the script's
--
-- Before the reply of a run, a line "call" comes in front of each command of the script, which is answered on standard input.

local scripts = {}

local function write_text(text)
  io.write('$', #text, '\r\n', text, '\r\n')
end

local function read()
  local line = io.read('l')
  if not line then
    os.exit(0)
  end
  local kind, rest = line:sub(1, 1), line:sub(2, -2)
  if kind == '+' then
    return { ok = rest }
  elseif kind == '-' then
    return { err = rest }
  elseif kind == ':' then
    return math.tointeger(rest)
  elseif kind == '$' then
    local size = math.tointeger(rest)
    if size < 0 then
      return false
    end
    local text = size > 0 and io.read(size) or ''
    io.read(2)
    return text
  end
  local list = {}
  for i = 1, math.tointeger(rest) do
    list[i] = read()
  end
  return math.tointeger(rest) >= 0 and list
end

-- write writes a script's result as Redis does: of a number the whole part, and of a table the entries before the first nil.
local function write(value)
  local kind = type(value)
  if kind == 'string' then
    write_text(value)
  elseif kind == 'number' then
    io.write(string.format(':%d\r\n', value < 0 and math.ceil(value) or math.floor(value)))
  elseif kind == 'table' and value.err then
    io.write('-', value.err, '\r\n')
  elseif kind == 'table' and value.ok then
    io.write('+', value.ok, '\r\n')
  elseif kind == 'table' then
    io.write('*', #value, '\r\n')
    for i = 1, #value do
      write(value[i])
    end
  else
    io.write(value == true and ':1\r\n' or '$-1\r\n')
  end
end

local redis = {}

-- pcall sends a command. Redis turns numbers into text, each Lua in its own way: so the scripts have to do that themselves.
function redis.pcall(...)
  local words = { ... }
  for i = 1, #words do
    if math.type(words[i]) == 'integer' then
      words[i] = tostring(words[i])
    elseif type(words[i]) ~= 'string' then
      error('word ' .. i .. ' of ' .. tostring(words[1]) .. ' is ' .. tostring(words[i]))
    end
  end
  io.write('call\r\n*', #words, '\r\n')
  for i = 1, #words do
    write_text(words[i])
  end
  io.flush()
  return read()
end

function redis.call(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    error(reply, 0)
  end
  return reply
end

-- shared are the globals of scripts. Others are an error, as in Redis.
local shared = setmetatable({
  redis = redis, string = string, math = math, table = table, tonumber = tonumber, tostring = tostring, type = type, pairs = pairs,
  ipairs = ipairs, next = next, error = error, pcall = pcall, select = select,
}, {
  __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'")
  end,
})

while true do
  local words = read()
  if words[1] == 'load' then
    local globals = setmetatable({ KEYS = {}, ARGV = {} }, {
      __index = shared, __newindex = function(_, name) error("Script attempted to create global variable '" .. tostring(name) .. "'") end,
    })
    local script, message = load(words[2], '@user_script', 't', globals)
    if script then
      scripts[#scripts + 1] = { run = script, globals = globals }
      io.write('+OK\r\n')
    else
      io.write('-ERR ', (message:gsub('[\r\n]', ' ')), '\r\n')
    end
  else
    local script, n = scripts[math.tointeger(words[2])], math.tointeger(words[3])
    script.globals.KEYS, script.globals.ARGV = table.move(words, 4, 3 + n, 1, {}), table.move(words, 4 + n, #words, 1, {})
    local passed, result = pcall(script.run)
    io.write('return\r\n')
    if passed or type(result) == 'table' then
      write(result)
    else
      io.write('-ERR ', (tostring(result):gsub('[\r\n]', ' ')), '\r\n')
    end
  end
  io.flush()
end
