-- units.lua - tests planned steps of a block whose heads the ranks do not divide (actors/plan/assign/units.c).
--
-- The planner must know that the columns of projections can be split by heads, without a layout from the user. Then all
-- values that share the columns have candidates with that unit, and only these. The planned step must have the losses of
-- one device, and cost no more than with the layouts of rille.parallel.
local tap = dofile("t/lib/tap.lua")
local rille = require "rille"
local SIZE = 16

local function ranks(n) return rille.placement("cpu", tap.list(n, function(i) return i - 1 end)) end

-- Trains a block for two steps. Returns the losses, the step, and the block.
local function train(heads, P, layouts, mode)
  rille.manual_seed(1)
  local m = rille.nn.TransformerBlock(SIZE * heads, heads)
  m:to_global{placement = P, sbp = layouts == "recipe" and "B" or layouts}
  if layouts == "recipe" then rille.parallel(m, {tensor = 0}) end
  local optimizer = rille.optim.AdamW(m:parameters(), {lr = 1e-3})
  local step = tap.training(optimizer, function(x) return m(x):square():mean() end, {auto_parallel = mode, time_limit = 600})
  rille.manual_seed(2)
  local x = rille.randn({2, 24, SIZE * heads}, {placement = P, sbp = "B"})
  return tap.list(2, function() return step(x):item() end), step, m
end

-- Returns the texts of an operator's candidates that name a matrix's rows: with a unit, and without.
local function kinds(e, heads)
  local with, without, width = 0, 0, SIZE * heads
  for _, op in ipairs(e.ops) do
    for _, c in ipairs(op.candidates or {}) do
      local text = table.concat(c.inputs, " ") .. " " .. table.concat(c.outputs, " ")
      if text:find("unit " .. SIZE, 1, true) then with = with + 1 end
    end
    if op.name == "reshape" and op.results[1].shape[3] == width then
      for _, c in ipairs(op.candidates) do
        if c.outputs[1] == "S(2)" then without = without + 1 end
      end
    end
  end
  return with, without
end

for case, heads in ipairs{3, 5, 7, 9} do
  for n = 2, 4, 2 do
    if tap.share(2 * case + n // 2) then
      local name = ("%d heads on %d ranks: "):format(heads, n)
      local got, step = train(heads, ranks(n), "auto", true)
      local e = step:explain()
      tap.near(got, (train(heads, ranks(1), "B")), name .. "losses of one device", 1e-4, 1e-6)
      local with, without = kinds(e, heads)
      tap.ok(heads % n == 0 or with > 0, name .. "calls can be split by heads")
      tap.ok(heads % n == 0 or without == 0, name .. "joined heads are split by heads only")
      local recipe = select(2, train(heads, ranks(n), "recipe", true)):explain()
      tap.ok(e.cost <= recipe.cost, ("%sthe plan costs no more than the recipe (%d, %d)"):format(name, e.cost, recipe.cost))
    end
  end
end
tap.done()
