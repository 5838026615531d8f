-- face.lua - tests what the documentation promises about planned steps.
--
-- Equal programs get equal plans. Variables have the layouts that the planner chose, and so have tensors that follow
-- variables' layouts. Other graphs and clusters use or ignore hints as documented. Prices of hints, texts and
-- certificates are right.
local tap = dofile("t/lib/tap.lua")
local nn, optim = rille.nn, rille.optim
local programs, place, entries = dofile("t/lib/steps/planned.lua")
local modes = {"greedy", "propagate", "recursive", "optimal"}
local LONG <const>, NONE <const> = 600, 1e-9 -- time limits, s: LONG: the search ends by itself; NONE: no time for a search

local function certificate(step)
  local path = os.tmpname()
  step:certify(path)
  local f = assert(io.open(path))
  local text = f:read("a")
  f:close(); os.remove(path)
  return text
end

-- Calls a training step of a program with free layouts once. Returns the step, the network, and its optimiser.
local function trained(program, mesh, options, make)
  rille.manual_seed(3)
  local net = programs[program]()
  net:to_global{placement = place(mesh), sbp = options.sbp or "auto"}
  local opt = (make or optim.AdamW)(net:parameters(), {lr = 0.01})
  local step = tap.training(opt, function(x)
    return net(x):square():mean()
  end, {auto_parallel = options.mode, time_limit = options.seconds or LONG, memory_limit = options.memory})
  step(rille.randn({24, 16}, {placement = place(mesh), sbp = entries(mesh, "S(0)")}))
  return step, net, opt
end

tap.group("the same program has the same plan", function()
  for _, program in ipairs{"mlp", "blocks", "tied"} do
    for _, mesh in ipairs{"line", "grid"} do
      for _, mode in ipairs(modes) do
        -- A search on a grid takes long, so on the grid plans are compared only without time for a search.
        for _, seconds in ipairs(mesh == "grid" and {NONE} or {LONG, NONE}) do
          local one, other = trained(program, mesh, {mode = mode, seconds = seconds}), trained(program, mesh, {mode = mode, seconds = seconds})
          local what = ("%s on a %s, %s, %g seconds: "):format(program, mesh, mode, seconds)
          tap.ok(certificate(one) == certificate(other), what .. "the two certificates are identical")
          if seconds == LONG then tap.ok(tostring(one:explain()) == tostring(other:explain()), what .. "the two texts of explain() are identical") end
        end
      end
    end
  end
end)

tap.group("the report of explain()", function()
  for _, mode in ipairs(modes) do
    for _, seconds in ipairs{LONG, NONE} do
      local step = trained("blocks", "line", {mode = mode, seconds = seconds})
      local e, good = step:explain(), true
      tap.ok(math.type(e.cost) == "integer" and math.type(e.bound) == "integer" and e.bound >= 0 and e.bound <= e.cost,
        mode .. ": cost and bound are integer nanoseconds", e.cost .. " and " .. e.bound)
      tap.is(e.gap, (e.cost - e.bound) / e.cost, mode .. ": the gap is (cost - bound) / cost")
      for _, op in ipairs(e.ops) do
        for k, c in ipairs(op.candidates) do good = good and math.type(c.regret) == "integer" and (k > 1 or c.regret == 0) and c.share > 0 and c.share <= 1 end
      end
      tap.ok(good, mode .. ": candidates have a regret, 0 for the chosen one, and a share of the work")
      tap.ok(tap.has(tostring(e), ("planned: %d ns per step, bound %d ns"):format(e.cost, e.bound), e.gap == 0 and "no plan of these operators costs less" or "of the best plan of these operators",
        ("at most %d bytes per device, %d of them scratch memory of kernels"):format(e.memory, e.scratch)), mode .. ": the text shows cost, bound and memory")
    end
  end
end)

tap.group("optimiser state has the layout of its parameter", function()
  local tried = 0
  for name, make in pairs(optim) do
    if name:find("^%u") then
      for _, mesh in ipairs{"line", "grid"} do
        local good, _, net, opt = pcall(trained, "mlp", mesh, {mode = true, seconds = 0.1}, make)
        local cut = 0
        for i, p in ipairs(good and net:parameters() or {}) do
          for key, t in pairs(opt.slots and opt.slots[i] or {}) do
            if type(t) ~= "number" and #t.shape == #p.shape then
              tried, cut = tried + 1, cut + (p.sbp:find("S") and 1 or 0)
              if t.sbp ~= p.sbp then tap.ok(false, ("%s on a %s: %s of parameter %d"):format(name, mesh, key, i), t.sbp .. " and " .. p.sbp) end
            end
          end
        end
        tap.ok(good, name .. " on a " .. mesh .. ": a step is planned", net)
      end
    end
  end
  tap.ok(tried >= 30, "optimiser states compared with their parameters: " .. tried)
end)

tap.group("leaves with sbp = auto", function()
  local P = place("line")
  local at = {placement = P, sbp = "auto"}
  local path = os.tmpname() .. ".safetensors"
  rille.save(path, {w = rille.ones{64, 64}})
  local make = {
    zeros = function() return rille.zeros({64, 64}, at) end, ones = function() return rille.ones({64, 64}, at) end,
    full = function() return rille.full({64, 64}, 2, at) end, empty = function() return rille.empty({64, 64}, at) end,
    eye = function() return rille.eye(64, at) end, rand = function() return rille.rand({64, 64}, at) end,
    randn = function() return rille.randn({64, 64}, at) end, tensor = function() return rille.tensor(rille.ones({64, 64}):totable(), at) end,
    load = function() return rille.load(path, at).w end,
    to_global_ = function() return rille.ones({64, 64}, {placement = P}):to_global_{sbp = "auto"} end,
    ["a module"] = function() return nn.Linear(64, 64, {bias = false}):to_global{placement = P, sbp = "auto"}.weight end,
    ["a parameter"] = function() return nn.Parameter(rille.ones({64, 64}, at)) end,
    ["on a grid"] = function() return rille.ones({64, 64}, {placement = place("grid"), sbp = "auto"}) end,
  }
  for name, f in pairs(make) do
    local w = f()
    local grid = name == "on a grid"
    tap.is(w.sbp, grid and "(B, B)" or "B", name .. ": is B until a step is planned")
    local step = rille.graph(function(x) return x:matmul(w):relu():sum() end, {auto_parallel = true, time_limit = LONG})
    step(rille.ones({2, 64}, {placement = w.placement, sbp = grid and {"B", "B"} or "B"}))
    tap.ok(w.sbp:find("S"), name .. ": then has the layout that is best for few rows", w.sbp)
  end
  os.remove(path)
  local G = place("grid")
  tap.fails(function() rille.ones({4, 4}, {placement = G, sbp = {"auto", "B"}}) end, {"\"auto\" stands for all mesh axes"}, "a list with \"auto\" in it is refused")
  tap.fails(function() rille.boxing{shape = {4, 4}, from = {placement = P, sbp = "S(0)"}, to = {placement = P, sbp = "auto"}} end,
    {"auto", "variables"}, "rille.boxing refuses \"auto\"")
  tap.fails(function() rille.ones({4, 4}, {placement = P}):exp():to_global{sbp = "auto"} end, {"auto", "variables"}, "to_global refuses \"auto\" for computed values")
end)

-- Calls two graphs that share variables, in each order, with many or few rows. The layouts that the first plan
-- chooses must hold for the other graph, too.
tap.group("graphs that share variables agree", function()
  local P = place("line")
  local function rows(n, sbp) return rille.ones({n, 64}, {placement = P, sbp = sbp}) / 64 end
  local few, many = {2, "B"}, {4096, "S(0)"}
  local layouts = {}
  for _, first in ipairs{"train", "eval"} do
    for _, batch in ipairs{few, many} do
      rille.manual_seed(4)
      local net = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)):to_global{placement = P, sbp = "auto"}
      local opt = optim.AdamW(net:parameters(), {lr = 0.01})
      local train = rille.graph(function(x) local y = net(x):square():mean(); y:backward(); opt:step(); opt:zero_grad(); return y end,
        {auto_parallel = true, time_limit = 0.2})
      local eval = rille.graph(function(x) return net(x):square():mean() end, {auto_parallel = true, time_limit = 0.2})
      local function lie() return tap.list(net:parameters(), function(p) return p.sbp end) end
      local one, other = first == "train" and train or eval, first == "train" and eval or train
      one(rows(batch[1], batch[2]))
      local fixed, name = lie(), ("%s first, on %d rows: "):format(first, batch[1])
      for _, b in ipairs{few, many, batch} do
        for _, g in ipairs{other, one} do
          g(rows(b[1], b[2]))
          tap.is(lie(), fixed, name .. "later calls move no variable")
          tap.is(g:explain().bytes, tap.received(g), name .. "later calls move the reported bytes")
        end
      end
      layouts[table.concat(fixed, " ")] = true
      for _, p in ipairs(net:parameters()) do p:to_global_{sbp = "auto"} end
      local cost = other(rows(2, "B")) and other:explain().cost
      tap.ok(cost > 0, name .. "variables set to \"auto\" again are planned again")
    end
  end
  local n = 0
  for _ in pairs(layouts) do n = n + 1 end
  tap.ok(n > 1, "different first batches give different layouts", n)
end)

-- Checks the price of a fixed layout of a variable that is only read. The price must be the cost that the plan saves
-- if the planner may choose the layout.
tap.group("the layout of a read-only variable is a hint", function()
  local P = place("line")
  for _, sbp in ipairs{"B", "S(0)", "S(1)", "auto"} do
    for _, rows in ipairs{2, 512} do
      local function cost(how)
        local v, w = rille.ones({64, 64}, {placement = P, sbp = how}), nn.Parameter(rille.ones({64, 64}, {placement = P, sbp = "B"}))
        local opt = optim.Adam({w}, {lr = 0.1})
        local step = rille.graph(function(x) x:matmul(v):matmul(w):square():mean():backward(); opt:step(); opt:zero_grad() end,
          {auto_parallel = true, time_limit = LONG})
        step(rille.ones({rows, 64}, {placement = P, sbp = "B"}))
        return step:explain().cost, step
      end
      local with, step = cost(sbp)
      local hints, free, name = step:hints(), cost("auto"), ("%d rows, %s: "):format(rows, sbp)
      tap.is(#hints, sbp == "auto" and 1 or 2, name .. "each layout given by hand is a hint, optimiser state is none")
      local found
      for _, h in ipairs(hints) do found = found or h.what == "variable f32{64, 64} " .. sbp and h.price == with - free and h.price == h.price_high end
      tap.ok(found or sbp == "auto", name .. "the price is the cost saved without the hint", tostring(hints) .. ": " .. with - free)
    end
  end
end)

-- Checks rille.whatif() with other meshes. It must keep the user's layouts and strategies on a mesh with the same
-- number of axes, and ignore them on any other mesh. A memory limit far above the need must not change the report.
tap.group("on other clusters", function()
  local P = place("line")
  local function step_of(sbp, strategy)
    local w = nn.Parameter(rille.ones({64, 64}, {placement = P, sbp = sbp}))
    local step = rille.graph(function(x) return x:matmul(w, {strategy = strategy}):square():sum() end, {auto_parallel = true, time_limit = LONG})
    step(rille.ones({2, 64}, {placement = P, sbp = "B"}))
    return step
  end
  local open = step_of("auto")
  for name, step in pairs{["a variable"] = step_of("B"), ["a strategy"] = step_of("auto", {{1, 1}, {1, 1}})} do
    tap.ok(rille.whatif(step, {mesh = {4}}).cost > rille.whatif(open, {mesh = {4}}).cost, name .. " holds on a mesh with as many axes")
    for _, mesh in ipairs{{2, 2}, {8, 4}, {2, 2, 2}} do
      tap.is(rille.whatif(step, {mesh = mesh}).cost, rille.whatif(open, {mesh = mesh}).cost, name .. " does not hold on " .. table.concat(mesh, " x "))
    end
  end
  local step = trained("mlp", "line", {mode = true})
  for _, mesh in ipairs{{4}, {8}, {2, 2}} do
    local e, far = rille.whatif(step, {mesh = mesh}), rille.whatif(step, {mesh = mesh, memory = 1e12})
    local open, all = 0, 0
    for _, op in ipairs(far.ops) do
      for _, c in ipairs(op.candidates) do all, open = all + 1, open + (c.regret ~= c.regret_high and 1 or 0) end
    end
    local name = table.concat(mesh, " x ") .. ", a distant memory limit: "
    if e.gap == 0 and far.gap == 0 then -- compares exactly only if no time limit ended a search
      tap.is({far.cost, far.bound, far.memory, far.bytes}, {e.cost, e.bound, e.memory, e.bytes}, name .. "the same plan, bound and memory")
    end
    tap.ok(#mesh > 1 or e.gap == 0 and far.gap == 0 and open == 0, name .. "regrets are exact", open .. " of " .. all)
    tap.near(e.step_time, e.cost / 1e9, name .. "step_time is the cost in seconds")
    local curve = rille.whatif(step, {mesh = mesh, memory = {1e12, 1}})
    tap.ok(curve[1].step_time > 0 and curve[2] == false, name .. "a curve has a record for each limit, or false")
  end
  tap.fails(function() rille.whatif(step, {mesh = {1 << 40}}) end, {"at most 16777216 devices"}, "a mesh with too many devices is refused")
end)

tap.group("meta devices", function()
  local M = rille.placement("meta", {0, 1, 2, 3})
  local w = nn.Parameter(rille.ones({64, 64}, {placement = M, sbp = "auto"}))
  local opt = optim.SGD({w}, {lr = 0.1})
  local step = rille.graph(function(x) local y = x:matmul(w):square():mean(); y:backward(); opt:step(); opt:zero_grad(); return y end,
    {auto_parallel = true, time_limit = LONG})
  local y = step(rille.ones({32, 64}, {placement = M, sbp = "S(0)"}))
  tap.is({y.shape, y.placement.device}, {{}, "meta"}, "a step on meta devices returns tensors")
  tap.fails(function() y:item() end, {"meta"}, "these tensors have no values")
  local e = step:explain()
  tap.is(rille.whatif(step, {mesh = {4}}).cost, e.cost, "whatif plans it as on other devices")
  tap.ok(rille.certificate and certificate(step):find("\ncost " .. e.cost .. "\n"), "the certificate has the cost in decimal")
end)

-- Checks `rille verify`: it exits with 0 and prints the proven facts, or with 1 and prints the mistake.
tap.group("rille verify", function()
  local function verify(path)
    local p = assert(io.popen(("'%s' verify '%s' 2>&1; echo exit $?"):format(tap.program(), path)))
    local text = p:read("a")
    p:close()
    return tonumber(text:match("exit (%d+)%s*$")), text
  end
  local path = os.tmpname()
  local function written(text)
    local f = assert(io.open(path, "wb"))
    f:write(text)
    f:close()
    return verify(path)
  end
  for _, seconds in ipairs{LONG, NONE} do
    local step = trained("mlp", seconds == LONG and "line" or "grid", {mode = true, seconds = seconds})
    local text, e = certificate(step), step:explain()
    local code, said = written(text)
    tap.is(code, 0, "a certificate of certify() is accepted")
    tap.ok(tap.has(said, tostring(e.cost), e.gap == 0 and "no plan costs less" or tostring(e.bound)), "`rille verify` prints what is proven", said)
    local worse = {half = text:sub(1, #text // 2), nothing = "", ["two in one"] = text .. text,
      ["a lower cost"] = text:gsub("\ncost %d+", "\ncost " .. e.cost - 1), ["a higher bound"] = text:gsub("\nbound %d+", "\nbound " .. e.bound + 1),
      ["another choice"] = text:gsub("\nchoice %d+", "\nchoice 99"), ["no digest"] = text:gsub("digest .*", ""), ["a byte more"] = text .. "x"}
    for name, other in pairs(worse) do
      code, said = written(other)
      tap.ok(code == 1 and #said > 20, name .. " is refused, with the reason", said)
    end
  end
  os.remove(path)
  tap.is(verify(path), 1, "a missing file is refused")
  local code, said = verify(tap.program())
  tap.ok(code == 1 and tap.has(said, "certificate: " .. tap.program(), "is not text"), "a binary file is refused with its name", said)
end)

tap.done()
