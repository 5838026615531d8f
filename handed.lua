local ranks = {}
for r = 0, 15 do ranks[#ranks + 1] = r end
local P = rille.placement("cpu", ranks)
rille.manual_seed(3)
local step = rille.graph(function(a, b) return a:matmul(b):to_global{placement = P, sbp = "B"} end)
for _, dtype in ipairs{"bf16", "f32"} do
  local a = rille.randn({67, 512}, {placement = P, sbp = "S(1)", dtype = dtype})
  local b = rille.randn({512, 31}, {placement = P, sbp = "S(0)", dtype = dtype})
  local y = step(a, b)
  print(dtype, ("%a %a %a"):format(y:sum():item(), y[{{0, 1}}]:sum():item(), (y * y):sum():item()))
end
local e, bytes = step:explain(), 0
for _, d in ipairs(step:stats().devices) do bytes = bytes + d.bytes_in end
assert(e.bytes == bytes, ("explain tells of %d bytes, %d came"):format(e.bytes, bytes))
for _, text in ipairs{tostring(step:plan()), tostring(e)} do
  io.stderr:write(" ", text:match("handed on in (%d legs[^,]*)") or "")
end
io.stderr:write("\n")
