-- detect-nan.lua - tests rille.detect_nan() and check = "nan". If a result has a NaN, or an infinity that no operand
-- has, an error must name the first such operator and its line. Tries eager calls and compiled steps, every layout
-- and micro-batch.

local tap = dofile("t/lib/tap.lua")
local nn, inf = rille.nn, math.huge

local p = rille.placement("cpu", {0, 1})
local function line() return debug.getinfo(2, "l").currentline end

tap.group("the setting", function()
  tap.is({rille.detect_nan(true), rille.detect_nan(), rille.detect_nan(false), rille.detect_nan()}, {false, true, true, false},
    "detect_nan() returns the previous setting, and changes nothing without an argument")
  tap.fails(function() rille.detect_nan("yes") end, {"detect_nan: expected true or false, found \"yes\""}, "a text is refused")
  tap.fails(function() rille.graph(print, {check = "na"}) end, {'check must be "trace", "nan" or "trace,nan"'}, "an unknown check is refused")
end)

-- Columns: expression, expected error ("": none), and x, the values of a vector.
local cases = {
  {"log", {0, 1}, function(x) return x:log() end, "log: element 0 is -inf, though the operands are finite"},
  {"log", {1, -1}, function(x) return x:log() end, "log: element 1 is NaN, though the operands are finite"},
  {"0 / 0", {0, 1}, function(x) return x / x end, "div: element 0 is NaN, though the operands are finite"},
  {"exp", {1000, 1}, function(x) return (x * 1):exp() * 0 end, "exp: element 0 is inf, though the operands are finite"},
  {"the first of two", {-1, 1}, function(x) return x:log():sqrt() + 1 end, "log: element 0 is NaN, though the operands are finite"},
  {"NaN in the data", {0 / 0, 1}, function(x) return x + 1 end, "add: element 0 is NaN, because operand 0 has NaN"},
  {"f16 overflow", {60000, 1}, function(x) return x:to("f16") + x:to("f16") end, "add: element 0 is inf, though the operands are finite"},
  {"a mask of -inf", {1, 2}, function(x) return rille.where(x:gt(1), x, -inf):softmax(0) end, ""},
  {"full", {1, 2}, function(x) return x:maximum(rille.full({2}, -inf)) end, ""},
  {"an infinity in the data", {inf, 2}, function(x) return x + 1 end, ""},
  {"NaN in a transposed operand", {1, 0 / 0, 1, 1}, function(x) return rille.ones(1, 2):matmul(x:reshape(2, 2):transpose(0, 1)) end,
    "matmul: element 0 is NaN, because operand 1 has NaN"},
  {"an infinity in a transposed operand", {1, inf, 1, 1}, function(x) return rille.ones(1, 2):matmul(x:reshape(2, 2):transpose(0, 1)) end, ""},
  {"finite values", {1, 2}, function(x) return x:exp():log() / 3 end, ""},
}

local function first_error(f, ...)
  local ok, e = pcall(f, ...)
  return ok and "" or tostring(e)
end

local function reason(e) return (e:gsub("^[^:]*:%d+: ", ""):gsub(" %(needed at .*", "")) end

for _, case in ipairs(cases) do
  local name, values, f, want = table.unpack(case)
  tap.group(name, function()
    local x = rille.tensor(values)
    tap.is(first_error(function() return f(x):totable() end), "", "is computed without the search")
    rille.detect_nan(true)
    tap.is(reason(first_error(function() return f(x):totable() end)), want, "eagerly")
    rille.detect_nan(false)
    tap.is(reason(first_error(rille.graph(f, {check = "nan"}), x)), want, "in a compiled step with check = \"nan\"")
    local plain = rille.graph(f)
    tap.is(first_error(plain, x), "", "not in a compiled step without a check")
    rille.detect_nan(true)
    tap.is(reason(first_error(plain, x)), want, "in the same step after detect_nan(true)")
    rille.detect_nan(false)
    tap.is(first_error(plain, x), "", "and not after detect_nan(false)")
  end)
end

tap.group("places", function()
  local here
  local step = rille.graph(function(x)
    local y = x * 2
    here = line() + 1
    return (y - 2):log():mean()
  end, {check = "nan"})
  local x1 = rille.ones{4}
  pcall(step, x1)
  tap.fails(function() step(x1) end, {":" .. here .. ": log: element 0 is -inf"}, "the error names the operator's line")
  local x = rille.ones({4, 2}):to_global{placement = p, sbp = "S(0)"}
  tap.fails(function() step(x) end, {"log: element 0 is -inf"}, "a shard")
  local net = nn.Linear(2, 1)
  local train = rille.graph(function(v)
    return tap_backward((net(v) * v:sum(1, {keepdim = true}):log()):mean())
  end, {check = "nan", micro_batches = 2})
  tap.ok(train(rille.ones{4, 2}):item() == train(rille.ones{4, 2}):item(), "finite micro-batches")
  tap.fails(function() train(rille.tensor{{1, 1}, {1, 1}, {0, 0}, {1, 1}}) end, {"log: element 0 is -inf"}, "the second micro-batch")
  local w = rille.zeros({2}, {requires_grad = true})
  local root = rille.graph(function(v) return tap_backward((w * v):sqrt():sum()) end, {check = "nan"})
  tap.fails(function() root(rille.ones{2}) end, {"is inf, though the operands are finite"}, "an exploding gradient of a finite loss")
end)

tap.group("bits", function()
  local function losses(options)
    rille.manual_seed(1)
    local net = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3))
    local opt = rille.optim.AdamW(net:parameters(), {lr = 0.1})
    local step = tap.training(opt, function(v, y) return nn.CrossEntropyLoss()(net(v), y) end, options)
    return tap.list(4, function() return ("%a"):format(step(rille.randn{6, 8}, rille.tensor({0, 1, 2, 0, 1, 2}, {dtype = "i64"})):item()) end)
  end
  tap.is(losses{check = "nan"}, losses{}, "a searched step has the bits of a fused one")
end)
tap.done()
