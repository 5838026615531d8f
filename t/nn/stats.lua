-- stats.lua - tests net:stats(), operations in step:stats(), and how results that are tables of numbers are printed.

local tap = dofile("t/lib/tap.lua")
local nn = rille.nn

local p = rille.placement("cpu", {0, 1})
local function find(list, name, kind)
  for _, r in ipairs(list) do if r.name == name and r.kind == kind then return r end end
end

tap.group("net:stats()", function()
  for _, sbp in ipairs{"B", "S(0)", "S(1)"} do
    local net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    net[1].weight = rille.tensor({{3, 0}, {0, -4}}, {requires_grad = true})
    net[1].bias = rille.tensor({0, 0}, {requires_grad = true})
    net:to_global{placement = p, sbp = sbp == "S(1)" and "B" or sbp}
    local x = rille.tensor({{1, 1}, {2, 2}}, {placement = p, sbp = sbp})
    tap.is(#net:stats(), 2, sbp .. ": without arguments: a record per parameter")
    net(x):sum():backward()
    local s = net:stats(x)
    tap.is(find(s, "0.weight", "weight").norm, 5.0, sbp .. ": 2-norm of a weight")
    tap.is(find(s, "0.weight", "weight").zeros, 0.5, sbp .. ": share of zeros")
    -- the gradient of the weight is {{3, 3}, {0, 0}}
    tap.near(find(s, "0.weight", "weight").grad_norm, math.sqrt(18), sbp .. ": 2-norm of a gradient")
    tap.near(find(s, "0", "output").norm, math.sqrt(9 + 16 + 36 + 64), sbp .. ": 2-norm of a layer's result")
    tap.is(find(s, "1", "output").zeros, 0.5, sbp .. ": share of zeros behind a ReLU")
    tap.is({#s, s.first_nan == nil}, {5, true}, sbp .. ": two parameters and three results, no nan")
    tap.is(rawget(net[1], "forward"), nil, sbp .. ": the module computes with its own forward afterwards")
  end
end)

tap.group("the first nan", function()
  local net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2))
  net[3].bias = rille.tensor({0, 0 / 0}, {requires_grad = true})
  tap.is(net:stats().first_nan, "2.bias", "of parameters")
  net[2].weight = rille.tensor({{1, math.huge}, {1, 1}}, {requires_grad = true})
  local s = net:stats(rille.ones(1, 2))
  tap.is(s.first_nan, "1", "of results, in the order of computation, before parameters")
  tap.is(find(s, "1.weight", "weight").inf, 1, "an infinity is counted")
  tap.ok(tostring(s):find("the first nan or inf: 1", 1, true), "the text names it", tostring(s))
  tap.fails(function() net:stats(rille.ones(1, 3)) end, {"nn.Linear: the last dimension of the input must be 2, found 3"}, "arguments that the module refuses are an error")
  tap.fails(function() net:stats(1) end, {"nn.Linear: input must be a tensor, found 1 (in nn.Sequential.0)"}, "a number is an error")
  tap.is(rawget(net[1], "forward"), nil, "and the module keeps its own forward")
end)

tap.group("operations of a step", function()
  for _, micro in ipairs{1, 2} do
    for _, layout in ipairs{{"B", "B"}, {"S(0)", "B"}, {"B", "S(1)"}} do
      local x = rille.ones({8, 16}, {placement = p, sbp = layout[1]})
      local w = rille.ones({16, 4}, {placement = p, sbp = layout[2]})
      local step = rille.graph(function(x) return x:matmul(w) end, {micro_batches = micro})
      step(x):sum():item()
      -- number of devices that compute the complete product: two if it is replicated
      local copies = layout[1] == "B" and layout[2] == "B" and 2 or 1
      tap.is(step:stats().flops, 2.0 * 8 * 16 * 4 * copies, ("%d micro-batches, x %s, w %s: 2 m n k"):format(micro, layout[1], layout[2]))
      tap.is(step:stats().peak_share, nil, "without measured costs the peak is unknown")
    end
  end
end)

tap.group("texts", function()
  local step = rille.graph(function(x) return x:exp() end)
  step(rille.ones(4)):sum():item()
  tap.ok(tostring(step:stats()):find("per step.*device.*busy.*cpu:0"), "step:stats()", tostring(step:stats()))
  tap.is(tostring(rille.ones({4, 3}, {placement = p, sbp = "S(0)"}):shards()),
    "  rank  shape   first element\n  0     {2, 3}  {0, 0}\n  1     {2, 3}  {2, 0}", "x:shards()")
  tap.ok(tostring(rille.devices()):find("device  thread  values"), "rille.devices()", tostring(rille.devices()))
end)

tap.done()
