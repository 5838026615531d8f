-- module.lua - tests modules: order of parts, names, state, modes, placements.
local tap = dofile("t/lib/tap.lua")
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

local function names_of(net) return tap.all(net:named_parameters()) end

tap.group("names", function()
  local net = Net(3)
  tap.is(names_of(net), {"last.weight", "last.bias", "blocks.0.weight", "blocks.0.bias", "blocks.1.weight", "blocks.1.bias",
    "first.weight", "scale"}, "parameters come in order of definition, lists count from 0, other tensors are no parameters")
  tap.is(#net:parameters(), 8, "parameters() returns the same parameters")
  net.first = nn.Linear(2, 3)
  tap.is(names_of(net)[7], "first.weight", "a part that is replaced keeps its place")
  net.first = nil
  tap.is(#net:parameters(), 7, "a removed part is gone")
end)

tap.group("sharing", function()
  local net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
  net[2].weight = net[1].weight
  tap.is(names_of(net), {"0.weight", "0.bias", "1.bias"}, "a tensor under two names is one parameter")
  tap.ok(net:state_dict()["1.weight"], "a shared tensor has both names in the state")
  net.whole = net
  tap.is(#net:modules(), 3, "a module that holds itself is walked once")
end)

tap.group("tied", function()
  local net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
  nn.tie(net[1], "weight", net[2], "weight")
  tap.ok(rawequal(net[1].weight, net[2].weight), "nn.tie makes two names one tensor")
  local state = net:state_dict()
  state["0.weight"] = nil
  tap.ok(pcall(net.load_state_dict, net, state), "a state may have either name of a tied tensor")
  state["0.weight"] = rille.ones{2, 2}
  tap.fails(function() net:load_state_dict(state) end, {"'0.weight' and '1.weight' are one tensor", "module.lua"},
    "two values for a tied tensor are refused")
  state["0.weight"], state["1.weight"] = nil, nil
  tap.fails(function() net:load_state_dict(state) end, {"'0.weight' is missing"}, "a state without a tied tensor is refused")
  tap.fails(function() nn.tie(net[1], "weight", nn.Linear(2, 3), "weight") end, {"{2, 2}", "{3, 2}", "module.lua"},
    "tied shapes must be equal")
  tap.fails(function() nn.tie(net[1], "wieght", net[2], "weight") end, {"wieght"}, "an unknown name is refused")
end)

tap.group("buffers", function()
  local net = nn.Module:extend("Net")()
  net.a = nn.Linear(2, 2)
  net:buffer("seen", rille.zeros{2})
  tap.is(#net:parameters(), 2, "a buffer is no parameter")
  local name, t = net:named_buffers()()
  tap.ok(name == "seen" and rawequal(t, net.seen) and net:state_dict().seen, "a buffer has a name and is in the state")
  local changed = rille.nn.Linear(2, 2)
  changed.weight = nil
  changed:buffer("weight", rille.zeros{2, 2})
  local kinds = {}
  for _, found in ipairs(changed:named_tensors()) do kinds[#kinds + 1] = found.name .. " " .. found.kind end
  tap.is(kinds, {"weight buffer", "bias parameter"}, "a buffer in the place of a parameter has one name")
  net:to_global{placement = P0, sbp = "B"}
  tap.is(net.seen.placement.ranks, {0, 1}, "a buffer moves with its module")
  local state = net:state_dict()
  state.seen = rille.tensor{3, 4}
  tap.is(net:load_state_dict(state).seen:totable(), {3, 4}, "a buffer is loaded")
  nn.tie(net, "seen", net, "again")
  net:to("bf16")
  tap.is({net.a.weight.dtype, net.seen.dtype, net.a.weight.requires_grad}, {"bf16", "bf16", true}, "to() casts parameters and buffers")
  tap.ok(rawequal(net.seen, net.again), "tied buffers stay tied")
end)

tap.group("classes", function()
  local Child = Net:extend("Child")
  function Child:init(d) Net.init(self, d); self.more = nn.Linear(d, d) end
  local child = Child(3)
  tap.is(#child:parameters(), 10, "a subclass has its parent's parts and its own")
  tap.is(child(rille.ones{4, 2}).shape, {4, 2}, "a subclass has its parent's forward")
  tap.fails(function() nn.Module:extend("Empty")()(1) end, {"module.lua", "Empty has no forward; write function Empty:forward(x)"},
    "a module without forward is reported at the caller's line")
  tap.fails(function() nn.Module:extend() end, {"name"}, "a class needs a name")
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
  tap.ok(rawequal(before, b.last.weight), "loading keeps the parameter tensors")
  tap.is({b.blocks[1].weight.sbp, b.last.weight.placement.ranks}, {"S(1)", {0, 1}}, "loading keeps their layouts")
  tap.is(b.blocks[1].weight:totable(), a.blocks[1].weight:totable(), "loading copies values in any layout")

  local bad = a:state_dict()
  bad["last.bias"], bad["last.wieght"], bad["first.weight"] = nil, bad["last.weight"], rille.ones{2, 3}
  tap.fails(function() b:load_state_dict(bad) end, {"'last.bias' is missing", "'last.wieght' is not a parameter",
    "'first.weight' is {3, 2} here, {2, 3}", "module.lua"}, "a state that does not fit is refused with all differences, at the user's line")
  tap.is(b.last.bias:totable(), {5, 6}, "nothing of a refused state is loaded")
end)

tap.group("buffers", function()
  local net = nn.Linear(2, 2)
  net.part = nn.ReLU()
  for name, what in pairs{weight = "a parameter", part = "a part", forward = "a field or method", train = "a field or method"} do
    tap.fails(function() net:buffer(name, rille.ones{2}) end, {"module.lua:", ("nn.Linear:buffer: '%s' is %s of the module"):format(name, what)},
      name .. " is not replaced by a buffer")
  end
  tap.is(net.weight.shape, {2, 2}, "the parameter is unchanged")
  net:buffer("seen", rille.zeros{1})
  tap.ok(net:buffer("seen", rille.zeros{3} + 1).is_leaf, "a buffer that is registered with the result of an operator is a variable")
  net:buffer("seen", rille.ones{3})
  tap.is(net.seen.shape, {3}, "a buffer may be replaced")
  net.mask = rille.ones{2}
  net:buffer("mask", net.mask)
  tap.is(net:state_dict().mask.shape, {2}, "a tensor in a field may become a buffer")
  tap.fails(function() net:buffer("w", nn.Parameter(rille.ones{2})) end, {"'w' requires a gradient, so it is a parameter; write net.w = t"}, "a parameter is no buffer")
  tap.fails(function() net:buffer(rille.ones{2}, "w") end, {'expected a name and a tensor, found a tensor and "w"'}, "swapped arguments are named")
end)

tap.group("frozen parameters", function()
  local net = nn.Module:extend("Frozen")()
  local w = rille.ones{2}:requires_grad_(true)
  w.requires_grad = false
  net.w = w
  net.list = {rille.ones({3}, {requires_grad = true}):requires_grad_(false)}
  net.constant = rille.ones{4}
  tap.is(names_of(net), {"w", "list.0"}, "a tensor that was frozen before it was set is a parameter; a constant is not")
  tap.is({net:state_dict().w ~= nil, net:state_dict().constant}, {true}, "the state has it")
  net:load_state_dict{w = rille.ones{2} * 5, ["list.0"] = rille.ones{3}}
  tap.is({w:totable(), w.requires_grad}, {{5, 5}, false}, "loading keeps it frozen")
end)

tap.group("classes and functions in the wrong place", function()
  tap.fails(function() nn.Sequential(nn.Linear(2, 2), nn.ReLU) end, {"argument 2 must be a module, found the class nn.ReLU; call the class"}, "a class in a Sequential")
  tap.fails(function() nn.Sequential(5) end, {"argument 1 must be a module, found 5"}, "a number in a Sequential")
  local net = nn.Linear(2, 2)
  net.forward = 5
  tap.fails(function() net(rille.ones{2, 2}) end, {"nn.Linear: forward must be a function, found 5"}, "forward is a number")
  local Net = nn.Module:extend("Net")
  Net.init = {}
  tap.fails(function() Net() end, {"Net: init must be a function, found a table"}, "init is a table")
end)

tap.group("values that are no parameters", function()
  for _, value in ipairs{1, "one", {1}, rille.placement("cpu", {0})} do
    tap.fails(function() nn.Parameter(value) end, {"module.lua:", "nn.Parameter: expected a tensor"}, type(value) .. " is no parameter")
  end
  tap.fails(function() nn.Linear(rille.ones({2}), 2) end, {"nn.Linear", "found a tensor"}, "a size is not a tensor")
end)

tap.group("names of parts", function()
  local function holding(fields)
    local m = nn.Module:extend("Holding")()
    for _, field in ipairs(fields) do m[field[1]] = field[2] end
    return m
  end
  local function names(m) return table.concat(names_of(m), " ") end
  local function one() return nn.Linear(1, 1, {bias = false}) end
  tap.is(names(holding{{"l", {one(), nil, one(), z = one(), a = one()}}}), "l.0.weight l.2.weight l.a.weight l.z.weight", "a gap in a list hides no later parts")
  for what, m in pairs{["a.b.weight"] = holding{{"a.b", one()}, {"a", {b = one()}}}, ["a.0.weight"] = holding{{"a", {one(), ["0"] = one()}}},
    ["a.weight"] = holding{{"a.weight", nn.Parameter(rille.ones{1})}, {"a", one()}}} do
    for _, method in ipairs{"parameters", "state_dict", "named_tensors"} do
      tap.fails(function() m[method](m) end, {"module.lua", "Holding: two of its tensors are called '" .. what .. "'"}, method .. " refuses two tensors of one name")
    end
    tap.fails(function() rille.save("none.safetensors", m) end, {"two of its tensors are called"}, "save refuses two tensors of one name")
  end
  local whole = holding{{"part", holding{{"fc", one()}}}}
  whole.part.whole = whole
  tap.is({names(whole), (tostring(whole):gsub("%s+", " "))}, {"part.fc.weight", "Holding( (part): Holding( (fc): nn.Linear(1, 1) (whole): Holding(...) ) )"},
    "a part may refer to its owner")
  tap.is(tostring(whole), tostring(whole), "printing twice gives the same text")
  for _, on in ipairs{0, "no"} do tap.fails(function() whole:train(on) end, {"Holding:train", "true or false"}, "train() accepts only true or false") end
  tap.fails(function() whole:apply(3) end, {"Holding:apply: the argument must be a function, found 3"}, "apply takes a function")
end)

tap.group("modes", function()
  local net = nn.Sequential(nn.Dropout(0.5), nn.Sequential(nn.Dropout(0.5)))
  net:eval()
  tap.is({net[1].training, net[2][1].training}, {false, false}, "eval reaches every part")
  net:train()
  tap.is({net[1].training, net[2][1].training}, {true, true}, "train reaches every part")
  tap.is(nn.Dropout(0.5).training, true, "a module begins in training")
  local seen = {}
  net:apply(function(m) seen[#seen + 1] = m end)
  tap.is({#seen, rawequal(seen[4], net)}, {4, true}, "apply visits parts before their owner")
end)

tap.group("initial values", function()
  local function weights()
    rille.manual_seed(7)
    return nn.Linear(100, 50).weight
  end
  local one = weights()
  local two = weights():to_global_{placement = P0, sbp = "S(0)"}
  tap.is(two:totable(), one:totable(), "initial values depend only on the seed")
  tap.ok(one:abs():max():item() <= 0.1 and one:abs():max():item() > 0.099, "Linear starts within 1 / sqrt(inputs)")
  tap.ok(math.abs(one:mean():item()) < 0.003, "Linear's weights have mean 0")
  for name, check in pairs{
    zeros_ = function(p) return p:abs():max():item() == 0 end, ones_ = function(p) return p:min():item() == 1 end,
    normal_ = function(p) return math.abs(p:var():item() - 1) < 0.05 end,
    uniform_ = function(p) return p:min():item() >= 0 and p:max():item() < 1 and math.abs(p:mean():item() - 0.5) < 0.02 end,
    xavier_uniform_ = function(p) return math.abs(p:abs():max():item() - math.sqrt(6 / 150)) < 1e-3 end,
    xavier_normal_ = function(p) return math.abs(p:var():item() - 2 / 150) < 1e-3 end,
    kaiming_uniform_ = function(p) return math.abs(p:abs():max():item() - math.sqrt(6 / 100)) < 1e-3 end,
    kaiming_normal_ = function(p) return math.abs(p:var():item() - 2 / 100) < 1e-3 end} do
    local p, q = weights(), weights():to_global_{placement = P0, sbp = "S(1)"}
    rille.manual_seed(3); nn.init[name](p)
    rille.manual_seed(3); nn.init[name](q)
    tap.ok(check(p), "nn.init." .. name .. " has its distribution")
    tap.is(q:totable(), p:totable(), "nn.init gives the same values in any layout")
  end
  tap.fails(function() nn.init.xavier_normal_(rille.zeros{3}) end, {"at least 2 dimensions", "module.lua"}, "xavier refuses one dimension")
  tap.ok(math.abs(nn.Embedding(100, 100, {std = 0.02}).weight:var():item() - 4e-4) < 2e-5, "Embedding accepts another deviation")
  tap.fails(function() nn.Embedding(2, 2, {stf = 1}) end, {"stf", "std", "module.lua"}, "an unknown option of Embedding is refused")
  local e = nn.Embedding(100, 100).weight
  tap.ok(math.abs(e:square():mean():item() - 1) < 0.05, "Embedding starts with variance 1")
end)

tap.group("names that are not there", function()
  local net, seq = nn.Linear(4, 2, {bias = false}), nn.Sequential(nn.ReLU())
  local Mine = nn.Module:extend("Mine")
  function Mine:forward(x) return self.more and self.more(x) or x end
  local mine = Mine()
  tap.is({net.bias, seq[2], mine.more, mine(rille.ones{1}):item()}, {[4] = 1}, "a field that a class may lack is nil, and so is any of a user's class")
  for name, says in pairs{wieght = "nn.Linear has no 'wieght'; the nearest name is 'weight'", cuda = "no 'cuda': write net:to_global",
    getParameters = "write net:parameters()", requires_grad_ = "write for _, p in ipairs", add = "nn.Linear has no 'add': write"} do
    tap.fails(function() return net[name] end, {"module.lua:", says}, name .. " is reported")
  end
  tap.fails(function() seq:add(net) end, {"nn.Sequential has no 'add': write net[#net + 1] = module"}, "Torch7's names")
  tap.fails(function() mine:register_backward_hook(print) end, {"a module has no 'register_backward_hook': write net:register_full_backward_hook(fn)"}, "PyTorch's names, of a user's class, too")
  tap.fails(function() net.parameters() end, {"is a method: write x:parameters(...), with a colon"}, "a dot in the place of a colon")
end)

-- Checks that an error inside a module of a model names the module's path, for errors of operators and of Lua checks,
-- in built-in and user classes.
tap.group("paths in errors", function()
  local Mine = nn.Module:extend("Mine")
  function Mine:init() self.w = nn.Parameter(rille.ones{3, 3}); self.loop = {}; self.loop.loop = self.loop end
  function Mine:forward(x) local y = x:matmul(self.w) return y end
  local Net = nn.Module:extend("Net")
  function Net:init()
    self.first = nn.Linear(4, 4)
    self.blocks = nn.Sequential(nn.ReLU(), nn.Sequential(nn.Linear(4, 2), nn.Linear(4, 2)))
    self.more = {nn.BatchNorm2d(3), named = Mine()}
  end
  local net, x = Net(), rille.ones{2, 4}
  for path, call in pairs{["Net.first"] = function() net.first(rille.ones{2, 3}) end, ["Net.blocks.1.1"] = function() net.blocks(x) end,
    ["Net.more.0"] = function() net.more[1](x) end, ["Net.more.named"] = function() net.more.named(x) end,
    ["nn.LayerNorm"] = function() nn.LayerNorm(4)(rille.ones{2, 3}) end} do
    tap.fails(call, {"module.lua:", "(in " .. path .. ")"}, path .. ": the error names the module")
  end
  local again = Net()
  tap.fails(function() again.blocks(x) end, {"(in Net.blocks.1.1)"}, "another model of the class has the same paths")
  local good, why = pcall(function() return Mine()(x) end)
  tap.ok(not good and not why:find("(in", 1, true), "a user's class that is no part of a model has no path", why)
end)

tap.group("forward called by name", function()
  local classes = {}
  for name, class in pairs(nn) do classes[name] = class end
  for name, class in tap.sorted(classes) do
    local good, m = pcall(function() return type(class) == "table" and class.__name and class(4, 4) end)
    if not good or not m then good, m = pcall(function() return type(class) == "table" and class.__name and class() end) end
    if good and m and m.forward and not m.__any_input and name ~= "Module" and name ~= "Sequential" then
      tap.fails(function() m:forward(1) end, {"module.lua:", "must be a tensor, found 1"}, name .. ":forward(1)")
      tap.fails(function() m.forward(rille.ones(4, 4)) end, {"module.lua:", "forward is a method"}, name .. ".forward(x)")
    end
  end
  local x = rille.ones(2, 4)
  for _, row in ipairs{{nn.Positions(3, 4), {x, rille.ones(2, 3, 5), rille.full({}, 1)}}, {nn.MixtureOfExperts(4, 4, 2), {rille.zeros{2, 0}, rille.full({}, 1)}}} do
    for i, input in ipairs(row[2]) do
      tap.fails(function() row[1](input) end, {row[1].__name .. ": ", "input"}, ("%s, input %d"):format(row[1].__name, i))
    end
  end
end)

tap.done()
