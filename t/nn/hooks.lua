-- hooks.lua - tests hooks of tensors and modules, retain_grad, and their effect in compiled steps. Hooks follow
-- PyTorch's rules: they run in order of registration, each once per backward, and receive the complete gradient.
-- retain_grad keeps the gradient as it is after all hooks.
local tap = dofile("t/lib/tap.lua")
local nn = rille.nn

local function leaf(values) return rille.tensor(values, {requires_grad = true}) end
local function values(t) return t and table.concat(t:totable(), " ") end

-- ---- hooks of tensors ----

local x = leaf{1, 2}
local log = {}
local y = x * 3
y:register_hook(function(g) log[#log + 1] = "first " .. values(g); return g * 2 end)
y:register_hook(function(g) log[#log + 1] = "second " .. values(g) end)
y:retain_grad()
x:register_hook(function(g) log[#log + 1] = "leaf " .. values(g); return g + 1 end)
local before = y:sum()
local loss = before + (y * y):sum()
loss:backward()
-- y's first hook sees dy = 1 + 2 y = {7, 13} and doubles it, so the second sees {14, 26}. The leaf's hook sees {42,
-- 78}, and adds 1 to dx.
tap.is(log, {"first 7.0 13.0", "second 14.0 26.0", "leaf 42.0 78.0"}, "hooks see complete gradients, one after the other")
tap.is(values(x.grad), "43.0 79.0", "a hook replaces the gradient of a leaf")
tap.is(values(y.grad), "14.0 26.0", "a retained gradient is what the hooks have made")

local g = rille.grad((x * x):sum(), {x, x})
tap.is(values(g), "3.0 5.0", "hooks also apply to rille.grad")

x = leaf{1, 2}
local handle = x:register_hook(function(d) return d * 100 end)
handle:remove()
handle:remove()
x:sum():backward()
tap.is(values(x.grad), "1.0 1.0", "a hook that was removed is not called")

local z = x * 1
local other = z:register_hook(function(d) return d * 100 end)
other:remove()
x.grad = nil
z:sum():backward()
tap.is(values(x.grad), "1.0 1.0", "likewise a hook of a result")

x.grad = nil
local own
z = x * 1
own = z:register_hook(function(d)
  own:remove()
  return d * 5
end)
loss = z:sum()
loss:backward{retain_graph = true}
loss:backward()
tap.is(values(x.grad), "6.0 6.0", "a hook may remove itself")

local a, b = table.unpack(rille.chunk(x * 1, 2))
a:register_hook(function(d) return d * 7 end)
x.grad = nil;
(a + b * 2):sum():backward()
tap.is(values(x.grad), "7.0 2.0", "one of several results has a hook")

local top = (x * 1):topk(1)
top:register_hook(function(d) return d * 7 end)
x.grad = nil
top:sum():backward()
tap.is(values(x.grad), "0.0 7.0", "the first result of topk has a hook")

x.grad = nil
z = x * 2
z:retain_grad()
z:retain_grad()
for _ = 1, 2 do (z * z):sum():backward{retain_graph = true} end
tap.is(values(z.grad), "8.0 16.0", "retained gradients add up over passes, like those of leaves")

local seen
z = x * 2
z:register_hook(function() seen = rille.no_grad(function() return 1 end); rille.ones{2}:sum():item() end);
(z * z):sum():backward()
tap.is(seen, 1, "a hook may compute values")

-- ---- hooks that remove hooks or handles, call backward, or fail ----

local gone = leaf{1, 2}
gone:register_hook(function(d)
  gone = nil
  collectgarbage()
  collectgarbage()
  return d * 2
end)
local alone = (gone * gone):sum()
tap.ok(pcall(alone.backward, alone), "a hook may drop the last handle of its parameter")

x.grad = nil
z = x * 1
local hooks = {}
for i = 1, 3 do
  hooks[i] = z:register_hook(function(d)
    for k = 1, 3 do hooks[k]:remove() end
    z:register_hook(function(e) return e * 2 end)
    return d + i
  end)
end
loss = z:sum()
loss:backward{retain_graph = true}
tap.is(values(x.grad), "2.0 2.0", "a hook may remove all hooks; a hook that it adds begins with the next pass")
x.grad = nil
loss:backward()
tap.is(values(x.grad), "2.0 2.0", "which calls the new hook only")

x.grad = nil
z = x * 2
local part, first = z:sum(), true
z:register_hook(function(d)
  if first then
    first = false
    part:backward{retain_graph = true}
  end
  return d
end)
loss = (z * z):sum()
loss:backward()
tap.is(values(x.grad), "10.0 18.0", "a hook may call backward through the same operators")

x.grad, first = nil, true
z = x * 2
z:register_hook(function() if first then first = false; error("once") end end)
loss = z:sum()
tap.ok(not pcall(loss.backward, loss) and x.grad == nil, "an error in a hook leaves gradients as they were")
loss:backward()
tap.is(values(x.grad), "2.0 2.0", "and backward may be called again")

for _, m in ipairs{
  {"a hook without a gradient", function() rille.ones{1}:register_hook(print) end, "register_hook: the tensor must require a gradient"},
  {"a hook that is no function", function() x:register_hook(3) end, "register_hook: the hook must be a function, found 3"},
  {"a hook after backward", function() z:register_hook(print) end, "register_hook: backward was already called"},
  {"a hook of another shape", function() local w = x * 1; w:register_hook(function(d) return d:sum() end); w:sum():backward() end, "hook: a gradient must have the shape of its tensor"},
  {"a hook that returns a number", function() local w = x * 1; w:register_hook(function() return 2 end); w:sum():backward() end, "expected a tensor or nothing as the new gradient, found 2"},
  {"an error in a hook", function() local w = x * 1; w:register_hook(function() error("mine") end); w:sum():backward() end, "mine"},
  {"retain_grad without a gradient", function() rille.ones{1}:retain_grad() end, "retain_grad: the tensor must require a gradient"},
  {"a hook of a parameter in a step", function() rille.graph(function(v) x:register_hook(print); return v * x end)(rille.ones{2}) end, "hooks of parameters must be registered outside a compiled step"},
  {"retain_graph as a text", function() x:sum():backward{retain_graph = "yes"} end, "retain_graph must be true or false"},
  {"another option", function() x:sum():backward{retain = true} end, "retain"},
} do tap.fails(m[2], {m[3]}, m[1] .. " is an error") end

-- ---- in compiled steps ----

local P0, P01 = rille.placement("cpu", {0}), rille.placement("cpu", {0, 1})
for _, how in ipairs{{"one device", P0, "B", "B"}, {"rows split", P01, "S(0)", "B"}, {"weights split", P01, "B", "S(1)"}} do
  for _, pieces in ipairs{1, 4} do
    local function run(compiled)
      rille.manual_seed(3)
      local w = rille.randn({4, 4}, {placement = how[2], sbp = "B"}):to_global{placement = how[2], sbp = how[4]}:detach():requires_grad_(true)
      local v = rille.randn({8, 4}, {placement = how[2], sbp = "B"}):to_global{placement = how[2], sbp = how[3]}
      w:register_hook(function(d) return d * 2 + d:abs():max() end)
      local function train(u)
        local h = u:matmul(w):transpose(0, 1)
        local l = h:tanh():sum()
        h:register_hook(function(d) return d * d end)
        l:backward()
        local d = w.grad
        w.grad = nil
        return d
      end
      local step = compiled and rille.graph(train, {micro_batches = pieces}) or train
      step(v)
      return step(v)
    end
    local eager, compiled = run(false), run(true)
    tap.ok((eager - compiled):abs():max():item() < 1e-5, ("hooks in a compiled step of %d micro-batches: %s"):format(pieces, how[1]))
  end
end

local factor, w = 2, leaf{1, 1}
local step = rille.graph(function(v)
  (w * v):sum():backward()
  local d = w.grad
  w.grad = nil
  return d
end)
local v = rille.tensor{1, 2}
tap.is(values(step(v)), "1.0 2.0", "a step without hooks")
local h = w:register_hook(function(d) return d * factor end)
tap.is(values(step(v)), "2.0 4.0", "a hook that is registered later makes the step trace again")
factor = 3
tap.is(values(step(v)), "3.0 6.0", "a step follows the values that a hook reads")
h:remove()
tap.is(values(step(v)), "1.0 2.0", "so does the removal of a hook")

step = rille.graph(function(u)
  local k = w * u
  k:retain_grad();
  (k * k):sum():backward()
  w.grad = nil
  return k.grad
end)
tap.is(values(step(v)), "2.0 4.0", "a step may return a retained gradient")

-- ---- hooks of modules ----

local net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
rille.no_grad(function()
  net[1].weight:copy_(rille.tensor{{1, 0}, {0, 1}})
  net[1].bias:zero_()
  net[3].weight:copy_(rille.tensor{{2, 3}})
  net[3].bias:zero_()
end)
log = {}
local input = rille.tensor{{1, 2}}
local function note(name) return function(m, args, result)
  log[#log + 1] = ("%s %s %d %s"):format(name, m.__name, #args, result and values(result[0]) or "-")
end end
local handles = {net[1]:register_forward_pre_hook(note("before")), net[1]:register_forward_hook(note("after")), net:register_forward_hook(note("net"))}
net(input)
tap.is(log, {"before nn.Linear 1 -", "after nn.Linear 1 1.0 2.0", "net nn.Sequential 1 8.0"}, "forward hooks get module, arguments and result")
handles[#handles + 1] = net[1]:register_forward_pre_hook(function(_, args) return args[1] * 10 end)
handles[#handles + 1] = net:register_forward_hook(function(_, _, result) return result + 1 end)
tap.is(net(input):item(), 81, "returned values replace arguments and results")
local compiled = rille.graph(net)
tap.fails(function() compiled(input) end, {"reading a value inside a graph"}, "a hook that reads a value fails in a compiled step")
for i = 1, 3 do handles[i]:remove() end
tap.is(compiled(input):item(), 81, "also in a compiled step")
for _, each in ipairs(handles) do each:remove() end
tap.is({net(input):item(), compiled(input):item()}, {8, 8}, "removed hooks are not called, nor in compiled steps")

log = {}
local function show(list) return #list == 0 and "none" or values(list[1][0]) end
handles = {}
for i = 1, 3, 2 do
  handles[#handles + 1] = net[i]:register_full_backward_hook(function(m, dinput, doutput)
    log[#log + 1] = ("%d %s %s %s"):format(i, m.__name, show(dinput), show(doutput))
  end)
end
net(input):sum():backward()
tap.is(log, {"3 nn.Linear 2.0 3.0 1.0", "1 nn.Linear none 2.0 3.0"}, "backward hooks get the gradients of arguments and results, the last module first")
net[1].weight.grad = nil
handles[#handles + 1] = net[3]:register_full_backward_hook(function(_, dinput) return {dinput[1] * 10} end)
net(input):sum():backward()
tap.is(values(net[1].weight.grad[0]), "20.0 40.0", "a returned list replaces the gradients of the arguments")
for i = 1, 2 do handles[i]:remove() end
net[1].weight.grad = nil
local train = rille.graph(function(u)
  net(u):sum():backward()
  local d = net[1].weight.grad
  net[1].weight.grad = nil
  return d
end)
tap.is(values(train(input)[0]), "20.0 40.0", "also in a compiled step")
for _, each in ipairs(handles) do each:remove() end
tap.is(values(train(input)[0]), "2.0 4.0", "removed backward hooks are not called, nor in compiled steps")

tap.fails(function() net:register_forward_hook(3) end, {"register_forward_hook: the hook must be a function, found 3"}, "a module's hook must be a function")
net:register_full_backward_hook(function() return 3 end)
tap.fails(function() net(input:detach():requires_grad_(true)):sum():backward() end, {"must return a list of gradients or nothing, found 3"}, "a backward hook returns a list")

-- Tries hooks of a module with two arguments and two results. A hook that returns new values must return a tensor for
-- each of the two tensors.
do
  local Pair = nn.Module:extend("Pair")
  function Pair:forward(a, b) return a * 2, b * 3 end
  local Outer = nn.Module:extend("Outer")
  function Outer:init() self.pair = Pair() end
  function Outer:forward(a, b)
    local u, v = self.pair(a, b)
    return u + v
  end
  local t, w = rille.ones{2}, rille.ones({2}, {requires_grad = true})
  local function run(kind, hook, in_step)
    local outer = Outer()
    outer.pair["register_" .. kind](outer.pair, hook)
    local function train(a, b)
      local y = outer(a * w, b * w):sum()
      if y.requires_grad then y:backward() end
      return y
    end
    return (in_step and rille.graph(train) or train)(rille.ones{2}, rille.ones{2}):item()
  end
  local kinds = {{"forward_pre_hook", "argument"}, {"forward_hook", "result"}, {"full_backward_hook", "gradient"}}
  local wrong = {{"a number", 3, t, 1, "found 3"}, {"a string second", t, "x", 2, 'found "x"'}, {"only the first", t, nil, 2, "found nil"},
    {"a table", {}, t, 1, "found a table"}}
  for _, in_step in ipairs{false, true} do
    for _, kind in ipairs(kinds) do
      local is_list, how = kind[1] == "full_backward_hook", in_step and ", compiled" or ""
      for _, w in ipairs(wrong) do
        tap.fails(function() run(kind[1], function() if is_list then return {w[2], w[3]} end return w[2], w[3] end, in_step) end,
          {"hooks.lua:", "Pair: the ", " at t/nn/hooks.lua:", ("%s %d must be a tensor, %s"):format(kind[2], w[4], w[5])},
          ("%s returns %s%s: refused"):format(kind[1], w[1], how))
      end
      tap.ok(run(kind[1], function() if is_list then return {t, t} end return t, t end, in_step) > 0, kind[1] .. ": two tensors are accepted" .. how)
    end
    tap.fails(function() run("full_backward_hook", function() return {t, t, t} end, in_step) end, {"one gradient per argument, 1 to 2, found the key 3"},
      "more gradients than arguments are refused")
  end
end

tap.done()
