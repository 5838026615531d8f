local x = rille.full({2, 1 << 12}, 1, {placement = rille.placement("cpu", {0, 1}), sbp = "S(0)"})
rille.snapshot{1}
os.execute("kill -STOP " .. rille.workers()[2].pid)
local good, err = pcall(rille.snapshot, {2})
print(good or rille.is_lost(err) and tostring(err):match("snapshot: (.+)") ~= nil)
