-- blocks.lua - tests models whose weights stay in quantised blocks: GGUF files with quantize = "keep", and
-- quantize = "int4".
local tap = dofile("t/lib/tap.lua")
local gguf = dofile("t/lib/gguf.lua")

local path = os.tmpname()
os.remove(path)
local dir, file = path .. ".d", path .. ".gguf"
local P2 = rille.placement("cpu", {0, 1})
local WIDTH <const>, HIDDEN <const>, VOCAB <const>, LAYERS <const> = 256, 512, 64, 2
math.randomseed(tap.seed())
rille.manual_seed(math.random(1 << 30))

-- Writes a model of Llama's kind. kinds: block type by tensor name; kinds.other: type of all other tensors. tied:
-- true: the embedding is also the output layer.
local function write(kinds, tied)
  local list, metadata = {}, {{"general.architecture", "s", "llama"}, {"llama.block_count", "u", LAYERS},
    {"llama.context_length", "u", 64}, {"llama.embedding_length", "u", WIDTH}, {"llama.feed_forward_length", "u", HIDDEN},
    {"llama.attention.head_count", "u", 4}, {"llama.attention.head_count_kv", "u", 2}, {"llama.rope.freq_base", "f", 10000.0},
    {"llama.attention.layer_norm_rms_epsilon", "f", 1e-5}}
  local function norm(name) list[#list + 1] = gguf.f32(name, rille.ones{WIDTH}) end
  local function matrix(name, rows, columns)
    local kind = kinds[name:match("([%a_]+)%.weight$")] or kinds.other
    list[#list + 1] = gguf.random_blocks(name, {rows, columns}, kind)
  end
  matrix("token_embd.weight", VOCAB, WIDTH)
  norm"output_norm.weight"
  if not tied then matrix("output.weight", VOCAB, WIDTH) end
  for i = 0, LAYERS - 1 do
    local at = "blk." .. i .. "."
    for _, name in ipairs{"attn_norm.weight", "ffn_norm.weight"} do norm(at .. name) end
    for _, m in ipairs{{"attn_q", WIDTH, WIDTH}, {"attn_k", WIDTH // 2, WIDTH}, {"attn_v", WIDTH // 2, WIDTH}, {"attn_output", WIDTH,
      WIDTH}, {"ffn_gate", HIDDEN, WIDTH}, {"ffn_up", HIDDEN, WIDTH}, {"ffn_down", WIDTH, HIDDEN}} do
      matrix(at .. m[1] .. ".weight", m[2], m[3])
    end
  end
  gguf.write(file, metadata, list)
end

local ids = tap.list(12, function(i) return i * 7 % VOCAB end)
local batch = rille.tensor({ids}, {dtype = "i64"})

-- Returns the bytes of a model's tensors; tied tensors count once.
local function bytes(model)
  local sum, seen, size = 0, {}, {f32 = 4, u8 = 1}
  for _, found in ipairs(model:named_tensors()) do
    if not seen[found.tensor] then sum = sum + found.tensor:numel() * size[found.tensor.dtype] end
    seen[found.tensor] = true
  end
  return sum
end

local function size_of(name)
  local f <close> = assert(io.open(name, "rb"))
  return f:seek("end")
end

local function text(model) return model:generate({ids}, {max_new_tokens = 12, temperature = 0}) end

local function off(a, b) return (a - b):abs():max():item() / b:abs():max():item() end

for name, kinds in tap.sorted{Q8_0 = {other = "Q8_0"}, Q4_0 = {other = "Q4_0"}, ["Q4_K and Q6_K"] = {other = "Q4_K", attn_v = "Q6_K",
  ffn_down = "Q6_K", output = "Q6_K"}, ["Q5_K, which has no kernel of its own"] = {other = "Q5_K"}} do
  for _, tied in ipairs{false, true} do
    local own = tap.share()
    tap.group(name .. (tied and ", tied" or ""), function()
      if not own then return end
      write(kinds, tied)
      local plain, kept = rille.models.load(file), rille.models.load(file, {quantize = "keep"})
      local want = plain(batch)
      tap.ok(off(kept(batch), want) < 5e-5, "logits are those of the decoded weights", off(kept(batch), want))
      tap.is(text(kept), text(plain), "a generated text, too")
      tap.ok(bytes(kept) <= 1.05 * size_of(file), "a model needs the memory of the file", bytes(kept) / size_of(file))
      local split = rille.models.load(file, {quantize = "keep", placement = P2, parallel = {tensor = 0}})
      tap.is(text(split), text(plain), "on two ranks the text is the same")
      tap.is(split.layers[1].mlp.down_proj.weight.sbp .. split.layers[1].mlp.up_proj.weight.sbp, "S(1)S(0)", "on two ranks blocks are sharded")
      kept:save(dir)
      local again = rille.models.load(dir)
      tap.is(again(batch):totable(), kept(batch):totable(), "a saved folder has the same bits")
      tap.is(again.quantized, "blocks", "and blocks again")
      os.execute(("rm -r '%s'"):format(dir))
    end)
  end
end

-- Tries each kind of model in t/golden/models/gguf_files.lua; every matrix whose rows divide into blocks has type Q8_0.
tap.group("every architecture", function()
  local families, by_name = dofile("t/lib/families.lua"), {}
  for _, entry in ipairs(dofile("t/golden/models/families.lua")) do by_name[entry.name] = entry end
  for _, entry in ipairs(dofile("t/golden/models/gguf_files.lua")) do
    if tap.share() then
      os.execute(("mkdir '%s'"):format(dir))
      families.write(entry.config and entry or by_name[entry.name], dir)
      local list = {}
      for i, t in ipairs(gguf.tensors(entry, rille.load(dir .. "/model.safetensors"))) do
        local name, x = t[1], t[2]
        list[i] = gguf.f32(name, x)
        if x.ndim > 1 and x.shape[x.ndim] % 32 == 0 and not name:find("position_embd") then
          local bytes = tap.list(rille.to_blocks(x:to("f32")):reshape{-1}:totable(), function(b) return string.char(b) end)
          list[i] = {name = name, shape = x.shape, type = 8, bytes = table.concat(bytes)}
        end
      end
      gguf.write(file, entry.metadata, list)
      os.execute(("rm -r '%s'"):format(dir))
      local want = rille.models.load(file)(batch)
      local good, model = pcall(rille.models.load, file, {quantize = "keep"})
      tap.ok(good and off(model(batch), want) < 5e-5, entry.name .. ": logits are those of the decoded weights", good and off(model(batch), want) or model)
    end
  end
end)

tap.group("int4", function()
  rille.manual_seed(5)
  local new = rille.models.llama.new{vocab = VOCAB, length = 64, layers = 2, heads = 4, width = 64}
  new:save(dir)
  local plain, small = rille.models.load(dir), rille.models.load(dir, {quantize = "int4"})
  for _, found in ipairs(small:named_tensors()) do
    if found.tensor.dtype == "u8" then
      local value, w = rille.from_blocks(found.tensor, {kind = "Q4_0"}), plain
      for part in found.name:gmatch("[^.]+") do w = w[tonumber(part) and tonumber(part) + 1 or part] end
      local groups = {w.shape[1], -1, 32}
      -- allows 0.4 % more, because the scale is rounded to f16
      local bound = w:reshape(groups):abs():max{axis = 2, keepdim = true} / 8 * 1.004
      tap.ok((value - w):reshape(groups):abs():le(bound):all():item(), found.name .. ": errors are at most an eighth of the group's largest")
    end
  end
  os.execute(("rm -r '%s'"):format(dir))
  small:save(dir)
  local again = rille.models.load(dir)
  tap.is(again(batch):totable(), small(batch):totable(), "a saved folder has the same bits")
  tap.is(text(rille.models.load(dir, {placement = P2, parallel = {tensor = 0}})), text(small), "on two ranks the text is the same")
  os.execute(("rm -r '%s'"):format(dir))
  rille.models.llama.new{vocab = VOCAB, length = 64, layers = 1, heads = 2, width = 64, tied = true}:save(dir)
  local tied = rille.models.load(dir, {quantize = "int4"})
  os.execute(("rm -r '%s'"):format(dir))
  tied:save(dir)
  tap.is(rille.models.load(dir)(batch):totable(), tied(batch):totable(), "also if the embedding is the output layer, and only the latter is rounded")
  os.execute(("rm -r '%s'"):format(dir))
  small:save(dir)
  local config = rille._read(dir .. "/config.json", 1 << 20, "t")
  local function refused(from, to, words, what)
    local f <close> = io.open(dir .. "/config.json", "w")
    f:write((config:gsub(from, to)))
    f:close()
    tap.fails(function() rille.models.load(dir) end, {dir, table.unpack(words)}, what)
  end
  refused('"Q4_0"', '"Q8_0"', {"k_proj.weight' must have the shape of \"Q8_0\" blocks of a weight {64, 64}, found {64, 2, 18}"}, "another type")
  refused('"Q4_0"', '"Q9"', {"the shape of \"Q9\" blocks"}, "an unknown type")
  refused('"Q4_0"', '7', {"the shape of 7 blocks"}, "a number")
  refused('q_proj.weight"', 'x_proj.weight"', {"x_proj.weight' must name a weight"}, "another name")
  os.execute(("rm -r '%s'"):format(dir))
end)

tap.group("errors", function()
  write{other = "Q8_0"}
  tap.fails(function() rille.models.load(file, {quantize = "q8"}) end, {'quantize must be "int8", "int4" or "keep", found "q8"'}, "an unknown method")
  tap.fails(function() rille.models.load(file, {quantize = "keep", dtype = "bf16"}) end, {"dtype must be f32", "bf16"}, "another dtype")
  rille.models.llama.new{vocab = 8, length = 8, layers = 1, heads = 2, width = 8}:save(dir)
  tap.fails(function() rille.models.load(dir, {quantize = "keep"}) end, {dir, 'quantize = "keep" needs a .gguf file'}, "a folder")
  os.execute(("rm -r '%s'"):format(dir))
  -- Truncates the file at many places, in its header and in the blocks. Loading the truncated file must fail with an
  -- error that names the file.
  local whole, wrong = rille._read(file, 1 << 24, "t"), {}
  for at = 0, #whole - 1, 9973 + math.random(0, 99) do
    local f = assert(io.open(file, "wb"))
    f:write(whole:sub(1, at))
    f:close()
    local good, why = pcall(rille.models.load, file, {quantize = "keep"})
    if good or not why:find(file, 1, true) then wrong[#wrong + 1] = at end
  end
  tap.is(wrong, {}, "a truncated file is refused by name")
end)
os.remove(file)

tap.done()
