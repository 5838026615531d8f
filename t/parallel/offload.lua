-- offload.lua - tests offload: another placement stores the values that backward reads, and optimiser state, until they
-- are read (actors/plan/rewrite/offload.c).
--
-- The bits must equal those of a step without offload, the memory must be less, and copies must overlap with computation.
local tap = dofile("t/lib/tap.lua")
local nn, optim = rille.nn, rille.optim

local WIDTH <const>, LAYERS <const>, ROWS <const> = 64, 8, 256

local function cpu(...) return rille.placement("cpu", {...}) end

-- Trains a network on P for three steps. Returns four values: losses and a weight as a list, the step, the optimiser,
-- the network.
local function train(P, options, sbp, rows)
  rille.manual_seed(4)
  local layers = {}
  for _ = 1, LAYERS do
    layers[#layers + 1] = nn.Linear(WIDTH, WIDTH)
    layers[#layers + 1] = nn.GELU()
  end
  local net = nn.Sequential(table.unpack(layers))
  net:to_global{placement = P, sbp = "B"}
  local opt = optim.AdamW(net:parameters(), {lr = 0.01})
  local step = tap.training(opt, function(x) return net(x):square():mean() end, options)
  local x, losses = rille.randn({rows or ROWS, WIDTH}, {placement = P, sbp = sbp or "S(0)"}), {}
  for i = 1, 3 do losses[i] = step(x):item() end
  return {losses, net:parameters()[1]:totable()}, step, opt, net
end

local function arena(step, device)
  for _, d in ipairs(step:stats().devices) do
    if d.device == "cpu:" .. device then return d.peak_memory end
  end
end

tap.group("bits and memory", function()
  for _, pieces in ipairs{1, 4} do
    for _, zero in ipairs{0, 2} do
      for _, schedule in ipairs{"1f1b", "gpipe"} do
        local name = ("%d micro-batches, zero %d, %s: "):format(pieces, zero, schedule)
        local want, plain = train(cpu(0, 1), {micro_batches = pieces, zero = zero, schedule = schedule})
        local got, step = train(cpu(0, 1), {micro_batches = pieces, zero = zero, schedule = schedule, offload = cpu(2, 3)})
        tap.is(got, want, name .. "the bits of a step without offload")
        -- Activations of a batch and both moments of Adam are offloaded. Parameters, gradients and working memory
        -- stay on the device.
        local less, kept = arena(step, 0), arena(plain, 0)
        tap.ok(less < 0.7 * kept, name .. "less memory", ("%d of %d bytes"):format(less, kept))
      end
    end
  end
end)

tap.group("options and errors", function()
  local want = train(cpu(0), {recompute = true}, "B")
  tap.is(train(cpu(0), {recompute = true, offload = cpu(5)}, "B"), want, "offload with recompute")
  local got, _, opt, net = train(cpu(0), {offload = cpu(3, 4)}, "B")
  tap.is(got, (train(cpu(0), {}, "B")), "the offload placement may have more devices")
  tap.is(opt:state_dict()["0.m"].placement, cpu(3), "optimiser state is on the offload placement")
  local loss = net(rille.ones({2, WIDTH}, {placement = cpu(0)})):sum()
  loss:backward()
  opt:step()
  tap.is(opt:state_dict()["0.m"].placement, cpu(0), "optimiser state returns for an update outside a compiled step")
  tap.fails(function() train(cpu(0, 1), {offload = cpu(2)}) end, {"offload", "cpu[0, 1]", "cpu[2]", "as many"}, "too few devices")
  tap.fails(function() train(cpu(0, 1), {offload = cpu(0, 1)}) end, {"offload", "other devices"}, "its own devices")
  tap.fails(function() train(cpu(0), {offload = rille.placement("meta", {1})}) end, {"offload", "cpu[0]", "meta[1]", "with memory"}, "devices without values")
  tap.fails(function() train(cpu(0), {offload = 3}) end, {"placement"}, "no placement")
  tap.fails(function() train(cpu(0), {offload = cpu(1), auto_parallel = true}) end, {"offload", "auto_parallel"}, "offload with auto_parallel")
end)

tap.group("prefetch", function()
  for _, pieces in ipairs{1, 4} do
    local want, last = train(cpu(0, 1), {micro_batches = pieces}), 0
    for _, prefetch in ipairs{1, 2, 4, 100} do
      local got, step = train(cpu(0, 1), {micro_batches = pieces, offload = cpu(2, 3), prefetch = prefetch})
      local name = ("%d micro-batches, prefetch %d: "):format(pieces, prefetch)
      tap.is(got, want, name .. "the same bits")
      tap.ok(arena(step, 0) > last, name .. "a deeper prefetch takes more memory", ("%d bytes after %d"):format(arena(step, 0), last))
      last = arena(step, 0)
    end
  end
  local function sliced(prefetch)
    rille.manual_seed(4)
    local P = cpu(0, 1)
    local net = nn.Sequential(nn.TransformerBlock(16, 2), nn.TransformerBlock(16, 2), nn.TransformerBlock(16, 2))
    net:to_global{placement = P, sbp = "B"}
    rille.parallel(net, {data = 0, zero = 3})
    local step = rille.graph(function(x) return tap_backward(net(x):square():mean()) end, {zero = 3, prefetch = prefetch})
    local x = rille.randn({4, 8, 16}):to_global{placement = P, sbp = "S(0)"}
    return step(x):item(), arena(step, 0)
  end
  local loss, less = sliced(1)
  local same, more = sliced(20)
  tap.ok(same == loss and more > less, "prefetch of zero = 3 gathers: same loss, more memory", ("%g %g, %d %d bytes"):format(loss, same, less, more))
  tap.fails(function() train(cpu(0), {offload = cpu(1), prefetch = 0}) end, {"prefetch", "1 to"}, "prefetch = 0")
end)

-- Simulates the plan. Returns the number of copies on device 1, and the share of the copies' time during which device
-- 0 computes.
local function beside(prefetch)
  local layers, P = {}, rille.placement("meta", {0})
  for i = 1, LAYERS do layers[2 * i - 1], layers[2 * i] = nn.Linear(WIDTH, WIDTH), nn.GELU() end
  local net = nn.Sequential(table.unpack(layers)):to_global{placement = P, sbp = "B"}
  local step = rille.graph(function(x) net(x):square():mean():backward() end, {offload = rille.placement("meta", {1}), prefetch = prefetch})
  step(rille.empty({8192, WIDTH}, {placement = P}))
  local copies, whole, both, spans = 0, 0, 0, step:chart().planned.spans
  for _, copy in ipairs(spans) do
    if copy.device == 2 then
      copies, whole = copies + 1, whole + copy.to - copy.from
      for _, act in ipairs(spans) do
        if act.device == 1 then both = both + math.max(0, math.min(act.to, copy.to) - math.max(act.from, copy.from)) end
      end
    end
  end
  return copies, both / whole
end

tap.group("copies overlap with computation", function()
  for _, prefetch in ipairs{1, 2, 4} do
    local copies, share = beside(prefetch)
    tap.ok(copies >= LAYERS and share >= 0.9, ("prefetch %d: the computing device works during copies"):format(prefetch), ("%.2f of %d copies"):format(share, copies))
  end
end)

tap.done()
