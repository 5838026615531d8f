local T = dofile("net.lua")
T.new(1, "S(1)", 4)
T.step()
T.parts.step = 9
for _ = 1, 2 do rille.checkpoint.save(arg[1], T.parts, {keep = 2}) end
T.parts.step = nil
local path = arg[1] .. "/checkpoint-00000004-step-9.1.shard"
local file = io.open(path, "r+b")
file:seek("set", 300); file:write("\255\1\255"); file:close()
print(pcall(rille.checkpoint.load, arg[1], T.parts))
print(rille.checkpoint.load(arg[1], T.parts, {fallback = true}))
