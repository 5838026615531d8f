-- layers.lua - compares layers with values computed by hand or by plain Lua. t/models/golden-models.lua compares blocks of a
-- transformer, with their attention, with transformers' GPT-2.
local tap = dofile("t/lib/tap.lua")
local nn, T = rille.nn, rille.tensor

local function set(p, values) rille.no_grad(function() p:copy_(T(values)) end) end

tap.group("Linear, Embedding", function()
  local fc = nn.Linear(2, 3, {bias = false})
  set(fc.weight, {{1, 2}, {3, 4}, {5, 6}})
  tap.is(fc(T{{1, 1}, {0, 2}}):totable(), {{3, 7, 11}, {4, 8, 12}}, "Linear without bias")
  tap.is(fc.bias, nil, "Linear without bias has no bias field")
  tap.is(fc(rille.ones{2, 4, 2}).shape, {2, 4, 3}, "Linear accepts any leading axes")
  tap.fails(function() nn.Linear(2, 3, {bais = true}) end, {"bais", "bias", "layers.lua"}, "an unknown option is an error")
  tap.fails(function() nn.Linear(2) end, {"nn.Linear", "output"}, "a missing size is an error")
  tap.fails(function() fc(rille.ones{2, 3}) end, {"layers.lua", "nn.Linear: the last dimension of the input must be 2, found 3"}, "a wrong input names the layer")
  local e = nn.Embedding(3, 2)
  set(e.weight, {{1, 2}, {3, 4}, {5, 6}})
  tap.is(e(T({{2, 0}}, {dtype = "i64"})):totable(), {{{5, 6}, {1, 2}}}, "Embedding")
end)

tap.group("norms", function()
  local norm = nn.LayerNorm(2)
  set(norm.weight, {2, 3}); set(norm.bias, {1, -1})
  tap.near(norm(T{{1, 3}, {5, 5}}):totable(), {{-1, 2}, {1, -1}}, "LayerNorm", 1e-4)
  tap.is(nn.LayerNorm(2, {bias = false}).bias, nil, "LayerNorm without bias")
  tap.near(nn.LayerNorm{2, 2}(T{{{1, 3}, {3, 1}}}):totable(), {{{-1, 1}, {1, -1}}}, "LayerNorm over two axes", 1e-4)
  local rms = nn.RMSNorm(2)
  set(rms.weight, {10, 1})
  tap.near(rms(T{{3, 4}}):totable(), {{8.485281, 1.1313708}}, "RMSNorm", 1e-4)
end)

tap.group("convolution", function()
  local conv = nn.Conv2d(1, 1, 2, {bias = true})
  set(conv.weight, {{{{1, 0}, {0, -1}}}}); set(conv.bias, {10})
  tap.is(conv(T{{{{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}}}):totable(), {{{{6, 6}, {6, 6}}}}, "Conv2d is a sum over windows")
  local shape = nn.Conv2d(4, 6, {3, 5}, {stride = 2, padding = 1, groups = 2})(rille.ones{1, 4, 9, 9}).shape
  tap.is(shape, {1, 6, 5, 4}, "Conv2d with stride, padding and groups")
  tap.fails(function() nn.Conv2d(3, 4, 3, {groups = 2}) end, {"3 input and 4 output channels"}, "channels that groups do not divide are refused")
end)

tap.group("activations, losses", function()
  tap.near(nn.GELU()(T{1}):totable(), {0.8413447}, "GELU")
  tap.near(nn.GELU{approximate = "tanh"}(T{1}):totable(), {0.8411920}, "GELU by tanh")
  tap.near(nn.CrossEntropyLoss{reduction = "sum"}(T{{1, 2}, {1, 2}}, T({1, 1}, {dtype = "i64"})):item(), 0.6265234,
    "CrossEntropyLoss with an option")
  tap.near(nn.MSELoss{reduction = "sum"}(T{1, 2}, T{2, 4}):item(), 5, "MSELoss with an option")
end)

-- Checks layers that apply one function to each number. Columns: arguments of the class, the function in plain Lua,
-- and its derivative (nil: the test does not compare derivatives). Inputs are negative and positive numbers, 0, and
-- numbers whose exponential overflows.
tap.group("functions of single numbers", function()
  local exp, log = math.exp, math.log
  local function sigmoid(x) return 1 / (1 + exp(-x)) end
  local rows = {
    Identity = {{}, function(x) return x end}, ReLU = {{}, function(x) return math.max(x, 0) end}, Sigmoid = {{}, sigmoid},
    SiLU = {{}, function(x) return x * sigmoid(x) end}, Softplus = {{}, function(x) return x > 30 and x or log(1 + exp(x)) end},
    Tanh = {{}, function(x) return 2 * sigmoid(2 * x) - 1 end},
    LeakyReLU = {{}, function(x) return x > 0 and x or 0.01 * x end, function(x) return x > 0 and 1 or 0.01 end},
    ["LeakyReLU 0.3"] = {{0.3}, function(x) return x > 0 and x or 0.3 * x end, function(x) return x > 0 and 1 or 0.3 end},
    ELU = {{}, function(x) return x > 0 and x or exp(x) - 1 end, function(x) return x > 0 and 1 or exp(x) end},
    ["ELU 2"] = {{2}, function(x) return x > 0 and x or 2 * (exp(x) - 1) end, function(x) return x > 0 and 1 or 2 * exp(x) end},
  }
  local values = {-200, -3, -1, -0.5, 0, 0.5, 1, 3, 200}
  for name, row in pairs(rows) do
    local layer, want, slope = nn[name:match("%a+")](table.unpack(row[1])), {}, {}
    for i, v in ipairs(values) do want[i], slope[i] = row[2](v), row[3] and row[3](v) end
    local x = T(values, {requires_grad = true})
    local y = layer(x)
    tap.near(y:totable(), want, name, 1e-5, 1e-6)
    if row[3] then tap.near(rille.grad(y:sum(), {x}):totable(), slope, name .. ": the derivative", 1e-5, 1e-6) end
  end
  for _, row in ipairs{{nn.LeakyReLU, "slope"}, {nn.ELU, "alpha"}, {nn.Softmax, "axis"}, {nn.Upsample, "scale"}} do
    tap.fails(function() row[1]("wide") end, {row[2] .. " must be", 'found "wide"', "layers.lua"}, row[2] .. " must be a number")
  end
end)

tap.group("softmax, pooling, shapes", function()
  local e = math.exp(1)
  tap.near(nn.Softmax()(T{{0, 1}, {2, 2}}):totable(), {{1 / (1 + e), e / (1 + e)}, {0.5, 0.5}}, "Softmax, by default along the last axis")
  tap.near(nn.Softmax(0)(T{{0, 3}, {1, 3}}):totable(), {{1 / (1 + e), 0.5}, {e / (1 + e), 0.5}}, "Softmax along another axis")
  tap.near(nn.LogSoftmax()(T{{0, 1}}):totable(), {{-math.log(1 + e), 1 - math.log(1 + e)}}, "LogSoftmax")
  local image = rille.arange(16, {dtype = "f32"}):reshape{1, 1, 4, 4}
  tap.is(nn.MaxPool2d(2)(image):totable(), {{{{5, 7}, {13, 15}}}}, "MaxPool2d")
  tap.is(nn.AvgPool2d(2)(image):totable(), {{{{2.5, 4.5}, {10.5, 12.5}}}}, "AvgPool2d")
  tap.is(nn.MaxPool2d({1, 2}, {stride = 1})(image).shape, {1, 1, 4, 3}, "MaxPool2d with a pair and a stride")
  tap.is(nn.Upsample(2)(T{{{{1, 2}, {3, 4}}}}):totable(), {{{{1, 1, 2, 2}, {1, 1, 2, 2}, {3, 3, 4, 4}, {3, 3, 4, 4}}}}, "Upsample repeats pixels")
  local x = rille.ones{2, 3, 4, 5}
  for want, args in pairs{["2 60"] = {}, ["2 3 20"] = {2}, ["120"] = {0}, ["6 4 5"] = {0, 1}, ["2 12 5"] = {1, -2}} do
    tap.is(table.concat(nn.Flatten(table.unpack(args))(x).shape, " "), want, "Flatten: {" .. want .. "}")
  end
  tap.fails(function() nn.Flatten(2, 1)(x) end, {"nn.Flatten: axes 2 to 1", "4 dimensions"}, "axes in the wrong order are refused")
end)

tap.group("layers of one dimension, and groups", function()
  rille.manual_seed(4)
  local wide, narrow = nn.Conv2d(4, 6, {1, 3}, {stride = 2, padding = {0, 1}, groups = 2}), nn.Conv1d(4, 6, 3, {stride = 2, padding = 1, groups = 2})
  narrow:load_state_dict{weight = wide.weight:squeeze(2), bias = wide.bias:detach()}
  tap.fails(function() nn.Conv1d(2, 2, 3, {stride = {1, 2}}) end, {"nn.Conv1d: stride must be an integer", "layers.lua"}, "a pair is refused")
  local x = rille.randn{2, 4, 9}
  tap.is(narrow(x).shape, {2, 6, 5}, "Conv1d returns (batch, channels, length)")
  local image = wide(rille.concat({x:unsqueeze(2), rille.zeros{2, 4, 1, 9}}, 2))
  tap.near(narrow(x):totable(), image:slice(2, 0, 1):squeeze(2):totable(), "Conv1d equals Conv2d of a row", 1e-5, 1e-6)
  local a, b = nn.BatchNorm1d(4), nn.BatchNorm2d(4)
  tap.near(a(x):totable(), b(x:unsqueeze(3)):squeeze(3):totable(), "BatchNorm1d of sequences equals BatchNorm2d", 1e-5, 1e-6)
  tap.near(a.running_var:totable(), b.running_var:totable(), "also its running statistics")
  tap.near(nn.BatchNorm1d(2)(T{{1, 10}, {3, 30}}):totable(), {{-1, -1}, {1, 1}}, "BatchNorm1d of vectors", 1e-4)
  local norm = nn.GroupNorm(2, 4)
  set(norm.weight, {1, 2, 1, 1}); set(norm.bias, {0, 0, 5, 0})
  tap.near(norm(T{{{1}, {3}, {10}, {30}}, {{0}, {2}, {0}, {4}}}):totable(), {{{-1}, {2}, {4}, {1}}, {{-1}, {2}, {4}, {1}}}, "GroupNorm", 1e-4)
  tap.near(nn.GroupNorm(1, 4)(x):totable(), nn.LayerNorm{4, 9}(x):totable(), "GroupNorm of one group normalises each entry", 1e-5, 1e-6)
  tap.fails(function() nn.GroupNorm(3, 4) end, {"nn.GroupNorm: 4 channels must be divisible by 3, the number of groups; 1, 2, 4 would do"}, "groups must divide the channels")
  tap.fails(function() norm(rille.ones{2, 3, 4}) end, {"nn.GroupNorm: input must have shape (batch, 4, ...), found {2, 3, 4}"}, "the number of channels is checked")
end)

tap.group("Dropout", function()
  local drop, x = nn.Dropout(0.25), rille.ones{1000}
  local y = drop(x):totable()
  local kept = 0
  for _, v in ipairs(y) do
    if v ~= 0 then kept = kept + 1 end
  end
  tap.ok(kept > 690 and kept < 810, "Dropout keeps 1 - p", kept)
  tap.near(rille.tensor(y):max():item(), 1 / 0.75, "Dropout scales what it keeps")
  tap.ok(drop(x):sum():item() ~= rille.tensor(y):sum():item(), "every call draws new values")
  tap.is(nn.Dropout(0)(x):sum():item(), 1000, "p = 0 changes nothing")
  tap.fails(function() nn.Dropout(1.5) end, {"1.5"}, "p above 1 is refused")
end)

tap.group("attention", function()
  local attention = nn.MultiheadAttention(4, 2)
  local x = rille.randn{1, 3, 4}
  local function heads(projected) return projected:reshape{1, 3, 2, 2}:permute{0, 2, 1, 3} end
  local y = rille.scaled_dot_product_attention(heads(attention.q_proj(x)), heads(attention.k_proj(x)), heads(attention.v_proj(x)))
  tap.near(attention(x):totable(), attention.out_proj(y:permute{0, 2, 1, 3}:reshape{1, 3, 4}):totable(), "attention over two heads", 1e-5, 1e-6)
  local lower = rille.ones{3, 3}:tril():gt(0)
  local causal = nn.MultiheadAttention(4, 2, {is_causal = true})
  causal:load_state_dict(attention:state_dict())
  tap.near(attention(x, x, x, lower):totable(), causal(x):totable(), "a lower triangle as mask is causal", 1e-5, 1e-6)
  tap.is(attention(x, rille.randn{1, 5, 4}).shape, {1, 3, 4}, "keys may come from another tensor")
  tap.fails(function() nn.MultiheadAttention(5, 2) end, {"d = 5", "heads = 2"}, "a width that heads do not divide is refused")
end)

-- Checks attention with fewer heads of keys and values than of queries. The layer must equal one with as many key
-- heads as query heads, in which the weights of keys and values are repeated.
tap.group("fewer heads of keys and values", function()
  local heads, size, length = 6, 4, 5
  local masks = {none = false, keys = {length}, scores = {length, length}, ["one head for all"] = {1, length, length},
    ["each head"] = {heads, length, length}, ["each row"] = {2, 1, length, length}, all = {2, heads, length, length}}
  rille.manual_seed(5)
  for _, few in ipairs{1, 2, 3} do
    local a = nn.MultiheadAttention(heads * size, heads, {kv_heads = few, is_causal = few == 2})
    local b = nn.MultiheadAttention(heads * size, heads, {is_causal = few == 2})
    rille.no_grad(function()
      for _, name in ipairs{"q_proj", "k_proj", "v_proj", "out_proj"} do
        for _, of in ipairs{"weight", "bias"} do
          local from, last = a[name][of], of == "weight" and heads * size or 1
          local times = name:find("^[kv]_") and heads // few or 1
          local spread = from:reshape{heads // times, 1, size, last}:expand{heads // times, times, size, last}
          b[name][of]:copy_(spread:reshape(b[name][of].shape))
        end
      end
    end)
    for name, shape in pairs(masks) do
      for _, q in ipairs{1, 3, length} do
        local x, keys = rille.randn{2, q, heads * size}, rille.randn{2, length, heads * size}
        local mask = shape and rille.rand(shape):gt(0.3):logical_or(rille.arange(length):eq(0)) or nil
        if mask and shape[#shape - 1] and q ~= length then mask = mask:slice(mask.ndim - 2, 0, q) end
        local want, got = b(x, keys, keys, mask), a(x, keys, keys, mask)
        tap.near(got:totable(), want:totable(), ("%d of %d heads, %d queries, a mask of %s"):format(few, heads, q, name), 1e-5)
      end
    end
  end
  local few = nn.MultiheadAttention(24, 6, {kv_heads = 2})
  tap.fails(function() few(rille.randn{2, 5, 24}, nil, nil, rille.ones({2, 4, 5, 5}, {dtype = "bool"})) end,
    {"nn.MultiheadAttention", "1 or 6 heads", "4"}, "a mask of another number of heads")
end)

tap.group("rotary tables", function()
  local cos, sin = nn.rotary_tables(5, 4, {base = 100})
  tap.is(cos.shape, {5, 2}, "rotary tables have one angle per pair")
  local c, s = cos:totable(), sin:totable()
  local good = true
  for p = 0, 4 do
    for i = 0, 1 do
      local angle = p * 100 ^ (-2 * i / 4)
      good = good and math.abs(c[p + 1][i + 1] - math.cos(angle)) < 1e-6 and math.abs(s[p + 1][i + 1] - math.sin(angle)) < 1e-6
    end
  end
  tap.ok(good, "the angle is position * base^(-2i / size)")
end)

-- Checks that positions passed as an argument use memory only for the used part of the table, even if memory could
-- not hold the full table.
tap.group("rotary positions", function()
  local P = rille.placement("cpu", {{0, 1}, {2, 3}})
  local scaling = {rope_type = "llama3", factor = 8, low_freq_factor = 1, high_freq_factor = 4, original_max_position_embeddings = 8}
  local q, k = rille.randn{2, 4, 5, 8}, rille.randn{2, 2, 5, 8}
  local places = {0, 1, 2, 3, 4}
  for _, sbp in ipairs{{"B", "B"}, {"S(0)", "B"}, {"S(0)", "S(1)"}, {"S(1)", "S(0)"}} do
    for _, dtype in ipairs{"f32", "bf16"} do
      local function at(x) return x:to(dtype):to_global{placement = P, sbp = sbp} end
      for _, options in ipairs{{}, {base = 500}, {scaling = scaling}} do
        local turn = nn.Rotary(6, 8, options)
        local a, b = turn:turn(at(q), at(k))
        local ids = rille.tensor({places, places}, {dtype = "i64", placement = P, sbp = {"B", "B"}})
        for name, method in pairs{eager = turn.turn, compiled = rille.graph(function(...) return turn:turn(...) end)} do
          local c, d
          if name == "eager" then c, d = method(turn, at(q), at(k), ids) else c, d = method(at(q), at(k), ids) end
          tap.near({c:totable(), d:totable()}, {a:totable(), b:totable()}, ("%s, %s, %s: given positions equal the default positions"):format(
            name, table.concat(sbp, " "), dtype), dtype == "f32" and 1e-6 or 2e-2, dtype == "f32" and 1e-6 or 2e-2)
        end
      end
    end
  end
  local huge = nn.Rotary(10 ^ 13 // 1 | 0, 8)
  local far = 9999999999999
  local one = rille.ones{1, 1, 1, 8}
  local rotated = huge:turn(one, one, rille.tensor({{far}}, {dtype = "i64"}))
  local want = {}
  for i = 0, 3 do
    local angle = far * 10000.0 ^ (-2 * i / 8)
    want[i + 1], want[i + 5] = math.cos(angle) - math.sin(angle), math.cos(angle) + math.sin(angle)
  end
  tap.near(rotated:totable()[1][1][1], want, "the last of 10^13 positions needs no table", 1e-3, 1e-3)
  for _, bad in ipairs{-1, 6} do
    tap.fails(function() nn.Rotary(6, 8):turn(one, one, rille.tensor({{bad}}, {dtype = "i64"})):totable() end,
      {tostring(bad), "6"}, "position " .. bad .. " of 6 is refused")
  end
end)

tap.group("rotary positions follow the fields", function()
  local q, places = rille.randn{1, 2, 5, 8}, rille.tensor({{0, 1, 2, 3, 4}}, {dtype = "i64"})
  local function linear(factor) return {rope_type = "linear", factor = factor} end
  local function results(turn)
    local list = {}
    for i, at in ipairs{false, places} do
      local eager, compiled = turn:turn(q, q, at or nil), rille.graph(function(x) return (turn:turn(x, x, at or nil)) end)(q)
      list[2 * i - 1], list[2 * i] = eager:totable(), compiled:totable()
    end
    return list
  end
  local function changed(set, options)
    local turn = nn.Rotary(6, 8, options)
    local before = results(turn)
    set(turn)
    return turn, before
  end
  for name, row in pairs{
    base = {function(t) t.base = 500 end, {}, {base = 500}},
    scaling = {function(t) t.scaling = linear(2) end, {}, {scaling = linear(2)}},
    ["a scaling's factor"] = {function(t) t.scaling.factor = 4 end, {scaling = linear(2)}, {scaling = linear(4)}},
    ["unknown scaling"] = {function(t) t.scaling = nil end, {scaling = linear(2)}, {}}} do
    local set, options, want = table.unpack(row)
    local turn, before = changed(set, options)
    local after = results(turn)
    tap.is(after, results(nn.Rotary(6, 8, want)), name .. ": a changed field acts as if set at creation")
    tap.ok(before[1][1][1][2][1] ~= after[1][1][1][2][1] or before[1][1][1][2][2] ~= after[1][1][1][2][2], name .. ": the change has an effect")
  end
  local shorter = changed(function(t) t.length = 3 end)
  tap.fails(function() shorter:turn(q, q, places):totable() end, {"3"}, "a changed length limits the positions")
  local wider = changed(function(t) t.size = 16 end)
  local x = rille.randn{1, 2, 5, 16}
  tap.is(wider:turn(x, x):totable(), nn.Rotary(6, 16):turn(x, x):totable(), "a changed size is the size of heads")
  for name, row in pairs{base = {0, "nn.Rotary: base"}, size = {7, "nn.Rotary: size must be an even, positive integer, found 7"}, length = {"x", "nn.Rotary: length must"},
    scaling = {{rope_type = "yarn"}, "nn.Rotary: scaling"}} do
    local turn = changed(function(t) t[name] = row[1] end)
    tap.fails(function() turn:turn(q, q) end, {"layers.lua:", row[2]}, name .. ": an invalid value is refused")
    tap.fails(function() turn:turn(q, q, places) end, {"layers.lua:", row[2]}, name .. ": an invalid value is refused with given positions")
  end
  local turn = nn.Rotary(6, 8, {scaling = linear(2)})
  local cos, frequency = turn:tables(q.placement, 5), turn:on(q.placement).frequency
  tap.ok(rawequal(cos, (turn:tables(q.placement, 5))) and rawequal(frequency, turn:on(q.placement).frequency), "unchanged fields keep their tables")
end)

tap.group("losses of other shapes", function()
  local y = rille.arange(4):to("f32")
  tap.fails(function() return y:reshape{4, 1}:mse_loss(y) end, {"layers.lua:", "x and y must have the same shape, found {4, 1} and {4}; use reshape{4, 1}"},
    "are refused, and not broadcast")
  tap.fails(function() return nn.MSELoss()(y, rille.ones(1)) end, {"found {4} and {1}"}, "a single target, too")
  tap.is(y:reshape{4, 1}:mse_loss(y:reshape{4, 1}):item(), 0, "of one shape they are compared")
end)

tap.done()
