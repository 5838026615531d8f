-- memory.lua - tests the memory that a planner reports for real programs (actors/plan/assign/assign.c,
-- actors/session/planner/fit.c).
--
-- The reported memory of a device must be that of the plan, and a plan must exist for the reported least limit. SEED
-- draws programs, layouts, micro-batches and schedules; RILLE_LONG=1 tries all.
local tap = dofile("t/lib/tap.lua")
local programs, hints, lay = dofile("t/lib/steps/layouts.lua")
local ROWS <const> = 64
local SEED <const>, ALL <const> = tonumber(os.getenv("SEED") or 1), os.getenv("RILLE_LONG")
tap.share(0)
local some <const> = tap.which ~= nil -- true if this run takes only a share of the cases, and so draws fewer
print("# SEED=" .. SEED)
math.randomseed(SEED + (tap.which or 0))

local names = tap.all(pairs(programs))
table.sort(names)

-- Returns n random combinations, each with one entry of every list; with RILLE_LONG all combinations.
local function drawn(n, ...)
  local all = {{}}
  for _, list in ipairs{...} do
    local longer = {}
    for _, row in ipairs(all) do
      for _, x in ipairs(list) do longer[#longer + 1] = {x, table.unpack(row)} end
    end
    all = longer
  end
  for i = #all, 2, -1 do
    local k = math.random(i)
    all[i], all[k] = all[k], all[i]
  end
  return ALL and all or table.move(all, 1, n, 1, {})
end

local function held_by(step) return tap.most(step:stats().devices, function(d) return d.peak_memory end) end

-- Returns a training step that has not been called yet, and the step's arguments.
local function step_of(program, hint, options)
  rille.manual_seed(5)
  local net = program[1]()
  lay(net, program, hint)
  local opt = rille.optim.AdamW(net:parameters(), {lr = 0.01})
  options.auto_parallel = true
  local step = tap.training(opt, function(x, ids, y)
    return (program.reads_ids and net(x, ids) or net(x)):cross_entropy(y)
  end, options)
  local at = {placement = hint[1], sbp = hint[2]}
  local x, ids = rille.randn({ROWS, table.unpack(program[2])}, at), rille.randint(0, 24, {ROWS}, at)
  return step, x, ids, rille.randint(0, 8, {ROWS}, at)
end

-- Trains a program. Returns eight values: bytes that the fullest device holds; reported bytes; reported scratch
-- memory; scratch memory of the plan; bytes held in the first call; whatif's report for the same mesh; true if whatif
-- chose the same plan; the cost.
local function train(program, hint, limit, seconds)
  local step, x, ids, y = step_of(program, hint, {time_limit = seconds or limit and 1 or 0.3, memory_limit = limit})
  step(x, ids, y)
  local first, scratch = held_by(step), 0
  step(x, ids, y)
  for bytes in tostring(step:plan{physical = true}):gmatch("scratch at %d+ %+ (%d+) B") do scratch = math.max(scratch, tonumber(bytes)) end
  local reported, mesh = step:explain(), type(hint[2]) == "table" and {2, 2} or {4}
  local far = rille.whatif(step, {mesh = mesh})
  return held_by(step), reported.memory, reported.scratch, scratch, first, far, far.cost == reported.cost, reported.cost
end

-- Checks that the reported scratch memory is that of the plan, and that whatif reports the plan's memory for the
-- step's own mesh. KEPT: bytes that a mixture of experts holds after tracing, because the load balance reads an
-- earlier value of the router.
local KEPT <const> = {moe = 16 * 4 * 4}
local alike, tried = 0, drawn(some and 2 or 5, {"dp", "tp", "dp x tp", "fsdp", "free"}, names)
for _, draw in ipairs(tried) do
  local name, how = table.unpack(draw)
  local held, memory, reported, scratch, first, far, same, cost = train(programs[name], hints[how])
  tap.is(memory, held, ("%s, %s: the reported memory is the memory held"):format(name, how))
  tap.is(reported, scratch, ("%s, %s: the reported scratch memory is that of the plan"):format(name, how))
  tap.ok(far.cost <= cost, ("%s, %s: whatif's plan costs no more, %d ns"):format(name, how, cost), far.cost)
  if same then tap.is({far.memory, far.scratch}, {held, scratch}, ("%s, %s: whatif's plan holds as much as the step"):format(name, how)) end
  alike = alike + (same and 1 or 0)
  tap.ok(first >= held and first <= held + (KEPT[name] or 0),
    ("%s, %s: the first call holds as much as later calls, %d bytes"):format(name, how, held), first)
end

tap.ok(alike >= #tried // 2, "at least half of the cases chose the same plan", alike)

-- Checks memory with micro-batches. A value read in backward, and a copy read in both phases, need a register for
-- each micro-batch in flight. A sum over micro-batches lives from the first micro-batch on. A value made once lives
-- until the last micro-batch ends.
for _, draw in ipairs(drawn(some and 2 or 8, {"gpipe", "1f1b"}, {2, 4, 8}, {"dp", "tp", "dp x tp", "fsdp", "free"}, names)) do
  local name, how, pieces, schedule = table.unpack(draw)
  if name == "gpt" then pieces = 2 end -- the 8 rows of a sequence must be neighbours in the micro-batch of each device
  local step, x, ids, y = step_of(programs[name], hints[how], {time_limit = 0.1, micro_batches = pieces, schedule = schedule})
  local good, why = pcall(step, x, ids, y)
  local held, reported = good and held_by(step), good and step:explain().memory
  tap.ok(good and held - reported >= 0 and held - reported <= (KEPT[name] or 0),
    ("%s, %s, %d micro-batches by %s: reported are %s bytes, the first call holds %s"):format(name, how, pieces, schedule, reported, held), why)
  local mesh = type(hints[how][2]) == "table" and {2, 2} or {4}
  local far = good and rille.whatif(step, {mesh = mesh})
  tap.ok(good and (far.cost < step:explain().cost or far.memory == reported),
    ("%s, %s, %d micro-batches by %s: whatif reports the same"):format(name, how, pieces, schedule), far and far.memory)
  local within = good and rille.whatif(step, {mesh = mesh, memory = {reported}})[1]
  tap.ok(within and within.memory <= reported and within.cost <= step:explain().cost,
    ("%s, %s, %d micro-batches by %s: whatif meets the reported memory as a limit"):format(name, how, pieces, schedule), within and within.memory)
end

-- Sets an impossible memory limit. For any time limit, the error must name the least memory limit, and a plan must
-- exist for the least limit.
for k, how in ipairs{"tp", "fsdp"} do
  if not tap.share(k) then goto next end
  local held = train(programs.mlp, hints[how])
  local good, why = pcall(train, programs.mlp, hints[how], held // 4)
  local least = not good and math.tointeger(tostring(why):match("found needs (%d+)$"))
  tap.ok(least and least < held, ("%s: a quarter of %d bytes is refused, and the error names the least"):format(how, held), why)
  local _, soon = pcall(train, programs.mlp, hints[how], held // 4, 1e-9)
  tap.is(math.tointeger(tostring(soon):match("found needs (%d+)$")), least, how .. ": the same least limit without search time")
  local again, _, _, _, first = train(programs.mlp, hints[how], least)
  tap.ok(math.max(again, first) <= least, ("%s: the least limit, %d bytes, has a plan of %d"):format(how, least, again))
  ::next::
end
-- Checks a norm over split columns. If it is computed in parts, it moves fewer bytes but needs more memory. So below
-- some limit it must be computed in one piece. The least limit in the error must consider both methods.
do
  local line = hints.dp[1]
  local along, at = {placement = line, sbp = "S(0)"}, {placement = line, sbp = "S(1)"}
  local w, b = rille.randn({1024}, along), rille.randn({1024}, along)
  local s, x = rille.randn({64, 1024}, at), rille.randn({64, 1024}, at)
  for _, v in ipairs{w, b, s} do v:requires_grad_() end
  local function norm(limit)
    local step = rille.graph(function(y)
      local loss = rille.layer_norm(y + s, w, b):square():mean()
      loss:backward()
      w.grad, b.grad, s.grad = nil, nil, nil
      return loss
    end, {auto_parallel = true, time_limit = 1, memory_limit = limit})
    step(x)
    return held_by(step)
  end
  local good, why = pcall(norm, 1000)
  local least = not good and math.tointeger(tostring(why):match("found needs (%d+)$"))
  tap.ok(least and norm(least) <= least, "the least limit has a plan, with the norm in one piece", why)
  tap.ok(least and least <= norm(), "the least limit is at most the memory of the plan without a limit", least)
end
-- Plans a large model on 64 devices with a limit below the need. The search itself must use little memory.
local limits = {} -- shares of the need that this run takes
for k, share in ipairs{0.9, 0.6, 0.4, 0.2, 0.001} do limits[#limits + 1] = tap.share(k + 2) and share or nil end
if #limits > 0 then
  local place = rille.placement("meta", {0, 1, 2, 3, 4, 5, 6, 7})
  local m = rille.models.llama.new{vocab = 32000, length = 1024, layers = 8, heads = 32, kv_heads = 8, width = 4096, hidden = 11008,
    placement = place, dtype = "bf16"}
  m:to_global{placement = place, sbp = "auto"}
  local opt = rille.optim.AdamW(m:parameters(), {lr = 1e-4})
  local x = rille.zeros({16, 1024}, {dtype = "i64", placement = place, sbp = "S(0)"})
  local step = tap.training(opt, function(ids)
    return m(ids):reshape{-1, 32000}:cross_entropy(ids:reshape{-1})
  end, {auto_parallel = "propagate"})
  step(x)
  local function peak() return tonumber(io.open("/proc/self/status"):read("a"):match("VmHWM:%s+(%d+)")) end
  local cluster, before = {mesh = {8, 8}, bandwidth = {50e9, 400e9}, latency = {5e-6, 1e-6}, flops = 1e15}, peak()
  local free = rille.whatif(step, cluster).memory
  for _, share in ipairs(limits) do
    cluster.memory = share * free // 1 | 0
    local good, r = pcall(rille.whatif, step, cluster)
    tap.ok(good and r.memory <= cluster.memory or tostring(r):find("memory: no plan found fits"),
      ("a cluster with %g of the memory has a plan within the limit, or an error"):format(share), good and r.memory or r)
  end
  tap.ok(peak() - before < 1e6, "the search needs less than 1 GB", peak() - before)
end
tap.done()
