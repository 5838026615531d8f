-- text-kinds.lua - tests every kind of tokenizer against the ids and the decoded texts of PyPI's tokenizers and sentencepiece,
-- and damaged files. t/golden/kinds.py makes the vocabularies, the cases and the digests.

local tap = dofile("t/lib/tap.lua")
local lib = dofile("t/lib/strings.lua")
local golden = dofile("t/golden/kinds.lua")
local dir = os.tmpname()
os.remove(dir)
os.execute("mkdir '" .. dir .. "'")
local function read(path) local f = assert(io.open(path, "rb")); local s = f:read("a"); f:close(); return s end
local function write(name, s) local f = assert(io.open(dir .. "/" .. name, "wb")); f:write(s); f:close(); return dir .. "/" .. name end

-- Returns the text of a model. A model may be another one with some fields changed.
local function model_of(name)
  if name == "bytes" then return read("t/golden/tokenizer.json"):match('"model":(%b{})') end
  local model = golden.models[name]
  if type(model) == "string" then return model end
  local text = golden.models[model.of]
  for field, value in pairs(model) do
    if field ~= "of" then
      local n
      text, n = text:gsub(('"%s":[^,}]+'):format(field), function() return ('"%s":%s'):format(field, value) end, 1)
      assert(n == 1, field)
    end
  end
  return text
end
local function file_of(case)
  return ('{"version":"1.0","truncation":null,"padding":null,"added_tokens":%s,"normalizer":%s,"pre_tokenizer":%s,"post_processor":null,"decoder":%s,"model":%s}')
    :format(case.added_tokens, case.normalizer, case.pre_tokenizer, case.decoder, model_of(case.model))
end

local strings = {}
local function texts()
  for seed = #strings, golden.count - 1 do strings[seed + 1] = lib.generated(golden, seed, true) end
  return strings
end

-- Compares ids and decoded texts of all strings with the digests.
local function same(tok, case)
  local h, g, bad = lib.first_digest, lib.first_digest, nil
  for i, text in ipairs(texts()) do
    local ids = tok:encode(text)
    h, g = lib.digest(h, ids), lib.digest_text(g, tok:decode(ids))
    if i % golden.each == 0 and (h ~= case.ids[i // golden.each] or g ~= case.texts[i // golden.each]) then
      bad = ("%s differ before string %d"):format(h ~= case.ids[i // golden.each] and "ids" or "texts", i)
      break
    end
  end
  tap.ok(not bad, case.name .. ": the same ids and texts for every string", bad)
end

tap.group("tokenizer.json", function()
  for _, case in ipairs(golden.json) do
    if tap.share() then
      local path = write("kind.json", file_of(case))
      same(rille.tokenizer(path), case)
    end
  end
end)

tap.group("SentencePiece", function()
  for _, case in ipairs(golden.sentencepiece) do
    if tap.share() then same(rille.tokenizer("t/golden/kinds-" .. case.name .. ".model"), case) end
  end
end)

os.execute("rm -rf '" .. dir .. "'")
tap.done()
