-- gguf.lua - tests that rille.models.load reads GGUF files: the logits equal those of the same model in a folder of Hugging
-- Face, for each entry of t/golden/models/gguf_files.lua.
local tap = dofile("t/lib/tap.lua")
local golden = dofile("t/golden/models/families.lua")
local entries = dofile("t/golden/models/gguf_files.lua")
local families = dofile("t/lib/families.lua")
local gguf = dofile("t/lib/gguf.lua")

local dir = tap.folder() .. "/x"
local path = dir .. ".gguf"

local P1, P2 = rille.placement("cpu", {0}), rille.placement("cpu", {0, 1})
local by_name = {}
for _, entry in ipairs(golden) do by_name[entry.name] = entry end

local ids = tap.list(families.spread("ids", golden.rows * golden.length), function(v) return math.floor((v + 1) / 2 * (golden.vocab - 3) + 3) end)
ids = rille.tensor(ids, {dtype = "i64"}):reshape{golden.rows, golden.length}

local function write(entry)
  os.execute(("mkdir '%s'"):format(dir))
  families.write(entry.config and entry or by_name[entry.name], dir)
  local list = tap.list(gguf.tensors(entry, rille.load(dir .. "/model.safetensors")), function(t) return gguf.f32(t[1], t[2]) end)
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
    local split = {placement = P2, parallel = {tensor = 0}}
    if good and pcall(rille.models.load, dir, split) then
      local off = (rille.models.load(path, split)(ids:to_global{placement = P2, sbp = "B"}):to_global{placement = P1, sbp = "B"} - want):abs():max():item()
      tap.ok(off < 5e-5, ("%s: and on two ranks, found a difference of %g"):format(entry.name, off))
    end
    remove()
  end
end

-- Old files of llama.cpp have a tensor for each expert: blk.0.ffn_gate.3.weight, not a part of blk.0.ffn_gate_exps.weight.
tap.group("a tensor for each expert", function()
  for _, entry in ipairs(entries) do
    if entry.name == "mixtral" then
      write(entry)
      local want, list = rille.models.load(path)(ids), {}
      for _, t in ipairs(gguf.tensors(entry, rille.load(dir .. "/model.safetensors"))) do
        local before = t[1]:match("^(.*)_exps%.weight$")
        for i = 0, before and t[2].shape[1] - 1 or -1 do
          list[#list + 1] = gguf.f32(("%s.%d.weight"):format(before, i), t[2]:slice(0, i, i + 1):squeeze(0))
        end
        if not before then list[#list + 1] = gguf.f32(t[1], t[2]) end
      end
      gguf.write(path, entry.metadata, list)
      tap.is(rille.models.load(path)(ids):totable(), want:totable(), "the logits are those of the file with all experts in a tensor")
      local split = {placement = P2, parallel = {tensor = 0}}
      local there = rille.models.load(path, split)(ids:to_global{placement = P2, sbp = "B"}):to_global{placement = P1, sbp = "B"}
      tap.near(there:totable(), want:totable(), "and on two ranks", 1e-4, 5e-5)
      remove()
    end
  end
end)

-- Reads a model in three files, of which only the first has the metadata.
tap.group("a model in several files", function()
  local entry = entries[1]
  write(entry)
  local want, tensors, split = rille.models.load(path)(ids):totable(), {{}, {}, {}}, dir .. "-0000%d-of-00003.gguf"
  for i, t in ipairs(gguf.tensors(entry, rille.load(dir .. "/model.safetensors"))) do
    table.insert(tensors[i % 3 + 1], gguf.f32(t[1], t[2]))
  end
  for i = 1, 3 do gguf.write(split:format(i), i == 1 and entry.metadata or {{"split.no", "u", i - 1}}, tensors[i]) end
  local first = split:format(1)
  tap.is(rille.models.load(first)(ids):totable(), want, "is loaded by the name of the first")
  tap.is(select(2, rille.io.contents(first))["split.no"], nil, "has the metadata of the first")
  os.remove(split:format(3))
  tap.fails(function() rille.models.load(first) end, {"-00003-of-00003.gguf", "No such file"}, "a missing file")
  os.remove(first)
  os.remove(split:format(2))
  remove()
end)

-- Reads shards of a Q8_0 tensor that begin and end within blocks. A block is an f16 scale d and 32 numbers of 8 bits.
tap.group("shards of blocks", function()
  local rows, columns, blocks, want = 5, 160, {}, {}
  math.randomseed(tap.seed())
  for b = 1, rows * columns // 32 do
    local d, numbers = math.random(-3, 3), {}
    blocks[#blocks + 1] = string.pack("<I2", ({[-3] = 0xBC00, [-2] = 0xB800, [-1] = 0xB400, [0] = 0, 0x3400, 0x3800, 0x3C00})[d])
    for i = 1, 32 do
      numbers[i] = math.random(-128, 127)
      want[#want + 1] = (d == 0 and 0 or d // math.abs(d) * 2.0 ^ (math.abs(d) - 3)) * numbers[i]
    end
    blocks[#blocks + 1] = string.pack("<" .. ("i1"):rep(32), table.unpack(numbers))
  end
  gguf.write(path, {{"general.architecture", "s", "none"}}, {{name = "q", shape = {rows, columns}, type = 8, bytes = table.concat(blocks)}})
  want = rille.tensor(want):reshape{rows, columns}
  for _, ranks in ipairs{{0}, {0, 1}, {0, 1, 2}, {0, 1, 2, 3, 4}} do
    local P = rille.placement("cpu", ranks)
    for _, sbp in ipairs{"B", "S(0)", "S(1)"} do
      for _, dtype in ipairs{"f32", "f64", "bf16"} do
        local q = rille.load(path, {placement = P, sbp = sbp, dtype = dtype}).q
        tap.ok(q:to_global{placement = P1, sbp = "B"}:eq(want:to(dtype)):all():item(), ("%s over %d ranks as %s"):format(sbp, #ranks, dtype))
      end
    end
  end
  os.remove(path)
end)

tap.group("errors", function()
  local function refused(metadata, words, name)
    gguf.write(path, metadata, {})
    tap.fails(function() rille.models.load(path) end, words, name)
    os.remove(path)
  end
  refused({}, {path, "general.architecture is missing"}, "no architecture")
  refused({{"general.architecture", "s", "bert"}}, {path, 'unknown general.architecture "bert"; expected one of: arcee, bloom'}, "an unknown architecture")
  refused({{"general.architecture", "s", "llama"}}, {path, "vocab_size must be a positive integer, found nil"}, "no sizes")
end)

-- Takes one entry of each architecture. Replaces each metadata value by values of other types, and removes each
-- value. If the file is then refused, the error must name the file.
tap.group("other metadata", function()
  local others, seen, wrong = {{"s", "x"}, {"u", 0}, {"i", -1}, {"q", 1 << 62}, {"f", 1 / 0}, {"b", true}, false}, {}, {}
  local turn = 0
  for _, entry in ipairs(entries) do
    local arch = entry.metadata[1][3]
    if seen[arch] or not tap.share() then goto next end
    seen[arch] = true
    write(entry)
    local list = tap.list(gguf.tensors(entry, rille.load(dir .. "/model.safetensors")), function(t) return gguf.f32(t[1], t[2]) end)
    for i, m in ipairs(entry.metadata) do
      for _, other in ipairs(others) do
        turn = turn + 1
        local changed = table.move(entry.metadata, 1, #entry.metadata, 1, {})
        if other then changed[i] = {m[1], other[1], other[2]} else table.remove(changed, i) end
        gguf.write(path, changed, list)
        local good, why = pcall(rille.models.load, path)
        if not good and (not why:find(path, 1, true) or why:find("attempt to") or why:find("out of memory")) then
          wrong[#wrong + 1] = ("%s as %s: %s"):format(m[1], other and tostring(other[2]) or "nothing", why)
        end
      end
    end
    remove()
    ::next::
  end
  tap.is(wrong, {}, turn .. " changes: each error names the file")
end)

tap.group("vocabularies", function()
  gguf.write(path, {{"general.architecture", "s", "llama"}, {"tokenizer.ggml.model", "s", "gpt2"}, {"tokenizer.ggml.pre", "s", "llama-bpe"},
    {"tokenizer.ggml.tokens", "s", {"a", "b", "ab", "", "x\0y"}}, {"tokenizer.ggml.scores", "f", {0.5, -1, 0, 0, 0}},
    {"tokenizer.ggml.token_type", "i", {1, 1, 1, 3, 6}}, {"tokenizer.ggml.merges", "s", {"a b"}},
    {"tokenizer.ggml.bos_token_id", "u", 3}, {"tokenizer.ggml.add_bos_token", "b", true}}, {})
  local v = rille.io.vocabulary(path)
  tap.is({v.model, v.pre, v.tokens, v.scores, v.types, v.merges, v.bos, v.eos, v.add_bos},
    {"gpt2", "llama-bpe", {"a", "b", "ab", "", "x\0y"}, {0.5, -1, 0, 0, 0}, {1, 1, 1, 3, 6}, {"a b"}, 3, nil, true}, "lists and ids are read")
  os.remove(path)
end)

tap.done()
