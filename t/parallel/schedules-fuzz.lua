-- schedules-fuzz.lua - tests random pipelines: losses, gradients and parameters of three steps must have the bits of one device.
--
-- The test draws networks, the mapping of layers to stages, a stage's mesh, layouts of weights, micro-batches,
-- schedule, zero, recompute, offload and optimiser. Values are small integers, so no sum is rounded; weights are
-- rounded to integers again after each step.

local tap = dofile("t/lib/tap.lua")

local seed <const> = tonumber(os.getenv("SEED"))
local DRAWS <const>, STEPS <const>, DEVICES <const> = 160, 3, 8

local function one_of(list) return list[math.random(#list)] end

-- ---- random cases ----

local schedules = {"1f1b", "gpipe", "zb-h1", "zb-h2", "auto", "interleaved", "zb-v", "v-half", "v-min", {memory = 0.75}, {memory = 1.5},
  {lag = 1, split_backward = true}, {lag = 3, split_backward = true}, {lag = 2}}

-- Functions that return the stage of layer i: in order, round robin, V-shaped, or at random. Some schedules accept
-- only one of these functions.
local dealings = {
  order = function(i, layers, stages) return (i - 1) * stages // layers end,
  round = function(i, _, stages) return (i - 1) % stages end,
  wave = function(i, layers, stages)
    local part = (i - 1) * 2 * stages // layers
    return part < stages and part or 2 * stages - 1 - part
  end,
  any = function(_, _, stages) return math.random(0, stages - 1) end,
}

local function draw_dealing(schedule)
  if schedule == "interleaved" then return "round" end
  if schedule == "zb-v" or schedule == "v-half" or schedule == "v-min" then return "wave" end
  return one_of{"order", "order", "round", "wave", "any"}
end

local function draw()
  local c = {schedule = one_of(schedules), replicas = one_of{1, 1, 2, 2, 4}, parts = one_of{1, 1, 2}, dtype = one_of{"f32", "f32", "bf16"},
    zero = one_of{0, 0, 1, 2, 3}, pieces = one_of{1, 2, 4, 8}, rows = one_of{1, 2}, width = one_of{4, 8},
    optimiser = one_of{"SGD", "momentum", "AdamW"}, recompute = one_of{false, false, true}}
  c.dealing = draw_dealing(c.schedule)
  c.stages = math.random(DEVICES // (c.replicas * c.parts))
  if type(c.schedule) == "table" and c.schedule.memory then c.pieces = math.max(c.pieces, 2) end
  if c.dealing == "round" or c.dealing == "wave" then
    c.stages = math.max(c.stages, 2)
    c.replicas = math.min(c.replicas, DEVICES // (c.stages * c.parts))
  end
  if c.dealing == "wave" or c.dealing == "round" then
    c.layers = c.stages * one_of(c.stages > 3 and {2} or {2, 2, 4})
  else
    c.layers = math.random(c.stages, math.max(c.stages, 6))
  end
  local used = c.stages * c.replicas * c.parts
  if type(c.schedule) == "table" and c.schedule.memory and math.random(2) == 1 then c.recompute = "auto" end
  if not c.recompute and DEVICES - used >= used and math.random(2) == 1 then c.offload = used end
  c.layer = {}
  for i = 1, c.layers do
    local skip = i > 2 and math.random(4) == 1 and math.random(0, i - 2)
    c.layer[i] = {stage = dealings[c.dealing](i, c.layers, c.stages), skip = skip or nil, sbp = one_of{"B", "S(0)", "S(1)"},
      bias = math.random(3) == 1}
  end
  return c
end

local function named(c)
  local s, words = c.schedule, {}
  for k, v in pairs(type(s) == "table" and s or {}) do words[#words + 1] = k .. " " .. tostring(v) end
  table.sort(words)
  local stages = tap.list(c.layer, function(l) return l.stage .. (l.skip and "+" .. l.skip or "") end)
  return ("%s, stages %s of %d x %d, %d micro-batches of %d, zero %d, %s, %s%s%s"):format(type(s) == "string" and s or table.concat(words, " "),
    table.concat(stages, " "), c.replicas, c.parts, c.pieces, c.rows, c.zero, c.optimiser, c.dtype,
    c.recompute and ", recompute " .. tostring(c.recompute) or "", c.offload and ", offload" or "")
end

-- ---- training ----

-- Returns the placement of a stage, the layout of a batch, and a function that returns the layout of a weight. stage:
-- nil: everything is on one device.
local function stage_of(c, stage)
  if not stage then return rille.placement("cpu", {0}), "B", function() return "B" end end
  local first, mesh = stage * c.replicas * c.parts, {}
  for r = 0, c.replicas - 1 do
    local row = {}
    for p = 0, c.parts - 1 do row[p + 1] = first + r * c.parts + p end
    mesh[r + 1] = c.parts > 1 and row or row[1]
  end
  local flat = c.parts == 1
  return rille.placement("cpu", mesh), flat and "S(0)" or {"S(0)", "B"}, function(sbp) return flat and "B" or {"B", sbp} end
end

local makers = {
  SGD = function(params) return rille.optim.SGD(params, {lr = 1}) end,
  momentum = function(params) return rille.optim.SGD(params, {lr = 0.5, momentum = 0.5}) end,
  AdamW = function(params) return rille.optim.AdamW(params, {lr = 0.25}) end,
}

-- Rounds the weights to -1, 0 or 1, so that sums stay exact.
local function make_whole(params)
  for _, p in ipairs(params) do p:copy_(p:detach():round():maximum(-1):minimum(1)) end
end

-- Returns losses and parameters of three steps. alone: true: runs eagerly on one device, as the reference.
local function trained(c, alone)
  rille.manual_seed(3)
  local weight, bias, params = {}, {}, {}
  local function parameter(shape, layer, sbp)
    local place, _, weight_sbp = stage_of(c, not alone and layer.stage)
    local value = rille.randint(-1, 2, shape):to(c.dtype):detach():to_global{placement = place, sbp = weight_sbp(sbp)}
    params[#params + 1] = value:detach():requires_grad_(true)
    return params[#params]
  end
  for i, layer in ipairs(c.layer) do
    weight[i] = parameter({c.width, c.width}, layer, layer.sbp)
    bias[i] = layer.bias and parameter({c.width}, layer, "B") or nil
  end
  local opt = makers[c.optimiser](params)
  local function here(x, i)
    local place, sbp = stage_of(c, not alone and c.layer[i].stage)
    return x:to_global{placement = place, sbp = sbp}
  end
  local function forward(x)
    local value = {[0] = x}
    for i, layer in ipairs(c.layer) do
      local y = here(value[i - 1], i)
      if layer.skip then y = y + here(value[layer.skip], i) end
      y = y:matmul(weight[i])
      value[i] = (bias[i] and y + bias[i] or y):relu():minimum(2)
    end
    return tap_backward(value[#c.layer]:to("f32"):sum())
  end
  local function step(x)
    local loss = forward(x)
    opt:step()
    opt:zero_grad()
    return loss
  end
  local run = alone and step or rille.graph(step, {micro_batches = c.pieces, schedule = c.schedule, zero = c.zero, recompute = c.recompute,
    offload = c.offload and rille.placement("cpu", (function()
      local list = {}
      for d = DEVICES - c.offload, DEVICES - 1 do list[#list + 1] = d end
      return list
    end)()) or nil})
  local result = {}
  for s = 1, STEPS do
    local x = rille.randint(-1, 2, {c.pieces * c.rows * c.replicas, c.width}):to(c.dtype):detach()
    local loss = run(here(x, 1):detach()):item()
    local after = {loss}
    for _, p in ipairs(params) do after[#after + 1] = p:totable() end
    result[s] = after
    make_whole(params)
  end
  return result
end

-- ---- the test ----

-- Error texts that are allowed for an impossible pipeline.
local reasons = {"the least is"}

local function is_reason(text)
  for _, reason in ipairs(reasons) do
    if text:find(reason, 1, true) then return true end
  end
end

-- Returns true if the last step changes weights. If no gradient reached the weights, equal bits would prove nothing.
local function is_alive(result)
  local last = result[STEPS]
  for i = 2, #last do
    for _, x in ipairs(type(last[i][1]) == "table" and last[i][1] or last[i]) do
      if x ~= math.floor(x) or math.abs(x) > 1 then return true end
    end
  end
end

local tried, refused, alive = 0, 0, 0
for i = seed or 1, seed or DRAWS do
  if not seed and not tap.share() then goto next end
  math.randomseed(i)
  local c = draw()
  local good, got = pcall(trained, c)
  local what = ("seed %d: %s"):format(i, named(c))
  if not good and is_reason(tostring(got)) then
    refused = refused + 1
  elseif good then
    tried = tried + 1
    alive = alive + (is_alive(got) and 1 or 0)
    tap.is(got, trained(c, true), what)
  else
    tap.ok(false, what, got)
  end
  ::next::
end
tap.ok(seed or tried >= (tried + refused) * 3 // 4, "at least 3/4 of the pipelines were possible", tried .. " tried, " .. refused .. " refused")
tap.ok(seed or alive >= tried // 2, "most pipelines still train in the last step", alive)
tap.done()
