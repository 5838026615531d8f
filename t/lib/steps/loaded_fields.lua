-- loaded_fields.lua - compares the operators of t/host/fields.c, which use every field of a record, with formulas of
-- built-in operators, for each layout on two devices. arg: the library.
local tap = dofile("t/lib/tap.lua")
rille.load_operators(arg[1])
rille.manual_seed(1)
local two = rille.placement("cpu", {0, 1})
local x = rille.randn{4, 6}
local function on(t, sbp) return t:to_global{placement = two, sbp = sbp}:detach() end

for _, sbp in ipairs{"B", "S(0)", "S(1)"} do
  local v = on(x, sbp):requires_grad_(true)
  local s, q = rille.row_moments(v)
  tap.near(s:totable(), x:sum(1):totable(), "the first of two results of " .. sbp)
  tap.near(q:totable(), (x * x):sum(1):totable(), "the second of two results of " .. sbp)
  tap.near(rille.grad((s + q):sum(), {v}):totable(), (x * 2 + 1):totable(), "the gradient through both results of " .. sbp)
  local s2, q2 = rille.row_moments(v)
  tap.near(rille.grad(q2:sum(), {v}):totable(), (x * 2):totable(), "the gradient through the second result alone of " .. sbp)
  tap.near(rille.grad(s2:sum(), {v}):totable(), rille.ones{4, 6}:totable(), "the gradient through the first result alone of " .. sbp)
  tap.near(v:detach():peak():totable(), x:max(1):totable(), "a reduction by maximum of " .. sbp)
end
tap.is(on(x, "S(1)"):peak().sbp, "P(max)", "a split reduction by maximum is P(max)")

local ids = rille.tensor({4, 0, 2}, {dtype = "i64"})
for _, sbp in ipairs{"B", "S(0)"} do
  local v = on(ids, sbp)
  tap.is(v:spread():totable(), {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}}, "default attributes with " .. sbp)
  tap.is(v:spread{count = 2, how = "id", at = {1}}:totable(), {{0, 4}, {0, 0}, {0, 2}}, "an integer, a word and a list with " .. sbp)
  tap.is(rille.spread(v, v, {count = 1}):totable(), {{5}, {1}, {3}}, "an optional operand with " .. sbp)
  tap.is(v:spread{count = 1, on = false}:totable(), {{0}, {0}, {0}}, "a bool with " .. sbp)
end
tap.fails(function() return ids:spread{count = 0} end, "spread: count must be at least 1, found 0", "infer() refuses an attribute")
tap.fails(function() return ids:spread{how = "two"} end, {"\"one\" or \"id\"", "\"two\""}, "an unknown word is reported")
tap.fails(function() return rille.ones{2}:spread() end, "integer", "a float in place of integers is reported")

local y, t = rille.randn{6}, rille.rand{4, 1}
for _, dtype in ipairs{"f32", "f64", "bf16"} do
  for _, sbp in ipairs{"B", "S(0)", "S(1)"} do
    local a, b, c = x:cast(dtype), y:cast(dtype), t:cast(dtype)
    local function evaluate(f)
      local list = {on(a, sbp):requires_grad_(true), on(b, "B"):requires_grad_(true), on(c, "B"):requires_grad_(true)}
      local z = f(table.unpack(list))
      local g = {rille.grad((z * z):cast("f32"):sum(), list)}
      return {z:cast("f64"):totable(), g[1]:cast("f64"):totable(), g[2]:cast("f64"):totable(), g[3]:cast("f64"):totable()}
    end
    local want = evaluate(function(u, v, w) return u:cast("f64") + w:cast("f64") * (v:cast("f64") - u:cast("f64")) end)
    local rough = dtype == "bf16" and 0.05 or 1e-5
    tap.near(evaluate(rille.blend), want, ("an element-wise operator broadcasts, with gradients: %s %s"):format(dtype, sbp), rough, rough)
  end
end
tap.near(x:blend(y, 0.5):totable(), ((x + y) * 0.5):totable(), "a number as operand")
tap.fails(function() return ids:blend(ids, 1) end, "float", "accepts refuses integers")
tap.done()
