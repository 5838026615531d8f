local P = rille.placement("cpu", {0, 1})
local kinds = {}
for _, sbp in ipairs{"S(0)", "B", "P"} do kinds[#kinds + 1] = rille.ones({4}, {placement = P, sbp = sbp}) end
local result = kinds[1] * 2
result:sum():item()
rille.snapshot()
os.execute("kill -9 " .. rille.workers()[2].pid)
print(pcall(function() for _ = 1, 1e5 do (kinds[1] * 2):sum():item() end end))
rille.recover()
for _, x in ipairs(kinds) do io.write(x:sum():item(), " ") end
print(#rille.workers())
print(pcall(function() return result:sum():item() end))
