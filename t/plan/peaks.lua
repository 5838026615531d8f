-- peaks.lua - tests that registers of real steps take at most 5 % more than the peak of bytes in use.
--
-- The steps train models, also with recompute, with micro-batches, and with recipes of rille.parallel. The test uses
-- meta devices, so nothing is computed. t/plan/packing.c tests pipelines.
local tap = dofile("t/lib/tap.lua")
local nn, optim = rille.nn, rille.optim

local PLAYS <const> = 6 -- number of simulated runs, with different act times

local function meta(...) return rille.placement("meta", {...}) end

-- Returns the bytes of each device's registers in the plan.
local function arenas(step)
  local bytes = {}
  for at in tostring(step:plan{physical = true}):gmatch("scratch at (%d+)") do bytes[#bytes + 1] = math.tointeger(at) end
  return bytes
end

-- Returns three numbers for the device with the largest arena: arena / peak, the arena, and the peak of bytes in use
-- in simulated runs.
local function packed(step)
  local bytes, device, live = arenas(step), 1, 0
  for d = 2, #bytes do if bytes[d] > bytes[device] then device = d end end
  for seed = 0, PLAYS do
    local jitter = seed > 0 and {forward = 1, backward = 1, weight = 1, move = 0.01, jitter = 1, seed = seed} or nil
    live = math.max(live, step:chart(jitter).planned.devices[device].peak)
  end
  return bytes[device] / live, bytes[device], live
end

local worst, worst_name = 0, nil
local function check(name, step)
  local ratio, bytes, live = packed(step)
  if ratio > worst then worst, worst_name = ratio, name end
  tap.ok(ratio <= 1.05, ("%s: %.3f"):format(name, ratio), ("%d bytes, %d in use"):format(bytes, live))
end

-- Returns the loss function of a language model, as opposed to the next function, which makes the training step of
-- any model.
local function language(net, vocab) return function(x, y) return net(x):reshape{-1, vocab}:cross_entropy(y:reshape{-1}) end end
local function trainer(net, loss_of, options)
  local opt = optim.AdamW(net:parameters(), {lr = 1e-3})
  return tap.training(opt, function(x, y) return loss_of(x, y) end, options)
end

local VOCAB <const>, LENGTH <const> = 512, 64
local size = {
  gpt2 = {vocab = VOCAB, length = LENGTH, layers = 4, heads = 4, width = 128},
  llama = {vocab = VOCAB, length = LENGTH, layers = 4, heads = 4, kv_heads = 2, width = 128, hidden = 320},
  moe = {vocab = VOCAB, length = LENGTH, layers = 4, heads = 4, width = 128, experts = 4},
}

local function words(rows, place) return rille.empty({rows, LENGTH}, {dtype = "i64", placement = place}) end

local function model(kind, place, recipe, options, rows)
  local net, all = rille.models[kind].new(size[kind]), tap.list(#place.shape, function() return "B" end)
  net:to_global{placement = place, sbp = all}
  if recipe then rille.parallel(net, recipe) end
  local step = trainer(net, language(net, VOCAB), options)
  local x, y = words(rows, place), words(rows, place)
  if recipe then x, y = x:to_global(rille.parallel.input(net)), y:to_global(rille.parallel.labels(net)) end
  step(x, y)
  return step
end

tap.group("models", function()
  for _, kind in ipairs{"gpt2", "llama", "moe"} do
    for _, pieces in ipairs{1, 4} do
      for _, again in ipairs{false, true} do
        if not tap.share() then goto next1 end
        check(("%s, %d micro-batches%s"):format(kind, pieces, again and ", recomputed" or ""),
          model(kind, meta(0), nil, {micro_batches = pieces, recompute = again or nil}, 2 * pieces))
        ::next1::
      end
    end
  end
end)
tap.group("image model", function()
  for _, pieces in ipairs{1, 4} do
    local net = rille.models.resnet.new{classes = 10, width = 16, placement = meta(0), sbp = "B"}
    local step = trainer(net, function(x, y) return net(x):cross_entropy(y) end, {micro_batches = pieces})
    step(rille.empty({4 * pieces, 3, 32, 32}, {placement = meta(0)}), rille.empty({4 * pieces}, {dtype = "i64", placement = meta(0)}))
    check(("resnet, %d micro-batches"):format(pieces), step)
  end
end)

tap.group("many devices", function()
  local P2, P4, P22 = meta(0, 1), meta(0, 1, 2, 3), rille.placement("meta", {{0, 1}, {2, 3}})
  local recipes = {
    {"data", P4, {data = 0}}, {"1D", P2, {tensor = 0}}, {"1D with sequence", P2, {tensor = 0, sequence = true}},
    {"2D", P22, {tensor = {0, 1}, method = "2d"}}, {"data x 1D", P22, {data = 0, tensor = 1}},
    {"zero 1", P4, {data = 0, zero = 1}}, {"zero 2", P4, {data = 0, zero = 2}}, {"zero 3", P4, {data = 0, zero = 3}},
    {"zero 3 x 1D", P22, {data = 0, tensor = 1, zero = 3}},
  }
  for _, r in ipairs(recipes) do
    for _, kind in ipairs{"gpt2", "llama", "moe"} do
      for _, pieces in ipairs{1, 4} do
        if not tap.share() then goto next0 end
        check(("%s, %s, %d micro-batches"):format(kind, r[1], pieces), model(kind, r[2], r[3], {micro_batches = pieces}, 8 * pieces))
        ::next0::
      end
    end
  end
end)

tap.ok(worst > 0, ("the worst ratio is %.3f (%s)"):format(worst, worst_name))
tap.done()
