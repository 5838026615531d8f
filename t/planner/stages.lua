-- stages.lua - tests the predicted time and memory of planned steps with stages (actors/plan/assign/predict.c,
-- session/view/whatif.c).
--
-- The time must follow the schedule's closed form, and a device must hold only the memory of its own stages. The test
-- uses meta devices, so nothing is computed.
local tap = dofile("t/lib/tap.lua")
local WIDTH <const>, ROWS <const>, BLOCKS <const> = 4096, 64, 4

-- Makes a step of BLOCKS blocks of equal work, distributed over devices in order. A variable scales x, so that the
-- first block's input gradient is needed. thick[i]: number of products of block i; options: those of the graph, and
-- `forward` (true: no gradients); size: number of devices per stage.
local function chain(devices, pieces, options, thick, size)
  local at, scale, weight, how = {}, {}, {}, {auto_parallel = true, micro_batches = pieces}
  for k, v in pairs(options) do how[k] = v end
  local forward = how.forward
  how.forward = nil
  for i = 1, BLOCKS do
    local d, ranks = devices[(i - 1) * #devices // BLOCKS + 1], {}
    for r = 1, size or 1 do ranks[r] = d * (size or 1) + r - 1 end
    at[i] = {placement = rille.placement("meta", ranks), sbp = "B"}
    scale[i] = rille.empty({WIDTH}, {placement = at[i].placement, requires_grad = true})
    weight[i] = {}
    for k = 1, thick and thick[i] or 1 do
      weight[i][k] = rille.empty({WIDTH, WIDTH}, {placement = at[i].placement, requires_grad = true})
    end
  end
  local step = rille.graph(function(x)
    for i = 1, BLOCKS do
      x = x:to_global(at[i]) * scale[i]
      for _, w in ipairs(weight[i]) do x = x:matmul(w):gelu() end
    end
    local loss = x:sum()
    if not forward then loss:backward() end
    return loss
  end, how)
  step(rille.empty({pieces * ROWS, WIDTH}, at[1]))
  return step
end

local NEAR <const> = 0.03
local function near(name, got, want) tap.ok(math.abs(got / want - 1) < NEAR, name, ("%.3g, not %.3g"):format(got, want)) end
local function far(step, cluster)
  local c = tap.with({mesh = {1}}, cluster)
  return rille.whatif(step, c)
end

local deals = {{0, 1}, {0, 1, 2, 3}}
local serial = {}
for _, m in ipairs{4, 16} do
  local e = far(chain({0}, m, {}))
  serial[m] = e.step_time
  tap.is(math.floor(e.step_time * 1e9 + 0.5), e.cost, m .. " micro-batches on one device take the cost of the step")
end

-- Checks equal stages. A forward-only step fills and drains the pipeline once. In a training step, forward, input
-- gradients and weight gradients each take a third of a stage's time. No stage waits for weight gradients, so the
-- bubble consists of forward and input gradients.
tap.group("equal stages", function()
  for _, deal in ipairs(deals) do
    for m, all in pairs(serial) do
      local p, name = #deal, ("%d stages, %d micro-batches: "):format(#deal, m)
      local plain, train = (m + p - 1) / m / p, (3 * m + 2 * (p - 1)) / 3 / m / p
      for _, schedule in ipairs{"gpipe", "1f1b"} do
        local reads = far(chain(deal, m, {schedule = schedule, forward = true})).step_time
        local one = far(chain({0}, m, {forward = true})).step_time
        near(name .. schedule .. " takes (m + p - 1) / m / p of one device's time forward", reads / one, plain)
        local step = chain(deal, m, {schedule = schedule})
        near(name .. schedule .. " takes (3 m + 2 (p - 1)) / 3 / m / p of one device's time in training", far(step).step_time / all, train)
        local e = step:explain()
        near(name .. schedule .. ": explain() reports that time", e.step_time / all, train)
        tap.ok(e.cost * 1e-9 >= all and tostring(e):find("stages at the same time", 1, true), name .. "the cost is the time of one device")
      end
      local least = (1 - NEAR) * (3 * m + p - 1) / 3 / m / p
      for _, schedule in ipairs{"zb-h1", "zb-h2"} do
        local got = far(chain(deal, m, {schedule = schedule})).step_time / all
        tap.ok(got < train and got > least, name .. schedule .. " takes less than 1f1b, and at least its lower bound", got)
      end
    end
  end
  local train = (3 * 16 + 2) / 3 / 16 / 2
  for schedule, deal in pairs{interleaved = {0, 1, 0, 1}, ["zb-v"] = {0, 1, 1, 0}, auto = {0, 1, 1, 0}} do
    local got = far(chain(deal, 16, {schedule = schedule})).step_time / serial[16]
    tap.ok(got < train and got > (1 - NEAR) / 2, schedule .. " on two devices takes less than 1f1b, and at least its work", got)
  end
end)

tap.group("unequal stages", function()
  for _, slow in ipairs{1, 2, 4} do
    local thick = {1, 1, 1, 1}
    thick[slow] = 4
    local one = far(chain({0}, 16, {}, thick)).step_time
    local heavy = one - serial[16] * (BLOCKS - 1) / BLOCKS
    for _, schedule in ipairs{"gpipe", "1f1b"} do
      local got = far(chain(deals[2], 16, {schedule = schedule}, thick)).step_time
      tap.ok(got >= 0.99 * heavy and got <= 1.2 * heavy,
        ("block %d is the slowest, %s: its stage bounds the step"):format(slow, schedule),
        ("%.3g, %.3g, %.3g"):format(heavy, got, one))
    end
  end
end)

-- Checks links between stages. The bandwidth of a link must serialise the micro-batches; its latency must not.
tap.group("hops", function()
  local step, m, p = chain(deals[2], 16, {schedule = "gpipe"}), 16, 4
  local bytes, slow = ROWS * WIDTH * 4, 1e6
  local base = far(step, {latency = 0, bandwidth = 1e15}).step_time
  near("gpipe waits twice for the latency of each hop", far(step, {latency = 0.1, bandwidth = 1e15}).step_time, base + 2 * (p - 1) * 0.1)
  near("links carry one micro-batch at a time, both directions at once", far(step, {latency = 0, bandwidth = slow, flops = 1e18}).step_time,
    (m - 1 + 2 * (p - 1)) * bytes / slow)
  local eager = chain(deals[2], 16, {schedule = "1f1b"})
  tap.ok(far(eager, {latency = 0.1}).step_time > far(step, {latency = 0.1}).step_time, "1f1b waits for latencies more often")
  tap.ok(far(step, {flops = 1e9}).step_time > 10 * base, "slower devices take longer")
end)

tap.group("memory", function()
  local kept = {}
  for _, schedule in ipairs{"gpipe", "1f1b", "zb-h1"} do
    for _, m in ipairs{4, 16} do kept[schedule .. m] = far(chain(deals[2], m, {schedule = schedule})).memory end
  end
  tap.is(kept["1f1b4"] + 12 * ROWS * WIDTH * 4, kept["1f1b16"], "1f1b keeps as many micro-batches as stages; more only lengthen the argument")
  tap.ok(kept.gpipe16 > kept["1f1b16"] + 12 * ROWS * WIDTH * 4, "gpipe keeps all micro-batches")
  tap.ok(kept.gpipe4 >= kept["1f1b4"] and kept.gpipe4 < kept.gpipe16, "gpipe with few micro-batches keeps less", kept.gpipe4)
  local one, most = far(chain({0}, 16, {schedule = "1f1b"})).memory, kept["1f1b16"]
  tap.ok(most < one, "one device of four holds less than a single device")
  local step = chain(deals[2], 16, {schedule = "1f1b"})
  tap.is(far(step, {memory = most}).memory, most, "the reported memory is met as a limit")
  tap.fails(function() far(step, {memory = 1000}) end, {"memory", "1000 bytes"}, "a limit that no plan meets is refused")
end)

-- Checks work that is done once per batch, before or after the micro-batches. The step also waits for sums over
-- several devices.
tap.group("once a batch", function()
  local nn, optim = rille.nn, rille.optim
  local net, on = {}, {}
  for i = 1, 2 do
    on[i] = {placement = rille.placement("meta", {i - 1}), sbp = "B"}
    net[i] = nn.Linear(WIDTH, WIDTH):to_global(on[i])
  end
  local params = {}
  for _, l in ipairs(net) do for _, q in ipairs(l:parameters()) do params[#params + 1] = q end end
  local opt = optim.AdamW(params, {lr = 1e-3})
  local function train(clip)
    local step = rille.graph(function(x)
      local loss = net[2](net[1](x):gelu():to_global(on[2])):square():mean()
      loss:backward()
      if clip then optim.clip_grad_norm(params, 1) end
      opt:step() opt:zero_grad()
      return loss
    end, {auto_parallel = true, micro_batches = 4, schedule = "1f1b"})
    step(rille.empty({4 * ROWS, WIDTH}, on[1]))
    return rille.whatif(step, {mesh = {1}, latency = 0.001, bandwidth = 1e12})
  end
  local plain, clipped = train(false), train(true)
  tap.ok(plain.step_time < plain.cost * 1e-9 + 0.01, "stages update at the same time")
  tap.ok(clipped.step_time > plain.step_time + 0.0009, "the updates wait for a norm over all stages",
    ("%g %g"):format(plain.step_time, clipped.step_time))
end)

tap.group("many devices", function()
  local step = chain(deals[2], 16, {schedule = "1f1b"}, nil, 2)
  local begin = os.clock()
  local e = rille.whatif(step, {mesh = {100000}, bandwidth = 1e11, latency = 1e-6})
  local took = os.clock() - begin
  tap.ok(took < 1 and e.step_time > 0, "four stages of 100,000 devices are planned in less than a second", took)
end)
tap.done()
