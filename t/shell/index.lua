-- index.lua - compares indexing with an interpreter of keys in plain Lua, which follows NumPy's rules. The keys have
-- every combination of kinds of entries. The test reads, differentiates, assigns and accumulates with each key, on
-- several layouts.
local tap = dofile("t/lib/tap.lua")

local SHAPE <const> = {2, 3, 4}

-- ---- the interpreter of keys ----
--
-- A key is a list of entries: {at = i}, {range = {start, stop, step}}, {ids = nested list, shape =}, {mask = flat
-- list, shape =}, {new = true}, {rest = true}.

-- Returns the coordinates of element i (from 0) of a tensor of this shape.
local function coordinates(i, shape)
  local at = {}
  for d = #shape, 1, -1 do at[d], i = i % shape[d], i // shape[d] end
  return at
end

local function flat_index(at, shape)
  local i = 0
  for d, size in ipairs(shape) do i = i * size + at[d] end
  return i
end

local function flatten(t, out)
  if type(t) ~= "table" then out[#out + 1] = t return out end
  for _, v in ipairs(t) do flatten(v, out) end
  return out
end

-- Returns the positions that a range {start, stop, step} selects on an axis, by Python's rules.
local function range_positions(range, size)
  local step = range[3] or 1
  local function place(v, least, most) return math.max(least, math.min(v < 0 and v + size or v, most)) end
  local list = {}
  if step > 0 then
    for i = place(range[1] or 0, 0, size), place(range[2] or size, 0, size) - 1, step do list[#list + 1] = i end
  else
    local stop = range[2] and place(range[2], -1, size - 1) or -1
    for i = place(range[1] or size - 1, -1, size - 1), stop + 1, step do list[#list + 1] = i end
  end
  return list
end

-- Returns the key without masks and "...". A mask becomes index lists, one for each of its axes; "..." becomes full
-- ranges.
local function expanded(key, ndim)
  local axes, out = 0, {}
  for _, e in ipairs(key) do axes = axes + (e.mask and #e.shape or (e.new or e.rest) and 0 or 1) end
  local function fill()
    for _ = axes + 1, ndim do out[#out + 1] = {range = {}} end
    axes = ndim
  end
  for _, e in ipairs(key) do
    if e.rest then
      out[#out + 1] = {gap = true}
      fill()
    elseif e.mask then
      local lists = tap.list(#e.shape, function() return {} end)
      for i, v in ipairs(e.mask) do
        local at = coordinates(i - 1, e.shape)
        for d = 1, #e.shape do if v then table.insert(lists[d], at[d]) end end
      end
      for d = 1, #e.shape do out[#out + 1] = {ids = lists[d], shape = {#lists[d]}} end
    else
      out[#out + 1] = e
    end
  end
  fill()
  return out
end

-- Returns the shape of x[key], and for each of its elements the row-major position in x.
local function interpret(key, shape)
  local list, arrays, axis, together = expanded(key, #shape), {}, 0, {}
  for _, e in ipairs(list) do if e.ids then arrays[#arrays + 1] = e end end
  for _, e in ipairs(arrays) do -- `together` becomes the shape to which the index lists broadcast
    for d = 1, #e.shape do
      local k = math.max(#together, #e.shape)
      while #together < k do table.insert(together, 1, 1) end
      local to = #together - #e.shape + d
      together[to] = together[to] == 1 and e.shape[d] or together[to]
    end
  end
  local dims, run, first, parts = {}, 0, nil, {}
  for _, e in ipairs(list) do
    local advanced = #arrays > 0 and (e.ids or e.at)
    if advanced and not first then first = #dims end
    if advanced and run == 2 then run = 3 end
    if advanced and run == 0 then run = 1 end
    if not advanced and run == 1 then run = 2 end
    if e.new then
      dims[#dims + 1] = {size = 1}
    elseif not e.gap then
      axis = axis + 1
      parts[axis] = e
      if e.range then dims[#dims + 1] = {axis = axis, list = range_positions(e.range, shape[axis])} end
    end
  end
  local where, result, sizes = run == 3 and 0 or first or 0, {}, tap.list(dims, function(dim) return dim.list and #dim.list or 1 end)
  for d = 1, where do result[d] = sizes[d] end
  for _, n in ipairs(#arrays > 0 and together or {}) do result[#result + 1] = n end
  for d = where + 1, #dims do result[#result + 1] = sizes[d] end
  local positions, nb = {}, #arrays > 0 and #together or 0
  for i = 0, tap.numel(result) - 1 do
    local at, source = coordinates(i, result), {}
    for d, dim in ipairs(dims) do
      if dim.list then source[dim.axis] = dim.list[at[d <= where and d or d + nb] + 1] end
    end
    for a, e in ipairs(parts) do
      local size = shape[a]
      if e.at then source[a] = e.at end
      if e.ids then
        local own = tap.list(e.shape, function(n, d) return n == 1 and 0 or at[where + nb - #e.shape + d] end)
        source[a] = flatten(e.ids, {})[flat_index(own, e.shape) + 1]
      end
      if source[a] < 0 then source[a] = source[a] + size end
    end
    positions[i + 1] = flat_index(source, shape)
  end
  return result, positions
end

-- ---- the key as an argument of Rille ----

-- Returns a key of the interpreter in the form in which a user of Rille writes it, on the placement of x. tensors:
-- true: index lists and masks become tensors; false: they become Lua tables where possible.
local function written(key, x, tensors)
  local out = {}
  local options = function(dtype) return {dtype = dtype, placement = x.placement, sbp = "B"} end
  for i, e in ipairs(key) do
    if e.counts then
      out[i] = rille.arange(#e.ids, options("i64")):reshape(e.shape)
    elseif e.ids then
      out[i] = tensors and rille.tensor(e.ids, options("i64")) or {e.ids}
    elseif e.mask then
      local mask = rille.tensor(e.mask, options("bool"))
      out[i] = (tensors or #e.shape > 1) and mask:reshape(e.shape) or {e.mask}
    else
      out[i] = e.at or e.range or e.new and rille.newaxis or "..."
    end
  end
  return out
end

local function text(key)
  local words = {}
  for i, e in ipairs(key) do
    if e.counts then words[i] = "arange{" .. table.concat(e.shape, " ") .. "}"
    elseif e.ids then words[i] = "ids{" .. table.concat(flatten(e.ids, {}), " ") .. "}"
    elseif e.mask then words[i] = "mask of " .. #e.shape
    elseif e.range then words[i] = ("{%s, %s, %s}"):format(e.range[1] or "", e.range[2] or "", e.range[3] or "")
    else words[i] = e.at or e.new and "newaxis" or "..." end
  end
  return "x[{" .. table.concat(words, ", ") .. "}]"
end

-- ---- all combinations of entries ----

local function entries(size, axis)
  local mask = tap.list(size, function(i) return i ~= 2 or size < 3 end)
  while size > 2 and #mask > 2 and mask[4] do mask[4] = false end -- leaves two entries true
  return {
    {at = -1}, {range = {}}, {range = {1}}, {range = {nil, nil, -1}}, {range = {-1, 0, -2}},
    {ids = {axis % size, -1}, shape = {2}}, {ids = {{0}, {size - 1}, {-1}}, shape = {3, 1}}, {mask = mask, shape = {size}},
  }
end

local keys = {}
for _, a in ipairs(entries(2, 0)) do
  for _, b in ipairs(entries(3, 1)) do
    for _, c in ipairs(entries(4, 2)) do keys[#keys + 1] = {a, b, c} end
  end
end
local pair = {mask = {true, false, false, false, true, false}, shape = {2, 3}}
local last = {mask = {false, true, false, false, false, false, false, false, true, false, false, false}, shape = {3, 4}}
for _, e in ipairs(entries(4, 2)) do
  keys[#keys + 1] = {pair, e}
  keys[#keys + 1] = {{new = true}, pair, {new = true}, e}
end
for _, e in ipairs(entries(2, 0)) do
  keys[#keys + 1] = {e, last}
  keys[#keys + 1] = {e, {rest = true}, last}
  keys[#keys + 1] = {e, {new = true}, {ids = {0, 2}, shape = {2}}}
  keys[#keys + 1] = {e, {rest = true}, {ids = {0, 2}, shape = {2}}}
  keys[#keys + 1] = {e, {rest = true}, {new = true}}
end
for _, e in ipairs(entries(3, 1)) do keys[#keys + 1] = {{rest = true}, e, {at = 1}} end
keys[#keys + 1] = {{mask = {true, false, true, true, false, false, true, false, true, true, false, true, false, false, false, false, true, true, true,
  false, true, false, true, true}, shape = SHAPE}}
keys[#keys + 1] = {{mask = {false, false}, shape = {2}}}
keys[#keys + 1] = {{rest = true}}

-- Returns the entries of keys with an index tensor that counts 0, 1, 2, ... along an axis, and entries to combine
-- with them.
local function counted(size, axis)
  local rows = tap.list(size, function(i) return i - 1 end)
  return {
    {ids = rows, shape = {size}, counts = true}, {ids = rows, shape = {size, 1}, counts = true}, {range = {}}, {at = -1},
    {ids = {axis % size, -1}, shape = {2}}, {ids = {{0, 1, -1}, {size - 1, 0, 1}}, shape = {2, 3}}, {ids = {{0}, {-1}, {1}}, shape = {3, 1}},
  }
end

-- Returns true if the shapes of the key's index tensors broadcast, and one of these tensors counts 0, 1, 2, ... along
-- an axis.
local function has_rows(key)
  local sizes, counts = {}, false
  for _, e in ipairs(key) do
    counts = counts or e.counts
    for d, n in ipairs(e.shape or {}) do
      local at = #e.shape - d
      if n ~= 1 and sizes[at] and sizes[at] ~= n then return false end
      sizes[at] = n ~= 1 and n or sizes[at]
    end
  end
  return counts
end

for _, a in ipairs(counted(2, 0)) do
  for _, b in ipairs(counted(3, 1)) do
    for _, c in ipairs(counted(4, 2)) do
      if has_rows{a, b, c} then keys[#keys + 1] = {a, b, c} end
    end
  end
end

-- ---- comparing Rille with the interpreter ----

local numel = tap.numel(SHAPE)
local function variable(place, sbp)
  return (rille.arange(numel, {dtype = "f64"}) * 7 % 11):reshape(SHAPE):to_global{placement = place, sbp = sbp}:detach()
end
local values = {}
for i = 0, numel - 1 do values[i + 1] = i * 7.0 % 11 end

local function flat(t) return flatten(t:reshape{-1}:totable(), {}) end

local function shown(shape, list) return table.concat(shape, " ") .. ": " .. table.concat(list, " ") end

-- Compares reads, gradients, assignments and accumulation of one key; returns nil, or the first difference.
local function difference(key, x, tensors)
  local shape, at = interpret(key, SHAPE)
  local want, slopes, set, added = {}, {}, {}, {}
  for i = 1, numel do slopes[i], set[i], added[i] = 0.0, values[i], values[i] end
  for i, p in ipairs(at) do
    want[i] = values[p + 1]
    slopes[p + 1] = slopes[p + 1] + i
    set[p + 1] = i + 0.0
    added[p + 1] = added[p + 1] + i
  end
  local rillekey = written(key, x, tensors)
  local leaf = x:clone():requires_grad_()
  local y = leaf[rillekey]
  local function compare(what, wanted, found)
    if wanted ~= found then return ("%s is %s, not %s"):format(what, found, wanted) end
  end
  local weights = rille.arange(1, #at + 1, {dtype = "f64", placement = x.placement, sbp = "B"}):reshape(shape)
  local assigned, led, sums, zeros = x:clone(), x:clone(), x:clone(), x:clone()
  assigned[rillekey] = weights
  led[rillekey] = weights:unsqueeze(0)
  sums:index_put_(rillekey, weights, {accumulate = true})
  zeros[rillekey] = 0
  local cleared = tap.list(numel, function(i) return values[i] end)
  for _, p in ipairs(at) do cleared[p + 1] = 0.0 end
  return compare("the value", shown(shape, want), shown(y.shape, flat(y)))
    or compare("the gradient", shown(SHAPE, slopes), shown(SHAPE, flat((rille.grad((y * weights):sum(), {leaf})))))
    or compare("the assigned variable", shown(SHAPE, set), shown(SHAPE, flat(assigned)))
    or compare("the variable assigned from a value with a leading dimension of 1", shown(SHAPE, set), shown(SHAPE, flat(led)))
    or compare("the sum", shown(SHAPE, added), shown(SHAPE, flat(sums)))
    or compare("the cleared variable", shown(SHAPE, cleared), shown(SHAPE, flat(zeros)))
end

-- Compares two gradients of an assignment to a copy of x: that of x's old value, and that of the assigned value v. In
-- the loss, element p has the weight p + 1, which is its gradient. If v replaces elements, the gradient of p belongs
-- to the entry of v that was assigned to p last; it belongs to x's old element only if p is not assigned. If v is
-- added, it belongs to x's old element, and to every entry of v that is added to p.
local function gradient_difference(key, x, tensors)
  local shape, at = interpret(key, SHAPE)
  local all, rest, last, added = {}, {}, {}, {}
  for p = 1, numel do all[p], rest[p] = p + 0.0, p + 0.0 end
  local writer = {}
  for i, p in ipairs(at) do rest[p + 1], writer[p], added[i] = 0.0, i, p + 1.0 end
  for i, p in ipairs(at) do last[i] = writer[p] == i and p + 1.0 or 0.0 end
  local rillekey = written(key, x, tensors)
  local slopes = rille.arange(1, numel + 1, {dtype = "f64", placement = x.placement, sbp = "B"}):reshape(SHAPE)
  for _, case in ipairs{{"assigned", rest, last}, {"added", all, added}} do
    local old = x:clone():requires_grad_()
    local v = rille.full(shape, 2, {dtype = "f64", placement = x.placement, sbp = "B"}):requires_grad_()
    local y = old:clone()
    if case[1] == "added" then y:index_put_(rillekey, v, {accumulate = true}) else y[rillekey] = v end
    local of_old, of_v = rille.grad((y * slopes):sum(), {old, v})
    local found, want = shown(shape, flat(of_old)) .. "; " .. shown(shape, flat(of_v)), shown(shape, case[2]) .. "; " .. shown(shape, case[3])
    if found ~= want then return ("gradients of %s values are %s, not %s"):format(case[1], found, want) end
  end
end

local one, four = rille.placement("cpu", {0}), rille.placement("cpu", {0, 1, 2, 3})
local layouts = {{one, "B"}, {four, "S(0)"}, {four, "S(1)"}, {four, "S(2)"}, {four, "B"}}
for k, key in ipairs(keys) do
  local l = layouts[k % #layouts + 1]
  if tap.share(k) then
    tap.is(difference(key, variable(one, "B"), k % 2 == 0), nil, text(key))
    tap.is(gradient_difference(key, variable(l[1], l[2]), k % 2 == 0), nil, "gradients of assignments to " .. text(key))
    tap.is(difference(key, variable(l[1], l[2]), k % 2 == 1), nil, ("%s in layout %s on %d"):format(text(key), l[2], l[1] == one and 1 or 4))
  end
end

do
  local x = rille.zeros({8, 5}, {placement = four, sbp = "S(0)"})
  local y = x[{rille.arange(8), rille.zeros({8}, {dtype = "i64", placement = four, sbp = "S(0)"})}]
  tap.is({y.sbp, rille.explain(y).bytes}, {"S(0)", 0}, "an entry of each row moves no bytes if the rows are split")
end

-- ---- other functions of masks, on several layouts ----

for _, l in ipairs(layouts) do
  local name = ("%s on %d"):format(l[2], l[1] == one and 1 or 4)
  local x = variable(l[1], l[2])
  local mask, chosen, filled, places, slopes = x:gt(4), {}, {}, {}, {}
  for i = 1, numel do
    local at = coordinates(i - 1, SHAPE)
    if values[i] ~= 0 then places[#places + 1] = table.concat(at, " ") end
    if values[i] > 4 then chosen[#chosen + 1] = values[i] end
    filled[i] = values[i] > 4 and -1.0 or values[i]
    slopes[i] = values[i] > 4 and 2 * values[i] or 0.0
  end
  local found = tap.list(x:nonzero():totable(), function(row) return table.concat(row, " ") end)
  tap.is(found, places, "nonzero of " .. name)
  tap.is(x:masked_select(mask):totable(), chosen, "masked_select of " .. name)
  tap.is(flat(x:masked_fill(mask, -1)), filled, "masked_fill of " .. name)
  tap.is(flat(x:clone():masked_fill_(mask, -1)), filled, "masked_fill_ of " .. name)
  local leaf = x:clone():requires_grad_()
  tap.is(flat((rille.grad(leaf:masked_select(mask):square():sum(), {leaf}))), slopes, "the gradient of masked_select of " .. name)
  leaf = x:clone():requires_grad_()
  tap.is(flat((rille.grad(leaf:square():masked_fill(mask:logical_not(), 3):sum(), {leaf}))), slopes, "the gradient of masked_fill of " .. name)
  local row = x:clone()
  row[row:gt(4)] = rille.arange(#chosen, {dtype = "f64", placement = l[1], sbp = "B"}) * 0 - 1
  tap.is(flat(row), filled, "a mask receives a value per element in " .. name)
end

-- ---- ranges with any step ----

-- Compares a range of an axis of n entries, its gradient and x:slice with the positions that range_positions lists.
local function range_differs(n, range)
  local want, slopes, leaf = range_positions(range, n), {}, rille.arange(n, {dtype = "f64"}):detach():requires_grad_()
  for i = 1, n do slopes[i] = 0.0 end
  for k, p in ipairs(want) do slopes[p + 1] = k + 0.0 end
  local sparse = {} -- the range without entries for nil: #sparse does not count its entries
  for k, v in pairs(range) do sparse[k] = v end
  local y, z = leaf[{sparse}], leaf:slice{axis = 0, start = range[1], stop = range[2], step = range[3]}
  local weights = rille.arange(1, #want + 1, {dtype = "f64"})
  local found = {shown({}, y:totable()), shown({}, z:totable()), n > 0 and shown({}, (rille.grad((z * weights):sum(), {leaf})):totable())}
  for i, p in ipairs(want) do want[i] = p + 0.0 end
  local expected = {shown({}, want), shown({}, want), n > 0 and shown({}, slopes)}
  for i = 1, 3 do
    if found[i] ~= expected[i] then return ("{%s, %s, %s} of %d: %s, not %s"):format(range[1], range[2], range[3], n, found[i], expected[i]) end
  end
end
local case, ends <const> = 0, {false, -7, -5, -4, -1, 0, 1, 3, 4, 6}
for _, n in ipairs{0, 1, 4, 5} do
  for _, step in ipairs{1, 2, 3, 7, -1, -2, -3, -7, math.mininteger, math.maxinteger} do
    case = case + 1
    local wrong
    for _, start in ipairs(tap.share(case) and ends or {}) do
      for _, stop in ipairs(ends) do wrong = wrong or range_differs(n, {start or nil, stop or nil, step}) end
    end
    if tap.share(case) then tap.is(wrong, nil, ("ranges of %d entries with step %d are NumPy's"):format(n, step)) end
  end
end

-- ---- assignments keep a split tensor split ----

-- Returns the bytes that devices receive when an 8 x 8 x 8 variable in this layout is assigned a value.
local function moved(sbp, key, shape)
  local t = rille.zeros({8, 8, 8}, {placement = four, sbp = sbp})
  local v = shape and rille.ones(shape, {placement = four, sbp = "B"}) or 1
  local step = rille.graph(function() t[key(t)] = v end)
  step()
  tap.is(t.sbp, sbp, "the variable keeps its layout")
  return tap.received(step)
end
local function list(t) return rille.tensor(t, {dtype = "i64", placement = four, sbp = "B"}) end
for name, case in pairs{
  ["x[2] = 1"] = {function() return 2 end},
  ["x[{2, {1, 5}}] = v"] = {function() return {2, {1, 5}} end, {4, 8}},
  ["x[{{}, {0, 8, 2}, 3}] = v"] = {function() return {{}, {0, 8, 2}, 3} end, {8, 4}},
  ["x[{{nil, nil, -1}}] = v"] = {function() return {{nil, nil, -1}} end, {8, 8, 8}},
  ["x[ids] = 1"] = {function() return list{1, 5, 1} end},
  ["x[ids] = v"] = {function() return list{1, 5, 1} end, {3, 8, 8}},
  ["x[{{}, ids}] = v"] = {function() return {{}, list{1, 5, -1}} end, {8, 3, 1}},
  ["x[{ids, {}, ids}] = v"] = {function() return {list{1, 5, -1}, {}, list{0, 1, 2}} end, {3, 8}},
  ["x[{{2, 4}, ids, 3}] = v"] = {function() return {{2, 4}, list{1, 5, -1}, 3} end, {2, 3}},
  ["x[mask] = v"] = {function() return list{1, 0, 1, 0, 0, 0, 1, 0}:gt(0) end, {8}},
} do
  for axis = 0, 2 do
    local bytes = moved(("S(%d)"):format(axis), case[1], case[2])
    tap.ok(bytes == 0, ("%s, split along axis %d: the variable is not gathered"):format(name, axis), bytes)
  end
end

-- ---- repeated positions, values, compiled steps ----

local x = rille.zeros(4)
x[{{{1, 3, 1, 1}}}] = {5, 6, 7, 8}
tap.is(x:totable(), {0.0, 8.0, 0.0, 6.0}, "of repeated positions, the last value is assigned")
x:index_put_(rille.tensor({1, 1, -4}, {dtype = "i64"}), 0.5, {accumulate = true})
tap.is(x:totable(), {0.5, 9.0, 0.0, 6.0}, "accumulate adds a number once per position")
for _, dtype in ipairs{"bool", "u8", "i32", "bf16", "f16"} do
  local y = rille.zeros({3}, {dtype = dtype})
  y[{{{2, 0}}}] = 1
  tap.is(y:to("i64"):totable(), {1, 0, 1}, dtype .. " is assigned")
end
for _, accumulate in ipairs{false, true} do
  local empty = rille.zeros{4, 0}
  empty:index_put_({rille.tensor({1, 1}, {dtype = "i64"})}, rille.zeros{2, 0}, {accumulate = accumulate})
  empty:index_put_({rille.tensor({1, 1}, {dtype = "i64"})}, 1, {accumulate = accumulate})
  tap.is(empty.shape, {4, 0}, "an assignment to rows without entries changes nothing")
  local function ids(...) return rille.tensor({...}, {dtype = "i64"}) end
  local none = rille.zeros({0}, {dtype = "i64"})
  for _, shape in ipairs{{4, 0}, {0, 4}, {2, 3}} do
    for _, at in ipairs{3, 9, -9} do
      for k, key in ipairs{{{0, 0}, ids(at)}, {none, ids(at)}, {ids(at), {0, 0}}, {ids(at), none}} do
        local x, axis = rille.ones(shape), k <= 2 and 2 or 1
        local good = pcall(function() x:index_put_(key, 1, {accumulate = accumulate}); return x:totable() end)
        tap.is(good, at >= -shape[axis] and at < shape[axis], ("position %d of axis %d of {%d, %d}, where no entry is selected"):format(at, axis - 1, shape[1], shape[2]))
      end
    end
  end
end
local ids = rille.tensor({2, -1}, {dtype = "i64"})
local step = rille.graph(function(t, at) return t[{{}, at}], t[{{{0}}, at}], t:masked_fill(t:gt(2), 0) end)
local a, b, c = step(rille.arange(6):reshape{2, 3}, ids)
tap.is({a:totable(), b:totable(), c:totable()}, {{{2, 2}, {5, 5}}, {2, 2}, {{0, 1, 2}, {0, 0, 0}}}, "a compiled step indexes by tensors")
for _, pieces in ipairs{1, 2} do
  local chosen = rille.graph(function(t) return t[{{}, {{true, false, true}}}], t[{{}, {{false, false, false}}}]:sum(1) end, {micro_batches = pieces})
  local x = rille.arange(12):to("f32"):reshape{4, 3}
  a, b = chosen(x)
  tap.is({a:totable(), b:totable()}, {{{0, 2}, {3, 5}, {6, 8}, {9, 11}}, {0, 0, 0, 0}},
    ("a compiled step indexes by a list of booleans, %d micro-batches"):format(pieces))
end

local m = rille.arange(12):reshape{3, 4}:clone()
for _, case in ipairs{
  {function() return rille.graph(function(t) return t[t:gt(1)] end)(m) end, "depends on data", "masked_fill"},
  {function() return rille.graph(function(t) return t:nonzero() end)(m) end, "depends on data", "nonzero"},
  {function() return m[rille.tensor{true, false}] end, "dimension 0 of the mask is 2, expected 3"},
  {function() return m[{m:gt(1), 0}] end, "at most the 2 dimensions", "found 3"},
  {function() return m[{"...", "..."}] end, "must stand once"},
  {function() return m[{"..", 1}] end, "an entry must be"},
  {function() return m[{{{0, 3}}}]:totable() end, "id 3 at position 1", "3 entries"},
  {function() return m[{{{0, 1}}, {{0, 4}}}]:totable() end, "id 4 at position 1", "4 entries"},
  {function() return m[{{{0}}, 4}] end, "position 4 is out of range"},
  {function() return m[{{nil, nil, -1}, {0, 2, 0}}] end, "must not be 0"},
  {function() return m[{{{0, 1}, {1, 0}}}] end, "found 2 entries"},
  {function() return m[{{1, 2, 3, 4}}] end, "found 4 entries"},
  {function() return m[{{start = 1, stop = 2}}] end, "a range must be {start, stop, step}", "as entry \"st"},
  {function() return m[{{1, 2, steps = 2}}] end, "found 2 as entry \"steps\""},
  {function() return m[{[2] = 1}] end, "a key must be a list", "found the field 2"},
  {function() return m[{0, rows = 1}] end, "a key must be a list", "found the field \"rows\""},
  {function() return m[{nil, 1}] end, "an entry must be", "found nil"},
  {function() m[{[2] = 1}] = 0 end, "a key must be a list", "found the field 2"},
  {function() return m[{{{0, 1}, of = 1}}] end, "a list of positions must stand alone"},
  {function() m[{{{0, 1}}}] = rille.zeros(3) end, "shape {3} cannot be assigned", "{2, 4}"},
  {function() (m + 1)[{{{0}}}] = 1 end, "assign to a copy"},
  {function() return m:masked_fill(m, 1) end, "mask must be a bool tensor"},
  {function() return m:masked_select(rille.tensor{true, false, true}) end, "must have a shape that broadcasts to {3, 4}, found {3}"},
  {function() return m:nonzero(1) end, "at most 1 argument"},
} do
  local ok, why = pcall(case[1])
  tap.ok(not ok and tap.has(tostring(why), table.unpack(case, 2)), "an error says: " .. table.concat(case, "; ", 2), tostring(why))
end

tap.done()
