-- several-results.lua - tests operators with several results, whose results are read one by one. Tries every order;
-- some results are read twice, and gradients of first and second order are computed between the reads. The values
-- must equal those of reading all results at once. At the end the program counts buffers, to find leaks.
local tap = dofile("t/lib/tap.lua")

local function permutations(list, at, found)
  at, found = at or 1, found or {}
  if at > #list then
    found[#found + 1] = {table.unpack(list)}
    return found
  end
  for i = at, #list do
    list[at], list[i] = list[i], list[at]
    permutations(list, at + 1, found)
    list[at], list[i] = list[i], list[at]
  end
  return found
end

-- Cases by name. Columns: a function of the leaves, and the sizes of the leaves. The function returns tensors,
-- several of which are results of one operator.
local cases = {
  topk = {function(x) return x:topk(2, 0) end, {4, 3}},
  ["topk and its sum"] = {function(x)
    local v, i = x:topk(2, 0)
    return v, i, v:sum()
  end, {4, 3}},
  cross_entropy = {function(x)
    local l = x:cross_entropy(rille.tensor({1, 2}, {dtype = "i64"}))
    local g = rille.grad(l, {x})
    return g, l, g:square():sum()
  end, {2, 7}},
  layer_norm = {function(x, w)
    local y = rille.layer_norm(x, w)
    local gx, gw = rille.grad(y:square():sum(), {x, w})
    return y, gx, gw, gw:sum()
  end, {3, 5}, {5}},
  attention = {function(q, k, v)
    local y = rille.scaled_dot_product_attention(q, k, v)
    return rille.grad(y:square():sum(), {q, k, v})
  end, {1, 1, 130, 4}, {1, 1, 130, 4}, {1, 1, 130, 4}},
  ["attention, twice"] = {function(q, k, v)
    local y = rille.scaled_dot_product_attention(q, k, v)
    local a, b, c = rille.grad(y:square():sum(), {q, k, v})
    local p = rille.grad(a:square():sum() + c:square():sum(), {q})
    return a, c, p
  end, {1, 1, 130, 4}, {1, 1, 130, 4}, {1, 1, 130, 4}},
  split = {function(x) return x:split({1, 2, 1}, 0) end, {4, 3}},
  max_pool2d = {function(x)
    local y = x:max_pool2d(2)
    return y, (rille.grad(y:square():sum(), {x}))
  end, {1, 2, 4, 4}},
}

local function leaves(sizes)
  rille.manual_seed(7)
  return tap.list(sizes, function(size) return rille.randn(size, {requires_grad = true}) end)
end

local function results(case)
  local r = {case[1](table.unpack(leaves({table.unpack(case, 2)})))}
  if type(r[1]) == "table" and r[1][1] then r = r[1] end
  return r
end

local function flat(t)
  local list = {}
  local function walk(v) if type(v) == "table" then for _, e in ipairs(v) do walk(e) end else list[#list + 1] = v end end
  walk(t:totable())
  return list
end

local function apart(a, b)
  if #a ~= #b then return math.huge end
  local worst = 0
  for i = 1, #a do worst = math.max(worst, math.abs(a[i] - b[i])) end
  return worst
end

local names = tap.all(pairs(cases))
table.sort(names)
for _, name in ipairs(names) do
  local case, want = cases[name], {}
  for i, t in ipairs(results(case)) do want[i] = flat(t) end
  local order, wrong = {}, 0
  for i = 1, #want do order[i] = i end
  local orders = permutations(order)
  for n, p in ipairs(orders) do
    local r = results(case)
    for k, i in ipairs(p) do
      if apart(flat(r[i]), want[i]) > 1e-5 then wrong = wrong + 1 end
      -- replaces the first handle by another one in half of the orders, so that the collector frees the first
      if n % 2 == 0 and k == 1 then r[i] = r[i]:detach() end
      if n % 3 == 0 then collectgarbage() end
      if apart(flat(r[i]), want[i]) > 1e-5 then wrong = wrong + 1 end
    end
  end
  tap.is(wrong, 0, ("%s: %d results, read in %d orders"):format(name, #want, #orders))
end
tap.done()
