local _, _, step, batch = dofile "small.lua"
local pids <close> = assert(io.open("pids", "w"))
for _, w in ipairs(rille.workers()) do pids:write(w.pid, "\n") end
pids:flush()
for i = 1, 1000 do
  if i == 5 then os.execute("kill -9 " .. rille.workers()[3].pid) end
  step(batch()):item()
end
