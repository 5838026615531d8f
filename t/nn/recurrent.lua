-- recurrent.lua - tests nn.LSTM, nn.GRU, nn.RNN and their cells.
--
-- Values and gradients must be those of PyTorch (t/golden/recurrent.lua, made by recurrent.py). A layer must equal
-- its cell called step by step; f32 must agree with f64, and compiled steps with eager calls. t/parallel/any.lua
-- trains a model with an LSTM by all recipes.
local tap = dofile("t/lib/tap.lua")
local nn = rille.nn
local lengths <const> = {5, 2, 3}
local kinds <const> = {"LSTM", "GRU", "RNN", "RNN relu"}

-- Returns the values that the formula of recurrent.py gives.
local function wave(shape, phase)
  return rille.tensor(tap.list(tap.numel(shape), function(i) return math.sin(0.7 * (i - 1) + phase) * 0.6 end), {dtype = "f64"}):reshape(shape)
end

local function leaf(t, dtype) return t:to(dtype):detach():requires_grad_(true) end
local function set(p, value) rille.no_grad(function() p:copy_(value:to(p.dtype)) end) end

local function two(t)
  local flat = t:reshape{-1}:to("f64")
  return {flat:sum():item(), (flat * wave(flat.shape, 2)):sum():item()}
end

local function make(kind, n_in, hidden, options)
  if kind == "RNN relu" then options.nonlinearity = "relu" end
  return nn[kind:sub(1, 4):match("%a+")](n_in, hidden, options)
end

-- Returns names of parameters, and y, h, c and gradients as in the golden file.
local function run(g, dtype)
  local net = make(g.kind, 4, 3, {num_layers = g.layers, bidirectional = g.both, bias = g.bias}):to(dtype)
  local names, n = {}, g.layers * (g.both and 2 or 1)
  for name, p in net:named_parameters() do
    set(p, wave(p.shape, #names))
    names[#names + 1] = name
  end
  local x = leaf(wave({3, 5, 4}, 0.5), dtype)
  local h0 = g.states and leaf(wave({n, 3, 3}, 1.5), dtype) or nil
  local c0 = g.states and g.kind == "LSTM" and leaf(wave({n, 3, 3}, 2.5), dtype) or nil
  local options = {h0 = h0, lengths = g.packed and lengths or nil}
  if c0 then options.c0 = c0 end
  local y, h, c = net(x, options)
  local loss = (y * wave(y.shape, 3):to(dtype)):sum() + (h * wave(h.shape, 4):to(dtype)):sum()
  if c then loss = loss + (c * wave(c.shape, 5):to(dtype)):sum() end
  loss:backward()
  local leaves, grads = {x, h0 or false, c0 or false}, {}
  for _, p in ipairs(net:parameters()) do leaves[#leaves + 1] = p end
  for _, t in ipairs(leaves) do
    if t then grads[#grads + 1] = two(t.grad) end
  end
  return names, y:reshape{-1}:totable(), two(h), c and two(c), grads
end

tap.group("PyTorch's results", function()
  for _, g in ipairs(dofile("t/golden/recurrent.lua")) do
    for dtype, bound in pairs{f64 = 1e-7, f32 = 2e-5} do
      local name = ("%s, %d layers%s%s%s%s, %s"):format(g.kind, g.layers, g.both and ", bidirectional" or "", g.bias and "" or ", no bias",
        g.states and ", h0" or "", g.packed and ", lengths" or "", dtype)
      local names, y, h, c, grads = run(g, dtype)
      tap.is(table.concat(names, " "), g.names, name .. ": names of parameters")
      tap.near(y, g.y, name .. ": y", bound, bound)
      tap.near({h, c}, {g.h, g.c}, name .. ": last states", bound, bound)
      tap.near(grads, g.grads, name .. ": gradients", 10 * bound, 10 * bound)
    end
  end
end)

tap.group("cells", function()
  for _, kind in ipairs(kinds) do
    local net = make(kind, 4, 3, {}):to("f64")
    local options = kind == "RNN relu" and {nonlinearity = "relu"} or nil
    local cell = nn[kind:match("%a+") .. "Cell"](4, 3, options):to("f64")
    for _, field in ipairs{"weight_ih", "weight_hh", "bias_ih", "bias_hh"} do set(cell[field], net[field .. "_l0"]) end
    local x, h, c, all = wave({2, 6, 4}, 1), nil, nil, {}
    for t = 0, 5 do
      if kind == "LSTM" then h, c = cell(x[{{}, t}], h, c) else h = cell(x[{{}, t}], h) end
      all[t + 1] = h
    end
    local y, last, last_c = net(x)
    tap.near(rille.stack(all, 1):totable(), y:totable(), kind .. ": steps of the cell are those of the layer", 1e-12, 1e-12)
    tap.near({h:totable(), c and c:totable()}, {last[0]:totable(), last_c and last_c[0]:totable()}, kind .. ": last states", 1e-12, 1e-12)
  end
end)

tap.group("f32 beside f64", function()
  -- batch, hidden units, length; rows of 512 weights or a multiple are padded (recurrent.c)
  local sizes <const> = {{1, 19, 9}, {33, 19, 9}, {70, 19, 9}, {3, 512, 3}}
  for _, kind in ipairs(kinds) do
    for _, size in ipairs(sizes) do
      local batch, hidden, length, results = size[1], size[2], size[3], {}
      for _, dtype in ipairs{"f64", "f32"} do
        rille.manual_seed(4)
        local net = make(kind, 5, hidden, {bidirectional = true}):to(dtype)
        local x = leaf(rille.randn({batch, length, 5}, {dtype = "f64"}), dtype)
        local y, h = net(x, {lengths = rille.randint(0, length + 1, {batch})});
        (y:square():mean() + h:square():mean()):backward()
        local dw = net.weight_hh_l0.grad
        results[dtype] = {y:totable(), x.grad:totable(), (hidden < 100 and dw or dw:sum(0)):totable(), net.bias_hh_l0_reverse.grad:totable()}
      end
      tap.near(results.f32, results.f64, ("%s, batch %d, %d units"):format(kind, batch, hidden), 1e-4, 1e-5)
    end
  end
end)

local function train_step(net, options)
  return rille.graph(function(x, n)
    local y, h = net(x, {lengths = n})
    return tap_backward(y:square():mean() + h:square():mean())
  end, options)
end

tap.group("compiled steps", function()
  local size = {}
  for _, length in ipairs{4, 64} do
    local net = nn.GRU(3, 5, {num_layers = 2})
    local step = train_step(net)
    step(rille.randn(4, length, 3), rille.tensor({4, 1, 2, 3}, {dtype = "i64"}))
    size[#size + 1] = select(2, tostring(step:plan()):gsub("\n", ""))
  end
  tap.is(size[2], size[1], "a plan does not grow with the length")
  local grads = {}
  for pieces = 1, 2 do
    rille.manual_seed(5)
    local net = nn.LSTM(3, 5, {bidirectional = true}):to("f64")
    local x, n = rille.randn({4, 6, 3}, {dtype = "f64"}), rille.tensor({6, 1, 0, 3}, {dtype = "i64"})
    local loss = train_step(net, {micro_batches = pieces})(x, n)
    grads[pieces] = {loss:item(), net.weight_hh_l0.grad:totable(), net.bias_ih_l0_reverse.grad:totable()}
  end
  tap.near(grads[2], grads[1], "micro-batches are the whole batch", 1e-12, 1e-12)
end)

tap.group("layouts", function()
  local P = rille.placement("cpu", {0, 1, 2})
  for _, kind in ipairs(kinds) do
    local net = make(kind, 4, 3, {bidirectional = true}):to_global{placement = P, sbp = "B"}
    local x = rille.randn({7, 5, 4}, {placement = P, sbp = "S(0)"})
    local y = net(x, {lengths = {5, 4, 3, 2, 1, 0, 5}})
    tap.is(tostring(y.sbp), "S(0)", kind .. ": a split batch stays split")
  end
end)

tap.group("options and mistakes", function()
  local net = nn.LSTM(3, 4, {num_layers = 2, dropout = 1})
  local x = rille.ones(2, 5, 3)
  local first = net(x)
  local other = net(x * 2)
  tap.is(other:totable(), first:totable(), "dropout = 1 drops all inputs of layer 2")
  local alone = nn.LSTM(3, 4, {dropout = 1})
  tap.is(alone(x):totable(), alone:eval()(x):totable(), "no dropout after the last layer")
  tap.fails(function() nn.GRU(3, 4, {layers = 2}) end, {"nn.GRU", "layers", "num_layers"}, "an unknown option")
  tap.fails(function() nn.RNN(3, 4, {nonlinearity = "gelu"}) end, {"tanh", "relu", "gelu"}, "an unknown nonlinearity")
  tap.fails(function() nn.LSTM(3, 4, {dropout = 2}) end, {"nn.LSTM", "dropout", "from 0 to 1"}, "dropout above 1")
  tap.fails(function() net(rille.ones(2, 3)) end, {"nn.LSTM", "(batch, length, 3)", "{2, 3}"}, "an input without lengths")
  tap.fails(function() net(rille.ones(2, 0, 3)) end, {"nn.LSTM", "at least one step"}, "an input without steps")
  tap.fails(function() net(x, {h0 = rille.ones(2, 4)}) end, {"h0", "{2, 2, 4}", "{2, 4}"}, "h0 of another shape")
  tap.fails(function() nn.GRU(3, 4)(x, {c0 = x}) end, {"nn.GRU", "c0"}, "c0 for a GRU")
  tap.fails(function() net(x, {lengths = {1, 2, 3}}) end, {"lengths", "{2}", "{3}"}, "lengths of another batch")
  tap.fails(function() net(x, {lengths = {6, 1}}):totable() end, {"length 6", "position 0", "from 0 to 5"}, "a length beyond the input")
  local z = rille.ones({2, 5, 3}, {requires_grad = true})
  tap.fails(function()
    local y = nn.GRU(3, 4)(z)
    rille.grad(y:sum(), {z}):square():sum():backward()
  end, {"nn.LSTM", "no second derivative", "rille.scan", "nn.GRUCell"}, "a second derivative names the cells")
end)

-- Passes initial states in the forms that PyTorch accepts.
for _, kind in ipairs{"LSTM", "GRU", "RNN"} do
  local m, h = nn[kind](3, 4), rille.zeros{1, 2, 4}
  local remedy = kind == "LSTM" and "{h0 = h, c0 = c}" or "{h0 = h}"
  tap.fails(function() m(rille.ones{2, 5, 3}, h) end, {"nn." .. kind, "found a tensor", remedy}, kind .. ": a tensor as the second argument is refused")
  tap.fails(function() m(rille.ones{2, 5, 3}, {h, h}) end, {"nn." .. kind, "found a list of tensors", remedy}, kind .. ": a list of states is refused")
end

tap.done()
