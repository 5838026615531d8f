-- halves-ranks.lua - tests that sums of bf16 and f16 do not depend on the number of ranks or micro-batches: partial
-- sums are f32, and only the complete sum is rounded.
local tap = dofile("t/lib/tap.lua")

local ONE = rille.placement("cpu", {0})
local EIGHT, SQUARE = rille.placement("cpu", {0, 1, 2, 3, 4, 5, 6, 7}), rille.placement("cpu", {{0, 1, 2, 3}, {4, 5, 6, 7}})

local function home(t) return t:to_global{placement = ONE, sbp = "B"} end
local function same(a, b) return home(a):eq(home(b)):all():item() end

-- Returns integers whose sums f32 represents exactly, but halves do not. The sum, rounded once, is then the same for
-- every layout.
local function grid(rows, cols, d)
  local most = d == "f16" and 100 or 250
  return rille.tensor(tap.rows(rows, cols, function(i, j) return (i * 7 + j * 3) % 11 + (i == 1 and most or 0) end), {dtype = d})
end

for _, d in ipairs{"bf16", "f16"} do
  local x, w = grid(64, 24, d), grid(24, 40, d)
  local list = tap.list(64, function(i) return i % 5 end)
  local ids = rille.tensor(list, {dtype = "i64"})
  local calls = {
    {"sum", function(a) return a:sum(0) end, "S(0)"},
    {"sum of all", function(a) return a:sum() end, "S(1)"},
    {"mean", function(a) return a:mean(0) end, "S(0)"},
    {"matmul", function(a, b) return a:matmul(b) end, "S(1)", "S(0)"},
    {"matmul of a transpose", function(a) return a:transpose(0, 1):matmul(a) end, "S(0)"},
    {"transposed sum", function(a, b) return a:matmul(b):transpose(0, 1) end, "S(1)", "S(0)"},
    {"a sum of sums", function(a, b) return a:matmul(b):sum(1) end, "S(1)", "S(0)"},
    {"a chain", function(a, b) local y = a:matmul(b); return y * 0.5 - y end, "S(1)", "S(0)"},
    {"embedding", function(a, b, i) return b:index_select(0, i) end, nil, "S(0)"},
    {"scatter_add", function(a, _, i) return (a * 0 - 999):scatter_add(0, i:reshape{64, 1}:expand{64, 24}, a) end, "S(0)", "B"},
    {"gradient of a weight", function(a, b)
      b:requires_grad_()
      return rille.grad(a:matmul(b):sum(), {b})
    end, "S(0)", "B"},
    {"gradient of a table", function(a, b, i)
      b:requires_grad_()
      return rille.grad(b:index_select(0, i):sum(), {b})
    end, nil, "B"},
  }
  for _, call in ipairs(calls) do
    local name, f, sx, sw = call[1], call[2], call[3], call[4]
    local function at(place, s)
      local n = #place.shape
      local function lay(t, sbp) return t:to_global{placement = place, sbp = n == 1 and sbp or {"B", sbp}}:detach() end
      return f(lay(x, s and sx or "B"), lay(w, s and sw or "B"), lay(ids, "B"))
    end
    local want = at(ONE)
    tap.ok(same(at(EIGHT, true), want), ("%s of %s is the same on eight ranks as on one"):format(name, d))
    local got = at(SQUARE, true)
    tap.ok(got.dtype == d and same(got, want), ("%s of %s is the same on a mesh of 2 x 4 as on one rank"):format(name, d))
  end
end

-- Checks a pending sum of 16-bit values. Its local shards must be f32, but the tensor's dtype and the costs of its
-- redistribution must be those of 16 bits.
do
  local y = grid(64, 24, "bf16"):to_global{placement = EIGHT, sbp = "S(0)"}:sum(0)
  tap.ok(y.sbp == "P" and y.dtype == "bf16" and y:to_local(3).dtype == "f32", "a local shard of a pending bf16 sum is f32, the tensor is bf16")
  local to = {placement = EIGHT, sbp = "B"}
  local halves = rille.boxing{shape = {1024}, dtype = "bf16", from = {placement = EIGHT, sbp = "P"}, to = to}
  local floats = rille.boxing{shape = {1024}, dtype = "f32", from = {placement = EIGHT, sbp = "P"}, to = to}
  tap.ok(floats.bytes == 2 * 7 * 1024 * 4 and halves.bytes == 7 * 1024 * (4 + 2) and halves.bound == halves.bytes,
    "an all-reduce of bf16 moves partial sums of four bytes and sums of two")
end

-- Sums the values of eight micro-batches: 256 and seven ones. Adding them one by one in bf16 would give 256.
for _, d in ipairs{"bf16", "f16"} do
  for _, place in ipairs{ONE, rille.placement("cpu", {0, 1})} do
    local sbp = place == ONE and "B" or "S(0)"
    local w = rille.ones({1}, {dtype = d, placement = place, sbp = "B"}):requires_grad_()
    local x = rille.tensor({256, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {dtype = d, placement = place, sbp = sbp})
    local step = rille.graph(function(batch)
      (batch * w):sum():backward()
      return w.grad
    end, {micro_batches = 8})
    local got = home(step(x))
    tap.ok(got.dtype == d and got:item() == rille.tensor({271}, {dtype = d}):item(),
      ("the gradient of eight micro-batches in %s on %d"):format(d, place.size or #sbp))
  end
end

-- Sums the gradients of four micro-batches: n + 1, n + 1, n + 1 and n + 5. Halves cannot represent these, so no
-- gradient may be rounded before the sum.
do
  local forms = {
    matmul = {{1, 1}, function(x, w) return x:matmul(w) end},
    ["a product with a vector"] = {{1}, function(x, w) return x:matmul(w) end},
    ["an expanded weight"] = {{1, 1}, function(x, w) return w:expand(x.shape[1], 1) * x end},
    ["a weight that is read twice"] = {{1, 1}, function(x, w) return (x:matmul(w) + x:matmul(w)) * 0.5 end},
    ["the weight of rms_norm"] = {{4}, function(x, w) return rille.rms_norm(x:expand(-1, 4) * 0 + 1, w) * x end},
    ["the bias of layer_norm"] = {{4}, function(x, w) return rille.layer_norm(x:expand(-1, 4) * 0, nil, w) * x end},
    conv2d = {{1, 1, 1, 1}, function(x, w) return x:reshape{-1, 1, 1, 1}:conv2d(w) end},
    embedding = {{1, 4}, function(x, w) return rille.embedding((x * 0):reshape{-1}:to"i64", w) * x end},
    pow = {{1}, function(x, w) return w ^ 2 * x * 0.5 end},
    ["a cast"] = {{1}, function(x, w) return x:to"f32" * w:to"f32" end},
  }
  for name, form in pairs(forms) do
    for _, d in ipairs{"bf16", "f16"} do
      for _, l in ipairs{{ONE, "B"}, {rille.placement("cpu", {0, 1}), "S(0)"}} do
        local w = rille.ones(form[1], {dtype = d, placement = l[1], sbp = "B"}):requires_grad_()
        local rows, n = {}, d == "f16" and 2048 or 256
        for piece = 1, 4 do
          for _, v in ipairs{n, piece == 4 and 5 or 1, 0, 0} do rows[#rows + 1] = {v} end
        end
        local step = rille.graph(function(x)
          form[2](x, w):sum():backward()
          return w.grad
        end, {micro_batches = 4})
        local got = home(step(rille.tensor(rows, {dtype = d, placement = l[1], sbp = l[2]})))
        tap.is(got:reshape{-1}[0]:item(), 4.0 * n + 8, ("%s, %s, %s: four micro-batches"):format(name, d, l[2]))
      end
    end
  end
end

tap.done()
