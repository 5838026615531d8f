-- placing.lua - tests calls whose operands are on several placements: tensors created without a placement, and values of
-- several pipeline stages.
local tap = dofile("t/lib/tap.lua")
local nn = rille.nn
local function mesh(ranks) return rille.placement("cpu", ranks) end
local P, Q, R, G = mesh{0}, mesh{1}, mesh{2, 3}, mesh{{0, 1}, {2, 3}}

local creations = {
  tensor = function() return rille.tensor{1, 2, 3, 4} end, zeros = function() return rille.zeros{4} end,
  arange = function() return rille.arange(4) end, linspace = function() return rille.linspace(0, 1, 4) end,
  full = function() return rille.full({4}, 2) end, rand = function() return rille.rand{4} end,
  eye = function() return rille.eye(4) end, randint = function() return rille.randint(0, 9, {4}) end,
}
local derived = {
  itself = function(x) return x end, sum = function(x) return x:sum() end, mask = function(x) return x:gt(1) end,
  ["two of them"] = function(x) return x + rille.ones{4} end, clone = function(x) return x:clone() end,
  detached = function(x) return x:detach() end, view = function(x) return x:unsqueeze(0) end,
  ["index"] = function(x) return x[{{0, 2}}] end,
  ["result of a step"] = function(x) return rille.graph(function(t) return t:clone() end)(x) end,
  ["changed by a step"] = function(x)
    local y = rille.zeros(x.shape)
    rille.graph(function() y:copy_(rille.ones(y.shape)) end)()
    return y
  end,
  ["copied"] = function(x) x = rille.zeros(x.shape); x:copy_(rille.ones(x.shape)) return x end,
}
tap.group("tensors without a placement", function()
  for _, place in ipairs{Q, R, G} do
    for name, make in tap.sorted(creations) do
      for kind, derive in tap.sorted(derived) do
        if tap.share() then
          rille.manual_seed(1)
          local x = derive(make())
          local y = rille.full(x.shape, 2, {placement = place, sbp = "B"})
          local z, w = x * y, y * x
          tap.ok(z.placement == place and w.placement == place and x.placement == P, ("%s, %s meets %s: the call is on the other placement"):format(name, kind, place))
          tap.is(z:totable(), (x * 2):totable(), ("%s, %s meets %s: values"):format(name, kind, place))
        end
      end
    end
  end
end)

tap.group("steps", function()
  local function step(x)
    local mask, list = rille.ones({4, 4}):tril():gt(0), rille.zeros{4, 4}
    list[{0}] = x[0] * rille.tensor(3)
    return (mask:where(x, 0) + list + rille.arange(4)):sum{axis = 1}
  end
  local x = rille.randn({4, 4})
  local want = step(x):totable()
  for _, place in ipairs{P, R, G} do
    local there = x:to_global{placement = place, sbp = #place.shape == 1 and "S(0)" or {"S(0)", "B"}}
    tap.near(step(there):totable(), want, ("%s: a function that creates tensors"):format(place), 1e-6, 1e-6)
    tap.near(rille.graph(step)(there):totable(), want, ("%s: the compiled function"):format(place), 1e-6, 1e-6)
  end
end)

tap.group("bytes", function()
  local x = rille.randn({4, 64}, {placement = R, sbp = "S(0)"})
  local step = rille.graph(function(a) return rille.ones({64, 64}):tril():gt(0):where(a:matmul(rille.eye(64)):unsqueeze(1), rille.zeros{64}) end)
  step(x)
  tap.is(step:explain().bytes, 0, "tensors that a step creates without data are created on the other placement, not sent")
end)

tap.group("gradients", function()
  local x = rille.tensor({1, 2, 3, 4}, {placement = R, sbp = "S(0)", requires_grad = true})
  local y = rille.tensor{4, 3, 2, 1}
  ;(x * y + y):sum():backward()
  tap.is({x.grad.sbp, x.grad:totable()}, {"S(0)", {4, 3, 2, 1}}, "the gradient of the placed tensor has its layout")
end)

tap.group("tensors with a placement stay", function()
  local y = rille.ones({4}, {placement = Q})
  local parameter, placed = rille.ones({4}, {requires_grad = true}), rille.ones({4}, {placement = P})
  local result = placed + rille.zeros{4}
  for name, x in tap.sorted{["a parameter"] = parameter, ["a tensor created with a placement"] = placed,
    ["a result of a placed tensor"] = result, ["a moved tensor"] = rille.ones{4}:to_global{placement = P, sbp = "B"}} do
    tap.fails(function() return x * y end, {"different placements", "cpu[0]", "cpu[1]", "to_global"}, name)
  end
end)

tap.group("stages", function()
  local m = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4))
  local a, b = rille.ones({4}, {placement = P}), rille.ones({4}, {placement = Q, requires_grad = true})
  tap.fails(function() return a + b end, {"different placements"}, "placements that are no stages: an error")
  rille.parallel(m, {stages = {P, Q}})
  tap.ok((a + b).placement == Q and (b + a).placement == Q, "values of two stages meet on the later one")
  rille.parallel(m, {stages = {Q, P}})
  tap.ok((a + b).placement == P, "the order of the stages decides")
  ;(a * a + b * 3):sum():backward()
  tap.ok(b.grad.placement == Q and b.grad:totable()[1] == 3, "the gradient returns to the value's placement")
  tap.fails(function() return a + rille.ones({4}, {placement = R}) end, {"different placements"}, "one placement is no stage: an error")
  rille.parallel(m, {stages = {P, Q}, chunks = 2})
  local seen = {}
  m[3]:register_forward_hook(function(_, _, y) seen[1] = (y + b).placement end)
  m[4]:register_forward_hook(function(_, _, y) seen[2] = (y + a).placement end)
  m(rille.ones({1, 4}, {placement = P}))
  tap.ok(seen[1] == P and seen[2] == Q, "with interleaved stages, values meet on the stage in progress")
  rille.parallel(m, {})
  tap.fails(function() return a + b end, {"different placements"}, "without the recipe, the placements are no stages")
end)

tap.done()
