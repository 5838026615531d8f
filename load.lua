local T = dofile("net.lua")
for i = 3, #arg do
  T.new(2, arg[1], tonumber(arg[2]))
  T.step()
  local step = rille.checkpoint.load(arg[i], T.parts)
  print(arg[i], step, T.digest())
end
