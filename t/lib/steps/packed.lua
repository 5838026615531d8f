-- packed.lua - measures how well a step's registers are packed. The plan states the size of each device's arena.
-- Simulations of the plan find the peak of bytes in use, which is a lower bound of the arena.

local packed = {}

-- Calls play() for each setting of simulated costs, with and without jitter. In some settings a phase is a hundred
-- times as slow as in others, so that micro-batches queue up before it.
local function each_play(play)
  for code = 0, 7 do
    for jitter = 0, 1 do
      play{forward = 100 ^ (code & 1), backward = 100 ^ (code >> 1 & 1), weight = 100 ^ (code >> 2), move = 0.01, update = 1,
        jitter = jitter, seed = code}
    end
  end
end

-- Returns two numbers for the device with the largest arena: the size of its arena, and the peak of bytes in use.
function packed.of(step)
  local arena, at, most = 0, nil, 0
  for device, scratch in tostring(step:plan{physical = true}):gmatch("device (%S+)  thread %d+  arena %d+ B  scratch at (%d+)") do
    if tonumber(scratch) > arena then arena, at = tonumber(scratch), device end
  end
  each_play(function(costs)
    local chart = step:chart(costs)
    for d, device in ipairs(chart.devices) do
      if device.device == at then most = math.max(most, chart.planned.devices[d].peak) end
    end
  end)
  return arena, most
end

local A <const>, B <const> = {0, 1}, {2, 3}
local SIZE <const> = {vocab = 512, length = 64, layers = 4, heads = 4, width = 64, hidden = 160, experts = 4}
packed.models = {"gpt2", "llama", "moe"}
-- Columns: name; devices of the model; options of rille.parallel; number of micro-batches; limit of arena / peak. The
-- simulation gives all stages one speed, so its peak may be below the true peak. Relative to the exact bound of
-- t/lib/plan/live.h, the arena is at most 1.055.
packed.recipes = {
  {"data", {0, 1, 2, 3}, {data = 0}, 1, 1.05}, {"data, zero 3", {0, 1, 2, 3}, {data = 0, zero = 3}, 1, 1.05},
  {"data, zero 3", {0, 1, 2, 3}, {data = 0, zero = 3}, 8, 1.05}, {"stages x data", A, {stages = {A, B}, data = 0}, 8, 1.10},
  {"stages x data, zero 3", A, {stages = {A, B}, data = 0, zero = 3}, 8, 1.06},
}

-- Returns a traced training step of a model whose layouts follow a recipe.
function packed.model(name, recipe)
  local _, ranks, how, pieces = table.unpack(recipe)
  local options, at = {}, {}
  for k, v in pairs(SIZE) do options[k] = v end
  if name == "gpt2" then options.hidden = nil end
  if name ~= "moe" then options.experts = nil end
  for k, v in pairs(how) do at[k] = v end
  if how.stages then
    at.stages = {}
    for i, on in ipairs(how.stages) do at.stages[i] = rille.placement("meta", on) end
  end
  options.placement, options.sbp = rille.placement("meta", ranks), "B"
  local m = rille.models[name].new(options)
  rille.parallel(m, at)
  local opt = rille.optim.AdamW(m:parameters(), {lr = 1e-2})
  local step = dofile("t/lib/tap.lua").training(opt, function(x, y)
    return m(x):reshape{-1, SIZE.vocab}:cross_entropy(y:reshape{-1})
  end, {micro_batches = pieces})
  local shape = {2 * pieces * #ranks, SIZE.length}
  local function ids(how) return rille.empty(shape, {dtype = "i64", placement = how.placement, sbp = how.sbp}) end
  step(ids(rille.parallel.input(m)), ids(rille.parallel.labels(m)))
  return step
end

return packed
