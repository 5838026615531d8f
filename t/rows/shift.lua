-- shift.lua - tests that inputs far from 0 lose no precision. If a common shift c of the inputs does not change an
-- operator's result, or shifts the result by c, errors at x + c must be as small as at x. The same holds for
-- gradients and second gradients. The exact values are computed in f64; for inputs in f64, they are computed without
-- the shift.
local tap = dofile("t/lib/tap.lua")

local COLUMNS = 512
local ONE, FOUR = rille.placement("cpu", {0}), rille.placement("cpu", {0, 1, 2, 3})
local layouts = {{"one device", ONE, "B"}, {"rows on four", FOUR, "S(0)"}, {"columns on four", FOUR, "S(1)"}}
local shifts = {0, 1e2, 1e3, 1e5, -1e5}

rille.manual_seed(tap.seed(5))

-- Returns random operands. With few rows, operators choose other layouts than with many: splitting the columns then
-- costs little, because only one number per row (a maximum or sum) is sent.
local function drawn(rows)
  return {
    rows = rows,
    normal = {f32 = rille.randn({rows, COLUMNS}) * 3,
      f64 = (rille.randn({rows, COLUMNS}, {dtype = "f64"}) * (3 * 2 ^ 35)):round() / 2 ^ 35},
    weights = rille.randn({rows, COLUMNS}), -- weights of the result, so that its gradient is not constant
    again = rille.randn({rows, COLUMNS}),
    labels = rille.randint(0, COLUMNS, {rows}),
  }
end

-- Normalises 8 channels of 64 columns each.
local function batch_norm(x)
  local norm = rille.nn.BatchNorm2d(8):to(x.dtype)
  norm:to_global{placement = x.placement, sbp = "B"}
  return norm(x:reshape{x.shape[1], 8, 8, 8}):reshape{x.shape[1], COLUMNS}
end

-- Columns: name; f(x, labels); true: the result shifts by c, too, so it can only be as precise as a float of its
-- size.
local calls = {
  {"softmax", function(x) return x:softmax{axis = 1} end},
  {"softmax down columns", function(x) return x:softmax{axis = 0} end},
  {"log_softmax", function(x) return x:log_softmax{axis = 1} end},
  {"log_softmax down columns", function(x) return x:log_softmax{axis = 0} end},
  {"logsumexp", function(x) return x:logsumexp{axis = 1} end, true},
  {"logsumexp down columns", function(x) return x:logsumexp{axis = 0} end, true},
  {"logsumexp of all", function(x) return x:logsumexp() end, true},
  {"cross_entropy", function(x, y) return x:cross_entropy(y, {reduction = "none"}) end},
  {"cross_entropy, smoothed", function(x, y) return x:cross_entropy(y, {reduction = "none", label_smoothing = 0.1}) end},
  {"cross_entropy, mean", function(x, y) return x:cross_entropy(y) end},
  {"layer_norm", function(x) return x:layer_norm() end},
  {"batch_norm", batch_norm},
  {"var", function(x) return x:var{axis = 1} end},
  {"var down columns", function(x) return x:var{axis = 0, correction = 0} end},
  {"var of all", function(x) return x:var() end},
}

local function home(x) return x:to_global{placement = ONE, sbp = "B"}:to"f64" end

-- Returns the scalar sum(y * w). First reduces w to the shape of y.
local function weighed(y, w, rows)
  local like = w
  for d = 1, 2 - #y.shape do like = like:sum{axis = 0} / 4 end
  if #y.shape == 1 and y.shape[1] == rows then like = w:sum{axis = 1} / 20 end
  like = like:to_global{placement = y.placement, sbp = "B"}:to(y.dtype)
  return (y * like):sum()
end

-- Returns three values: the result, its gradient, and the gradient of that gradient, each weighted.
local function values(f, of, x, place, sbp)
  local y = of.labels:to_global{placement = place, sbp = sbp == "S(0)" and "S(0)" or "B"}
  local leaf = x:to_global{placement = place, sbp = sbp}:detach():requires_grad_()
  local value = f(leaf, y)
  local slope = rille.grad(weighed(value, of.weights, of.rows), {leaf})
  local bend = rille.grad(weighed(slope, of.again, of.rows), {leaf})
  return {home(value), home(slope), home(bend)}
end

local parts = {"the value", "the gradient", "its gradient"}
local function compare(call, of, dtype, eps)
  -- base: error without a shift (c = 0): for the value, its gradient and the second gradient each, the largest error
  -- over all layouts, but at least two units in the last place
  local base = {0, 0, 0}
  local near = of.normal[dtype]
  for _, c in ipairs(shifts) do
    local x = near + c
    local want = values(call[2], of, dtype == "f64" and near or x:to"f64", ONE, "B")
    if dtype == "f64" and call[3] then want[1] = want[1] + c end
    for _, l in ipairs(layouts) do
      local got = values(call[2], of, x, l[2], l[3])
      for i, part in ipairs(parts) do
        local err, size = (got[i] - want[i]):abs():max():item(), want[i]:abs():max():item()
        if c == 0 then base[i] = math.max(base[i], err, size * 2 * eps) end
        local allowed = 4 * base[i]
        if call[3] and i == 1 then allowed = math.max(allowed, size * eps) end
        tap.ok(err <= allowed, ("%s of %s, %d rows, %s, shifted by %g: the error of %s does not grow"):format(call[1], dtype, of.rows, l[1], c,
          part), ("off by %g, %g without a shift"):format(err, base[i]))
      end
    end
  end
end
for _, rows in ipairs{16, 3, 1} do
  local of = drawn(rows)
  for _, call in ipairs(calls) do
    compare(call, of, "f32", 2 ^ -23)
    compare(call, of, "f64", 2 ^ -52)
  end
end

-- Checks norms of a long row in which the first elements are far from the others.
local LONG = 65536
local rows, slope = rille.randn({4, LONG}), rille.randn({4, LONG})
local first = rille.arange(LONG):lt(64):to"f32"
local function norms(x, dtype)
  local leaf, w = x:to(dtype):detach():requires_grad_(), rille.ones({LONG}, {dtype = dtype}):requires_grad_()
  local y = leaf:layer_norm(w)
  return {y, rille.grad((y * slope:to(dtype)):sum(), {leaf, w})}
end
for _, c in ipairs{0, 1e2, 1e3, -1e4} do
  local x = rows + first * c
  local got, want = norms(x, "f32"), norms(x, "f64")
  for i, part in ipairs{"a norm", "its gradient", "that of its weight"} do
    local err, size = (got[i]:to"f64" - want[i]):abs():max():item(), want[i]:abs():max():item()
    tap.ok(err <= size * 2 ^ -21, ("rows that begin %g above: %s keeps its precision"):format(c, part),
      ("off by %g of %g"):format(err, size))
  end
end

-- Checks the loss of rows of infinities, NaN and the largest floats. Values with sharded classes must equal those of
-- one device, for every row of four such numbers.
local BIG = 3.4e38
local special = {1, 0, -3, -math.huge, math.huge, 0 / 0, BIG, -BIG}
local all = {}
for i = 0, (1 << 12) - 1 do
  local row = tap.list(4, function(j) return special[(i >> 3 * (j - 1)) % 8 + 1] end)
  all[i + 1] = row
end
local x = rille.tensor(all)
local ofs = {
  {"softmax", function(v) return v:softmax{axis = 1} end},
  {"log_softmax", function(v) return v:log_softmax{axis = 1} end},
  {"logsumexp", function(v) return v:logsumexp{axis = 1} end},
}
-- Returns true if a and b differ, that is, are not close. Two NaN do not differ.
local function differ(a, b)
  local same = a:eq(b):logical_or((a - b):abs():le(b:abs() * 1e-5 + 1e-6)):logical_or(a:ne(a):logical_and(b:ne(b)))
  return same:logical_not()
end
for _, f in ipairs(ofs) do
  local function both(place, sbp)
    local leaf = x:to_global{placement = place, sbp = sbp}:detach():requires_grad_()
    local value = f[2](leaf)
    return {home(value), home(rille.grad(value:sum(), {leaf}))}
  end
  local whole, split = both(ONE, "B"), both(FOUR, "S(1)")
  for i, part in ipairs{"the value", "the gradient"} do
    local bad = differ(whole[i], split[i]):to"i64"
    if #bad.shape == 2 then bad = bad:sum{axis = 1} end
    local at = bad:argmax():item()
    tap.ok(bad:sum():item() == 0, ("%s of special values: %s is the same over sharded classes"):format(f[1], part),
      ("%d rows differ; of {%s} row %d: %s, whole %s"):format(bad:gt(0):sum():item(), table.concat(all[at + 1], " "), at,
      tostring(split[i]:slice(0, at, at + 1)), tostring(whole[i]:slice(0, at, at + 1))))
  end
end

-- Checks logarithms of probabilities, also with sharded classes. They must never be above 0. If the probabilities of
-- all other classes vanish, the logarithm must be 0.
do
  local x = rille.randn({64, 16}) * 40
  local top = rille.one_hot(rille.randint(0, 16, {64}), 16):to"f32"
  for _, rows in ipairs{x, x * (1 - top) - 300 * (1 - top) + x * top} do
    local split, label = rows:to_global{placement = FOUR, sbp = "S(1)"}, rows:argmax{axis = 1}
    local loss = home(split:cross_entropy(label:to_global{placement = FOUR, sbp = "B"}, {reduction = "none"}))
    tap.ok(loss:min():item() >= 0, "a loss over sharded classes is never below 0", tostring(loss:min():item()))
    local share = home(split:log_softmax{axis = 1})
    tap.ok(share:max():item() <= 0, "log_softmax over sharded classes is never above 0", tostring(share:max():item()))
  end
end

-- Checks the loss of extreme rows, with each label and an ignored one, with every reduction, over two to four ranks.
-- A row with an ignored label must have a loss and gradients of 0, even with NaN.
local IGNORED = -100
local slant = rille.randn({5 * #all, 4})
local classes = {0, 1, 2, 3, IGNORED}
local rows_of, labels_of = {}, {}
for i, row in ipairs(all) do
  for _, label in ipairs(classes) do rows_of[#rows_of + 1], labels_of[#labels_of + 1] = row, label end
end
local logits, labels = rille.tensor(rows_of), rille.tensor(labels_of, {dtype = "i64"})
local counts = labels:ne(IGNORED)

-- Returns the losses, their gradient, and the gradient of the weighted gradient.
local function loss(place, sbp, options)
  local function placed(v, to) return v:to_global{placement = place, sbp = to} end
  local leaf = placed(logits, sbp):detach():requires_grad_()
  local value = leaf:cross_entropy(placed(labels, "B"), options)
  local slope = rille.grad(value:sum(), {leaf})
  local bend = rille.grad((slope * placed(slant, sbp)):sum(), {leaf})
  return {value = home(value), gradient = home(slope), ["gradient's gradient"] = home(bend)}
end
local function same(name, got, want)
  local bad = differ(got, want):to"i64"
  if #bad.shape == 2 then bad = bad:sum{axis = 1} end
  if #bad.shape == 0 then return tap.ok(bad:item() == 0, name, ("%s, whole %s"):format(got, want)) end
  local at = bad:argmax():item()
  tap.ok(bad:sum():item() == 0, name, ("%d rows differ; of {%s} with label %d: %s, whole %s"):format(bad:gt(0):sum():item(),
    table.concat(rows_of[at + 1], " "), labels_of[at + 1], got:slice(0, at, at + 1), want:slice(0, at, at + 1)))
end
for _, reduction in ipairs{"none", "sum", "mean"} do
  for _, smoothing in ipairs{0, 0.25} do
    local options = {reduction = reduction, label_smoothing = smoothing, ignore_index = IGNORED}
    local what = ("cross_entropy, %s, smoothed by %g"):format(reduction, smoothing)
    local whole = loss(ONE, "B", options)
    for part, v in pairs(whole) do
      if #v.shape == 0 then goto next end
      local kept = v:ne(0)
      if #v.shape == 2 then kept = kept:any{axis = 1} end
      tap.is(kept:logical_and(counts:logical_not()):any():item(), false,
        ("%s: the %s is 0 where the label is ignored"):format(what, part))
      tap.ok(kept:logical_and(counts):any():item(), ("%s: the %s is not 0 elsewhere"):format(what, part))
      ::next::
    end
    for ranks = 2, 4 do
      local split = loss(rille.placement("cpu", tap.ranks(ranks)), "S(1)", options)
      for part, v in pairs(whole) do same(("%s, over %d ranks: the %s is the same"):format(what, ranks, part), split[part], v) end
    end
  end
end
tap.done()
