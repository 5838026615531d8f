-- programs.lua - tests planned steps of real programs, with and without the user's layouts as hints
-- (actors/plan/assign/assign.c).
--
-- A plan must cost no more than the greedy plan, compute the values of one device, and move the reported bytes.
local tap = dofile("t/lib/tap.lua")
local nn, optim = rille.nn, rille.optim

local one, line = rille.placement("cpu", {0}), rille.placement("cpu", {0, 1, 2, 3})
local programs, hints, lay = dofile("t/lib/steps/layouts.lua")

-- Trains and returns two losses and the step.
local function train(program, hint, mode)
  rille.manual_seed(5)
  local net = program[1]()
  lay(net, program, hint)
  local opt = optim.SGD(net:parameters(), {lr = 0.05, momentum = 0.9})
  local step = rille.graph(function(x, ids, y)
    return tap_update(opt, (program.reads_ids and net(x, ids) or net(x)):cross_entropy(y))
  -- long enough for the proof to end before the limit, so that it does not depend on the clock
  end, {auto_parallel = mode, time_limit = mode == true and 600 or nil})
  local at = {placement = hint[1], sbp = hint[2]}
  local x, ids = rille.randn({16, table.unpack(program[2])}, at), rille.randint(0, 40, {16}, at)
  local y, losses = rille.randint(0, 8, {16}, at), {}
  for i = 1, 2 do losses[i] = step(x, ids, y):item() end
  return losses, step, net
end

local long = os.getenv("RILLE_LONG")
-- Returns true if a residual is added in shards of the sequence.
local function is_cut(e)
  for _, op in ipairs(e.ops) do
    if op.name == "add" and op.outputs[1] == "S(1)" then return true end
  end
  return false
end
local methods = tap.all(pairs(hints))
table.sort(methods)
local function has(name, how) return how ~= "sp" or name == "gpt" end
-- combinations that a short run tries; RILLE_LONG=1 tries all
local shorter = {resnet = {dp = true}, moe = {dp = true, tp = true}}
local names = tap.all(pairs(programs))
table.sort(names) -- sorted, because a share of the cases needs a fixed order
for _, name in ipairs(names) do
  local program = programs[name]
  local want = train(program, {one, "B", "B"})
  for _, how in ipairs(methods) do
    local hint = hints[how]
    if has(name, how) and (long or not shorter[name] or shorter[name][how]) and tap.share() then
      local _, greedy = train(program, hint, "greedy")
      local got, step = train(program, hint, true)
      local e, what = step:explain(), name .. ", " .. how .. ": "
      tap.near(got, want, what .. "losses are those of one device", 1e-4, 1e-5)
      tap.ok(e.cost <= greedy:explain().cost, ("%scosts no more than the greedy choice (%d, %d)"):format(what, e.cost, greedy:explain().cost))
      tap.is(e.bytes, tap.received(step), what .. "reported bytes are those that actors count")
      if how == "sp" then tap.ok(is_cut(e), what .. "the sequence is split between blocks") end
    end
  end
end

-- Trains two large layers on `rows` rows with parameters in layout `sbp`. Returns the network and the planner's report.
local function wide(rows, sbp, batch)
  rille.manual_seed(5)
  local net = nn.Sequential(nn.Linear(256, 1024, {bias = false}), nn.GELU(), nn.Linear(1024, 256, {bias = false}))
  net:to_global{placement = line, sbp = sbp}
  local opt = optim.SGD(net:parameters(), {lr = 0.05})
  local step = tap.training(opt, function(x) return net(x):square():sum() end, {auto_parallel = true, time_limit = 600})
  step(rille.randn({rows, 256}, {placement = line, sbp = batch}))
  return net, step:explain()
end

-- Checks that a data parallel product stays split over the ranks, although fewer bytes would move if every rank
-- computed all of it.
do
  local _, e = wide(512, "B", "S(0)")
  local most = 0
  for _, op in ipairs(e.ops) do
    if op.name == "matmul" or op.name == "contract" then most = math.max(most, op.candidates[1].share) end
  end
  tap.is(most, 0.25, "products of a data parallel step are computed by quarters")
end

-- Checks that with a small batch and large weights, the first layer is split by columns and the second by rows.
do
  local net, e = wide(8, "auto", "B")
  tap.is({net[1].weight.sbp, net[3].weight.sbp}, {"S(0)", "S(1)"}, "columns, then rows: found without hints")
  tap.is(e.gap, 0, "columns, then rows: proven optimal")
end

-- Plans programs for other clusters, some of them very large. A plan with free parameters must cost no more than
-- plans with replicated or tensor parallel parameters. Tries small programs, and one with too many layers for a full
-- search.
do
  local Blocks = nn.Module:extend("Blocks")
  function Blocks:init()
    local blocks = tap.list(10, function() return nn.TransformerBlock(16, 4, {is_causal = true}) end)
    self.blocks, self.head = nn.Sequential(table.unpack(blocks)), nn.Linear(16, 8)
  end
  function Blocks:forward(x) return self.head(self.blocks(x:reshape{x.shape[1] // 8, 8, 16})):reshape{x.shape[1], 8} end
  local meta = rille.placement("meta", {{0, 1}, {2, 3}})
  local simple = {whole = {meta, {"S(0)", "B"}, {"B", "B"}}, cut = {meta, {"S(0)", "B"}, {"B", "B"}, 2}}
  local small = {mlp = programs.mlp, dlrm = programs.dlrm, gpt = programs.gpt, ["ten blocks"] = {Blocks, {16}, {}}}
  local function traced(program, hint)
    local net = program[1]()
    lay(net, program, hint)
    local opt = optim.AdamW(net:parameters(), {lr = 0.01})
    local step = tap.training(opt, function(x, ids, y)
      return (program.reads_ids and net(x, ids) or net(x)):cross_entropy(y)
    end, {auto_parallel = true, time_limit = 0.01})
    local function argument(shape, dtype) return rille.zeros(shape, {dtype = dtype, placement = hint[1], sbp = hint[2]}) end
    step(argument{64, table.unpack(program[2])}, argument({64}, "i64"), argument({64}, "i64"))
    return step
  end
  for name, program in tap.sorted(small) do
    local open = traced(program, {meta, {"S(0)", "B"}, "auto"})
    for how, hint in tap.sorted(simple) do
      if not tap.share() then goto next end
      local step = traced(program, hint)
      for _, mesh in ipairs{{8, 2}, {12288, 8}} do
        local cluster = {mesh = mesh, bandwidth = {1e9, 1e11}, latency = {5e-6, 1e-6}, flops = 1e13}
        local cost, other = rille.whatif(open, cluster).cost, rille.whatif(step, cluster).cost
        local what = ("%s on %s: %d ns, no more than with parameters %s"):format(name, table.concat(mesh, " x "), cost, how)
        tap.ok(cost <= other, what, other)
      end
      ::next::
    end
  end
end
tap.done()
