rille.snapshot{1}
local x = rille.ones({4}, {placement = rille.placement("cpu", {2})})
x:sum():item()
os.execute("kill -9 " .. rille.workers()[1].pid)
repeat os.execute("sleep 0.05") until rille.workers()[1].state == "lost"
pcall(rille.snapshot, {2})
local value = x:totable()[4]
rille.recover()
print(value, x:sum():item(), #rille.workers())
