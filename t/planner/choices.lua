-- choices.lua - tests the choice of layouts as users see it: results, their layouts, and bytes moved.

local tap = dofile("t/lib/tap.lua")

local P2 = rille.placement("cpu", {0, 1})
local P4 = rille.placement("cpu", {0, 1, 2, 3})
local P22 = rille.placement("cpu", {{0, 1}, {2, 3}})

local function placed(x, placement, sbp) return rille.tensor(x:totable(), {placement = placement, sbp = sbp}) end

tap.group("two plain tensors", function()
  local x, y = rille.randn({4, 6}), rille.randn({4, 6})
  local z = placed(x, P2, "S(0)") + placed(y, P2, "S(1)")
  tap.is(z.sbp, "S(0)", "S(0) + S(1) is S(0)")
  tap.is(rille.explain(z).bytes, 48, "one operand is exchanged")
  tap.is(z:totable(), (x + y):totable(), "the sum is that of one device")
end)

-- Checks the layouts and bytes in the table of sbp/README.md.
tap.group("sums and products", function()
  local small, wide, column = rille.ones({64, 64}), rille.ones({64, 1024}), rille.ones({64})
  for _, t in ipairs{
    {"add", small, "P", small, "P", "P"}, {"add", small, "P", small, "B", "P"}, {"mul", small, "P", small, "B", "P"},
    {"add", small, "P", small, "S(0)", "S(0)"}, {"add", small, "S(1)", small, "P", "S(1)"},
    {"add", column, "P", small, "S(0)", "S(0)"}, {"matmul", small, "P", small, "B", "P"},
    {"matmul", small, "P", wide, "B", "S(0)"}, {"matmul", small, "S(1)", small, "B", "P"},
    {"matmul", small, "S(1)", small, "S(0)", "P"}, {"matmul", small, "S(0)", small, "S(0)", "S(0)"},
  } do
    local name, a, from, b, with, want = table.unpack(t)
    local y = rille[name](placed(a, P4, from), placed(b, P4, with))
    tap.is(y.sbp, want, ("%s of %s and %s is %s"):format(name, from, with, want))
  end
end)

-- Checks maxima of values that contain infinities. Ranks without an addend contribute -inf, the identity of a
-- maximum. Arithmetic with -inf would give NaN if the complete value contains an infinity.
tap.group("infinities on a mesh", function()
  local inf = math.huge
  local x = rille.tensor{{inf, 1, 2, 3}, {4, -inf, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, inf}}
  local y = rille.tensor{{1, 2, 3, 4}, {5, 6, 7, 8}, {-inf, 1, 1, inf}, {13, 14, 15, 16}}
  for _, name in ipairs{"add", "sub", "mul", "maximum", "minimum"} do
    local a = placed(x, P22, {"S(0)", "B"})
    local b = placed(y, P22, {"B", "S(0)"})
    local got = rille[name](a, b)
    tap.is(got.sbp, "(S(0), S(0))", name .. " of (S(0), B) and (B, S(0)) is (S(0), S(0))")
    tap.is(got:totable(), rille[name](x, y):totable(), name .. ": infinities are kept")
  end
end)

tap.group("moments over a split axis", function()
  local x = rille.randn({64, 1024})
  local v = placed(x, P2, "S(0)"):var{axis = 0}
  tap.is(rille.explain(v).bytes, 16384, "var moves one f64 number per column, twice")
  tap.near(v:totable(), x:var{axis = 0}:totable(), "var on a split axis is the variance", 1e-4, 1e-5)
end)

-- Checks operators that combine all elements of a row. If rows are split, each rank computes its shard of a row, and
-- ranks exchange a few numbers per row instead of the row. (The mean is f64, so that values far from 0 keep their
-- precision.)
tap.group("rows split across devices", function()
  local x, w, b = rille.randn({64, 1024}), rille.randn({1024}), rille.randn({1024})
  local function run(f, placement)
    local function leaf(t, sbp)
      local l = placement and placed(t, placement, sbp) or placed(t, rille.placement("cpu", {0}), "B")
      l.requires_grad = true
      return l
    end
    local p, q, r = leaf(x, "S(1)"), leaf(w, "S(0)"), leaf(b, "S(0)")
    local y = f(p, q, r);
    (y * y:sigmoid()):sum():backward()
    return y, {p.grad:totable(), q.grad and q.grad:totable(), r.grad and r.grad:totable()}
  end
  for _, t in ipairs{
    {"softmax", 3072, function(p) return p:softmax(-1) end},
    {"log_softmax", 3072, function(p) return p:log_softmax(-1) end},
    {"layer_norm", 3072, function(p, q, r) return rille.layer_norm(p, q, r) end},
    {"layer_norm without weight", 3072, function(p) return rille.layer_norm(p) end},
    {"rms_norm", 1536, function(p, q) return rille.rms_norm(p, q) end},
    {"softmax of halves", 3072, function(p) return p:to("bf16"):softmax(-1):to("f32") end},
  } do
    local name, bytes, f = table.unpack(t)
    local y, g = run(f, P4)
    local one, dx = run(f)
    local rough = name:find("halves") and 0.02 or 1e-4
    tap.is({y.sbp, rille.explain(y).bytes}, {"S(1)", bytes}, ("%s moves %d bytes"):format(name, bytes))
    tap.near(y:totable(), one:totable(), name .. ": values are those of one device", rough, 1e-5)
    tap.near(g, dx, name .. ": gradients are those of one device", 10 * rough, rough)
  end
  local narrow = placed(rille.randn({64, 8}), P4, "S(1)"):softmax(-1)
  tap.is({narrow.sbp, #rille.explain(narrow).ops}, {"S(0)", 1}, "short rows are moved, not computed in parts")
  local inf = math.huge
  local odd = rille.ones({4, 64}):totable()
  odd[1][3], odd[2][3], odd[3][5] = inf, -inf, 3.3e38
  for k = 1, 64 do odd[4][k] = -inf end
  for _, name in ipairs{"softmax", "log_softmax"} do
    local got = placed(rille.tensor(odd), P2, "S(1)")
    tap.near(rille[name](got, -1):totable(), rille[name](rille.tensor(odd), -1):totable(),
             name .. " of infinities is that of one device", 1e-5, 1e-6)
  end
end)

-- Splits keys and values along the keys. Each rank computes attention over its shard of the keys; a few numbers per
-- query move, but no keys.
tap.group("attention over split keys", function()
  for _, rows in ipairs{1, 128} do
    local shape = {{2, 2, rows, 8}, {2, 2, 192, 8}, {2, 2, 192, 8}}
    local data, masks = {}, {bool = rille.rand{rows, 192}:gt(0.3), float = rille.randn{rows, 192}}
    for i = 1, 3 do data[i] = rille.randn(shape[i]) end
    local function run(placement, cut, mask, causal)
      local leaf = {}
      for i = 1, 3 do
        leaf[i] = placed(data[i], placement, i > 1 and cut or "B")
        leaf[i].requires_grad = true
      end
      local m = masks[mask] and placed(masks[mask], placement, "B")
      local y = rille.scaled_dot_product_attention(leaf[1], leaf[2], leaf[3], m, {is_causal = causal})
      local bytes = rille.explain(y).bytes;
      (y * y:sigmoid()):sum():backward()
      return {y:totable(), leaf[1].grad:totable(), leaf[2].grad:totable(), leaf[3].grad:totable()}, bytes
    end
    for _, how in ipairs{{}, {nil, true}, {"bool"}, {"float"}, {"bool", true}} do
      local want = run(rille.placement("cpu", {0}), "B", how[1], how[2])
      local got, bytes = run(P4, "S(2)", how[1], how[2])
      local name = ("%d queries%s%s"):format(rows, how[1] and ", a mask of " .. how[1] or "", how[2] and ", causal" or "")
      tap.near(got, want, name .. ": values and gradients of one device", 1e-3, 1e-4)
      if not how[1] then tap.ok(bytes <= 2 * 2 * rows * 4 * 3 * 2 * 3, name .. ": at most three numbers per query move, there and back") end
    end
  end
end)

tap.group("gradient descent on a split parameter", function()
  for _, how in ipairs{{}, {momentum = 0.9}, {weight_decay = 0.1}, {momentum = 0.9, nesterov = true}} do
    local w = rille.ones({64, 8}, {placement = P4, sbp = "S(0)", requires_grad = true})
    local opt = rille.optim.SGD({w}, {lr = 0.5, momentum = how.momentum, weight_decay = how.weight_decay,
                                      nesterov = how.nesterov})
    local step = tap.training(opt, function(x) return (w * x):sum() end)
    step(rille.ones({64, 8}, {placement = P4, sbp = "S(0)"}))
    local what = next(how) and next(how) or "plain"
    tap.is(step:explain().bytes, 0, what .. ": a step moves nothing")
    tap.is(w.sbp, "S(0)", what .. ": the parameter stays split")
    tap.near(w[63][7]:item(), how.weight_decay and 0.45 or how.nesterov and 0.05 or 0.5, what .. ": the parameter is updated",
             1e-6)
  end
end)

tap.group("partial values on an axis of one rank", function()
  local one, x = rille.placement("cpu", {0}), rille.tensor{1, 2, 3}
  for _, from in ipairs{"P", "P(max)", "P(min)"} do
    for _, to in ipairs{"P", "P(max)", "P(min)"} do
      local y = placed(x, one, from):to_global{placement = P2, sbp = to}
      tap.is({y.sbp, y:totable()}, {to, {1, 2, 3}}, ("%s of one rank becomes %s of two"):format(from, to))
    end
  end
end)

tap.group("pending reductions", function()
  local a = rille.ones({16, 16}, {placement = P4, sbp = "S(0)"})
  local op = rille.explain(a:matmul(a * 2)).ops[2]
  tap.is({op.candidates[1].bytes, op.candidates[1].owed}, {3072, 0}, "the chosen product has no pending reduction")
  local p
  for _, c in ipairs(op.candidates) do if c.outputs[1] == "P" then p = c end end
  tap.is({p.bytes, p.owed}, {768, 3072}, "the partial candidate moves less and has a pending reduction")
  tap.ok(tostring(rille.explain(a:matmul(a * 2))):find("768 bytes moved, 3072 pending", 1, true), "the text of explain() shows both numbers")
end)

tap.group("operators that need the sum of a partial value", function()
  local inf = math.huge
  local P3 = rille.placement("cpu", {0, 1, 2})
  -- In each case, two of three ranks have no elements. They contribute the identity of the reduction, an infinity.
  for name, sign in pairs{max = 1, min = -1} do
    local one = rille.full({1, 2}, 3):max{axis = 0}
    local x = rille.full({1, 2}, 3, {placement = P3, sbp = "S(0)"})
    x = x[name](x, {axis = 0})
    for _, c in ipairs{{"+", function(v) return v + sign * inf end}, {"-", function(v) return v - -sign * inf end},
                       {"from", function(v) return -sign * inf - v end}} do
      tap.is(c[2](x):totable(), c[2](one):totable(), name .. " " .. c[1] .. " infinity")
    end
  end
  local two = rille.placement("cpu", {0, 1})
  local function product(place, a, b)
    local x = rille.tensor({{2000000000, 2000000000}}, {dtype = "i32", placement = place, sbp = a})
    return x:matmul(rille.tensor({{1}, {1}}, {dtype = "i32", placement = place, sbp = b}))
  end
  local many, alone = product(two, "S(1)", "S(0)"), product(rille.placement("cpu", {0}), "B", "B")
  tap.is(many.sbp, "P", "a product of integers over a split axis is partial")
  for name, f in pairs{i64 = function(v) return v:to"i64" end, f64 = function(v) return v:to"f64" end,
                       half = function(v) return v / 2 end, cumsum = function(v) return v:cumsum(0) end,
                       scaled = function(v) return v * 2.5 end, u8 = function(v) return v:to"u8" end} do
    tap.is(f(many):totable(), f(alone):totable(), "a sum beyond 32 bits is as on one device:  " .. name)
  end
end)

-- Checks what explain() reports about an operator: the shape of its results, and the largest shard that a rank has.
tap.group("the largest shard of a rank", function()
  local wrong, tried = {}, 0
  local P, Q = rille.placement("cpu", {0, 1, 2}), rille.placement("cpu", {{0, 1, 2}, {3, 4, 5}})
  for rows = 0, 13 do
    for _, how in ipairs{{P, "B"}, {P, "S(0)"}, {P, "S(1)"}, {P, "P"}, {Q, {"S(0)", "S(1)"}}, {Q, {"S(0)", "S(0)"}},
      {Q, {"S(0)", "S(0)", order = {1, 0}}}, {Q, {"P", "S(1)"}}} do
      local y = -rille.zeros({rows, 5}, {placement = how[1], sbp = how[2]})
      local most, result = {0, 0}, rille.explain(y).ops[1].results[1]
      for _, shard in ipairs(y:shards()) do
        for d = 1, 2 do most[d] = math.max(most[d], shard.shape[d]) end
      end
      tried = tried + 1
      if table.concat(result.part, " ") ~= table.concat(most, " ") or table.concat(result.shape, " ") ~= rows .. " 5" then
        wrong[#wrong + 1] = ("%d rows, %s: %s, not %s"):format(rows, y.sbp, table.concat(result.part, " "), table.concat(most, " "))
      end
    end
  end
  tap.is(wrong, {}, ("%d layouts: the largest shard is that of shards()"):format(tried))
  local function text(n, sbp) return tostring(rille.explain(-rille.zeros({n, 5}, {placement = P, sbp = sbp}))) end
  tap.ok(text(6, "S(0)"):find("each rank has {2, 5} of {6, 5}", 1, true) and text(7, "S(0)"):find("a rank has at most {3, 5} of {7, 5}", 1, true)
    and text(6, "B"):find("each rank has all of {6, 5}", 1, true), "the text of explain() shows the largest shard", text(7, "S(0)"))
  local parts = rille.topk(rille.zeros({6, 5}, {placement = P, sbp = "S(0)"}), 2)
  tap.is(#rille.explain(parts).ops[1].results, 2, "explain() lists each result of topk")
end)

tap.done()
