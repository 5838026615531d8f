-- parallel.lua - tests that every recipe of rille.parallel gives the losses of one device and the same generated text.
--
-- The returned table of layouts can be printed, edited and applied again. A recipe that does not fit must be rejected
-- and must change nothing.
local tap = dofile("t/lib/tap.lua")
local nn, optim = rille.nn, rille.optim
local function mesh(ranks) return rille.placement("cpu", ranks) end
local P1, P2, P4, P8 = mesh{0}, mesh{0, 1}, mesh{0, 1, 2, 3}, mesh{0, 1, 2, 3, 4, 5, 6, 7}
local Q4 = mesh{4, 5, 6, 7}
local P22, P24, P23 = mesh{{0, 1}, {2, 3}}, mesh{{0, 1, 2, 3}, {4, 5, 6, 7}}, mesh{{0, 1, 2}, {3, 4, 5}}
local Q22 = mesh{{4, 5}, {6, 7}}
local P222 = mesh{{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}}

local long = os.getenv("RILLE_LONG") -- RILLE_LONG=1 tries every recipe for every model, and generated text

local sizes = {
  gpt2 = {vocab = 37, length = 8, layers = 2, heads = 4, width = 16},
  llama = {vocab = 37, length = 8, layers = 2, heads = 4, kv_heads = 2, width = 16, hidden = 24},
  moe = {vocab = 37, length = 8, layers = 2, heads = 4, width = 16, experts = 4},
}
local function whole(place) local t = {}; for i = 1, #place.shape do t[i] = "B" end; return t end
local function new(kind, place, layers, of)
  rille.manual_seed(7)
  local given = tap.with((of or sizes)[kind])
  given.layers = layers or given.layers
  local m = rille.models[kind].new(given)
  return m:to_global{placement = place, sbp = whole(place)}
end

local rows = tap.rows(8, 8, function(r, i) return (r * 7 + i * 5) % 37 end)
local labels = tap.rows(8, 8, function(r, i) return (r * 7 + i * 5 + 5) % 37 end)
local function ids(t, how) return rille.tensor(t, {dtype = "i64"}):to_global(how) end

-- Trains two or three steps with clipping. Returns the losses and the optimiser.
local function train(m, pieces, schedule)
  local x, y = ids(rows, rille.parallel.input(m)), ids(labels, rille.parallel.labels(m))
  local opt, out = optim.AdamW(m:parameters(), {lr = 1e-2}), {}
  local function step(a, b)
    local logits = m(a)
    local loss = logits:reshape{-1, 37}:cross_entropy(b:reshape{-1})
    loss:backward()
    optim.clip_grad_norm(m:parameters(), 0.5)
    opt:step(); opt:zero_grad()
    return loss
  end
  local run = pieces and rille.graph(step, {micro_batches = pieces, schedule = schedule or "1f1b"}) or step
  for i = 1, long and 3 or 2 do out[i] = run(x, y):item() end
  return out, opt
end
local function text(m) return m:generate({{3, 1, 4}, {1, 5}}, {max_new_tokens = 3, seed = 2, temperature = 0.7}) end

local recipes = { -- Columns: name, mesh, recipe, micro-batches, model kinds to skip.
  {"data", P8, {data = 0}},
  {"data over two axes", P24, {data = {0, 1}}},
  {"1D", P2, {tensor = 0}, 2},
  {"1D, heads on 4", P4, {tensor = 0}, nil, {llama = true}},
  {"data x 1D", P22, {data = 0, tensor = 1}, 2},
  {"1D x data", P22, {data = 1, tensor = 0}},
  {"1D with sequence", P2, {tensor = 0, sequence = true}},
  {"data x 1D with sequence", P22, {data = 0, tensor = 1, sequence = true}},
  {"2D", P22, {tensor = {0, 1}, method = "2d"}, 2},
  {"2D, panels", P22, {tensor = {0, 1}, panels = 2}, 2},
  {"2D, axes exchanged", P22, {tensor = {1, 0}}},
  {"2D, rectangular", P24, {tensor = {0, 1}, method = "2d"}, nil, {llama = true}},
  {"2.5D", P222, {tensor = {0, 1, 2}, method = "2.5d"}},
  {"3D", P222, {tensor = {0, 1, 2}, method = "3d"}},
  {"3D, axes exchanged", P222, {tensor = {2, 0, 1}, method = "3d"}},
  {"data x 2D", P222, {data = 2, tensor = {0, 1}}},
  {"zero 1", P4, {data = 0, zero = 1}, 2},
  {"zero 2", P4, {data = 0, zero = 2}, 1},
  {"zero 3", P4, {data = 0, zero = 3}, 2},
  {"zero 3 x 1D", P22, {data = 0, tensor = 1, zero = 3}},
  {"zero 2 x 2D", P222, {data = 0, tensor = {1, 2}, zero = 2}},
  {"stages", P4, {stages = {P1, mesh{1}}}, 4},
  {"stages, eager", P4, {stages = {P2, mesh{2, 3}}}},
  {"stages x 1D", P2, {stages = {P2, mesh{2, 3}}, tensor = 0}, 2},
  {"stages x data x 1D", P22, {stages = {P22, Q22}, data = 0, tensor = 1}},
  {"stages x 2D", P22, {stages = {P22, Q22}, tensor = {0, 1}}, 2},
  {"stages x zero 3", P22, {stages = {P4, Q4}, data = 0, zero = 3}, 1},
  {"zero 3 x 1D, micro-batches", P22, {data = 0, tensor = 1, zero = 3}, 2},
}
for _, kind in ipairs{"gpt2", "llama", "moe"} do
  tap.group(kind, function()
    local one = new(kind, P1)
    local want, said = train(one), text(one)
    tap.ok(want[#want] < want[1], kind .. ": the loss falls on one device")
    for i, r in ipairs(recipes) do
      if not (r[5] and r[5][kind]) and (kind == "gpt2" or long or i % 4 == 3) and tap.share() then
        local m = new(kind, r[2])
        local t = rille.parallel(m, r[3])
        tap.near(train(m), want, ("%s: %s"):format(kind, r[1]), 2e-4, 1e-5)
        if long or i % 2 == 0 then tap.is(text(m), said, ("%s: %s generates the same text"):format(kind, r[1])) end
        if r[4] and kind == "gpt2" then
          m = new(kind, r[2])
          rille.parallel(m, t)
          tap.near(train(m, r[4]), want, ("%s: %s, compiled, applied from its table, %d micro-batches"):format(kind, r[1], r[4]), 2e-4, 1e-5)
        end
      end
    end
  end)
end

-- Checks layers of queries, keys and values under autocast. They may be joined into one product
-- (lua/nn/base/stacked.lua), which must be split like three separate products.
tap.group("under autocast", function()
  local function losses(m, pieces) return rille.autocast("bf16", train, m, pieces) end
  local plain, want = train(new("gpt2", P1)), losses(new("gpt2", P1))
  tap.near(want, plain, "losses are near those of f32", 2e-2, 1e-3)
  for _, r in ipairs(recipes) do
    if not tap.share() then goto next end
    local m = new("gpt2", r[2])
    rille.parallel(m, r[3])
    tap.near(losses(m, r[4]), want, r[1] .. (r[4] and (", compiled, %d micro-batches"):format(r[4]) or ""), 2e-3, 1e-4)
    ::next::
  end
end)

-- Tries sizes that ranks do not divide: rows, positions, classes, widths, hidden widths, experts and heads are split
-- into unequal shards. Key and value heads are replicated if the number of ranks does not divide their number.
tap.group("sizes that do not divide", function()
  local odd = {
    gpt2 = {vocab = 37, length = 8, layers = 2, heads = 6, width = 18},
    llama = {vocab = 37, length = 8, layers = 2, heads = 9, kv_heads = 3, width = 36, hidden = 25},
    moe = {vocab = 37, length = 8, layers = 2, heads = 6, width = 18, experts = 5},
  }
  local P3, Q3, P32 = mesh{0, 1, 2}, mesh{3, 4, 5}, mesh{{0, 1}, {2, 3}, {4, 5}}
  local over = {
    {"data", P3, {data = 0}},
    {"1D", P2, {tensor = 0}},
    {"1D", P3, {tensor = 0}},
    {"1D", P4, {tensor = 0}},
    {"1D with sequence", P3, {tensor = 0, sequence = true}},
    {"data x 1D", P23, {data = 0, tensor = 1}},
    {"2D", P22, {tensor = {0, 1}}},
    {"2D", P23, {tensor = {0, 1}}},
    {"2D", P32, {tensor = {0, 1}}},
    {"2.5D", P222, {tensor = {0, 1, 2}, method = "2.5d"}},
    {"3D", P222, {tensor = {0, 1, 2}, method = "3d"}},
    {"zero 1", P3, {data = 0, zero = 1}},
    {"zero 3", P4, {data = 0, zero = 3}},
    {"stages x 1D", P3, {stages = {P3, Q3}, tensor = 0}},
  }
  for k, kind in ipairs{"gpt2", "llama", "moe"} do
    local want = train(new(kind, P1, nil, odd))
    for i, r in ipairs(over) do
      if (long or kind == "gpt2" or i % 2 == k % 2) and tap.share() then
        local m = new(kind, r[2], nil, odd)
        rille.parallel(m, r[3])
        tap.near(train(m), want, ("%s: %s on %s"):format(kind, r[1], r[2]), 2e-4, 1e-5)
      end
    end
  end
  -- Tries fewer key and value heads than ranks: 4 and 8 ranks; 8 heads of queries, and 4, 2 or 1 of keys and values.
  for _, kv_heads in ipairs{4, 2, 1} do
    local size = {llama = {vocab = 37, length = 8, layers = 1, heads = 8, kv_heads = kv_heads, width = 16, hidden = 24}}
    local want = train(new("llama", P1, nil, size))
    for _, r in ipairs{{P4, {tensor = 0}}, {P8, {tensor = 0}}, {P8, {tensor = 0, sequence = true}}, {P24, {data = 0, tensor = 1}},
      {P24, {tensor = {0, 1}}}} do
      if tap.share() then
        local m = new("llama", r[1], nil, size)
        local t = rille.parallel(m, r[2])
        tap.near(train(m), want, ("%d heads of keys and values on %s"):format(kv_heads, r[1]), 2e-4, 1e-5)
        local ways = #r[1].shape == 1 and r[1].size or 4
        local k = t["layers.0.attention.k_proj.weight"].sbp
        local split = tostring(k):find("S(0)", 1, true) ~= nil
        tap.is(split, kv_heads % ways == 0, ("%d heads of keys and values on %s: weights are %s"):format(kv_heads, r[1], k))
      end
    end
  end
end)

-- Checks that a schedule search counts all bytes that stages hold, including shards of views.
tap.group("schedules of stages that are split", function()
  local dealings = {
    {{1, 2}, {"auto", "gpipe", "zb-h1", "zb-h2", {memory = 1}, {lag = 3, split_backward = true}}},
    {{1, 2, 1, 2}, {"interleaved", "auto"}},
    {{1, 2, 2, 1}, {"zb-v", "v-half", "v-min"}},
  }
  local split = {
    {"1D", {P2, mesh{2, 3}}, {tensor = 0}},
    {"1D with sequence", {P2, mesh{2, 3}}, {tensor = 0, sequence = true}},
    {"data x 1D", {P22, Q22}, {data = 0, tensor = 1}},
    {"2D", {P22, Q22}, {tensor = {0, 1}}},
  }
  for _, kind in ipairs{"gpt2", "llama", "moe"} do
    local want = train(new(kind, P1, 4))
    for i, how in ipairs(split) do
      for _, dealing in ipairs(kind == "gpt2" and dealings or long and dealings or {dealings[i % 3 + 1]}) do
        for k, schedule in ipairs(dealing[2]) do
          if (kind == "gpt2" and i == 1 or long or k == 1) and tap.share() then
            local recipe = {stages = {}, tensor = how[3].tensor, data = how[3].data, sequence = how[3].sequence}
            for n, stage in ipairs(dealing[1]) do recipe.stages[n] = how[2][stage] end
            local m = new(kind, how[2][1], 4)
            rille.parallel(m, recipe)
            tap.near(train(m, 2, schedule), want, ("%s: stages x %s, %s of %d"):format(kind, how[1],
              type(schedule) == "table" and "limits" or schedule, #dealing[1]), 2e-4, 1e-5)
          end
        end
      end
    end
  end
end)

-- Splits a residual network along the batch; if the recipe names layers, also by channels.
tap.group("resnet", function()
  rille.manual_seed(5)
  local images, classes = rille.randn{8, 1, 8, 8}, rille.randint(0, 3, {8})
  local function losses(place, recipe, pieces)
    rille.manual_seed(7)
    local m, out = rille.models.resnet.new{classes = 3, channels = 1, width = 4, blocks = {1, 2}, placement = place}, {}
    local t = recipe and rille.parallel(m, recipe)
    local opt = optim.AdamW(m:parameters(), {lr = 1e-2})
    local run = tap.training(opt, function(x, y) return m(x):cross_entropy(y) end, {micro_batches = pieces})
    local x, y = images:to_global(rille.parallel.input(m)), classes:to_global(rille.parallel.labels(m))
    for i = 1, 3 do out[i] = run(x, y):item() end
    m:eval()
    out[4] = m(x):square():mean():item() -- eval mode: the norms use their running statistics
    return out, t, m
  end
  local want, want2 = losses(P1), losses(P1, nil, 2)
  tap.ok(want[3] < want[1], "the loss falls")
  local layers = {["blocks.*.conv1"] = "column", ["*.conv2"] = "row"}
  for _, r in ipairs{{"data", P4, {data = 0}}, {"zero 1", P2, {data = 0, zero = 1}}, {"zero 2", P2, {data = 0, zero = 2}},
    {"zero 3 over two axes", P22, {data = {0, 1}, zero = 3}}, {"stages", P1, {stages = {P1, mesh{1}}}},
    {"stages x zero 3", P2, {stages = {P2, mesh{2, 3}}, data = 0, zero = 3}}, {"1D", P2, {tensor = 0, layers = layers}},
    {"data x 1D", P22, {data = 0, tensor = 1, layers = layers}}} do
    if tap.share() then tap.near((losses(r[2], r[3])), want, r[1] .. ": losses are those of one device", 1e-3, 1e-4) end
  end
  tap.near((losses(P1, {stages = {P1, mesh{1}}}, 2)), want2, "stages, two micro-batches", 1e-3, 1e-4)
  local _, t, m = losses(P2, {data = 0, zero = 3})
  tap.is({m.blocks[1].conv1.weight.sbp, rille.parallel.input(m).sbp}, {"S(0)", "S(0)"}, "zero 3 shards a convolution and the batch")
  _, t = losses(P22, {data = 0, tensor = 1, layers = layers})
  local unsplit = tostring(t):match("[^\n]*$")
  tap.ok(unsplit:find("^tensor parallelism does not shard %d+ parameters, which have no role or fewer heads than ranks: conv1%.weight, bn1%.") and unsplit:find("blocks%.%*%.bn1%.weight"),
    "one line names the layers that no tensor axis shards", unsplit)
end)

tap.case("layouts of parameters and state", function()
  local m = new("gpt2", P22)
  rille.parallel(m, {tensor = {0, 1}})
  local fc1 = m.h[1].fc1.weight
  tap.is({fc1.sbp, fc1:to_local(3).shape}, {"(S(1), S(0))", {32, 8}}, "2D splits a weight on both axes")
  m = new("gpt2", P222)
  local t = rille.parallel(m, {tensor = {0, 1, 2}, method = "3d"})
  tap.is({m.h[1].fc1.weight.sbp, m.h[1].fc1.weight:to_local(0).shape, m.h[1].fc2.weight:to_local(0).shape},
    {"(S(1), S(0), S(1)) order (1, 2, 0)", {32, 4}, {8, 16}}, "3D splits a weight on three axes, inputs by k first")
  tap.is(t["h.0.attention.out_proj"], {input = "(S(0), S(-1), B)", output = "(S(0), S(0), S(-1))",
    use = {weight = "(B, S(1), S(0))"}}, "the table has input and output layouts of layers")

  m = new("gpt2", P4)
  local opt = optim.AdamW(m:parameters(), {lr = 1e-2})
  t = rille.parallel(m, {data = 0, zero = 2})
  local function step()
    m(ids(rows, rille.parallel.input(m))):square():mean():backward()
    local g = m.wte.weight.grad
    opt:step(); opt:zero_grad()
    return g
  end
  local g = step()
  tap.is({m.wte.weight.sbp, g.sbp, opt.slots[1].m.sbp, t["wte.weight"].state}, {"B", "S(0)", "S(0)", "S(0)"},
    "zero 2 splits gradients and state, also of an optimiser made before")
  rille.parallel(m, {data = 0})
  g = step()
  tap.is({g.sbp, opt.slots[1].m.sbp}, {"P", "B"}, "without zero, gradients and state have the layout of the parameter again")
  m.wte.weight:to_global_{placement = P4, sbp = "B"}
  rille.parallel(m, {data = 0, zero = 1})
  tap.is({step().sbp, opt.slots[1].m.sbp}, {"P", "S(0)"}, "zero 1 splits only the state")
end)

tap.case("the table", function()
  local runs = rille.counters().runs
  tostring(rille.parallel(rille.models.gpt2.new(sizes.gpt2), {data = 0}))
  tap.is(rille.counters().runs, runs, "laying out a model computes nothing")
  local m = new("gpt2", P22)
  local t = rille.parallel(m, {data = 0, tensor = 1})
  local text_ = tostring(t)
  tap.ok(text_:find("h.0.fc1.weight%s+%(B, S%(0%)%)  on cpu") and text_:find("h.1.fc2%s+output %(S%(0%), B%)"), "the text has layouts and pins",
    text_)
  tap.ok(text_:find("wte.weight") < text_:find("h.0.norm1.weight"), "the text is in the model's order")
  t["h.0.fc1.weight"].sbp = {"B", "B"}
  t["h.0"].output = nil
  t["h.1.fc1"] = {output = {"S(0)", "B"}}
  local again = rille.parallel(m, t)
  tap.is({m.h[1].fc1.weight.sbp, again["h.1.fc1"].output, again["h.0"].output}, {"(B, B)", {"S(0)", "B"}, nil}, "an edited table is applied")
  tap.is(rille.parallel.input(m).sbp, "(S(0), B)", "the input layout is unchanged")
  tap.near(train(m), (train(new("gpt2", P1))), "losses are unchanged", 2e-4, 1e-5)
  local before = m.h[1].fc2.weight.sbp
  tap.is(next(rille.parallel(m, {})["h.0.fc2.weight"]) ~= nil and m.h[1].fc2.weight.sbp, before, "{} changes no layout")
  tap.is(rille.parallel.input(m).sbp, "(B, B)", "{} removes pins and input layouts")
  local net = nn.Sequential(nn.Linear(4, 8), nn.TransformerBlock(8, 2), nn.Linear(8, 3))
  net:to_global{placement = P2, sbp = "B"}
  text_ = tostring(rille.parallel(net, {tensor = 0}))
  tap.is(text_:match("[^\n]*$"), "tensor parallelism does not shard 4 parameters, which have no role or fewer heads than ranks: *.weight, *.bias",
    "an unknown layer stays replicated, and one line says so")
  local unused = "the recipe uses no mesh axis "
  tap.ok(tostring(rille.parallel(new("gpt2", P22), {data = 1})):find(unused .. "0: ranks along this axis repeat the same work", 1, true),
    "a mesh axis that the recipe does not use, and one line says so")
  tap.ok(not tostring(rille.parallel(new("gpt2", P22), {data = {0, 1}})):find(unused, 1, true), "no such line if all axes are used")
end)

-- Checks that the returned table states the bytes of each gather, and that a parameter's entry can keep the gathered
-- value.
tap.case("gathers", function()
  local m = new("gpt2", P4)
  local t = rille.parallel(m, {data = 0, zero = 3, reshard = false})
  local line = tostring(t):match("h%.0%.fc1 [^\n]*")
  local bytes = 3 * 4 * m.h[1].fc1.weight:numel()
  tap.ok(line:find(("weight used as B (%d KiB per gather, kept for backward)"):format(bytes // 1024), 1, true), "bytes of a gather that is kept", line)
  t["h.0.fc1.weight"].reshard = nil
  line = tostring(rille.parallel(m, t)):match("h%.0%.fc1 [^\n]*")
  tap.ok(line:find("weight used as B %([^,]* per gather%)"), "an entry of the table gathers one weight again", line)
end)

-- Checks which list of modules is divided into stages: the longest one, at any depth of the module's tables; of
-- several longest, the first.
tap.case("the list that stages deal", function()
  local names = {"left", "right", "up", "down", "in", "out", "enc", "dec"}
  local function dealt(hold)
    local Net = nn.Module:extend("Net")
    function Net:init()
      self.begin = nn.Linear(4, 4)
      hold(self)
    end
    local m = Net():to_global{placement = P1, sbp = "B"}
    rille.parallel(m, {stages = {P1, mesh{1}}})
    local on = {}
    for name, p in m:named_parameters() do
      if name:find("fc1.weight$") or name == "begin.weight" then on[#on + 1] = p.placement.ranks[1] end
    end
    return table.concat(on, " ")
  end
  local function blocks(n) return tap.list(n, function() return nn.TransformerBlock(4, 2) end) end
  for k = 1, #names do
    local order = table.move(names, k, #names, 1, {})
    table.move(names, 1, k - 1, #order + 1, order)
    tap.is(dealt(function(m) for _, name in ipairs(order) do m[name] = blocks(2) end end),
      "0 0" .. (" 1"):rep(2 * #names - 1), ("of equally long lists, the first: %s"):format(order[1]))
  end
  tap.is(dealt(function(m)
    m.one = blocks(2)
    m.two = blocks(3)
  end), "0 0 0 0 0 1", "the longest list")
  tap.is(dealt(function(m) m.parts = {within = {deep = blocks(4)}} end), "0 0 0 1 1", "a list in nested tables")
  tap.is(dealt(function(m) m[1], m[2] = nn.TransformerBlock(4, 2), nn.TransformerBlock(4, 2) end), "0 0 1", "the model's own list")
  tap.is(dealt(function(m)
    local b = blocks(2)
    m.list = {b[1], b[1], b[2]}
  end), "0 0 1", "a block that occurs twice counts once")
end)

-- Checks that the division of blocks into stages is the best of all divisions.
tap.group("stages by costs of blocks", function()
  local cut = require "rille.parallel.cut"
  local seed = tonumber(os.getenv("SEED")) or os.time()
  print("# SEED=" .. seed)
  math.randomseed(seed)
  local function list(n, most) return tap.list(n, function() return math.random(0, most) end) end
  local flight = {["1f1b"] = function(left) return left end, gpipe = function(_, _, m) return m end, ["zb-h1"] = function(_, p) return p end,
    ["zb-h2"] = function(_, p) return 2 * p - 1 end}
  local contexts = {["v-min"] = {2, 4, 4, 4, 6, 6}, ["v-half"] = {3, 4, 5, 6, 7, 8}, ["zb-v"] = {2, 4, 6, 8, 10, 12}}
  -- Returns the time of a batch, computed by the definition of the schedule; nil if a device exceeds the memory
  -- limit. counts: number of blocks of each stage.
  local function time_of(o, counts, device)
    local t, bytes, largest, before, first, all, held = {}, {}, {}, {}, 1, 0, {}
    for s, count in ipairs(counts) do
      local d, own = device[s], 0
      t[s] = first > 1 and device[s - 1] ~= d and (type(o.hop) == "table" and o.hop[first] or o.hop) or 0
      for k = first, first + count - 1 do
        t[s], own, bytes[d] = t[s] + o.cost[k], own + o.activations[k], (bytes[d] or 0) + o.memory[k]
      end
      if flight[o.schedule] then bytes[d] = bytes[d] + math.min(o.micro_batches, flight[o.schedule](#counts - s + 1, #counts, o.micro_batches)) * own end
      largest[d], held[d] = math.max(largest[d] or 0, own), (held[d] or 0) + 1
      before[s], all, first = all, all + t[s], first + count
    end
    local p, time = #bytes, 0
    for d = 1, p do
      local at_once = contexts[o.schedule] and contexts[o.schedule][p] or o.schedule == "interleaved" and 2 * (p - d) + (held[d] - 1) * p + 1 or 0
      if bytes[d] + math.min(o.micro_batches * held[d], at_once) * largest[d] > o.memory_limit then return nil end
      local load, begin, final = 0, nil, nil
      for s = 1, #counts do
        if device[s] == d then load, begin, final = load + t[s], begin or s, s end
      end
      time = math.max(time, before[begin] + o.micro_batches * load + all - before[final] - t[final])
    end
    return time
  end
  local function exhaustive(o, n, device, counts, left, best)
    if #counts == #device - 1 then
      counts[#device] = left
      local t = time_of(o, counts, device)
      counts[#device] = nil
      return t and math.min(best, t) or best
    end
    for count = 1, left - (#device - #counts - 1) do
      counts[#counts + 1] = count
      best = exhaustive(o, n, device, counts, left - count, best)
      counts[#counts] = nil
    end
    return best
  end
  -- Returns the time of the chosen division into stages, relative to the best division (1 or more); nil if the chosen
  -- division is invalid.
  local function try(schedule, n, device)
    local o = {cost = list(n, 20), memory = list(n, 9), activations = list(n, 5), micro_batches = math.random(1, 6),
      memory_limit = math.random(5, 60), hop = math.random(2) == 1 and list(n, 6) or math.random(0, 5), schedule = schedule}
    local want = exhaustive(o, n, device, {}, n, math.huge)
    local good, counts, time = pcall(cut, o, n, device)
    if not good then return want == math.huge and 1 or nil, want, counts end
    if time ~= time_of(o, counts, device) or time < want then return nil, want, time end
    return want == time and 1 or time / want, want, time
  end
  local function dealt(p, v, back)
    return tap.list(p * v, function(s) return back and s > p and 2 * p + 1 - s or (s - 1) % p + 1 end)
  end
  local wrong = 0
  local function exact(schedule, n, device)
    if not tap.share() then return end
    local ratio, want, got = try(schedule, n, device)
    if ratio == 1 then return end
    wrong = wrong + 1
    print(("# %s, %d blocks, stages on %s: want %s, got %s"):format(schedule, n, table.concat(device, " "), want, got))
  end
  for k = 1, 600 do
    local n = math.random(1, 8)
    exact(({"1f1b", "gpipe", "zb-h1", "zb-h2"})[k % 4 + 1], n, dealt(math.random(1, n), 1))
  end
  tap.is(wrong, 0, "cuts of 600 lists of blocks equal the best of all cuts, for each schedule")
  local more = long and 5 or 1
  for k = 1, 120 * more do
    local n = math.random(2, 10)
    exact(({"1f1b", "zb-h1", "zb-v", "v-half", "v-min"})[k % 5 + 1], n, dealt(math.random(1, math.min(4, n // 2)), 2, true))
  end
  tap.is(wrong, 0, "cuts into stages in folded order equal the best of all cuts")
  local worst, missed = 1, 0
  for k = 1, 80 * more do
    local n, v = math.random(4, 10), math.random(2, 3)
    local device = dealt(math.random(1, n // v), v)
    local ratio, want = 1, 0
    if tap.share() then ratio, want = try(k % 2 == 0 and "interleaved" or "1f1b", n, device) end
    if not ratio and want < math.huge then missed = missed + 1 end
    worst = math.max(worst, ratio or 1)
  end
  print(("# round robin: at most %.2f of the best, %d cuts within memory not found"):format(worst, missed))
  tap.ok(worst < 1.35 and missed <= 3 * more, "cuts into stages round robin are near the best")
  local m = new("gpt2", P1)
  rille.parallel(m, {stages = {P1, P2}, blocks = {cost = {3, 1}, micro_batches = 4}})
  tap.ok(tostring(m:named_parameters() and m.h[1].fc1.weight.placement) ~= tostring(m.h[2].fc1.weight.placement), "blocks of a model are cut by cost")
  m = new("gpt2", P1)
  rille.parallel(m, {stages = {P1, P1}, blocks = {cost = {3, 1}, micro_batches = 4, schedule = "v-half"}})
  tap.is(m.h[2].fc1.weight.placement, P1, "blocks of a model are cut by cost, in folded order")
end)

-- Defines a new kind of mesh axis, "vocabulary", as a user does. It must then be a key of recipes.
tap.case("classes and axes are public", function()
  rille.parallel.axis("vocabulary", {column = "S(0)", logits = "S(-1)"})
  local m = new("gpt2", P4)
  local t = rille.parallel(m, {vocabulary = 0, layers = {["h.*"] = nil}})
  tap.is({t["lm_head.weight"] == nil and t["wte.weight"].sbp, t["h.0.fc2.weight"].sbp}, {"S(0)", "B"}, "an own axis shards what its rules name")
  tap.near(train(m), (train(new("gpt2", P1))), "an own axis: losses of one device", 2e-4, 1e-5)
  local along = {}
  for _, what in ipairs{"stream", "norm", "inner", "wide", "row_in", "logits", "ids", "labels"} do along[what] = "S(1)" end
  rille.parallel.axis("context", along)
  m = new("gpt2", P22)
  t = rille.parallel(m, {data = 0, context = 1})
  tap.is({rille.parallel.input(m).sbp, m.h[1].fc1.weight.sbp}, {"(S(0), S(1))", "(B, B)"}, "an own axis shards the length and no parameter")
  tap.near(train(m), (train(new("gpt2", P1))), "an axis along the length: losses of one device", 2e-4, 1e-5)
  tap.is(rille.parallel.axis("vocabulary"), {column = "S(0)", logits = "S(-1)"}, "an own axis can be read")
  rille.parallel.axis("tensor").column = "S(1)"
  tap.is(rille.parallel.axis("tensor").column, "S(0)", "reading an axis returns a copy")
  local Own = nn.SwiGLU:extend("Own")
  tap.is(rille.parallel.class(Own).row, "down_proj", "a class has the roles of its base class")
  rille.parallel.class(Own, {column = "up_proj"})
  tap.is({rille.parallel.class(Own).row, rille.parallel.class(nn.SwiGLU).row}, {nil, "down_proj"}, "own roles replace those of the base class")
end)

tap.group("mistakes", function()
  local function refused(place, recipe, words, name)
    if not tap.share() then return end
    local m = new("gpt2", place)
    rille.parallel(m, {data = 0})
    local layouts = {}
    for n, p in m:named_parameters() do layouts[n] = p.sbp end
    words[#words + 1] = "parallel.lua"
    tap.fails(function() rille.parallel(m, recipe) end, words, name)
    local same = rille.parallel.input(m).sbp ~= "B" and #place.shape == 1 or #place.shape > 1
    for n, p in m:named_parameters() do same = same and layouts[n] == p.sbp end
    tap.ok(same, name .. ": nothing was changed")
  end
  refused(P22, {tensor = {0, 1}, panels = 3}, {"width of 16", "3 panels", "multiple of 6"}, "panels that do not divide")
  refused(P22, {data = 0, tensor = 1, panels = 2}, {"panels", "2d", "1d"}, "panels of 1D")
  refused(P4, {tensor = 1}, {"a mesh axis must be from 0 to 0, found 1"}, "an axis that does not exist")
  refused(P4, {tensor = "x"}, {"must be an integer", "x"}, "an axis that is no number")
  refused(P22, {data = 0, tensor = 0}, {"axis 0", "data and tensor"}, "one axis twice")
  refused(P22, {tensor = {0, 1}, method = "5d"}, {"'5d'", "1d, 2.5d, 2d, 3d"}, "an unknown method")
  refused(P22, {tensor = {0, 1}, method = "3d"}, {"3d needs 3", "names 2"}, "too few axes")
  refused(P222, {tensor = {0, 1, 2}}, {"2.5d", "3d"}, "three axes and no method")
  refused(P222, {tensor = {0, nil, 2}, method = "3d"}, {"axis must be an integer", "nil"}, "tensor axes with a hole")
  for n, axes in pairs{[0] = {}, [4] = {0, 1, 2, 3}} do
    refused(P222, {tensor = axes}, {("tensor must name 1, 2 or 3 mesh axes, found %d"):format(n)}, n .. " tensor axes")
  end
  refused(mesh{{{0}, {1}}}, {tensor = {0, 1, 2}, method = "2.5d"}, {"2.5d", "1 and 2", "of 2 ranks 1 x 1 x 2 would do"}, "2.5D that is not square")
  refused(mesh{{{0, 1}, {2, 3}, {4, 5}, {6, 7}}}, {tensor = {0, 1, 2}, method = "2.5d"}, {"1 and 4", "of 8 ranks 1 x 1 x 8, 2 x 2 x 2 would do"},
    "2.5D on a mesh for which a square one exists")
  refused(P22, {data = 0, tensor = 1, method = "2d", sequence = true}, {"2d needs 2"}, "a method for other axes")
  refused(P22, {tensor = {0, 1}, sequence = true}, {"sequence", "1d"}, "sequence with 2D")
  refused(P4, {data = 0, sequence = true}, {"sequence", "tensor"}, "sequence alone")
  refused(P4, {tensor = 0, sequence = 1}, {"sequence must be true or false", "1"}, "sequence as a number")
  refused(P4, {stages = {P4, nil, P4}}, {"stages[2]", "nil"}, "stages with a hole")
  refused(P22, {data = {0, nil, 1}}, {"axis must be an integer", "nil"}, "axes with a hole")
  refused(P4, {stages = {rille.zeros{1}}}, {"stages[1]", "placement"}, "a tensor as stage")
  refused(P4, {data = 0, zero = 4}, {"zero", "3", "4"}, "zero 4")
  refused(P4, {zero = 1}, {"zero", "data"}, "zero without data")
  refused(P4, {tensr = 0}, {"'tensr'", "tensor"}, "an unknown name")
  refused(P4, {stages = {P1, P2, P4}}, {"3 stages", "2 blocks"}, "more stages than blocks")
  refused(P4, {stages = {P1, "cpu"}}, {"stages[2]", "placement"}, "a stage that is no placement")
  refused(P4, {data = 0, chunks = 2}, {"chunks", "stages"}, "chunks without stages")
  refused(P4, {data = 0, blocks = {cost = {1, 2}}}, {"blocks", "stages"}, "costs of blocks without stages")
  refused(P4, {stages = {P1, P2}, blocks = {cost = {1}}}, {"cost", "2 numbers"}, "costs of too few blocks")
  refused(P4, {stages = {P1, P2}, blocks = {cost = {1, 2}, schedule = "2f2b"}}, {"schedule", "1f1b", "zb-h2", "v-min", "2f2b"}, "an unknown schedule")
  refused(P4, {stages = {P1, P2}, blocks = {cost = {1, 2}, schedule = "zb-v"}}, {"zb-v", "folded order"}, "stages that do not go back")
  refused(P4, {stages = {P1, P2}, blocks = {cost = {1, 2}, schedule = "interleaved"}}, {"interleaved", "round-robin order"}, "stages that do not recur")
  refused(P4, {stages = {P1, P2}, blocks = {cost = {1, -2}}}, {"cost", "-2"}, "a cost below zero")
  refused(P4, {stages = {P1, P2}, blocks = {cost = {1, 2}, memory = {5, 5}, memory_limit = 4}}, {"2 stages", "memory_limit"},
    "a memory limit that no cut meets")
  refused(P4, {stages = {P1, P2}, blocks = {costs = {1, 2}}}, {"'costs'", "cost"}, "an unknown name of blocks")
  refused(P4, {["h.0.fc3"] = {output = "B"}}, {"'h.0.fc3'", "no module"}, "a name that does not exist")
  refused(P4, {["wte.weight"] = {sbp = "S(5)"}}, {"'wte.weight'", "S(5)"}, "a layout that does not fit")
  refused(P4, {["wte.weight"] = {output = "B"}}, {"'wte.weight'", "parameter", "'output'"}, "a pin of a parameter")
  refused(P4, {["h.0"] = {sbp = "B"}}, {"'h.0'", "module", "'sbp'"}, "a layout of a module")
  for _, key in ipairs{"input", "output"} do
    for _, sbp in ipairs{"S(0", "S(8)", "X", 3, {"S(0)", "B"}} do
      refused(P4, {["h.0"] = {[key] = sbp}}, {"'h.0'", key}, ("an invalid %s layout: %s"):format(key, type(sbp)))
    end
  end
  refused(P4, {["h.0"] = {placement = "cpu"}}, {"'h.0'", "placement", "cpu"}, "a pin with an invalid placement")
  refused(P4, {["h.0.fc1"] = {use = {wieght = "B"}}}, {"'h.0.fc1'", "wieght"}, "a use of an unknown parameter")
  refused(P4, {data = 0, zero_axes = 0}, {"zero_axes", "found 0"}, "zero_axes without zero")
  refused(P22, {data = 0, zero = 1, zero_axes = 1}, {"zero_axes must be data axes, found 1"}, "ZeRO over an axis that is no data axis")
  refused(P22, {data = 0, zero = 1, zero_axes = {}}, {"zero_axes", "at least one"}, "ZeRO over no axis")
  refused(P22, {data = 0, zero = 1, zero_axes = "x"}, {"zero_axes", "x"}, "a name as ZeRO axis")
  refused(P4, {data = 0, zero = 2, reshard = false}, {"reshard", "gathers no weights", "zero = 3"}, "reshard of a recipe that gathers nothing")
  refused(P4, {data = 0, zero = 3, reshard = 1}, {"reshard must be true or false", "1"}, "reshard as a number")
  refused(P4, {["h.0.fc1.weight"] = {reshard = "no"}}, {"'h.0.fc1.weight'", "reshard must be true or false", "no"}, "reshard of a parameter as text")
  refused(P4, {data = 0, members = {"h.*"}}, {"members", "stages"}, "members without stages")
  refused(P4, {stages = {P1, P2}, members = {"g.*"}}, {"members: 'g.*' matches no name", "wte, wpe"}, "a pattern of members that matches nothing")
  refused(P4, {stages = {P1, P2}, members = "h.*"}, {"members must be a list", "h.*"}, "members as text")
  refused(P4, {stages = {P1, P2}, members = {3}}, {"members", "patterns", "3"}, "a number as member")
  refused(P4, {tensor = 0, layers = {["*.fc9"] = "column"}}, {"layers: '*.fc9' matches no name", "wte"}, "a pattern of layers that matches nothing")
  refused(P4, {tensor = 0, layers = {["*.fc1"] = "colum"}}, {"'*.fc1'", "unknown role 'colum'", "column, embedding"}, "an unknown role")
  refused(P4, {tensor = 0, layers = {["*.fc1"] = "column", ["h.*.fc1"] = "row"}}, {"'h.0.fc1'", "column", "row", "keep one"}, "two roles of one layer")
  refused(P4, {tensor = 0, layers = {["h.0"] = "column"}}, {"'h.0'", "without a parameter 'weight'"}, "a role of a module without weight")
  refused(P4, {tensor = 0, layers = "column"}, {"layers must be a table", "column"}, "layers as text")
  local net = nn.Sequential(nn.Linear(4, 4), nn.ReLU()):to_global{placement = P22, sbp = {"B", "B"}}
  tap.fails(function() rille.parallel(net, {data = 0, tensor = 1}) end, {"no parameter of nn.Sequential", "mesh axis 1 (tensor)", "layers ="},
    "a tensor axis that splits nothing")
  net = nn.Sequential(nn.MixtureOfExperts(4, 8, 4)):to_global{placement = P22, sbp = {"B", "B"}}
  tap.fails(function() rille.parallel(net, {tensor = {0, 1}}) end, {"mesh axis 0 (rows)", "no layer has a role that this axis shards"},
    "roles that an axis does not split")
  tap.fails(function() rille.parallel(nn.ReLU(), {data = 0}) end, {"no parameters", "parallel.lua"}, "a model without parameters")
  local function named(roles)
    local Own = nn.Sequential:extend("Own")
    Own.parallel = roles
    return Own(nn.Linear(4, 4)):to_global{placement = P4, sbp = "B"}
  end
  for _, wrong in ipairs{{"column", {"Own.parallel", "a table", "column"}}, {{colum = "0"}, {"Own.parallel", "'colum'"}},
    {{column = {1}}, {"Own.parallel", "column", "names", "1"}}, {{stream = 1}, {"Own.parallel", "stream", "1"}},
    {{column = "0", heads = {["0"] = "heads"}}, {"the number of heads of '0'", "'heads'", "nil"}}} do
    tap.fails(function() rille.parallel(named(wrong[1]), {tensor = 0}) end, wrong[2], "wrong roles of a class: " .. wrong[2][#wrong[2]])
  end
  tap.fails(function() rille.parallel.class(3) end, {"class", "3"}, "roles of a number")
  tap.fails(function() rille.parallel.axis("tensr") end, {"'tensr'", "tensor"}, "an unknown role of an axis")
  tap.fails(function() rille.parallel.axis("tensor", {column = "S(0)"}) end, {"'tensor'", "already"}, "a role of an axis that exists")
  tap.fails(function() rille.parallel.axis("mine", {colum = "S(0)"}) end, {"'colum'", "column"}, "an unknown column")
  tap.fails(function() rille.parallel.axis("mine", {column = "P"}) end, {"'column'", "S(axis)", "P"}, "a column with an impossible layout")
  tap.fails(function() rille.parallel(3, {}) end, {"module", "3", "parallel.lua"}, "an argument that is no module")
  tap.fails(function() rille.parallel(new("gpt2", P1)) end, {"recipe", "nil", "parallel.lua"}, "no recipe")
  tap.fails(function() return rille.parallel.output end, {"output", "axis, class, input, labels"}, "an unknown function")
end)

tap.done()
