-- planner-strategy.lua - a strategy is its operator's own, whatever its operands are, however layouts are chosen: the operator
-- lies as asked and gives the numbers of one device. What its operands are made of again below a move has none.

local rille = require "rille"
local tap = dofile("t/tap.lua")

local P <const> = rille.placement("cpu", {0, 1, 2, 3})

local function whole(shape, sbp)
  return rille.randint(-2, 3, shape, {placement = P, sbp = sbp}):to("f32"):detach()
end

rille.manual_seed(5)
local strategies = {{{{4, 1}, {1, 1}}, {"S(0)", "B"}}, {{{1, 4}, {4, 1}}, {"S(1)", "S(0)"}}, {{{1, 1}, {1, 4}}, {"B", "S(1)"}}}
local modes = {{"eager choice", {}}, {"planned", {auto_parallel = true}}, {"greedy", {auto_parallel = "greedy"}},
  {"propagate", {auto_parallel = "propagate"}}}

for _, sbp in ipairs{"S(0)", "S(1)", "B"} do
  local a, square, wide = whole({8, 8}, sbp), whole({8, 8}, sbp), whole({8, 16}, sbp)
  local operands = {
    {"a leaf", function() return square end},
    {"a sum", function() return square + 1 end},
    {"a slice", function() return wide:slice(1, 0, 8) end},
    {"a slice that leaves devices out", function() return wide:reshape{16, 8}:slice(0, 0, 8) end},
    {"a transpose", function() return square:transpose(0, 1) end},
    {"a transposed slice", function() return wide:slice(1, 8, 16):transpose(0, 1) end},
    {"a cast", function() return square:to("bf16"):to("f32") end},
    {"a move", function() return square:to_global{sbp = "S(1)"} end},
  }
  for _, operand in ipairs(operands) do
    for side = 1, 2 do
      local function product(strategy)
        local x, y = a, operand[2]()
        if side == 1 then x, y = y, x end
        return x:matmul(y, {strategy = strategy})
      end
      local want = product():totable()
      for _, mode in ipairs(modes) do
        for _, s in ipairs(strategies) do
          local what = ("%s of %s as operand %d, %s as %s by %s"):format(operand[1], sbp, side, mode[1], s[2][1], s[2][2])
          local step = rille.graph(function() return product(s[1]) end, mode[2])
          local good, got = pcall(step)
          local found
          for _, op in ipairs(good and step:explain().ops or {}) do
            if op.name == "matmul" then found = op.inputs end
          end
          tap.ok(good, what, got)
          tap.is(found, s[2], what .. ": it lies so")
          tap.is(good and got:totable(), want, what .. ": its numbers")
        end
      end
    end
  end
end

-- Operands of an autocast product are casts, which have no strategy.
for _, mode in ipairs(modes) do
  local a, b = whole({8, 8}, "S(0)"), whole({8, 16}, "S(0)")
  local step = rille.graph(function()
    return rille.autocast("bf16", function() return a:matmul(b:slice(1, 0, 8), {strategy = {{1, 4}, {4, 1}}}) end)
  end, mode[2])
  step()
  for _, op in ipairs(step:explain().ops) do
    if op.name == "matmul" then tap.is(op.inputs, {"S(1)", "S(0)"}, "autocast, " .. mode[1]) end
  end
end
tap.done()
