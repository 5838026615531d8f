-- recompute.lua - tests module:recompute(), and a step's option recompute = true: the same bits with less memory, eager
-- and compiled, in every layout. If a value is read between forward and backward, products of backward read saved values
-- where they read recomputed ones otherwise. Their operands then have other strides, so oneDNN may add in another order.
local tap = dofile("t/lib/tap.lua")
local nn, optim = rille.nn, rille.optim
local function mesh(ranks) return rille.placement("cpu", ranks) end

local function new(place, recipe, again, each)
  rille.manual_seed(4)
  local blocks = {}
  for i = 1, 3 do
    blocks[i] = nn.TransformerBlock(16, 2, {dropout = 0.2})
    if again then blocks[i]:recompute() end
  end
  local net, whole = nn.Sequential(table.unpack(blocks)), tap.list(#place.shape, function() return "B" end)
  net:to_global{placement = place, sbp = whole}
  rille.parallel(net, recipe)
  for _, m in ipairs(each and again and net:modules() or {}) do m:recompute() end
  return net, whole
end

-- Returns the losses of three steps, the last gradient, and the compiled step.
local function train(place, recipe, how, again)
  local pieces, function_ = how:find("pieces"), how:find("function") and again
  local net, whole = new(place, recipe, again and not function_, how:find("each layer"))
  local opt = optim.AdamW(net:parameters(), {lr = 0.01})
  local x = rille.randn({4, 6, 16}):to_global{placement = place, sbp = whole}
  x = x:to_global(rille.parallel.input(net))
  local last
  local function step(a)
    local loss = (how:find("autocast") and rille.autocast("bf16", net, a) or net(a)):square():mean()
    if how == "read first" then loss:item() end
    loss:backward()
    opt:step()
    if not (how:find("compiled") or pieces) then last = net[1].fc1.weight.grad:totable() end
    opt:zero_grad()
    return loss
  end
  local compiled = (how:find("compiled") or pieces) and
    rille.graph(step, {micro_batches = pieces and 2 or 1, recompute = function_ and true})
  local losses = tap.list(3, function() return (compiled or step)(x):item() end)
  return {losses, last}, compiled
end

tap.group("memory", function()
  local function bytes(who, twice, pieces)
    rille.manual_seed(1)
    local blocks, scale = {}, rille.ones({16}, {requires_grad = true})
    for i = 1, 6 do blocks[i] = nn.TransformerBlock(16, 2) end
    local net = nn.Sequential(table.unpack(blocks))
    if who == "modules" then for _, block in ipairs(blocks) do block:recompute() end end
    local opt = optim.SGD({scale, table.unpack(net:parameters())}, {lr = 0.01})
    local step = tap.training(opt, function(x)
      return (net(twice and x * scale or x) * scale):square():mean()
    end, {micro_batches = pieces, recompute = who == "function"})
    step(rille.randn{16, 16, 16})
    return step:stats().devices[1].peak_memory
  end
  for _, pieces in ipairs{4, 1} do
    for _, twice in ipairs{true, false} do
      local less = {modules = bytes("modules", twice, pieces), ["function"] = bytes("function", twice, pieces)}
      local kept = bytes(nil, twice, pieces)
      for who, n in pairs(less) do
        tap.ok(n < 0.6 * kept, ("%d micro-batches, a parameter read %s, %s recomputed: less memory"):format(pieces,
          twice and "before and after" or "once", who), ("%d of %d"):format(n, kept))
      end
    end
  end
end)

local P1 = mesh{0}
tap.group("bits", function()
  tap.near(train(P1, {}, "read first", true)[2], train(P1, {}, "read first", false)[2], "a loss read before backward: near", 1e-4, 1e-6)
  for _, how in ipairs{"plain", "compiled", "pieces", "autocast", "each layer", "each layer compiled",
    "each layer autocast", "each layer autocast compiled", "compiled function", "function in pieces"} do
    if tap.share() then tap.is((train(P1, {}, how, true)), (train(P1, {}, how, false)), how .. ": the same bits") end
  end
  for name, case in tap.sorted{["1D"] = {mesh{0, 1}, {tensor = 0}}, sequence = {mesh{0, 1}, {tensor = 0, sequence = true}},
    ["2D"] = {mesh{{0, 1}, {2, 3}}, {tensor = {0, 1}}}, ["zero 3"] = {mesh{0, 1}, {data = 0, zero = 3}},
    stages = {P1, {stages = {P1, mesh{1}}}}} do
    for _, how in ipairs{"plain", "compiled", "pieces", "compiled function", "function in pieces"} do
      if tap.share() then tap.is((train(case[1], case[2], how, true)), (train(case[1], case[2], how, false)), ("%s, %s: the same bits"):format(name, how)) end
    end
  end
end)

-- Reads gradients one by one. A read must compute only the gradients that it needs; a later read must use the values
-- of earlier reads. The optimiser is SGD, because Adam turns the rounding of a gradient near 0 into a step.
tap.group("gradients read one by one", function()
  local orders = {
    forward = function(n) local list = {} for i = 1, n do list[i] = i end return list end,
    backward = function(n) local list = {} for i = 1, n do list[i] = n + 1 - i end return list end,
    inside = function(n) return {n // 2, 1, n, n // 2 + 1} end,
  }
  local function read(place, recipe, again, order, loss_first)
    local net, whole = new(place, recipe, again)
    local opt = optim.SGD(net:parameters(), {lr = 0.1})
    local x = rille.randn({4, 6, 16}):to_global{placement = place, sbp = whole}:to_global(rille.parallel.input(net))
    local params, seen = net:parameters(), {}
    for _ = 1, 2 do
      local loss = net(x):square():mean()
      loss:backward()
      for _, i in ipairs(order(#params)) do seen[#seen + 1] = params[i].grad:totable() end
      if loss_first then seen[#seen + 1] = loss:item() end
      opt:step(); opt:zero_grad()
      seen[#seen + 1] = params[3]:totable()
      if not loss_first then seen[#seen + 1] = loss:item() end
    end
    return seen
  end
  for name, order in tap.sorted(orders) do
    for layout, at in tap.sorted{["one device"] = {mesh{0}, {}}, ["data"] = {mesh{0, 1}, {data = 0}}, ["tensor"] = {mesh{0, 1}, {tensor = 0}}} do
      for _, loss_first in ipairs{true, false} do
        if not tap.share() then goto next end
        tap.near(read(at[1], at[2], true, order, loss_first), read(at[1], at[2], false, order, loss_first),
          ("%s, %s, the loss %s"):format(layout, name, loss_first and "before the step" or "last"), 1e-4, 1e-6)
        ::next::
      end
    end
  end
end)

tap.group("nested use and errors", function()
  local function second(again)
    rille.manual_seed(2)
    local m = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 1))
    if again then m:recompute() end
    local x = rille.tensor({{1, 2, 3}}, {requires_grad = true})
    local dx = rille.grad(m(x):sum(), {x})
    return rille.grad(dx:square():sum(), {x}):totable()
  end
  tap.is(second(true), second(false), "a second gradient has the same bits")
  local outer = nn.Sequential(nn.Sequential(nn.Linear(2, 2)):recompute()):recompute()
  local x = rille.tensor({{1, 2}}, {requires_grad = true})
  outer(x):sum():backward()
  tap.ok(x.grad, "nested regions act as one")
  local Fails = nn.Module:extend("Fails")
  function Fails:forward() error("stop") end
  pcall(Fails():recompute(), x)
  tap.is(rille._recompute(false), false, "an error inside ends the region")
  local Yields = nn.Module:extend("Yields")
  function Yields:forward(v) coroutine.yield() return nil, v, nil end
  local turn = coroutine.wrap(function() return table.pack(Yields():recompute()(x)) end)
  turn()
  tap.is(rille._recompute(false), false, "a coroutine that yields inside keeps the region")
  tap.is(turn().n, 3, "all results are returned, nil or not")
  local m = nn.Linear(2, 2):recompute()
  tap.ok(rawequal(m:recompute(false), m), "recompute(false) returns the module")
  tap.fails(function() m:recompute("yes") end, {"nn.Linear:recompute", "true or false", "recompute.lua"}, "a value that is no boolean is refused")
end)

tap.done()
