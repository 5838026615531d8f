-- experts.lua - tests that nn.MixtureOfExperts equals a formula in which every expert processes every entry.
--
-- Compares values, gradients and second gradients for several numbers of experts, top_k, entries, dtypes and layouts.
-- In the layer, each expert multiplies only the entries for which the router chose this expert.
local tap = dofile("t/lib/tap.lua")
local nn = rille.nn
local ONE, LINE, GRID = rille.placement("cpu", {0}), rille.placement("cpu", {0, 1}), rille.placement("cpu", {{0, 1}, {2, 3}})
local D <const>, HIDDEN <const> = 6, 10

-- Returns the layer's result by the formula, for entries of shape (n, d).
local function formula(m, x)
  local p = m.router(x):softmax(-1)
  local _, best = p:topk(m.top_k)
  local kept = rille.where(best:one_hot(m.experts):sum{axis = 1}:gt(0), p, 0)
  local gates = (kept / kept:sum{axis = 1, keepdim = true}):transpose(0, 1):unsqueeze(-1)
  return (rille.matmul(rille.matmul(x:unsqueeze(0), m.up):gelu(), m.down) * gates):sum{axis = 0}
end

-- Layouts of the entries, and of the weights `up` and `down`.
local layouts = {
  {"one device", ONE, "B", "B", "B"},
  {"replicated on two", LINE, "B", "B", "B"},
  {"entries split", LINE, "S(0)", "B", "B"},
  {"experts split", LINE, "B", "S(0)", "S(0)"},
  {"experts and entries split by one axis", LINE, "S(0)", "S(0)", "S(0)"},
  {"hidden width split", LINE, "B", "S(2)", "S(1)"},
  {"width split", LINE, "S(1)", "S(1)", "S(2)"},
  {"two layers split differently", LINE, "B", "S(0)", "S(1)"},
  {"entries and experts", GRID, "(S(0), B)", "(B, S(0))", "(B, S(0))"},
  {"experts by both axes", GRID, "(B, B)", "(S(0), S(0))", "(S(0), S(0))"},
  {"experts and the hidden width", GRID, "(B, B)", "(S(0), S(2))", "(S(0), S(1))"},
}

local function whole(t) return t:to_global{placement = ONE, sbp = "B"}:to("f64"):reshape{-1}:totable() end

-- Returns the result, the gradients of all leaves, and one second gradient. slant: weights of the result's elements;
-- gradients are those of the weighted sum.
local function parts(forward, m, x, slant)
  local y = forward(m, x)
  local leaves = {x, m.router.weight, m.up, m.down}
  local g = {rille.grad((y * slant):sum(), leaves)}
  local square = g[1]:square():sum() + g[3]:square():sum()
  return {["the result"] = whole(y), ["the gradient of x"] = whole(g[1]), ["the gradient of the router"] = whole(g[2]), ["the gradient of up"] = whole(g[3]),
    ["the gradient of down"] = whole(g[4]), ["a second gradient"] = whole((rille.grad(square, {m.down})))}
end

-- Allowed absolute error by dtype, for values of about 1.
local digits = {f64 = 1e-12, f32 = 1e-5, bf16 = 0.06, f16 = 0.01}

local function try(dtype, experts, top_k, n, how)
  local name, place, entries, up, down = table.unpack(how)
  local function is_whole(sbp) return (sbp:gsub("S%(%d%)", "B")) end
  rille.manual_seed(7)
  local m = nn.MixtureOfExperts(D, HIDDEN, experts, {top_k = top_k}):to(dtype)
  local x, slant = rille.randn{n, D}:to(dtype), rille.randn{n, D}:to(dtype)
  local function leaf(t) return t:detach():requires_grad_(true) end
  local want = parts(formula, m, leaf(x), slant)
  m:to_global{placement = place, sbp = is_whole(entries)}
  m.up:to_global_{placement = place, sbp = up}
  m.down:to_global_{placement = place, sbp = down}
  local where = {placement = place, sbp = entries}
  local got = parts(function(m, x) return m(x) end, m, leaf(x:to_global(where)), slant:to_global(where))
  for part, value in pairs(want) do
    local most = 1
    for _, v in ipairs(value) do most = math.max(most, math.abs(v)) end
    tap.near(got[part], value, ("%s, %s, %d of %d experts, %d entries: %s"):format(name, dtype, top_k, experts, n, part),
      digits[dtype], digits[dtype] * most)
  end
end

tap.group("layouts", function()
  for _, how in ipairs(layouts) do
    try("f32", 4, 2, 40, how)
    try("f32", 5, 2, 7, how)
    try("f64", 4, 3, 9, how)
  end
end)
tap.group("numbers", function()
  for _, dtype in ipairs{"f32", "f64", "bf16", "f16"} do
    for _, c in ipairs{{1, 1, 5}, {4, 1, 1}, {4, 2, 1}, {4, 4, 30}, {3, 2, 300}, {9, 1, 2}} do
      try(dtype, c[1], c[2], c[3], layouts[1])
      try(dtype, c[1], c[2], c[3], layouts[4])
    end
  end
end)

-- Checks entries whose expert ids are split over two ranks: the result must have the bits of one rank with all ids.
tap.group("experts of an entry on two ranks", function()
  local function cut(t, sbp) return t:to_global{placement = LINE, sbp = sbp} end
  for _, top_k in ipairs{2, 16, 20} do
    rille.manual_seed(top_k)
    local x, w, ids = rille.randn{1, 1, 1, 2048}, rille.randn{1, 3, 2048, 40}, rille.randint(0, 3, {1, top_k})
    local got = rille._expert_matmul(cut(x, "B"), cut(w, "B"), cut(ids, "S(1)"))
    tap.is(whole(got), whole(rille._expert_matmul(x, w, ids)), ("the bits of one rank, %d rows"):format(top_k))
  end
end)

-- Checks autocast, a compiled step, and micro-batches.
tap.group("modes", function()
  local function new()
    rille.manual_seed(3)
    return nn.MixtureOfExperts(D, HIDDEN, 4), rille.randn{24, D}
  end
  local function narrow(forward, m, x) return whole(rille.autocast("bf16", function() return forward(m, x) end)) end
  local function forward(m, x) return m(x) end
  tap.near(narrow(forward, new()), narrow(formula, new()), "autocast: values are near", 0.05, 0.05)
  local function gradients(forward, options)
    local m, x = new()
    local function step(x) return tap_backward(forward(m, x):square():mean()) end
    if options then step = rille.graph(step, options) end
    step(x)
    return {whole(m.up.grad), whole(m.down.grad), whole(m.router.weight.grad)}
  end
  local want = gradients(formula)
  tap.near(gradients(forward, {}), want, "a graph", 1e-4, 1e-6)
  tap.near(gradients(forward, {micro_batches = 4}), want, "in micro-batches", 1e-4, 1e-6)
  local m, x = new()
  tap.is(m(x:slice(0, 0, 0)).shape, {0, D}, "no entries give an empty result")
  tap.is(m(x:reshape{2, 3, 4, D}).shape, {2, 3, 4, D}, "entries may have any number of leading dimensions")
  tap.ok(tostring(rille.explain(m(x))):find("expert_matmul", 1, true), "experts multiply only the entries that chose them")
end)

tap.done()
