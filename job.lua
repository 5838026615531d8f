local folder, own, saves, go = arg[1], tonumber(arg[2]), tonumber(arg[3]), arg[4]
local P = rille.placement("cpu", {0, 1})
local net = rille.nn.Linear(300, 200):to_global{placement = P, sbp = "S(0)"}
for _, p in ipairs(net:parameters()) do p:fill_(own) end
for i = 1, saves do
  rille.checkpoint.save(folder, {model = net, step = i, note = own}, {async = i % 2 == 0})
  if i == 1 then io.stdout:write("saved by ", own, "\n") io.stdout:flush() end
  while i == 1 and go and not io.open(go) do os.execute("sleep 0.05") end
end
