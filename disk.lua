local net = rille.nn.Linear(4, 4)
rille.checkpoint.save("full/c", {model = net, step = 1})
local before = net.weight:sum():item()
local function files() return io.popen("ls full/c"):read("a") end
local had = files()
io.open("full/rest", "w"):write(("x"):rep(1 << 20)) -- as much as there is room for
local wide = rille.nn.Linear(400, 400)
print(pcall(rille.checkpoint.save, "full/c", {model = wide, step = 2}))
print(rille.checkpoint.load("full/c", {model = net}), net.weight:sum():item() == before, files() == had)
