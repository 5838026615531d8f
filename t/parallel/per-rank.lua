-- per-rank.lua - tests rille.per_rank: communication and operators on local tensors, and ring attention.
--
-- Each function runs on meshes of 2, 4 and 2 x 2 ranks, for each layout of its input. The reference computes the value of
-- each rank on one device, from slices of the global tensor. Values and gradients must agree.
local tap = dofile("t/lib/tap.lua")
local attention = dofile("examples/per_rank.lua")

local function mesh(ranks) return rille.placement("cpu", ranks) end
local meshes = {mesh{0, 1}, mesh{3, 1, 0, 2}, mesh{{0, 1}, {2, 3}}}
local entries = {"S(0)", "S(1)", "B"}

-- Iterates over a table in the order of its keys.
local function sorted(t)
  local names = tap.all(pairs(t))
  table.sort(names)
  local i = 0
  return function()
    i = i + 1
    return names[i], t[names[i]]
  end
end

-- Returns every layout of the mesh whose entries are S(0), S(1) and B.
local function layouts(P)
  local list = {}
  for _, a in ipairs(entries) do
    for _, b in ipairs(#P.shape == 2 and entries or {false}) do list[#list + 1] = b and {a, b} or {a} end
  end
  return list
end

-- Returns a list of the shards of x by mesh position, each on one device. coords[k]: coordinates of position k.
local function shards(P, x, sbp)
  local list, coords = {}, {}
  for position = 0, P.size - 1 do
    local c = #P.shape == 2 and {position // P.shape[2], position % P.shape[2]} or {position}
    local s = x
    for axis, entry in ipairs(sbp) do
      local d = tonumber(entry:match("%d"))
      local size = d and s.shape[d + 1] // P.shape[axis]
      if d then s = s:slice(d, c[axis] * size, (c[axis] + 1) * size) end
    end
    list[position + 1], coords[position + 1] = s, c
  end
  return list, coords
end

-- Returns the values of those ranks that differ from position k only on mesh axis `axis`.
local function along(P, list, coords, axis, k)
  local group = {}
  for j, c in ipairs(coords) do
    if #P.shape == 1 or c[3 - axis] == coords[k][3 - axis] then group[#group + 1] = list[j] end
  end
  return group
end

-- Calls by name. Columns: a function on local tensors, and a reference that returns its value at position k.
local calls = {
  psum = {function(m, x, axis) return m:psum(x, axis - 1) end, function(group)
    local y = group[1]
    for i = 2, #group do y = y + group[i] end
    return y
  end},
  ["all_gather 0"] = {function(m, x, axis) return m:all_gather(x, axis - 1, 0) end, function(group) return rille.concat(group, 0) end},
  ["all_gather -1"] = {function(m, x, axis) return m:all_gather(x, axis - 1, -1) end, function(group) return rille.concat(group, -1) end},
  rank = {function(m, x, axis) return x * (m:rank(axis - 1) + 1) end, function(group, me) return group[me + 1] * (me + 1) end},
}
for _, n in ipairs{1, -1, 2, 5} do
  calls["shift " .. n] = {function(m, x, axis) return m:shift(x, axis - 1, n) end,
    function(group, me) return group[(me - n) % #group + 1] end}
end
for _, axes in ipairs{{0, 1}, {1, 0}, {2, 0}, {2, 2}, {0, 0}, {1, -1}} do
  local split, concat = axes[1], axes[2]
  calls[("all_to_all %d %d"):format(split, concat)] = {function(m, x, axis) return m:all_to_all(x, axis - 1, split, concat) end,
    function(group, me)
      local pieces = {}
      for i, x in ipairs(group) do
        local size = x.shape[split + 1] // #group
        pieces[i] = x:slice(split, me * size, (me + 1) * size)
      end
      return rille.concat(pieces, concat)
    end}
end

local function close(a, b) return (a - b):abs():max():item() < 1e-12 end

-- Runs fn on each rank's local tensor and stacks the results of all ranks. The result must equal the stack of what
-- reference() returns for each rank.
local function compare(P, sbp, fn, reference, name)
  local x = rille.randn({16, 16, 4}, {dtype = "f64"}):detach():requires_grad_(true)
  local outputs, stack = {}, function(y) return y end
  for axis = 1, #P.shape do
    outputs[axis] = ("S(%d)"):format(axis - 1)
    local before = stack
    stack = function(y) return before(y):unsqueeze(0) end
  end
  local y = rille.per_rank(function(m, t) return stack(fn(m, t)) end, {inputs = {sbp}, outputs = {outputs}})(
    x:to_global{placement = P, sbp = "B"})
  local want = rille.stack(reference(x), 0):reshape(y.shape)
  local w = rille.randn(y.shape, {dtype = "f64"})
  local got, ref = y:to_global{placement = w.placement, sbp = "B"}, want
  local text = ("%s of %s on %s"):format(name, table.concat(sbp, ", "), tostring(P))
  tap.ok(close(got, ref), text .. " has the values of the formula")
  local g = rille.grad((y * w:to_global{placement = P, sbp = "B"}):sum():to_global{placement = w.placement, sbp = "B"}, {x})
  tap.ok(close(g, (rille.grad((want * w):sum(), {x}))), text .. " has the gradient of the formula")
end

tap.group("communication", function()
  for _, P in ipairs(meshes) do
    for _, sbp in ipairs(layouts(P)) do
      for axis = 1, #P.shape do
        for name, call in sorted(calls) do
          if not tap.share() then goto next end
          compare(P, sbp, function(m, x) return call[1](m, x, axis) end, function(x)
            local list, coords = shards(P, x, sbp)
            local values = {}
            for k in ipairs(list) do values[k] = call[2](along(P, list, coords, axis, k), coords[k][axis]) end
            return values
          end, name .. " along mesh axis " .. axis - 1)
          ::next::
        end
      end
    end
  end
end)

tap.group("operators", function()
  local ids = rille.tensor({2, 0, 1, 1}, {dtype = "i64"})
  local operators = {
    unary = function(x) return x:exp():add(1):log() - x:relu() end,
    arithmetic = function(x) return 2 - x * x / (x * x + 1) + (-x) ^ 2 end,
    reductions = function(x) return x:sum(0, true) + x:mean({1, 2}, true) + x:max(-1, true) end,
    complete = function(x) return x:sum() * x end,
    softmax = function(x) return x:softmax(-1) + x:log_softmax{axis = 0} end,
    matmul = function(x) return x:matmul(x:transpose(-1, -2)) end,
    broadcast = function(x) return x:matmul(x[0]:transpose(0, 1)) end,
    shapes = function(x) return x:reshape{-1, 2}:permute{1, 0}:unsqueeze(1):squeeze():flip(0) end,
    indexing = function(x) return x[1] * x[{{0, 1}, {}, {1, 2}}] end,
    lists = function(x) return x:concat(x * 2, 1):stack(x:concat(x, 1), -1) end,
    selection = function(x, m) return x:index_select(2, m and m:replicated(ids) or ids) end,
    where = function(x) return x:gt(0):where(x, 0.5):tril() end,
    norm = function(x) return x:rms_norm():layer_norm() end,
    same = function(x) return x:squeeze() + x:sum{} end,
    clamp = function(x) return x:clamp(nil, 0.5) end,
    attention = function(x)
      local t = x:unsqueeze(0)
      return t:scaled_dot_product_attention(t * 2, t, {is_causal = true})
    end,
  }
  operators.triangle = function(x) return (x:triu() + x:cumsum(1)):pad({1, 1}) end
  for _, P in ipairs(meshes) do
    for _, sbp in ipairs(layouts(P)) do
      for name, op in sorted(operators) do
        if not tap.share() then goto next end
        compare(P, sbp, function(m, x) return op(x, m) end, function(x)
          return tap.list(shards(P, x, sbp), function(shard) return op(shard) end)
        end, name)
        ::next::
      end
    end
  end
end)
-- ---- ring attention (examples/per_rank.lua) ----

local T, D = 32, 4

-- Returns the three operands of attention on P, and the same values on one device.
local function operands(P)
  local far, near = {}, {}
  for i = 1, 3 do
    near[i] = rille.randn({2, 2, T, D}, {dtype = "f64"}):detach():requires_grad_(true)
    far[i] = near[i]:to_global{placement = P, sbp = "S(2)"}:detach():requires_grad_(true)
  end
  return far, near
end

-- Returns x with its chunks in the order of a list.
local function reorder(x, order)
  local n = #order
  return x:reshape{2, 2, n, T // n, D}:index_select(2, rille.tensor(order, {dtype = "i64", placement = x.placement})):reshape{2, 2, T, D}
end

local function inverse(order)
  local list = {}
  for i, k in ipairs(order) do list[k + 1] = i - 1 end
  return list
end

local function difference(a, b) return (a:to_global{placement = b.placement, sbp = "B"} - b):abs():max():item() end

local rings = {
  full = {function() return attention.ring(false) end, false},
  causal = {function() return attention.ring(true) end, true},
  zigzag = {function(P)
    local order, fn = attention.zigzag_order(P.size), attention.zigzag()
    return function(q, k, v) return reorder(fn(reorder(q, order), reorder(k, order), reorder(v, order)), inverse(order)) end
  end, true},
}

tap.group("ring attention", function()
  for _, P in ipairs{mesh{0, 1}, mesh{2, 0, 3, 1}} do
    for name, ring in sorted(rings) do
      local fn, causal = ring[1](P), ring[2]
      local far, near = operands(P)
      local w = rille.randn({2, 2, T, D}, {dtype = "f64"})
      local want = rille.scaled_dot_product_attention(near[1], near[2], near[3], {is_causal = causal})
      local grads = {rille.grad((want * w):sum(), near)}
      local text = ("%s on %s"):format(name, tostring(P))
      local v = w:to_global{placement = P, sbp = "B"}
      local y = fn(table.unpack(far))
      tap.ok(difference(y, want) < 1e-12, text .. " has the values of one device")
      for i, g in ipairs{rille.grad((y * v):sum(), far)} do
        tap.ok(difference(g, grads[i]) < 1e-12, ("%s has the gradient %d of one device"):format(text, i))
      end
      local step = rille.graph(function() return rille.grad((fn(table.unpack(far)) * v):sum(), far) end)
      local results = {step()}
      for i, g in ipairs(grads) do
        tap.ok(difference(results[i], g) < 1e-12, ("%s has gradient %d in a compiled step"):format(text, i))
      end
      local sent = name == "zigzag" and attention.zigzag() or fn -- without the change of order before and after
      tap.is(rille.explain(sent(table.unpack(far))).bytes, 2 * (P.size - 1) * far[1]:numel() * 8,
        text .. " sends (n - 1) / n of keys and values to each rank")
    end
  end
end)

tap.group("compiled steps", function()
  local P = mesh{0, 1, 2, 3}
  local w = rille.randn({8, 8}, {dtype = "f64", placement = P}):requires_grad_(true)
  local x = rille.randn({4, 2, 32, 8}, {dtype = "f64", placement = P, sbp = "S(2)"})
  local ring = attention.ring(true)
  local function loss_of(t)
    local q = t:matmul(w)
    local loss = ring(q, q * 2, q - 1):square():mean()
    return loss, (rille.grad(loss, {w}))
  end
  local loss, gradient = loss_of(x)
  for name, options in sorted{plain = {}, ["micro-batches"] = {micro_batches = 2}, planned = {auto_parallel = true},
    recomputed = {recompute = true}} do
    local l, g = rille.graph(loss_of, options)(x)
    tap.ok(close(l, loss) and close(g, gradient), "a step has the loss and gradient of eager code: " .. name)
  end
end)

tap.group("hooks", function()
  for _, P in ipairs(meshes) do
    for _, sbp in ipairs(layouts(P)) do
      if not tap.share() then goto next end
      compare(P, sbp, function(_, x)
        local y = x * 2
        y:register_hook(function(g) return g * 3 * g.shape[1] end)
        return y:sin()
      end, function(x)
        return tap.list(shards(P, x, sbp), function(shard)
          local y = shard * 2
          y:register_hook(function(g) return g * 3 * g.shape[1] end)
          return y:sin()
        end)
      end, "a hook")
      ::next::
    end
  end
end)

-- A micro-batch has the rows of each rank in order, down to a single row.
tap.group("the batch in micro-batches", function()
  local w = rille.randn({8, 8}, {dtype = "f64"}):requires_grad_(true)
  local function errors(y, labels) return -(y:log_softmax(-1) * labels:one_hot(8):to("f64")):sum(-1) end
  -- Functions of the mesh, rows, a weight and labels, and the layout of their output.
  local losses = {
    ["a sum"] = {"P", function(_, x, v) return x:matmul(v):square():sum() end},
    ["a mean"] = {"B", function(m, x, v) return m:psum(x:matmul(v):square():mean()) / m.placement.size end},
    ["a mean by its count"] = {"B", function(m, x, v)
      local y = x:matmul(v):square()
      return m:psum(y:sum()) / (m.placement.size * y:numel())
    end},
    ["a masked mean"] = {"B", function(m, x, v, labels)
      local seen = labels:ne(3):to("f64")
      return m:psum((errors(x:matmul(v), labels) * seen):sum()) / m:psum(seen:sum())
    end},
    ["a mean of each rank"] = {"S(0)", function(_, x, v, labels) return errors(x:matmul(v), labels):mean():unsqueeze(0) end},
    ["factors by rank"] = {"P", function(m, x, v) return (x:matmul(v) * (m:rank() + 1)):square():sum() end},
    ["a shift"] = {"P", function(m, x, v) local y = x:matmul(v); return (y * m:shift(y)):sum() end},
    ["gathered rows"] = {"B", function(m, x, v, labels) return m:all_gather(errors(x:matmul(v), labels)):mean() end},
  }
  for _, P in ipairs{mesh{0, 1}, mesh{2, 0}} do
    local u = w:detach():to_global{placement = P, sbp = "B"}:detach():requires_grad_(true)
    local x = rille.randn({8, 3, 8}, {dtype = "f64", placement = P, sbp = "S(0)"})
    local labels = rille.randint(0, 8, {8, 3}, {placement = P, sbp = "S(0)"})
    for name, loss in sorted(losses) do
      local fn = rille.per_rank(loss[2], {inputs = {"S(0)", "B", "S(0)"}, outputs = {loss[1]}})
      local function step(t, y) local l = fn(t, u, y):sum(); return l, (rille.grad(l, {u})) end
      local l, g = step(x, labels)
      for _, n in ipairs{2, 4} do
        local got, gradient = rille.graph(step, {micro_batches = n})(x, labels)
        tap.ok(close(got, l) and close(gradient, g), ("%s on %s: %d micro-batches have the loss and gradient of the batch"):format(name, tostring(P), n))
      end
    end
  end
end)

-- Loops over axis 0 of the shard. Each returns a tensor of the last state and the outputs. m: mesh; nil on one device.
local loops = {
  cell = function(x) return select(2, rille.scan(function(h, t) h = (h * 0.5 + t):tanh(); return h, h end, x[0], x)) end,
  recomputed = function(x) return (rille.scan(function(h, t) return h * 0.5 + t:sin() end, x[0], x, {recompute = true})) end,
  ["last axis"] = function(x) return select(2, rille.scan(function(h, t) h = h * 0.5 + t; return h, h end, x[{{}, {}, 0}], x, {axis = 2})) end,
  ["tables of states"] = function(x)
    local last, ys = rille.scan(function(s, t) return {s[1] + t, {n = s[2].n * 0.5}}, {y = s[1] * s[2].n} end, {x[0], {n = x[1]}}, x)
    return ys.y + last[1]
  end,
  ["no slices"] = function(x) return (rille.scan(function(h) return (h * 0.5):sin() end, x, nil, {length = 3})) end,
  ["a state that is equal on all ranks at first"] = function(x, m)
    local zero = rille.zeros({1, 1}, {dtype = "f64", placement = m and m.placement, sbp = m and "B"})
    return (rille.scan(function(h, t) return {h[2], h[1] * 0.5 + t:sum{axis = {0, 1}, keepdim = true}} end, m and {m:replicated(zero), m:replicated(zero)} or {zero, zero}, x))[1]
  end,
}

tap.group("rille.scan", function()
  for _, P in ipairs(meshes) do
    for _, sbp in ipairs(layouts(P)) do
      for name, loop in sorted(loops) do
        if not tap.share() then goto next end
        compare(P, sbp, function(m, x) return loop(x, m) end, function(x)
          return tap.list(shards(P, x, sbp), function(shard) return loop(shard) end)
        end, "scan: " .. name)
        ::next::
      end
    end
  end
  -- a loop whose body communicates, and reads a weight
  local P, w = mesh{0, 1}, rille.randn({4, 4}, {dtype = "f64"}):mul(0.3):detach():requires_grad_(true)
  local x, zero = rille.randn({6, 8, 4}, {dtype = "f64"}), rille.zeros({1, 4}, {dtype = "f64"})
  local function loss_of(reduce, h, t, v)
    local _, ys = rille.scan(function(s, a) s = (s:matmul(v) + reduce(a:sum(0, true))):tanh(); return s, s end, h, t)
    return ys:square():sum()
  end
  local want = loss_of(function(a) return a end, zero, x, w)
  local gradient = rille.grad(want, {w})
  local u, start = w:detach():to_global{placement = P, sbp = "B"}:detach():requires_grad_(true), zero:to_global{placement = P, sbp = "B"}
  local fn = rille.per_rank(function(m, t, v, h) return loss_of(function(a) return m:psum(a) end, h, t, v) end,
    {inputs = {"S(1)", "B", "B"}, outputs = {"B"}})
  local function step(t) local l = fn(t, u, start); return l, (rille.grad(l, {u})) end
  for kind, run in sorted{eager = step, compiled = rille.graph(step)} do
    local l, g = run(x:to_global{placement = P, sbp = "S(1)"})
    tap.ok(difference(l, want) < 1e-10 and difference(g, gradient) < 1e-10, "a body that communicates has the loss and gradient of one device: " .. kind)
  end
end)

tap.group("local tensors of single devices", function()
  for _, P in ipairs(meshes) do
    for _, sbp in ipairs(layouts(P)) do
      local x = rille.randn({7, 5}, {dtype = "f64", placement = P, sbp = sbp}):requires_grad_(true)
      local text = ("%s on %s"):format(x.sbp, tostring(P))
      local w, loss, want, list = rille.randn({7, 5}, {dtype = "f64"}), 0, rille.zeros({7, 5}, {dtype = "f64"}), {}
      for k, shard in ipairs(x:shards()) do
        local rows = {shard.offset[1], shard.offset[1] + shard.shape[1]}
        local columns = {shard.offset[2], shard.offset[2] + shard.shape[2]}
        local there = rille.placement("cpu", {shard.rank})
        local t = x:to_local(shard.rank)
        tap.is(t:totable(), x:detach():to_local(shard.rank):totable(), text .. ": a shard with a gradient has the values of the shard")
        loss = loss + (t * w[{rows, columns}]:to_global{placement = there}):sum():to_global{placement = w.placement, sbp = "B"}
        want[{rows, columns}] = want[{rows, columns}] + w[{rows, columns}]
        list[k] = x:detach():to_local(shard.rank)
      end
      tap.ok(close(rille.grad(loss, {x}):to_global{placement = w.placement, sbp = "B"}, want), text .. ": shards have gradients")
      if not x.sbp:find("B") then
        local y = rille.from_local(list, {placement = P, sbp = sbp})
        tap.is(y.sbp, x.sbp, text .. ": a tensor of its shards has the layout")
        tap.is(y:totable(), x:totable(), text .. ": a tensor of its shards has the values")
        y:add_(1)
        tap.is(list[1]:totable(), x:detach():to_local(x:shards()[1].rank):totable(), text .. ": the shards keep their values")
        -- a tensor of shards with gradients: shard k is multiplied by k
        local scaled, factor = {}, rille.zeros({7, 5}, {dtype = "f64"})
        for k, shard in ipairs(x:shards()) do
          local at = {{shard.offset[1], shard.offset[1] + shard.shape[1]}, {shard.offset[2], shard.offset[2] + shard.shape[2]}}
          scaled[k], factor[at] = x:to_local(shard.rank) * k, k
        end
        local function joined() return rille.from_local(scaled, {placement = P, sbp = sbp}) end
        local all = {placement = w.placement, sbp = "B"}
        local z = joined()
        tap.is(z.sbp, x.sbp, text .. ": a tensor of shards with gradients has the layout")
        tap.ok(close(z:to_global(all), x:to_global(all) * factor), text .. ": a tensor of shards with gradients has the values")
        tap.ok(close(rille.grad((z:to_global(all) * w):sum(), {x}):to_global(all), factor * w), text .. ": gradients pass to the shards")
        local v = x:detach():clone()
        local step = rille.graph(function(k)
          local shards = {}
          for i, shard in ipairs(v:shards()) do shards[i] = v:to_local(shard.rank) * k end
          return rille.from_local(shards, {placement = P, sbp = sbp})
        end)
        for k = 1, 2 do
          v:add_(k)
          tap.is(step(k):totable(), (v * k):totable(), text .. ": a compiled step reads the shards of each call")
        end
        tap.ok(not rille.no_grad(joined).requires_grad, text .. ": without gradients, the result requires none")
      end
    end
  end
end)

-- Comparing a local tensor by ==, and branching on one, has the same result on all ranks. Each program below is a
-- function's body in Lua, with the parameters m (mesh), t and u (local tensors). n, helper, first and table_of are
-- upvalues or globals.
tap.group("functions with a gradient of their own", function()
  local function forward(ctx, x, s) ctx:save_for_backward(x, s); return x:square() * s end
  local function backward(ctx, dy)
    local x, s = table.unpack(ctx.saved_tensors)
    return dy * s * x * 2, (dy * x:square()):sum(0)
  end
  local own = {func = rille.func{forward = forward, backward = backward},
    operator = rille.operator{name = "mine", rule = "ab,b->ab", forward = forward, backward = backward},
    formula = rille.operator{name = "mine", operands = "x, s", body = "x ^ 2 * s"}}
  local function results(fn, P, sbp, x, s)
    local inputs, outputs = {{}, {}}, {}
    for axis = 1, #P.shape do
      inputs[1][axis], inputs[2][axis], outputs[axis] = axis == 1 and sbp[1] or "B", axis == 1 and sbp[2] or "B", axis == 1 and "S(0)" or "B"
    end
    local y = rille.per_rank(function(_, a, b) return fn(a, b) end, {inputs = inputs, outputs = {outputs}})(x, s)
    local made = y:to_global{placement = P, sbp = "B"}
    return {made:totable(), rille.grad((made * made):sum(), {x, s})}
  end
  for _, P in ipairs(meshes) do
    for _, sbp in ipairs{{"B", "B"}, {"B", "S(0)"}, {"S(0)", "B"}, {"S(0)", "S(0)"}, {"S(1)", "B"}, {"S(1)", "S(0)"}} do
      local m = P.shape[1]
      local width = (sbp[1] == "S(1)" and 4 or 4 * m) * (sbp[2] == "B" and 1 or m)
      local function leaf(shape) return rille.randn(shape, {dtype = "f64", placement = P, sbp = "B"}):detach():requires_grad_(true) end
      local x, s = leaf{2 * m, 4 * m}, leaf{width}
      local want = results(function(a, b) return a:square() * b end, P, sbp, x, s)
      for kind, fn in sorted(own) do
        local got = results(fn, P, sbp, x, s)
        tap.near(got[1], want[1], ("%s of %s, %s on %s"):format(kind, sbp[1], sbp[2], tostring(P)), 1e-12, 1e-12)
        for k = 2, #want do tap.ok(close(got[k], want[k]), ("has the gradient %d of the formula"):format(k - 1)) end
      end
    end
  end
end)

tap.group("errors of functions with a gradient of their own", function()
  local P = mesh{0, 1}
  local x = rille.ones({4, 3}, {placement = P, sbp = "S(0)"}):detach():requires_grad_(true)
  for _, case in ipairs{
    {function(_, a) return a * 2 end, function() return rille.ones{4, 3} end, "mine: gradient 1 of backward must be a local tensor, as argument 1 of forward, found a tensor"},
    {function(_, a) return a * 2 end, function(_, dy) return dy[{{0, 1}}] end, "mine: a gradient must have the shape of its tensor"},
    {function(ctx, a) ctx.a = a; return a * 2 end, function(_, dy) return dy end, "ctx.a: a tensor must be kept by ctx:save_for_backward"},
  } do
    local f = rille.func{name = "mine", forward = case[1], backward = case[2]}
    tap.fails(function() rille.per_rank(function(_, a) return f(a) end, {inputs = {"S(0)"}, outputs = {"S(0)"}})(x):sum():backward() end, {case[3]}, "is an error: " .. case[3])
  end
end)

tap.group("branches", function()
  local P = mesh{0, 1}
  local x = rille.ones({4, 3}, {placement = P, sbp = "S(0)"})
  local prelude = "local n = 2; local function first(m) return m:rank() == 0 end; local function same(v) return v end; " ..
    "local function scaled(v, k) if k == 1 then return v end return v * k end " ..
    "local deep = {fn = {same = function(a, b) return a == b end}, zero = function(_, v) return v == 0 end} "
  local function try(body)
    local fn = load(prelude .. "return function(m, t, u) " .. body .. " end", "=program")()
    return pcall(rille.per_rank(fn, {inputs = {"S(0)", "S(0)"}, outputs = {"S(0)"}}), x, x)
  end
  local compared, branched, keyed = "must compare a local tensor by x:eq(y)", "must choose by c:where(a, b)", "as the key of a table"
  local wrong = {
    [compared] = {"return m:rank() == 0 and t or u", "if m:rank() ~= n - 1 then return u end return t", "local r = m:rank() if r == 0 then return u end return t",
      "local r = (m:rank() + 1) % 2 return r == 1 and t or u", "return first(m) and t or u", "return same(m:rank()) == 0 and t or u",
      "if t:sum() == 0.5 then return u end return t", "local r = m:rank() local function f() return r == 1 end return f() and t or u",
      "local function f(a) return a == 1 and t or u end return f(m:rank())", "if 0 == m:rank() then return u end return t",
      "for i = 0, 1 do if m:rank() == i then t = t * 2 end end return t", "while m:psum(t) == 0 do t = t + 1 end return t",
      "return deep.fn.same(m:rank(), 0) and t or u", "local d = deep.fn return d.same(t, 0) and t or u", "return deep:zero(t) and t or u",
      "return scaled(t, m:rank())", "if t[0] == 1 then return u end return t", "if t == u then return u end return t",
      "if -m:rank() == 0 then return u end return t", "if m:rank() // 2 == n then return u end return t"},
    [branched] = {"if m:rank():eq(0) then return t end return u", "return m:rank():eq(0) and t or u", "local c = m:rank():lt(1) if c then return u end return t",
      "while t:gt(3):all() do t = t - 1 end return t", "local c = not t:gt(0) return c and t or u"},
    [keyed] = {"return ({t, u})[m:rank()] or t", "local k = {} k[m:rank() + 1] = t return t", "local k = {2, 3} return t * (k[m:rank()] or 1)"},
  }
  for message, bodies in sorted(wrong) do
    for _, body in pairs(bodies) do
      local good, why = try(body)
      tap.ok(not good and tostring(why):find("per_rank: [^ ]*program[^ ]*:1 .*" .. message:gsub("%p", "%%%0")),
        "is refused: " .. body, why)
    end
  end
  -- correct programs, also such whose code uses a register for a number, and then for a local tensor
  for _, body in ipairs{
    "local top for i = 1, 2 do if top then t = t + top end top = t end return t", "return n == 2 and t * 2 or u",
    "local mask = n == 2 and t:gt(0) or nil if mask then t = mask:where(t, u) end return t", "local y = n == 0 and t * 2 or t return y == nil and u or y",
    "if t.shape[1] == 2 then return u end return t", "if #t == 2 and t.ndim == 2 and t:numel() == 6 then return u end return t",
    "if t.dtype == 'f32' then return u end return t", "local function f(a, b) return b == 0 and a or a * 2 end return f(t, 0) + f(u, 1)",
    "return scaled(t, 1) + scaled(u, 2)", "return deep.fn.same(n, 2) and deep.fn and t or u", "local seen = {} seen[t] = u return seen[t]", "local y = nil if y == nil then y = t end return y",
    "local k = m.placement.size if k == 2 then return t end return u", "local c = t:gt(0) return c:where(t, u)",
    "local r = 0 if n == 3 then r = m.naxis end if r == 0 then return t end return u", "return m:rank():eq(0):where(t, u)",
    "local list = {t, u} for i, v in ipairs(list) do if i == 1 then t = v end end return t", "local c = n == 2 and t:gt(0) if c then t = c:where(t, u) end return t",
  } do
    local good, why = try(body)
    tap.ok(good, "is accepted: " .. body, why)
  end
end)

-- A layout with a unit is accepted if the ranks divide the units. Value, gradient, local shape and bytes are those of the
-- layout without the unit.
tap.group("layouts with units", function()
  local split = rille.sbp.split
  local function forms(unit) -- of each entry: as text and as a value
    return {["S(0)"] = {("S(0, unit %d)"):format(unit), split(0, {unit = unit})}, ["S(1)"] = {("S(1, unit %d)"):format(unit), split(1, {unit = unit})},
      B = {"B", "B"}}
  end
  for _, P in ipairs(meshes) do
    for _, plain in ipairs(layouts(P)) do
      if not tap.share() then goto next end
      local function run(sbp)
        local x = rille.arange(128):to("f64"):reshape{8, 16}:to_global{placement = P, sbp = sbp}:detach():clone():requires_grad_()
        local shape
        local y = rille.per_rank(function(m, t)
          shape = {table.unpack(t.shape)}
          return t * (m:rank():to("f64") + 2)
        end, {inputs = {sbp}, outputs = {P.shape[2] and {plain[1] == "B" and "S(0)" or sbp[1], sbp[2]} or {plain[1] == "B" and "S(0)" or sbp[1]}}})(x)
        y:square():sum():backward()
        return {y:totable(), x.grad:totable(), shape, rille.explain(y).bytes}
      end
      local want = run(plain)
      for unit = 1, 2 do
        for form = 1, 2 do
          local sbp = {}
          for axis, entry in ipairs(plain) do sbp[axis] = forms(unit)[entry][form] end
          local name = ("%s in units of %d, form %d, on %s"):format(table.concat(plain, ", "), unit, form, tostring(P))
          tap.is(run(sbp), want, name .. ": as without units")
        end
      end
      ::next::
    end
  end
end)

tap.group("errors", function()
  local P = mesh{0, 1}
  local x = rille.zeros({6, 3}, {placement = P, sbp = "S(0)"})
  local function id(_, t) return t end
  local function run(fn, inputs, outputs, ...) return rille.per_rank(fn, {inputs = inputs, outputs = outputs})(...) end
  local cases = {
    {"axis 1 has 3 elements, which the 2 ranks of mesh axis 0 must divide", id, {"S(1)"}, {"S(1)"}, x},
    {"input 1: a layout must be S or B on each mesh axis, found P", id, {"P"}, {"B"}, x},
    {"input 1: axis 0 has 6 elements in units of 2, which the 2 ranks of mesh axis 0 must divide, because the function runs once for all ranks; pad the axis to 8",
      id, {"S(0, unit 2)"}, {"S(0)"}, x},
    {"output 1: axis 0 of the local result has 3 elements, which must be a multiple of the unit 2", id, {"S(0)"}, {"S(0, unit 2)"}, x},
    {"the unit must divide axis 1", id, {"S(0)"}, {"S(1, unit 4)"}, x},
    {"output 1 differs along mesh axis 0", id, {"S(0)"}, {"B"}, x},
    {"output 1 must be a local tensor, found 1", function() return 1 end, {"S(0)"}, {"B"}, x},
    {"output 1 is a local tensor of another call", function(m, t)
      local other
      rille.per_rank(function(_, u) other = u return u end, {inputs = {"S(0)"}, outputs = {"S(0)"}})(x)
      return other + t
    end, {"S(0)"}, {"S(0)"}, x},
    {"replicated: expected a replicated tensor, found layout S(0)", function(m) return m:replicated(x) end, {"S(0)"}, {"B"}, x},
    {"the number of results must be 2, one per entry of outputs, found 1", id, {"B"}, {"B", "B"}, x},
    {"the number of tensors must be 1, one per entry of inputs, found 2", id, {"B"}, {"B"}, x, x},
    {"all inputs must be on one placement", id, {"B", "B"}, {"B"}, x, rille.ones(2)},
    {"a local tensor has no 'conv2d'", function(_, t) return t:conv2d(t) end, {"B"}, {"B"}, x},
    {"pass it to the function as an input", function(_, t) return t + x end, {"S(0)"}, {"S(0)"}, x},
    {"an index must be a position or a range, found a local tensor", function(_, t) return t[t:gt(0)] end, {"S(0)"}, {"S(0)"}, x},
    {"add: an operand is a global tensor; pass it to the function as an input, or use mesh:replicated(x)", function(_, t) return rille.ones(3) + t end, {"S(0)"}, {"S(0)"}, x},
    {"concat: an operand is a global tensor", function(_, t) return rille.concat{x, t} end, {"S(0)"}, {"S(0)"}, x},
    {"concat: operand 2 must be a local tensor, found 1", function(_, t) return rille.concat{t, 1} end, {"S(0)"}, {"S(0)"}, x},
    {"a local tensor has no 'conv2d'", function(_, t) return rille.conv2d(t, t) end, {"B"}, {"B"}, x},
    {"position 3 is out of range: axis 0 of the local tensor has 3 entries", function(_, t) return t[3] end, {"S(0)"}, {"S(0)"}, x},
    {"an index must have at most 2 entries, one per axis of the local tensor, found 3", function(_, t) return t[{0, 0, 0}] end, {"S(0)"}, {"S(0)"}, x},
    {"cannot branch on a local tensor; choose by c:where(a, b)", function(m, t) return m:rank() < 1 and t or t end, {"S(0)"}, {"S(0)"}, x},
    {"psum: mesh axis must be in 0 to 0, found 1", function(m, t) return m:psum(t, 1) end, {"S(0)"}, {"B"}, x},
    {"the mesh has no 'pmean'", function(m, t) return m:pmean(t) end, {"S(0)"}, {"B"}, x},
    {"softmax: axis must be in -2 to 1, found 2", function(_, t) return t:softmax(2) end, {"S(0)"}, {"S(0)"}, x},
    {"tril: x must have at least 2 axes, found 1", function(_, t) return t[0]:tril() end, {"S(0)"}, {"S(0)"}, x},
    {"pad: x must have at least 3 axes, found 2", function(_, t) return t:pad{1, 1, 1, 1, 1, 1} end, {"S(0)"}, {"S(0)"}, x},
    {"softmax: axis must be in", function(_, t) return t:sum():softmax() end, {"S(0)"}, {"S(0)"}, x},
    {"exp: expected at most 0 arguments, found 1", function(_, t) return t:exp(1) end, {"S(0)"}, {"S(0)"}, x},
    {"matmul: operand 1 must be a local tensor of 2 or more axes, found 1", function(_, t) return t[0]:matmul(t) end, {"S(0)"}, {"S(0)"}, x},
    {"scan: expected a local tensor, found a tensor", function(_, t) return (rille.scan(function(h, u) return h + u end, rille.zeros{3}, t)) end, {"S(0)"}, {"S(0)"}, x},
    {"expected f32{3}, found f32{}", function(_, t) return (rille.scan(function(_, u) return u:sum() end, t[0], t)) end, {"S(0)"}, {"S(0)"}, x},
    {"expected f32{3}, found nil", function(_, t) return (rille.scan(function() end, t[0], t)) end, {"S(0)"}, {"S(0)"}, x},
    {"xs must have the axis 2, found f32{3, 3}", function(_, t) return (rille.scan(function(h) return h end, t, t, {axis = 2})) end, {"S(0)"}, {"S(0)"}, x},
    {"tables may be nested 32 deep", function(_, t)
      local s = {t[0]}
      s.me = s
      return rille.scan(function(h) return h end, s, t)
    end, {"S(0)"}, {"S(0)"}, x},
    {"register_hook: the argument must be a function", function(_, t) return t:register_hook(5) end, {"S(0)"}, {"S(0)"}, x},
    {"all_to_all: axis 1 has 3 elements", function(m, t) return m:all_to_all(t, 0, 1, 0) end, {"S(0)"}, {"S(0)"}, x},
  }
  for _, case in ipairs(cases) do
    tap.fails(function() run(case[2], case[3], case[4], table.unpack(case, 5)) end, case[1], case[1])
  end
  -- functions of rille and methods give equal results
  local forms = {
    {"concat of a list", function(t) return rille.concat{t, t * 2} end, function(t) return t:concat(t * 2) end},
    {"concat with options", function(t) return rille.concat({t, t * 2}, {axis = 1}) end, function(t) return t:concat(t * 2, 1) end},
    {"concat with a named axis in the list", function(t) return rille.concat{t, t * 2, axis = 1} end, function(t) return t:concat(t * 2, 1) end},
    {"stack of a list", function(t) return rille.stack{t, t * 2} end, function(t) return t:stack(t * 2) end},
    {"where", function(t) return rille.where(t:gt(2), t, 0.5) end, function(t) return t:gt(2):where(t, 0.5) end},
    {"clamp with a named operand", function(t) return t:clamp{max = t * 0.5} end, function(t) return t:clamp(nil, t * 0.5) end},
    {"attention", function(t) local q = t:reshape(1, 1, 3, 3) return rille.scaled_dot_product_attention(q, q, q) end,
      function(t) local q = t:reshape(1, 1, 3, 3) return q:scaled_dot_product_attention(q, q) end},
  }
  for _, form in ipairs(forms) do
    local y = {rille.per_rank(function(_, t) return form[2](t), form[3](t) end, {inputs = {"S(0)"}, outputs = {"S(0)", "S(0)"}})(x + 1)}
    tap.is(y[1]:totable(), y[2]:totable(), "a function of rille accepts local tensors: " .. form[1])
  end
  local rows = {}
  run(function(_, t) for i, row in pairs(t) do rows[i + 1] = tostring(row.shape) end return t end, {"S(0)"}, {"S(0)"}, x)
  tap.is(rows, {"{3}", "{3}", "{3}"}, "pairs visits the rows of a local tensor")
  local function shaped(fn) return tostring(run(function(_, t) return fn(t) end, {"S(0)"}, {"S(0)"}, x).shape) end
  tap.is(shaped(function(t) return t:reshape(1, 9) end), "{2, 9}", "reshape accepts sizes as arguments")
  tap.is(shaped(function(t) return t:sum():reshape(1) end), "{2}", "reshape accepts one size")
  tap.is(shaped(function(t) return t:permute(1, 0) end), "{6, 3}", "permute accepts axes as arguments")
  tap.is(shaped(function(t) return t:unsqueeze(0):expand(2, 3, 3) end), "{4, 3, 3}", "expand accepts sizes as arguments")
  local a, b = rille.ones(2, 3), rille.ones(1, 3)
  local function joined(list, sbp) return function() rille.from_local(list, {placement = P, sbp = sbp}) end end
  tap.fails(joined({a}, "S(0)"), "expected 2 tensors, one per rank, found 1", "from_local needs a tensor per rank")
  tap.fails(joined({b, a}, "S(0)"), "the shard of rank 0 must be f32{2, 3}, found f32{1, 3}", "from_local needs even shards")
  tap.fails(joined({a, a}, "B"), "the layout must be S on each mesh axis", "from_local needs a split layout")
  tap.fails(joined({a, rille.ones(2)}, "S(0)"), "all tensors must have 2 dimensions, like the first, found 1", "from_local needs equal numbers of axes")
  tap.fails(joined({a, 1}, "S(0)"), "expected a tensor, found 1", "from_local needs tensors")
  tap.fails(function() rille.from_local({a, a}) end, "expected a table {placement =, sbp =}", "from_local needs a layout")
  tap.fails(function() rille.zeros({2}, {placement = P, sbp = "P"}):requires_grad_(true):to_local(0) end, "detach the tensor first",
    "an addend has no gradient")
end)
tap.done()
