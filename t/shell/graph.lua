-- Tests of rille.graph and rille.live: arguments, results, and the choice of a trace for a call.
local tap = dofile("t/lib/tap.lua")
local T = rille.tensor

-- Returns a step and a function that counts its traces.
local function counting(fn, options)
  local n = 0
  return rille.graph(function(...) n = n + 1 return fn(...) end, options), function() return n end
end

tap.group("results", function()
  local step = rille.graph(function(a) return a * 2, "text", nil, a + 1, nil end)
  for i = 1, 2 do
    local got = table.pack(step(T({i})))
    tap.is({got.n, got[1]:item(), got[2], got[4]:item()}, {5, 2 * i, "text", i + 1}, "keep their positions, call " .. i)
  end
  tap.is(select("#", rille.graph(function() end)()), 0, "may be none")
  local w = T({1}, {requires_grad = true})
  local same = rille.graph(function(a) return a, a, w end)
  local a, b, c = same(T({4}))
  tap.is({a:item(), b:item(), c:item()}, {4, 4, 1}, "may be an input, twice, or a variable")
end)

tap.group("the choice of a trace", function()
  local step, traced = counting(function(a, k) return a * k end)
  tap.is({step(T({1}), 2):item(), step(T({1}), 3):item(), step(T({5}), 2):item()}, {2, 3, 10}, "each number argument has its own result")
  tap.is(traced(), 2, "calls with an equal number share a trace")
  step(T({1, 2}), 2)
  step(T({1}, {dtype = "i64"}), 2)
  step(T({1, 2}), 2)
  tap.is(traced(), 4, "another shape or dtype is traced once")
  step(T({7}), 2)
  tap.is(traced(), 4, "earlier traces are kept")
  local P2 = rille.placement("cpu", {0, 1})
  local placed, laid_traced = counting(function(a) return a:sum() end)
  for _, sbp in ipairs{"S(0)", "B", "S(0)"} do placed(rille.ones({4}, {placement = P2, sbp = sbp})) end
  tap.is(laid_traced(), 2, "another layout is traced once")
  local mode, mode_traced = counting(function(a) return a:dropout(0.5) end)
  local net = rille.nn.Linear(1, 1)
  mode(T({1})) net:eval() mode(T({1}))
  tap.is(mode_traced(), 2, "train and eval have their own traces")
  for _ = 1, 3 do mode(T({1})) net:train() mode(T({1})) net:eval() end
  net:eval()
  tap.is(mode_traced(), 2, "traces of alternating modes are kept")
  local many, many_traced = counting(function(a, k) return a + tonumber(k) end)
  for round = 1, 2 do
    for k = 1, 70 do
      if many(T({0}), tostring(k)):item() ~= k then tap.ok(false, "trace " .. k .. " gives its number") end
    end
  end
  tap.ok(many_traced() >= 70, "old traces are replaced by new ones")
end)

tap.group("live numbers", function()
  local asked, lr = 0, 1
  local live = rille.live(function() asked = asked + 1 return lr end)
  local step, traced = counting(function(a) return a * live + live end)
  local sums = {}
  for i = 1, 3 do lr = i; sums[i] = step(T({10})):item() end
  tap.is(sums, {11, 22, 33}, "have their value at each call")
  tap.is({traced(), asked}, {1, 3}, "are evaluated once per call")
  local co = coroutine.wrap(function() lr = 4 return step(T({10})):item() end)
  tap.is(co(), 44, "work in a coroutine, too")
end)

tap.group("errors of live numbers", function()
  local bad = rille.live(function() error("from live", 0) end)
  tap.fails(function() rille.graph(function(a) return a * bad end)(T({1})) end, {"from live"}, "are reported by a step")
  tap.fails(function() return (T({1}) * bad):item() end, {"from live"}, "are reported when a value is read outside of a step")
  tap.fails(function() return T({1, 2}):item() end, {"one element"}, "are not reported again by the next error")
end)

tap.group("inspection", function()
  local step = rille.graph(function(a) return a:matmul(a):relu() end)
  step(rille.ones({4, 4}))
  local stats = step:stats()
  tap.ok(stats.step_time > 0 and #stats.devices == 1 and stats.devices[1].device == "cpu:0", "stats() lists the device")
  tap.ok(tostring(step:plan()):find("matmul") and tostring(step:plan{physical = true}):find("matmul"), "plan() has two forms")
  tap.is(step:explain().bytes, 0, "explain() reports the bytes moved")
  local path = os.tmpname()
  step:trace(path)
  step(rille.ones({4, 4}))
  tap.ok(tap.read(path):find('"matmul+relu"', 1, true), "trace() names operators")
  os.remove(path)
  tap.fails(function() step:trace("no/such.json") end, {"graph.lua:", "trace: no/such.json cannot be written: No such file"},
    "the error of a trace that cannot be written has the reason")
  tap.fails(function() step:trace("/dev/full") end, {"trace: /dev/full could not be written completely: No space left"},
    "the error of a trace that was written only in part has the reason")
  tap.fails(function() rille.ones({4}):show("no/such.svg") end, {"show: no/such.svg cannot be written: No such file"},
    "the error of a drawing that cannot be written has the reason")
end)

-- Checks which rows form a micro-batch. The boundaries of the shards of all arguments cut the rows into segments.
-- Micro-batch k consists of the k-th part of each segment.
tap.group("rows of micro-batches", function()
  local P, Q = rille.placement("cpu", {0, 1}), rille.placement("cpu", {2, 3, 4})
  local P22 = rille.placement("cpu", {{0, 1}, {2, 3}})
  local rows = tap.list(24, function(i) return i * i % 17 end)
  local function batch(sbp, place) return rille.tensor(rows, {placement = place or P, sbp = sbp}) end
  local layouts = {"S(0)", "B", "P"}
  local parts = {["S(0)"] = 2, B = 1, P = 1}
  for _, pieces in ipairs{1, 2, 4} do
    for _, a in ipairs(layouts) do
      for _, b in ipairs(layouts) do
        local name = ("%s with %s in %d pieces"):format(a, b, pieces)
        local pair = rille.graph(function(x, y) return (x - y):square():sum() end, {micro_batches = pieces})
        local move = rille.graph(function(x) return x:to_global{sbp = b} * 1 end, {micro_batches = pieces})
        tap.is({pair(batch(a), batch(b)):item(), pair(batch(a), batch(b)):item()}, {0, 0}, name .. ": both arguments have the same rows in each micro-batch")
        if pieces == 1 or parts[b] <= parts[a] then
          tap.is(move(batch(a)):totable(), batch(a):totable(), "a result has its rows in order")
        else
          tap.fails(function() move(batch(a)) end, {"graph.lua:", "graph: a result is " .. b, "to_global"},
            "a result with rows in another order is refused")
        end
      end
    end
  end
  local mesh = rille.graph(function(x, y, z) return (x - y):square():sum() + (x - z):square():sum() end, {micro_batches = 2})
  for _, a in ipairs{{"B", "B"}, {"S(0)", "B"}, {"B", "S(0)"}, {"P", "B"}, {"S(0)", "S(0)"}} do
    for _, b in ipairs{{"B", "B"}, {"S(0)", "B"}, {"B", "S(0)"}} do
      tap.is(mesh(batch(a, P22), batch(b, P22), batch({"S(0)", "B"}, P22)):item(), 0, "rows match on a two-axis mesh, too")
    end
  end
  local other = rille.graph(function(x, y) return (x - y:to_global{placement = P, sbp = "S(0)"}):square():sum() end, {micro_batches = 4})
  for _, sbp in ipairs{"S(0)", "B"} do
    tap.is(other(batch("S(0)"), batch(sbp, Q)):item(), 0, "rows match between shards of 12 and of 8 rows")
  end
  local five = rille.graph(function(x, y) return x:sum() + y:sum():to_global{placement = P, sbp = "B"} end, {micro_batches = 8})
  tap.fails(function() five(batch("S(0)"), batch("S(0)", Q)) end, {"graph.lua:", "micro_batches = 8", "12"}, "a number of micro-batches that does not divide the segments is refused")
  local sums = rille.graph(function(x) return x:reshape{1, -1}:sum(1) end, {micro_batches = 2})
  local sum = 0
  for i = 1, 24 do sum = sum + rows[i] end
  tap.is(sums(batch("S(0)")):totable(), {sum}, "a sum over the rows in another shape is the whole batch's")
end)

tap.group("garbage", function()
  for i = 1, 50 do rille.graph(function(a) return a + i end)(T({1})) end
  collectgarbage() collectgarbage()
  tap.ok(rille.counters().live_nodes < 2000, "unreferenced graphs are freed", rille.counters().live_nodes)
end)

tap.group("a failed trace when the step's trace cache is full", function()
  local broken = false
  local step = rille.graph(function(x)
    if broken then error("no") end
    return x + 1
  end)
  for n = 1, 64 do step(rille.ones({n})) end
  local plan = tostring(step:plan())
  broken = true
  tap.ok(not pcall(step, rille.ones({65})), "the call fails")
  local good, after = pcall(function() return tostring(step:plan()) end)
  tap.ok(good and after == plan, "plan() still shows the previous call")
end)

tap.done()
