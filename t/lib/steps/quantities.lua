-- quantities.lua - measures the processes of a job, for tests that look for leaks (t/lib/steps/endure.lua,
-- bench/endurance.lua). Returns a table: own: pid of this process; processes(): pids by process name; measure():
-- quantities by their names, which end in the unit; rises(): compares two measurements.

-- largest increase that is no leak. kB: memory; ms: processor time, which also depends on other programs of the
-- machine
local SLACK <const> = {kB = 64, ms = 20}
local SLOWER <const> = 1.15 -- largest ratio of the processor times of equal work that is no leak

local function number_from(command)
  local pipe = io.popen(command)
  local n = pipe:read("n")
  pipe:close()
  return n
end

-- Returns the kB of a process's own memory. Pages of its program file do not count, because the system loads and
-- drops them as it likes.
local function private_kb(pid)
  local sum = 0
  for line in io.lines("/proc/" .. pid .. "/smaps_rollup") do
    sum = sum + (tonumber(line:match("^Anonymous:%s+(%d+)") or line:match("^Swap:%s+(%d+)")) or 0)
  end
  return sum
end

local function thread_count(pid)
  for line in io.lines("/proc/" .. pid .. "/status") do
    local n = line:match("^Threads:%s+(%d+)")
    if n then return tonumber(n) end
  end
end

local function mapping_count(pid)
  local n = 0
  for _ in io.lines("/proc/" .. pid .. "/maps") do n = n + 1 end
  return n
end

-- Returns the kB of all shared memory files that the job's processes have open.
local function shared_kb(pids)
  local folders, sum = "", 0
  for _, pid in pairs(pids) do folders = ("%s /proc/%d/fd"):format(folders, pid) end
  local pipe <close> = io.popen(("find%s -lname '/memfd:*' -exec stat -Lc '%%i %%b' {} + 2>&1 | sort -u"):format(folders))
  for blocks in pipe:read("a"):gmatch("%d+ (%d+)") do sum = sum + blocks // 2 end
  return sum
end

local own = io.open("/proc/self/stat"):read("n")

local function processes()
  local pids = {controller = own}
  for _, w in ipairs(rille.workers()) do
    if w.pid ~= own then pids["worker " .. w.rank] = w.pid end
  end
  return pids
end

-- Returns the quantities of all processes of the job, by process name.
local function measure()
  collectgarbage()
  collectgarbage()
  local now, pids = {}, processes()
  for who, pid in pairs(pids) do
    now[who .. ": private kB"] = private_kb(pid)
    now[who .. ": threads"] = thread_count(pid)
    now[who .. ": mappings"] = mapping_count(pid)
    now[who .. ": descriptors"] = number_from(("ls /proc/%d/fd | wc -l"):format(pid))
  end
  now["shared memory kB"] = shared_kb(pids)
  return now
end

-- Returns true if a quantity has risen from `before` to `now` by more than its slack. before: nil: not measured.
local function rises(key, before, now)
  if not before then return false end
  local unit = key:match("%a+$")
  return now > before * (unit == "ms" and SLOWER or 1) + (SLACK[unit] or 0)
end

return {own = own, processes = processes, measure = measure, rises = rises}
