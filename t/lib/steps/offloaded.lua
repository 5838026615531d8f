-- offloaded.lua COMPUTES HOLDS [ASIDE]: trains a network for three steps on two devices of kind COMPUTES. With ASIDE,
-- saved activations and the optimiser's state are stored on two devices of kind HOLDS. Prints losses and parameters
-- bit by bit.
local nn, optim = rille.nn, rille.optim
local computes, holds, storage = arg[1], arg[2], arg[3]

local function trained(devices, others, pieces, zero)
  rille.manual_seed(4)
  local P, layers = rille.placement(computes, devices), {}
  for i = 1, 4 do layers[2 * i - 1], layers[2 * i] = nn.Linear(16, 16), nn.GELU() end
  local net = nn.Sequential(table.unpack(layers))
  net:to_global{placement = P, sbp = "B"}
  local opt = optim.AdamW(net:parameters(), {lr = 0.01})
  local step = dofile("t/lib/tap.lua").training(opt, function(x) return net(x):square():mean() end,
    {micro_batches = pieces, zero = zero, offload = storage and rille.placement(holds, others) or nil})
  local x = rille.randn({16, 16}, {placement = P, sbp = "S(0)"})
  for _ = 1, 3 do print(("%a"):format(step(x):item())) end
  for _, p in ipairs(net:parameters()) do print(("%a"):format(p:square():sum():item())) end
end

for _, pieces in ipairs{1, 4} do
  for _, zero in ipairs{0, 2} do
    trained({0, 1}, {2, 3}, pieces, zero)
    -- devices of different processes, if the job has two or four processes
    trained({0, 2}, {1, 3}, pieces, zero)
  end
end
