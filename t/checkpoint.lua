-- checkpoint.lua - what follows a load is what would have followed the save: compiled steps, groups, gradients not yet
-- applied, random numbers, the place in the data; and what is damaged or does not fit is refused before anything changes.

local tap = dofile("t/tap.lua")
local nn, optim, T = rille.nn, rille.optim, rille.tensor
local P = rille.placement("cpu", {0, 1})
local dir = os.tmpname()
os.remove(dir)
os.execute("mkdir '" .. dir .. "'")
local function list(at)
  local p, names = io.popen("ls '" .. at .. "'"), {}
  for name in p:lines() do names[#names + 1] = name end
  p:close()
  return names
end

local kinds = {
  {"SGD", {lr = 0.1}}, {"SGD with momentum", {lr = 0.1, momentum = 0.9}, optim.SGD}, {"AdamW", {lr = 0.05, betas = {0.8, 0.95}}, optim.AdamW}}
kinds[1][3] = optim.SGD

-- how: "eager" or "compiled"; the batch is split, weights of the first layer too.
local function training(kind, how, seed)
  rille.manual_seed(seed)
  local net = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.3), nn.Linear(6, 3))
  net:to_global{placement = P, sbp = "B"}
  net[1].weight:to_global_{placement = P, sbp = "S(1)"}
  local ids = {}
  for i = 1, 40 do ids[i] = i * i % 11 end
  local t = {net = net}
  t.opt = kind[3]({{params = {net[1].weight, net[3].weight}, lr = 0.02}, {params = {net[1].bias, net[3].bias}}}, kind[2])
  t.data = rille.data.tokens(ids, {batch = 2, length = 4, seed = seed, placement = P, sbp = "S(0)"})
  local function run(x, y)
    local loss = net(x:to("f32") / 10):cross_entropy(y[{{}, 0}] % 3)
    loss:backward()
    return loss
  end
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
        if i % 3 ~= 0 then apply() end                             -- every third leaves its gradients for the next
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
      local a = training(kind, how, 1)
      a.run(3)                                                     -- its gradients are not applied yet
      a.save(3)
      local want = {a.run(50), a.state(), a.opt.lr}
      for _, before in ipairs{0, 4} do                             -- compiled after the load, or before it
        local b = training(kind, how, 2)
        if before > 0 then b.run(before) end
        tap.is(rille.checkpoint.load(dir, b.parts), 3, ("%s, %s, after %d steps of another run: loads"):format(kind[1], how, before))
        tap.is({b.run(50), b.state(), b.opt.lr}, want, "and goes on bit for bit")
      end
    end
  end
end)

-- A model on one mesh goes on on another: every value is the same, and losses are near for as long as rounding is small.
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
    local opt, x, ids = optim.AdamW(m:parameters(), {lr = 1e-2}), rille.parallel.input(m), {}
    for i = 1, 200 do ids[i] = i * i % 31 end
    local data = rille.data.tokens(ids, {batch = 4, length = 8, seed = 3, placement = x.placement, sbp = x.sbp,
      labels = rille.parallel.labels(m)})
    local step = rille.graph(function(a, b)
      local loss = m(a):reshape{-1, 31}:cross_entropy(b:reshape{-1})
      loss:backward(); opt:step(); opt:zero_grad()
      return loss
    end)
    local t = {parts = {model = m, optimizer = opt, data = data}}
    function t.run(n)
      local losses = {}
      for i = 1, n do losses[i] = step(data:next()):item() end
      return losses
    end
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
      local b = training(to, 2)
      rille.checkpoint.load(at, b.parts)
      tap.is(b.values(), values, ("from %s to %s: every value"):format(from[1], to[1]))
      tap.near(b.run(5), losses, "and losses are near", 1e-3)
    end
  end
end)

tap.group("notes", function()
  local net = nn.Linear(2, 2)
  local note = {best = math.huge, low = -math.huge, list = {1, 2.5, {true, false}}, name = 'a "b"\n\1 é', deep = {a = {b = {c = 1e-300}}}, big = math.mininteger, third = 1 / 3, one = 1.0}
  rille.checkpoint.save(dir .. "/n", {model = net, note = note, step = 7})
  local step, back = rille.checkpoint.load(dir .. "/n", {model = net})
  tap.is({step, back}, {7, note}, "every number and text comes back")
  tap.is({math.type(back.one), math.type(back.big)}, {"float", "integer"}, "as the kind of number that it was")
  for name, bad in pairs{tensor = T{1}, func = print, gap = {[3] = 1}, both = {1, a = 2}, bytes = "\255", loop = (function() local t = {}; t.t = t; return t end)()} do
    tap.fails(function() rille.checkpoint.save(dir .. "/n", {model = net, note = {x = bad}}) end, {"rille.checkpoint.save: checkpoint"}, "what cannot be written is named: " .. name)
  end
  tap.is(#list(dir .. "/n"), 1, "and nothing is saved then")
end)

tap.group("keep and background", function()
  local a, at = training(kinds[3], "compiled", 1), dir .. "/k"
  local states = {}
  for step = 1, 6 do
    a.run(1)
    rille.checkpoint.save(at, {model = a.net, optimizer = a.opt, data = a.data, step = step}, {async = true, keep = 2})
    states[step] = a.state()
    a.run(1)                                                       -- while it is written
  end
  tap.is({rille.checkpoint.load(at, a.parts), a.state()}, {6, states[6]}, "what is saved beside the training is what was there at the call")
  tap.is(#list(at), 2, "keep = 2 leaves two")
  local b = training(kinds[3], "eager", 1)
  os.execute("rm -r '" .. at .. "'")
  b.save(1)
  rille.checkpoint.save(at, {model = b.net, step = 1}, {async = true})
  os.execute("chmod a-w '" .. at .. "'")
  tap.is(rille.checkpoint.load(at, {model = b.net}), 1, "a load waits for it")
  os.execute("chmod u+w '" .. at .. "'")
  os.execute("rm -r '" .. at .. "'")
  rille._checkpoint(dir .. "/gone/x.safetensors", {x = T{1}}, {}, {}, true)
  tap.fails(function() rille.save(dir .. "/y.safetensors", {x = T{1}}) end, {"gone/x.safetensors"}, "an error of a save in the background is raised by the next")
  rille.save(dir .. "/y.safetensors", {x = T{1}})
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
  tap.is(rille.checkpoint.load(at, {model = net}), 1, "files whose numbers no save gives are none of its")
  rille.checkpoint.save(at, {model = net, step = 2}, {keep = 1})
  tap.is({rille.checkpoint.load(at, {model = net}), #list(at)}, {2, 7}, "and stay where they are")
  tap.ok(not io.open(at .. "/" .. whole), "while what is one of its goes")
end)

tap.group("what does not fit", function()
  local a, at = training(kinds[3], "eager", 1), dir .. "/f"
  rille.checkpoint.save(at, {model = a.net, optimizer = a.opt, data = a.data, step = 1})
  local function refused(parts, words, name)
    local before = a.state()
    tap.fails(function() rille.checkpoint.load(at, parts, {fallback = true}) end, words, name)
    tap.is(a.state(), before, "and nothing is changed")
  end
  a.run(2)
  refused({model = nn.Linear(4, 6)}, {"'model.weight' is missing", "'model.0.weight'"}, "another model")
  refused({model = nn.Sequential(nn.Linear(4, 5), nn.Dropout(0.3), nn.Linear(5, 3))}, {"'model.0.weight' is {5, 4} here, {6, 4}"}, "other sizes")
  refused({model = a.net, optimizer = optim.SGD(a.net:parameters(), {lr = 1})}, {"optim.SGD", "optim.AdamW"}, "another optimiser")
  refused({model = a.net, optimizer = optim.AdamW(a.net:parameters(), {lr = 1})}, {"groups"}, "other groups")
  refused({model = a.net, data = rille.data.loader{T{1, 2, 3}, batch = 1}}, {"3 rows"}, "other data")
  local of_other = {
    {nn.MultiheadAttention(8, 4), nn.MultiheadAttention(8, 2), "nn.MultiheadAttention(2 heads) here, nn.MultiheadAttention(4 heads)"},
    {nn.Conv2d(1, 1, 3), nn.Conv2d(1, 1, 3, {padding = 1}), "weight {1, 1, 3, 3}, padding 1) here"},
  }
  for i, pair in ipairs(of_other) do
    rille.checkpoint.save(at .. i, {model = nn.Sequential(pair[1])})
    tap.fails(function() rille.checkpoint.load(at .. i, {model = nn.Sequential(pair[2])}) end, {"'model.0' is", pair[3]},
      "the same shapes, read otherwise")
    tap.is(rille.checkpoint.load(at .. i, {model = nn.Sequential(pair[1])}), 0, "read as they were they load")
  end
  rille.checkpoint.save(at .. "p", {model = nn.Sequential(nn.Dropout(0.1))})
  tap.is(rille.checkpoint.load(at .. "p", {model = nn.Sequential(nn.Dropout(0.2))}), 0, "what is dropped may change")
  refused({modl = a.net}, {"'modl'"}, "a part that is none")
  refused({model = 5}, {"model is 5"}, "or has no state")
  tap.is(rille.checkpoint.load(at, {}), 1, "parts that are not asked for stay as they are")
  tap.fails(function() rille.checkpoint.save(at, {model = a.net, step = 1.5}) end, {"step"}, "a step is a whole number")
  tap.fails(function() rille.checkpoint.save(at, {model = a.net}, {keep = 0}) end, {"keep"}, "keep is at least 1")
  tap.fails(function() rille.checkpoint.load(dir .. "/none", a.parts) end, {"/none"}, "a folder that is not there is named")
end)

tap.group("damage", function()
  local net, at = nn.Linear(2, 2), dir .. "/d"
  rille.checkpoint.save(at, {model = net, step = 1, note = "first"})
  rille.checkpoint.save(at, {model = net, step = 2, note = "second"})
  local path = at .. "/" .. list(at)[2]
  local f = assert(io.open(path, "rb"))
  local whole = f:read("a")
  f:close()
  local accepted = 0
  local function try(bytes)
    local g = assert(io.open(path, "wb"))
    g:write(bytes)
    g:close()
    local good, err = pcall(rille.checkpoint.load, at, {model = net})
    if good or not err:find("checkpoint-00000002", 1, true) then accepted = accepted + 1 end
  end
  for i = 1, #whole do try(whole:sub(1, i - 1) .. string.char(whole:byte(i) ~ (1 << i % 8)) .. whole:sub(i + 1)) end
  tap.is(accepted, 0, ("one changed bit in any of %d bytes: refused and named"):format(#whole))
  for cut = 0, #whole - 1, 7 do try(whole:sub(1, cut)) end
  try(whole .. "x")
  tap.is(accepted, 0, "so is every truncation, and a byte more")
  tap.is(select(2, rille.checkpoint.load(at, {model = net}, {fallback = true})), "first", "fallback: the one before it")
end)

-- Ctrl-C at many moments of a load: it is told, never taken for damage, and no older checkpoint comes instead.
tap.group("interrupts", function()
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
  -- What a load comes to where the press is after n instructions of Lua, and whether there was one.
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
  tap.is(wrong, {}, ("%d presses in a load: each is told or comes too late"):format(tried))
  tap.ok(tried > 30, "there were some")
  tap.is((rille.checkpoint.load(at, a.parts)), 2, "and the newest loads as ever")
end)

-- A temporary file is named after the process that writes it: the first process of a machine runs, and no machine has the last.
tap.group("what others leave", function()
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
    "a save clears away what saves left that were killed, also a process of the same id, not what another process writes")
end)

os.execute("rm -rf '" .. dir .. "'")
tap.done()
