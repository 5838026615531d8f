local net, opt, step, batch = dofile "small.lua"
for i = 1, 400 do
  step(batch()):item()
  if i % 5 == 0 then rille.snapshot{i} end
end
