local all = {0, 1, 2, 3}
local function same(t, sbp)
  local x = rille.rand({1031, 771}, {placement = rille.placement("cpu", all), sbp = sbp})
  print(sbp, x:sum():item(), x[{{1000, 1031}, {770, 771}}]:sum():item(), x:to_global{placement = rille.placement("cpu", {3})}:max():item())
end
rille.manual_seed(7)
for _, sbp in ipairs{"B", "S(0)", "S(1)"} do same({}, sbp) end
local list = {}
for i = 1, 5000 do list[i] = i % 97 end
local y = rille.tensor(list, {dtype = "i64", placement = rille.placement("cpu", all), sbp = "S(0)"})
y:copy_(y + 1)
print(y:sum():item(), y[4999]:item())
rille.save("values.safetensors", {y = y})
print(rille.load("values.safetensors", {placement = rille.placement("cpu", {2, 1}), sbp = "S(0)"}).y:sum():item())
