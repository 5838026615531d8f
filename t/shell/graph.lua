-- rille.graph and rille.live as Lua sees them: arguments, results, which trace a call takes.
local tap = dofile("t/lib/tap.lua")
local rille = require "rille"
local T = rille.tensor

-- A step that counts how often it was traced.
local function counting(fn, options)
  local n = 0
  return rille.graph(function(...) n = n + 1 return fn(...) end, options), function() return n end
end

tap.group("results", function()
  local step = rille.graph(function(a) return a * 2, "text", nil, a + 1, nil end)
  for i = 1, 2 do
    local got = table.pack(step(T({i})))
    tap.is({got.n, got[1]:item(), got[2], got[4]:item()}, {5, 2 * i, "text", i + 1}, "come in their places, call " .. i)
  end
  tap.is(select("#", rille.graph(function() end)()), 0, "may be none")
  local w = T({1}, {requires_grad = true})
  local same = rille.graph(function(a) return a, a, w end)
  local a, b, c = same(T({4}))
  tap.is({a:item(), b:item(), c:item()}, {4, 4, 1}, "may be an input, twice, or a variable")
end)

tap.group("which trace fits", function()
  local step, traced = counting(function(a, k) return a * k end)
  tap.is({step(T({1}), 2):item(), step(T({1}), 3):item(), step(T({5}), 2):item()}, {2, 3, 10}, "another number is another trace")
  tap.is(traced(), 2, "and the same number the same one")
  step(T({1, 2}), 2)
  step(T({1}, {dtype = "i64"}), 2)
  step(T({1, 2}), 2)
  tap.is(traced(), 4, "another shape or dtype too, once")
  step(T({7}), 2)
  tap.is(traced(), 4, "the first ones are kept")
  local P2 = rille.placement("cpu", {0, 1})
  local laid, laid_traced = counting(function(a) return a:sum() end)
  for _, sbp in ipairs{"S(0)", "B", "S(0)"} do laid(rille.ones({4}, {placement = P2, sbp = sbp})) end
  tap.is(laid_traced(), 2, "another layout is another trace")
  local mode, mode_traced = counting(function(a) return a:dropout(0.5) end)
  local net = rille.nn.Linear(1, 1)
  mode(T({1})) net:eval() mode(T({1}))
  tap.is(mode_traced(), 2, "train and eval are traces of their own")
  for _ = 1, 3 do mode(T({1})) net:train() mode(T({1})) net:eval() end
  net:eval()
  tap.is(mode_traced(), 2, "which are kept while they take turns")
  local many, many_traced = counting(function(a, k) return a + k end)
  for round = 1, 2 do
    for k = 1, 70 do
      if many(T({0}), k):item() ~= k then tap.ok(false, "trace " .. k .. " gives its number") end
    end
  end
  tap.ok(many_traced() >= 70, "many traces replace each other")
end)

tap.group("live numbers", function()
  local asked, lr = 0, 1
  local live = rille.live(function() asked = asked + 1 return lr end)
  local step, traced = counting(function(a) return a * live + live end)
  local sums = {}
  for i = 1, 3 do lr = i; sums[i] = step(T({10})):item() end
  tap.is(sums, {11, 22, 33}, "are what they are at the call")
  tap.is({traced(), asked}, {1, 3}, "asked once a call")
  local co = coroutine.wrap(function() lr = 4 return step(T({10})):item() end)
  tap.is(co(), 44, "also from a coroutine")
end)

tap.group("errors of live numbers", function()
  local bad = rille.live(function() error("from live", 0) end)
  tap.fails(function() rille.graph(function(a) return a * bad end)(T({1})) end, {"from live"}, "come out of a step")
  tap.fails(function() return (T({1}) * bad):item() end, {"from live"}, "and where a value is wanted without one")
  tap.fails(function() return T({1, 2}):item() end, {"one element"}, "and are not told twice")
end)

tap.group("looking", function()
  local step = rille.graph(function(a) return a:matmul(a):relu() end)
  step(rille.ones({4, 4}))
  local stats = step:stats()
  tap.ok(stats.step_time > 0 and #stats.devices == 1 and stats.devices[1].device == "cpu:0", "stats has a device")
  tap.ok(tostring(step:plan()):find("matmul") and tostring(step:plan{physical = true}):find("matmul"), "plan has two forms")
  tap.is(step:explain().bytes, 0, "explain has its bytes")
  local path = os.tmpname()
  step:trace(path)
  step(rille.ones({4, 4}))
  local f = assert(io.open(path))
  tap.ok(f:read("a"):find('"matmul+relu"', 1, true), "trace names operators")
  f:close()
  os.remove(path)
  tap.fails(function() step:trace("no/such.json") end, {"graph.lua:", "trace: no/such.json cannot be written: No such file"},
    "a trace that cannot be written tells why")
  tap.fails(function() step:trace("/dev/full") end, {"trace: /dev/full could not be written whole: No space left"},
    "and one that could not be written whole")
  tap.fails(function() rille.ones({4}):show("no/such.svg") end, {"show: no/such.svg cannot be written: No such file"},
    "so does a picture")
end)

-- Piece k is the k-th part of every segment that the boundaries of all arguments' shards leave.
tap.group("rows of micro-batches", function()
  local P, Q = rille.placement("cpu", {0, 1}), rille.placement("cpu", {2, 3, 4})
  local P22 = rille.placement("cpu", {{0, 1}, {2, 3}})
  local rows = {}
  for i = 1, 24 do rows[i] = i * i % 17 end
  local function batch(sbp, place) return rille.tensor(rows, {placement = place or P, sbp = sbp}) end
  local layouts = {"S(0)", "B", "P"}
  local parts = {["S(0)"] = 2, B = 1, P = 1}
  for _, pieces in ipairs{1, 2, 4} do
    for _, a in ipairs(layouts) do
      for _, b in ipairs(layouts) do
        local name = ("%s with %s in %d pieces"):format(a, b, pieces)
        local pair = rille.graph(function(x, y) return (x - y):square():sum() end, {micro_batches = pieces})
        local move = rille.graph(function(x) return x:to_global{sbp = b} * 1 end, {micro_batches = pieces})
        tap.is({pair(batch(a), batch(b)):item(), pair(batch(a), batch(b)):item()}, {0, 0}, name .. " go together")
        if pieces == 1 or parts[b] <= parts[a] then
          tap.is(move(batch(a)):totable(), batch(a):totable(), "and come out in order")
        else
          tap.fails(function() move(batch(a)) end, {"graph.lua:", "graph: a result is " .. b, "to_global"},
            "what would come out in another order is refused")
        end
      end
    end
  end
  local mesh = rille.graph(function(x, y, z) return (x - y):square():sum() + (x - z):square():sum() end, {micro_batches = 2})
  for _, a in ipairs{{"B", "B"}, {"S(0)", "B"}, {"B", "S(0)"}, {"P", "B"}, {"S(0)", "S(0)"}} do
    for _, b in ipairs{{"B", "B"}, {"S(0)", "B"}, {"B", "S(0)"}} do
      tap.is(mesh(batch(a, P22), batch(b, P22), batch({"S(0)", "B"}, P22)):item(), 0, "on a mesh too")
    end
  end
  local other = rille.graph(function(x, y) return (x - y:to_global{placement = P, sbp = "S(0)"}):square():sum() end, {micro_batches = 4})
  for _, sbp in ipairs{"S(0)", "B"} do
    tap.is(other(batch("S(0)"), batch(sbp, Q)):item(), 0, "shards of 12 rows go with shards of 8")
  end
  local five = rille.graph(function(x, y) return x:sum() + y:sum():to_global{placement = P, sbp = "B"} end, {micro_batches = 8})
  tap.fails(function() five(batch("S(0)"), batch("S(0)", Q)) end, {"graph.lua:", "micro_batches = 8", "12"}, "a number that does not divide is refused")
  local sums = rille.graph(function(x) return x:reshape{1, -1}:sum(1) end, {micro_batches = 2})
  local sum = 0
  for i = 1, 24 do sum = sum + rows[i] end
  tap.is(sums(batch("S(0)")):totable(), {sum}, "a sum over the rows in another shape is the whole batch's")
end)

tap.group("garbage", function()
  for i = 1, 50 do rille.graph(function(a) return a + i end)(T({1})) end
  collectgarbage() collectgarbage()
  tap.ok(rille.counters().live_nodes < 2000, "graphs that nobody holds are freed", rille.counters().live_nodes)
end)

tap.group("a trace that fails when the step has as many as it keeps", function()
  local broken = false
  local step = rille.graph(function(x)
    if broken then error("no") end
    return x + 1
  end)
  for n = 1, 64 do step(rille.ones({n})) end
  local plan = tostring(step:plan())
  broken = true
  tap.ok(not pcall(step, rille.ones({65})), "the trace fails")
  local good, after = pcall(function() return tostring(step:plan()) end)
  tap.ok(good and after == plan, "plan() is still that of the call before")
end)

tap.done()
