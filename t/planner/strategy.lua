-- strategy.lua - tests that a sharding strategy applies to its own operator, for any operands and any method of
-- choosing layouts.
--
-- The operator must have the requested layouts and compute the values of one device. If a view is recreated from a
-- moved value, the strategy of the call does not apply to the view. Operators of an expanded call are split like the
-- call's operand.

local tap = dofile("t/lib/tap.lua")

local P <const> = rille.placement("cpu", {0, 1, 2, 3})

local function whole(shape, sbp, place)
  return rille.randint(-2, 3, shape, {placement = place or P, sbp = sbp}):to("f32"):detach()
end

rille.manual_seed(5)
local strategies = {{{{4, 1}, {1, 1}}, {"S(0)", "B"}}, {{{1, 4}, {4, 1}}, {"S(1)", "S(0)"}}, {{{1, 1}, {1, 4}}, {"B", "S(1)"}}}
local modes = {{"eager choice", {}}, {"planned", {auto_parallel = true}}, {"greedy", {auto_parallel = "greedy"}},
  {"propagate", {auto_parallel = "propagate"}}}

for _, sbp in ipairs{"S(0)", "S(1)", "B"} do
  local a, square, wide = whole({8, 8}, sbp), whole({8, 8}, sbp), whole({8, 16}, sbp)
  local operands = {
    {"a leaf", function() return square end},
    {"a sum", function() return square + 1 end},
    {"a slice", function() return wide:slice(1, 0, 8) end},
    {"a slice that leaves devices out", function() return wide:reshape{16, 8}:slice(0, 0, 8) end},
    {"a transpose", function() return square:transpose(0, 1) end},
    {"a transposed slice", function() return wide:slice(1, 8, 16):transpose(0, 1) end},
    {"a cast", function() return square:to("bf16"):to("f32") end},
    {"a move", function() return square:to_global{sbp = "S(1)"} end},
  }
  for _, operand in ipairs(operands) do
    for side = 1, 2 do
      local function product(strategy)
        local x, y = a, operand[2]()
        if side == 1 then x, y = y, x end
        return x:matmul(y, {strategy = strategy})
      end
      local want = product():totable()
      for _, mode in ipairs(modes) do
        for _, s in ipairs(strategies) do
          if not tap.share() then goto next2 end
          local what = ("%s of %s as operand %d, %s as %s by %s"):format(operand[1], sbp, side, mode[1], s[2][1], s[2][2])
          local step = rille.graph(function() return product(s[1]) end, mode[2])
          local good, got = pcall(step)
          local found
          for _, op in ipairs(good and step:explain().ops or {}) do
            if op.name == "matmul" then found = op.inputs end
          end
          tap.ok(good, what, got)
          tap.is(found, s[2], what .. ": has the requested layouts")
          tap.is(good and got:totable(), want, what .. ": right values")
          ::next2::
        end
      end
    end
  end
end

-- Checks an autocast product: its operands are casts, and the casts have no strategy.
for _, mode in ipairs(modes) do
  local a, b = whole({8, 8}, "S(0)"), whole({8, 16}, "S(0)")
  local step = rille.graph(function()
    return rille.autocast("bf16", function() return a:matmul(b:slice(1, 0, 8), {strategy = {{1, 4}, {4, 1}}}) end)
  end, mode[2])
  step()
  for _, op in ipairs(step:explain().ops) do
    if op.name == "matmul" then tap.is(op.inputs, {"S(1)", "S(0)"}, "autocast, " .. mode[1]) end
  end
end

-- Checks a norm. If the strategy splits the normalised axis, the norm must be computed in parts, each split as
-- requested, even if that costs more. Without such a strategy it must stay in one piece.
local GRID <const> = rille.placement("cpu", {{0, 1}, {2, 3}})
local W, C = whole({256}, "B") / 4, whole({256}, "B")
local norms = {
  softmax = function(x, s) return x:softmax(1, {strategy = s and {s}}) end,
  log_softmax = function(x, s) return x:log_softmax(1, {strategy = s and {s}}) end,
  rms_norm = function(x, s, w) return x:rms_norm(w, {strategy = s and {s, w and {s[2]}}}) end,
  layer_norm = function(x, s, w, c) return x:layer_norm(w, c, {strategy = s and {s, w and {s[2]}, c and {1}}}) end,
}
local cuts = {
  {P, {"S(1)", "S(0)", "B"}, {{1, 4}, {4, 1}, {1, 1}}},
  {GRID, {{"S(0)", "S(1)"}, {"B", "S(1)"}}, {{2, 2}, {1, 2}, {1, 4}}},
}

-- Returns the number of shards along an axis of a layout.
local function pieces(place, text, axis)
  local n, at = 1, 0
  for entry in text:gmatch("[%u][^,%s%)]*%)?") do
    at = at + 1
    if entry == ("S(%d)"):format(axis) then n = n * place.shape[at] end
  end
  return n
end

for name, f in pairs(norms) do
  for _, cut in ipairs(cuts) do
    local place, weighted = cut[1], {false}
    local alike = place == GRID and {"B", "B"} or "B"
    if name:find("norm") and name ~= "log_softmax" then weighted[2] = true end
    for _, sbp in ipairs(cut[2]) do
      for _, s in ipairs(cut[3]) do
        for _, with in ipairs(weighted) do
          if not tap.share() then goto next1 end
          local x = whole({8, 256}, "B"):to_global{placement = place, sbp = sbp}:detach():requires_grad_()
          local w = with and W:to_global{placement = place, sbp = alike} or nil
          local c = with and name == "layer_norm" and C:to_global{placement = place, sbp = alike} or nil
          local function run(s)
            local y = f(x, s, w, c)
            local g = rille.grad((y * y * y):sum(), x)
            return y, g
          end
          local want, slope = run()
          local function near(a, b) return (a - b):abs():max():item() <= 1e-4 * (1 + b:abs():max():item()) end
          for m = 0, #modes do
            local what = ("%s of %s%s, %s, {%d, %d}: "):format(name, type(sbp) == "table" and table.concat(sbp, ", ") or sbp,
              with and " with a weight" or "", m == 0 and "eager" or modes[m][1], s[1], s[2])
            local good, y, g = pcall(m == 0 and run or rille.graph(function() return run(s) end, modes[m][2]), s)
            tap.ok(good and near(y, want) and near(g, slope), what .. "right values and gradient", y)
            if m > 0 then
              local step, wrong = rille.graph(function() return f(x:detach(), s, w, c) end, modes[m][2]), nil
              step()
              for _, op in ipairs(step:explain().ops) do
                if op.results[1].shape[2] == 256 then
                  for d = 1, 2 do
                    if pieces(place, op.inputs[1], d - 1) ~= s[d] then wrong = op.name .. " reads " .. op.inputs[1] end
                  end
                end
                if (op.name == name) ~= (s[2] == 1) then wrong = "there is " .. op.name end
              end
              tap.ok(not wrong, what .. "split as requested", wrong)
            end
          end
          ::next1::
        end
      end
    end
  end
end

-- Checks a call that expands into several operators. The strategy states how the call's operands are split; the
-- operators must be split in the same way, by the letters of their rules.
do
  local y, ids = whole({8, 256}, "S(0)"), rille.randint(0, 256, {8}, {placement = P, sbp = "B"})
  local made = {
    mean = function(x, s) return x:mean(1, {strategy = s and {s}}) end,
    ["mean of all"] = function(x, s) return x:mean({strategy = s and {s}}) end,
    var = function(x, s) return x:var(1, {strategy = s and {s}}) end,
    logsumexp = function(x, s) return x:logsumexp(1, {strategy = s and {s}}) end,
    mse_loss = function(x, s) return x:mse_loss(y, {strategy = s and {s, s}}) end,
    pow = function(x, s) return x:pow(3, {strategy = s and {s}}) end,
    cross_entropy = function(x, s) return x:cross_entropy(ids, {strategy = s and {s, {s[1]}}}) end,
  }
  for name, f in pairs(made) do
    for _, sbp in ipairs{"B", "S(0)", "S(1)"} do
      for _, s in ipairs{{1, 1}, {4, 1}, {1, 4}} do
        local x = whole({8, 256}, sbp)
        local want = f(x)
        for m = 0, #modes do
          local what = ("%s of %s, %s, {%d, %d}: "):format(name, sbp, m == 0 and "eager" or modes[m][1], s[1], s[2])
          local step = m > 0 and rille.graph(function() return f(x, s) end, modes[m][2])
          local good, got = pcall(step or f, x, s)
          tap.ok(good and (got - want):abs():max():item() <= 1e-4 * (1 + want:abs():max():item()), what .. "right values", got)
          local found = not step
          for _, op in ipairs(good and step and step:explain().ops or {}) do
            for _, text in ipairs(op.inputs) do
              found = found or (pieces(P, text, 0) == s[1] and pieces(P, text, 1) == s[2])
            end
          end
          tap.ok(found, what .. "an operator reads the operand split as requested")
        end
      end
    end
  end
end

-- Requests by a strategy that the keys of attention are split. The call is one operator or, for few queries, two
-- products and a softmax. Each of these must be split like the call's operands. Covers masks in any layout, and split
-- queries and keys.
local function operand(shape, place, sbp)
  local x = whole(shape, "B"):to_global{placement = place, sbp = sbp} / 4
  return x:detach():requires_grad_()
end
local NONE <const> = {P, "B", {1, 1, 1, 1}, {1, 1, 1, 1}}
local attention_cuts = {
  NONE,
  {P, "B", {1, 1, 1, 1}, {1, 1, 4, 1}},
  {P, "S(0)", {1, 1, 1, 1}, {1, 1, 4, 1}},
  {P, "S(2)", {1, 1, 1, 1}, {1, 1, 4, 1}},
  {P, "S(2)", {1, 1, 4, 1}, {1, 1, 1, 1}},
  {GRID, {"B", "B"}, {1, 1, 1, 1}, {1, 1, 2, 1}},
  {GRID, {"S(1)", "S(2)"}, {1, 2, 1, 1}, {1, 2, 2, 1}},
  {GRID, {"S(2)", "S(2)"}, {1, 1, 2, 1}, {1, 1, 2, 1}},
  {GRID, {"S(2)", "B"}, {1, 1, 1, 1}, {1, 1, 4, 1}},
  {GRID, {"S(0)", "S(1)"}, {2, 1, 1, 1}, {2, 1, 2, 1}},
}
for _, length in ipairs{16, 128} do
  for _, cut in ipairs(attention_cuts) do
    local place, sbp, pieces_q, pieces_k = table.unpack(cut)
    local q, k, v = operand({4, 4, length, 16}, place, sbp), operand({4, 4, 256, 16}, place, sbp), operand({4, 4, 256, 16}, place, sbp)
    local at = {placement = place, sbp = type(sbp) == "table" and {"B", "S(1)"} or "S(0)"}
    -- masks in which all queries see key 0
    local masks = {false, (rille.rand({length, 256}, at) * rille.arange(256, {placement = place}):to("f32")):lt(2)}
    for _, causal in ipairs{false, true} do
      for _, mask in ipairs(masks) do
        if not tap.share() then goto next0 end
        local list = {pieces_q, pieces_k, pieces_k}
        if mask then list[4] = {pieces_q[3], pieces_k[3]} end
        local function run(strategy)
          local y = rille.scaled_dot_product_attention(q, k, v, mask or nil, {is_causal = causal, strategy = strategy})
          return y, rille.grad((y * y * y):sum(), k)
        end
        local want, slope = run()
        local function near(a, b) return (a - b):abs():max():item() <= 1e-4 * (1 + b:abs():max():item()) end
        for m = 0, #modes do
          local what = ("attention of %d queries on %s%s%s, %s, {%s} and {%s}: "):format(length, type(sbp) == "table" and table.concat(sbp, ", ") or sbp,
            causal and ", causal" or "", mask and ", masked" or "", m == 0 and "eager" or modes[m][1], table.concat(pieces_q, ", "), table.concat(pieces_k, ", "))
          local good, y, g = pcall(m == 0 and run or rille.graph(function() return run(list) end, modes[m][2]), list)
          tap.ok(good and near(y, want) and near(g, slope), what .. "right values and gradient", y)
          if m > 0 then
            local step, wrong, products = rille.graph(function() return (run(list)) end, modes[m][2]), nil, 0
            step()
            for _, op in ipairs(step:explain().ops) do
              if op.name == "matmul" then
                products = products + 1
                -- split axis of the second operand of a product: the keys are transposed, the values are not
                local axis = products == 1 and 3 or 2
                if pieces(place, op.inputs[2], axis) ~= pieces_k[3] or pieces(place, op.inputs[1], 2) ~= pieces_q[3] then
                  wrong = "product " .. products .. " reads " .. table.concat(op.inputs, " and ")
                end
              end
            end
            local parts = length < 128 or pieces_k[3] > 1
            tap.ok(not wrong and products == (parts and 2 or 0), what .. "split as requested", wrong or products .. " products")
          end
        end
        ::next0::
      end
    end
  end
end

local function strategies(step) return tap.list(step:hints(), function(h) return h.what:match(".* strategy$") end) end

do
  local q, k = operand({4, 4, 16, 16}, P, "B"), operand({4, 4, 256, 16}, P, "B")
  local whole_q, cut_k = {1, 1, 1, 1}, {1, 1, 4, 1}
  local function attention(list) return function() return rille.scaled_dot_product_attention(q, k, k, {strategy = list}) end end
  tap.fails(attention{whole_q, {1, 1, 3, 1}, {1, 1, 3, 1}}, "fits no layout", "four devices cannot split keys into three")
  tap.fails(attention{{1, 1, 4, 1}, cut_k, cut_k}, "matmul: strategy {{1, 1, 4, 1}, {1, 1, 1, 4}} fits no layout",
    "four devices cannot split queries and keys into four each")
  tap.fails(attention{whole_q, cut_k}, "one list for each operand", "attention needs lists for q, k and v")
  local step = rille.graph(attention{whole_q, cut_k, cut_k}, {auto_parallel = true})
  step()
  tap.is(strategies(step), {"scaled_dot_product_attention strategy"}, "the strategy of attention is one hint that names the call")
end

do
  local x = whole({8, 256}, "S(1)")
  tap.fails(function() return x:softmax(1, {strategy = {{1, 3}}}) end, "strategy {{1, 3}} fits no layout", "four devices cannot split into three")
  tap.fails(function() return x:softmax(1, {strategy = {{1, 4}, {1}}}) end, "one list for each operand", "the number of lists must be the number of operands")
  local step = rille.graph(function() return x:softmax(1, {strategy = {{1, 4}}}) end, {auto_parallel = true})
  step()
  tap.is(strategies(step), {"softmax strategy"}, "the strategy of a call in parts is one hint that names the call")
end
-- Checks split() and chunk(): they return slices, each split as requested.
do
  local x = whole({8, 16}, "S(0)")
  local calls = {
    split = function(s) return x:split(4, 1, {strategy = s}) end, chunk = function(s) return x:chunk(4, {axis = 1, strategy = s}) end,
    ["split by sizes"] = function(s) return rille.split(x, {4, 8, 4}, {axis = -1, strategy = s}) end,
  }
  tap.fails(function() return x:split(4, 1, {axis = 1}) end, "split: axis is given twice", "an axis that is given twice is refused")
  for name, call in pairs(calls) do
    local want = call()
    for _, s in ipairs{{{4, 1}, "S(0)"}, {{1, 1}, "B"}} do
      local step = rille.graph(function() return table.unpack(call{s[1]}) end, {auto_parallel = true})
      local got = {step()}
      for k, y in ipairs(want) do tap.is(got[k]:totable(), y:totable(), ("%s %d as %s: right values"):format(name, k, s[2])) end
      local n = tap.sum(step:explain().ops, function(op) return (op.name == "slice" and op.inputs[1] == s[2] and 1 or 0) end)
      tap.is(n, #want, name .. " as " .. s[2] .. ": each slice reads that layout")
    end
    tap.fails(function() return call{{3, 1}} end, "slice: strategy {{3, 1}} fits no layout", name .. ": four devices cannot split into three")
    tap.fails(function() return call(3) end, {name:match("%a+") .. ": strategy must be a list with one list of numbers for each operand", "f32{8, 16}"},
      name .. ": a strategy that is no list is refused")
  end
end

-- Tries calls that are removed from the program, because they do not change their operand or because they undo an
-- earlier call. The operand of such a call must still get the layout that the call's strategy requests.
do
  local calls = {
    permute = function(x, s) return x:permute({0, 1}, {strategy = s}) end,
    reshape = function(x, s) return x:reshape({8, 8}, {strategy = s}) end,
    transpose = function(x, s) return x:transpose(0, 1):transpose(0, 1, {strategy = s}) end,
    dropout = function(x, s) return x:dropout(0.5, false, {strategy = s}) end,
    expand = function(x, s) return x:expand({8, 8}, {strategy = s}) end,
    squeeze = function(x, s) return x:squeeze{strategy = s} end,
  }
  for _, dtype in ipairs{"f32", "bf16", "i64", "bool"} do
    calls["cast " .. dtype] = function(x, s) return x:to(dtype):cast(dtype, {strategy = s}) end
  end
  local asked = {{{4, 1}, "S(0)", "S(1)"}, {{1, 4}, "S(1)", "S(0)"}, {{1, 1}, "B", "B"}}
  for name, f in pairs(calls) do
    local word = name:match("^%a+")
    for _, sbp in ipairs{"B", "S(0)", "P"} do
      local x = whole({8, 8}, sbp)
      local want = f(x):totable()
      for _, s in ipairs(asked) do
        for m = 0, #modes do
          local what = ("%s of %s, %s, {%d, %d}: "):format(name, sbp, m == 0 and "eager" or modes[m][1], s[1][1], s[1][2])
          local function run() return f(x + 0, {s[1]}) end
          local step = m > 0 and rille.graph(run, modes[m][2])
          local good, y = pcall(step or run)
          tap.is(good and y:totable() or y, want, what .. "right values")
          if step then
            local ops = good and step:explain().ops or {}
            local op = ops[#ops]
            local is = name == "dropout" and "reshape" or word
            tap.ok(op and op.name == is and op.inputs[1] == s[2], what .. "has the requested layout", op and op.inputs[1])
          elseif good then
            tap.is(y.sbp, s[name == "transpose" and 3 or 2], what .. "has the requested layout")
          end
        end
      end
      tap.fails(function() return f(x, {{3, 1}}) end, {word, "strategy {{3, 1}} fits no layout"}, name .. ": four devices cannot split into three")
      tap.fails(function() return f(x, {{4}}) end, {word, "one number for each axis"}, name .. ": a list with too few numbers is refused")
    end
  end
  local x = whole({8, 8}, "B")
  for m = 1, #modes do
    local step = rille.graph(function() return (x + 0):transpose(0, 1, {strategy = {{4, 1}}}):transpose(0, 1) end, modes[m][2])
    local y = step()
    local op = step:explain().ops[2]
    tap.ok(op.name == "transpose" and op.inputs[1] == "S(0)", modes[m][1] .. ": the undone call has the requested layout")
    tap.is(y:totable(), x:totable(), modes[m][1] .. ": the values are unchanged")
  end
end

-- Checks that a view has the requested layout, whoever reads it. Two equal calls may become one only if their
-- strategies are equal.
do
  local x = whole({8, 12}, {"S(1)", "S(0)"}, GRID)
  local z = whole({12, 8}, {"S(0)", "S(1)"}, GRID)
  local readers = {
    move = function(t) return t:to_global{sbp = {"S(0)", "S(1)"}}:exp() end, sum = function(t) return t + z end,
    gradient = function(t) return (t * z):square():sum() end,
  }
  for name, reader in pairs(readers) do
    for _, s in ipairs{{{1, 1}, "(B, B)"}, {{1, 2}, "(B, S(1))", "(S(1), B)"}, {{4, 1}, "(S(0), S(0))"}} do
      for _, mode in ipairs(modes) do
        local step = rille.graph(function() return reader(x:tanh():transpose(0, 1, {strategy = {s[1]}})) end, mode[2])
        step()
        local found
        for _, op in ipairs(step:explain().ops) do found = op.name == "transpose" and op.inputs[1] or found end
        local what = ("a view read by a %s, %s, {%d, %d}: has the requested layout"):format(name, mode[1], s[1][1], s[1][2])
        tap.ok(found == s[2] or found == s[3], what, found)
      end
    end
  end
  local a, w = whole({64, 64}, "B"), whole({64, 64}, "B")
  local alone, cut, same = {nil, {{1, 1}, {1, 1}}}, {{{4, 1}, {1, 1}}, {{1, 1}, {1, 1}}}, {{{1, 1}, {1, 1}}, {{1, 1}, {1, 1}}}
  for _, mode in ipairs(modes) do
    for _, pair in ipairs{{alone[2]}, {nil, alone[2]}, cut, same} do
      local step = rille.graph(function()
        local x = a:matmul(w, {strategy = pair[1]})
        return x:exp():sum{axis = 0} + a:matmul(w, {strategy = pair[2]}):tanh():sum{axis = 0}
      end, mode[2])
      step()
      local layouts, products = {}, 0
      for _, op in ipairs(step:explain().ops) do
        if op.name == "matmul" then
          products = products + 1
          layouts[table.concat(op.inputs, " ")] = true
        end
      end
      local what = ("two equal calls, %s: "):format(mode[1])
      tap.ok(layouts["B B"] and (pair ~= cut or layouts["S(0) B"]), what .. "each has its requested layouts")
      tap.ok(products <= (pair == same and 1 or 2), what .. "equal strategies make one call", products)
    end
  end
end
tap.done()
