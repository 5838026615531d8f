-- blocks.lua - tests rille.parallel with blocks = {input = ids}: estimates per block (lua/parallel/priced.lua).
--
-- The planner's estimates of the blocks must add up to its estimate of the complete model. The estimates decide the
-- division into stages, and the model is left unchanged.
local tap = dofile("t/lib/tap.lua")
local nn = rille.nn
local priced, plan, pin = require "rille.parallel.priced", require "rille.parallel.plan", require "rille.nn.base.pin"
local function mesh(ranks) return rille.placement("cpu", ranks) end
local LINE, GRID = {mesh{0, 1}, mesh{2, 3}, mesh{4, 5}}, {mesh{{0, 1}, {2, 3}}, mesh{{4, 5}, {6, 7}}}

local kinds = {
  gpt2 = function(o) return rille.models.gpt2.new{vocab = o.vocab or 96, length = 16, layers = o.layers or 4, heads = 4, width = 32} end,
  llama = function(o)
    return rille.models.llama.new{vocab = o.vocab or 96, length = 16, layers = o.layers or 4, heads = 4, kv_heads = 2, width = 32, hidden = 48}
  end,
  moe = function() return rille.models.moe.new{vocab = 96, length = 16, layers = 4, heads = 4, width = 32, experts = 4} end,
  resnet = function() return rille.models.resnet.new{classes = 8, channels = 2, width = 8, blocks = {2, 2}} end,
}
local function new(kind, place, o)
  rille.manual_seed(3)
  local m, sbp = kinds[kind](o or {}), tap.list(#place.shape, function() return "B" end)
  return m:to_global{placement = place, sbp = sbp}
end
local function taken(kind) return kind == "resnet" and rille.ones{8, 2, 8, 8} or rille.zeros({8, 16}, {dtype = "i64"}) end
local function blocks_of(m) return m.h or m.layers or m.blocks end
local function sum(list) return tap.sum(list, function(x) return x end) end

local recipes = {{"data", LINE, {data = 0}}, {"1D", LINE, {tensor = 0}}, {"sequence parallel", LINE, {tensor = 0, sequence = true}},
  {"zero 3", LINE, {data = 0, zero = 3}}, {"data x 1D", GRID, {data = 0, tensor = 1}}, {"2D", GRID, {tensor = {0, 1}}}}

-- Returns the planner's report of a step of the complete model, on the mesh of one stage.
local function whole(kind, place, recipe)
  local m = new(kind, place)
  rille.parallel(m, recipe)
  local step = rille.graph(function(x) return tap_backward(m(x):logsumexp(-1):sum()) end,
    {auto_parallel = "propagate", time_limit = 1e-6})
  step(taken(kind):to_global(rille.parallel.input(m)))
  return step:explain()
end

for kind in tap.sorted(kinds) do
  for _, r in ipairs(recipes) do
    if not tap.share() then goto next end
    local name, stages, recipe = kind .. ", " .. r[1] .. ": ", r[2], r[3]
    if kind ~= "resnet" or not recipe.tensor then
      local m = new(kind, stages[1])
      local first = {}
      for _, found in ipairs(m:named_tensors()) do first[found.name] = found.tensor end
      local entries = plan.of(m, tap.with(recipe, {stages = stages})).entries
      local list = priced(m, {table.unpack(blocks_of(m))}, entries, stages, taken(kind))
      local all = whole(kind, stages[1], recipe)
      local ratio, bytes = sum(list.cost) / all.cost, (sum(list.memory) + sum(list.activations)) / all.memory
      tap.ok(ratio > 0.9 and ratio < 1.1, name .. "costs of the blocks add up to the cost of the model", ratio)
      -- The sum over the blocks may exceed the complete model's memory, because each block's estimate includes
      -- working memory.
      tap.ok(bytes > 0.8 and bytes < 2.5, name .. "memory of the blocks adds up to that of the model", bytes)
      tap.ok(kind == "resnet" or list.cost[2] == list.cost[3] and list.memory[2] == list.memory[3] and list.hop[1] == list.hop[4],
        name .. "equal blocks have equal costs")
      local same = true
      for _, found in ipairs(m:named_tensors()) do same = same and first[found.name] == found.tensor end
      for _, part in ipairs(m:modules()) do same = same and not pin.of[part] and rawget(part, "forward") == nil end
      tap.ok(same and next(first), name .. "the model is unchanged")
    end
    ::next::
  end
end

-- ---- dividing blocks into stages ----

-- Returns the number of blocks of each stage.
local function dealt(stages, o, blocks)
  local m = new("gpt2", stages[1], o)
  rille.parallel(m, {data = 0, stages = stages, blocks = blocks})
  local counts = {}
  for k, place in ipairs(stages) do
    counts[k] = 0
    for _, b in ipairs(m.h) do counts[k] = counts[k] + (pin.of[b].placement == place and 1 or 0) end
  end
  return table.concat(counts, " ")
end
local ids = taken("gpt2")
tap.is(dealt(LINE, {layers = 6, vocab = 20000}, {input = ids, micro_batches = 4}), "1 4 1", "a heavy embedding and head leave more blocks to the middle stages")
tap.is(dealt(LINE, {layers = 6}, {input = ids, micro_batches = 4}), "2 2 2", "a light embedding and head do not")
tap.is(dealt(LINE, {layers = 6, vocab = 20000}, {input = ids, cost = {1, 1, 1, 1, 1, 1}, micro_batches = 4}), "2 2 2", "the user's list of costs replaces the estimate")
tap.is(dealt({LINE[1]}, {layers = 3}, {input = ids}), "3", "one stage has all blocks")

-- Finds the least memory limit in the text of an error. With this limit the blocks can be divided into stages; with
-- one byte less they cannot.
local lists = {cost = {1, 1, 1, 1, 1, 1}, memory = {5, 2, 3, 4, 1, 6}, activations = {1, 2, 1, 2, 1, 2}, micro_batches = 4}
local function limited(limit)
  local o = tap.with({memory_limit = limit}, lists)
  return pcall(dealt, LINE, {layers = 6}, o)
end
local least = tonumber(tostring(select(2, limited(0))):match("use memory_limit = (%d+)"))
tap.ok(least and limited(least) and not limited(least - 1), "the least memory limit that the error names has a cut: " .. tostring(least))

-- Tries a model that ends with its last block, so that no parameter follows the block's result.
do
  local function block() return nn.TransformerBlock(16, 2) end
  local bare = nn.Sequential(block(), block(), block(), block())
  bare:to_global{placement = LINE[1], sbp = "B"}
  rille.parallel(bare, {stages = {LINE[1], LINE[2]}, blocks = {input = rille.randn({8, 4, 16}, {placement = LINE[1], sbp = "B"}), micro_batches = 4}})
  tap.is(pin.of[bare[2]].placement == LINE[1] and pin.of[bare[3]].placement == LINE[2], true, "a model of blocks alone is cut")
end

-- ---- errors ----

local function fails(blocks, want, what, stages)
  local m = new("gpt2", (stages or LINE)[1])
  local good, why = pcall(rille.parallel, m, {data = 0, stages = stages or LINE, blocks = blocks})
  tap.ok(not good and tostring(why):find(want, 1, true), what .. ": " .. tostring(why))
  local y = m:forward(rille.zeros({2, 4}, {dtype = "i64", placement = (stages or LINE)[1], sbp = "B"}))
  tap.ok(y.shape[3] == 96 and not next(pin.of, nil) or not pin.of[m.h[1]], "after the error the model is unchanged")
end
fails({input = 3}, "must be a tensor, the model's input of one micro-batch, found 3", "input: no tensor")
fails({input = rille.zeros{8, 16}}, "ids must be integers", "input: ids that are no integers")
fails({input = rille.zeros({8, 64}, {dtype = "i64"})}, "64", "input: more positions than the model has")
fails({input = ids, cost = {1, 2}}, "cost", "input with a list that is too short")
fails({input = ids, memory_limit = 10}, "use memory_limit = ", "less memory than any cut needs")
fails({cost = {1, 1, 1, 1}, memory = {1, 2, 3, 4}, memory_limit = 3}, "use memory_limit = 4", "the error names the least memory of lists, too")
fails({cost = {1, 1e308, 1, 1e308}}, "cost must have numbers from 0 to 1e100, found 1e+308", "costs whose sum would overflow")
fails({input = ids, inputs = 3}, "inputs", "an unknown option")
fails({input = ids}, "the stages' meshes must have one shape to estimate costs; otherwise list cost", "stages of different shapes", {mesh{0, 1}, mesh{2, 3, 4}})

rille.no_grad(fails, {input = ids}, "cannot be estimated inside rille.no_grad; call rille.parallel outside, or list cost", "no gradients")

tap.done()
