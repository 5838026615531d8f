-- tied.lua - tests a table that is both embedding and output layer: its gradient is the sum of two gradients.
--
-- The gradient must equal the sum of the gradients of two separate tables, in all layouts, eager and compiled, with
-- and without micro-batches. Embedding gradients are added in place to the gradient of the matrix product.
local tap = dofile("t/lib/tap.lua")
local acts = dofile("t/lib/steps/acts.lua")
local ROWS, WIDTH, BATCH, LENGTH = 12, 8, 4, 6

local places = {
  {"one device", rille.placement("cpu", {0}), "B", "B"},
  {"split batch", rille.placement("cpu", {0, 1}), "B", "S(0)"},
  {"split rows", rille.placement("cpu", {0, 1}), "S(0)", "B"},
  {"split width", rille.placement("cpu", {0, 1}), "S(1)", "B"},
  {"rows and batch", rille.placement("cpu", {{0, 1}, {2, 3}}), {"S(0)", "B"}, {"B", "S(0)"}},
  -- micro-batches of two rows, which cannot be divided evenly among three devices
  {"uneven", rille.placement("cpu", {0, 1, 2}), "B", "S(0)", whole = true},
}

-- Returns integers, so that sums are exact in any order.
local function values(kind)
  rille.manual_seed(5)
  local table_ = rille.randint(-2, 3, {ROWS, WIDTH}):to("f32")
  local ids = kind == "one id" and rille.zeros({BATCH, LENGTH}, {dtype = "i64"}) or rille.randint(0, ROWS, {BATCH, LENGTH})
  return table_, ids, rille.randint(-2, 3, {BATCH, LENGTH, ROWS}):to("f32")
end

local function loss_of(lookup, head, ids, g)
  local x = rille.embedding(ids, lookup)
  return (x:matmul(head:transpose(0, 1)) * g):sum()
end

local function global(t, place, sbp) return t:to_global{placement = place, sbp = sbp} end

-- Returns the gradient of the tied table, or the sum of two separate gradients.
local function gradient(place, how, kind, tied)
  local table_, ids, g = values(kind)
  local function param()
    return rille.tensor(table_:totable(), {dtype = "f32", placement = place[2], sbp = place[3], requires_grad = true})
  end
  local a = param()
  local b = tied and a or param()
  local function step(i, h)
    loss_of(a, b, i, h):backward()
    return tied and a.grad or a.grad + b.grad
  end
  ids, g = global(ids, place[2], place[4]), global(g, place[2], place[4])
  if how.eager then return step(ids, g):totable(), a end
  local opt = rille.optim.SGD(tied and {a} or {a, b}, {lr = 1})
  local run = tap.training(opt, function(i, h) return loss_of(a, b, i, h) end, {micro_batches = how.pieces})
  run(ids, g):item()
  local moved = global(table_, place[2], place[3]) - a
  if not tied then moved = moved + (global(table_, place[2], place[3]) - b) end
  return moved:totable(), run
end

for _, place in ipairs(places) do
  for _, how in ipairs{{"eager", eager = true}, {"compiled", pieces = 1}, {"two micro-batches", pieces = 2}} do
    for _, kind in ipairs(how.pieces == 2 and place.whole and {} or {"many ids", "one id"}) do
      local got, run = gradient(place, how, kind, true)
      local name = ("%s, %s, %s"):format(place[1], how[1], kind)
      tap.is(got, (gradient(place, how, kind, false)), name)
      local joined, alone = 0, 0
      for _, act in ipairs(not how.eager and acts(run) or {}) do
        joined = joined + (act.name == "contract+index_add_to" and 1 or 0)
        alone = alone + (act.name == "add" and 1 or 0)
      end
      if how.pieces == 1 and type(place[3]) == "string" and place[3] == "B" then
        tap.is({joined, alone}, {place[4] == "B" and 1 or place[1] == "uneven" and 3 or 2, 0}, name .. ": embedding gradients are added in place")
      end
    end
  end
end

-- Looks up an id out of range. The error must report the id's position in the complete batch, whichever device finds
-- the id, and nothing may be updated.
for _, place in ipairs(places) do
  for _, how in ipairs{{"compiled", pieces = 1}, {"two micro-batches", pieces = place.whole and 1 or 2}} do
    local table_, ids, g = values()
    local rows = ids:totable()
    rows[BATCH][2] = ROWS
    ids = rille.tensor(rows, {dtype = "i64"})
    local w = rille.tensor(table_:totable(), {dtype = "f32", placement = place[2], sbp = place[3], requires_grad = true})
    local opt = rille.optim.SGD({w}, {lr = 1})
    local run = rille.graph(function(i, h, x)
      -- returns another value than the loss; then only the computation of the gradient checks the ids
      local loss = rille.embedding(i, w):sum() + (x:matmul(w:transpose(0, 1)) * h):sum()
      loss:backward(); opt:step(); opt:zero_grad()
      return rille.ones({1})
    end, {micro_batches = how.pieces})
    local function whole(t) return global(t, place[2], place[4]) end
    tap.fails(function() run(whole(ids), whole(g), whole(rille.ones{BATCH, LENGTH, WIDTH})) end,
      {"id " .. ROWS, "{" .. BATCH - 1 .. ", 1}", "tied.lua"}, place[1] .. ", " .. how[1] .. ": an id out of range is named")
    tap.is(w:totable(), table_:totable(), place[1] .. ", " .. how[1] .. ": nothing is updated")
  end
end

-- Reads the gradient of the product first. This gradient must keep its values when the embedding's gradient is read.
for _, place in ipairs(places) do
  local ids = global(rille.tensor({{0, 1, 2}, {2, 1, 2}}, {dtype = "i64"}), place[2], place[4])
  local x = global(rille.ones{2, 3, WIDTH}, place[2], place[4])
  local function param() return rille.tensor(rille.ones({3, WIDTH}):totable(), {dtype = "f32", placement = place[2], sbp = place[3], requires_grad = true}) end
  local function row(t)
    local rows = t:totable()
    return {rows[1][1], rows[2][WIDTH], rows[3][1]}
  end
  local a, b = param(), param()
  local loss = rille.embedding(ids, a):sum() + x:matmul((a + b):transpose(0, 1)):sum()
  loss:backward()
  local before = row(b.grad)
  tap.is({before, row(a.grad), row(b.grad)}, {{6, 6, 6}, {7, 8, 9}, {6, 6, 6}}, place[1] .. ": the sum is right, and the earlier gradient keeps its values")
end

tap.done()
