-- operator.lua - tests rille.operator. Right rules must be accepted. A wrong claim must be refused, and the error
-- must name the wrong letter. Operators must have the layouts of their rule, and calls must check sizes.
local tap = dofile("t/lib/tap.lua")

rille.manual_seed(tap.seed(3))

local function product(change)
  local o = {name = "product", rule = "ab,bc->ac",
    forward = function(ctx, x, w)
      ctx:save_for_backward(x, w)
      return x:matmul(w)
    end,
    backward = function(ctx, dy)
      local x, w = table.unpack(ctx.saved_tensors)
      return dy:matmul(w:transpose(0, 1)), x:transpose(0, 1):matmul(dy)
    end}
  for k, v in pairs(change or {}) do o[k] = v end
  return rille.operator(o)
end

-- Returns an operator of one tensor. Its backward computes the gradient of `forward` by automatic differentiation.
local function one(rule, forward, more)
  local o = {name = "one", rule = rule, forward = function(ctx, x) ctx:save_for_backward(x); return forward(x) end,
    backward = function(ctx, ...)
      local dy = {...}
      local x = ctx.saved_tensors[1]:detach():requires_grad_(true)
      return rille.enable_grad(function()
        local loss
        for k, y in ipairs{forward(x)} do loss = loss and loss + (y * dy[k]):sum() or (y * dy[k]):sum() end
        return (rille.grad(loss, {x}))
      end)
    end}
  for k, v in pairs(more or {}) do o[k] = v end
  return rille.operator(o)
end

-- ---- claims of rules. Columns: rule, function, what the error must say (nil: the rule is right) ----

local function softmax(x) return x:softmax(1) end
local claims = {
  {"ab->ab", function(x) return x:tanh() end},
  {"ab->ba", function(x) return x:transpose(0, 1) end},
  {"ab->a", function(x) return x:sum(1) end},
  {"ab->", function(x) return x:sum() end},
  {"a[b]->a[b]", softmax},
  {"ab->ab", softmax, "the rule splits 'b', but result 1 of two shards, joined, differs"},
  {"ab->a", function(x) return x:mean(1) end, "the rule splits 'b', but result 1 of two shards, added, differs"},
  {"a[b]->a", function(x) return x:mean(1) end},
  {"ab->ab", function(x) return x:cumsum(0) end, "the rule splits 'a'"},
  {"[a]b->[a]b", function(x) return x:cumsum(0) end},
  {"ab->ab,ab", function(x) return x * 2, x:exp() end},
  {"ab->a", function(x) return x:exp():sum(1) end},
}
for _, c in ipairs(claims) do
  if c[3] then
    tap.fails(function() one(c[1], c[2]) end, {c[3]}, c[1] .. " is refused")
  else
    tap.ok(pcall(one, c[1], c[2]), c[1] .. " is accepted")
  end
end
tap.fails(function() product{rule = "ab,bc,c->ac", forward = function(ctx, x, w, b) ctx:save_for_backward(x, w); return x:matmul(w) + b end,
  backward = function(ctx, dy) local x, w = table.unpack(ctx.saved_tensors); return dy:matmul(w:transpose(0, 1)), x:transpose(0, 1):matmul(dy), dy:sum(0) end} end,
  {"the rule splits 'b', but result 1 of two shards, added, differs"}, "a bias that each rank would add is refused")
tap.fails(function() product{backward = function(ctx, dy) local x, w = table.unpack(ctx.saved_tensors); return dy:matmul(w:transpose(0, 1)), x:transpose(0, 1):matmul(dy) / 4 * dy.shape[1] end} end,
  {"the rule splits 'a', but the gradient of operand 2 of two shards, added, differs"}, "a gradient that depends on the shard's size is refused")
tap.fails(function() one("ab->ab", function(x) return x:flip{0}:flip{0} end) end, {"the rule splits 'a' to S(0) of result 1, but the operators of forward"},
  "a claim that costs communication is refused")

-- ---- backward must compute the derivative: factors of the operands' gradients other than 1 are refused ----

local function scaled_product(first, second, more)
  return product{exact = more, backward = function(ctx, dy)
    local x, w = table.unpack(ctx.saved_tensors)
    return first and dy:matmul(w:transpose(0, 1)) * first, second and x:transpose(0, 1):matmul(dy) * second
  end}
end
for _, first in ipairs{false, 1, 0, -1, 1.001} do
  for _, second in ipairs{false, 1, 2} do
    local wrong = first and first ~= 1 and 1 or second == 2 and 2
    local function make() return scaled_product(first or nil, second or nil) end
    local what = ("gradients times %s and %s"):format(first or "nothing", second or "nothing")
    if wrong then
      tap.fails(make, {"product: backward has the gradient ", ("of operand %d, but the difference quotient of forward is "):format(wrong)}, what .. " are refused")
    elseif first or second then
      tap.ok(pcall(make), what .. " are accepted")
    end
  end
end
tap.ok(pcall(scaled_product, 1, 2, false), "exact = false accepts another gradient")
local function rounded(x) return x + (x:round() - x):detach() end
-- operands of both signs: a backward function that is wrong for negative elements only is refused; a domain of positive
-- elements, and a kink at 0, are accepted with every seed
local function with_signs(forward, backward)
  return function()
    return rille.operator{name = "signed", rule = "ab->ab", forward = function(ctx, x) ctx:save_for_backward(x) return forward(x) end,
      backward = function(ctx, dy) return backward(dy, ctx.saved_tensors[1]) end}
  end
end
for name, f in tap.sorted{relu = rille.relu, abs = rille.abs, ["x abs(x)"] = function(x) return x * x:abs() end} do
  local slope = name == "x abs(x)" and function(dy, x) return dy * x * 2 end or function(dy) return dy end
  tap.fails(with_signs(f, slope), {"signed: backward has the gradient ", "difference quotient"}, name .. " with the gradient for positive elements is refused")
end
for seed = 1, 4 do
  rille.manual_seed(seed)
  for name, make in tap.sorted{
    log = with_signs(rille.log, function(dy, x) return dy / x end),
    sqrt = with_signs(rille.sqrt, function(dy, x) return dy / x:sqrt() / 2 end),
    abs = with_signs(rille.abs, function(dy, x) return dy * x:sign() end),
    ["abs in f32"] = with_signs(function(x) return x:to("f32"):abs() end, function(dy, x) return dy:to("f64") * x:sign() end),
    ["a checked domain"] = with_signs(function(x)
      assert(x.placement.device == "meta" or x:min():item() > 0, "expected positive elements")
      return x * 2
    end, function(dy) return dy * 2 end),
  } do
    tap.ok(pcall(make), ("%s is accepted, seed %d"):format(name, seed))
  end
end

tap.fails(function() one("ab->ab", function(x) return x:round() + x - x:detach() end) end, {"gradient 0.", "difference quotient of forward is 0"},
  "a straight-through estimator must say that it is not the derivative")
tap.ok(pcall(one, "ab->ab", rounded, {exact = false}), "and is accepted then")
tap.ok(pcall(one, "ab->ab", function(x) return (x:to("f32") * 3):tanh() end), "a function that computes in f32 is accepted")
tap.fails(function()
  product{backward = function(ctx, dy)
    local x, w = table.unpack(ctx.saved_tensors)
    local d = dy:matmul(w:transpose(0, 1))
    return d + rille.eye(6, {dtype = "f64"})[{{2, 3}}] * rille.eye(4, {dtype = "f64"})[{{3, 4}}]:transpose(0, 1) * 5, x:transpose(0, 1):matmul(dy)
  end}
end, {"at {3, 2} of operand 1"}, "the element with the largest difference is named")

-- ---- calls of an operator ----

rille.manual_seed(3)
local before = rille.rand{2}:totable()
rille.manual_seed(3)
local f = product()
tap.is(rille.rand{2}:totable(), before, "registration does not change what the program draws")

local P = rille.placement("cpu", {0, 1})
local x, w = rille.randn{4, 6}, rille.randn{6, 8}
local want = x:matmul(w):totable()
for _, case in ipairs{{"S(0)", "B", "S(0)"}, {"B", "S(1)", "S(1)"}, {"S(1)", "S(0)", "P"}, {"B", "B", "B"}} do
  local a = x:to_global{placement = P, sbp = case[1]}:detach():requires_grad_(true)
  local b = w:to_global{placement = P, sbp = case[2]}:detach():requires_grad_(true)
  local y = f(a, b)
  tap.is(y.sbp, case[3], ("%s, %s -> %s"):format(table.unpack(case)))
  tap.near(y:totable(), want, "with the values of the whole", 1e-5, 1e-5)
  y:square():sum():backward()
  tap.near(b.grad:totable(), (2 * x:transpose(0, 1):matmul(x:matmul(w))):totable(), "and gradients", 1e-4, 1e-4)
end
local scaled = one("ab->ab", function(t) return t * 2 end, {args = {3}, sizes = {a = 8}})
tap.is(scaled(rille.ones{1, 1}, 5):item(), 2, "arguments after the operands reach forward")

for _, m in ipairs{
  {"another size", function() f(x, x) end, "product: dimension 0 of operand 2 is 4, but 'b' of the rule is 6"},
  {"another number of dimensions", function() f(x, rille.ones{6}) end, "product: operand 2 must have 2 dimensions (bc), found {6}"},
  {"a missing operand", function() f(x) end, "product: operand 2 must be a tensor, found nil"},
  {"a result of another shape", function() product{forward = function(_, a) return a end} end, "product: dimension 1 of result 1 is 6, but 'c' of the rule is 8"},
  {"too few results", function() one("ab->ab,ab", function(t) return t * 1 end) end, "one: forward must return 2 results by the rule, found 1"},
  {"no arrow", function() product{rule = "ab,bc"} end, 'product: rule must have the form "ab,bc->ac", found "ab,bc"'},
  {"a sign in the rule", function() product{rule = "a1->a"} end, "product: expected a letter or [letter] in the rule, found '1'"},
  {"a letter twice", function() product{rule = "aa->a"} end, "product: letter 'a' occurs twice in 'aa' of the rule"},
  {"a new letter", function() product{rule = "ab->c"} end, "product: letter 'c' of a result must occur in an operand of the rule"},
  {"no rule", function() product{rule = 3} end, "product: rule must be a string"},
  {"an empty name", function() product{name = " "} end, 'operator: name must not be empty, found " "'},
  {"an empty name of a formula", function() rille.operator{name = "", body = "x"} end, 'operator: name must not be empty, found ""'},
  {"no backward", function() product{backward = 3} end, "product: backward must be a function, found 3"},
  {"an odd size", function() product{sizes = {a = 3}} end, "product: sizes.a must be even, found 3"},
  {"an unknown size", function() product{sizes = {z = 4}} end, "product: sizes has 'z', which is not a letter of the rule"},
} do tap.fails(m[2], {m[3]}, m[1] .. " is an error") end

-- ---- formulas ----

local formulas = { -- columns: body of the formula, operands, the same computation with methods
  {"x / (1 + abs(x))", "x", function(x) return x / (x:abs() + 1) end},
  {"where(gt(x, 0), x, slope * x)", "x, slope", function(x, slope) return x:gt(0):where(x, x * slope) end},
  {"log(1 + exp(-x)) * pi + y ^ 2", "x, y", function(x, y) return (x:neg():exp() + 1):log() * math.pi + y * y end},
  {"maximum(x, y) - min2", "x, y, min2", function(x, y, z) return x:maximum(y) - z end},
}
for _, case in ipairs(formulas) do
  local body, names, same = table.unpack(case)
  local op, operands = rille.operator{name = "formula", operands = names, body = body}, {}
  for name in names:gmatch("%w+") do operands[#operands + 1] = name == "slope" and 0.25 or rille.randn{4, 6} end
  for _, sbp in ipairs{"B", "S(0)", "S(1)"} do
    local function values(fn, compiled)
      local leaves = {}
      for i, v in ipairs(operands) do
        leaves[i] = type(v) == "number" and v or v:to_global{placement = P, sbp = sbp}:detach():requires_grad_(true)
      end
      local function loss() local y = fn(table.unpack(leaves)); y:square():sum():backward(); return y end
      local list = {(compiled and rille.graph(loss) or loss)():totable()}
      for _, v in ipairs(leaves) do if type(v) ~= "number" then list[#list + 1] = v.grad:totable() end end
      return list
    end
    local want = values(same)
    tap.near(values(op), want, ("%s, %s: values and gradients"):format(body, sbp), 1e-6, 1e-6)
    tap.near(values(op, true), want, ("%s, %s: in a step"):format(body, sbp), 1e-6, 1e-6)
  end
end
local soft = rille.operator{name = "soft", body = "x / (1 + abs(x))"}
for _, m in ipairs{
  {"an unknown name", function() rille.operator{name = "f", body = "x + sum(x)"} end, "f: the body has 'sum'; expected an operand, an element-wise operator, pi or inf"},
  {"no expression", function() rille.operator{name = "f", body = "x +"} end, 'f: body must be an expression of x, found "x +"'},
  {"an operand twice", function() rille.operator{name = "f", operands = "x, x", body = "x"} end, "f: operand 'x' has the name of another operand"},
  {"an operator's name", function() rille.operator{name = "f", operands = "exp", body = "exp"} end, "f: operand 'exp' has the name of"},
  {"no name", function() rille.operator{name = "f", operands = "1", body = "x"} end, 'f: operands must be names such as "x, y", found "1"'},
  {"a body without operands", function() rille.operator{name = "f", body = "3"} end, "f: body must be a tensor for tensors, found 3"},
  {"too many operands", function() soft(x, x) end, "soft: expected 1 operands, x, found 2"},
  {"a wrong operand", function() soft("a") end, "soft: x must be a tensor or a number, found"},
  {"numbers only", function() soft(3) end, "soft: one operand must be a tensor, found numbers only"},
} do tap.fails(m[2], {m[3]}, "in a formula, " .. m[1] .. " is an error") end

tap.done()
