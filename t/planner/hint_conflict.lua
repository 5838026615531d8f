-- hint_conflict.lua - tests reported conflicts of hints in steps planned by "propagate"
-- (actors/session/planner/hint_conflict.c, net_follows of sbp/search/local.c).
--
-- explain().meetings lists each conflict: a place where layouts from two hints require a move. The table below lists
-- programs with their expected conflicts and the bytes of these moves.
local tap = dofile("t/lib/tap.lua")
local nn, optim = rille.nn, rille.optim
local line, grid = rille.placement("cpu", {0, 1}), rille.placement("cpu", {{0, 1}, {2, 3}})

local function ones(P, shape, sbp, grad) return rille.ones(shape, {placement = P, sbp = sbp, requires_grad = grad}) end

-- Returns the source position k lines below the function's first line, as text.
local function here(f, k) return ("t/planner/hint_conflict.lua:%d"):format(debug.getinfo(f, "S").linedefined + k) end

local function planned(f, mode, ...)
  local step = rille.graph(f, {auto_parallel = mode})
  step(...)
  return step:explain(), step
end

local function column_row(x, w1, w2)
  return x:matmul(w1):relu():matmul(w2)
end
local function chain(x)
  local y = x:relu():exp()
  y = y:to_global{sbp = "S(1)"}
  return y:tanh():exp()
end
local function product(x, w)
  return x:matmul(w):relu()
end
local function cut(x, w)
  return x:matmul(w, {strategy = {{1, 1}, {1, 2}}}):relu()
end
local function two(x, y)
  local a = x:relu()
  local b = y:exp()
  return a + b
end
local function crossed(x)
  local y = x:relu()
  y = y:to_global{sbp = {"B", "S(1)"}}
  return y:exp()
end

-- Columns: name, function, arguments, and the expected conflicts (moves where layouts from two hints meet). A conflict has the
-- reader and its line (counted from the function's first line), two hints with their lines, source layout, target layout, and bytes.
local cases = {
  {"columns, then rows", column_row, {ones(line, {32, 16}, "B"), ones(line, {16, 64}, "S(1)"), ones(line, {64, 16}, "S(0)")}, {}},
  {"data parallel forward", product, {ones(line, {32, 16}, "S(0)"), ones(line, {16, 16}, "B")}, {}},
  {"no split operands", product, {ones(line, {32, 16}, "B"), ones(line, {16, 16}, "B")}, {}},
  {"rows, then columns", product, {ones(line, {256, 16}, "S(0)"), ones(line, {16, 16}, "S(1)")},
    {{"matmul", 1, "argument f32{16, 16} S(1)", 1, "argument f32{256, 16} S(0)", 1, "S(1)", "B", 1024}}},
  {"a conflict in the middle of a chain", chain, {ones(line, {64, 64}, "S(0)")},
    {{"to_global", 2, "argument f32{64, 64} S(0)", 1, "to_global S(1)", 2, "S(0)", "S(1)", 8192}}},
  {"a strategy", cut, {ones(line, {64, 64}, "S(0)"), ones(line, {64, 64}, "B")},
    {{"matmul", 1, "argument f32{64, 64} S(0)", 1, "matmul strategy", 1, "S(0)", "B", 16384},
      {"matmul", 1, "argument f32{64, 64} B", 1, "matmul strategy", 1, "B", "S(1)", 0}}},
  {"two branches", two, {ones(line, {64, 64}, "S(0)"), ones(line, {64, 64}, "S(1)")},
    {{"add", 3, "argument f32{64, 64} S(1)", 2, "argument f32{64, 64} S(0)", 1, "S(1)", "S(0)", 8192}}},
  {"none on 2 x 2", product, {ones(grid, {32, 16}, {"S(0)", "B"}), ones(grid, {16, 16}, {"B", "S(1)"})}, {}},
  {"one axis of 2 x 2", product, {ones(grid, {256, 16}, {"S(0)", "S(0)"}), ones(grid, {16, 16}, {"B", "S(1)"})},
    {{"matmul", 1, "argument f32{16, 16} (B, S(1))", 1, "argument f32{256, 16} (S(0), S(0))", 1, "(B, S(1))", "(B, B)", 2048}}},
  {"both axes of 2 x 2", crossed, {ones(grid, {64, 64}, {"S(0)", "B"})},
    {{"to_global", 2, "argument f32{64, 64} (S(0), B)", 1, "to_global (B, S(1))", 2, "(S(0), B)", "(B, S(1))", 16384}}},
}

-- Returns true if each reported conflict is a move in explain() with equal bytes, and all conflicts together take at
-- most the time of the step.
local function are_moves(e)
  local ns = 0
  for _, m in ipairs(e.meetings) do
    local found
    for _, b in ipairs(e.boxing) do found = found or (b.from == m.from and b.to == m.to and b.bytes * b.times == m.bytes) end
    if not found or m.ns <= 0 then return false end
    ns = ns + m.ns
  end
  return ns <= e.cost
end

local met = 0
for _, case in ipairs(cases) do
  local name, f, args, want = table.unpack(case)
  local e, got, expected, text = planned(f, "propagate", table.unpack(args)), {}, {}, {}
  for i, m in ipairs(e.meetings) do
    got[i] = {m.op, m.line, m.hints[1].what, m.hints[1].line, m.hints[2].what, m.hints[2].line, m.from, m.to, m.bytes}
  end
  for i, w in ipairs(want) do
    expected[i] = {w[1], here(f, w[2]), w[3], here(f, w[4]), w[5], here(f, w[6]), w[7], w[8], w[9]}
    text[i] = ("%s (%s): %s (%s) and %s (%s)\n      %s -> %s: %d bytes, "):format(table.unpack(expected[i]))
  end
  tap.is(got, expected, name .. ": the meetings, with both hints and the move")
  tap.ok(are_moves(e), name .. ": each meeting is a move of the plan, and takes time")
  tap.ok(tap.has(tostring(e), #want == 0 and "no hints conflict" or ("%d conflict"):format(#want), table.unpack(text)),
    name .. ": the text lists each meeting")
  met = met + #want
end
tap.ok(met >= 6, "meetings found in all programs: " .. met)

-- Checks that a reported hint conflict names the variables. Here the layouts of the batch and of the parameter
-- conflict at the sum of the gradient.
do
  local w = nn.Parameter(ones(line, {64, 64}, "B"))
  local opt = optim.SGD({w}, {lr = 0.1})
  local e = planned(function(x) x:matmul(w):square():sum():backward(); opt:step(); opt:zero_grad() end, "propagate", ones(line, {1024, 64}, "S(0)"))
  tap.is({#e.meetings, e.meetings[1].op, e.meetings[1].hints[1].what, e.meetings[1].hints[2].what},
    {1, "sgd", "argument f32{1024, 64} S(0)", "variable f32{64, 64} B"}, "data parallel: one meeting, at the gradient")
  tap.is(e.meetings[1].bytes, e.bytes, "data parallel: nothing else moves")
end

-- Checks a value that differs between micro-batches: its move counts once per micro-batch.
do
  local w = ones(line, {64, 512}, "S(1)")
  local step = rille.graph(function(x) return (x:to_global{sbp = "S(1)"}:exp():matmul(w)) end, {auto_parallel = "propagate", micro_batches = 4})
  step(ones(line, {64, 64}, "S(0)"))
  local e, sum = step:explain(), 0
  for _, m in ipairs(e.meetings) do sum = sum + m.bytes end
  tap.ok(#e.meetings > 0 and sum == e.bytes, ("micro-batches: all bytes moved are those of meetings (%d, %d)"):format(sum, e.bytes))
end

-- Checks that all other modes of the planner report no conflicts.
for _, mode in ipairs{"optimal", "recursive", "greedy"} do
  local e = planned(chain, mode, ones(line, {64, 64}, "S(0)"))
  tap.ok(e.meetings == nil and not tostring(e):find("hints conflict"), mode .. ": layouts are not propagated, so no meetings are reported")
end
tap.done()
