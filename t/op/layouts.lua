-- layouts.lua - tests every operator, also composites, in random layouts on 2, 3, 4, 2x2 and 2x3 devices: values,
-- gradients and second gradients must be those of one device.
--
-- Sizes are odd, so that shards are uneven and some are empty. t/op/sound.c proves signatures one by one on the
-- reference; this test runs the whole system: choice of layouts, boxing (redistribution), kernels.
local tap = dofile("t/lib/tap.lua")

local seed = tonumber(os.getenv("SEED")) or 1
math.randomseed(seed)
tap.diag("SEED=" .. seed)
local R = math.random
local function pick(list) return list[R(#list)] end

local meshes = {
  {"2", {1, 0}}, {"3", {0, 1, 2}}, {"4", {0, 1, 2, 3}}, {"2x2", {{0, 1}, {2, 3}}}, {"2x3", {{4, 0, 2}, {5, 3, 1}}},
}
local ROUNDS = 2

-- ---- operands ----

local function sizes(n, low, high) return tap.list(n, function() return R(low or 1, high or 7) end) end
local function reals(shape, low, high) return {shape = shape, dtype = "f64", low = low or -2, high = high or 2} end
local function whole(shape, low, high) return {shape = shape, dtype = "i64", low = low, high = high} end
local function truth(shape) return {shape = shape, dtype = "bool"} end
local function ids(shape, below) return {shape = shape, dtype = pick{"i64", "i32"}, below = below} end

-- Returns two shapes that can be broadcast together.
local function two_shapes()
  local a, b = {}, {}
  for i = 1, R(1, 3) do
    local n, which = R(1, 7), R(5)
    a[i], b[i] = which == 1 and 1 or n, which == 2 and 1 or n
  end
  if R(3) == 1 then table.remove(b, 1) end
  return a, b
end

local function values(o)
  local function part(axis)
    if axis > #o.shape then
      if o.below then return R(0, o.below - 1) end
      if o.dtype == "bool" then return R(2) == 1 end
      if o.dtype == "i64" then return R(o.low, o.high) end
      return o.low + (o.high - o.low) * R()
    end
    return tap.list(o.shape[axis], function() return part(axis + 1) end)
  end
  return part(1)
end

-- ---- cases: functions that return an operator call and random operands ----

local case = {}

local positive = {log = true, sqrt = true, rsqrt = true, reciprocal = true}
for op in ([[neg abs exp log sqrt rsqrt square reciprocal sin cos tanh sigmoid relu gelu silu softplus erf sign floor ceil
    round]]):gmatch"%S+" do
  case[op] = function() return rille[op], reals(sizes(R(0, 3)), positive[op] and 0.3 or -2, 3) end
end
for op in ("add sub mul maximum minimum eq ne lt le gt ge"):gmatch"%S+" do
  case[op] = function()
    local a, b = two_shapes()
    return rille[op], reals(a), reals(b)
  end
end
for op in ("div pow"):gmatch"%S+" do
  case[op] = function()
    local a, b = two_shapes()
    return rille[op], reals(a, 0.5, 2), reals(b, 0.5, 2)
  end
end
for op in ("logical_and logical_or"):gmatch"%S+" do
  case[op] = function()
    local a, b = two_shapes()
    return rille[op], truth(a), truth(b)
  end
end
function case.logical_not() return rille.logical_not, truth(sizes(2)) end
function case.where()
  local a, b = two_shapes()
  return rille.where, truth(pick{a, b}), reals(a), reals(b)
end
function case.clamp()
  local low, high = pick{-1, -0.5}, pick{0.5, 1}
  return function(x) return x:clamp(low, high) end, reals(sizes(R(1, 3)))
end
function case.cast()
  local to = pick{"f32", "f64"}
  return function(x) return x:to(to) end, reals(sizes(2))
end
function case.dropout() return function(x) return x:dropout(0.5, false) end, reals(sizes(2)) end

function case.matmul()
  local m, k, n, b = R(7), R(7), R(7), R(4)
  local one, two = table.unpack(pick{{{m, k}, {k, n}}, {{b, m, k}, {b, k, n}}, {{b, m, k}, {k, n}}, {{k}, {2, k, n}},
    {{3, 1, m, k}, {2, k, n}}})
  return rille.matmul, reals(one), reals(two)
end

for op in ("sum mean max min var logsumexp any all prod argmax argmin"):gmatch"%S+" do
  case[op] = function()
    local n = R(3)
    local axis = (op == "prod" or op:find"arg") and R(-n, n - 1) or pick{{R(-n, n - 1)}, {0, n > 1 and n - 1 or nil}}
    local options = {axis = axis, keepdim = R(2) == 1}
    local shape = sizes(n, op == "var" and 2)
    local x = (op == "any" or op == "all") and truth(shape) or R(3) == 1 and op:find"^[smp]" and op ~= "mean" and
      whole(shape, -3, 4) or reals(shape)
    return function(x) return rille[op](x, options) end, x
  end
end
for op in ("cumsum softmax log_softmax"):gmatch"%S+" do
  case[op] = function()
    local n = R(3)
    local axis = R(-n, n - 1)
    return function(x) return rille[op](x, axis) end, reals(sizes(n))
  end
end
function case.topk()
  local shape, result = sizes(2), R(2)
  local k = R(shape[2])
  return function(x) return (select(result, x:topk(k))) end, reals(shape)
end

function case.reshape()
  local from, to = table.unpack(pick{{{4, 6}, {24}}, {{4, 6}, {2, 12}}, {{12}, {2, 2, 3}}, {{2, 3, 4}, {6, 4}},
    {{6, 4}, {2, 3, 2, 2}}, {{3, 8}, {4, 6}}, {{7, 5}, {-1}}, {{1, 6}, {6, 1}}, {{36}, {6, 6}}})
  return function(x) return x:reshape(to) end, reals(from)
end
function case.transpose()
  local n = R(2, 4)
  local a, b = R(-n, n - 1), R(-n, n - 1)
  return function(x) return x:transpose(a, b) end, reals(sizes(n, 1, 5))
end
function case.permute()
  local order = pick{{2, 0, 1}, {1, 2, 0}, {-1, 1, 0}}
  return function(x) return x:permute(order) end, reals(sizes(3))
end
function case.squeeze() return function(x) return x:squeeze(1) end, reals{R(7), 1, R(7)} end
function case.unsqueeze()
  local n = R(3)
  local axis = R(-n - 1, n)
  return function(x) return x:unsqueeze(axis) end, reals(sizes(n))
end
function case.expand() return function(x) return x:expand{3, 5, -1} end, reals{1, R(7)} end
function case.slice()
  local shape, axis = sizes(3), R(0, 2)
  local start, stop, step = R(-8, 8), R(-8, 8), R(3)
  return function(x) return x:slice(axis, start, stop, step) end, reals(shape)
end
function case.concat()
  local a, axis = sizes(3), R(0, 2)
  local b = {table.unpack(a)}
  b[axis + 1] = R(5)
  return function(x, y) return rille.concat({x, y, x}, axis) end, reals(a), reals(b)
end
function case.stack()
  local shape, axis = sizes(2), R(-3, 2)
  return function(x, y) return rille.stack({x, y}, axis) end, reals(shape), reals(shape)
end
function case.pad()
  local pads, value = {R(0, 2), R(0, 2), R(0, 2), R(0, 2)}, pick{0, 1.5}
  return function(x) return x:pad(pads, value) end, reals(sizes(3))
end
function case.flip()
  local axes = pick{{0}, {1}, {-1, 0}}
  return function(x) return x:flip(axes) end, reals(sizes(3))
end
for op in ("tril triu"):gmatch"%S+" do
  case[op] = function()
    local k = R(-2, 2)
    return function(x) return rille[op](x, k) end, reals(sizes(R(2, 3)))
  end
end

function case.embedding()
  local rows = R(2, 9)
  return rille.embedding, ids(sizes(R(2)), rows), reals{rows, R(5)}
end
local function lookup() -- Returns a shape, an axis, and the shape of indices along the axis.
  local shape, axis, at = sizes(3, 2, 6), R(0, 2), {}
  for i = 1, 3 do at[i] = R(shape[i]) end
  at[axis + 1] = R(6)
  return shape, axis, at
end
function case.gather()
  local shape, axis, at = lookup()
  return function(x, i) return x:gather(axis, i) end, reals(shape), ids(at, shape[axis + 1])
end
function case.scatter_add()
  local shape, axis, at = lookup()
  return function(x, i, y) return x:scatter_add(axis, i, y) end, reals(shape), ids(at, shape[axis + 1]), reals(at)
end
function case.index_select()
  local shape, axis = lookup()
  return function(x, i) return x:index_select(axis, i) end, reals(shape), ids({R(6)}, shape[axis + 1])
end
function case.one_hot()
  local n = R(6)
  return function(i) return i:one_hot(n) end, ids(sizes(2), n)
end

function case.layer_norm()
  local shape = sizes(3, 2, 6)
  return rille.layer_norm, reals(shape), reals{shape[3]}, reals{shape[3]}
end
function case.rms_norm()
  local shape = sizes(3, 2, 6)
  return rille.rms_norm, reals(shape), reals{shape[3]}
end
function case.cross_entropy()
  local n, classes, more = R(6), R(2, 9), R(2) == 1 and R(4) or nil
  local how = {reduction = pick{"mean", "sum", "none"}, label_smoothing = pick{0, 0.1}, ignore_index = pick{-100, 0}}
  return function(x, y) return x:cross_entropy(y, how) end, reals{n, classes, more}, ids({n, more}, classes)
end
function case.mse_loss()
  local shape, reduction = sizes(2), pick{"mean", "sum", "none"}
  return function(x, y) return x:mse_loss(y, {reduction = reduction}) end, reals(shape), reals(shape)
end
function case.scaled_dot_product_attention()
  local b, h, l, m, d, how = R(4), R(5), R(5), R(5), R(5), {is_causal = R(2) == 1}
  if R(4) == 1 then b, h, l = R(2), R(2), 127 + R(3) end -- sequence lengths that need several blocks of 128
  local f = function(q, k, v, mask) return rille.scaled_dot_product_attention(q, k, v, mask, not mask and how or {}) end
  return f, reals{b, h, l, d}, reals{b, h, m, d}, reals{b, h, m, 3}, R(2) == 1 and reals{b, 1, l, m} or nil
end
function case.rotary()
  local l, d, how = R(5), R(3), {interleaved = R(2) == 1}
  return function(x, c, s) return x:rotary(c, s, how) end, reals{R(3), R(4), l, 2 * d}, reals{l, d}, reals{l, d}
end
function case.conv2d()
  local g = pick{1, 1, 2}
  local n, into, out, k, how = R(4), g * R(3), g * R(3), R(3), {padding = R(0, 1), stride = R(2), groups = g}
  return function(x, w, b) return rille.conv2d(x, w, b, how) end, reals{n, into, R(3, 6), R(3, 6)},
    reals{out, into // g, k, k}, reals{out}
end
for op in ("max_pool2d avg_pool2d"):gmatch"%S+" do
  case[op] = function()
    local how = {padding = R(0, 1), stride = R(2)}
    return function(x) return rille[op](x, 2, how) end, reals{R(4), R(5), R(3, 6), R(3, 6)}
  end
end

-- ---- comparing many devices with one ----

local function distance(got, want)
  got, want = tap.flat(got), tap.flat(want)
  if #got ~= #want then return math.huge end
  local worst = 0
  for i, v in ipairs(want) do
    local same = got[i] == v or (got[i] ~= got[i] and v ~= v)
    local off = same and 0 or math.abs(got[i] - v) / math.max(1, math.abs(v))
    worst = off <= worst and worst or off
  end
  return worst
end

-- Returns values, gradients of a nonlinear sum of the values, and gradients of the squares of these gradients.
local function results(f, operands, numbers, placement, layouts)
  local t, moving = {}, {}
  for i, o in ipairs(operands) do
    local real = o.dtype == "f64"
    t[i] = rille.tensor(numbers[i], {dtype = o.dtype, requires_grad = real, placement = placement, sbp = layouts and layouts[i]})
    if real then moving[#moving + 1] = t[i] end
  end
  local y = f(table.unpack(t))
  local list = {y:totable()}
  if not y.requires_grad then return list end
  local square
  for _, g in ipairs{rille.grad((y * y * 0.5 + y:sin()):sum(), moving)} do
    list[#list + 1] = g:totable()
    if g.requires_grad then square = square and square + (g * g):sum() or (g * g):sum() end
  end
  if square then
    for _, h in ipairs{rille.grad(square, moving)} do list[#list + 1] = h:totable() end
  end
  return list
end

local function layout(o, axes)
  local kinds = {"B"}
  for d = 0, #o.shape - 1 do kinds[#kinds + 1], kinds[#kinds + 2] = ("S(%d)"):format(d), ("S(%d)"):format(d) end
  if o.dtype == "f64" then kinds[#kinds + 1] = pick{"P", "P", "P(max)", "P(min)"} end
  if axes == 1 then return pick(kinds) end
  local sbp = {pick(kinds), pick(kinds)}
  if R(3) == 1 then sbp.order = {1, 0} end
  -- avoids two kinds of partial values in one layout, which are an error
  if sbp[1]:find"P" and sbp[2]:find"P" then sbp[2] = sbp[1] end
  return sbp
end

local function text(sbp) return type(sbp) == "table" and ("(%s, %s)"):format(sbp[1], sbp[2]) or sbp end

local function try(op, mesh)
  local drawn = {case[op]()}
  local f, operands, numbers, layouts, names = drawn[1], {}, {}, {}, {}
  for i = 2, #drawn do
    local o = drawn[i]
    operands[i - 1], numbers[i - 1] = o, values(o)
    layouts[i - 1] = layout(o, type(mesh[1]) == "table" and 2 or 1)
    names[i - 1] = ("{%s} %s"):format(table.concat(o.shape, ","), text(layouts[i - 1]))
  end
  local want = results(f, operands, numbers)
  local good, got = pcall(results, f, operands, numbers, rille.placement("cpu", mesh), layouts)
  local worst = good and #got == #want and 0 or math.huge
  for k = 1, worst == 0 and #want or 0 do worst = math.max(worst, distance(got[k], want[k])) end
  if worst < 1e-5 then return true end
  tap.diag(("%s of %s: %s"):format(op, table.concat(names, "; "), good and "off by " .. worst or got))
  return false
end

local head = tap.list(meshes, function(m) return ("%6s"):format(m[1]) end)
tap.diag(("%-30s%s"):format("mesh", table.concat(head)))
local sources = {}
for op in ("arange empty eye full linspace ones rand randint randn zeros to_global"):gmatch"%S+" do sources[op] = true end
for _, op in ipairs(rille.operators()) do
  if not sources[op] and not case[op] then
    tap.diag(op .. " has no case here")
  elseif not sources[op] then
    local counts, all = {}, true
    for i, m in ipairs(meshes) do
      local n = 0
      for _ = 1, ROUNDS do n = n + (try(op, m[2]) and 1 or 0) end
      counts[i], all = ("%6d"):format(n), all and n == ROUNDS
    end
    tap.ok(all, op .. " in split layouts equals one device")
    tap.diag(("%-30s%s"):format(op, table.concat(counts)))
  end
end
-- Checks a loss over split classes. The devices must exchange only a few numbers per row for the loss and its
-- gradient, and no logits.
local P4 = rille.placement("cpu", {0, 1, 2, 3})
local BATCH, CLASSES = 16, 1024
for _, how in ipairs{{}, {reduction = "sum", label_smoothing = 0.1}, {ignore_index = 3}} do
  local x = rille.randn({BATCH, CLASSES}, {placement = P4, sbp = "S(1)", requires_grad = true})
  local loss = x:cross_entropy(rille.randint(0, CLASSES, {BATCH}, {placement = P4}), how)
  local there = rille.explain(loss).bytes
  local g = rille.grad(loss, {x})
  tap.ok(there < 100 * BATCH, ("cross_entropy over split classes moves %d bytes for %d positions"):format(there, BATCH))
  tap.is(g.sbp, "S(1)", "the gradient has the layout of the logits")
  local back = rille.explain(g).bytes
  tap.ok(back < 100 * BATCH, ("the gradient moves %d bytes"):format(back))
end

-- Reduces a split tensor without elements. Every reduction must give the result of one device.
for op in ("sum prod mean any all logsumexp"):gmatch"%S+" do
  for name, axis in pairs{["all dimensions"] = false, ["axis 0"] = 0, ["axis 1"] = 1} do
    local function of(x) return tostring(x[op](x, axis or nil):to_global{placement = rille.placement("cpu", {0}), sbp = "B"}) end
    local split = rille.zeros({0, 3}, {placement = P4, sbp = "S(0)", dtype = pick{"f32", "f64"}})
    tap.is(of(split), of(rille.zeros({0, 3}, {dtype = split.dtype})), ("%s over %s of an empty split tensor"):format(op, name))
  end
end

local known, total = {}, 0
for _, op in ipairs(rille.operators()) do known[op] = true end
for op in pairs(case) do
  total = total + 1
  if not known[op] then tap.ok(false, op .. " is an operator") end
end
tap.ok(total >= 84, ("%d operators have a case"):format(total))
tap.done()
