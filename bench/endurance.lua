-- endurance.lua - the training of endurance.sh.
--
--   endurance.lua train SECONDS FOLDER FORWARDER    with faults, for a time; in a job of three workers
--   endurance.lua steps N FOLDER                    N steps without faults, in one process with three devices
--
-- Both save the weights in FOLDER. FORWARDER is the pid of the program that forwards the packets of worker 1. The
-- training measures the job's processes at four times, and fails after ten minutes or more if a quantity rises three
-- times. The controller and worker 0 are never killed.

local what, amount, folder, forwarder = arg[1], tonumber(arg[2]), arg[3], arg[4]
local quantities = dofile("t/lib/steps/quantities.lua")
local P = rille.placement("cpu", {0, 1, 2})
local EVERY <const> = 50 -- steps from one snapshot to the next
local GAP <const> = 5 -- longest time from one fault to the next, s
local SETTLED <const> = 600 -- shortest training, s, whose growth is judged, because caches fill at first

rille.manual_seed(7)
local net = rille.nn.Sequential(rille.nn.Linear(32, 66), rille.nn.GELU(), rille.nn.Linear(66, 8))
net:to_global{placement = P, sbp = "B"}
local opt = rille.optim.AdamW(net:parameters(), {lr = 1e-3})
local y = rille.randint(0, 8, {12}, {placement = P, sbp = "S(0)"})
local step = rille.graph(function(x)
  local loss = net(x):cross_entropy(y)
  loss:backward(); opt:step(); opt:zero_grad()
  return loss
end)
local function train() return step(rille.randn({12, 32}, {placement = P, sbp = "S(0)"})):item() end
for _ = 1, 1000 do train() end -- fills caches

if what == "steps" then
  for _ = 1, amount do train() end
  rille.save(folder .. "/undisturbed.safetensors", net)
  return
end

-- ---- disturbing the job by faults ----

math.randomseed(os.time())
local seen = 0
function visited() seen = seen + 1 end

local function pid_of(rank) return rille.workers()[rank + 1].pid end
local function behind(command, ...) os.execute(("(%s) >>%s/faults 2>&1 &"):format(command:format(...), folder)) end
local function pause(pid) behind("kill -STOP %d; sleep %.2f; kill -CONT %d", pid, 0.1 + 2 * math.random(), pid) end
local rille_path = os.getenv("RILLE")
local faults = {
  {"kills of a worker", function() behind("kill -KILL %d", pid_of(math.random(2))) end},
  {"pauses of a worker", function() pause(pid_of(math.random(0, 2))) end},
  {"pauses of the forwarder", function() pause(forwarder) end},
  {"cut connections of all workers", function() behind("perl t/lib/cut.pl 1 %d %d %d", pid_of(0), pid_of(1), pid_of(2)) end},
  {"attached prompts", function() behind("echo 'visited()' | %s attach %d", rille_path, quantities.own) end},
  {"status requests", function() behind("%s status %d", rille_path, quantities.own) end},
}

-- ---- the training ----

local began, next_fault = os.time(), os.time() + 1
local reasons, rose, before, first = {}, {}, nil, nil -- reasons: number of losses by reason
local moments = {amount // 4, amount // 2, 3 * amount // 4, amount}
local count = {}

local function disturb()
  if os.time() < next_fault or os.time() > began + amount then return end
  local f = faults[math.random(#faults)]
  f[2]()
  count[f[1]] = (count[f[1]] or 0) + 1
  next_fault = os.time() + math.random(GAP)
end

-- Measures all processes at the next of the four moments. The quantities of workers 1 and 2 do not count, because
-- these workers are killed and started again; the shared memory of the job does.
local function measure()
  if not moments[1] or os.time() < began + moments[1] then return end
  local now = quantities.measure()
  table.remove(moments, 1)
  for key, value in pairs(now) do
    if key:find("^worker [12]") then goto continue end
    print(("%5d s  %-28s %8d"):format(os.time() - began, key, value))
    if before and amount >= SETTLED and quantities.rises(key, before[key], value) then rose[key] = (rose[key] or 0) + 1 end
    ::continue::
  end
  first, before = first or now, now
end

local i = 0
rille.snapshot{step = 0}
while os.time() < began + amount or #moments > 0 do
  local good, err = pcall(function()
    disturb()
    train()
    i = i + 1
    if i % EVERY == 0 then rille.snapshot{step = i} end
    measure()
    os.execute("sleep 0.03") -- leaves the machine to others
  end)
  if not good then
    if not rille.is_lost(err) then error(err, 0) end
    local why = tostring(err):match("%(.-%) (.*)") or tostring(err)
    reasons[why] = (reasons[why] or 0) + 1
    i = rille.recover().step
  end
end

rille.save(folder .. "/disturbed.safetensors", net)
for _, f in ipairs(faults) do print(("%8d %s"):format(count[f[1]] or 0, f[1])) end
print(("%8d lines of attached prompts"):format(seen))
for why, times in pairs(reasons) do print(("%8d recoveries: a worker %s"):format(times, why)) end
local file <close> = io.open(folder .. "/steps", "w")
file:write(i, "\n")
local grown = false
for key, times in pairs(rose) do
  grown = grown or times == 3
  if times == 3 then print(("%s grows: from %d to %d"):format(key, first[key], before[key])) end
end
if grown then os.exit(1) end
