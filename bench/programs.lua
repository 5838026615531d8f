-- programs.lua - defines forty training steps with handwritten layouts, for choice.lua and planner.lua.
--
-- Returns a list of entries, and the function make(entry), which returns a step and the step's arguments. An entry is
-- {name, build, placement, what, bytes with a chooser that counts only moves, least known bytes, "<" if these are not
-- proven least, argument, function}.

local rille = require "rille"
local nn, optim = rille.nn, rille.optim

-- ---- setting the layouts of parameters ----

-- Returns a mesh of ranks 0, 1, ... with these sizes.
local function mesh(...)
  local sizes, rank = {...}, -1
  local function build(axis)
    if axis > #sizes then rank = rank + 1 return rank end
    local list = {}
    for k = 1, sizes[axis] do list[k] = build(axis + 1) end
    return list
  end
  return rille.placement("cpu", build(1))
end

-- Returns a layout. entries[i]: SBP entry of mesh axis i, from 1; a mesh axis without an entry gets B.
local function on(placement, entries)
  local sbp = {}
  for axis = 1, #placement.shape do sbp[axis] = entries and entries[axis] or "B" end
  return sbp
end

local function lay(tensor, placement, axis, entry)
  tensor:to_global_{placement = placement, sbp = on(placement, axis and {[axis] = entry})}
end

local function rows(x, placement, axis)
  return x:to_global{placement = placement, sbp = on(placement, axis and {[axis] = "S(0)"})}
end

-- Splits the weight and bias of a linear layer by columns, or by rows.
local function columns(linear, placement, axis)
  lay(linear.weight, placement, axis, "S(0)")
  lay(linear.bias, placement, axis, "S(0)")
end

-- ---- programs: each returns a function and the function's arguments; o.dp, o.tp: mesh axes ----

-- Returns a step that trains parameters to reduce a loss.
local function trained(parameters, loss)
  local opt = optim.AdamW(parameters, {lr = 1e-3})
  return function(...)
    local l = loss(...)
    l:backward()
    opt:step()
    opt:zero_grad()
    return l
  end
end

local function split_all(net, placement, axis)
  for _, p in ipairs(net:parameters()) do lay(p, placement, axis, "S(0)") end
end

local function mlp(placement, o)
  local T, d, classes = o.T or 256, 128, 64
  local net = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d), nn.Linear(d, classes))
  net:to_global{placement = placement, sbp = on(placement)}
  if o.tp then
    columns(net[1], placement, o.tp)
    lay(net[3].weight, placement, o.tp, "S(1)")
  end
  if o.fsdp then split_all(net, placement, o.dp) end
  local step = trained(net:parameters(), function(x, y) return net(x):cross_entropy(y) end)
  return step, rows(rille.randn({T, d}), placement, o.dp), rows(rille.randint(0, classes, {T}), placement, o.dp)
end

local function gpt(placement, o)
  local B, L, d, V = o.B or 4, o.L or 64, o.d or 64, o.V or 256
  local blocks = {}
  for i = 1, 2 do blocks[i] = nn.TransformerBlock(d, 8, {is_causal = false}) end
  local Net = nn.Module:extend("Net")
  function Net:init()
    self.wte, self.blocks = nn.Embedding(V, d), nn.Sequential(table.unpack(blocks))
    self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, V, {bias = false})
  end
  function Net:forward(ids)
    local x = self.wte(ids)
    if o.sp then x = x:to_global{placement = placement, sbp = on(placement, {[o.dp or 0] = o.dp and "S(0)", [o.tp] = "S(1)"})} end
    return self.head(self.norm(self.blocks(x)))
  end
  local net = Net()
  net:to_global{placement = placement, sbp = on(placement)}
  for _, b in ipairs(o.tp and blocks or {}) do
    for _, layer in ipairs{b.attention.q_proj, b.attention.k_proj, b.attention.v_proj, b.fc1} do
      columns(layer, placement, o.tp)
    end
    lay(b.attention.out_proj.weight, placement, o.tp, "S(1)")
    lay(b.fc2.weight, placement, o.tp, "S(1)")
  end
  if o.vocab then
    lay(net.wte.weight, placement, o.tp, "S(0)")
    lay(net.head.weight, placement, o.tp, "S(0)")
  end
  if o.fsdp then split_all(net, placement, o.dp) end
  local step = trained(net:parameters(), function(x, y)
    return net(x):reshape{B * L, V}:cross_entropy(y:reshape{B * L})
  end)
  local function ids() return rows(rille.randint(0, V, {B, L}), placement, o.dp) end
  return step, ids(), ids()
end

-- Returns a step that trains parameters of these shapes and layouts. The loss is the sum of the squares that f
-- returns.
local function small(placement, parameters, argument, f)
  local function leaf(t)
    if t.ids then return rille.randint(0, t.ids, t.shape, {placement = placement, sbp = t.sbp}) end
    return rille.randn(t.shape, {placement = placement, sbp = t.sbp})
  end
  local w = {}
  for i, t in ipairs(parameters) do w[i] = nn.Parameter(leaf(t)) end
  local step = trained(w, function(x)
    local y = f(x, table.unpack(w))
    return (y * y):sum()
  end)
  return step, leaf(argument)
end

local p2, p4, p8, m22, m24 = mesh(2), mesh(4), mesh(8), mesh(2, 2), mesh(2, 4)
local function t(sbp, ...) return {shape = {...}, sbp = sbp} end

local programs = {
  {"mlp dp4", mlp, p4, {dp = 1}, 3359280, 2959920},
  {"mlp tp4", mlp, p4, {tp = 1}, 3641856, 986112},
  {"mlp tp8", mlp, p8, {tp = 1}, 7694848, 2300928},
  {"mlp tp8 T=4096", mlp, p8, {tp = 1, T = 4096}, 35348992, 9673216},
  {"mlp dp x tp 2x2", mlp, m22, {dp = 1, tp = 2}, 1516064, 1515040, "<"},
  {"mlp dp x tp 2x4", mlp, m24, {dp = 1, tp = 2}, 7862848, 2305600, "<"},
  {"mlp fsdp4", mlp, p4, {dp = 1, fsdp = true}, 7037232, 1794864},
  {"gpt dp4", gpt, p4, {dp = 1}, 3188784, 3047472, "<"},
  {"gpt tp2", gpt, p2, {tp = 1}, 3483904, 1390592, "<"},
  {"gpt tp4", gpt, p4, {tp = 1}, 10992384, 3368448, "<"},
  {"gpt tp8", gpt, p8, {tp = 1}, 35379456, 7712768, "<"},
  {"gpt tp4 vocab", gpt, p4, {tp = 1, vocab = true}, 14237184, 3953664, "<"},
  {"gpt dp x tp 2x2", gpt, m22, {dp = 1, tp = 2}, 4683296, 3211312, "<"},
  {"gpt dp x tp 2x4", gpt, m24, {dp = 1, tp = 2}, 26858048, 6889536, "<"},
  {"gpt dp x tp 2x2 vocab", gpt, m22, {dp = 1, tp = 2, vocab = true}, 6461728, 2632736, "<"},
  {"gpt tp4 sp", gpt, p4, {tp = 1, sp = true}, 13499904, 4062720, "<"},
  {"gpt tp4 sp vocab", gpt, p4, {tp = 1, sp = true, vocab = true}, 14335488, 4210176, "<"},
  {"gpt dp x tp 2x2 sp", gpt, m22, {dp = 1, tp = 2, sp = true}, 6585376, 3063840, "<"},
  {"gpt fsdp4", gpt, p4, {dp = 1, fsdp = true}, 14142000, 4265520, "<"},
  {"gpt tp4 B=4 L=256 d=32 V=64", gpt, p4, {tp = 1, L = 256, d = 32, V = 64}, 6969984, 1088256, "<"},
  {"mlp dp4 T=16", mlp, p4, {dp = 1, T = 16}, 3359280, 1772592},
  {"mlp dp8 T=64", mlp, p8, {dp = 1, T = 64}, 7838320, 4637808},
  {"mlp tp4 T=2048", mlp, p4, {tp = 1, T = 2048}, 12003840, 4145664},
  {"gpt dp4 L=8", gpt, p4, {dp = 1, L = 8}, 3188784, 2003760, "<"},
  {"gpt tp4 L=256", gpt, p4, {tp = 1, L = 256}, 16053504, 4314624, "<"},
  {"gpt tp4 sp L=256", gpt, p4, {tp = 1, L = 256, sp = true}, 18906624, 4564992, "<"},
  {"gpt tp4 B=2 L=16 d=128", gpt, p4, {tp = 1, B = 2, L = 16, d = 128}, 5683200, 1642368, "<"},
  {"gpt dp x tp 2x2 vocab L=16 d=128 V=1024", gpt, m22, {dp = 1, tp = 2, L = 16, d = 128, V = 1024, vocab = true}, 7497568, 4909344, "<"},
  {"gpt dp x tp 2x4 vocab L=16 d=128 V=1024", gpt, m24, {dp = 1, tp = 2, L = 16, d = 128, V = 1024, vocab = true}, 19889664, 6608704, "<"},

  {"var over S(0)", small, p4, {t("S(0)", 64, 1024)}, 3158016, 393216, nil, t("S(0)", 64, 1024),
    function(x, w) return (x + w):var{axis = 0} end},
  {"layer_norm over S(1)", small, p4, {t("S(0)", 1024), t("S(0)", 1024), t("S(1)", 64, 1024)}, 442368, 442368, nil,
    t("S(1)", 64, 1024), function(x, w, b, s) return rille.layer_norm(x + s, w, b) end},
  {"softmax over S(1)", small, p4, {t("S(1)", 64, 1024)}, 393216, 393216, nil, t("S(1)", 64, 1024),
    function(x, w) return (x + w):softmax(-1) end},
  {"batch statistics", small, p4, {t("B", 256), t("B", 256), t("S(0)", 512, 256)}, 11031552, 792576, nil,
    t("S(0)", 512, 256), function(x, w, b, s)
      x = x + s
      local c = x - x:mean{axis = 0, keepdim = true}
      return c * ((c * c):mean{axis = 0, keepdim = true} + 1e-5):rsqrt() * w + b
    end},
  {"embedding in split rows, 64 ids", small, p4, {t("S(0)", 1024, 64)}, 98304, 98304, nil, {ids = 1024, shape = {64}, sbp = "B"},
    function(i, w) return rille.embedding(i, w):tanh() end},
  {"embedding in split rows, 2048 ids", small, p4, {t("S(0)", 1024, 64)}, 2359296, 393216, nil,
    {ids = 1024, shape = {2048}, sbp = "B"}, function(i, w) return rille.embedding(i, w):tanh() end},
  {"P + bias + residual, tanh", small, p4, {t("S(0)", 256, 64), t("B", 64), t("B", 128, 64)}, 493056, 197376, nil,
    t("S(1)", 128, 256), function(x, w, b, r) return (x:matmul(w) + b + r):tanh() end},
  {"a P feeds two branches", small, p4, {t("S(0)", 256, 64), t("S(1)", 64, 256), t("S(1)", 64, 256)}, 1867776, 393216, nil,
    t("S(1)", 128, 256), function(x, w, a, c)
      local h = x:matmul(w)
      return h:matmul(a):tanh() + h:matmul(c):tanh()
    end},
  {"P through a product that widens", small, p4, {t("S(0)", 256, 16), t("B", 16, 256)}, 540672, 147456, nil,
    t("S(1)", 128, 256), function(x, w, a) return x:matmul(w):matmul(a):tanh() end},
  {"(S(0), B) + (B, S(0))", small, m22, {t({"S(0)", "B"}, 512, 8)}, 32768, 24576, nil, t({"B", "S(0)"}, 512, 8),
    function(x, w) return (x + w):tanh() end},
  {"a sum of three terms, tp", small, p4, {t("S(1)", 64, 256), t("S(0)", 256, 64)}, 1720320, 196608, nil, t("B", 128, 64),
    function(x, w, v)
      return x:matmul(w):relu():matmul(v) + (x * 2):matmul(w):relu():matmul(v) + x:matmul(w):tanh():matmul(v)
    end},
}

-- Creates the step of an entry. Returns the step function and its arguments.
local function make(e)
  local _, build, placement, what, _, _, _, argument, f = table.unpack(e, 1, 9)
  rille.manual_seed(1)
  return build(placement, what, argument, f)
end

return programs, make
