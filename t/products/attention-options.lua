-- attention-options.lua - compares attention with windows, softcap, sinks and spans with a reference of plain
-- operators in f64. Compares values, and the gradients of q, k, v and sinks, for every dtype, layout and length. Also
-- checks that a step of a long sequence needs memory linear in the length, and that a query which sees no key returns
-- 0.
local tap = dofile("t/lib/tap.lua")

rille.manual_seed(tap.seed(4))
local ONE, TWO = rille.placement("cpu", {0}), rille.placement("cpu", {0, 1})
local BATCH, HEADS, SIZE <const> = 2, 4, 8
local dtypes = {{"f64", 1e-10}, {"f32", 2e-5}, {"f16", 3e-2}, {"bf16", 8e-2}} -- dtypes, each with the allowed error
local layouts = { -- Columns: name, placement, layouts of q, k, v, of sinks, and of spans.
  {"on one device", ONE}, {"batch split", TWO, "S(0)", "S(0)", "B", "S(0)"}, {"heads split", TWO, "S(1)", "S(1)", "S(0)", "B"},
  {"queries split", TWO, "S(2)", "B", "B", "S(2)"}, {"keys split", TWO, "B", "S(2)", "B", "B"},
}
local lengths = {{1, 9}, {5, 5}, {20, 20}, {70, 70}, {40, 140}} -- queries, keys

-- Options of the call. spans = "documents": documents of 7 keys, plus the number of the batch's row; spans = "empty":
-- every third query sees no key.
local options = {
  {"a window to the left", {window = {3, 0}}}, {"a window on both sides", {window = {2, 9}}}, {"a window to the right", {window = {-1, 4}}},
  {"a causal window", {window = {6, -1}, is_causal = true}}, {"a softcap", {softcap = 1.5, is_causal = true}},
  {"sinks", {}, sinks = true}, {"documents", {is_causal = true}, spans = "documents"}, {"empty spans", {}, spans = "empty"},
  {"empty spans and sinks", {}, spans = "empty", sinks = true},
  {"all options", {window = {5, 1}, softcap = 2, is_causal = true, scale = 0.5}, spans = "documents", sinks = true},
}

local function spans_of(kind, queries, keys)
  local rows = {}
  for b = 1, BATCH do
    rows[b] = {{}}
    for i = 0, queries - 1 do
      local first = i // (6 + b) * (6 + b)
      rows[b][1][i + 1] = kind == "documents" and {first, first + 6 + b} or i % 3 == 1 and {keys, 0} or {i % 4, keys - b}
    end
  end
  return rille.tensor(rows, {dtype = "i64"})
end

-- Returns bools of shape (BATCH or 1, 1, queries, keys): true if the query sees the key.
local function seen_of(how, spans, queries, keys)
  local i, j = rille.arange(queries):reshape{1, 1, queries, 1}, rille.arange(keys):reshape{1, 1, 1, keys}
  local seen = (i + j):ge(0)
  local left, right = table.unpack(how.window or {-1, -1})
  if how.is_causal then seen = seen:logical_and(j:le(i)) end
  if left >= 0 then seen = seen:logical_and(j:ge(i - left)) end
  if right >= 0 then seen = seen:logical_and(j:le(i + right)) end
  if not spans then return seen end
  return seen:logical_and(j:ge(spans:slice(3, 0, 1))):logical_and(j:lt(spans:slice(3, 1, 2)))
end

-- Returns attention computed by plain operators, as the softmax of all scores and of the sink. Hidden keys have the
-- score -1e30, and then the weight 0.
local function reference(x, how, seen)
  local scores = x[1]:matmul(x[2]:transpose(2, 3)) * (how.scale or SIZE ^ -0.5)
  if how.softcap then scores = (scores / how.softcap):tanh() * how.softcap end
  scores = seen:where(scores, -1e30)
  local sink = x[4] and x[4]:reshape{1, HEADS, 1, 1} or rille.full({1, HEADS, 1, 1}, -1e30, {dtype = "f64"})
  local shape = scores.shape
  shape[4] = 1
  return seen:where(rille.concat({scores, sink:expand(shape)}, 3):softmax(3):slice(3, 0, scores.shape[4]), 0):matmul(x[3])
end

local function flat(t) return t:detach():to_global{placement = ONE, sbp = "B"}:to"f64" end

local function values(y, slope, leaves)
  local out = {flat(y)}
  for i, g in ipairs{rille.grad((y * slope):sum(), leaves)} do out[i + 1] = flat(g) end
  return out
end

-- Returns q, k, v, sinks as leaves in a layout and dtype.
local function leaves_of(x, dtype, layout)
  local own = {}
  for i, t in ipairs(x) do
    own[i] = t:to(dtype):to_global{placement = layout[2], sbp = layout[i == 4 and 5 or i == 1 and 3 or 4] or "B"}:detach():clone():requires_grad_()
  end
  return own
end

local function worst_of(option, dtype, layout)
  local worst, where = 0, ""
  for _, n in ipairs(lengths) do
    local how, x = option[2], tap.list(3, function(i) return rille.randn{BATCH, HEADS, i == 1 and n[1] or n[2], SIZE}:to(dtype):to"f64" end)
    if option.sinks then x[4] = rille.randn{HEADS}:to(dtype):to"f64" end
    local spans, slope = option.spans and spans_of(option.spans, n[1], n[2]), rille.randn{BATCH, HEADS, n[1], SIZE}:to(dtype)
    local exact, own = leaves_of(x, "f64", layouts[1]), leaves_of(x, dtype, layout)
    local want = values(reference(exact, how, seen_of(how, spans, n[1], n[2])), slope:to"f64", exact)
    local laid = spans and spans:to_global{placement = layout[2], sbp = layout[6] or "B"}
    local y = rille.scaled_dot_product_attention(own[1], own[2], own[3], nil, own[4], laid, how)
    local got = values(y, slope:to_global{placement = layout[2], sbp = "B"}, own)
    for i, w in ipairs(want) do
      local off = (got[i] - w):abs():max():item() / math.max(1, w:abs():max():item())
      if not (off <= worst) then worst, where = off, ("value %d, %d queries, %d keys: off by %g"):format(i, n[1], n[2], off) end
    end
  end
  return worst, where
end

for _, option in ipairs(options) do
  for _, layout in ipairs(layouts) do
    for _, d in ipairs(dtypes) do
      if tap.share() then
        local worst, where = worst_of(option, d[1], layout)
        tap.ok(worst <= d[2], ("%s, %s, %s: equals the reference"):format(option[1], layout[1], d[1]), where)
      end
    end
  end
end

-- ---- memory ----

-- Returns the bytes of a step that computes attention of n positions and its gradients.
local function memory_of(n, option)
  local q = rille.randn{1, 2, n, 16}
  local sinks, spans = option.sinks and rille.zeros{2}, nil
  if option.spans then spans = rille.zeros({1, 1, n, 2}, {dtype = "i64"}) + 5 end
  local step = rille.graph(function(x)
    x = x:detach():requires_grad_(true)
    return rille.grad(rille.scaled_dot_product_attention(x, x, x, nil, sinks, spans, option[2]):square():sum(), {x})
  end)
  step(q)
  return step:stats().devices[1].peak_memory
end
for _, option in ipairs(options) do
  if tap.share() then
    local short, long = memory_of(1024, option), memory_of(4096, option)
    tap.ok(short > 0 and long <= 4.2 * short, option[1] .. ": memory is linear in the length", ("%d bytes, %d bytes"):format(short, long))
  end
end
tap.done()
