-- optim-clip.lua - tests clip_grad_norm: one norm over parameters of several placements and layouts.
local tap = dofile("t/lib/tap.lua")
local optim, T = rille.optim, rille.tensor
local P0, P1 = rille.placement("cpu", {0, 1}), rille.placement("cpu", {{2, 3}, {4, 5}})

local function parameter(values, placement, sbp)
  local p = T(values, {requires_grad = true})
  return p:to_global_{placement = placement, sbp = sbp}
end
local function like(p, values) return T(values):to_global{placement = p.placement, sbp = p.sbp} end

tap.group("layouts", function()
  for _, sbp in ipairs{"B", "S(0)"} do
    for _, mesh in ipairs{{"B", "B"}, {"S(0)", "B"}, {"B", "S(0)"}, {"S(0)", "S(0)"}} do
      local a, b = parameter({1, 1, 1}, P0, sbp), parameter({1, 1}, P1, mesh)
      ;(a * like(a, {1, 2, 2})):sum():backward()
      ;(b * like(b, {4, 0})):sum():backward()
      local name = sbp .. " beside " .. b.sbp
      local norm = optim.clip_grad_norm({a, b}, 1)
      tap.near(norm:item(), 5, name .. ": the norm is over all shards of all placements", 1e-5)
      tap.near({a.grad:totable(), b.grad:totable()}, {{0.2, 0.4, 0.4}, {0.8, 0}}, name .. ": gradients are clipped to norm 1", 1e-4, 1e-6)
    end
  end
end)

tap.group("partial gradients", function()
  local w = parameter({{1}, {1}}, P0, "B")
  local x = T({{1, 0}, {2, 4}}):to_global{placement = P0, sbp = "S(0)"}
  x:matmul(w):sum():backward()
  tap.is(w.grad.sbp, "P", "the gradient of a replicated weight on a split batch is partial")
  tap.near(optim.clip_grad_norm({w}, 100):item(), 5, "the norm is that of the sum")
  tap.near(w.grad:totable(), {{3}, {4}}, "a gradient below the limit is unchanged")
end)

tap.group("compiled", function()
  local w = T({0, 0}, {requires_grad = true})
  local opt = optim.SGD({w}, {lr = 1})
  local step = rille.graph(function(x)
    local loss = (w * x):sum()
    loss:backward()
    local norm = optim.clip_grad_norm({w}, 1)
    opt:step(); opt:zero_grad()
    return norm
  end)
  tap.near(step(T{3, 4}):item(), 5, "a compiled step returns the norm")
  tap.near(w:totable(), {-0.6, -0.8}, "a compiled step clips before the update")
end)

-- Trains for three steps, compiled or not. read: true: reads the clipped gradients before the update, so that they
-- must be in memory.
local function trained(kind, options, compiled, read)
  rille.manual_seed(5)
  local w, x = rille.randn(37, 5), rille.randn(37, 5)
  w.requires_grad = true
  local opt = optim[kind]({w}, options)
  local function step(v)
    (w * v):sum():backward()
    optim.clip_grad_norm({w}, 0.5)
    if read then read(w.grad) end
    opt:step(); opt:zero_grad()
    return w:sum()
  end
  if compiled then step = rille.graph(step) end
  for _ = 1, 3 do step(x):item() end
  return w:totable(), compiled and tostring(step:explain())
end

tap.group("the update applies the factor", function()
  for _, how in ipairs{{"AdamW", {lr = 0.1}}, {"Adam", {lr = 0.1, weight_decay = 0.1}}, {"SGD", {lr = 0.1}},
    {"SGD", {lr = 0.1, momentum = 0.9, nesterov = true, weight_decay = 0.1}}} do
    local want = trained(how[1], how[2], false, function(g) g:totable() end)
    local got, plan = trained(how[1], how[2], true)
    tap.is(got, want, how[1] .. ": gradient and factor give the bits of clipped gradients in memory")
    tap.is(trained(how[1], how[2], false), want, "the same without compiling")
    tap.is({select(2, plan:gsub("%f[%a]mul ", "")), (select(2, plan:gsub("rescale ", "")))}, {1, 0},
      "a compiled step has no product except that of the backward pass")
  end
end)

tap.group("the sum of squares", function()
  local params = tap.list(6, function(i) return rille.randn(3, i, {requires_grad = true}) end)
  local opt, out = optim.SGD(params, {lr = 1}), os.tmpname()
  local step = rille.graph(function()
    local loss = 0
    for _, p in ipairs(params) do loss = loss + (p * p):sum() end
    loss:backward()
    optim.clip_grad_norm(params, 1)
    opt:step(); opt:zero_grad()
  end)
  step(); step:trace(out); step(); step:trace(out)
  local names = io.open(out):read("a")
  os.remove(out)
  tap.ok(names:find('"add+add+add+add+add"', 1, true), "the squares of six parameters are added in one task", names)
end)

local function peak() return tap.sum(rille.devices(), function(d) return d.peak_bytes end) end

tap.group("in place", function()
  local bytes = 4 * 1024 * 1024
  for _, how in ipairs{"eagerly", "compiled"} do
    local params = {}
    for i = 1, 4 do
      local p = rille.zeros(1024, 1024, {requires_grad = true})
      params[i], p.grad = p, i == 1 and rille.ones(1024, 1024) or rille.zeros(1024, 1024)
      tostring(p.grad)
      collectgarbage() -- collects earlier garbage, so that the peak counts only current memory
    end
    local w = params[1]
    collectgarbage("stop") -- stops the collector, so that later garbage stays in memory
    local function cut(max) return optim.clip_grad_norm(params, max) end
    if how == "compiled" then cut = rille.graph(cut) end
    local before = peak()
    tap.near(cut(256):item(), 1024, how .. ": the norm of gradients that are in memory", 1e-5)
    tostring(w.grad)
    for i = 2, 4 do tostring(params[i].grad) end
    tap.near(w.grad[{1023, 1023}]:item(), 0.25, "gradients in memory are clipped", 1e-5)
    collectgarbage() -- frees the views of w.grad
    tap.near(cut(256):item(), 256, "the next call finds the clipped norm", 1e-5)
    tostring(w.grad)
    tap.near(w.grad:sum():item(), 0.25 * 1024 * 1024, "gradients at the limit are unchanged", 1e-5)
    tap.ok(peak() - before < bytes / 2, "gradients are overwritten: no memory is allocated", peak() - before)
    collectgarbage("restart")
    local held = w.grad
    cut(1):item()
    tap.near(held[{0, 0}]:item(), 0.25, "a held gradient keeps its values", 1e-5)
    tap.near(w.grad[{0, 0}]:item(), 1 / 1024, "the parameter gets another, clipped gradient", 1e-4)
  end
end)

tap.group("one gradient of two parameters", function()
  for _, how in ipairs{"eagerly", "compiled"} do
    local a, b = T({0, 0}, {requires_grad = true}), T({0, 0}, {requires_grad = true})
    local g = T{3, 4}
    a.grad, b.grad = g, g
    g = nil
    collectgarbage()
    local clip = function() return optim.clip_grad_norm({a, b}, 5) end
    if how == "compiled" then clip = rille.graph(clip) end
    tap.near(clip():item(), 50 ^ 0.5, how .. ": a shared gradient counts twice in the norm", 1e-5)
    tap.near({a.grad:totable(), b.grad:totable()}, {{3 / 2 ^ 0.5, 4 / 2 ^ 0.5}, {3 / 2 ^ 0.5, 4 / 2 ^ 0.5}}, "a shared gradient is clipped once", 1e-5)
  end
end)

tap.group("gradients that are not finite", function()
  local w = T({0, 0}, {requires_grad = true})
  w.grad = T{1, 0 / 0}
  optim.clip_grad_norm({w}, 1)
  local x = w.grad:totable()
  tap.ok(x[1] ~= x[1] and x[2] ~= x[2], "a gradient with a NaN becomes all NaN, as in PyTorch")
  w.grad = T{1, 1 / 0}
  optim.clip_grad_norm({w}, 1)
  x = w.grad:totable()
  tap.ok(x[1] == 0 and x[2] ~= x[2], "an infinity makes the other elements 0")
end)

tap.group("mistakes", function()
  tap.fails(function() optim.clip_grad_norm({T({1}, {requires_grad = true})}, 1) end, {"no parameter has a gradient"},
    "parameters without gradients are refused")
  tap.fails(function() optim.clip_grad_norm(3, 1) end, {"list"}, "a number instead of a list is refused")
  tap.fails(function() optim.clip_grad_norm({3}, 1) end, {"optim-clip.lua:", "clip_grad_norm", "parameter 1 must be a tensor, found 3"}, "a list of numbers is refused")
  for _, model in ipairs{rille.nn.Linear(2, 2), rille.nn.Sequential(rille.nn.Linear(2, 2))} do
    local reported = {"optim-clip.lua:", "expected a list of parameters, found an nn.", "; pass its parameters: net:parameters()"}
    tap.fails(function() optim.clip_grad_norm(model, 1) end, reported, "a model instead of a list is refused")
    tap.fails(function() optim.AdamW(model, {lr = 1}) end, reported, "an optimiser refuses a model")
    tap.fails(function() optim.AdamW({{params = model}}, {lr = 1}) end, reported, "a group refuses a model")
  end
end)

tap.done()
