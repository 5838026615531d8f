-- kills.lua - kills workers at random moments during training; checks the results' bits, and times detection and
-- recovery.
--
--   rille launch -n 4 -d cpu:1 bench/kills.lua [kills = 200]
--
-- A first run without kills records the training loss of every step. In the run with kills, each loss must have the
-- same bits. The time of detection is from the kill to the error in this script. The time of recovery is from the
-- error to the end of the next step.

local kills = tonumber(arg[1]) or 200
local P = rille.placement("cpu", {0, 1, 2, 3})
local STEPS, EVERY = 40, 5

local function trainer()
  rille.manual_seed(7)
  local net = rille.nn.Sequential(rille.nn.Linear(32, 64), rille.nn.GELU(), rille.nn.Linear(64, 8))
  net:to_global{placement = P, sbp = "B"}
  local opt = rille.optim.AdamW(net:parameters(), {lr = 1e-2})
  local y = rille.randint(0, 8, {16}, {placement = P, sbp = "S(0)"})
  return rille.graph(function(x)
    local loss = net(x):cross_entropy(y)
    loss:backward(); opt:step(); opt:zero_grad()
    return loss
  end)
end

local function batch() return rille.randn({16, 32}, {placement = P, sbp = "S(0)"}) end
local function text(loss) return ("%a"):format(loss:item()) end
local function now() -- returns the wall-clock time as the process that kills prints it
  local p <close> = io.popen("date +%s.%N")
  return p:read("n")
end

local want, step = {}, trainer()
for i = 1, STEPS do want[i] = text(step(batch())) end

local function kill_soon(pid, file)
  os.execute(("(sleep %.4f; date +%%s.%%N > %s; kill -9 %d) >/dev/null 2>&1 &"):format(math.random() * 0.08, file, pid))
end

local function killed_at(file)
  local f <close> = io.open(file)
  return f and f:read("n")
end

local function percentile(list, p)
  table.sort(list)
  return list[math.max(1, math.ceil(#list * p))] * 1e3
end

math.randomseed(11)
local file, wrong, found, gone_on = os.tmpname(), 0, {}, {}
while #found < kills do
  step = trainer()
  rille.snapshot{step = 0}
  local i, armed, failed = 0, false, nil
  while i < STEPS or armed do
    local good, err = pcall(function()
      if not armed and #found < kills and i < STEPS then
        local workers = rille.workers()
        kill_soon(workers[math.random(#workers)].pid, file)
        armed = true
      end
      local loss = text(step(batch()))
      if i < STEPS then
        i = i + 1
        if loss ~= want[i] then wrong = wrong + 1 end
      end
      if failed then gone_on[#gone_on + 1], failed = now() - failed, nil end
      if i % EVERY == 0 and i < STEPS then rille.snapshot{step = i} end
    end)
    if not good then
      if not rille.is_lost(err) then error(err, 0) end
      failed, armed = now(), false
      found[#found + 1] = failed - killed_at(file)
      i = rille.recover().step
    end
  end
end
os.remove(file)
print(("%d kills, %d wrong losses"):format(#found, wrong))
print(("detection  p50 %7.1f ms  p99 %7.1f ms"):format(percentile(found, 0.5), percentile(found, 0.99)))
print(("recovery   p50 %7.1f ms  p99 %7.1f ms"):format(percentile(gone_on, 0.5), percentile(gone_on, 0.99)))
if wrong > 0 then os.exit(1) end
