-- checkpoint.lua - tests checkpoints of trainings with compiled steps, parameter groups, pending gradients, random
-- numbers and a position in the data. A training that resumes from a checkpoint must give the same bits as one that
-- is not interrupted. A damaged or unsuitable checkpoint must be rejected before anything is changed.

local tap = dofile("t/lib/tap.lua")
local nn, optim, T = rille.nn, rille.optim, rille.tensor
local P = rille.placement("cpu", {0, 1})
local dir = tap.folder()
local function list(at) return tap.all(tap.output("ls '" .. at .. "'"):gmatch("[^\n]+")) end

local kinds = {
  {"SGD", {lr = 0.1}}, {"SGD with momentum", {lr = 0.1, momentum = 0.9}, optim.SGD}, {"AdamW", {lr = 0.05, betas = {0.8, 0.95}}, optim.AdamW}}
kinds[1][3] = optim.SGD

-- Returns a training. how: "eager" or "compiled". The batch and the first layer's weight are sharded.
local function training(kind, how, seed)
  rille.manual_seed(seed)
  local net = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.3), nn.Linear(6, 3))
  net:to_global{placement = P, sbp = "B"}
  net[1].weight:to_global_{placement = P, sbp = "S(1)"}
  local ids = tap.list(40, function(i) return i * i % 11 end)
  local t = {net = net}
  t.opt = kind[3]({{params = {net[1].weight, net[3].weight}, lr = 0.02}, {params = {net[1].bias, net[3].bias}}}, kind[2])
  t.data = rille.data.tokens(ids, {batch = 2, length = 4, seed = seed, placement = P, sbp = "S(0)"})
  local function run(x, y) return tap_backward(net(x:to("f32") / 10):cross_entropy(y[{{}, 0}] % 3)) end
  local step = how == "eager" and run or rille.graph(run)
  local function apply() t.opt:step(); t.opt:zero_grad() end
  local update = rille.graph(function(x, y) local loss = run(x, y); apply(); return loss end)
  function t.run(n)
    local losses = {}
    for i = 1, n do
      local x, y = t.data:next()
      if how == "compiled" and i % 2 == 0 then
        losses[i] = update(x, y):item()
      else
        losses[i] = step(x, y):item()
        -- two of three steps apply their gradients; every third step leaves them to the next step
        if i % 3 ~= 0 then apply() end
      end
      t.opt.lr = t.opt.lr * 0.9
    end
    losses[n + 1] = rille.rand({2}):totable()
    return losses
  end
  t.parts = {model = net, optimizer = t.opt, data = t.data}
  function t.save(step_number, options, note)
    rille.checkpoint.save(dir, {model = net, optimizer = t.opt, data = t.data, step = step_number, note = note}, options)
  end
  function t.state() local s = {}; for i, p in ipairs(net:parameters()) do s[i] = p:totable() end; return s end
  return t
end

tap.group("resuming", function()
  for _, kind in ipairs(kinds) do
    for _, how in ipairs{"eager", "compiled"} do
      if not tap.share() then goto next end
      local a = training(kind, how, 1)
      -- stops at a step that leaves its gradients pending
      a.run(3)
      a.save(3)
      local want = {a.run(50), a.state(), a.opt.lr}
      -- loads before the step is compiled (0 steps before the load), or after (4 steps)
      for _, before in ipairs{0, 4} do
        local b = training(kind, how, 2)
        if before > 0 then b.run(before) end
        tap.is(rille.checkpoint.load(dir, b.parts), 3, ("%s, %s, after %d steps of another run: loads"):format(kind[1], how, before))
        tap.is({b.run(50), b.state(), b.opt.lr}, want, "resumes bit for bit")
      end
      local c = training(kind, how, 2)
      c.run(4)
      rille.checkpoint.load(dir, {model = c.net, data = c.data})
      local steps = c.opt.steps
      local at = rille.checkpoint.load(dir, {optimizer = c.opt})
      tap.is({steps, at, c.opt.steps}, {3, 3, 2}, "the optimiser alone is loaded by the parameter names in the checkpoint")
      tap.is({c.run(50), c.state(), c.opt.lr}, want, "model and optimiser loaded separately resume bit for bit")
      ::next::
    end
  end
end)

-- Loads a checkpoint of one mesh on another mesh. Values must be equal. The losses of the first steps must be close,
-- because rounding errors are still small.
tap.group("another mesh", function()
  local function mesh(ranks) return rille.placement("cpu", ranks) end
  local square = mesh{{0, 1}, {2, 3}}
  local places = {{"one device", mesh{0}, {}}, {"dp", mesh{0, 1}, {data = 0}}, {"tp", mesh{2, 1}, {tensor = 0}},
    {"sp", mesh{0, 1}, {tensor = 0, sequence = true}}, {"dp x tp", square, {data = 0, tensor = 1}},
    {"2d", square, {tensor = {0, 1}, method = "2d"}}, {"zero 3", mesh{0, 1, 2, 3}, {data = 0, zero = 3}},
    {"stages", mesh{0}, {stages = {mesh{0}, mesh{1}}}}}
  local function training(place, seed)
    rille.manual_seed(seed)
    local m = rille.models.gpt2.new{vocab = 31, length = 8, layers = 2, heads = 4, width = 16, placement = place[2]}
    rille.parallel(m, place[3])
    local opt, x, ids = optim.AdamW(m:parameters(), {lr = 1e-2}), rille.parallel.input(m), tap.list(200, function(i) return i * i % 31 end)
    local data = rille.data.tokens(ids, {batch = 4, length = 8, seed = 3, placement = x.placement, sbp = x.sbp,
      labels = rille.parallel.labels(m)})
    local step = tap.training(opt, function(a, b) return m(a):reshape{-1, 31}:cross_entropy(b:reshape{-1}) end)
    local t = {parts = {model = m, optimizer = opt, data = data}}
    function t.run(n) return tap.list(n, function() return step(data:next()):item() end) end
    function t.values()
      local all = {}
      for i, p in ipairs(opt.params) do
        all[i] = {p:totable()}
        for slot, v in pairs(opt.slots[i]) do all[i][slot] = v:totable() end
      end
      return all
    end
    return t
  end
  for _, from in ipairs{places[1], places[5], places[7]} do
    local a, at = training(from, 1), dir .. "/" .. from[1]:gsub(" ", "")
    a.run(3)
    rille.checkpoint.save(at, a.parts)
    local values, losses = a.values(), a.run(5)
    for _, to in ipairs(places) do
      if not tap.share() then goto next end
      local b = training(to, 2)
      rille.checkpoint.load(at, b.parts)
      tap.is(b.values(), values, ("from %s to %s: every value is equal"):format(from[1], to[1]))
      tap.near(b.run(5), losses, "losses are close", 1e-3)
      ::next::
    end
  end
end)

-- Trains two models alternately, each with its own optimiser. Only one optimiser has state from the start, and the
-- models share a parameter.
tap.group("several optimisers", function()
  local places = {rille.placement("cpu", {0}), P}
  local function training(place, seed, named)
    rille.manual_seed(seed)
    local both, x = nn.Module(), rille.arange(8):reshape{2, 4}:to("f32"):to_global{placement = place, sbp = "S(0)"} / 8
    both.g, both.c, both.scale = nn.Linear(4, 4), nn.Linear(4, 1), nn.Parameter(T{1.5})
    both:to_global{placement = place, sbp = "B"}
    local function with(m) local list = m:parameters(); list[#list + 1] = both.scale; return list end
    local g, c = optim.AdamW(with(both.g), {lr = 0.05}), optim.SGD(with(both.c), {lr = 0.1, momentum = 0.9})
    local function made() return both.c(both.g(x) * both.scale):mean() end
    local steps = {rille.graph(function() local loss = -made(); loss:backward(); g:step(); g:zero_grad(); c:zero_grad(); return loss end),
      rille.graph(function() local loss = made() - both.c(x):mean(); loss:backward(); c:step(); g:zero_grad(); c:zero_grad(); return loss end)}
    local t = {model = both, g = g, c = c, parts = {model = both, optimizer = named and {g = g, c = c} or {g, c}}}
    function t.run(n)
      local out = {}
      for i = 1, n do out[i] = steps[i % 2 + 1]():item(); c.lr = c.lr * 0.9 end
      return out
    end
    return t
  end
  for k, named in ipairs{true, false} do
    local at, a = dir .. "/several" .. k, training(P, 1, named)
    a.run(5)
    rille.checkpoint.save(at, a.parts)
    local want = a.run(6)
    for i, place in ipairs(places) do
      local b = training(place, 2, named)
      b.run(2)
      rille.checkpoint.load(at, b.parts)
      tap.is({b.g.steps, b.c.steps}, {2, 3}, "each optimiser has its number of steps")
      if i == 2 then tap.is({b.run(6), b.c.lr}, {want, a.c.lr}, "both optimisers resume bit for bit") else tap.near(b.run(6), want, "on another mesh the losses are close", 1e-4) end
    end
    local c = training(P, 2, named)
    rille.checkpoint.load(at, {optimizer = c.parts.optimizer})
    tap.is({c.g.steps, c.c.steps}, {2, 3}, "the optimisers can be loaded without the model")
    local d = training(P, 2, named)
    rille.checkpoint.load(at, {model = d.model})
    tap.is({d.g.steps, d.c.steps, d.model.scale:item() ~= 1.5}, {0, 0, true}, "the model can be loaded without the optimisers")
    local function refused(optimizer, words, name)
      tap.fails(function() rille.checkpoint.load(at, {model = c.model, optimizer = optimizer}) end, words, name)
      tap.is({c.g.steps, c.c.steps}, {2, 3}, "the refused load changes nothing")
    end
    refused(c.g, {"the checkpoint has optimizers {" .. (named and "c, g" or "0, 1") .. "}, here is one"}, "a single optimiser is refused")
    refused({g = c.g, d = c.c}, {"the checkpoint has no optimizer.d", "has an optimizer '" .. (named and "c" or "0") .. "', which is missing here"}, "optimisers under other names are refused")
    refused(named and {g = c.c, c = c.g} or {c.c, c.g}, {named and "optimizer.c" or "optimizer.0", "optim.SGD"}, "exchanged optimisers are refused")
  end
  local a, at = training(P, 1, true), dir .. "/single"
  rille.checkpoint.save(at, {model = a.model, optimizer = a.g})
  tap.fails(function() rille.checkpoint.load(at, a.parts) end, {"the checkpoint has one optimizer, here are several"}, "several optimisers are refused for a checkpoint of one")
  for _, bad in ipairs{{}, {a.g, 3}, {["a.b"] = a.g}, {[1.5] = a.g}, {["0"] = a.c, a.g}, {[0] = a.g}, {[2] = a.g}} do
    tap.fails(function() rille.checkpoint.save(at, {optimizer = bad}) end, {"optimizer must be an optimizer, or a table of optimizers, found a table"}, "a table that is not a list of optimisers is refused")
  end
end)

-- Changes an option between steps, so that it needs state that a new optimiser lacks, or no longer needs the
-- optimiser's state.
tap.group("state that an option needs", function()
  local at = dir .. "/slots"
  local cases = {{"turned on", 0, 0.9}, {"turned off", 0.9, 0}, {"on all along", 0.9, 0.9}, {"off all along", 0, 0}}
  local function training(momentum)
    rille.manual_seed(1)
    local net = nn.Linear(3, 2):to_global{placement = P, sbp = "S(0)"}
    local t = {net = net}
    t.opt = optim.SGD({{params = {net.weight}}, {params = {net.bias}, nesterov = momentum > 0}}, {lr = 0.1, momentum = momentum})
    t.step = rille.graph(function(x)
      net(x):square():sum():backward()
      t.opt:step()
      t.opt:zero_grad()
    end)
    function t.run(n) for i = 1, n do t.step(rille.full({2, 3}, i, {placement = P, sbp = "B"})) end end
    function t.state() return {net.weight:totable(), net.bias:totable()} end
    t.parts = {model = net, optimizer = t.opt}
    return t
  end
  for _, case in ipairs(cases) do
    local name, before, saved = table.unpack(case)
    local a = training(before)
    a.run(3)
    a.opt.groups[2].nesterov = false
    a.opt.momentum = saved
    a.run(2)
    rille.checkpoint.save(at, a.parts)
    a.opt.momentum = 0.5
    a.run(2)
    for _, begun in ipairs{0, 0.9} do
      local b = training(begun)
      b.run(1)
      rille.checkpoint.load(at, b.parts)
      tap.is(b.opt.momentum, saved, ("momentum %s, loaded into an optimiser that began with %g"):format(name, begun))
      b.opt.momentum = 0.5
      b.run(2)
      tap.is(b.state(), a.state(), "resumes with the same bits")
    end
  end
  local b = training(0)
  b.net.bias = nil
  local before = b.opt:state_dict()
  tap.fails(function() rille.checkpoint.load(at, b.parts) end, {"model.bias"}, "a model without the bias is refused")
  tap.is(b.opt:state_dict()["0.m"], before["0.m"], "the refused load makes no state")
end)

tap.group("parameters of another dtype than the optimiser was made for", function()
  local function made() local net = nn.Linear(2, 2); return net, optim.AdamW(net:parameters(), {lr = 0.1}) end
  local a, opt = made()
  a:to("f64")
  rille.checkpoint.save(dir .. "/cast", {model = a, optimizer = opt})
  local b, other = made()
  b:to("f64")
  tap.is(rille.checkpoint.load(dir .. "/cast", {model = b, optimizer = other}), 0, "state is saved and loaded in the parameters' current dtype")
end)

tap.group("notes", function()
  local net = nn.Linear(2, 2)
  local note = {best = math.huge, low = -math.huge, list = {1, 2.5, {true, false}}, name = 'a "b"\n\1 é', deep = {a = {b = {c = 1e-300}}}, big = math.mininteger, third = 1 / 3, one = 1.0}
  rille.checkpoint.save(dir .. "/n", {model = net, note = note, step = 7})
  local step, back = rille.checkpoint.load(dir .. "/n", {model = net})
  tap.is({step, back}, {7, note}, "every number and text is read back")
  tap.is({math.type(back.one), math.type(back.big)}, {"float", "integer"}, "integers and floats keep their kind")
  for name, bad in pairs{tensor = T{1}, func = print, gap = {[3] = 1}, both = {1, a = 2}, bytes = "\255", loop = (function() local t = {}; t.t = t; return t end)()} do
    tap.fails(function() rille.checkpoint.save(dir .. "/n", {model = net, note = {x = bad}}) end, {"checkpoint.save: checkpoint"}, "a value that cannot be written is refused: " .. name)
  end
  tap.is(#list(dir .. "/n"), 1, "refused notes save nothing")
end)

tap.group("keep and async", function()
  local a, at = training(kinds[3], "compiled", 1), dir .. "/k"
  local states = {}
  for step = 1, 6 do
    a.run(1)
    rille.checkpoint.save(at, {model = a.net, optimizer = a.opt, data = a.data, step = step}, {async = true, keep = 2})
    states[step] = a.state()
    a.run(1)                                                       -- trains on while the checkpoint is written
  end
  tap.is({rille.checkpoint.load(at, a.parts), a.state()}, {6, states[6]}, "an asynchronous save stores the values of the time of the call")
  tap.is(#list(at), 2, "keep = 2 leaves two checkpoints")
  local b = training(kinds[3], "eager", 1)
  os.execute("rm -r '" .. at .. "'")
  b.save(1)
  rille.checkpoint.save(at, {model = b.net, step = 1}, {async = true})
  os.execute("chmod a-w '" .. at .. "'")
  tap.is(rille.checkpoint.load(at, {model = b.net}), 1, "a load waits for the asynchronous save")
  os.execute("chmod u+w '" .. at .. "'")
  os.execute("rm -r '" .. at .. "'")
  rille._checkpoint(dir .. "/gone/x.safetensors", {x = T{1}}, {}, {}, true)
  tap.fails(function() rille.save(dir .. "/y.safetensors", {x = T{1}}) end, {"gone/x.safetensors"}, "the next save raises the error of an asynchronous save")
  rille.save(dir .. "/y.safetensors", {x = T{1}})
end)

-- Loads in a second program while a training saves. The checkpoint that is being read is deleted, and a newer one
-- appears.
tap.group("loading while a training saves", function()
  local at, writer = dir .. "/beside", nn.Linear(2, 2)
  for _, part in ipairs{"_verify", "_contents", "_load"} do
    for _, often in ipairs{1, 3} do
      local net, real, step = nn.Linear(2, 2), rille[part], 1
      rille.checkpoint.save(at, {model = writer, step = step})
      rille[part] = function(...)
        if step <= often then
          step = step + 1
          rille.checkpoint.save(at, {model = writer, step = step}, {keep = 1})
        end
        return real(...)
      end
      local good, loaded = pcall(rille.checkpoint.load, at, {model = net})
      rille[part] = real
      tap.is({good, loaded}, {true, often + 1}, ("deleted before %s, %d times: the newer checkpoint is loaded"):format(part, often))
      tap.is(net.weight:totable(), writer.weight:totable(), "the newer checkpoint's values are loaded")
      os.execute("rm -r '" .. at .. "'")
    end
    local real = rille[part]
    rille.checkpoint.save(at, {model = writer, step = 1})
    rille.checkpoint.save(at, {model = writer, step = 2})
    rille[part] = function(...)
      for _, name in ipairs(list(at)) do os.remove(at .. "/" .. name) end
      return real(...)
    end
    tap.fails(function() rille.checkpoint.load(at, {model = writer}) end, {at, "no checkpoint in this folder"}, "if all checkpoints are deleted, the load fails")
    rille[part] = real
    os.execute("rm -r '" .. at .. "'")
  end
end)

tap.group("other names in the folder", function()
  local net, at = nn.Linear(2, 2), dir .. "/names"
  rille.checkpoint.save(at, {model = net, step = 1})
  local whole = list(at)[1]
  for _, name in ipairs{"checkpoint-99999999999999999999-step-1.safetensors", "checkpoint-9223372036854775807-step-1.safetensors",
    "checkpoint-x-step-1.safetensors", "checkpoint-00000009-step-99999999999999999999.shard", "step-99999999999999999999",
    "checkpoint-99999999999999999999-step-1.3.shard"} do
    assert(io.open(at .. "/" .. name, "w")):close()
  end
  tap.is(rille.checkpoint.load(at, {model = net}), 1, "files with numbers that no save writes are ignored")
  rille.checkpoint.save(at, {model = net, step = 2}, {keep = 1})
  tap.is({rille.checkpoint.load(at, {model = net}), #list(at)}, {2, 7}, "a save with keep = 1 leaves foreign files")
  tap.ok(not io.open(at .. "/" .. whole), "a save with keep = 1 deletes the older checkpoint")
end)

local function small(kind, more)
  return rille.models[kind].new(tap.with({vocab = 16, length = 8, layers = 2, heads = 2, width = 8}, more))
end

tap.group("unsuitable checkpoints", function()
  local a, at = training(kinds[3], "eager", 1), dir .. "/f"
  rille.checkpoint.save(at, {model = a.net, optimizer = a.opt, data = a.data, step = 1})
  local function refused(parts, words, name)
    local before = a.state()
    tap.fails(function() rille.checkpoint.load(at, parts, {fallback = true}) end, words, name)
    tap.is(a.state(), before, "the refused load changes nothing")
  end
  a.run(2)
  refused({model = nn.Linear(4, 6)}, {"'model.weight' is missing", "'model.0.weight'"}, "another model")
  refused({model = nn.Sequential(nn.Linear(4, 5), nn.Dropout(0.3), nn.Linear(5, 3))}, {"'model.0.weight' is {5, 4} here, {6, 4}"}, "other sizes")
  refused({model = a.net, optimizer = optim.SGD(a.net:parameters(), {lr = 1})}, {"optim.SGD", "optim.AdamW"}, "another optimiser")
  refused({model = a.net, optimizer = optim.AdamW(a.net:parameters(), {lr = 1})}, {"groups"}, "other groups")
  refused({model = a.net, data = rille.data.loader{T{1, 2, 3}, batch = 1}}, {"3 rows"}, "other data")
  for _, dtype in ipairs{"bf16", "f16", "f64"} do
    local other = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.3), nn.Linear(6, 3)):to(dtype)
    refused({model = other}, {("'model.0.weight' is %s here, f32 in the checkpoint"):format(dtype)}, "another dtype")
  end
  local deep, shallow = small("gpt2", {layers = 12}), small("gpt2", {layers = 2})
  local function with(m) return {model = m, optimizer = optim.AdamW(m:parameters(), {lr = 1})} end
  for _, row in ipairs{{deep, shallow, {"'model.config.layers' is 2 here, 12 in the checkpoint; 'model.h.", "is not in the model", "more unexpected"}},
    {shallow, deep, {"'model.config.layers' is 12 here, 2 in the checkpoint; 'model.h.", "is missing", "more missing"}}} do
    local depth = dir .. "/depth" .. row[1].config.layers
    rille.checkpoint.save(depth, with(row[1]))
    for _, parts in ipairs{with(row[2]), {model = row[2]}} do
      tap.fails(function() rille.checkpoint.load(depth, parts) end, row[3], "a model of another depth is refused by its config, then by names")
      local _, why = pcall(rille.checkpoint.load, depth, parts)
      tap.ok(#why < 600, "the error is short", why)
    end
    tap.fails(function() rille.checkpoint.load(depth, {optimizer = with(row[2]).optimizer}) end, {"optimizer.groups[1] has", "parameters here"}, "an optimiser with another number of parameters")
  end
  local transposed = nn.Linear(6, 4)
  rille.checkpoint.save(dir .. "/line", {model = transposed, optimizer = optim.SGD(transposed:parameters(), {lr = 1})})
  tap.fails(function() rille.checkpoint.load(dir .. "/line", {optimizer = optim.SGD({transposed.bias, transposed.weight}, {lr = 1})}) end,
    {"optimizer.groups[1].params[1] is {4} here, 'weight' {4, 6} in the checkpoint; pass model ="}, "parameters in another order")
  rille.checkpoint.save(dir .. "/alone", {optimizer = a.opt})
  at = dir .. "/alone"
  refused({model = a.net, optimizer = a.opt}, {"the checkpoint has no model"}, "a model from a checkpoint with an optimiser alone")
  at = dir .. "/f"
  tap.fails(function() rille.checkpoint.save(at, {model = a.net, note = {x = T{1}}}) end, {"checkpoint.note.x is a tensor"}, "a note with a tensor is refused")
  refused({modl = a.net}, {"'modl'"}, "an unknown part is refused")
  refused({model = 5}, {"model must be a module, found 5"}, "a part without state is refused")
  tap.is(rille.checkpoint.load(at, {}), 1, "load accepts a table without parts")
  tap.fails(function() rille.checkpoint.save(at, {model = a.net, step = 1.5}) end, {"step"}, "step must be a whole number")
  rille.checkpoint.save(dir .. "/whole", {model = a.net, step = 3.0})
  tap.is(math.type(rille.checkpoint.load(dir .. "/whole", {model = a.net})), "integer", "a step saved as a float is loaded as an integer")
  local most = dir .. "/whole/checkpoint-999999999999999-step-1.safetensors"
  io.open(most, "w"):close()
  tap.fails(function() rille.checkpoint.save(dir .. "/whole", {model = a.net}, {keep = 1}) end, {"checkpoint.lua:", "no number follows checkpoint 999999999999999"},
    "a save after the largest checkpoint number is refused")
  os.remove(most)
  tap.is(rille.checkpoint.load(dir .. "/whole", {model = a.net}), 3, "the refused save deletes nothing")
  tap.fails(function() rille.checkpoint.save(at, {model = a.net}, {keep = 0}) end, {"keep"}, "keep is at least 1")
  tap.fails(function() rille.checkpoint.load(dir .. "/none", a.parts) end, {"/none"}, "a folder that is not there is named")
end)

-- ---- loading into a model with the same shapes but other settings ----

local scaling = {rope_type = "linear", factor = 2.0}
local Own = nn.Module:extend("Own")
function Own:init(calls) self.calls, self.fc = calls, nn.Linear(2, 2) end

local Named = nn.Module:extend("models.named")
Named.init = Own.init
local Counting, count = nn.Linear:extend("nn.Counting"), 0
function Counting:init(...) nn.Linear.init(self, ...); count = count + 1; self.count = count end

local Heads = nn.MultiheadAttention:extend("Heads") -- a subclass that computes like its base class
local function noted(m, epoch) -- stores an epoch in a field of a module, as users do
  m.epoch = epoch
  return m
end

-- Classes with a method settings(). Built-in modules have settings with the same names, such as p and length, which
-- checkpoints ignore there; in these classes, checkpoints must compare them.
local Naming = nn.Module:extend("Naming")
function Naming:init(says) self.says, self.fc = says, nn.Linear(2, 2) end
function Naming:settings() return self.says end
local Scale = nn.Module:extend("Scale")
function Scale:init(by) self.by = by end
function Scale:settings() return {by = self.by} end
local Scaled = nn.LayerNorm:extend("Scaled") -- a subclass that computes like its base class, with one more setting
function Scaled:settings() return {by = self.by} end
local function scaled(by)
  local m = Scaled(4)
  m.by = by
  return m
end

-- Columns: saved model; model to load into; end of the expected error (nil: the load must succeed).
local likes = {
  {nn.MultiheadAttention(8, 4), nn.MultiheadAttention(8, 2), "'model.heads' is 2 here, 4 in the checkpoint; 'model.kv_heads' is 2 here, 4 in the checkpoint"},
  {nn.MultiheadAttention(8, 4, {is_causal = true}), nn.MultiheadAttention(8, 4), "'model.is_causal' is false here, true in the checkpoint"},
  {nn.MultiheadAttention(8, 2, {rotary = nn.Rotary(8, 4)}), nn.MultiheadAttention(8, 2, {rotary = nn.Rotary(8, 4, {base = 500000})}),
    "'model.rotary.base' is 500000 here, 10000 in the checkpoint"},
  {nn.MultiheadAttention(8, 2, {rotary = nn.Rotary(8, 4)}), nn.MultiheadAttention(8, 2), "'model.rotary.base' is nil here, 10000 in the checkpoint; 'model.rotary.size' is nil here, 4 in the checkpoint"},
  {nn.MultiheadAttention(8, 2, {rotary = nn.Rotary(8, 4)}), nn.MultiheadAttention(8, 2, {rotary = nn.Rotary(16, 4)})},
  {nn.Conv2d(1, 1, 3), nn.Conv2d(1, 1, 3, {padding = 1}), "'model.how.padding' is 1 here, 0 in the checkpoint"},
  {nn.Conv2d(1, 1, 3, {stride = {1, 2}}), nn.Conv2d(1, 1, 3, {stride = {1, 1}}), "'model.how.stride' is 1 here, \"{1, 2}\" in the checkpoint"},
  {nn.Conv2d(1, 1, 3, {padding = 1}), nn.Conv2d(1, 1, 3, {padding = {1, 1}})},
  {Heads(8, 4), Heads(8, 2), "'model.heads' is 2 here, 4 in the checkpoint; 'model.kv_heads' is 2 here, 4 in the checkpoint"},
  {nn.Sequential(nn.Linear(2, 2), nn.GELU()), nn.Sequential(nn.Linear(2, 2)), "'model.1' is nothing here, nn.GELU in the checkpoint"},
  {nn.Sequential(nn.Linear(2, 2)), nn.Sequential(nn.Linear(2, 2), nn.ReLU()), "'model.1' is nn.ReLU here, nothing in the checkpoint"},
  {nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)), nn.Sequential(nn.Linear(2, 2))},
  {noted(nn.Linear(2, 2), 1), noted(nn.Linear(2, 2), 2)}, {noted(nn.Linear(2, 2), 0 / 0), noted(nn.Linear(2, 2), 0 / 0)},
  {nn.LayerNorm(4), nn.LayerNorm(4, {eps = 1e-3}), "'model.eps' is 0.001 here, 1e-05 in the checkpoint"},
  {nn.RMSNorm(4, {eps = 1e-6}), nn.RMSNorm(4), "'model.how.eps' is nil here, 1e-06 in the checkpoint"},
  {nn.LayerNorm(4, {bias = false}), nn.RMSNorm(4), "'model' is nn.RMSNorm here, nn.LayerNorm in the checkpoint"},
  {nn.BatchNorm2d(2), nn.BatchNorm2d(2, {eps = 1e-3}), "'model.eps' is 0.001 here, 1e-05 in the checkpoint"},
  {nn.BatchNorm2d(2), nn.BatchNorm2d(2, {momentum = 0.5})},
  {nn.MixtureOfExperts(4, 4, 4), nn.MixtureOfExperts(4, 4, 4, {top_k = 1}), "'model.top_k' is 1 here, 2 in the checkpoint"},
  {nn.Sequential(nn.Linear(2, 2), nn.ReLU()), nn.Sequential(nn.Linear(2, 2), nn.GELU()), "'model.1' is nn.GELU here, nn.ReLU in the checkpoint"},
  {nn.Sequential(nn.GELU()), nn.Sequential(nn.GELU{approximate = "tanh"}), "'model.0.how.approximate' is \"tanh\" here, nil in the checkpoint"},
  {nn.Sequential(nn.Dropout(0.1)), nn.Sequential(nn.Dropout(0.2))},
  {Naming{window = 4, deep = {kind = "a", list = {1, 2}}}, Naming{window = 2, deep = {kind = "b", list = {2, 2}}},
    "'model.deep.kind' is \"b\" here, \"a\" in the checkpoint; 'model.deep.list' is 2 here, \"{1, 2}\" in the checkpoint; " ..
    "'model.window' is 2 here, 4 in the checkpoint"},
  {Naming{p = 0.1, training = false}, Naming{p = 0.2, training = true}, "'model.p' is 0.2 here, 0.1 in the checkpoint; 'model.training' is true here, false in the checkpoint"},
  {Naming{turn = nn.Rotary(8, 4)}, Naming{turn = nn.Rotary(8, 4, {base = 2})}, "'model.turn.base' is 2 here, 10000 in the checkpoint"},
  {Naming{a = 0 / 0}, Naming{a = 0 / 0}}, {Naming{}, Naming{a = 1}, "'model.a' is 1 here, nil in the checkpoint"},
  {Naming(), Naming{a = 1}}, {Naming{a = 1}, Naming()}, {Naming{a = 1}, Own(1)},
  {nn.Sequential(nn.Linear(2, 2), Scale(2)), nn.Sequential(nn.Linear(2, 2), Scale(3)), "'model.1.by' is 3 here, 2 in the checkpoint"},
  {nn.Sequential(nn.Linear(2, 2), Scale(2)), nn.Sequential(nn.Linear(2, 2)), "'model.1' is nothing here, a module with settings in the checkpoint"},
  {nn.Sequential(nn.Linear(2, 2), nn.ReLU()), nn.Sequential(nn.Linear(2, 2), Scale(2))},
  {scaled(2), scaled(3), "'model.by' is 3 here, 2 in the checkpoint"}, {scaled(2), scaled(2)},
  {Own(1), Own(2)}, {Named(1), Named(2)}, {Counting(2, 2), Counting(2, 2)},
  {nn.TransformerBlock(8, 2), nn.TransformerBlock(8, 2, {dropout = 0.5})},
  {small("gpt2"), small("gpt2", {activation = "gelu"}), "'model.config.activation' is \"gelu\" here, \"gelu_new\" in the checkpoint"},
  {small("gpt2"), small("gpt2", {heads = 4, eps = 1e-3}), "'model.config.eps' is 0.001 here, 1e-05 in the checkpoint; 'model.config.heads' is 4 here, 2 in the checkpoint"},
  {small("gpt2"), small("gpt2", {dropout = 0.1})},
  {small("llama"), small("llama", {theta = 500000}), "'model.config.theta' is 500000 here, 10000 in the checkpoint"},
  {small("llama"), small("llama", {rope_scaling = scaling}), "'model.config.rope_scaling.factor' is 2.0 here, nil in the checkpoint; " ..
    "'model.config.rope_scaling.rope_type' is \"linear\" here, nil in the checkpoint"},
  {small("llama"), small("llama", {length = 32})},
  {small("moe", {experts = 4}), small("moe", {experts = 4, top_k = 1}), "'model.config.top_k' is 1 here, 2 in the checkpoint"},
}

tap.group("models of the same shapes", function()
  for i, row in ipairs(likes) do
    local from, to, wrong = table.unpack(row, 1, 3)
    local at = dir .. "/like" .. i
    for ranks = 1, 2 do
      if ranks == 2 then from:to_global{placement = P, sbp = "B"} end
      rille.checkpoint.save(at, {model = from, step = i})
      local good, why = pcall(rille.checkpoint.load, at, {model = to})
      local what = ("%s, row %d, saved on %d: "):format(from.__name, i, ranks)
      if wrong then
        tap.ok(not good and why:sub(-#wrong) == wrong, what .. tostring(why))
      else
        tap.ok(good, what .. tostring(good and "settings that matter only in training may differ" or why))
      end
    end
    tap.is(rille.checkpoint.load(at, {model = from}), i, "the same model loads")
  end
  local loop = setmetatable({}, {__index = {settings = function(self) return {me = {self}} end}})
  local silent, odd = setmetatable({}, {__index = {settings = function() end}}), setmetatable({}, {__index = {settings = 3}})
  local Deep = {settings = function(self) return {more = setmetatable({}, getmetatable(self))} end}
  Deep.__index = Deep
  local turn = nn.Rotary(8, 4)
  for what, says in pairs{["'mask' is a tensor"] = {mask = T{1}}, ["'f' is a function"] = {f = print}, ["{name = value}, found 3"] = 3,
    ["'fc' is an nn.Linear"] = {fc = nn.Linear(1, 1)}, ["the settings of 'none' must be a table, {name = value}, found nil"] = {none = silent},
    ["the settings of 'a.me.1' contain themselves"] = {a = loop}, ["'odd' is a table"] = {odd = odd}, ["...' is nested too deep"] = {far = setmetatable({}, Deep)}} do
    local net = Naming(says)
    tap.fails(function() rille.checkpoint.save(dir .. "/says", {model = net}) end, {"checkpoint.lua:", "Naming:settings", what}, "a value that is not a setting is refused: " .. what)
  end
  local twice = Naming{a = turn, b = turn}
  rille.checkpoint.save(dir .. "/twice", {model = twice})
  turn.base = 3
  tap.fails(function() rille.checkpoint.load(dir .. "/twice", {model = twice}) end, {"'model.a.base' is 3", "'model.b.base' is 3"}, "a module under two names is compared under both")
  for what, part in pairs{model = rille.optim.SGD({nn.Parameter(T{1})}), optimizer = nn.Linear(1, 1), data = nn.Linear(1, 1)} do
    tap.fails(function() rille.checkpoint.save(dir .. "/says", {[what] = part}) end, {"checkpoint.lua:", "checkpoint.save: " .. what .. " must be a", "found an " .. (what == "model" and "optim.SGD" or "nn.Linear")},
      "a part of another kind is refused as " .. what)
  end
  local Table, field = nn.Module:extend("Table"), nn.Linear(1, 1)
  Table.settings, field.settings = {1}, {1}
  tap.fails(function() rille.checkpoint.save(dir .. "/says", {model = Table()}) end, {"Table:settings must be a function", "found a table"}, "a class whose settings is not a function is refused")
  tap.ok(pcall(rille.checkpoint.save, dir .. "/field", {model = field}), "an instance may have a field named settings")
  -- Tries checkpoints with a valid digest and an invalid description of the training.
  local opt = rille.optim.AdamW({nn.Parameter(T{0})}, {lr = 1})
  for i, row in ipairs{{"3", "not a checkpoint"}, {'{"step":3,"partial":[]}', "not a checkpoint"},
    {'{"step":3,"random":{"seed":"x","count":0},"partial":[]}', "not a checkpoint"}, {'{"step":3,"random":{"seed":1,"count":0.5},"partial":[]}', "not a checkpoint"},
    {'{"step":"x","random":{"seed":1,"count":0},"partial":[]}', "not a checkpoint"}, {'{"random":{"seed":1,"count":0},"partial":[]}', "not a checkpoint"},
    {'{"step":3,"random":{"seed":1,"count":0},"partial":{"0":3}}', "not a checkpoint"},
    {optimizer = '"x"'}, {optimizer = '{"kind":"optim.AdamW"}'}, {optimizer = '{"kind":"optim.AdamW","steps":-1,"options":[],"groups":[]}'},
    {optimizer = '{"kind":"optim.AdamW","steps":1.5,"options":[],"groups":[]}'}, {optimizer = '{"kind":"optim.AdamW","steps":1,"options":[],"groups":[1]}'},
    {optimizer = '{"kind":"optim.AdamW","steps":1,"options":[],"groups":[{"own":[],"params":[1]}]}'},
    {optimizer = '{"kind":"optim.AdamW","steps":1,"options":[],"groups":[{"own":3,"params":["0"]}]}'}} do
    local folder = dir .. "/strange" .. i
    os.execute("mkdir '" .. folder .. "'")
    local text = row[1] or '{"step":3,"random":{"seed":1,"count":0},"partial":[],"optimizer":' .. row.optimizer .. "}"
    rille._checkpoint(folder .. "/checkpoint-00000001-step-3.safetensors", {["optimizer.0.m"] = T{1}, ["optimizer.0.v"] = T{1}},
      {"rille.checkpoint", text}, {}, false)
    tap.fails(function() rille.checkpoint.load(folder, {optimizer = opt}) end, {"checkpoint.lua:", "checkpoint.load", row[2] or "optimizer"}, "a description that no save writes is refused: " .. text)
    tap.is({opt.steps, opt.lr, opt.slots[1].m:item()}, {0, 1, 0}, "the refused load changes nothing")
  end
  -- Loads a checkpoint of an older version, which has no settings.
  local at = dir .. "/old"
  os.execute("mkdir '" .. at .. "'")
  rille._checkpoint(at .. "/checkpoint-00000001-step-3.safetensors", {["model.weight"] = T{1, 1}, ["model.bias"] = T{0, 0}},
    {"rille.checkpoint", '{"step":3,"random":{"seed":1,"count":0},"partial":[]}'}, {}, false)
  tap.is(rille.checkpoint.load(at, {model = nn.LayerNorm(2, {eps = 1})}), 3, "a checkpoint without settings loads with any eps")
end)

tap.group("damage", function()
  local net, at = nn.Linear(2, 2), dir .. "/d"
  rille.checkpoint.save(at, {model = net, step = 1, note = "first"})
  rille.checkpoint.save(at, {model = net, step = 2, note = "second"})
  local path = at .. "/" .. list(at)[2]
  local whole = tap.read(path)
  local accepted = 0
  local function try(bytes)
    tap.write(path, bytes)
    local good, err = pcall(rille.checkpoint.load, at, {model = net})
    if good or not err:find("checkpoint-00000002", 1, true) then accepted = accepted + 1 end
  end
  for i = 1, #whole do
    if tap.share() then try(whole:sub(1, i - 1) .. string.char(whole:byte(i) ~ (1 << i % 8)) .. whole:sub(i + 1)) end
  end
  tap.is(accepted, 0, ("one flipped bit in any of %d bytes is refused, and the error names the file"):format(#whole))
  for cut = 0, #whole - 1 do
    if tap.share() then try(whole:sub(1, cut)) end
  end
  try(whole .. "x")
  tap.is(accepted, 0, "every truncation, and one more byte, are refused")
  tap.is(select(2, rille.checkpoint.load(at, {model = net}, {fallback = true})), "first", "fallback loads the previous checkpoint")
end)

-- Interrupts a load at many moments. The load must report the interrupt, must not treat it as damage, and must not
-- load an older checkpoint.
tap.case("interrupts", function()
  local seed = tonumber(os.getenv("SEED") or os.time())
  tap.diag("SEED=" .. seed)
  math.randomseed(seed)
  local a, at = training(kinds[3], "eager", 1), dir .. "/i"
  local stat = assert(io.open("/proc/self/stat"))
  local press = "kill -INT " .. stat:read("n")
  stat:close()
  for step = 1, 2 do
    a.run(1)
    rille.checkpoint.save(at, {model = a.net, optimizer = a.opt, data = a.data, step = step, note = {list = {1, 2, {"x"}}}})
  end
  -- Loads a checkpoint, and sends SIGINT to this process after n Lua instructions. Returns three values: true if the
  -- signal was sent; true if the outcome is right; the outcome.
  local function load(n)
    local pressed, left = false, n
    local good, step = pcall(function()
      debug.sethook(function()
        left = left - 1
        if left > 0 then return end
        pressed = true
        debug.sethook()
        io.popen(press):close()
      end, "", 1)
      local step = rille.checkpoint.load(at, a.parts, {fallback = true})
      debug.sethook()
      return step
    end)
    debug.sethook()
    pcall(function() for _ = 1, 9 do end end)
    rille._forget_presses()
    return pressed, good and step == 2 or not good and tostring(step):find("interrupted", 1, true), step
  end
  local n, wrong, tried = 1, {}, 0
  while true do
    local pressed, right, what = load(n)
    if not right then wrong[#wrong + 1] = ("after %d instructions: %s"):format(n, tostring(what)) end
    if not pressed then break end
    n, tried = n + math.random(1, 80), tried + 1
  end
  tap.is(wrong, {}, ("%d interrupts of a load: each is reported or comes too late"):format(tried))
  tap.ok(tried > 30, "there were many interrupts")
  tap.is((rille.checkpoint.load(at, a.parts)), 2, "the newest checkpoint still loads")
end)

tap.group("a parameter that only an optimiser has", function()
  local function make(value)
    local net, w = nn.Linear(2, 2), nn.Parameter(rille.tensor{value, value})
    local opt = rille.optim.SGD({net.weight, net.bias, w}, {lr = 0.1})
    return w, {model = net, optimizer = opt}, {optimizer = opt}
  end
  local from, from_parts, from_opt = make(1)
  for i, what in ipairs{"with a model", "without a model"} do
    local to, to_parts, to_opt = make(2)
    require("rille.checkpoint")._copy("test", i == 1 and from_parts or from_opt, i == 1 and to_parts or to_opt)
    tap.is(to:totable(), from:totable(), ("%s: the complete state includes it"):format(what))
    local at, loaded, loaded_parts, loaded_opt = dir .. "/other-" .. i, make(3)
    rille.checkpoint.save(at, i == 1 and from_parts or from_opt)
    rille.checkpoint.load(at, i == 1 and loaded_parts or loaded_opt)
    tap.is(loaded:totable(), from:totable(), ("%s: the checkpoint includes it"):format(what))
  end
  rille.checkpoint.save(dir .. "/other-3", from_parts)
  local w, parts, opt = make(4)
  rille.checkpoint.load(dir .. "/other-3", {optimizer = opt.optimizer})
  tap.is(w:totable(), from:totable(), "a load without the model takes it, too")
  tap.ok(parts.model.weight:totable()[1][1] ~= from_parts.model.weight:totable()[1][1], "and leaves the model's parameters as they are")
end)

-- Checks which temporary files are deleted. The name of a temporary file contains the process id of its writer.
-- Process 1 runs on every machine; process 4194305 cannot exist.
tap.group("files of killed saves", function()
  local at = dir .. "/others"
  local function leave(name) io.open(at .. "/" .. name, "w"):close() end
  os.execute("mkdir '" .. at .. "'")
  leave("checkpoint-00000001-step-1.safetensors.1.tmp")
  leave("checkpoint-00000001-step-1.safetensors.4194305.tmp")
  leave("checkpoint-00000001-step-1.safetensors.tmp")
  local own <close> = io.open("/proc/self/stat")
  leave(("checkpoint-00000001-step-7.safetensors.%d.tmp"):format(own:read("n")))
  rille.checkpoint.save(at, {model = nn.Linear(2, 2), step = 1})
  tap.is(table.concat(list(at), " "), "checkpoint-00000001-step-1.safetensors checkpoint-00000001-step-1.safetensors.1.tmp",
    "a save deletes the files of killed saves, also with its own process id, but not those of running processes")
end)

tap.done()
