local net, _, step, batch = dofile "small.lua"
for _ = 1, 8 do print(("%a"):format(step(batch()):item())) end
print(net.weight:sum():item())
