-- whole-batch-random.lua - tests random programs in micro-batches, down to one row: loss and gradients must be those of
-- the complete batch, on one device and with rows split over two.
--
-- A program is a chain of steps on a value x (rows, positions, width), each with parameters of its own, and a loss. The
-- parameters have leading sizes of 1, or a size for each position; some steps move the rows to another axis.
local tap = dofile("t/lib/tap.lua")

local seed = tap.seed(5)
local ROWS <const>, T <const>, C <const> = 4, 3, 6
local P2 = rille.placement("cpu", {0, 1})

-- Steps by the axis of the rows: 0, or 1 (after an odd number of transposes). Columns: the shape of the parameter, or
-- {}; the step as a function of x and the parameter.
local anywhere = {
  {{C}, function(x, p) return x + p end}, {{1, 1, C}, function(x, p) return x * p end}, {{C, C}, function(x, p) return x:matmul(p) end},
  {{1, C, C}, function(x, p) return x:matmul(p) end}, {{}, function(x) return x:softmax(-1) end}, {{C}, function(x, p) return x:layer_norm(p) end},
  {{}, function(x) return x:tanh() + x end}, {{8, C}, function(x, p) return x + p[x:argmax(-1)] end},
  {{}, function(x) return x:permute{2, 0, 1}:square():permute{1, 2, 0} * 0.3 end}, {{1}, function(x, p) return x:gt(0):where(x, x * p) end},
}
local rows_first = {
  {{C, C}, function(x, p) return x:reshape{-1, C}:matmul(p):reshape{-1, T, C} end}, {{}, function(x) return x - x:mean(1, true) end},
  {{}, function(x) return x:cumsum(1) end}, {{1, T, C}, function(x, p) return x + p end},
  {{C, C}, function(x, p) return x:matmul(p):matmul(x:transpose(1, 2)):softmax(-1):matmul(x) end},
  {{1, 1, C}, function(x, p) return x:concat(p:expand{x.shape[1], 1, C}, 1)[{{}, {1, T + 1}}] end},
  {{C, C}, function(x, p)
    return select(2, rille.scan(function(h, t) h = (h:matmul(p) + t):tanh() return h, h end, x[{{}, 0}] * 0, x, {axis = 1}))
  end},
}
local rows_second = {
  {{T, 1, C}, function(x, p) return x * p end}, {{}, function(x) return x:max(0, true) * 0.5 + x end},
  {{C, C}, function(x, p) return select(2, rille.scan(function(h, t) h = (h:matmul(p) + t):tanh() return h, h end, x[0] * 0, x)) end},
}
local losses = {
  function(x) return x:square():mean() end, function(x) return x:square():sum() end, function(x) return x:square():sum() / x.shape[1] end,
  function(x, y) return x:reshape{-1, C}:cross_entropy(y:reshape{-1}) end, function(x) return x:mean{axis = {1, 2}}:square():sum() end,
  function(x, y) local seen = y:ne(2):to("f64"); return (x:square():mean(-1) * seen):sum() / seen:sum() end,
}

-- Returns the shapes of the parameters, and the program as a function of the parameters, x and labels y.
local function program()
  local shapes, steps, second = {}, {}, false
  for k = 1, math.random(3, 7) do
    local list = math.random(2) == 1 and anywhere or second and rows_second or rows_first
    local step = list[math.random(#list)]
    if math.random(6) == 1 then
      second, step = not second, {{}, function(x) return x:transpose(0, 1) end}
    end
    shapes[k], steps[k] = step[1], step[2]
  end
  local loss = losses[math.random(#losses)]
  return shapes, function(params, x, y)
    for k, step in ipairs(steps) do x = step(x, params[k]) end
    return loss(second and x:transpose(0, 1) or x, y)
  end
end

-- Returns a function of x and y that returns the loss and the gradients of the parameters.
local function training(run, params)
  local used = tap.list(params, function(p) return #p.shape > 0 and p or nil end)
  return function(x, y)
    local loss = run(params, x, y)
    return loss, table.unpack(#used > 0 and {rille.grad(loss, used)} or {})
  end
end

tap.group("random programs", function()
  for n = 1, 160 do
    if tap.share() then
      math.randomseed(seed + n)
      rille.manual_seed(seed + n)
      local shapes, run = program()
      local x, y = rille.randn({ROWS, T, C}, {dtype = "f64"}), rille.randint(0, C, {ROWS, T})
      local values = tap.list(shapes, function(shape) return rille.randn(shape, {dtype = "f64"}) end)
      local function parameters(where)
        return tap.list(values, function(v) return (where and v:to_global{placement = where, sbp = "B"} or v):detach():requires_grad_(true) end)
      end
      local want = {training(run, parameters())(x, y)}
      for _, case in ipairs{{2}, {4}, {1, P2}, {2, P2}} do
        local pieces, where = table.unpack(case)
        local split = where and {placement = where, sbp = "S(0)"} or {placement = x.placement, sbp = "B"}
        local got = {rille.graph(training(run, parameters(where)), {micro_batches = pieces})(x:to_global(split), y:to_global(split))}
        local function near(v) return v:to_global{placement = x.placement, sbp = "B"}:totable() end
        tap.near(tap.list(got, near), tap.list(want, near), ("program %d, %d micro-batches%s: loss and gradients of the batch"):format(n, pieces,
          where and " of split rows" or ""), 1e-8, 1e-8)
      end
    end
  end
end)

tap.done()
