-- buckets.lua - tests the option buckets of rille.graph. Loss, gradients and results, cut to the call's length, must
-- be those of the unpadded call, for several lengths, layouts and numbers of micro-batches. A step must be traced
-- once per bucket.
local tap = dofile("t/lib/tap.lua")
local nn = rille.nn

local BATCH <const>, WIDTH <const>, CLASSES <const> = 4, 6, 5
local function mesh(n)
  if n == 4 then return rille.placement("cpu", {{0, 1}, {2, 3}}) end
  return rille.placement("cpu", tap.ranks(n))
end

local function tokens(shape, place, sbp)
  local ids = (rille.arange(tap.numel(shape)) * 7 % CLASSES):reshape(shape)
  return ids:to_global{placement = place, sbp = sbp}:detach(), ((ids * 3 + 1) % CLASSES):to_global{placement = place, sbp = sbp}:detach()
end

-- Returns a model of token embeddings. Its function f(ids, labels, weight) returns loss, logits and gradients.
-- Without a weight, the loss is the mean over all tokens.
local function model(place)
  rille.manual_seed(3)
  local embedding, head = nn.Embedding(CLASSES, WIDTH), nn.Linear(WIDTH, CLASSES)
  for _, m in ipairs{embedding, head} do m:to("f64"):to_global{placement = place, sbp = "B"} end
  local parameters = {embedding.weight, head.weight, head.bias}
  return function(ids, labels, weight)
    local h = embedding(ids)
    local mask = weight and weight:gt(0):unsqueeze(-1)
    if weight and h.ndim == 3 then h = h + (h * mask):cumsum(1) end
    if not weight and h.ndim == 3 then h = h + h:cumsum(1) end
    local logits = head(h)
    local losses = logits:reshape{-1, CLASSES}:cross_entropy(labels:reshape{-1}, {reduction = "none"}):reshape(ids.shape)
    local loss = weight and (losses * weight:to("f64")):mean() or losses:mean()
    return loss, logits:to_global{placement = place, sbp = "B"}, rille.grad(loss, parameters)
  end
end

-- ---- padded axis 1 (lengths of texts), and padded axis 0 (a short last batch) ----

for _, l in ipairs{{1, "B"}, {2, "B"}, {2, "S(0)"}, {2, "S(1)"}, {4, {"S(0)", "S(1)"}}, {1, "B", rows = true}, {2, "S(0)", rows = true}} do
  local place = mesh(l[1])
  for _, pieces in ipairs(l.rows and {1, 2, 4} or {1, 2}) do
    local f = model(place)
    local step = rille.graph(f, {micro_batches = pieces, buckets = l.rows and {8, cut = {2}} or {4, 8, axis = 1, cut = {2}}})
    for n = 1, 8 do
      local ids, labels = tokens(l.rows and {n} or {BATCH, n}, place, l[2])
      tap.near(tap.values(step(ids, labels)), tap.values(f(ids, labels)), ("%d %s, %s on %d, %d micro-batches: the results of the unpadded call"):format(n,
        l.rows and "rows" or "tokens", ids.sbp, l[1], pieces), 1e-6, 1e-7)
    end
    tap.is(tostring(step):match("%d+ traces?"), l.rows and "1 trace" or "2 traces", "a trace per bucket")
  end
end

-- ---- ways to write the option ----

local step = rille.graph(function(x, table, weight) return x * 2, table:sum(), weight end, {buckets = {4, args = {1}, cut = {1}}})
local y, sum, weight = step(rille.ones(3), rille.ones(7))
tap.is({y:totable(), sum:item()}, {{2.0, 2.0, 2.0}, 7.0}, "only the named arguments are padded, and the named results are cut")
tap.near(weight:totable(), {4 / 3, 4 / 3, 4 / 3, 0.0}, "the weight is size / length, and 0 at the padding")
local plain = rille.graph(function(x, k, name, _) return x:sum() * k, name end, {buckets = {4}})
local scaled, name = plain(rille.ones(3), 2, "a")
tap.is({scaled:item(), name}, {6.0, "a"}, "arguments that are no tensors pass through")

local cut = rille.graph(function(x) return x * 2 end, {buckets = {4, cut = {1}}})
tap.is(cut(rille.ones(3)):totable(), {2.0, 2.0, 2.0}, "a function whose results are cut need not accept the weight")
local Double = nn.Module:extend("Double")
function Double.forward(_, x) return x * 2 end
local double = Double()
tap.is(rille.graph(double, {buckets = {4, cut = {1}}})(rille.ones(3, 3)):totable(), double(rille.ones(3, 3)):totable(), "nor need a module")
local any = rille.graph(function(...) return (... * select(2, ...)):mean() end, {buckets = {4}})
tap.near(any(rille.ones(3)):item(), 1, "a function of any number of arguments receives the weight")

for _, case in ipairs{
  {function() rille.graph(function(x) return x:mean() end, {buckets = {4}})(rille.ones(3)) end, "must accept the weight of the entries as argument 2", "cut = {1}"},
  {function() rille.graph(double, {buckets = {4}})(rille.ones(3, 3)) end, "must accept the weight of the entries as argument 2"},
  {function() rille.graph(function(x, y) return (x * y):mean() end, {buckets = {4}})(rille.ones(3), rille.ones(3)) end, "as argument 3"},
  {function() rille.graph(function(x, weight) return x:mean() end, {buckets = {4}})(rille.ones(3)) end, "must compute with the weight of the entries, argument 2", "name the argument _"},
  {function() rille.graph(print, {buckets = 4}) end, "buckets must be a list of sizes", "found 4"},
  {function() rille.graph(print, {buckets = {}}) end, "at least one size"},
  {function() rille.graph(print, {buckets = {8, 4}}) end, "must ascend, found 4 after 8"},
  {function() rille.graph(print, {buckets = {0, 4}}) end, "a size must be a positive integer, found 0"},
  {function() rille.graph(print, {buckets = {4, axis = -1}}) end, "axis must be an integer of at least 0, found -1"},
  {function() rille.graph(print, {buckets = {4, dim = 1}}) end, "unknown option 'dim'"},
  {function() rille.graph(print, {buckets = {4, cut = 1}}) end, "cut must be a list of positions"},
  {function() plain(rille.ones(5)) end, "axis 0 of argument 1 has 5 entries", "largest bucket, 4"},
  {function() plain(rille.ones(0)) end, "must have at least 1 entry, found 0"},
  {function() plain(3) end, "an argument must have the axis 0, found none"},
  {function() plain(rille.ones(3), rille.ones(2)) end, "axis 0 of argument 2 has 2 entries, and that of argument 1 has 3", "args = {...}"},
  {function() plain{rille.ones(3)} end, "argument 1 is a table with tensors"},
  {function() step(3, rille.ones(2)) end, "argument 1 must be a tensor that has the axis 0, found 3"},
  {function() rille.graph(function(x) return x:sum() end, {buckets = {4, cut = {1}}})(rille.ones(3)) end, "result 1 must have 4 entries along axis 0"},
} do
  tap.fails(case[1], {table.unpack(case, 2)}, "an error says: " .. table.concat(case, "; ", 2))
end

tap.done()
