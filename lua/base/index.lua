-- index.lua - indexing beyond positions and ranges: masks, index tensors, lists, "...", new axes and negative steps;
-- all keys that shell/bind/tensor/lua_index.c does not handle.
--
-- An entry of a key x[{...}] is a position, a range {start, stop, step}, a list of positions or booleans {{2, 0, 1}},
-- an index tensor, a mask (a bool tensor of n axes, for n axes of x), rille.newaxis, or "...". The result is that of
-- NumPy: index tensors broadcast together. If the index tensors are adjacent in the key, the broadcast axes stand at
-- the place of the first index tensor; else they are the first axes of the result. A position in a key with index
-- tensors counts as an index tensor. Reads consist of operators that have gradients and accept every layout. An
-- assignment computes the whole new value and copies it to the variable.

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"

local index = {}

local ALL <const> = {} -- the range that selects a whole axis

local function shape_text(x) return ("%s{%s}"):format(x.dtype, table.concat(x.shape, ", ")) end

local function refuse(x, format, ...) check.fail("index: %s; x is %s", format:format(...), shape_text(x)) end

-- Returns creation options for a tensor that is replicated on x's placement.
local function beside(x, dtype) return {dtype = dtype, placement = x.placement, sbp = layout.replicated(x.placement)} end

-- Fails if a compiled step is being traced, because the shape of the result depends on data. what: name of the
-- result, for the message.
local function check_eager(x, what)
  if not rille._tracing() then return end
  refuse(x, "the size of %s depends on data, which a compiled step cannot have: use rille.where(mask, x, 0) or "
    .. "x:masked_fill(mask, value), or index outside the step", what)
end

-- Returns the row-major positions at which a mask is true, in ascending order. topk sorts the positions on the
-- devices.
local function places(x, mask, what)
  check_eager(x, what)
  local flat = mask:detach():reshape{-1}
  local n, total = flat:sum():item(), flat:numel()
  if n == 0 then return rille.zeros({0}, beside(x, "i64")) end
  return total - flat:where(total - rille.arange(total, beside(x, "i64")), 0):topk(n)
end

-- ---- reading the entries of a key ----

-- Converts a list such as {{2, 0, 1}} to a tensor: positions to i64, booleans to a mask.
local function list_tensor(x, entry)
  if #entry ~= 1 or next(entry, next(entry)) then refuse(x, "a list of positions must stand alone in its braces, as in x[{{{2, 0, 1}}}], found %d entries", #entry) end
  local first = entry[1]
  while type(first) == "table" do first = first[1] end
  return rille.tensor(entry[1], beside(x, type(first) == "boolean" and "bool" or "i64"))
end

-- Returns the positions of `true` in a list of booleans; nil: the list has other entries. The number of these
-- positions is known without reading a tensor, so a compiled step can use them.
local function list_places(list)
  local found = {}
  for i, v in ipairs(list) do
    if type(v) ~= "boolean" then return nil end
    if v then found[#found + 1] = i - 1 end
  end
  return found
end

-- Reads one entry of a key, and returns it as a table. axes: number of axes of x that the entry indexes. One other
-- field shows the kind of the entry and has its value: at, range, ids, mask, new, or rest. places: positions of
-- `true`, if the mask was written as a list of booleans.
local function read_entry(x, entry)
  local known
  if type(entry) == "table" and type(entry[1]) == "table" then known, entry = list_places(entry[1]), list_tensor(x, entry) end
  if type(entry) == "table" then return {axes = 1, range = next(entry) and entry or ALL} end
  if entry == rille.newaxis then return {axes = 0, new = true} end
  if entry == "..." then return {axes = 0, rest = true} end
  local at = math.tointeger(entry)
  if at and type(entry) == "number" then return {axes = 1, at = at} end
  if not layout.is_tensor(entry) then
    refuse(x, 'an entry must be a position, a range, a list {{...}}, a tensor, rille.newaxis or "...", found %s', check.shown(entry))
  end
  if entry.dtype ~= "bool" then return {axes = 1, ids = entry} end
  if entry.ndim == 0 then refuse(x, "a mask must have at least 1 dimension") end
  return {axes = entry.ndim, mask = entry, places = known}
end

-- Returns the entries of a key, with a whole range for each axis that "..." stands for or that the key lacks.
local function read_key(x, key)
  local read, axes, rest = {}, 0, nil
  if type(key) ~= "table" then key = {key} end
  for k in pairs(key) do
    if math.type(k) ~= "integer" or k < 1 or k > #key then
      refuse(x, "a key must be a list of positions and ranges without holes, found the field %s; {} is a whole axis", check.shown(k))
    end
  end
  for i = 1, #key do
    read[i] = read_entry(x, key[i])
    axes = axes + read[i].axes
    if read[i].rest and rest then refuse(x, '"..." must stand once in a key') end
    rest = rest or read[i].rest and i
  end
  if axes > x.ndim then refuse(x, "expected positions for at most the %d dimensions of x, found %d", x.ndim, axes) end
  for _ = axes + 1, x.ndim do table.insert(read, rest and rest + 1 or #read + 1, {axes = 1, range = ALL}) end
  return read
end

local function check_position(x, at, axis, size)
  local from_start = at < 0 and at + size or at
  if from_start >= 0 and from_start < size then return from_start end
  refuse(x, "position %d is out of range: axis %d has %d entries, and positions count from 0", at, axis, size)
end

-- Slices an axis of y by a range {start, stop, step}. With a negative step, the result has the entries in descending
-- order, from `start` on.
local function take_range(x, y, axis, range)
  for k, value in pairs(range) do
    if not math.tointeger(value) or not math.tointeger(k) or k < 1 or k > 3 then
      refuse(x, "a range must be {start, stop, step}, integers, found %s as entry %s; a list of positions is {{2, 0, 1}}", check.shown(value),
        check.shown(k))
    end
  end
  if range[3] == 0 then refuse(x, "the step of a range must not be 0") end
  return range == ALL and y or y:slice{axis = axis, start = range[1], stop = range[2], step = range[3] or 1}
end

-- ---- computing x[key] ----

-- Returns the shape to which two shapes broadcast; nil if they do not broadcast.
local function broadcast_shape(a, b)
  local shape = {}
  for d = 1, math.max(#a, #b) do
    local m, n = a[#a - d + 1] or 1, b[#b - d + 1] or 1
    if m ~= n and m ~= 1 and n ~= 1 then return nil end
    table.insert(shape, 1, m == 1 and n or m)
  end
  return shape
end

-- Merges the axes that a mask indexes into one axis. Returns the tensor, and the positions in this axis where the
-- mask is true.
local function merge_mask(x, y, axis, entry)
  local mask, known = entry.mask, entry.places
  local shape, size = {}, 1
  for d, n in ipairs(y.shape) do
    local k = d - axis
    if k >= 1 and k <= mask.ndim then
      if mask.shape[k] ~= n then
        refuse(x, "a mask must have the sizes of its axes; dimension %d of the mask is %d, expected %d", k - 1, mask.shape[k], n)
      end
      size = size * n
    end
    if k == mask.ndim then shape[#shape + 1] = size elseif k < 1 or k > mask.ndim then shape[#shape + 1] = n end
  end
  if known then return y, #known > 0 and rille.tensor(known, beside(x, "i64")) or rille.zeros({0}, beside(x, "i64")) end
  return mask.ndim > 1 and y:reshape(shape) or y, places(x, mask, "a part selected by a mask")
end

-- Applies the positions, ranges and new axes of a key to x, but not its index tensors. Returns four values:
--   y         the result so far
--   picks     list of the index tensors, {axis = the axis of y that the tensor indexes, ids = the tensor}
--   place     axis of x[key] at which the dimensions of the index tensors begin
--   is_whole  list with a flag for each other axis of x[key]; true: it is a whole axis of x
local function take_basic(x, key)
  local y, axis, picks, place, state, arrays, is_whole = x, 0, {}, 0, "before", false, {}
  for _, entry in ipairs(key) do arrays = arrays or entry.ids or entry.mask end
  for _, entry in ipairs(key) do
    if arrays and (entry.at or entry.ids or entry.mask) then
      if state == "before" then place = axis end
      state = (state == "after" or state == "apart") and "apart" or "within"
    elseif state == "within" then
      state = "after"
    end
    if entry.at then
      local at = check_position(x, entry.at, axis, y.shape[axis + 1])
      y = y:slice(axis, at, at + 1):squeeze(axis)
    elseif entry.new then
      y, axis, is_whole[#is_whole + 1] = y:unsqueeze(axis), axis + 1, false
    elseif entry.range then
      y, axis, is_whole[#is_whole + 1] = take_range(x, y, axis, entry.range), axis + 1, entry.range == ALL
    elseif not entry.rest then
      local ids = entry.ids
      if entry.mask then y, ids = merge_mask(x, y, axis, entry) end
      picks[#picks + 1] = {axis = axis, ids = ids}
      axis = axis + 1
    end
  end
  return y, picks, state == "apart" and 0 or place, is_whole
end

-- Converts several index tensors to one tensor of positions in the axis that results from merging their axes.
-- index_select() checks the range of each position before, because a position out of range would become a valid
-- position of another row. picks: list of {axis =, ids = index tensor}.
local function merged_ids(y, picks)
  local flat
  for _, pick in ipairs(picks) do
    local size = y.shape[pick.axis + 1]
    local ids = rille.arange(size, beside(y, "i64")):index_select(0, pick.ids)
    flat = flat and flat * size + ids or ids
  end
  return flat
end

-- Returns the shape to which the index tensors in `picks` broadcast.
local function shape_of_picks(x, picks)
  local shape = {}
  for _, pick in ipairs(picks) do
    local joined = broadcast_shape(shape, pick.ids.shape)
    if not joined then refuse(x, "index tensors must have shapes that broadcast together, found {%s} and {%s}", table.concat(shape, ", "),
      table.concat(pick.ids.shape, ", ")) end
    shape = joined
  end
  return shape
end

-- Finds the index tensors that count 0, 1, 2, ... over a whole axis of y, as rille.arange(n) does. With such a
-- tensor, a key selects one entry of each row along that axis. picks: list of {axis =, ids = index tensor}. Returns
-- the picks that count, by the dimension of the broadcast shape along which they count, and the list of all other
-- picks.
local function row_picks(y, picks, shape)
  local rows, rest = {}, {}
  for _, pick in ipairs(picks) do
    local own = rille._counts(pick.ids)
    local d = own and #shape - pick.ids.ndim + own
    local fits = d and not rows[d] and shape[d + 1] == y.shape[pick.axis + 1] and pick.ids.shape[own + 1] == shape[d + 1]
    if fits then rows[d] = pick else rest[#rest + 1] = pick end
  end
  return rows, rest
end

-- Permutes y: the axes in `first` come first, then the axes in `merged` as one axis, then all others. Returns y and
-- its new sizes.
local function arrange(y, first, merged)
  local is_first, order, sizes, size = {}, {}, {}, 1
  for _, axis in ipairs(first) do
    order[#order + 1], sizes[#sizes + 1], is_first[axis] = axis, y.shape[axis + 1], true
  end
  for _, axis in ipairs(merged) do
    order[#order + 1], size, is_first[axis] = axis, size * y.shape[axis + 1], true
  end
  sizes[#sizes + 1] = size
  for axis = 0, y.ndim - 1 do
    if not is_first[axis] then order[#order + 1], sizes[#sizes + 1] = axis, y.shape[axis + 1] end
  end
  return y:permute(order):reshape(sizes), sizes
end

-- Applies index tensors of which some count over a whole axis: gathers one entry of each row along that axis. rows:
-- the counting index tensors, by dimension of the broadcast shape; rest: the other index tensors. The rows stay
-- sharded over ranks and micro-batches as in y.
local function gather_rows(y, rows, rest, shape, place)
  local axes, dims, free, merged, free_sizes = {}, {}, {}, {}, {}
  for d = 0, #shape - 1 do
    local pick = rows[d]
    if pick then axes[#axes + 1], dims[#dims + 1] = pick.axis, d else free[#free + 1], free_sizes[#free_sizes + 1] = d, shape[d + 1] end
  end
  for k, pick in ipairs(rest) do merged[k] = pick.axis end
  local ids = #rest == 1 and rest[1].ids or merged_ids(y, rest)
  local at, sizes = nil, nil
  y, sizes = arrange(y, axes, merged)
  at = arrange(ids:expand(shape), dims, free)
  sizes[#axes + 1] = at.shape[#axes + 1]
  for _ = #axes + 2, #sizes do at = at:unsqueeze(-1) end
  local found = y:gather(#axes, at:expand(sizes))
  -- splits the merged axes again, and moves the dimensions of the index tensors to axis `place`
  local split, order, from = table.move(sizes, 1, #axes, 1, {}), {}, {}
  table.move(free_sizes, 1, #free, #split + 1, split)
  table.move(sizes, #axes + 2, #sizes, #split + 1, split)
  for k, d in ipairs(dims) do from[d] = k - 1 end
  for k, d in ipairs(free) do from[d] = #dims + k - 1 end
  for axis = #shape, #split - 1 do order[#order + 1] = axis end
  for d = 0, #shape - 1 do table.insert(order, place + d + 1, from[d]) end
  return found:reshape(split):permute(order)
end

local function take_picks(x, y, picks, place)
  local order, shape = {}, shape_of_picks(x, picks)
  local rows, rest = row_picks(y, picks, shape)
  for _, pick in ipairs(next(rows) and rest or picks) do
    pick.ids = pick.ids:lt(0):where(pick.ids + y.shape[pick.axis + 1], pick.ids)
  end
  if next(rows) and #rest > 0 then return gather_rows(y, rows, rest, shape, place) end
  local is_picked, sizes, size = {}, {}, 1
  for _, pick in ipairs(picks) do is_picked[pick.axis], size = true, size * y.shape[pick.axis + 1] end
  for axis = 0, y.ndim - 1 do
    if not is_picked[axis] then order[#order + 1], sizes[#sizes + 1] = axis, y.shape[axis + 1] end
  end
  for k, pick in ipairs(picks) do table.insert(order, place + k, pick.axis) end
  table.insert(sizes, place + 1, size)
  local ids = #picks == 1 and picks[1].ids or merged_ids(y, picks)
  return y:permute(order):reshape(sizes):index_select(place, ids)
end

-- Returns x[key], and a list that has true for each axis of the result that is a whole axis of x.
local function take(x, key)
  local y, picks, place, is_whole = take_basic(x, key)
  if #picks > 0 then y = take_picks(x, y, picks, place) end
  for _ = #is_whole + 1, y.ndim do table.insert(is_whole, place + 1, false) end
  return y, is_whole
end

-- Implements x[key] for the keys that this file handles.
function index.get(x, key) return (take(x, read_key(x, key))) end

-- ---- assigning to x[key] ----

-- Converts the assigned value v to a tensor with x's dtype on x's placement.
local function source(x, v)
  if layout.is_tensor(v) then
    v = v.placement == x.placement and v or v:to_global{placement = x.placement, sbp = layout.replicated(x.placement)}
    return v.dtype == x.dtype and v or v:to(x.dtype)
  end
  if type(v) ~= "number" and type(v) ~= "boolean" and type(v) ~= "table" then
    refuse(x, "expected a tensor, a number or a list to assign, found %s", check.shown(v))
  end
  return rille.tensor(v, beside(x, x.dtype))
end

-- Returns the new value of x for an assignment x[{mask}] = v in which all other entries of the key are whole axes,
-- and v has no axis along the mask; nil: another assignment. No shape depends on data here, so a compiled step can do
-- this assignment.
local function assign_mask(x, key, v, accumulate)
  local mask, before, after = nil, 0, 0
  for _, entry in ipairs(key) do
    if entry.mask and not mask then
      mask = entry.mask
    elseif entry.range == ALL then
      if mask then after = after + 1 else before = before + 1 end
    elseif not entry.rest then
      return nil
    end
  end
  if not mask or v.ndim > after then return nil end
  local shape = table.move(mask.shape, 1, mask.ndim, before + 1, {})
  for d = 1, x.ndim do
    shape[d] = shape[d] or 1
    if d > before and d <= before + mask.ndim and shape[d] ~= x.shape[d] then
      refuse(x, "a mask must have the sizes of its axes; dimension %d of the mask is %d, expected %d", d - before - 1, shape[d], x.shape[d])
    end
  end
  return mask:reshape(shape):where(accumulate and x + v or v, x)
end

-- An assignment merges the indexed axes of x into one axis. For each position of this axis, it computes whether the
-- position is assigned (hit), and the assigned value; the other axes of x are whole. The new value is where(hit,
-- value, x), so x keeps its layout and is not gathered.

local function product(sizes)
  local n = 1
  for _, size in ipairs(sizes) do n = n * size end
  return n
end

-- Returns how a key divides x's axes into indexed and whole axes, as a table:
--   order    the indexed axes, then the whole axes
--   indexed  number of indexed axes
--   sizes    sizes of x's axes, 1 for whole axes
--   total    number of positions in the merged indexed axes: the product of `sizes`
--   tail     sizes of the whole axes
local function divide_axes(x, key)
  local a, whole, axis = {order = {}, sizes = {}, tail = {}}, {}, 0
  for _, entry in ipairs(key) do
    for _ = 1, entry.axes do
      local size = x.shape[axis + 1]
      a.sizes[axis + 1] = entry.range == ALL and 1 or size
      if entry.range == ALL then
        whole[#whole + 1], a.tail[#a.tail + 1] = axis, size
      else
        a.order[#a.order + 1] = axis
      end
      axis = axis + 1
    end
  end
  a.indexed, a.total = #a.order, product(a.sizes)
  table.move(whole, 1, #whole, a.indexed + 1, a.order)
  return a
end

-- Reshapes v to the number of dimensions of `shape`, with size 1 for dimensions that v lacks.
local function aligned(x, v, shape)
  local own = {}
  while v.ndim > #shape and v.shape[1] == 1 do v = v:squeeze(0) end
  local lacks, fits = #shape - v.ndim, v.ndim <= #shape
  for d, n in ipairs(shape) do
    own[d] = d > lacks and v.shape[d - lacks] or 1
    fits = fits and (own[d] == 1 or own[d] == n)
  end
  if not fits then refuse(x, "a value of shape {%s} cannot be assigned to a part of shape {%s}", table.concat(v.shape, ", "), table.concat(shape, ", ")) end
  return v:reshape(own)
end

-- Returns the assigned value v in the shape {n, sizes of the whole axes}. Row i is the value for position i of the
-- tensor `at`; n is 1 if all positions get the same value. is_whole: list with a flag for each dimension of `at`;
-- true: an axis that is assigned whole, along which `at` has size 1. tail: sizes of these axes.
local function merged_values(x, v, at, is_whole, tail)
  local shape, order, whole, lead, merged = {}, {}, {}, {}, {1}
  for d, n in ipairs(at.shape) do
    local list = is_whole[d] and whole or order
    list[#list + 1] = d - 1
    shape[d] = is_whole[d] and tail[#whole] or n
    if not is_whole[d] then lead[#lead + 1] = n end
  end
  v = aligned(x, v, shape)
  for _, d in ipairs(order) do merged[1] = merged[1] * v.shape[d + 1] end
  for _, d in ipairs(whole) do merged[#merged + 1] = v.shape[d + 1] end
  v = v:permute(table.move(whole, 1, #whole, #order + 1, order))
  if merged[1] == 1 then return v:reshape(merged) end
  merged[1] = at:numel()
  return v:expand(table.move(merged, 2, #merged, #lead + 1, lead)):reshape(merged)
end

-- Reshapes y back to the axes of x. The first axis of y stands for all indexed axes (or has size 1); the whole axes
-- follow.
local function unmerged(x, y, a)
  local shape, back = {}, {}
  for k, axis in ipairs(a.order) do
    local indexed = y.shape[1] == 1 and 1 or x.shape[axis + 1]
    shape[k] = k <= a.indexed and indexed or y.shape[k - a.indexed + 1]
    back[axis + 1] = k - 1
  end
  return y:reshape(shape):permute(back)
end

-- If `at` contains a position twice, the last occurrence decides the assigned value. Returns two tensors with an
-- entry for each of `total` positions: whether `at` contains the position, and the index in `at` of its last
-- occurrence. Sorts the entries of `at` together with their indices, and keeps only the last of equal entries.
local function last_writers(x, at, total)
  local n, ints = at:numel(), beside(x, "i64")
  local keys = (at * n + rille.arange(n, ints)):topk(n)
  local sorted = keys // n
  local before = rille.cat({rille.full({1}, -1, ints), sorted}):slice(0, 0, n)
  local to = sorted:ne(before):where(sorted, total)
  local function spread(values) return rille.zeros({total + 1}, ints):scatter_add(0, to, values):slice(0, 0, total) end
  return spread(rille.ones({n}, ints)):eq(1), spread(keys % n)
end

-- Returns x with values added at the positions `at` of the merged indexed axes.
local function accumulated(x, at, values, a)
  local work, shape, ids = x.dtype == "bool" and "i64" or x.dtype, {a.total}, {at:numel()}
  for k, size in ipairs(a.tail) do shape[k + 1], ids[k + 1] = size, 1 end
  local flat = x:permute(a.order):reshape(shape):to(work)
  shape[1] = ids[1]
  return unmerged(x, flat:scatter_add(0, at:reshape(ids):expand(shape), values:expand(shape):to(work)), a):to(x.dtype)
end

-- Returns x for a key that selects no entry. An index tensor with a position out of range is an error nevertheless.
local function unchanged(x, key)
  local axis, same = 0, x
  for _, entry in ipairs(key) do
    if entry.ids then
      local size = x.shape[axis + 1]
      local at = rille.arange(size, beside(x, "i64")):index_select(0, entry.ids:lt(0):where(entry.ids + size, entry.ids))
      same = at:ge(0):all():where(same, x)
    end
    axis = axis + entry.axes
  end
  return same
end

local function new_value(x, key, v, accumulate)
  local a, ints = divide_axes(x, key), beside(x, "i64")
  local at, is_whole = take(rille.arange(a.total, ints):reshape(a.sizes), key)
  local values, hit, writer = merged_values(x, v, at, is_whole, a.tail), nil, nil
  if at:numel() == 0 then return unchanged(x, key) end
  at = at:reshape{-1}
  if accumulate then return accumulated(x, at, values, a) end
  if values.shape[1] == 1 then
    hit = rille.zeros({a.total}, ints):scatter_add(0, at, rille.ones({at:numel()}, ints)):gt(0)
  else
    hit, writer = last_writers(x, at, a.total)
    values = values:index_select(0, writer)
  end
  return hit:reshape(a.sizes):where(unmerged(x, values, a), x)
end

-- ---- assigning to one entry of each row ----

-- Permutes and reshapes t so that its dimension k becomes axis axis_of[k] of x, and all other axes have size 1.
local function on_axes_of(x, t, axis_of)
  local at, order = {}, {}
  for k, axis in ipairs(axis_of) do at[axis] = k - 1 end
  for axis = 0, x.ndim - 1 do order[#order + 1] = at[axis] end
  t = t:permute(order)
  for axis = 0, x.ndim - 1 do
    if not at[axis] then t = t:unsqueeze(axis) end
  end
  return t
end

-- For a key of index tensors and whole axes, returns the index tensors, the whole axes, and the number of dimensions
-- of x[key] that precede the dimensions of the index tensors. Returns nil for other keys.
local function index_tensors(key)
  local picks, tail, axis, place = {}, {}, 0, nil
  for _, entry in ipairs(key) do
    if not (entry.ids or entry.range == ALL or entry.rest) then return nil end
    if entry.ids then
      if picks[1] and picks[#picks].axis < axis - 1 then place = 0 end
      picks[#picks + 1], place = {axis = axis, ids = entry.ids}, place or axis
    elseif not entry.rest then
      tail[#tail + 1] = axis
    end
    axis = axis + entry.axes
  end
  return picks, tail, place
end

-- Returns the new value of x for a key that selects one entry of each row, x[{rille.arange(n), ids}], and otherwise
-- whole axes; nil: the key has another form. The rows stay split over ranks and micro-batches as in x.
local function assign_rows(x, key, v, accumulate)
  local picks, tail, place = index_tensors(key)
  local shape = shape_of_picks(x, picks or {})
  local rows, rest = row_picks(x, picks or {}, shape)
  if #rest ~= 1 then return nil end
  local axis_of, sizes = {}, {}
  for d, n in ipairs(shape) do
    if not rows[d - 1] then return nil end
    axis_of[d], sizes[d] = rows[d - 1].axis, n
  end
  local ids, size = rest[1].ids, x.shape[rest[1].axis + 1]
  local hit = ids:lt(0):where(ids + size, ids):expand(shape):one_hot(size):gt(0)
  axis_of[#shape + 1] = rest[1].axis
  hit = on_axes_of(x, hit, axis_of)
  axis_of[#shape + 1] = nil
  for k, axis in ipairs(tail) do
    local at = k <= place and k or k + #shape
    table.insert(axis_of, at, axis)
    table.insert(sizes, at, x.shape[axis + 1])
  end
  v = on_axes_of(x, aligned(x, v, sizes), axis_of)
  return hit:where(accumulate and x + v or v, x)
end

-- Assigns v to x[key], or adds v if accumulate is true. The shell calls this function; if x is a leaf that requires a
-- gradient, gradients are disabled during the call.
function index.assign(x, key, v, accumulate)
  v = source(x, v)
  local read = read_key(x, key)
  x:copy_(assign_mask(x, read, v, accumulate) or assign_rows(x, read, v, accumulate) or new_value(x, read, v, accumulate))
end

-- ---- methods ----

function index.index_put_(x, key, v, options)
  local o = check.options("index_put_", options, {accumulate = false})
  rille._assign(x, key, v, o.accumulate)
  return x
end

local function check_mask(who, x, mask)
  check.that(layout.is_tensor(mask) and mask.dtype == "bool", "%s: mask must be a bool tensor, found %s", who,
    layout.is_tensor(mask) and shape_text(mask) or check.shown(mask))
  return broadcast_shape(x.shape, mask.shape) or check.fail("%s: mask must have a shape that broadcasts to {%s}, found {%s}", who,
    table.concat(x.shape, ", "), table.concat(mask.shape, ", "))
end

function index.masked_select(x, mask)
  local shape = check_mask("masked_select", x, mask)
  return x:expand(shape):reshape{-1}:index_select(0, places(x, mask:expand(shape), "masked_select"))
end

function index.masked_fill(x, mask, v)
  check_mask("masked_fill", x, mask)
  check.that(type(v) == "number" or layout.is_tensor(v) and v.ndim == 0, "masked_fill: value must be a number or a tensor without dimensions, found %s",
    layout.is_tensor(v) and shape_text(v) or check.shown(v))
  local y = mask:where(v, x)
  return y.dtype == x.dtype and y or y:to(x.dtype)
end

function index.masked_fill_(x, mask, v) return x:copy_(index.masked_fill(x, mask, v)) end

function index.nonzero(x)
  local flat, columns = places(x, x.dtype == "bool" and x or x:ne(0), "nonzero"), {}
  local stride = 1
  for d = x.ndim, 1, -1 do
    columns[d] = flat // math.max(stride, 1) % math.max(x.shape[d], 1)
    stride = stride * x.shape[d]
  end
  return x.ndim > 0 and rille.stack(columns, 1) or rille.zeros({flat:numel(), 0}, beside(x, "i64"))
end

for _, name in ipairs{"index_put_", "masked_select", "masked_fill", "masked_fill_", "nonzero"} do index[name] = check.limited(name, index[name]) end

return index
