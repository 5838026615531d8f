-- stacked.lua - tests that linear layers with one input become one product under rille.autocast (lua/nn/base/stacked.lua).
--
-- In every layout, results and gradients must equal those of separate layers. Layers must stay separate if they
-- differ from each other or have a user's forward method.
local tap = dofile("t/lib/tap.lua")
local nn, optim = rille.nn, rille.optim
local stacked = require "rille.nn.base.stacked"
local function mesh(ranks) return rille.placement("cpu", ranks) end
local P1, P2, P4, P22 = mesh{0}, mesh{0, 1}, mesh{0, 1, 2, 3}, mesh{{0, 1}, {2, 3}}

local function under(fn, ...) return rille.autocast("bf16", fn, ...) end

-- Returns the number of tasks with this name on rank 0.
local function count(step, name)
  local n = 0
  for word in tostring(step:plan{physical = true}):gmatch("\n%s+%d+%s+(%S+)%s+cpu:0 ") do
    if word:match("^[^+]+") == name then n = n + 1 end
  end
  return n
end

-- ---- separate and joined layers in every layout ----

-- Returns a matrix of small integers, which are exact in 16 bits.
local function numbers(shape, step, place, sbp)
  local t = (rille.arange(tap.numel(shape)) * step % 5 - 2):to("f32"):reshape(shape)
  return place and t:to_global{placement = place, sbp = sbp} or t
end

-- with these sizes, gradients exceed 256, and bf16 does not represent all integers beyond 256
local D <const>, LENGTH <const> = 8, 96

local function layers(place, weight, bias)
  local list = {}
  for i = 1, 3 do
    local m = nn.Linear(D, D, {bias = bias ~= nil})
    rille.no_grad(function()
      m.weight:copy_(numbers({D, D}, 2 * i + 1))
      if bias then m.bias:copy_(numbers({D}, i)) end
    end)
    m.weight:to_global_{placement = place, sbp = weight}
    if bias then m.bias:to_global_{placement = place, sbp = bias} end
    list[i] = m
  end
  return list
end

local function apart(x, list) return tap.list(list, function(m) return m(x) end) end

-- Returns the results of the layers, and the gradients of x and all parameters. All numbers are integers.
local function values(products, x, list, compiled)
  local learned, scale = {x}, {}
  for i, m in ipairs(list) do
    for _, p in ipairs(m:parameters()) do learned[#learned + 1] = p end
    scale[i] = numbers({2, LENGTH, D}, i + 6, x.placement, x.sbp:gsub("S%(2%)", "B"))
  end
  local function run()
    local out, loss = under(products, x, list), 0
    for i, y in ipairs(out) do loss = loss + (y:to("f32") * scale[i]):sum() end
    return out[1], out[2], out[3], rille.grad(loss, learned)
  end
  return tap.list({(compiled and rille.graph(run) or run)()}, function(t) return {t.dtype, t:to("f32"):totable()} end)
end

local layouts = { -- Columns: mesh; layouts of weights, biases and inputs.
  {P1, "B", "B", {"B"}},
  {P2, "B", "B", {"B", "S(0)", "S(1)", "S(2)"}},
  {P2, "S(0)", "S(0)", {"B", "S(0)", "S(1)"}},
  {P2, "S(0)", "B", {"B", "S(1)"}},
  {P2, "S(1)", "B", {"B", "S(2)", "S(0)"}},
  {P4, "S(0)", "S(0)", {"B"}},
  {P22, {"B", "S(0)"}, {"B", "S(0)"}, {{"S(0)", "B"}, {"B", "B"}}},
  {P22, {"S(0)", "S(0)"}, {"S(0)", "S(0)"}, {{"B", "B"}}},
  {P22, {"S(0)", "S(0)", order = {1, 0}}, {"S(0)", "S(0)", order = {1, 0}}, {{"B", "B"}}},
  {P22, {"S(1)", "S(0)"}, {"B", "S(0)"}, {{"S(2)", "B"}, {"S(0)", "B"}}},
  {P22, {"B", "B"}, {"B", "B"}, {{"S(0)", "S(1)"}}},
}

local function text(sbp) return type(sbp) == "table" and table.concat(sbp, " ") .. (sbp.order and " in reverse order" or "") or sbp end

tap.group("layouts", function()
  for _, case in ipairs(layouts) do
    local place, weight, bias, inputs = table.unpack(case)
    for _, input in ipairs(inputs) do
      for _, b in ipairs{bias, false} do
        for _, compiled in ipairs{false, true} do
          local x = numbers({2, LENGTH, D}, 3, place, input):detach():requires_grad_(true)
          local list = layers(place, weight, b or nil)
          local got = values(stacked.products, x, list, compiled)
          tap.is(got, values(apart, x, list, compiled), ("weights %s on %s, x %s, bias %s%s: values are those of separate layers"):format(text(weight),
            tostring(place), text(input), text(b), compiled and ", compiled" or ""))
        end
      end
    end
  end
end)

tap.group("uneven rows", function()
  local P3 = mesh{0, 1, 2}
  tap.is(under(stacked.products, numbers({2, LENGTH, D}, 3, P3, "B"), layers(P3, "S(0)", "S(0)")), nil, "layers stay separate")
end)

-- Checks weights split by rows: ranks must send each other no more bytes than with separate layers.
tap.group("moves", function()
  for _, case in ipairs(layouts) do
    local place, weight, bias, inputs = table.unpack(case)
    local list, x = layers(place, weight, bias), numbers({2, LENGTH, D}, 3, place, inputs[1])
    local function bytes(products)
      local step = rille.graph(function(v)
        local out = under(products, v, list)
        return out[1], out[2], out[3]
      end)
      step(x)
      return step:explain().bytes
    end
    tap.ok(bytes(stacked.products) <= bytes(apart), ("weights %s on %s: no more bytes are moved"):format(text(weight), tostring(place)))
  end
end)

-- ---- layers of attention ----

local function attention(options)
  rille.manual_seed(3)
  return nn.MultiheadAttention(16, 4, options)
end

-- Returns the number of matrix products in a forward pass, without the two inside attention.
local function products(m, how)
  local x = rille.randn{2, 20, 16}
  local other = rille.randn{2, 20, 16}
  local function forward(v, w)
    if how == "cross" then return m(v, w) end
    return how == "same" and m(v, v, v) or m(v)
  end
  local cast = how == "f32" and function(f, ...) return f(...) end or under
  local step = rille.graph(function(v, w) return cast(forward, v, w) end, {auto_parallel = how == "planned" or nil})
  step(x, other)
  return count(step, "matmul") - 2, step, x, other
end

local Own = nn.Linear:extend("Own")
local changes = { -- changes of one layer, each of which must keep the layers separate
  ["a forward of its own"] = function(m) m.k_proj.forward = function(self, x) return nn.Linear.forward(self, x) end end,
  ["a subclass"] = function(m) m.v_proj = Own(16, 16) end,
  ["a pinned layer"] = function(m) rille.parallel(m, {q_proj = {input = "B"}}) end,
  ["16-bit weights"] = function(m) m.k_proj:to("bf16") end,
  ["a layer without bias"] = function(m) m.k_proj.bias = nil end,
  -- an int8 layer computes a product if there are many rows
  ["int8 weights"] = function(m) m.v_proj = require "rille.nn.int8_linear"(m.v_proj) end,
}

tap.group("attention", function()
  tap.is(products(attention()), 2, "queries, keys and values are one product, the output is another")
  tap.is(products(attention(), "same"), 2, "the same if query, key and value are given")
  tap.is(products(attention{bias = false}), 2, "the same without biases")
  local again = attention()
  again.q_proj:recompute()
  tap.is(products(again), 2, "the same if one layer is recomputed")
  tap.is(products(attention{kv_heads = 2}), 4, "layers for fewer key heads stay separate")
  tap.is(products(attention(), "cross"), 4, "layers of another input stay separate")
  tap.is(products(attention(), "f32"), 4, "without autocast all layers stay separate")
  tap.is(products(attention(), "planned"), 4, "with a planner all layers stay separate")
  for name, change in pairs(changes) do
    local m = attention()
    change(m)
    tap.is(products(m), 4, name .. ": layers stay separate")
  end
  tap.fails(function() under(attention(), rille.randn{2, 6, 12}) end, "in nn.MultiheadAttention.q_proj", "an input of another width is refused by the layer")
end)

-- Gives q_proj a forward method of its own, which keeps all three layers separate.
local function keep_apart(m) m.q_proj.forward = function(self, x) return nn.Linear.forward(self, x) end end

tap.group("in use", function()
  local m = attention()
  local n, step, x, other = products(m)
  keep_apart(m)
  step(x, other)
  tap.is({n, count(step, "matmul") - 2}, {2, 4}, "a compiled step follows the layers")
  local names = tap.all(m:named_parameters())
  tap.is(names, {"q_proj.weight", "q_proj.bias", "k_proj.weight", "k_proj.bias", "v_proj.weight", "v_proj.bias", "out_proj.weight",
    "out_proj.bias"}, "parameters are those of the layers")
  local texts = {}
  for _, change in ipairs{function() end, keep_apart} do
    rille.manual_seed(7)
    local model = rille.models.gpt2.new{vocab = 37, length = 16, layers = 2, heads = 4, width = 16}
    for _, block in ipairs(model.h) do change(block.attention) end
    texts[#texts + 1] = under(model.generate, model, {{3, 1, 4}, {1, 5}}, {max_new_tokens = 8, temperature = 0})
  end
  tap.is(texts[1], texts[2], "text generated with a cache is the same")
end)

-- Runs three steps of a block, with and without recompute, in train mode with dropout and in eval mode.
tap.group("training", function()
  local function losses(change, again, evaluates)
    rille.manual_seed(5)
    local block = nn.TransformerBlock(16, 4, {dropout = 0.1})
    change(block.attention)
    if again then block:recompute() end
    if evaluates then block:eval() end
    local opt, x, out = optim.AdamW(block:parameters(), {lr = 1e-2}), rille.randn{2, 20, 16}, {}
    local step = tap.training(opt, function(v) return under(block, v):square():mean() end)
    for i = 1, 3 do out[i] = step(x):item() end
    return out
  end
  for _, evaluates in ipairs{false, true} do
    local want, mode = losses(keep_apart, false, evaluates), evaluates and "eval" or "train"
    local got = losses(function() end, false, evaluates)
    tap.near(got, want, mode .. ": losses are those of separate layers", 1e-3)
    tap.is(losses(function() end, true, evaluates), got, mode .. ": recompute gives the same bits")
  end
end)

tap.done()
