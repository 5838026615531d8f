-- operator.lua - rille.operator{name =, rule =, forward =, backward =}: an operator of the user with checked signatures;
-- rille.operator{name =, operands =, body =}: an element-wise operator from a formula.
--
--   local product = rille.operator{name = "product", rule = "ab,bc->ac", ...}
--
-- The rule names the dimensions of operands and results by letters. Each letter makes a claim about operands that are
-- split along that letter: the result is then split along the letter, too; if no result has the letter, a sum over
-- ranks is pending (P). A letter in brackets, "[b]", makes no claim. Registration checks every claim on small
-- tensors of positive elements, and of elements of both signs if forward accepts these: the results and gradients of
-- two shards must together equal those of the whole tensors, and the layouts that Rille derives for forward's
-- operators must be the claimed ones, without communication. The gradients must be the derivatives of forward. Calls
-- check the sizes. An operator is a rille.func, so layouts follow from the operators that forward and backward call.

local rille = require "rille"
local check = require "rille.base.check"
local func = require "rille.func"
local layout = require "rille.base.layout"
local locals = require "rille.per_rank.local"
local trace = require "rille.step.trace"

-- ---- parsing the rule of an operator ----

-- Parses "a[b]": a list of letters; sets fixed[letter] for letters in brackets.
local function parse_tensor(who, text, fixed)
  local dims, at = {}, 1
  while at <= #text do
    local letter, stop = text:match("^(%a)()", at)
    if not letter then
      letter, stop = text:match("^%[(%a)%]()", at)
      check.that(letter, "%s: expected a letter or [letter] in the rule, found '%s'", who, text:sub(at))
      fixed[letter] = true
    end
    for _, other in ipairs(dims) do check.that(other ~= letter, "%s: letter '%s' occurs twice in '%s' of the rule", who, letter, text) end
    dims[#dims + 1], at = letter, stop
  end
  return dims
end

local function parse_list(who, text, fixed)
  local list = {}
  for part in (text .. ","):gmatch("(.-),") do list[#list + 1] = parse_tensor(who, part, fixed) end
  return list
end

-- Parses the text of a rule; returns {operands =, results =, letters =, fixed =}.
local function parse(who, text)
  check.that(type(text) == "string", "%s: rule must be a string such as \"ab,bc->ac\", found %s", who, check.shown(text))
  local left, right = text:gsub("%s", ""):match("^(.-)%->(.*)$")
  check.that(left, "%s: rule must have the form \"ab,bc->ac\", found \"%s\"", who, text)
  local rule, seen = {fixed = {}, letters = {}}, {}
  rule.operands = parse_list(who, left, rule.fixed)
  rule.results = parse_list(who, right, rule.fixed)
  for _, dims in ipairs(rule.operands) do
    for _, letter in ipairs(dims) do
      if not seen[letter] then rule.letters[#rule.letters + 1], seen[letter] = letter, true end
    end
  end
  for _, dims in ipairs(rule.results) do
    for _, letter in ipairs(dims) do check.that(seen[letter], "%s: letter '%s' of a result must occur in an operand of the rule", who, letter) end
  end
  return rule
end

-- Returns the dimension (from 0) that the letter names; nil: none.
local function dimension_of(dims, letter)
  for i, other in ipairs(dims) do
    if other == letter then return i - 1 end
  end
end

-- ---- calling an operator ----

-- Returns true for a tensor, and for a local tensor of rille.per_rank.
local function is_operand(t) return layout.is_tensor(t) or locals.is(t) end

-- Binds the sizes of tensors to letters. what: "operand" or "result".
local function bind(who, what, list, tensors, size)
  for i, dims in ipairs(list) do
    local t, text = tensors[i], table.concat(dims)
    check.that(is_operand(t), "%s: %s %d must be a tensor, found %s", who, what, i, check.shown(t))
    check.that(t.ndim == #dims, "%s: %s %d must have %d dimensions (%s), found %s", who, what, i, #dims, text, tostring(t.shape))
    for k, letter in ipairs(dims) do
      local n = t.shape[k]
      check.that(not size[letter] or size[letter] == n, "%s: dimension %d of %s %d is %d, but '%s' of the rule is %d", who, k - 1, what, i, n, letter,
        size[letter] or 0)
      size[letter] = n
    end
  end
end

local function call(o, ...)
  local size, results = {}, nil
  bind(o.name, "operand", o.rule.operands, {...}, size)
  results = table.pack(o.fn(...))
  check.that(results.n == #o.rule.results, "%s: forward must return %d results by the rule, found %d", o.name, #o.rule.results, results.n)
  bind(o.name, "result", o.rule.results, results, size)
  return table.unpack(results, 1, results.n)
end

-- ---- checking an operator when it is registered ----

-- Returns the results, and the gradients of the operands for the gradients dy of the results. dy nil: draws random
-- gradients.
local function evaluate(o, operands, dy)
  local leaves, loss = {}, nil
  for i, x in ipairs(operands) do leaves[i] = x:detach():requires_grad_(true) end
  local args = table.move(o.args, 1, #o.args, #leaves + 1, table.move(leaves, 1, #leaves, 1, {}))
  local results = {call(o, table.unpack(args))}
  dy = dy or {}
  for k, y in ipairs(results) do
    dy[k] = dy[k] or rille.rand(y.shape, {dtype = "f64"})
    local part = (y * dy[k]):sum()
    loss = loss and loss + part or part
  end
  check.that(loss.requires_grad, "%s: the results must depend on the operands", o.name)
  return results, {rille.grad(loss, leaves)}, dy
end

-- Returns the loss, sum of results * dy, after operand i was moved by h along direction[i].
local function moved_loss(o, operands, dy, i, direction, h)
  local args, loss = table.move(operands, 1, #operands, 1, {}), 0
  args[i] = operands[i] + direction * h
  for k, y in ipairs{rille.no_grad(call, o, table.unpack(table.move(o.args, 1, #o.args, #args + 1, args)))} do
    loss = loss + (y * dy[k]):sum():item()
  end
  return loss
end

-- Returns the central difference quotient of the loss along a direction.
local function quotient(o, operands, dy, i, direction, h)
  return (moved_loss(o, operands, dy, i, direction, h) - moved_loss(o, operands, dy, i, direction, -h)) / (2 * h)
end

-- Returns the indices of the k-th element of a tensor, as text.
local function indices(shape, k)
  local at = {}
  for d = #shape, 1, -1 do at[d], k = k % shape[d], k // shape[d] end
  return table.concat(at, ", ")
end

-- Raises an error that names the element of operand i whose gradient differs most from the difference quotient.
local function fail_at_worst(o, operands, dy, i, gradient, h)
  local n, worst = operands[i]:numel(), {off = -1}
  for k = 0, n - 1 do
    local one = rille.arange(n):eq(k):to("f64"):reshape(operands[i].shape)
    local found, want = (gradient * one):sum():item(), quotient(o, operands, dy, i, one, h)
    if math.abs(found - want) > worst.off then worst = {off = math.abs(found - want), at = k, found = found, want = want} end
  end
  check.fail("%s: backward has the gradient %.6g at {%s} of operand %d, but the difference quotient of forward is %.6g; exact = false accepts a gradient "
    .. "that is not the derivative", o.name, worst.found, indices(operands[i].shape, worst.at), i, worst.want)
end

-- Compares the gradients with difference quotients of forward, along a random direction of each operand.
local function check_gradients(o, operands, results, gradients, dy)
  local h, least = 1e-5, 1e-6
  for _, y in ipairs(results) do
    if y.dtype ~= "f64" then h, least = 1e-2, 3e-2 end
  end
  for i, x in ipairs(operands) do
    if o.has_gradient[i] then
      local direction = rille.rand(x.shape, {dtype = "f64"}) * 2 - 1
      local slope, want = gradients[i] * direction, quotient(o, operands, dy, i, direction, h)
      if math.abs(slope:sum():item() - want) > least * (1 + math.abs(want) + slope:abs():sum():item()) then
        fail_at_worst(o, operands, dy, i, gradients[i], h)
      end
    end
  end
end

-- Returns the tensors in which each tensor that has the letter is replaced by its half h (0 or 1) along the letter's
-- dimension.
local function halves(list, tensors, letter, h)
  local out = {}
  for i, dims in ipairs(list) do
    local axis = dimension_of(dims, letter)
    local n = axis and tensors[i].shape[axis + 1] // 2
    out[i] = axis and tensors[i]:slice(axis, h * n, (h + 1) * n) or tensors[i]
  end
  return out
end

-- Checks that the shards a and b, joined along the letter or added, equal the whole tensor.
local function check_whole(o, what, letter, i, dims, whole, a, b)
  local axis = dimension_of(dims, letter)
  local made = axis and rille.concat({a, b}, axis) or a + b
  local off = (made - whole):abs():max():item()
  check.that(off <= 1e-9 * (1 + whole:abs():max():item()),
    "%s: the rule splits '%s', but %s %d of two shards, %s, differs by %.3g from that of the unsplit operands; write [%s] if the dimension cannot be split",
    o.name, letter, what, i, axis and "joined" or "added", off, letter)
end

local function check_values(o, letter, operands, results, gradients, dy)
  local part, slope = {}, {}
  for h = 0, 1 do
    part[h], slope[h] = evaluate(o, halves(o.rule.operands, operands, letter, h), halves(o.rule.results, dy, letter, h))
  end
  for k, dims in ipairs(o.rule.results) do check_whole(o, "result", letter, k, dims, results[k], part[0][k], part[1][k]) end
  for i, dims in ipairs(o.rule.operands) do
    check_whole(o, "the gradient of operand", letter, i, dims, gradients[i], slope[0][i], slope[1][i])
  end
end

local function claimed(dims, letter, other)
  local axis = dimension_of(dims, letter)
  return axis and ("S(%d)"):format(axis) or other
end

-- Checks that Rille derives the claimed layouts. Uses meta devices, where tensors have no values.
local function check_layouts(o, letter, operands)
  local place, given = rille.placement("meta", {0, 1}), {}
  for i, dims in ipairs(o.rule.operands) do
    given[i] = rille.zeros(operands[i].shape, {dtype = "f64", placement = place, sbp = claimed(dims, letter, "B")})
  end
  local args = table.move(o.args, 1, #o.args, #given + 1, given)
  for k, y in ipairs{call(o, table.unpack(args))} do
    local want, e = claimed(o.rule.results[k], letter, "P"), rille.explain(y)
    check.that(y.sbp == want and e.bytes == 0,
      "%s: the rule splits '%s' to %s of result %d, but the operators of forward have %s and move %d bytes; write [%s] if the dimension cannot be split",
      o.name, letter, want, k, y.sbp, e.bytes, letter)
  end
end

-- Returns a copy of o for the check. The copy records in has_gradient for which operands backward returned a
-- gradient.
local function noted(o)
  local has_gradient = {}
  local function backward(...)
    local given = table.pack(o.backward(...))
    for i = 1, given.n do has_gradient[i] = given[i] ~= nil end
    return table.unpack(given, 1, given.n)
  end
  return setmetatable({has_gradient = has_gradient, fn = func{name = o.name, forward = o.forward, backward = backward}}, {__index = o})
end

-- Returns random operands with elements from 1/4 to 1; signed: of both signs. A difference quotient near 0 would be
-- inexact for functions such as log and abs.
local function draw(o, size, signed)
  local operands = {}
  for i, dims in ipairs(o.rule.operands) do
    local shape = {}
    for k, letter in ipairs(dims) do shape[k] = size[letter] end
    local x = rille.rand(shape, {dtype = "f64"}) * 0.75 + 0.25
    operands[i] = signed and rille.rand(shape):lt(0.5):where(x, -x) or x
  end
  return operands
end

-- Checks the gradients and the rule of an operator on operands, with its results and gradients for them.
local function check_on(o, size, operands, results, gradients, dy)
  if o.exact then check_gradients(o, operands, results, gradients, dy) end
  for _, letter in ipairs(o.rule.letters) do
    if not o.rule.fixed[letter] then
      check.that(size[letter] % 2 == 0, "%s: sizes.%s must be even, found %d", o.name, letter, size[letter])
      check_values(o, letter, operands, results, gradients, dy)
      check_layouts(o, letter, operands)
    end
  end
end

local function all_finite(list)
  for _, y in ipairs(list) do
    if (y:to("f64") * 0):sum():item() ~= 0 then return false end
  end
  return true
end

-- Draws operands of both signs and checks the operator on them. Does nothing if forward fails for negative elements, or
-- returns NaN or infinities, as a logarithm does.
local function check_signed(o, size)
  local operands = draw(o, size, true)
  local good, results, gradients, dy = check.try(evaluate, o, operands)
  if good and all_finite(results) and all_finite(gradients) then check_on(o, size, operands, results, gradients, dy) end
end

-- Checks the gradients and the rule of an operator, on random tensors of the given sizes.
local function check_claims(given, sizes)
  local o, size = noted(given), {}
  for i, letter in ipairs(o.rule.letters) do size[letter] = sizes[letter] or 2 * i + 2 end
  local operands = draw(o, size, false)
  check_on(o, size, operands, evaluate(o, operands))
  check_signed(o, size)
end

-- ---- compiling element-wise operators from a formula ----

-- Constants that a formula may use.
local known = {pi = math.pi, inf = math.huge}
for _, name in ipairs(rille.operators()) do
  if rille._operator(name).elementwise then known[name] = rille[name] end
end

-- Splits "x, slope" into the list of names.
local function operand_names(who, text)
  local names, seen = {}, {}
  for name in (text .. ","):gmatch("%s*(.-)%s*,") do
    check.that(name:match("^[%a_][%w_]*$"), "%s: operands must be names such as \"x, y\", found \"%s\"", who, text)
    check.that(not seen[name] and not known[name], "%s: operand '%s' has the name of another operand, an operator or a constant", who, name)
    names[#names + 1], seen[name] = name, true
  end
  return names
end

-- Compiles a formula to a function of the operands.
local function formula(who, names, body)
  local strict = setmetatable({}, {__index = function(_, name)
    if known[name] then return known[name] end
    check.fail("%s: the body has '%s'; expected an operand, an element-wise operator, pi or inf", who, tostring(name))
  end})
  local list = table.concat(names, ", ")
  local f, why = load(("local %s = ... return %s"):format(list, body), "=rille.operator", "t", strict)
  check.that(f, "%s: body must be an expression of %s, found \"%s\": %s", who, list, body, (tostring(why):gsub("^[^:]*:%d+: ", "")))
  return f
end

-- Calls the compiled formula f with tensors and numbers.
local function call_formula(who, names, f, ...)
  local n, tensors = select("#", ...), 0
  check.that(n == #names, "%s: expected %d operands, %s, found %d", who, #names, table.concat(names, ", "), n)
  for i, name in ipairs(names) do
    local v = select(i, ...)
    check.that(is_operand(v) or type(v) == "number", "%s: %s must be a tensor or a number, found %s", who, name, check.shown(v))
    if is_operand(v) then tensors = tensors + 1 end
  end
  check.that(tensors > 0, "%s: one operand must be a tensor, found numbers only", who)
  return f(...)
end

local function from_formula(given)
  local o = check.options("operator", given, {name = check.none, operands = "x", body = check.none})
  check.name("operator", o.name)
  for _, what in ipairs{"operands", "body"} do check.text("operator", what, o[what]) end
  local names, tried = operand_names(o.name, o.operands), {}
  local f = formula(o.name, names, o.body)
  for i = 1, #names do tried[i] = rille.full({2}, 0.5, {placement = rille.placement("meta", {0})}) end
  local y = trace.outside(rille.no_grad, call_formula, o.name, names, f, table.unpack(tried))
  check.that(layout.is_tensor(y), "%s: body must be a tensor for tensors, found %s", o.name, check.shown(y))
  return function(...) return call_formula(o.name, names, f, ...) end
end

return function(given)
  if type(given) == "table" and given.body ~= nil then return from_formula(given) end
  local o = check.options("operator", given,
    {name = check.none, rule = check.none, forward = check.none, backward = check.none, sizes = {}, args = {}, exact = true})
  check.name("operator", o.name)
  for _, what in ipairs{"forward", "backward"} do check.fn(o.name, what, o[what]) end
  for _, what in ipairs{"sizes", "args"} do
    check.that(type(o[what]) == "table", "%s: %s must be a table, found %s", o.name, what, check.shown(o[what]))
  end
  o.rule, o.fn = parse(o.name, o.rule), func{name = o.name, forward = o.forward, backward = o.backward}
  for letter, n in pairs(o.sizes) do
    check.that(dimension_of(o.rule.letters, letter), "%s: sizes has '%s', which is not a letter of the rule", o.name, check.named(letter))
    check.count(o.name, "sizes." .. check.named(letter), n)
  end
  -- the seed is restored later, because the check must not change the random numbers that the program draws
  local seed, count = rille._random()
  trace.outside(rille.enable_grad, check_claims, o, o.sizes)
  rille._random(seed, count)
  return function(...) return call(o, ...) end
end
