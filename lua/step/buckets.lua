-- buckets.lua - the option buckets of rille.graph: pads one axis of the arguments to one of a few sizes (buckets), so
-- that a step is traced once per bucket and not once per length.
--
--   local step = rille.graph(function(ids, labels, weight) ... return (losses * weight):mean() end, {buckets = {64, 128, axis = 1}})
--
-- The padding is zeros. The function receives one more argument, weight (f32). The shape of weight is that of the
-- first padded argument, without the dimensions after axis. weight is bucket / length at entries of the arguments,
-- and 0 at padding. So (losses * weight):mean() is the mean over the entries of the arguments, also if micro-batches
-- cut the batch: each micro-batch has the same number of entries, and the mean of the micro-batches' means is the
-- mean of the batch.

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"

local buckets = {}

local WHO <const> = "graph: buckets"

-- ---- reading the option buckets ----

-- Checks that an option is a list of different positions of arguments or results.
local function check_positions(what, list)
  check.that(type(list) == "table", "%s: %s must be a list of positions such as {1, 2}, found %s", WHO, what, check.shown(list))
  check.list(WHO, what, list)
  for _, k in ipairs(list) do check.count(WHO, "an entry of " .. what, k) end
end

-- Returns the number of arguments that a function or module accepts; infinity: any number, or unknown.
local function parameter_count(fn)
  local forward = type(fn) == "table" and check.field(fn, "forward")
  local called = type(forward) == "function" and forward or fn
  local info = type(called) == "function" and debug.getinfo(called, "u")
  if not info or info.isvararg then return math.huge end
  return called == fn and info.nparams or info.nparams - 1 -- without self
end

-- Converts the option buckets of a step that calls fn to {sizes =, axis =, args = list or nil, cut = list, accepts = number
-- of arguments of fn, fn = fn}.
function buckets.read(given, fn)
  check.that(type(given) == "table", "%s must be a list of sizes such as {64, 128, axis = 1}, found %s", WHO, check.shown(given))
  local sizes, named = {}, {}
  for key, value in next, given do
    if math.type(key) == "integer" then sizes[key] = value else named[key] = value end
  end
  local o = check.options(WHO, named, {axis = 0, args = check.none, cut = {}})
  check.list(WHO, "the list of sizes", sizes)
  check.that(#sizes > 0, "%s must have at least one size, as in {64, 128}", WHO)
  for k, size in ipairs(sizes) do
    check.count(WHO, "a size", size)
    check.that(k == 1 or size > sizes[k - 1], "%s: sizes must ascend, found %d after %d", WHO, size, sizes[k - 1])
  end
  check.whole(WHO, "axis", o.axis, 0)
  if o.args then check_positions("args", o.args) end
  check_positions("cut", o.cut)
  return {sizes = sizes, axis = math.tointeger(o.axis), args = o.args, cut = o.cut, accepts = parameter_count(fn), fn = fn}
end

-- ---- padding the arguments of a call ----

-- Returns true if a table without a metatable contains a tensor.
local function hides_tensor(t)
  for _, v in next, type(t) == "table" and getmetatable(t) == nil and t or {} do
    if layout.is_tensor(v) then return true end
  end
  return false
end

-- Returns the positions of the arguments to pad: the option args, or by default the positions of all tensors that
-- have the axis.
local function padded_positions(o, args)
  if o.args then return o.args end
  local list = {}
  for i = 1, args.n do
    check.that(not hides_tensor(args[i]),
      "%s: argument %d is a table with tensors; pass these tensors as arguments, or name the arguments to pad: args = {...}", WHO, i)
    if layout.is_tensor(args[i]) and args[i].ndim > o.axis then list[#list + 1] = i end
  end
  check.that(#list > 0, "%s: an argument must have the axis %d, found none", WHO, o.axis)
  return list
end

-- Returns the size of the padded axis before padding.
local function true_size(o, args, positions)
  local size
  for _, i in ipairs(positions) do
    local x = args[i]
    check.that(layout.is_tensor(x) and x.ndim > o.axis, "%s: argument %d must be a tensor that has the axis %d, found %s", WHO, i, o.axis,
      layout.is_tensor(x) and tostring(x.ndim) .. " dimensions" or check.shown(x))
    local n = x.shape[o.axis + 1]
    check.that(not size or n == size,
      "%s: axis %d of argument %d has %d entries, and that of argument %d has %d; name the arguments to pad: args = {...}", WHO, o.axis, i, n,
      positions[1], size or 0)
    size = n
  end
  check.that(size > 0, "%s: axis %d of argument %d must have at least 1 entry, found 0", WHO, o.axis, positions[1])
  return size
end

-- Returns the smallest bucket of at least n entries.
local function bucket_of(o, n, position)
  for _, size in ipairs(o.sizes) do
    if size >= n then return size end
  end
  check.fail("%s: axis %d of argument %d has %d entries, more than the largest bucket, %d; add a bucket or cut the argument", WHO, o.axis, position, n,
    o.sizes[#o.sizes])
end

-- Returns y in the layout of x.
local function like(y, x) return layout.equal(y, x) and y or y:to_global(layout.of(x)) end

local function padded(x, axis, size)
  local n, pad = x.shape[axis + 1], {}
  if n == size then return x end
  for _ = axis + 2, x.ndim do table.move({0, 0}, 1, 2, #pad + 1, pad) end
  table.move({0, size - n}, 1, 2, #pad + 1, pad)
  return like(x:pad(pad), x)
end

-- Returns a layout for a tensor that has only dimensions 0 to axis of x. A mesh axis that shards one of these
-- dimensions also shards the new tensor; all other mesh axes replicate it.
local function layout_below(x, axis)
  local sbp = layout.entries(x.sbp)
  for i, entry in ipairs(sbp) do
    local d = layout.split_of(entry)
    sbp[i] = d and d <= axis and entry or "B"
  end
  return {placement = x.placement, sbp = sbp}
end

-- Returns the function's last argument, weight: size / n at the first n entries of the axis, else 0. x: a padded
-- argument.
local function weight_of(x, axis, n, size)
  local shape, row = table.move(x.shape, 1, axis + 1, 1, {}), {}
  for d = 1, axis do row[d] = 1 end
  row[axis + 1] = size
  local ids = rille.arange(size, {placement = x.placement, sbp = layout.replicated(x.placement)})
  local row_weight = (ids:lt(n):to("f32") * (size / n)):reshape(row)
  return row_weight:expand(shape):to_global(layout_below(x, axis))
end

-- Cuts a result from `size` entries back to n along the axis.
local function cut(o, k, y, n, size)
  check.that(layout.is_tensor(y) and y.ndim > o.axis and y.shape[o.axis + 1] == size,
    "%s: result %d must have %d entries along axis %d to be cut, found %s", WHO, k, size, o.axis,
    layout.is_tensor(y) and ("%s{%s}"):format(y.dtype, table.concat(y.shape, ", ")) or check.shown(y))
  return n == size and y or like(y:slice(o.axis, 0, n), y)
end

-- Checks that the step's function computes with the weight, argument args.n + 1, or has named this parameter _.
local function check_weight_read(o, step, args)
  local before = 0
  for i = 1, args.n do
    if layout.is_tensor(args[i]) then before = before + 1 end
  end
  local unused = type(o.fn) == "function" and debug.getlocal(o.fn, args.n + 1) == "_"
  check.that(#o.cut > 0 or unused or step:_reads(before), "%s: the function must compute with the weight of the entries, argument %d, as in "
    .. "(losses * weight):mean(), because its results include the padding; name the argument _ if zeros as padding change no result", WHO, args.n + 1)
end

-- Calls a step with padded arguments and their weight, and cuts the step's results to the size before padding.
function buckets.call(o, step, ...)
  local args = table.pack(...)
  check.that(o.accepts > args.n or #o.cut > 0, "%s: the function must accept the weight of the entries as argument %d, as in (losses * weight):mean(), "
    .. "because its results include the padding; or cut results to the length: buckets = {..., cut = {1}}", WHO, args.n + 1)
  local positions = padded_positions(o, args)
  local n = true_size(o, args, positions)
  local size = bucket_of(o, n, positions[1])
  for _, i in ipairs(positions) do args[i] = padded(args[i], o.axis, size) end
  args[args.n + 1] = weight_of(args[positions[1]], o.axis, n, size)
  local results = table.pack(step:_run(table.unpack(args, 1, math.min(args.n + 1, o.accepts))))
  check_weight_read(o, step, args)
  for _, k in ipairs(o.cut) do results[k] = cut(o, k, results[k], n, size) end
  return table.unpack(results, 1, results.n)
end

-- Returns sizes for the warning about many traces: powers of two from the smallest to the largest size seen.
function buckets.suggest(sizes)
  local list, size = {}, 1
  while size < math.min(table.unpack(sizes)) do size = 2 * size end
  repeat
    list[#list + 1] = size
    size = 2 * size
  until list[#list] >= math.max(table.unpack(sizes))
  return table.concat(list, ", ")
end

return buckets
