-- models.lua - tests rille.models: sizes, layouts, rejected arguments. Generated text must not depend on the form of the
-- call or on layouts.
local tap = dofile("t/lib/tap.lua")
local nn, optim = rille.nn, rille.optim
local P2, P22 = rille.placement("cpu", {0, 1}), rille.placement("cpu", {{0, 1}, {2, 3}})

local sizes = {
  gpt2 = {vocab = 31, length = 24, layers = 2, heads = 2, width = 16},
  llama = {vocab = 31, length = 24, layers = 2, heads = 4, kv_heads = 2, width = 16, hidden = 24},
  moe = {vocab = 31, length = 24, layers = 2, heads = 2, width = 16, experts = 4},
}
local function new(kind, more)
  local options = tap.with(sizes[kind], more)
  rille.manual_seed(5)
  return rille.models[kind].new(options)
end
local function ids(rows, options) return rille.tensor(rows, {dtype = "i64"}):to_global(options or {sbp = "B"}) end
local text = {{3, 1, 4, 1, 5, 9}, {2, 6, 5, 3, 5, 8}}

for kind in pairs(sizes) do
  tap.group(kind, function()
    local m = new(kind)
    local logits = m(ids(text))
    tap.is({logits.shape, logits.dtype}, {{2, 6, 31}, "f32"}, kind .. ": ids give f32 logits")
    tap.near(logits:reshape{12, 31}:cross_entropy(ids{{1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9}}:reshape{12}):item(), math.log(31),
      kind .. ": a new model predicts all ids equally", 0.05)
    local split = new(kind, {placement = P22, sbp = {"S(0)", "B"}})
    tap.near(split(ids(text, {placement = P22, sbp = {"S(0)", "B"}})):totable(), logits:totable(),
      kind .. ": the same seed gives the same model on 2 x 2", 1e-4, 1e-5)
    local half = new(kind, {dtype = "bf16"})
    tap.is({half:parameters()[1].dtype, half(ids(text)).dtype}, {"bf16", "f32"}, kind .. ": a bf16 model has f32 logits")
    tap.near(half(ids(text)):totable(), logits:totable(), kind .. ": logits of a bf16 model are near", 0.1, 0.05)
    local opt, losses = optim.AdamW(m:parameters(), {lr = 1e-2}), {}
    for i = 1, 4 do
      local loss = m(ids(text)):reshape{12, 31}:cross_entropy(ids(text):reshape{12})
      opt:zero_grad(); loss:backward(); opt:step()
      losses[i] = loss:item()
    end
    tap.ok(losses[4] < losses[1] - 0.1, kind .. ": the loss falls")
    tap.fails(function() m(ids{{31}}):totable() end, {"31", "models.lua"}, kind .. ": an id beyond the vocabulary")
    tap.fails(function() m(rille.zeros({1, 25}, {dtype = "i64"})) end, {"25", "24", "models.lua"}, kind .. ": too many positions")
    tap.fails(function() m(rille.zeros{1, 2}) end, {"integers", "f32", "models.lua"}, kind .. ": floats as ids are refused")
    tap.fails(function() m(rille.zeros({2}, {dtype = "i64"})) end, {"1 dimensions", "models.lua"}, kind .. ": one dimension is refused")
    tap.fails(function() new(kind, {widht = 3}) end, {"'widht'", "models.lua"}, kind .. ": an unknown option")
    tap.fails(function() new(kind, {layers = 0}) end, {"layers", "0", "models.lua"}, kind .. ": no layers")
  end)
end

-- Generates n ids by full forward passes, one id at a time.
local function by_hand(m, row, n)
  local all = {table.unpack(row)}
  for _ = 1, n do all[#all + 1] = m(ids{all})[{0, -1}]:argmax(-1):item() end
  return all
end

for kind in pairs(sizes) do
  tap.group(kind .. " generates text", function()
    local m = new(kind)
    for _, p in ipairs(m:parameters()) do p.requires_grad = true; rille.no_grad(function() p:mul_(4) end) end
    local want = {by_hand(m, text[1], 8), by_hand(m, text[2], 8)}
    local greedy = {max_new_tokens = 8, temperature = 0}
    tap.is(m:generate(ids(text), greedy):totable(), want, kind .. ": temperature 0 takes the most likely id each time")
    tap.is(m:generate(text, greedy), want, kind .. ": lists return lists")
    local short = {{3, 1}, text[2], {7}}
    tap.is(m:generate(short, greedy), {by_hand(m, short[1], 8), want[2], by_hand(m, short[3], 8)},
      kind .. ": prompts of different lengths are continued as if alone")
    local how = {max_new_tokens = 6, temperature = 0.8, top_k = 9, top_p = 0.9, seed = 4}
    local drawn = m:generate(text, how)
    tap.is(m:generate(text, how), drawn, kind .. ": the same seed gives the same text")
    tap.is(m:generate({text[1]}, how)[1], drawn[1], kind .. ": the first row draws the same with and without other rows")
    for _, layout in ipairs{{P2, "S(0)", "B"}, {P2, "B", "S(0)"}, {P22, {"S(0)", "B"}, {"B", "S(0)"}}} do
      m:to_global{placement = layout[1], sbp = layout[3]}
      local out = m:generate(ids(text, {placement = layout[1], sbp = layout[2]}), how)
      tap.is({out:totable(), out.placement == layout[1]}, {drawn, true}, ("%s: the same ids with weights of %s"):format(kind,
        m:parameters()[1].sbp))
    end
  end)
end

-- Returns the text that a model writes after its cached steps are discarded.
local function new_writer_says(m, ids, how)
  rille._generation()
  return m:generate(ids, how)
end

-- Returns two values: the generated text, and the number of plans that the call compiles.
local function compiled(m, ids, how)
  local before = rille.counters().compiles
  local out = m:generate(ids, how)
  return rille.counters().compiles - before, out
end

tap.group("a second text compiles nothing", function()
  local quantize = require "rille.models.loading.quantize"
  local greedy, drawn = {max_new_tokens = 6, temperature = 0}, {max_new_tokens = 6, temperature = 0.7, top_p = 0.9, seed = 3}
  for _, kind in ipairs{"gpt2", "llama", "moe", "gpt2 int8"} do
    local m = new(kind:match("%w+"))
    if kind:find("int8") then quantize.round(m, "int8") end
    local first, want = compiled(m, text, greedy)
    tap.ok(first >= 2, kind .. ": the first text compiles its steps", first)
    local second, out = compiled(m, {text[2], text[1]}, greedy)
    tap.is({second, out}, {0, {want[2], want[1]}}, kind .. ": other ids compile nothing")
    tap.is({(compiled(m:train(), text, greedy)), (compiled(m:eval(), text, greedy))}, {0, 0}, kind .. ": train and eval compile nothing")
    tap.is(compiled(m, {{7, 1, 8, 2}, {2}}, greedy), 1, kind .. ": prompts of another length compile one pass, and no step")
    compiled(m, text, drawn)
    local hot = {max_new_tokens = 6, temperature = 1.3, top_p = 0.5, seed = 4}
    local again, cool = compiled(m, text, hot)
    tap.is({again, cool}, {0, new_writer_says(m, text, hot)}, kind .. ": temperature, top_p and seed compile nothing and have an effect")
  end
end)

tap.group("changes of the model change the text", function()
  local how = {max_new_tokens = 6, temperature = 0}
  local m = new("gpt2")
  local function is_fresh(name)
    local _, got = compiled(m, text, how)
    tap.is(got, new_writer_says(m, text, how), name)
  end
  rille.no_grad(function() for _, p in ipairs(m:parameters()) do p:mul_(4) end end)
  is_fresh("changed values")
  m.h[1].fc1.weight = rille.randn(m.h[1].fc1.weight.shape, {requires_grad = true})
  is_fresh("a replaced parameter")
  rille.parallel(m:to_global{placement = P2, sbp = "B"}, {tensor = 0})
  is_fresh("another layout")
  m:to("f64")
  is_fresh("another dtype")
  m:to("f32")
  local plain = m:generate(text, how)
  local narrow = rille.autocast("bf16", m.generate, m, text, how)
  tap.is({m:generate(text, how), rille.autocast("bf16", m.generate, m, text, how)}, {plain, narrow}, "autocast has steps of its own")
  tap.ok(m.training, "a model in training stays in training")
  local within
  m:generate(text, {max_new_tokens = 6, temperature = 0, on_token = function()
    within = within or m:generate({text[2], text[1]}, how)
  end})
  tap.is({within, m:generate(text, how)}, {{plain[2], plain[1]}, plain}, "a text generated within another changes neither")
  pcall(m.generate, m, text, {max_new_tokens = 6, temperature = 0, on_token = function() error("no more") end})
  tap.is(m:generate(text, how), plain, "an aborted text does not change later texts")
end)

tap.group("few steps are cached, and freed with their model", function()
  local function bytes()
    collectgarbage()
    collectgarbage()
    return rille.counters().live_bytes
  end
  local before, m = bytes(), new("gpt2")
  local function write(batch)
    local rows = tap.list(batch, function() return text[1] end)
    m:generate(rows, {max_new_tokens = 2, temperature = 0})
    return bytes()
  end
  for batch = 1, 4 do write(batch) end
  local four = write(4)
  for _ = 1, 3 do
    for batch = 1, 4 do write(batch + 4) end
    for batch = 1, 4 do write(batch) end
  end
  tap.is(write(4), four, "steps of the last four batch sizes are cached")
  m = nil
  tap.is(bytes(), before, "a model's steps are freed with the model")
end)

-- Compares the frequencies of the ids in many generated texts with their probabilities.
tap.group("distribution", function()
  local m = new("gpt2")
  rille.no_grad(function() for _, p in ipairs(m:parameters()) do p:mul_(6) end end)
  local row, n = text[1], 400
  local logits = (m(ids{row})[{0, -1}] * (1 / 1.5)):softmax(-1):totable()
  local order = tap.list(#logits, function(i) return i end)
  table.sort(order, function(a, b) return logits[a] > logits[b] end)
  local rows = tap.list(n, function() return row end)
  local function shares(more)
    more.max_new_tokens, more.temperature, more.seed = 1, 1.5, tap.seed(11)
    local count = tap.list(#logits, function() return 0 end)
    for _, all in ipairs(m:generate(rows, more)) do count[all[#all] + 1] = count[all[#all] + 1] + 1 end
    return count
  end
  local count, worst = shares{}, 0
  for i, p in ipairs(logits) do worst = math.max(worst, math.abs(count[i] - n * p) / math.sqrt(n * p * (1 - p) + 1)) end
  tap.ok(worst < 5, "ids are drawn with their probabilities", worst)
  local of_top, outside = shares{top_k = 3}, 0
  for i = 4, #order do outside = outside + of_top[order[i]] end
  tap.is(outside, 0, "top_k = 3 draws only the three most likely")
  local mass, kept = 0, 0
  while mass < 0.6 do kept = kept + 1; mass = mass + logits[order[kept]] end
  local nucleus = shares{top_p = 0.6}
  outside = 0
  for i = kept + 1, #order do outside = outside + nucleus[order[i]] end
  tap.is({outside, nucleus[order[kept]] > 0}, {0, true}, "top_p draws from the fewest ids that reach the probability")
end)

tap.group("stop and on_token", function()
  local m = new("gpt2")
  local function go(ids, more)
    local how = tap.with({max_new_tokens = 8, temperature = 2, seed = 9}, more)
    return m:generate(ids, how)
  end
  local want, reported, other = go(text), {}, {}
  for i = 7, 14 do other[want[2][i]] = true end
  local first = 7
  while other[want[1][first]] do first = first + 1 end
  local stop = want[1][first]
  tap.ok(first < 14, "the rows differ", first)
  local unused = 0
  while other[unused] or table.concat(want[1], " "):find("%f[%d]" .. unused .. "%f[%D]") do unused = unused + 1 end
  local got = go(text, {stop = {stop, unused}, on_token = function(t) reported[#reported + 1] = t end})
  tap.is(got, {{table.unpack(want[1], 1, first)}, want[2]}, "a stop id ends its row and is kept; the other row continues")
  tap.is({reported[1][1], reported[first - 6][1], reported[first - 5][1], #reported}, {want[1][7], stop, false, 8},
    "on_token gets one id per row, false for rows that ended")
  local t = go(ids(text), {stop = stop}):totable()
  tap.ok(#t[1] == 14 and t[1][14] == stop, "in a tensor an ended row is filled with its stop id")
  tap.is(#go({text[1]}, {stop = stop})[1], first, "nothing is computed when all rows have ended")
  tap.is(m:generate(text, {max_new_tokens = 0}), text, "no new ids is allowed")
  tap.ok(m.training, "a model in training mode stays in training mode")
  tap.is(text[1], {3, 1, 4, 1, 5, 9}, "the prompt is unchanged")
  local function line(words, f) words[#words + 1] = "models.lua"; tap.fails(f, words, table.concat(words, ", ")) end
  line({"6", "20", "24", "at most 18 new"}, function() m:generate(text, {max_new_tokens = 20}) end)
  local long = tap.list(30, function() return 1 end)
  line({"30", "24", "a shorter prompt"}, function() m:generate({long}, {max_new_tokens = 1}) end)
  line({tostring(math.maxinteger), "24", "at most 18 new"}, function() m:generate(text, {max_new_tokens = math.maxinteger}) end)
  line({"prompt 1", "nil"}, function() m:generate{{1}, nil, {3}} end)
  line({"'temprature'"}, function() m:generate(text, {temprature = 1}) end)
  line({"top_p", "1.5"}, function() m:generate(text, {top_p = 1.5}) end)
  line({"top_p", "found 1.0000001"}, function() m:generate(text, {top_p = 1.0000001}) end)
  line({"top_k", "0"}, function() m:generate(text, {top_k = 0}) end)
  for _, name in ipairs{"top_p", "top_k", "seed"} do
    line({"generate: ", name, "found false"}, function() m:generate(text, {[name] = false, max_new_tokens = 1}) end)
  end
  line({"prompt 1", "empty"}, function() m:generate{{1}, {}} end)
  line({"on_token"}, function() m:generate(text, {on_token = 1}) end)
  for shown, stop in pairs{nil_ = {nil, 3}, ["\"x\""] = {"x"}, ["1.5"] = 1.5, ["-1"] = -1, ["true"] = true} do
    line({"stop id", "integer", (shown:gsub("_", ""))}, function() m:generate(text, {stop = stop}) end)
  end
  for _, stop in ipairs{31, {3, 31}, math.maxinteger} do
    line({"a stop id must be below 31", "found " .. tostring(type(stop) == "table" and stop[2] or stop)}, function() m:generate(text, {stop = stop}) end)
  end
  line({"stop must be an id or a list", "the keys eos"}, function() m:generate(text, {stop = {eos = 3}}) end)
  line({"ids"}, function() m:generate(3) end)
  for _, bad in ipairs{1.5, true, "1", 0 / 0} do
    line({"ids must be integers", "prompt 1", tostring(bad):match("nan") or tostring(bad)}, function() m:generate{{1}, {2, bad}} end)
  end
  -- invalid ids must be rejected even if the forward pass does not read these ids
  for _, bad in ipairs{-1, 31, math.maxinteger} do
    for _, n in ipairs{0, 2} do
      line({"generate", "prompt 1", tostring(bad), "ids 0 to 30"}, function() m:generate({{1}, {2, bad}}, {max_new_tokens = n}) end)
      line({"generate", "prompt 1", tostring(bad), "ids 0 to 30"}, function() m:generate(ids{{1, 3}, {2, bad}}, {max_new_tokens = n}) end)
    end
  end
  line({"ids must be integers", "f32"}, function() m:generate(rille.ones{1, 2}) end)
  line({"ids must be integers", "bool"}, function() m:generate(rille.zeros({1, 2}, {dtype = "bool"})) end)
  local wide = rille.models.gpt2.new{vocab = 257, length = 8, layers = 1, heads = 1, width = 4}
  line({"u8", "257", "i32 or i64"}, function() wide:generate(rille.zeros({1, 2}, {dtype = "u8"}), {max_new_tokens = 1}) end)
  line({"ids must be integers", "1 dimensions"}, function() m:generate(ids{1, 2}) end)
  tap.is(go({{1.0, 2.0}}), go{{1, 2}}, "floats with integer values are ids")
  local greedy = go(text, {temperature = 0})
  for _, t in ipairs{1e-20, 1e-30, 1e-37, 1e-45, 5e-324} do
    tap.is(go(text, {temperature = t}), greedy, ("temperature %g gives the likeliest ids"):format(t))
  end
  rille.no_grad(function() m.wpe.weight:copy_(m.wpe.weight * rille.tensor{{0 / 0}}) end)
  for _, t in ipairs{0, 1} do line({"generate", "id 5 of row 0", "nan"}, function() go(text, {temperature = t}) end) end
  tap.fails(function() m:generate({{31}}, {max_new_tokens = 1}) end, {"31"}, "an id beyond the vocabulary")
end)

tap.group("invalid sizes", function()
  local function refused(name, words, f)
    words[#words + 1] = "models.lua"
    tap.fails(f, words, name)
  end
  refused("heads", {"models.gpt2.new: width = 16", "heads = 5", "heads = 1, 2, 4, 8, 16 would do"}, function() new("gpt2", {heads = 5}) end)
  refused("kv_heads", {"heads = 4", "kv_heads = 3;", "kv_heads = 1, 2, 4 would do"}, function() new("llama", {kv_heads = 3}) end)
  refused("more kv_heads than heads", {"heads = 4", "kv_heads = 8;", "kv_heads = 1, 2, 4 would do"}, function() new("llama", {kv_heads = 8}) end)
  refused("a head of odd size", {"width = 16", "heads = 16", "heads = 1, 2, 4, 8 would do"}, function() new("llama", {heads = 16}) end)
  refused("top_k", {"top_k must be from 1 to 4, the number of experts, found 9"}, function() new("moe", {top_k = 9}) end)
  refused("no experts", {"experts", "0"}, function() new("moe", {experts = 0}) end)
  refused("groups of channels", {"4 input and 6 output channels", "groups = 3", "1, 2 would do"}, function() nn.Conv2d(4, 6, 3, {groups = 3}) end)
  refused("no group", {"groups", "0"}, function() nn.Conv2d(4, 6, 3, {groups = 0}) end)
  for _, kind in ipairs{"gpt2", "llama", "moe"} do
    for _, bad in ipairs{"cpu", {0}, rille.zeros{1}, 0} do
      refused(kind .. ": an invalid placement", {kind, "placement must be a rille.placement"}, function() new(kind, {placement = bad}) end)
    end
  end
  refused("resnet: an invalid placement", {"resnet", "placement must be"}, function() rille.models.resnet.new{classes = 3, placement = "cpu"} end)
  refused("a folder with an invalid placement", {"gpt2", "placement must be"}, function() rille.models.gpt2.load("nowhere", {placement = "cpu"}) end)
  refused("an embedding's vocabulary", {"vocab", "0"}, function() new("gpt2", {vocab = 0}) end)
  refused("labels beyond the vocabulary", {"31"}, function() new("gpt2")(ids(text)):reshape{12, 31}:cross_entropy(ids{{31, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9}}:reshape{12}):item() end)
end)

-- Sets each option of each kind of model to wrong values. The error must name the function and the option, not a
-- layer.
tap.group("wrong numbers in options", function()
  local options = {
    gpt2 = {"vocab", "length", "layers", "heads", "width", "hidden", "dropout", "eps", "activation", "tied"},
    llama = {"vocab", "length", "layers", "heads", "width", "kv_heads", "hidden", "head_dim", "rotary_size", "theta", "eps", "tied", "rope_scaling",
      "qkv_bias", "out_bias", "mlp_bias", "activation"},
    moe = {"vocab", "length", "layers", "heads", "width", "hidden", "experts", "top_k", "eps"},
  }
  for kind, list in tap.sorted(options) do
    local wrong = {}
    for _, name in ipairs(list) do
      for _, value in ipairs{-1, "x", 0 / 0} do
        local good, why = pcall(rille.models[kind].new, {vocab = 5, length = 4, layers = 1, heads = 2, width = 8, [name] = value})
        if good or not why:find(("models.%s.new: .*%s"):format(kind, name)) then wrong[#wrong + 1] = {name, value, why} end
      end
    end
    tap.is(wrong, {}, kind .. ": a wrong option is refused by its name")
  end
end)

tap.group("options of wrong types", function()
  local function refused(words, f)
    words[#words + 1] = "models.lua"
    tap.fails(f, words, table.concat(words, ", "))
  end
  local function scaled(low, high)
    return {rope_scaling = {rope_type = "llama3", factor = 8, low_freq_factor = low, high_freq_factor = high,
      original_max_position_embeddings = 8}}
  end
  for _, kind in ipairs{"gpt2", "llama", "moe"} do
    for shown, value in pairs{['"x"'] = "x", ["-1"] = -1, inf = math.huge, nan = 0 / 0, ["true"] = true} do
      refused({"eps", "found " .. shown}, function() new(kind, {eps = value}) end)
    end
    refused({"heads must be a positive integer, found \"4\""}, function() new(kind, {heads = "4"}) end)
    refused({kind .. ".new: expected one table", "placement", "a table as a second argument"}, function()
      rille.models[kind].new({vocab = 5, length = 5, layers = 1, heads = 1, width = 8}, {placement = P2})
    end)
  end
  for _, kind in ipairs{"gpt2", "llama"} do
    refused({"tied must be true or false, found \"no\""}, function() new(kind, {tied = "no"}) end)
  end
  refused({"resnet.new: expected one table"}, function() rille.models.resnet.new({classes = 3}, {dtype = "bf16"}) end)
  refused({"low_freq_factor", "high_freq_factor", "4 and 4"}, function() new("llama", scaled(4, 4)) end)
  refused({"low_freq_factor", "high_freq_factor", "4 and 1"}, function() new("llama", scaled(4, 1)) end)
  refused({"'low_freq_factor'", "\"1\""}, function() new("llama", scaled("1", 4)) end)
  refused({"'high_freq_factor'", "inf"}, function() new("llama", scaled(1, math.huge)) end)
end)

tap.group("int8", function()
  local quantize = require "rille.models.loading.quantize"
  for _, kind in ipairs{"gpt2", "llama", "moe"} do
    local m = new(kind)
    local want = m(ids(text)):totable()
    local bytes = 0
    for _, found in ipairs(quantize.round(m, "int8"):named_tensors()) do
      if found.tensor.dtype == "u8" then bytes = bytes + found.tensor:numel() end
    end
    tap.ok(bytes > 2 * 8 * 16 * 16, kind .. ": weights of linear layers are u8", bytes)
    tap.near(m(ids(text)):totable(), want, kind .. ": logits stay near", 0.05, 0.03)
    local said = m:generate(text, {max_new_tokens = 4, temperature = 0})
    rille.parallel(m:to_global{placement = P2, sbp = "B"}, {tensor = 0})
    tap.is({m:generate(text, {max_new_tokens = 4, temperature = 0}), (m.h or m.layers)[1].attention.q_proj.weight.sbp}, {said, "S(0)"},
      kind .. ": a split model generates the same text")
  end
  -- Tests int8 experts, for any number of token ids and any layout.
  local function experts() return quantize.round(new("moe"), "int8") end
  local m = experts()
  local kinds = {up = {"u8", "buffer"}, down = {"u8", "buffer"}, up_scale = {"f32", "buffer"}, down_scale = {"f32", "buffer"},
    ["router.weight"] = {"f32", "parameter"}}
  for _, found in ipairs(m:named_tensors()) do
    local part = found.name:match("^h%.0%.mlp%.(.*)")
    if part then tap.is({found.tensor.dtype, found.kind}, kinds[part], "moe: " .. found.name .. " has the right dtype and kind") end
  end
  local P222 = rille.placement("cpu", {{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}})
  local one = rille.placement("cpu", {0})
  for name, case in pairs{["a split batch"] = {P2, {data = 0}}, ["split experts"] = {P2, {tensor = 0}},
    ["a split length"] = {P2, {tensor = 0, sequence = true}}, ["2D"] = {P22, {tensor = {0, 1}}},
    ["3D"] = {P222, {tensor = {0, 1, 2}, method = "3d"}}, ["stages"] = {one, {stages = {one, rille.placement("cpu", {1})}}}} do
    for _, length in ipairs{4, 12} do -- lengths at which an expert gets few ids, and many
      local rows = tap.rows(4, length, function(r, i) return (r * 5 + i * i) % 11 end)
      local plain, split = experts(), experts():to_global{placement = case[1], sbp = require("rille.base.layout").replicated(case[1])}
      rille.parallel(split, case[2])
      local x = rille.tensor(rows, {dtype = "i64"})
      tap.near(split(x:to_global(rille.parallel.input(split))):totable(), plain(x):totable(),
        ("moe: %s, rows of %d: values are those of one device"):format(name, length), 1e-4, 1e-5)
    end
  end
  local w = nn.Linear(3, 2)
  rille.no_grad(function() w.weight:copy_(rille.tensor{{0, 0, 0}, {-1, 0.5, 1}}); w.bias:zero_() end)
  tap.near(nn.Int8Linear(w)(rille.eye(3)):totable(), {{0, -1}, {0, 0.5}, {0, 1}}, "a row of zeros stays zero", 1e-2, 5e-3)
end)

tap.group("resnet", function()
  local m = rille.models.resnet.new{classes = 3}
  tap.is(m:eval()(rille.ones{2, 3, 8, 8}).shape, {2, 3}, "logits for each class")
  for name, how in pairs{plain = function(f, v) return f(v) end, autocast = function(f, v) return rille.autocast("bf16", f, v) end} do
    for _, dtype in ipairs{"f32", "bf16", "f16"} do
      local half = rille.models.resnet.new{classes = 3, dtype = dtype}
      local images = rille.ones({2, 3, 8, 8}, {dtype = dtype})
      tap.is({how(half, images).dtype, rille.graph(function(v) return how(half, v) end)(images).dtype}, {"f32", "f32"},
        ("logits of a model in %s are f32, %s"):format(dtype, name))
    end
  end
  tap.fails(function() m(rille.ones{2, 1, 8, 8}) end, {"3, height", "{2, 1, 8, 8}", "models.lua"}, "other channels")
  tap.fails(function() rille.models.resnet.new{classes = 3, blocks = {}} end, {"blocks"}, "no blocks")
  tap.fails(function() rille.models.resnet.new{classes = 3, blocks = {2, nil, 2}} end, {"count of blocks", "nil"}, "blocks with a hole")
end)

-- Checks that a model's source file is short and states no layouts. Roles of layers must be stated only in
-- lua/parallel/classes.lua, by model class.
tap.group("models are short", function()
  for _, name in ipairs{"gpt2", "llama", "moe", "resnet"} do
    local lines, splits = 0, {}
    for line in io.lines("lua/models/" .. name .. ".lua") do
      lines = lines + 1
      local code = line:gsub("%-%-.*", "")
      if code:find("S%(%d%)") or code:find("split%(") or code:find("rille%.parallel") or code:find("to_local") then splits[#splits + 1] = line end
    end
    tap.is({lines < 150, splits}, {true, {}}, ("%s: %d lines, none about layouts"):format(name, lines))
  end
end)

tap.group("json", function()
  local json = require "rille.json"
  for _, s in ipairs{'{"a": 1, "b": [1, 2.5, "x"], "c": null, "d": true, "e": {}, "f": []}', '"\\ud83d\\ude00\\n"', "-1e-3", "[]"} do
    local text = json.encode(json.decode(s))
    tap.is(json.encode(json.decode(text)), text, "encodes and decodes: " .. s)
  end
  tap.is(json.encode{a = 8.0, b = 8, c = 1e300, d = -0.0}, '{\n  "a": 8.0,\n  "b": 8,\n  "c": 1e+300,\n  "d": -0.0\n}',
    "a float is written with a point or an exponent, and read as a float")
  tap.is(json.encode{1e-05, 0.1, 1 / 3, 0.1 + 0.2, 2.0 ^ 63},
    "[\n  1e-05,\n  0.1,\n  0.3333333333333333,\n  0.30000000000000004,\n  9.223372036854776e+18\n]",
    "a float has as few digits as needed")
  tap.is(json.encode(json.decode('{"b": [1, 2.5, "x"], "a": null, "c": []}')),
    '{\n  "a": null,\n  "b": [\n    1,\n    2.5,\n    "x"\n  ],\n  "c": []\n}', "names are sorted")
  tap.is({json.decode('"\\u00e9\\t"'), math.type(json.decode("3")), math.type(json.decode("3.0"))}, {"é\t", "integer", "float"},
    "text and numbers are read")
  tap.is(json.decode("null"), json.null, "null has a value")
  tap.is({json.decode('"a\\u0000b"'), #json.decode("[]"), getmetatable(json.decode("[]")) == getmetatable(json.array{})}, {"a\0b", 0, true},
    "a string may have a zero byte; an array is marked")
  for _, text in ipairs{"1000000000000000019884624838656", "-9223372036854775809", "9223372036854775808"} do
    local large = json.decode(text)
    tap.is({math.type(large), large}, {"float", tonumber(text)}, "an integer of more than 64 bits is read as a float: " .. text)
    for _, other in ipairs{"3", "3.0", "3e0", "-0.0", "9007199254740993", "-9223372036854775808", "9223372036854775807", "0.1",
      "1e22", "null", "true", "[]", '"' .. text .. '"', '"\\"' .. text .. '"', '"' .. text .. '\\\\"', ('{"%s":%s}'):format(text, '"x"')} do
      local alone, beside = json.decode(other), json.decode(("[%s, %s,%s ]"):format(text, other, text))
      tap.is({tostring(math.type(beside[2])), json.encode(beside)},
        {tostring(math.type(alone)), json.encode(json.array{large, alone, large})},
        ("%s is read equally beside %s"):format(other, text))
    end
  end
  tap.is({table.unpack(json.decode("[-9223372036854775808, 9223372036854775807]"))}, {math.mininteger, math.maxinteger}, "all integers are read")
  for _, s in ipairs{"", "{", '{"a" 1}', '{"a": 1,}', "[1 2]", '"\\x"', '"\\ud83d"', "01", "1.", "tru", '{"a": 1, "a": 2}', "1 2",
    '"\n"', ("["):rep(300), ("["):rep(2049) .. ("]"):rep(2049), '{"\\u0000": 1}', "1e999", "1" .. ("0"):rep(400), '"\255"', "1\0",
    "[true\0]", '"\0"', "-",
    "12345678901234567890123.", "012345678901234567890123", "-12345678901234567890123-", '[12345678901234567890123, "\\'} do
    tap.fails(function() json.decode(s, "x.json") end, {"x.json: line"}, ("refused: %q"):format(s:sub(1, 26)))
  end
  -- Changes one to four places of model files. A changed file must be rejected with file and line, or give a text
  -- that encodes and decodes to itself.
  math.randomseed(tap.seed(6))
  local whole = {'{"a": 1, "b": [1, 2.5, "x\\u00e9\\ud83d\\ude00"], "c": null, "d": true, "e": {}, "f": [[], [{}]], "g": -1e-3}',
    '["", "\\n\\"\\\\", 0, -0, 1e5, 123456789012345678901]'}
  local letters, wrong, taken = '{}[]",:\\u0123456789eE+-.ntfr dDx\0\1\127\255', {}, 0
  for i = 1, 20000 do
    local text = whole[i % 2 + 1]
    for _ = 1, math.random(4) do
      local at, k, cut = math.random(#text), math.random(#letters), math.random(0, 2)
      text = text:sub(1, at - 1) .. (math.random(3) > 1 and letters:sub(k, k) or "") .. text:sub(at + cut)
    end
    local good, value = pcall(json.decode, text, "x.json")
    if not good and not value:find("x.json: line %d+ is not JSON: ") then wrong[#wrong + 1] = text .. ": " .. value end
    local again = good and json.encode(value)
    if good and json.encode(json.decode(again)) ~= again then wrong[#wrong + 1] = text .. ": " .. again end
    taken = taken + (good and 1 or 0)
  end
  tap.is({wrong, taken > 500}, {{}, true}, ("of 20,000 changed texts %d are JSON and decode again, the rest is refused"):format(taken))
  local loop = {}
  loop[1] = loop
  for _, v in ipairs{print, {a = print}, {coroutine.create(print)}, {[1.5] = 2}, {a = 0 / 0}, loop, {a = loop}} do
    tap.fails(function() json.encode(v) end, {"json: "}, "a value that JSON does not have is refused")
  end
  tap.fails(function() json.encode() end, {"json: "}, "nil is refused")
end)

tap.group("states", function()
  local state_text = require "rille.base.state_text"
  local values = {0, -0.0, 1 / 3, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, math.huge, -math.huge, math.maxinteger,
    math.mininteger, 3.0, "", "inf", "\0", "\0inf", "\0\0-inf", "null", "1e999", "\1\127\"\\é\u{10FFFF}", true, false}
  local function exact(a, b)
    if type(a) ~= "number" then return a == b end
    return math.type(a) == math.type(b) and string.pack("n", a) == string.pack("n", b)
  end
  for i, v in ipairs(values) do
    local back = state_text.decode(assert(state_text.encode({v, {x = {v}}}, "state")))
    tap.ok(exact(v, back[1]) and exact(v, back[2].x[1]), ("value %d, %q, is read as written"):format(i, v))
  end
  local nan = state_text.decode(state_text.encode(0 / 0, "state"))
  tap.ok(nan ~= nan, "NaN is read as NaN")
  local deep = {}
  for _ = 1, 999 do deep = {deep} end
  tap.ok(state_text.decode(state_text.encode(deep, "state")), "1,000 nested tables are read as written")
  for _, v in ipairs{{["\0"] = 1}, {["\255"] = 1}, "\255", {deep}, print, {[2] = 1}, {1, x = 1}} do
    local text, why = state_text.encode(v, "state")
    tap.ok(not text and why:find("state", 1, true), "a value that cannot be read back is refused: " .. tostring(why))
  end
end)

-- Checks the balance loss of experts, a single number. Its gradient must reach all blocks, on any devices.
tap.group("balance", function()
  local function mesh(ranks) return rille.placement("cpu", ranks) end
  local function balance(place, recipe, how)
    rille.manual_seed(6)
    local m = rille.models.moe.new{vocab = 31, length = 8, layers = 3, heads = 2, width = 16, experts = 4, placement = place}
    if recipe then rille.parallel(m, recipe) end
    local ids = tap.list(4, function(i) return {i, 2 * i, 3 * i, 30 - i} end)
    ids = rille.tensor(ids, {dtype = "i64"}):to_global(rille.parallel.input(m))
    local where = rille.parallel.labels(m)
    local function step(x)
      local loss = m(x):square():mean() + m:balance() * 0.1
      loss:backward()
      return loss, m:balance()
    end
    local loss, even = (how == "compiled" and rille.graph(step) or step)(ids)
    local r = {loss:item(), even:item()}
    for i, b in ipairs(m.h) do r[#r + 1] = b.mlp.router.weight.grad:totable() end
    return r, even.placement == where.placement
  end
  local want = balance(mesh{0})
  for name, case in pairs{["two stages"] = {mesh{0}, {stages = {mesh{0}, mesh{1}}}},
    ["stages of a mesh"] = {mesh{0, 1}, {data = 0, stages = {mesh{0, 1}, mesh{2, 3}}}},
    ["three stages on two devices"] = {mesh{0}, {stages = {mesh{0}, mesh{1}, mesh{0}}}},
    ["experts over a mesh"] = {mesh{0, 1}, {tensor = 0}}} do
    for _, how in ipairs{"plain", "compiled"} do
      local got, at_end = balance(case[1], case[2], how)
      tap.near(got, want, ("%s, %s: the same balance and gradients"):format(name, how), 1e-4, 1e-6)
      tap.ok(at_end, "the balance is on the placement of the loss")
    end
  end
end)

-- Checks that a long context uses memory only for its used part: tables of positions grow with the used positions.
tap.group("a long context", function()
  local function texts(length)
    rille.manual_seed(1)
    local m = rille.models.llama.new{vocab = 50, length = length, layers = 2, heads = 4, kv_heads = 2, width = 16}
    local x, list = rille.randint(0, 50, {2, 200}), {}
    local step = rille.graph(function(ids) return m(ids) end)
    for i, n in ipairs{3, 100, 64, 200, 65} do
      list[i] = {m(x:slice(1, 0, n)):totable(), step(x:slice(1, 0, n)):totable()}
    end
    list[#list + 1] = m:generate({{1, 2, 3}, {4, 5}}, {max_new_tokens = 150, temperature = 0})
    return list
  end
  tap.is(texts(10000000000), texts(200), "a model of 10,000,000,000 positions equals one of 200 on the first 200")
end)

tap.done()
