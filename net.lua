local T = {}
function T.new(seed, sbp, n)
  local ranks = {}
  for r = 0, n - 1 do ranks[#ranks + 1] = r end
  local P, nn = rille.placement("cpu", ranks), rille.nn
  rille.manual_seed(seed)
  local net = nn.Sequential(nn.Linear(13, 9), nn.Linear(9, 700), nn.LayerNorm(700))
  net:to_global{placement = P, sbp = "B"}
  net[1].weight:to_global_{placement = P, sbp = sbp}
  net[2].weight:to_global_{placement = P, sbp = sbp == "S(0)" and "S(1)" or "S(0)"}
  T.opt = rille.optim.AdamW(net:parameters(), {lr = 1e-3})
  T.net, T.parts = net, {model = net, optimizer = T.opt}
  function T.step()
    local loss = net(rille.ones({4, 13}, {placement = P, sbp = "B"})):pow(2):mean()
    loss:backward(); T.opt:step(); T.opt:zero_grad()
  end
end
function T.digest() -- of every bit, whatever the layout
  local h = 0
  local function add(t)
    for _, v in ipairs(t:reshape{t:numel()}:totable()) do h = (h * 31 + string.unpack("<i8", string.pack("<d", v))) % 0xfffffffb end
  end
  for i, p in ipairs(T.net:parameters()) do
    add(p)
    for _, slot in ipairs{"m", "v"} do if T.opt.slots[i][slot] then add(T.opt.slots[i][slot]) end end
  end
  return ("%08x"):format(h)
end
return T
