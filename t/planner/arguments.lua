-- arguments.lua - tests arguments with sbp = "auto" in planned steps (actors/session/planner/planned.c, compiled.c).
--
-- The planner chooses layouts of arguments as it does for parameters. At later calls, arguments are converted to the
-- layouts of the first call.
local tap = dofile("t/lib/tap.lua")
local places = {line = {0, 1, 2, 3}, grid = {{0, 1}, {2, 3}}, pair = {0, 1}}
local modes = {true, "propagate", "recursive", "greedy"}

-- Columns: name; function that returns the step's function for a variable w; indices of the arguments with sbp =
-- "auto".
local functions = {
  {"product", function(w) return function(x) return x:matmul(w):relu():sum(0) end end, {1}},
  {"rows", function(w) return function(x) return x:exp():matmul(w):softmax(1) end end, {1}},
  {"two", function(w) return function(x, y) return (x + y * 2):matmul(w):sum(0) end end, {1, 2}},
  {"second", function(w) return function(y, x) return (x - y):matmul(w) end end, {2}},
  {"unread", function(w) return function(x, y) return y:matmul(w) end end, {1}},
}
local function close(a, b) return (a - b):abs():max():item() < 1e-5 end
local function fresh(P, how, seed)
  rille.manual_seed(seed)
  return rille.randn({16, 8}, {placement = P, sbp = how == "auto" and how or nil})
end

for where, ranks in pairs(places) do
  local P = rille.placement("cpu", ranks)
  for _, mode in ipairs(modes) do
    for _, row in ipairs(functions) do
      local name, make, list = table.unpack(row)
      local auto, calls = {}, 0
      for _, i in ipairs(list) do auto[i] = true end
      local w = rille.randn({8, 12}, {placement = P})
      local fn = make(w)
      local step = rille.graph(function(...) calls = calls + 1; return fn(...) end, {auto_parallel = mode, time_limit = 0.1})
      local function arguments(seed, how)
        return table.unpack(tap.list(2, function(i) return fresh(P, auto[i] and how or "B", seed + i) end))
      end
      name = ("%s, %s, %s"):format(where, mode, name)
      local good, why, placed = true, nil, nil
      for call = 1, 3 do
        local a, b = arguments(10 * call, "auto")
        local want = fn(arguments(10 * call, "B"))
        local got = step(a, b)
        good = good and close(got, want)
        placed = placed or {tostring(a.sbp), tostring(b.sbp)}
        if tostring(a.sbp) ~= placed[1] or tostring(b.sbp) ~= placed[2] then good, why = false, "later arguments have other layouts" end
        if not close(step(a, b), want) then good, why = false, "placed arguments give other values" end
      end
      local traced = calls
      tap.ok(good, name .. ": three batches have the right values and equal layouts", why)
      step(arguments(90, "auto"))
      tap.is(calls, traced, name .. ": \"auto\" arguments need no further traces")
      if mode == true then
        local given = rille.graph(fn, {auto_parallel = true, time_limit = 0.1})
        given(arguments(1, "B"))
        local free, held = step:explain(), given:explain()
        tap.ok(free.cost <= held.cost, name .. ": costs no more than with B arguments", free.cost .. ", " .. held.cost)
      end
    end
  end
end

-- Passes one tensor as two arguments: values must be right, or an error must name the two layouts.
local P = rille.placement("cpu", {0, 1, 2, 3})
for _, row in ipairs{
  {"two arguments", function(x) return function(a, b) return a:matmul(b:transpose(0, 1)), a:sum(0), b:sum(1) end, {x, x} end},
  {"an argument and a variable", function(x) return function(a) return a:matmul(x:transpose(0, 1)), x:sum(0), a:sum(1) end, {x} end},
} do
  local x, like = fresh(P, "auto", 3), fresh(P, "B", 3)
  local fn, given = row[2](x)
  local plain, same = row[2](like)
  local step = rille.graph(fn, {auto_parallel = true})
  local got, why = table.pack(pcall(step, table.unpack(given))), nil
  local want = table.pack(plain(table.unpack(same)))
  local good = got[1]
  for k = 1, want.n do good = good and close(got[k + 1], want[k]) end
  tap.ok(good or tostring(got[2]):match('"auto".*two layouts'), row[1] .. " with one tensor: right values, or an error about two layouts", got[2])
end

-- Checks that "auto" is refused with micro-batches. Micro-batches are slices of an argument's shards, so the
-- argument's layout must be known.
local step = rille.graph(function(x) return x:sum() end, {auto_parallel = true, micro_batches = 2})
tap.fails(function() step(fresh(P, "auto", 1)) end, {"argument 1", '"auto"', "2 micro-batches", "layout"}, "micro-batches with an \"auto\" argument: the error asks for a layout")
tap.ok(close(rille.graph(function(x) return x:sum() end)(fresh(P, "auto", 1)), fresh(P, "B", 1):sum()), "without a planner an \"auto\" argument is B")
tap.done()
