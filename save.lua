local T = dofile("net.lua")
T.new(1, arg[2], tonumber(arg[3]))
T.step()
T.parts.step = 7
rille.checkpoint.save(arg[1], T.parts, {async = true})
print(T.digest())
for _ = 1, 3 do T.step() end -- while they are written
