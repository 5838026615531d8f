-- grad.lua - tests gradients through every move. For any layouts, d sum(w * f(x)) / dx must equal the gradient on one
-- device.
--
-- Moves on one mesh axis are tested on the same ranks, to overlapping ranks and to other ranks. Moves on two axes are
-- sampled.

local tap = dofile("t/lib/tap.lua")

local ROWS, COLUMNS = 5, 3
local values, weights = {}, {}
for i = 0, ROWS * COLUMNS - 1 do
  values[i + 1], weights[i + 1] = (i * 7) % 11 - 5, (i * 5) % 13 - 6
end
local function matrix(list, options) return rille.tensor(list, options):reshape{ROWS, COLUMNS} end

-- Returns the nested list of f(value, weight) for each element of x and its weight.
local function map(f)
  return tap.rows(ROWS, COLUMNS, function(r, c)
    local i = (r - 1) * COLUMNS + c
    return f(values[i], weights[i])
  end)
end
local first, second, cubed = map(function(_, w) return w end), map(function(x, w) return 2 * x * w end),
                             map(function(_, w) return 6 * w end)

local function same(x, want)
  local got = x:totable()
  for r = 1, ROWS do
    for c = 1, COLUMNS do if got[r][c] ~= want[r][c] then return false end end
  end
  return true
end

local function name(l) return type(l.sbp) == "table" and "(" .. table.concat(l.sbp, ", ") .. ")" or l.sbp end

-- Checks the gradient of a weighted sum after a move: first of the value, then of its square.
local function gradients_are_right(from, to)
  local w = matrix(weights)
  local x = rille.tensor(values, {dtype = "f32", requires_grad = true})
  local moved = x:reshape{ROWS, COLUMNS}:to_global(from):to_global(to)
  local there = w:to_global{placement = to.placement, sbp = to.placement.shape[2] and {"B", "B"} or "B"}
  local d1 = rille.grad((moved * there):sum(), {x})
  local d2 = rille.grad((moved * moved * there):sum(), {x})
  return same(d1:reshape{ROWS, COLUMNS}, first) and same(d2:reshape{ROWS, COLUMNS}, second)
end

-- Checks that the gradient of a leaf has the leaf's placement.
local function leaf_gradient_is_right(from, to)
  local x = rille.tensor(first, {dtype = "f32"}):to_global(from):detach()
  x:requires_grad_()
  x:to_global(to):mul(3):sum():backward()
  local want = map(function() return 3 end)
  return x.grad.shape[1] == ROWS and x.grad.placement == from.placement and same(x.grad, want)
end

local function mesh(ranks) return rille.placement("cpu", ranks) end
local function placed(placement, list) return tap.list(list, function(sbp) return {placement = placement, sbp = sbp} end) end
local function is_partial(sbp)
  for _, e in ipairs(type(sbp) == "table" and sbp or {sbp}) do if e:find("^P") then return e end end
end
-- Returns false for a move between two different kinds of P, which is impossible.
local function may_move(from, to)
  local p, q = is_partial(from.sbp), is_partial(to.sbp)
  return not p or not q or p == q
end

local function all_pairs(what, from, to, share, state)
  local bad, n = nil, 0
  for _, f in ipairs(from) do
    for _, t in ipairs(to) do
      state.at = (state.at * 1103515245 + 12345) % 2147483648
      if may_move(f, t) and state.at // 65536 % share == 0 then
        n = n + 1
        if not gradients_are_right(f, t) then bad = bad or name(f) .. " -> " .. name(t) end
        if not leaf_gradient_is_right(f, t) then bad = bad or name(f) .. " -> " .. name(t) .. ", of a leaf" end
      end
    end
  end
  tap.ok(not bad and n > 0, ("%s: %d gradients are right"):format(what, n), bad)
end

local one = {"S(0)", "S(1)", "B", "P", "P(max)", "P(min)"}
local state = {at = tap.seed(1)}
for _, ranks in ipairs{{0, 1}, {0, 1, 2}} do
  local size, other = #ranks, tap.list(ranks, function(r) return r + 4 end)
  local home = placed(mesh(ranks), one)
  all_pairs(size .. " ranks, on the same ranks", home, home, 1, state)
  all_pairs(size .. " ranks, to overlapping ranks", home, placed(mesh(size == 2 and {1, 2} or {1, 2, 3}), one), 1, state)
  all_pairs(size .. " ranks, to other ranks", home, placed(mesh(other), one), 1, state)
  all_pairs(size .. " ranks, to one", home, placed(mesh{0}, {"B"}), 1, state)
  all_pairs("one rank to " .. size, placed(mesh{0}, {"B"}), home, 1, state)
end
all_pairs("2 ranks to 3", placed(mesh{0, 1}, one), placed(mesh{1, 2, 3}, one), 1, state)

local two = {}
for _, partial in ipairs{"P", "P(max)"} do
  for _, a in ipairs{"S(0)", "S(1)", "B", partial} do
    for _, b in ipairs{"S(0)", "S(1)", "B", partial} do
      if partial == "P" or is_partial{a, b} then two[#two + 1] = {a, b} end
    end
  end
end
local square = placed(mesh{{0, 1}, {2, 3}}, two)
all_pairs("2 x 2 ranks, samples", square, square, 6, state)
all_pairs("2 x 2 to other ranks, samples", square, placed(mesh{{6, 4}, {7, 5}}, two), 6, state)
all_pairs("2 x 2 to 2 x 3, samples", square, placed(mesh{{0, 1, 2}, {3, 4, 5}}, two), 6, state)
all_pairs("2 x 2 to 3 ranks, samples", square, placed(mesh{1, 2, 3}, one), 4, state)

-- Computes a second gradient, so that values pass each move twice.
local P, Q = mesh{0, 1}, mesh{2, 3}
local x = rille.tensor(values, {dtype = "f32", requires_grad = true})
local m = x:reshape{ROWS, COLUMNS}:to_global{placement = P, sbp = "S(0)"}:to_global{placement = Q, sbp = "S(1)"}
local w = matrix(weights):to_global{placement = Q, sbp = "B"}
local d = rille.grad((m * m * m * w):sum(), {x})
local dd = rille.grad(d:sum(), {x}):reshape{ROWS, COLUMNS}
for r = 1, ROWS do for c = 1, COLUMNS do cubed[r][c] = cubed[r][c] * values[(r - 1) * COLUMNS + c] end end
tap.ok(same(dd, cubed), "the second derivative through two meshes is right")

tap.done()
