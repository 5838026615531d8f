-- packed.lua - tests rille.models.packed: for each kind of language model, the logits of a document in a packed row are those
-- of the document alone.
local tap = dofile("t/lib/tap.lua")
local rille = require "rille"
local golden = dofile("t/golden/families.lua")
local families = dofile("t/lib/families.lua")
local packed = rille.models.packed

local function T(t) return rille.tensor(t, {dtype = "i64"}) end
local ids = {{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5}, {8, 9, 7, 9, 3, 2, 3, 8, 4, 6, 2}}
local documents = {{1, 1, 1, 1, 1, 2, 2, 2, 2, 0, 0}, {1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2}}

-- Calls visit(row, first, last) for each document.
local function each_document(visit)
  for b, row in ipairs(documents) do
    local first = 1
    for i = 2, #row + 1 do
      if row[i] ~= row[first] then
        visit(b, first, i - 1)
        first = i
      end
    end
  end
end

local function compare(name, m)
  local got, want = m(T(ids), packed(T(documents))):totable(), {{}, {}}
  each_document(function(b, first, last)
    local alone = m(T{table.move(ids[b], first, last, 1, {})}):totable()[1]
    table.move(alone, 1, #alone, first, want[b])
  end)
  tap.near(got, want, name .. ": a document in a row has its logits alone", 2e-5, 2e-5)
end

local dir = os.tmpname()
os.remove(dir)
for _, entry in ipairs(golden) do
  if tap.share() then
    families.write(entry, dir)
    compare(entry.name, rille.models.load(dir))
    os.execute(("rm -r '%s'"):format(dir))
  end
end
for _, kind in ipairs{"gpt2", "llama", "moe"} do
  compare("rille's " .. kind, rille.models[kind].new{vocab = 31, length = 12, layers = 2, heads = 2, width = 16})
end
tap.fails(function() packed(T{1, 2}) end, {"packed.lua", "documents must be integers (batch, length), found i64 of 1 dimensions"}, "one dimension")
tap.done()
