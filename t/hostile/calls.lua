-- Calls every operator with wrong arguments: too few and too many operands, empty tensors, tensors of any dtype,
-- layout and device, numbers at the limits of 64 bits, strings, functions. A call must return a value, or raise an
-- error that begins with line and operator and names the operands. Sanitizers find memory errors.
local tap = dofile("t/lib/tap.lua")
local T = rille.tensor
local LARGE, MOST, LEAST = 1 << 62, math.maxinteger, math.mininteger
local I64 = {dtype = "i64"}

math.randomseed(tap.seed(1))
local trials = os.getenv("RILLE_LONG") and 2000 or 100
local two, meta = rille.placement("cpu", {0, 1}), rille.placement("meta", {0})

-- operands of a correct call of each operator, which the test makes wrong
local f, ids, truth, image = rille.ones{4, 5}, T({1, 0, 2}, I64), T({true, false, true}), rille.ones{2, 3, 4, 4}
local heads, five, turn = rille.ones{1, 2, 3, 4}, rille.ones{5}, rille.ones{3, 2}
local right = {
  softmax = {f, 1}, log_softmax = {f, 1}, sum = {f, 0, true}, mean = {f, {0}}, prod = {f, 0}, max = {f, 1}, min = {f, 1},
  var = {f, {0}, 1}, argmax = {f, 0}, argmin = {f, 0, true}, any = {truth}, all = {truth, 0}, logsumexp = {f, 1}, cumsum = {f, 0},
  topk = {f, 2, 1}, reshape = {f, {5, 4}}, transpose = {f, 0, 1}, permute = {f, {1, 0}}, squeeze = {f, 0}, unsqueeze = {f, 0},
  expand = {f, {2, 4, 5}}, slice = {f, 0, 1, 3, 1}, pad = {f, {1, 1}, 0.5}, flip = {f, {0}}, tril = {f, 1}, triu = {f, -1},
  embedding = {ids, f}, gather = {f, 0, T({{0, 1, 2, 3, 0}}, I64)}, index_select = {f, 0, ids}, one_hot = {ids, 3},
  scatter_add = {f, 0, T({{0, 1}}, I64), rille.ones{1, 2}}, layer_norm = {f, five, five, {5}, 1e-5}, rms_norm = {f, five, 1e-5},
  cross_entropy = {f, T({0, 1, 2, 3}, I64), "mean", -100, 0.1}, mse_loss = {f, f, "sum"}, rotary = {heads, turn, turn, true},
  scaled_dot_product_attention = {heads, heads, heads, true, 0.5}, conv2d = {image, rille.ones{3, 3, 2, 2}, rille.ones{3}, {1, 1}, {0, 0}, {1, 1}, 1},
  max_pool2d = {image, {2, 2}, {2, 2}, {0, 0}}, avg_pool2d = {image, {2, 2}, {2, 2}, {0, 0}}, dropout = {f, 0.5, true},
  cast = {f, "i64"}, clamp = {f, 0, 1}, where = {truth, ids, ids}, gelu = {f, "tanh"}, stack = {{f, f}, 0}, concat = {{f, f}, 1},
  to_global = {f, {sbp = "B"}}, split = {f, 2, 0}, chunk = {f, 2, 0},
}

local NIL = {}
local odd = {
  NIL, 0, 1, -1, 2, 7, 0.5, 0 / 0, math.huge, -math.huge, MOST, LEAST, LARGE, 1e300, true, false, "sum", "none", "f32", "u8", "", print, io.stdout,
  {}, {0}, {-1}, {1, 2}, {0, 0}, {1, 1, 1, 1}, {9}, {LARGE}, {LARGE, LARGE}, {LEAST}, {MOST, MOST}, {1, 2, 3, 4, 5, 6, 7, 8, 9}, {0.5}, {"a"},
  {axis = 9}, {axis = {0, 0}}, {nosuch = 1}, {keepdim = true}, {axis = "0"}, {1, 2, axis = 0},
  T(2.5), T(3, I64), T({-1, 9, 7}, I64), T({true}), T({0 / 0, 1 / 0}), rille.zeros{0}, rille.zeros{0, 5}, rille.zeros{4, 0}, rille.zeros{2, 3, 0, 0},
  rille.zeros({0}, I64), rille.zeros({0}, {dtype = "bool"}), rille.ones{1, 1, 1, 1, 1, 1, 1, 2}, rille.ones({4, 5}, {placement = two, sbp = "S(0)"}),
  rille.ones({4, 5}, {placement = two, sbp = "P"}), rille.zeros({4, 5}, {placement = meta}), rille.zeros({1 << 31, 1 << 30}, {dtype = "u8", placement = meta}),
}
for _, dtype in ipairs{"f64", "bf16", "f16", "i64", "i32", "u8", "bool"} do odd[#odd + 1] = rille.ones({4, 5}, {dtype = dtype}) end

local function is_tensor(v) return type(v) == "userdata" and v ~= io.stdout end

local function shown(v)
  if v == NIL then return "nil" end
  if is_tensor(v) then return ("%s{%s} %s"):format(v.dtype, table.concat(v.shape, ", "), v.sbp) end
  if type(v) ~= "table" then return tostring(v) end
  local parts = {}
  for k, e in pairs(v) do parts[#parts + 1] = ("%s = %s"):format(k, shown(e)) end
  return "{" .. table.concat(parts, ", ") .. "}"
end

-- Returns the operands of a correct call after one or two changes, sometimes without the last operands.
local function spoilt(op)
  local args, n = {}, 2
  for k, v in ipairs(right[op] or {f, f}) do args[k], n = v, k end
  for _ = 1, math.random(2) do
    local k = math.random(n + math.random(0, 1))
    args[k], n = odd[math.random(#odd)], math.max(n, k)
  end
  return args, math.random(6) == 1 and math.random(0, n) or n
end

local function values(y)
  if type(y) == "table" then y = y[1] end
  if not is_tensor(y) or y:numel() > 1e6 then return end
  if y.device == "meta" then tostring(rille.plan(y)) else tostring(y) y:totable() end
end

-- Returns a text that describes what the error text lacks; nil if the error text is right.
local function fault(op, err, first)
  err = tostring(err)
  if not err:find("^[^:]*calls.lua:%d+: " .. op .. ": ") then return "does not begin with line and operator" end
  if err:find("0x%x+") then return "tells an address" end
  local named = err:find("%w+{[%d, ]*} [BSP(]") or err:find("needed at", 1, true) or not right[op] or op == "split" or op == "chunk" or op == "to_global"
  if is_tensor(first) and not named then return "names no operand" end
end

local ops, ncall, nfailed = rille.operators(), 0, 0
table.move({"split", "chunk"}, 1, 2, #ops + 1, ops)
local sources = {zeros = 1, ones = 1, full = 1, empty = 1, eye = 1, arange = 1, linspace = 1, rand = 1, randn = 1, randint = 1}
for _, op in ipairs(ops) do
  local why
  for _ = 1, sources[op] and 0 or trials do
    local args, n = spoilt(op)
    for k = 1, n do if args[k] == NIL then args[k] = nil end end
    local good, y = pcall(function() return rille[op](table.unpack(args, 1, n)) end)
    local err = not good and y
    if good then
      good, y = pcall(values, y)
      err = not good and not tostring(y):find(" cannot ") and y or nil
    end
    local bad = err and fault(op, err, n > 0 and args[1])
    ncall, nfailed = ncall + 1, nfailed + (err and 1 or 0)
    if bad and not why then
      local list = tap.list(n, function(k) return shown(args[k] == nil and NIL or args[k]) end)
      why = ("%s(%s) %s: %s"):format(op, table.concat(list, ", "), bad, err)
    end
  end
  if not sources[op] then tap.ok(not why, op .. ": errors of wrong calls name line, operator and operand", why) end
end
tap.diag(("%d calls, %d errors"):format(ncall, nfailed))
tap.done()
