-- recompute-stages.lua - tests recompute in pipelines: bits and memory.
--
-- For each micro-batch in flight, a stage keeps its input. A stage keeps its inner values only for one micro-batch,
-- or for the micro-batches whose weight gradients are delayed. Tries schedules, numbers of stages and of
-- micro-batches.
local tap = dofile("t/lib/tap.lua")
local dealt = dofile("t/lib/steps/dealt.lua")
local nn = rille.nn

-- LAYERS, BLOCKS: number of layers and of blocks per device
local WIDTH <const>, ROWS <const>, LAYERS <const>, BLOCKS <const> = 8, 16, 8, 2
local UNIT <const> = 4 * WIDTH * ROWS -- unit of memory: bytes that one layer's result has per micro-batch

-- Trains blocks of layers. The devices share the blocks round robin; place(d) is the placement of device d. Returns
-- the loss and all gradients, and the step.
local function trained(place, devices, pieces, schedule, recompute)
  local turns = #devices // (1 + math.max(table.unpack(devices)))
  local net = {}
  rille.manual_seed(5)
  for _, d in ipairs(devices) do
    for _ = 1, BLOCKS // turns do
      local layers = {}
      for i = 1, LAYERS // BLOCKS do layers[2 * i - 1], layers[2 * i] = nn.Linear(WIDTH, WIDTH), nn.ReLU() end
      local block = nn.Sequential(table.unpack(layers)):to_global{placement = place(d), sbp = "B"}
      net[#net + 1] = {d, recompute == "blocks" and block:recompute() or block}
    end
  end
  local step = rille.graph(function(x)
    for i, block in ipairs(net) do
      if i > 1 and block[1] ~= net[i - 1][1] then x = x:to_global{placement = place(block[1]), sbp = "B"} end
      x = block[2](x)
    end
    return tap_backward(x:square():sum())
  end, {micro_batches = pieces, schedule = schedule, recompute = recompute == true})
  local loss = step(rille.randn({pieces * ROWS, WIDTH}, {placement = place(devices[1])}))
  if place(0).device == "meta" then return nil, step end
  local result = {loss:item()}
  for _, block in ipairs(net) do
    for _, p in ipairs(block[2]:parameters()) do result[#result + 1] = p.grad:totable() end
  end
  return result, step
end

local function meta(d) return rille.placement("meta", {d}) end
local function cpu(d) return rille.placement("cpu", {d}) end
local function one(_) return cpu(0) end

-- Returns the bytes of each device's registers, divided by UNIT.
local function registers(step)
  local bytes = {}
  for at in tostring(step:plan{physical = true}):gmatch("scratch at (%d+)") do bytes[#bytes + 1] = at / UNIT end
  return bytes
end

-- Returns true if each act of a micro-batch runs on the device of its stage.
local function is_at_home(step, devices)
  for _, s in ipairs(step:chart().planned.spans) do
    if s.stage and s.micro_batch and devices[s.stage + 1] ~= s.device - 1 then return false end
  end
  return true
end

-- Returns two numbers of micro-batches that stage q of p holds: from forward to weight gradient, and from backward to
-- weight gradient. (lags: the schedule's lookahead, and true if weight gradients are separate.)
local lags = {gpipe = {0}, ["1f1b"] = {1}, ["zb-h1"] = {1, true}, ["zb-h2"] = {2, true}}
local function pieces_of(schedule, p, m, q)
  local lag, split = table.unpack(lags[schedule])
  if lag == 0 then return m, 1 end
  if not split then return math.min(m, lag * (p - 1 - q) + 1), 1 end
  -- the first stage computes no gradient of its input
  return math.min(m, lag * (p - 1) + 1), q > 0 and math.min(m, lag * q + 1) or 1
end

-- Memory that a stage needs in addition to kept values, in units: working values of a layer, and values that are sent
-- and received.
local AT_WORK <const> = 8

-- Returns the expected maximum of a stage's memory, in units: the stage's input (not in the first stage), inputs of its
-- blocks, input of the loss, values inside blocks, and gradients that are delayed.
local function theory(schedule, p, m, q, recompute)
  local weight, behind = pieces_of(schedule, p, m, q)
  local enters = q > 0 and weight or 0
  if recompute == "blocks" then enters = enters + (BLOCKS - 1) * weight + (q == p - 1 and weight or 0) end
  local inside = recompute == "blocks" and behind == 1 and LAYERS // BLOCKS or LAYERS
  return enters + inside * behind + (behind > 1 and LAYERS * behind or 0) + AT_WORK
end

tap.group("a stage keeps its input", function()
  for _, p in ipairs{2, 3, 4, 6} do
    for _, m in ipairs{2, p + 1, 2 * p} do
      for schedule in tap.sorted(lags) do
        if not tap.share() then goto next end
        local devices = dealt(p, 1)
        local _, kept = trained(meta, devices, m, schedule)
        local before = registers(kept)
        for _, recompute in ipairs{true, "blocks"} do
          local _, step = trained(meta, devices, m, schedule, recompute)
          local after, good, why = registers(step), true, {}
          for q = 0, p - 1 do
            local most = theory(schedule, p, m, q, recompute)
            good = good and after[q + 1] <= most and after[q + 1] <= before[q + 1] + 2
            why[q + 1] = ("%.1f of %d, %.1f"):format(after[q + 1], most, before[q + 1])
          end
          local name = ("%s, %d stages, %d micro-batches, %s: "):format(schedule, p, m, recompute == true and "all" or "block by block")
          tap.ok(good, name .. "keeps inputs, and inner values of one micro-batch", table.concat(why, "; "))
          tap.ok(is_at_home(step, devices), name .. "recomputed acts belong to their own stage")
        end
        ::next::
      end
    end
  end
end)

-- Schedules with several stages per device: name, stages per device, true: V-shaped.
local several = {{"interleaved", 2, false}, {"zb-v", 2, true}, {"v-half", 2, true}, {"v-min", 2, true}, {{memory = 1}, 2, true}}

tap.group("several stages per device keep their inputs", function()
  for _, p in ipairs{2, 4} do
    for _, m in ipairs{4, 8} do
      for _, c in ipairs(several) do
        if not tap.share() then goto next end
        local schedule, devices = c[1], dealt(p, c[2], c[3])
        local _, kept = trained(meta, devices, m, schedule)
        local _, step = trained(meta, devices, m, schedule, true)
        local before, after, most, all, was = registers(kept), registers(step), 0, 0, 0
        for d = 1, p do most, all, was = math.max(most, after[d]), all + after[d], was + before[d] end
        local name = ("%s, %d devices, %d micro-batches: "):format(type(schedule) == "table" and "memory" or schedule, p, m)
        local kept_bytes = step:chart().activations / UNIT
        tap.ok(most <= kept_bytes + LAYERS + 2 * AT_WORK, name .. "keeps inputs, and inner values of one micro-batch per stage", ("%.1f, %.1f"):format(most, kept_bytes))
        tap.ok(all < was, name .. "devices hold less than without recompute", ("%.1f, %.1f"):format(all, was))
        tap.ok(is_at_home(step, devices), name .. "recomputed acts belong to their own stage")
        ::next::
      end
    end
  end
end)

tap.group("bits", function()
  for _, p in ipairs{2, 4} do
    local m = 2 * p
    local list = {table.unpack(several)}
    for schedule in tap.sorted(lags) do list[#list + 1] = {schedule, 1} end
    for _, c in ipairs(list) do
      if not tap.share() then goto next end
      local devices = dealt(p, c[2], c[3])
      local want = trained(one, devices, m, "1f1b")
      for _, recompute in ipairs{false, true, "blocks"} do
        local name = ("%s, %d devices, recompute %s"):format(type(c[1]) == "table" and "memory" or c[1], p, recompute)
        tap.is((trained(cpu, devices, m, c[1], recompute)), want, name)
      end
      ::next::
    end
  end
end)

tap.done()
