local P = rille.placement("cpu", {0, 1, 2, 3, 4, 5})
local b = rille.randn({300, 100}, {placement = P, sbp = "B"})
local x = rille.randn({72, 8}, {placement = P, sbp = "S(0)"})
local y = x:to_global{placement = P, sbp = "S(1)"} -- each speaks to each
local want = {b:sum():item(), x:sum():item(), y:sum():item()}
rille.snapshot{1}
os.execute("kill -9 " .. rille.workers()[4].pid)
assert(not pcall(function() for _ = 1, 1e5 do (x * 2):sum():item() end end))
rille.recover()
print(b:to_global{placement = rille.placement("cpu", {3}), sbp = "B"}:sum():item() == want[1], x:sum():item() == want[2],
      x:to_global{placement = P, sbp = "S(1)"}:sum():item() == want[3])
