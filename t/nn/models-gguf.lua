-- models-gguf.lua - tests that rille.models.load reads GGUF files: the logits equal those of the same model in a folder of Hugging
-- Face, for each entry of t/golden/gguf_files.lua.
local tap = dofile("t/lib/tap.lua")
local rille = require "rille"
local golden = dofile("t/golden/families.lua")
local entries = dofile("t/golden/gguf_files.lua")
local families = dofile("t/lib/families.lua")
local gguf = dofile("t/lib/gguf.lua")

local dir = os.tmpname()
os.remove(dir)
local path = dir .. ".gguf"

local by_name = {}
for _, entry in ipairs(golden) do by_name[entry.name] = entry end

local ids = {}
for i, v in ipairs(families.spread("ids", golden.rows * golden.length)) do ids[i] = math.floor((v + 1) / 2 * (golden.vocab - 3) + 3) end
ids = rille.tensor(ids, {dtype = "i64"}):reshape{golden.rows, golden.length}

-- Writes an entry's folder and its GGUF file.
local function write(entry)
  os.execute(("mkdir '%s'"):format(dir))
  families.write(entry.config and entry or by_name[entry.name], dir)
  local list = {}
  for i, t in ipairs(gguf.tensors(entry, rille.load(dir .. "/model.safetensors"))) do list[i] = gguf.f32(t[1], t[2]) end
  gguf.write(path, entry.metadata, list)
end

local function remove() os.execute(("rm -rf '%s' '%s'"):format(dir, path)) end

for _, entry in ipairs(entries) do
  if tap.share() then
    write(entry)
    local want = rille.models.load(dir)(ids)
    local good, model = pcall(rille.models.load, path)
    if tap.ok(good, entry.name .. ": a GGUF file is loaded" .. (good and "" or ": " .. model)) then
      local off = (model(ids) - want):abs():max():item()
      tap.ok(off < 2e-5, ("%s: logits are those of the folder, found a difference of %g"):format(entry.name, off))
    end
    remove()
  end
end

tap.done()
