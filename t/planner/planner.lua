-- planner.lua - tests planned steps (actors/plan/assign/assign.c, actors/session/planner/planned.c).
--
-- For every choice of the planner, the step must have the results of one device and must move the reported bytes. No
-- mode may cost less than the optimal one.
local tap = dofile("t/lib/tap.lua")
local nn, optim = rille.nn, rille.optim
local programs, place, entries, train, near = dofile("t/lib/steps/planned.lua")
local modes = {"greedy", "propagate", "recursive", "optimal"}

-- Numbers of micro-batches to try, by program and mesh. The largest program runs only once.
local runs = {mlp = {line = {1, 2}, grid = {2}}, blocks = {line = {1}}, tied = {grid = {1}}}
for program, places in tap.sorted(runs) do
  local want
  for mesh, all in tap.sorted(places) do
    for _, pieces in ipairs(all) do
      if not tap.share() then goto next end
      want = want or train(program, "one", "B", "B", {})
      local cost = {}
      for _, mode in ipairs(modes) do
        local got, step = train(program, mesh, "B", "S(0)", {auto_parallel = mode, micro_batches = pieces})
        local e, name = step:explain(), ("%s on %s in %d, %s"):format(program, mesh, pieces, mode)
        tap.ok(near(got, want), name .. ": losses are those of one device")
        tap.ok(e.bytes == tap.received(step), ("%s: reported bytes are those that actors count (%d, %d)"):format(name, e.bytes, tap.received(step)))
        tap.ok(e.bound <= e.cost, name .. ": the bound is at most the cost")
        cost[mode] = e.cost
      end
      tap.ok(cost.optimal <= math.min(cost.greedy, cost.propagate, cost.recursive), program .. ": the optimal mode costs least")
      ::next::
    end
  end
end

-- Checks the layouts that the planner chooses.
do
  local want = train("mlp", "one", "B", "B", {})
  local got, step, net = train("mlp", "line", "auto", "S(0)", {auto_parallel = true})
  tap.ok(near(got, want), "auto: losses are those of one device")
  tap.is(rille.whatif(step, {mesh = {4}}).cost, step:explain().cost, "whatif on an equal mesh has the same cost")
  local fixed = select(2, train("mlp", "line", "B", "S(0)", {auto_parallel = true}))
  tap.ok(step:explain().cost <= fixed:explain().cost, "auto costs no more than B")
  local chosen = net:parameters()[1].sbp
  local eval = rille.graph(function(x) return net(x):sum() end, {auto_parallel = true})
  eval(rille.randn({24, 16}, {placement = place("line"), sbp = "S(0)"}))
  tap.is(net:parameters()[1].sbp, chosen, "the first plan fixes the layout for later graphs")
  for _, s in ipairs{step, eval} do tap.is(#s:hints(), 0, "layouts chosen by a planner are no hints") end
  net[1]:to_global{placement = place("line"), sbp = "S(0)"}
  step(rille.randn({24, 16}, {placement = place("line"), sbp = "S(0)"}), rille.zeros({24}, {dtype = "i64", placement = place("line")}))
  tap.ok(#step:hints() == 2, "a layout changed by the user is a hint again")
end

-- Checks that a call over a split axis becomes several operators if the operators take less time than the call in one
-- piece.
do
  local P, traces = place("line"), 0
  local function run(mode, weight, P, rows, columns)
    rille.manual_seed(1)
    local net = nn.Linear(32, columns)
    net:to_global{placement = P, sbp = weight}
    local opt = optim.AdamW(net:parameters(), {lr = 1e-3})
    local step = tap.training(opt, function(x)
      traces = traces + 1
      return net(x):softmax(1):square():sum()
    end, {auto_parallel = mode, time_limit = 600})
    local losses = tap.list(3, function() return step(rille.randn({rows, 32}, {placement = P, sbp = "B"})):item() end)
    return losses, step
  end
  for _, case in ipairs{{1, 65536, true}, {64, 2048, false}} do
    local rows, columns, parts = table.unpack(case)
    local name = ("softmax of %d rows: "):format(rows)
    local want = run(nil, "B", place("one"), rows, columns)
    traces = 0
    local got, step = run(true, "S(0)", P, rows, columns)
    local e, found = step:explain(), false
    for _, op in ipairs(e.ops) do found = found or op.name == "exp_sum" end
    tap.is(traces, 1, name .. "it is traced once")
    tap.is(found, parts, name .. "in parts where that costs less")
    tap.ok(near(got, want), name .. "the losses are those of one device")
    tap.is(e.bytes, tap.received(step), name .. "the bytes that actors count")
  end
end

-- Checks that a tensor made with "auto" remains "auto" if it becomes a parameter, is cloned, or is moved to "auto".
do
  local P = place("line")
  local function cost(weight)
    local opt = optim.SGD({weight}, {lr = 0.1})
    local step = rille.graph(function(x)
      x:matmul(weight):square():sum():backward(); opt:step(); opt:zero_grad()
    end, {auto_parallel = true, time_limit = 600})
    step(rille.ones({64, 64}, {placement = P, sbp = "S(0)"}))
    return step:explain().cost
  end
  local function auto(grad) return rille.ones({64, 64}, {placement = P, sbp = "auto", requires_grad = grad}) end
  local want = cost(auto(true))
  tap.is({cost(nn.Parameter(auto())), cost(nn.Parameter(rille.ones{64, 64}):to_global_{placement = P, sbp = "auto"}), cost(nn.Parameter(auto():clone()))},
    {want, want, want}, "auto holds for a parameter, its clone, and a move to auto")
  tap.ok(cost(rille.ones({64, 64}, {placement = P, requires_grad = true})) > want, "a layout of B costs more than auto")
end

-- Checks the regret of each candidate not chosen: a number or an interval. explain()'s text counts intervals.
do
  local open = 0
  for _, run in ipairs{{"mlp", 1}, {"blocks", 1}, {"blocks", 1e-9}} do
    local P = place("line")
    local net = programs[run[1]]()
    net:to_global{placement = P, sbp = "auto"}
    local step = rille.graph(function(x)
      return tap_backward(net(x):square():sum())
    end, {auto_parallel = true, time_limit = run[2]})
    step(rille.ones({24, 16}, {placement = P, sbp = "S(0)"}))
    local e, good, between = step:explain(), true, 0
    for _, op in ipairs(e.ops) do
      for k, c in ipairs(op.candidates) do
        good = good and c.regret >= 0 and c.regret <= (c.regret_high or math.huge) and (k > 1 or c.regret == 0)
        if c.regret ~= c.regret_high then between = between + 1 end
      end
    end
    tap.ok(good, "regrets are intervals, and 0 for the chosen candidate")
    tap.is(tostring(e):match("only as a range for (%d+) of"), between > 0 and tostring(between) or nil, "the text counts the regrets that are intervals")
    open = open + between
  end
  tap.ok(open > 0, "without search time some regrets are intervals")
end

-- Checks certificates. rille.certificate() must print the cost. It must refuse a certificate with another choice of
-- layouts, and a file without an end.
do
  local _, step = train("blocks", "line", "auto", "S(0)", {auto_parallel = true})
  local path = os.tmpname()
  step:certify(path)
  local said = rille.certificate(path)
  tap.ok(said:find(tostring(step:explain().cost), 1, true), "verify prints the cost: " .. said)
  local f = assert(io.open(path)); local text = f:read("a"); f:close()
  f = assert(io.open(path, "w")); f:write((text:gsub("\nchoice %d+", "\nchoice 0", 1))); f:close()
  local good, why = pcall(rille.certificate, path)
  tap.ok(not good or text:find("\nchoice 0"), "a certificate with another choice is refused: " .. tostring(why))
  os.remove(path)
  good, why = pcall(rille.certificate, "/dev/zero")
  tap.ok(not good and tostring(why):find("/dev/zero is not text: byte 0", 1, true), "an endless file is refused as a certificate: " .. tostring(why))
end

-- Checks the size of certificates: the last steps of a search are left out if they raise the bound by less than a
-- nanosecond.
do
  local P = rille.placement("cpu", {{0, 1, 2, 3}, {4, 5, 6, 7}})
  local function weight(...) return rille.ones({...}, {placement = P, sbp = {"B", "B"}, requires_grad = true}) end
  local first, up, down = weight(20), weight(20, 16), weight(20, 20)
  local step = rille.graph(function(x)
    local y = (x * first):matmul(down):tanh():matmul(down:transpose(0, 1))
    local loss = y:matmul(up):softmax(1):square():mean()
    loss:backward()
    for _, w in ipairs{first, up, down} do
      w:sub_(w.grad * 0.1)
      w.grad = nil
    end
    return loss
  end, {auto_parallel = "greedy"})
  step(rille.ones({48, 20}, {placement = P, sbp = {"S(0)", "S(0)"}}))
  local path = os.tmpname()
  step:certify(path)
  local good, said = pcall(rille.certificate, path)
  tap.ok(good, "a bound that rises by less than 1 ns at the end is proven: " .. tostring(said))
  os.remove(path)
end

-- Checks that the price of a hint is the cost that the step saves without the hint.
do
  local P = place("line")
  local function cost(moved, sbp)
    local w = nn.Parameter(rille.ones({64, 64}, {placement = P, sbp = sbp}))
    local opt = optim.SGD({w}, {lr = 0.1})
    local step = rille.graph(function(x)
      local y = x:matmul(w)
      if moved then y = y:to_global{placement = P, sbp = "B"} end
      y:square():sum():backward(); opt:step(); opt:zero_grad()
    end, {auto_parallel = true, time_limit = 600})
    step(rille.ones({64, 64}, {placement = P, sbp = "S(0)"}))
    return step:explain().cost, step
  end
  local all, step = cost(true, "S(1)")
  local hints = step:hints()
  tap.is(#hints, 2, "a move and a variable are two hints")
  tap.ok(tap.has(hints[1].what .. hints[1].line, "to_global B", "planner.lua"), "the hint of a move has its line")
  tap.is({hints[1].price, hints[1].price_high}, {all - cost(false, "S(1)"), all - cost(false, "S(1)")}, "the price of a move is the cost saved without it")
  tap.is(hints[2].what, "variable f32{64, 64} S(1)", "the hint of a variable has its type and layout")
  tap.ok(hints[2].price >= 0 and hints[2].price <= hints[2].price_high, "the price of a variable's layout is not negative")
  tap.ok(tap.has(tostring(hints), ("%s (%s): the step +%d ns\nvariable f32{64, 64} S(1)"):format(hints[1].what, hints[1].line, hints[1].price)),
    "the text has one line per hint")
  tap.is(#select(2, cost(true, "auto")):hints(), 1, "a layout chosen by the planner is no hint")
  tap.ok(tap.has(tostring(select(2, cost(false, "auto")):hints()), "no hints"), "a step without layouts by hand has no hints")
  local plain = rille.graph(function(x) return x:sum() end)
  plain(rille.ones(4))
  tap.fails(function() plain:hints() end, {"hints", "auto_parallel"}, "a step that was not planned has no hints")
end

-- Plans with no time for the search: the bound must be positive, at most the cost, and proven by a certificate.
do
  for _, mesh in ipairs{"line", "grid"} do
    local P = place(mesh)
    local net = programs.mlp()
    net:to_global{placement = P, sbp = "auto"}
    local opt = optim.AdamW(net:parameters(), {lr = 0.01})
    local step = tap.training(opt, function(x, y) return net(x):cross_entropy(y) end, {auto_parallel = true, time_limit = 1e-9})
    step(rille.randn({24, 16}, {placement = P, sbp = entries(mesh, "S(0)")}),
      rille.randint(0, 8, {24}, {placement = P, sbp = entries(mesh, "S(0)")}))
    local e, path = step:explain(), os.tmpname()
    step:certify(path)
    tap.ok(e.search_time > 0, "no time: search_time is reported")
    tap.ok(e.bound > 0 and e.bound <= e.cost, ("no time, %s: between %d and %d ns"):format(mesh, e.bound, e.cost))
    tap.ok(rille.certificate(path):find(tostring(e.bound), 1, true), "no time: the bound is proven")
    os.remove(path)
  end
end

-- Checks conflicting hints, which lead to moves. On other devices a strategy may fit no layout. The error must then
-- name each such strategy with its line, and no other hints. On a mesh with another number of axes hints are ignored.
do
  local P = place("line")
  local x = rille.randn({8, 8}, {placement = P, sbp = "S(0)"})
  local function clashing(a)
    local y = a:matmul(a, {strategy = {{4, 1}, {1, 1}}})
    local w = a:tanh():to_global{placement = P, sbp = "S(1)"}
    y = y:to_global{placement = P, sbp = "P"}
    return y:matmul(w, {strategy = {{1, 4}, {4, 1}}}):softmax(1, {strategy = {{2, 2}}}):sum()
  end
  local at = debug.getinfo(clashing, "S").linedefined
  tap.fails(function() clashing(x) end, {"softmax", "strategy", "{2, 2}"}, "a strategy that four devices in a row do not allow is refused")
  local function halves(a) return a:matmul(a, {strategy = {{2, 1}, {1, 1}}}) end
  tap.fails(function() rille.graph(halves, {auto_parallel = true})(x) end, {"t/planner/planner.lua:" .. debug.getinfo(halves, "S").linedefined, "matmul",
    "strategy {{2, 1}, {1, 1}}"}, "a strategy in a step is refused with its line")
  local function met(a)
    local y = a:matmul(a, {strategy = {{4, 1}, {1, 1}}})
    local w = a:tanh():to_global{placement = P, sbp = "S(1)"}
    return y:to_global{placement = P, sbp = "P"}:matmul(w, {strategy = {{1, 4}, {4, 1}}}):sum()
  end
  at = debug.getinfo(met, "S").linedefined
  local want = met(x):item()
  for _, mode in ipairs(modes) do
    local step = rille.graph(met, {auto_parallel = mode, time_limit = 600})
    tap.ok(math.abs(step(x):item() - want) < 1e-3 * (1 + math.abs(want)), mode .. ": conflicting hints are met by moves")
    tap.ok(#step:explain().boxing > 0, mode .. ": explain() lists these moves")
    tap.fails(function() rille.whatif(step, {mesh = {8}}) end,
      {("no plan satisfies matmul strategy (t/planner/planner.lua:%d) and matmul strategy (t/planner/planner.lua:%d): no layout on 8 devices splits")
        :format(at + 1, at + 3)}, mode .. ": eight devices do not allow strategies of four; the error names both lines")
    tap.ok(rille.whatif(step, {mesh = {8, 8}}).cost > 0, mode .. ": on a mesh with another number of axes no hint holds")
  end
end

-- Checks that the bytes over the links of each axis add up to all bytes moved.
do
  local P = place("grid")
  local net = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))
  net:to_global{placement = P, sbp = {"B", "B"}}
  local opt = optim.AdamW(net:parameters(), {lr = 0.01})
  local step = tap.training(opt, function(x) return net(x):square():sum() end, {auto_parallel = true})
  step(rille.randn({4096, 64}, {placement = P, sbp = {"S(0)", "B"}}))
  for _, bandwidth in ipairs{{1e9, 1e12}, {1e12, 1e9}} do
    tap.ok(rille.whatif(step, {mesh = {8, 4}, latency = 0}).step_time <= rille.whatif(step, {mesh = {8, 4}, latency = 1e-6}).step_time,
      "zero latency is allowed and takes no longer")
    local far = rille.whatif(step, {mesh = {8, 4}, bandwidth = bandwidth, latency = 1e-9, flops = 1e12})
    tap.is(#far.axis_bytes, 2, "axis_bytes has one number per axis")
    tap.is(far.axis_bytes[1] + far.axis_bytes[2], far.bytes, "axis_bytes add up to all bytes moved")
    tap.ok(far.bytes > 0, "the plan moves bytes")
    tap.ok(tap.has(tostring(far), ("over axis 0: %d bytes"):format(far.axis_bytes[1]), ("over axis 1: %d bytes"):format(far.axis_bytes[2])),
      "the text shows the bytes of each axis")
  end
  tap.is(step:explain().axis_bytes, nil, "explain() has no axis_bytes")
end

-- Checks that regrets are exact, except for a few in attention. explain() searches for at most two seconds. The
-- expected numbers of exact regrets need only a quarter of that time, even on slow machines.
do
  local line, block = place("line"), {is_causal = true}
  local function layers() return nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 32)) end
  for _, row in ipairs{
    {"three layers", layers, {512, 32}, 1}, {"attention", function() return nn.TransformerBlock(32, 4, block) end, {8, 16, 32}, 0.85},
    {"a wider block", function() return nn.TransformerBlock(64, 8, block) end, {4, 32, 64}, 0.75},
  } do
    local name, make, shape, least = table.unpack(row)
    if not tap.share() then goto next end
    local net = make()
    net:to_global{placement = line, sbp = "auto"}
    local opt = optim.AdamW(net:parameters(), {lr = 0.01})
    local step = tap.training(opt, function(x) return net(x):square():sum() end, {auto_parallel = true, time_limit = 2})
    step(rille.randn(shape, {placement = line, sbp = "S(0)"}))
    local all, exact = 0, 0
    for _, op in ipairs(step:explain().ops) do
      for _, c in ipairs(op.candidates) do all, exact = all + 1, exact + (c.regret == c.regret_high and 1 or 0) end
    end
    tap.ok(all > 50 and exact >= least * all, ("%s: at least %g of all regrets are exact"):format(name, least), exact .. " of " .. all)
    ::next::
  end
end

-- Checks that errors name the mistake and the correct value.
do
  local P = place("line")
  local x = rille.randn({8, 8}, {placement = P, sbp = "S(0)"})
  local step = rille.graph(function(a) return a:matmul(a):relu():sum() end, {auto_parallel = true})
  local function graph(options) return function() rille.graph(function(a) return a:matmul(a) end, options)(x) end end
  tap.fails(function() rille.whatif(step, {mesh = {4}}) end, {"whatif", "call the step first"}, "whatif refuses a step that was not called")
  step(x)
  local patient = rille.graph(function(a) return a:matmul(a):relu():sum() end, {auto_parallel = true, time_limit = 1e18})
  patient(x)
  local all, exact = 0, 0
  for _, op in ipairs(patient:explain().ops) do
    for _, c in ipairs(op.candidates) do all, exact = all + 1, exact + (c.regret == c.regret_high and 1 or 0) end
  end
  tap.ok(all > 5 and exact == all, "with a very long time limit every regret is exact", exact .. " of " .. all)
  local wrong = {
    {graph{auto_parallel = "best"}, {"best", "optimal", "propagate"}},
    {graph{auto_parallel = 3}, {"auto_parallel", "3"}},
    {graph{auto_parallel = ""}, {"auto_parallel must be", "found \"\""}},
    {graph{auto_parallel = true, memory_limit = 2^63}, {"memory_limit", "no more than 9e18", "9.2"}},
    {graph{auto_parallel = true, memory_limit = -3}, {"memory_limit", "-3"}},
    {graph{auto_parallel = true, memory_limit = 10}, {"memory", "10 bytes", "without scratch memory of kernels, the least possible is ", "try memory_limit = ", "the least plan found needs "}},
    {graph{auto_parallel = true, time_limit = 0}, {"time_limit"}},
    {graph{auto_parallel = true, time_limit = -1}, {"time_limit"}},
    {graph{auto_parallel = true, time_limit = 0 / 0}, {"time_limit"}},
    {graph{auto_parallel = true, time_limit = "long"}, {"time_limit"}},
    {graph{auto_parallel = true, memory_limit = 0 / 0}, {"memory_limit"}},
    {function() x:matmul(x, {strategy = {{4, 1}, {4, 1}}}) end, {"strategy", "matmul"}},
    {function() x:matmul(x, {strategy = {{4}, {1, 1}}}) end, {"strategy", "one number for each axis"}},
    {function() x:matmul(x, {strategy = {{4, 1}}}) end, {"strategy", "one list for each operand"}},
    {function() x:matmul(x, {strategy = {{16, 1}, {1, 1}}}) end, {"strategy", "cpu[0, 1, 2, 3]"}},
    {graph{auto_parallel = true, micro_batches = 3}, {"micro_batches = 3", "8"}},
    {function() x:to_global{sbp = "auto"} end, {"auto", "variables"}},
    {function() x:matmul(x, {strategy = 3}) end, {"matmul", "strategy", "list"}},
    {function() x:matmul(x, {strategy = {{2, 0}, {1, 1}}}) end, {"matmul", "strategy", "from 1 to 2147483647", "found 0"}},
    {function() x:matmul(x, {strategy = {{1e18, 1}, {1, 1}}}) end, {"matmul", "strategy", "from 1 to 2147483647", "1e+18"}},
    {function() x:matmul(x, {strategy = {{"2", 1}, {1, 1}}}) end, {"matmul", "strategy", 'found "2"'}},
    {function() x:matmul(x, {strategy = {{0 / 0, 1}, {1, 1}}}) end, {"matmul", "strategy", "found nan"}},
    {function() x:matmul(x, {strategy = {{1.5, 1}, {1, 1}}}) end, {"matmul", "strategy", "found 1.5"}},
    {function() x:matmul(x, {strategy = {{3, 1}, {1, 1}}}) end, {"strategy {{3, 1}, {1, 1}}", "cpu[0, 1, 2, 3]"}},
    {function() x:cross_entropy(rille.zeros({8}, {dtype = "i64", placement = P}), {strategy = {{3, 1}, {1}}}) end,
      {"cross_entropy", "strategy {{3, 1}, {1}}", "cpu[0, 1, 2, 3]"}},
    {function() rille.whatif(step, {mesh = {}}) end, {"mesh", "axes"}},
    {function() rille.whatif(step, {mesh = {4, x = 2}}) end, {"whatif", "1 to 1", '"x"'}},
    {function() rille.whatif(step, {mesh = {4}, latency = {1e-6, [3] = 1}}) end, {"whatif", "1 to 1", "the key 3"}},
    {function() rille.whatif(step, {mesh = {4}, memory = {1e6, most = 1}}) end, {"whatif", "1 to 1", '"most"'}},
    {function() rille.whatif(step, {mesh = {4}}, {memory = 10}) end, {"whatif", "at most 2 arguments", "found 3"}},
    {function() rille.whatif(step, {mesh = {4, 2}, bandwidth = {1}}) end, {"bandwidth", "must be 2"}},
    {function() rille.whatif(step, {mesh = {4}, latency = -1}) end, {"latency"}},
    {function() rille.whatif(step, {mesh = {4}, latency = math.huge}) end, {"latency", "from 0 to 1 second", "inf"}},
    {function() rille.whatif(step, {mesh = {4}, latency = 0 / 0}) end, {"latency", "nan"}},
    {function() rille.whatif(step, {mesh = {4}, latency = {"0"}}) end, {"latency", 'found "0"'}},
    {function() rille.whatif(step, {mesh = {"4"}}) end, {"mesh", 'found "4"'}},
    {function() rille.whatif(step, {mesh = {4}, memory = "4"}) end, {"memory", 'found "4"'}},
    {function() rille.whatif(step, {mesh = {4}, memory = 0.5}) end, {"memory", "1 byte"}},
    {graph{auto_parallel = true, memory_limit = 0.5}, {"memory_limit", "1 byte"}},
    {graph{auto_parallel = true, memory_limit = "1e9"}, {"memory_limit", 'found "1e9"'}},
    {graph{auto_parallel = true, time_limit = "1"}, {"time_limit", 'found "1"'}},
    {graph{micro_batches = "2"}, {"micro_batches", 'found "2"'}},
    {function() rille.whatif(step, {mesh = {4}, bandwidth = 1e-300}) end, {"bandwidth", "1000 bytes/s", "1e-300"}},
    {function() rille.whatif(step, {mesh = {4}, flops = 1e-300}) end, {"flops", "1000 per second", "1e-300"}},
    {function() rille.whatif(step, {mesh = {4}, flops = "fast"}) end, {"flops"}},
    {function() step:certify("/nonexistent/plan") end, {"certify", "/nonexistent/plan"}},
    {function() rille.certificate("/dev/null") end, {"certificate"}},
    {function() rille.graph(function(a) return a end)(x); rille.graph(function(a) return a * 2 end):certify("x") end, {"certify", "call the step first"}},
  }
  for i, case in ipairs(wrong) do tap.fails(case[1], case[2], "wrong input " .. i .. " is refused with its reason") end
  tap.ok(x:sum():item() == x:sum():item(), "tensors keep their values after errors")
  tap.ok(rille.whatif(step, {mesh = {1024, 96}, bandwidth = 1e11}).step_time > 0, "whatif plans for 98,304 devices")
end
-- Tests rille.whatif() with a mesh on which the traced layouts are impossible. For example, a reshape may keep rows
-- split over two ranks, but not over three. On an axis of one rank every layout is possible, so a step that was
-- traced there may have layouts that are impossible on more ranks. whatif must report the same bytes as explain() of
-- a step that was traced on the other mesh.
tap.group("layouts that are legal on another mesh", function()
  local function on(n) return rille.placement("cpu", tap.ranks(n)) end
  local programs = {
    {1, function(p)
      local x, w = rille.zeros({8, 4}, {placement = p, sbp = "S(1)"}), rille.zeros({4, 12}, {placement = p, sbp = "S(1)"})
      local step = rille.graph(function(a, b) return a:matmul(b):relu():sum() end, {auto_parallel = true})
      step(x, w)
      return step
    end},
    {2, function(p)
      local step = rille.graph(function(a) return a:reshape{24}:relu():reshape{4, 6} end, {auto_parallel = true})
      step(rille.ones({4, 6}, {placement = p, sbp = "S(0)"}))
      return step
    end},
  }
  for k, row in ipairs(programs) do
    for _, n in ipairs{2, 3, 4, 5} do
      tap.is(rille.whatif(row[2](on(row[1])), {mesh = {n}}).bytes, row[2](on(n)):explain().bytes, ("program %d on %d ranks"):format(k, n))
    end
  end
end)

tap.done()
