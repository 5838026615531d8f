-- Modules: parts in order of definition, names, state, modes, places.
local tap = dofile("t/tap.lua")
local rille = require "rille"
local nn = rille.nn
local P0 = rille.placement("cpu", {0, 1})

local Net = nn.Module:extend("Net")
function Net:init(d)
  self.last = nn.Linear(d, 2)
  self.blocks = {nn.Linear(d, d), nn.LayerNorm(d)}
  self.first = nn.Linear(2, d, {bias = false})
  self.scale = nn.Parameter(rille.ones{d})
  self.fixed = rille.zeros{d}
  self.note = "a string"
end
function Net:forward(x) return self.last(self.blocks[1](self.first(x)) * self.scale) end

local function names_of(net)
  local names = {}
  for name in net:named_parameters() do names[#names + 1] = name end
  return names
end

tap.group("names", function()
  local net = Net(3)
  tap.is(names_of(net), {"last.weight", "last.bias", "blocks.0.weight", "blocks.0.bias", "blocks.1.weight", "blocks.1.bias",
    "first.weight", "scale"}, "parameters come in order of definition, lists count from 0, other tensors are none")
  tap.is(#net:parameters(), 8, "parameters() gives the same ones")
  net.first = nn.Linear(2, 3)
  tap.is(names_of(net)[7], "first.weight", "a part that is replaced keeps its place")
  net.first = nil
  tap.is(#net:parameters(), 7, "a part that is taken out is gone")
  net.scale.requires_grad = false
  tap.is(names_of(net)[7], "scale", "a parameter that is frozen is still one")
end)

tap.group("sharing", function()
  local net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
  net[2].weight = net[1].weight
  tap.is(names_of(net), {"0.weight", "0.bias", "1.bias"}, "a tensor under two names is one parameter")
  tap.ok(net:state_dict()["1.weight"], "and has both names in the state")
  net.whole = net
  tap.is(#net:modules(), 3, "a module that holds itself is walked once")
end)

tap.group("classes", function()
  local Child = Net:extend("Child")
  function Child:init(d) Net.init(self, d); self.more = nn.Linear(d, d) end
  local child = Child(3)
  tap.is(#child:parameters(), 10, "a class under a class has its parent's parts and its own")
  tap.is(child(rille.ones{4, 2}).shape, {4, 2}, "and its forward")
  tap.fails(function() nn.Module:extend("Empty")()(1) end, {"Empty has no forward", "nn-module.lua"},
    "a module without forward says so, at the line that called it")
  tap.fails(function() nn.Module:extend() end, {"name"}, "a class wants a name")
  tap.ok(tostring(child):find("(blocks.0): nn.Linear(3, 3)", 1, true), "a module prints its parts")
end)

tap.group("state", function()
  local a, b = Net(3), Net(3)
  local state, before = a:state_dict(), b.last.weight
  rille.no_grad(function() a.last.bias:copy_(rille.tensor{5, 6}) end)
  tap.ok(state["last.bias"]:totable()[1] ~= 5, "a state does not change with later updates")
  b:to_global{placement = P0, sbp = "B"}
  b.blocks[1].weight:to_global_{placement = P0, sbp = "S(1)"}
  b:load_state_dict(a:state_dict())
  tap.is(b.last.bias:totable(), {5, 6}, "loading copies values")
  tap.ok(rawequal(before, b.last.weight), "into the same parameters")
  tap.is({b.blocks[1].weight.sbp, b.last.weight.placement.ranks}, {"S(1)", {0, 1}}, "which keep their layouts")
  tap.is(b.blocks[1].weight:totable(), a.blocks[1].weight:totable(), "whatever those are")

  local bad = a:state_dict()
  bad["last.bias"], bad["last.wieght"], bad["first.weight"] = nil, bad["last.weight"], rille.ones{2, 3}
  tap.fails(function() b:load_state_dict(bad) end, {"'last.bias' is missing", "'last.wieght' is not a parameter",
    "'first.weight' is {3, 2} here, {2, 3}", "nn-module.lua"}, "a state that does not fit is told in full, at the user's line")
  tap.is(b.last.bias:totable(), {5, 6}, "and nothing of it was loaded")
end)

tap.group("what is no parameter", function()
  for _, value in ipairs{1, "one", {1}, rille.placement("cpu", {0})} do
    tap.fails(function() nn.Parameter(value) end, {"nn-module.lua:", "nn.Parameter takes a tensor"}, type(value) .. " is none")
  end
  tap.fails(function() nn.Linear(rille.ones({2}), 2) end, {"nn.Linear", "not a rille.tensor"}, "a size is not a tensor")
end)

tap.group("modes", function()
  local net = nn.Sequential(nn.Dropout(0.5), nn.Sequential(nn.Dropout(0.5)))
  net:eval()
  tap.is({net[1].training, net[2][1].training}, {false, false}, "eval reaches every part")
  net:train()
  tap.is({net[1].training, net[2][1].training}, {true, true}, "so does train")
  tap.is(nn.Dropout(0.5).training, true, "a module begins in training")
  local seen = {}
  net:apply(function(m) seen[#seen + 1] = m end)
  tap.is({#seen, rawequal(seen[4], net)}, {4, true}, "apply visits parts before the whole")
end)

tap.group("start", function()
  local function weights()
    rille.manual_seed(7)
    return nn.Linear(100, 50).weight
  end
  local one = weights()
  local two = weights():to_global_{placement = P0, sbp = "S(0)"}
  tap.is(two:totable(), one:totable(), "the start depends on the seed alone")
  tap.ok(one:abs():max():item() <= 0.1 and one:abs():max():item() > 0.099, "Linear starts within 1 / sqrt(inputs)")
  tap.ok(math.abs(one:mean():item()) < 0.003, "around zero")
  local e = nn.Embedding(100, 100).weight
  tap.ok(math.abs(e:square():mean():item() - 1) < 0.05, "Embedding starts with variance 1")
end)

tap.done()
