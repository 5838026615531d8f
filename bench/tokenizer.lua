-- tokenizer.lua - times the conversion of text to ids and back: Rille's part of bench/tokenizer.sh.

local rille = require "rille"

local path, made = arg[1], arg[2]
local file = assert(io.open(path, "rb"))
local text = file:read("a")
file:close()

local function best(what, f, times)
  local least = math.huge
  for _ = 1, times or 3 do
    local start = os.clock()
    f()
    least = math.min(least, os.clock() - start)
  end
  print(("%s\tRille\t%.3f"):format(what, #text / least / 1e6))
end

-- Table for CRC-32 with zlib's polynomial.
local table_of = {}
for i = 0, 255 do
  local c = i
  for _ = 1, 8 do c = c & 1 == 1 and 0xedb88320 ~ c >> 1 or c >> 1 end
  table_of[i] = c
end
local function digest(ids)
  local c = 0xffffffff
  for i = 1, #ids do
    local id = ids[i]
    for k = 0, 24, 8 do c = table_of[(c ~ id >> k) & 255] ~ c >> 8 end
  end
  return c ~ 0xffffffff
end

for _, name in ipairs{"gpt2", "cl100k"} do
  local tok = rille.tokenizer(made .. "/" .. name .. ".json")
  local ids = tok:encode(text)
  best("encode, " .. name, function() tok:encode(text) end)
  print(("ids\t%s\tRille\t%d"):format(name, digest(ids)))
  best("decode, " .. name, function() tok:decode(ids) end)
end
local ranks = rille.tokenizer(made .. "/ranks.tiktoken")
print(("ids\tcl100k by ranks\tRille\t%d"):format(digest(ranks:encode(text))))
local good, normal = pcall(rille.tokenizer, made .. "/cl100k-nfc.json")
if good then best("encode, cl100k, NFC", function() normal:encode(text) end) end
local tok = rille.tokenizer(made .. "/gpt2.json")
best("encode, gpt2, line by line", function() for line in text:gmatch("[^\n]*\n?") do tok:encode(line) end end, 1)
best("training, 32000 ids", function() rille.tokenizer.train({{file = path}}, {size = 32000}) end, 1)
