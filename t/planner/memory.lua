-- Tests of what a planner counts of memory (actors/plan/assign/assign.c, actors/session/planner/fit.c) on real programs: what it says a device
-- takes is what the plan holds, and the least that it tells is met by a plan. SEED draws which of the programs in which layouts,
-- pieces and schedules; RILLE_LONG=1 takes all.
local tap = dofile("t/lib/tap.lua")
local rille = require "rille"
local programs, hints, lay = dofile("t/lib/layouts.lua")
local ROWS <const> = 64
local SEED <const>, ALL <const> = tonumber(os.getenv("SEED") or 1), os.getenv("RILLE_LONG")
local some <const> = not tap.share(1) -- a share draws fewer
print("# SEED=" .. SEED)
math.randomseed(SEED + (tap.which or 0))

local names = {}
for name in pairs(programs) do names[#names + 1] = name end
table.sort(names)

-- So many draws of one from each list; all that there are of them, if all are asked for.
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

local function held_by(step)
  local held = 0
  for _, d in ipairs(step:stats().devices) do held = math.max(held, d.peak_memory) end
  return held
end

-- A training step that nobody has called yet, and what it is called with.
local function step_of(program, hint, options)
  rille.manual_seed(5)
  local net = program[1]()
  lay(net, program, hint)
  local opt = rille.optim.AdamW(net:parameters(), {lr = 0.01})
  options.auto_parallel = true
  local step = rille.graph(function(x, ids, y)
    local loss = net(x, ids):cross_entropy(y)
    loss:backward(); opt:step(); opt:zero_grad()
    return loss
  end, options)
  local at = {placement = hint[1], sbp = hint[2]}
  local x, ids = rille.randn({ROWS, table.unpack(program[2])}, at), rille.randint(0, 24, {ROWS}, at)
  return step, x, ids, rille.randint(0, 8, {ROWS}, at)
end

-- What the fullest device holds, what the planner counted, the scratch memory of kernels in it and in the plan, what is held in the
-- first call, what is said where the same devices are not there; whether that is the same choice.
local function train(program, hint, limit, seconds)
  local step, x, ids, y = step_of(program, hint, {time_limit = seconds or limit and 1 or 0.3, memory_limit = limit})
  step(x, ids, y)
  local first, scratch = held_by(step), 0
  step(x, ids, y)
  for bytes in tostring(step:plan{physical = true}):gmatch("scratch at %d+ %+ (%d+) B") do scratch = math.max(scratch, tonumber(bytes)) end
  local told, mesh = step:explain(), type(hint[2]) == "table" and {2, 2} or {4}
  local far = rille.whatif(step, {mesh = mesh})
  return held_by(step), told.memory, told.scratch, scratch, first, far, far.cost == told.cost, told.cost
end

-- What is counted of scratch memory is what the plan has, exactly; whatif on the step's own mesh begins with the step's choice, and
-- tells what its plan holds.
local KEPT <const> = {moe = 16 * 4 * 4} -- the balance that a mixture keeps of its trace reads the router as it was
local alike, tried = 0, drawn(some and 2 or 5, {"dp", "tp", "dp x tp", "fsdp", "free"}, names)
for _, draw in ipairs(tried) do
  local name, how = table.unpack(draw)
  local held, memory, told, scratch, first, far, same, cost = train(programs[name], hints[how])
  tap.is(memory, held, ("%s, %s: what is told is what is held"):format(name, how))
  tap.is(told, scratch, ("%s, %s: the scratch memory of its kernels is in it"):format(name, how))
  tap.ok(far.cost <= cost, ("%s, %s: whatif's plan costs no more, %d ns"):format(name, how, cost), far.cost)
  if same then tap.is({far.memory, far.scratch}, {held, scratch}, ("%s, %s: and holds what the step does"):format(name, how)) end
  alike = alike + (same and 1 or 0)
  tap.ok(first >= held and first <= held + (KEPT[name] or 0),
    ("%s, %s: the first call holds what others hold, %d bytes"):format(name, how, held), first)
end

tap.ok(alike >= #tried // 2, "that is compared where both choose the same, as most do", alike)

-- In pieces a value that backward reads has a register for each piece that is on its way, by the schedule: of all but one piece
-- from the first operator to the last. So has a copy that both phases read. A sum over pieces is there from the first one on, and
-- what is made once until the last one is through.
for _, draw in ipairs(drawn(some and 2 or 8, {"gpipe", "1f1b"}, {2, 4, 8}, {"dp", "tp", "dp x tp", "fsdp", "free"}, names)) do
  local name, how, pieces, schedule = table.unpack(draw)
  local step, x, ids, y = step_of(programs[name], hints[how], {time_limit = 0.1, micro_batches = pieces, schedule = schedule})
  local good, why = pcall(step, x, ids, y)
  local held, told = good and held_by(step), good and step:explain().memory
  tap.ok(good and held - told >= 0 and held - told <= (KEPT[name] or 0),
    ("%s, %s, %d pieces by %s: told are %s bytes, the first call holds %s"):format(name, how, pieces, schedule, told, held), why)
  local mesh = type(hints[how][2]) == "table" and {2, 2} or {4}
  local far = good and rille.whatif(step, {mesh = mesh})
  tap.ok(good and (far.cost < step:explain().cost or far.memory == told),
    ("%s, %s, %d pieces by %s: whatif tells as much"):format(name, how, pieces, schedule), far and far.memory)
  local within = good and rille.whatif(step, {mesh = mesh, memory = {told}})[1]
  tap.ok(within and within.memory <= told and within.cost <= step:explain().cost,
    ("%s, %s, %d pieces by %s: and so within a limit of as much"):format(name, how, pieces, schedule), within and within.memory)
end

-- Of what cannot be met the least is told, and met, whatever the clock says.
for _, how in ipairs{"tp", "fsdp"} do
  local held = train(programs.mlp, hints[how])
  local good, why = pcall(train, programs.mlp, hints[how], held // 4)
  local least = not good and math.tointeger(tostring(why):match("found is (%d+)$"))
  tap.ok(least and least < held, ("%s: a quarter of %d bytes is too little, and the least is told"):format(how, held), why)
  local _, soon = pcall(train, programs.mlp, hints[how], held // 4, 1e-9)
  tap.is(math.tointeger(tostring(soon):match("found is (%d+)$")), least, how .. ": the same least in no time")
  local again, _, _, _, first = train(programs.mlp, hints[how], least)
  tap.ok(math.max(again, first) <= least, ("%s: with the least, %d bytes, there is a plan of %d"):format(how, least, again))
end
-- A norm over columns that are cut is written in parts, which move less and hold more: where they hold too much it is written in
-- one piece, and the least that is told is that of either.
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
  local least = not good and math.tointeger(tostring(why):match("found is (%d+)$"))
  tap.ok(least and norm(least) <= least, "a norm in one piece, if parts hold too much, holds the least that is told", why)
  tap.ok(least and least <= norm(), "which is no more than what the plan without a limit holds", least)
end
tap.done()
