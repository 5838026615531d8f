-- endure.lua - calls each feature COUNT times and checks that no process of the job grows (a leak test). Run by
-- t/hostile/endurance.sh:
--
--   rille -d cpu:2 endure.lua COUNT [NAME...]          one process
--   ENDURE_JOB=1 rille launch -n 2 -d cpu:1 endure.lua COUNT        controller and workers
--
-- The test calls a feature in four rounds of COUNT / 4 calls. The feature leaks if a quantity rises in each of the
-- last three rounds by more than its slack. (A cache stops growing when it is full, a leak does not.) The test
-- measures only the job's own processes, because other programs of the machine run at the same time. Field `few` of a
-- feature divides its number of calls, if it is slow; `caches` is the size in kB of caches that fill slowly. SHARE
-- selects features. Prints TAP.

local tap = dofile("t/lib/tap.lua")
local quantities = dofile("t/lib/steps/quantities.lua")
local processes, own = quantities.processes, quantities.own
local folder = os.getenv("ENDURE_FOLDER")
local count <const> = tonumber(arg[1])

if tap.sanitized() then
  tap.ok(true, "no process grows # SKIP a sanitizer keeps freed memory")
  tap.done()
end

-- ---- measuring processor time ----

-- Returns the processor time of all threads of a process, ms.
local function cpu_ms(pid)
  local file <close> = io.open("/proc/" .. pid .. "/stat")
  local user, system = file:read("a"):match("%) %S" .. (" %S+"):rep(10) .. " (%d+) (%d+)")
  return 10 * (user + system)
end

-- Returns the processor time, ms, by process name. Only processes count that existed at the earlier measurement
-- `before` and still exist, because a recovery replaces processes.
local function times(before)
  local now = {}
  for who, pid in pairs(processes()) do
    now[who] = {pid = pid, ms = cpu_ms(pid)}
    local was = before and before[who]
    if was and was.pid == pid then now[who].spent = now[who].ms - was.ms end
  end
  return now
end

-- ---- features ----

local P = rille.placement("cpu", {0, 1})
local net = rille.nn.Sequential(rille.nn.Linear(16, 32), rille.nn.Linear(32, 4))
net:to_global{placement = P, sbp = "B"}
local opt = rille.optim.AdamW(net:parameters(), {lr = 1e-3})
local function batch(n) return rille.ones({n or 8, 16}, {placement = P, sbp = "S(0)"}) end
local function path(name) return folder .. "/" .. name end

local function train(n) return tap_update(opt, net(batch(n)):pow(2):mean()) end
local step = rille.graph(train)
step(8)
local parts = {model = net, optimizer = opt}

local function write(name, text)
  local f <close> = assert(io.open(path(name), "wb"))
  f:write(text)
end
write("table.csv", ("1,2,3\n"):rep(32))
write("text.txt", ("a text of some words\n"):rep(32))
write("bad.safetensors", "\8\0\0\0\0\0\0\0{\"a\": 1}")
local tokens = rille.data.tokens((function()
  return tap.list(400, function(i) return i % 50 end)
end)(), {batch = 2, length = 8, seed = 1})

local function fails(f, ...) assert(not pcall(f, ...)) end

local guard
local facility = {
  {"eager calls", function(i) return (rille.randn{4, 4} * i):sum():item() end},
  {"eager training", function() return train():item() end},
  {"compiled steps", function() return step(8):item() end},
  {"snapshots", function(i) train(); rille.snapshot{step = i} end},
  {"snapshots that keep two", function(i) train(); rille.snapshot({step = i}, {keep = 2}) end},
  {"snapshots of a new batch", function(i) local x = rille.randn{64, 64}; x:sum():item(); rille.snapshot{step = i} end},
  {"comparisons of replicas", function(i) train(); guard = guard or rille.train.replicas{every = 1, step = i - 1}; guard:after(i) end},
  {"recoveries", function() rille.snapshot(); train():item(); rille.recover() end},
  {"files", function(i)
    for _, name in ipairs{"a.safetensors", "a.npy", "shards"} do
      local t = rille.ones({8, 8}, {placement = P, sbp = "S(0)"})
      rille.save(path(name), name == "a.npy" and t or {t = t}, name == "shards" and {max_shard_size = "1KB"} or nil)
      rille.load(path(name))
    end
    rille.save(path("net.safetensors"), net)
    net:load(path("net.safetensors"))
  end, few = 4},
  {"checkpoints", function(i) rille.checkpoint.save(path("checkpoint"), parts, {keep = 2}); rille.checkpoint.load(path("checkpoint"), parts) end, few = 4},
  {"asynchronous checkpoints", function(i)
    train():item()
    rille.checkpoint.save(path("async"), parts, {async = true, keep = 2})
    train():item()
  end, few = 4},
  {"asynchronous checkpoints that stay", function()
    train():item()
    rille.checkpoint.save(path("stay"), {model = net}, {async = true})
  end, few = 4},
  {"stats and traces", function() step(8); step:stats(); step:trace(path("trace.json")); return step:plan() end},
  {"pictures and charts", function() step(8); step:show(path("step.svg")); return step:chart(), step:actors() end, few = 4},
  {"explanations", function() tostring(step:explain()); return tostring(rille.explain(net(batch()))) end},
  {"printed tensors", function() return tostring(net(batch())), tostring(net), tostring(step), rille.devices() end},
  {"counters and workers", function() return rille.counters(), rille.workers() end},
  {"errors of shapes", function() fails(function() return rille.ones{2, 3}:matmul(rille.ones{4, 5}) end) end},
  {"errors of data", function() fails(function() return rille.tensor{1, 9}:cast("i64"):one_hot(3):sum():item() end) end},
  {"errors of steps", function() fails(rille.graph(function(x) return x:item() end), rille.ones{2}) end},
  {"errors of files", function() fails(rille.load, path("bad.safetensors")); fails(rille.load, path("none")) end},
  {"interrupts", function()
    local big = rille.ones{64, 64}
    local ok, why = pcall(function()
      io.popen("kill -INT " .. own):close()
      for _ = 1, 1e5 do big:matmul(big):sum():item() end
    end)
    rille._forget_presses()
    assert(not ok and tostring(why):find("interrupted"), why)
  end},
  {"steps of a new function", function(i) return rille.graph(function(x) return x * 2 + 1 end)(rille.ones{4}):sum():item() end},
  {"planned steps", function(i)
    local planned = rille.graph(function(x) return x:matmul(x):sum() end, {auto_parallel = true})
    return planned(rille.ones({8, 8}, {placement = P, sbp = "B"})):item()
  end},
  {"new shapes", function(i) return step(2 * (i % 3000 + 5)):item() end, caches = 96 << 10},
  {"new shapes in eager calls", function(i) return (rille.ones{i % 20000 + 1} + 1):sum():item() end, caches = 128 << 10},
  {"batches of tokens", function() return (tokens:next()):sum():item() end},
  {"sources of tokens", function()
    local data <close> = rille.data.tokens({1, 2, 3, 4, 5, 6, 7, 8, 9}, {batch = 1, length = 4})
    return data:next()
  end},
  {"loaders", function()
    for x in rille.data.loader{rille.ones{8, 2}, rille.ones{8}, batch = 4, shuffle = true, seed = 1} do x:sum():item() end
  end},
  {"tables and texts", function() return rille.data.csv(path("table.csv")), rille.data.text(path("text.txt")) end},
  {"relayouts", function(i) net[1].weight:to_global_{placement = P, sbp = i % 2 == 0 and "S(0)" or "B"}; train():item() end},
}

-- ---- features of a job of several processes ----

-- Calls work() until it fails because the worker died. Then recovers the worker.
local function lose_worker(work)
  io.popen("kill -KILL " .. rille.workers()[1].pid):close()
  local ok, why = pcall(function()
    while true do work() end
  end)
  assert(not ok and rille.is_lost(why), why)
  rille.recover()
end

local lines = 0 -- number of lines that attached prompts have typed
function visited() lines = lines + 1 end

local clustered = {
  {"lost workers", function(i) train(); rille.snapshot{step = i}; lose_worker(train) end, few = 50},
  {"lost workers in a compiled step", function(i) step(8); rille.snapshot{step = i}; lose_worker(function() step(8) end) end,
    few = 50},
  {"visitors", function()
    local before = lines
    os.execute(("echo 'visited()' | %s attach %s >%s 2>&1 &"):format(os.getenv("ENDURE_RILLE"), arg[0]:match("[^/]+$"), path("visit")))
    while lines == before do end
  end, few = 10},
  {"status", function()
    assert(os.execute(("%s status %s >%s"):format(os.getenv("ENDURE_RILLE"), arg[0]:match("[^/]+$"), path("status"))))
  end, few = 10},
}
if os.getenv("ENDURE_JOB") then table.move(clustered, 1, #clustered, #facility + 1, facility) end

-- ---- rounds ----

local function call(f, made, n)
  for i = made + 1, made + n do f[2](i) end
end

-- Calls the feature n more times, after `made` earlier calls. Returns the quantities afterwards, and the processor
-- time of these calls.
local function measured(f, made, n)
  local before = times()
  call(f, made, n)
  local spent = times(before)
  local now = quantities.measure()
  for who, time in pairs(spent) do now[who .. ": processor time, ms"] = time.spent end
  return now
end

local MAPPINGS <const> = 64 -- number of blocks of a cache that malloc maps one by one

local function endure(f, total)
  local n = math.max(1, total // (f.few or 1) // 4)
  local first, rose = measured(f, 0, n), {}
  local before = first
  for round = 1, 3 do
    local now = measured(f, round * n, n)
    for key, value in pairs(now) do
      if quantities.rises(key, before[key], value) then rose[key] = (rose[key] or 0) + 1 end
    end
    before = now
  end
  local grown = {}
  for key, count_of in pairs(rose) do
    local most = f.caches and (key:find("kB") and f.caches or key:find("mappings") and MAPPINGS) or -1
    if count_of == 3 and before[key] - first[key] > most then
      grown[#grown + 1] = ("%s: from %d to %d in %d calls"):format(key, first[key], before[key], 3 * n)
    end
  end
  return table.concat(grown, "\n")
end

-- ---- features that leak on purpose ----

-- Features that leak one quantity each, to show that the test finds a leak. job: true if the leak needs workers,
-- false if it needs a single process; nil: either.
local kept = {}
local function keep(value) kept[#kept + 1] = value end
local leak = {
  {"private kB", function(i) keep(("leak"):rep(4000 + i)) end},
  {"descriptors", function() keep(io.open("/dev/null")) end},
  {"shared memory kB", function(i) local x = rille.ones({64, 64}, {placement = P}) * i; x:sum():item(); keep(x) end, job = true},
  {"processor time, ms", function(i) for _ = 1, 300 * i * i do own = own + 0 end end, job = false},
}

local only = {}
for i = 2, #arg do only[arg[i]] = true end
for _ = 1, 500 do train():item() end -- fills the list of nodes that the session remembers for explain()
for _, f in ipairs(leak) do
  if f.job ~= not os.getenv("ENDURE_JOB") and not next(only) then
    tap.ok(endure(f, 100):find(f[1], 1, true), "a leak is found: " .. f[1])
  end
end
kept = {}
for _, f in ipairs(facility) do
  if only[f[1]] or not next(only) and tap.share() then
    tap.group(f[1], function()
      local grown = endure(f, count)
      tap.ok(grown == "", ("%d calls: %s: no process grows"):format(count // (f.few or 1), f[1]), grown)
    end)
  end
end
tap.done()
