local P = rille.placement("cpu", {0, 1, 2})
local x = rille.ones({3, 8}, {placement = P, sbp = "S(0)"})
rille.snapshot{1}
local pid = rille.workers()[3].pid
os.execute("kill -STOP " .. pid)
local good, err = pcall(function() for _ = 1, 1e6 do (x * 2):sum():item() end end)
assert(not good and rille.is_lost(err), err)
local note, file = rille.recover{workers = 2}, io.open(("/proc/%d/stat"):format(pid))
print(note[1], (x * 2):sum():item(), #rille.workers(), not file or (file:read("a") or ""):match("%) (%a)") ~= "T") -- gone, or about to
