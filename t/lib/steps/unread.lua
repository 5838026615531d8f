-- unread.lua - checks that a training gives the same values if its losses are read late instead of at once. It runs
-- on one device: a network with dropout, a changing learning rate, batches from the host, reads of earlier losses,
-- and a file saved during training. Also checks that the reported times of a step are measured on the device.
--
--   rille -d async:1 t/lib/steps/unread.lua [KIND]        prints ok, or raises

local tap = dofile("t/lib/tap.lua")
local nn <const>, STEPS <const> = rille.nn, 25
local at <const> = {placement = rille.placement(arg[1] or "async", {0}), sbp = "B"}

local function train(waits, path)
  rille.manual_seed(3)
  local net = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Dropout(0.3), nn.Linear(16, 5)):to_global(at)
  local opt = rille.optim.AdamW(net:parameters(), {lr = 0.05})
  local step = tap.training(opt, function(x, labels) return net(x):cross_entropy(labels) end)
  local losses, said = {}, {}
  for i = 1, STEPS do
    opt.lr = 0.05 / i
    local rows = tap.rows(12, 6, function(r, c) return (r * c + i) % 11 - 5 end)
    local labels = tap.list(12, function(r) return (r * 7 + i) % 5 end)
    losses[i] = step(rille.tensor(rows, {dtype = "f32"}):to_global(at), rille.tensor(labels, {dtype = "i64"}):to_global(at))
    if waits then losses[i]:item() end
    if i % 7 == 0 then said[#said + 1] = ("%a"):format(losses[i - 3]:item()) end
    if i == 11 then rille.save(path, net) end
  end
  said[#said + 1] = ("%a"):format((losses[STEPS] * 2):item()) -- one more run, after the last step
  local stats = step:stats()
  assert(stats.step_time > 0 and stats.devices[1].busy > 0 and stats.devices[1].busy <= stats.step_time,
    ("busy for %g s of %g"):format(stats.devices[1].busy, stats.step_time))
  for _, loss in ipairs(losses) do said[#said + 1] = ("%a"):format(loss:item()) end
  for _, p in ipairs(net:parameters()) do said[#said + 1] = ("%a"):format(p:to("f64"):sum():item()) end
  net:load(path)
  for _, p in ipairs(net:parameters()) do said[#said + 1] = ("%a"):format(p:to("f64"):sum():item()) end
  return table.concat(said, " ")
end

local path <const> = os.tmpname() .. ".safetensors"
local waited, unread = train(true, path), train(false, path)
os.remove(path)
assert(waited == unread, waited .. "\n" .. unread)
print("ok")
