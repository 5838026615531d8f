local P = rille.placement("cpu", {0, 1, 2, 3})
rille.manual_seed(5)
local x = rille.randn({1500, 1400}, {placement = P, sbp = "S(0)"})
for _ = 1, 3 do
  x = (x:to_global{placement = P, sbp = "S(1)"} * 1.5):to_global{placement = P, sbp = "S(0)"}
  x = (x + x:to_global{placement = P, sbp = "B"}) * 0.25
end
print(("%a"):format(x:sum():item()))
