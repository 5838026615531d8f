-- local.lua - local tensors, which rille.per_rank passes to the user's function. A local tensor stands for one shard
-- on each rank of a mesh.
--
-- A local tensor is stored as a global tensor with one more leading axis per mesh axis. If the shards differ along
-- mesh axis i, leading axis i has the mesh's size and is split: S(i). If the shards are equal, leading axis i has
-- size 1 and is replicated: B. Operators act on the other axes only, so they move no bytes, and signatures, gradients
-- and plans are those of ordinary operators. An operand that is equal on all ranks broadcasts; the gradient of this
-- operand is the sum over ranks.

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"

local Local = {__name = "local tensor of rille.per_rank, whose methods accept local tensors; mesh:replicated(t) makes one of a global tensor"}

-- ---- creating local tensors ----

-- Returns the SBP of the global tensor behind a local tensor. shape: its sizes; it has one leading axis per mesh
-- axis.
local function leading_sbp(mesh, shape)
  local sbp = {}
  for i = 1, mesh.naxis do sbp[i] = shape[i] > 1 and ("S(%d)"):format(i - 1) or "B" end
  return sbp
end

-- Returns a local tensor. value: the global tensor behind it, with one leading axis per mesh axis.
local function wrap(mesh, value)
  local sbp = leading_sbp(mesh, value.shape)
  local text = #sbp == 1 and sbp[1] or "(" .. table.concat(sbp, ", ") .. ")"
  if value.sbp ~= text then value = value:to_global{placement = mesh.placement, sbp = sbp} end
  return setmetatable({mesh = mesh, value = value}, Local)
end

local function is_local(x) return type(x) == "table" and getmetatable(x) == Local end

-- Returns the sizes of x's shard on each rank.
local function local_shape(x)
  local shape = x.value.shape
  return setmetatable({table.unpack(shape, x.mesh.naxis + 1)}, getmetatable(shape))
end

-- Returns the sizes of the leading axes, followed by the sizes in `shape`.
local function with_leading(x, shape)
  local sizes = {table.unpack(x.value.shape, 1, x.mesh.naxis)}
  return table.move(shape, 1, #shape, #sizes + 1, sizes)
end

-- Expands leading axes of x (one per mesh axis; size 1 if the shards are equal along it) to the mesh's size, where
-- some tensor of `list` has that size.
local function spread(x, list)
  local sizes, grows = {}, false
  for i = 1, #x.value.shape do sizes[i] = -1 end
  for i = 1, x.mesh.naxis do
    for k = 1, list.n or #list do
      local other = list[k]
      if other.value.shape[i] > x.value.shape[i] then sizes[i], grows = other.value.shape[i], true end
    end
  end
  return grows and wrap(x.mesh, x.value:expand(sizes)) or x
end

-- ---- converting local operands to global ones ----

-- Each function below converts the local operands of one call to global operands. The table `rules` says which
-- function an operator uses.
local operands = {}

-- Converts operands of which only the first is a local tensor; the other operands are numbers.
function operands.one(list)
  list[1] = list[1].value
  return list
end

-- Converts operands that broadcast: axes of size 1 are inserted after the leading axes.
function operands.broadcast(list)
  local most = 0
  for i = 1, list.n do
    if is_local(list[i]) then most = math.max(most, list[i].ndim) end
  end
  for i = 1, list.n do
    local x = list[i]
    if is_local(x) then
      local sizes, own = {}, local_shape(x)
      for k = 1, most - #own do sizes[k] = 1 end
      list[i] = #sizes == 0 and x.value or x.value:reshape(with_leading(x, table.move(own, 1, #own, #sizes + 1, sizes)))
    end
  end
  return list
end

-- Converts the operands of matmul, as operands.broadcast does. Refuses an operand of one axis, because broadcasting
-- would treat it as a row.
function operands.matrices(list)
  for i = 1, list.n do
    check.that(is_local(list[i]) and list[i].ndim >= 2, "per_rank: matmul: operand %d must be a local tensor of 2 or more axes, found %s; unsqueeze adds an axis", i,
      is_local(list[i]) and list[i].ndim or check.shown(list[i]))
  end
  return operands.broadcast(list)
end

-- Converts operands that must have equal leading axes (one axis per mesh axis): expands those of all operands.
function operands.equal(list, op)
  local values = {n = list.n}
  for i = 1, list.n do
    check.that(is_local(list[i]), "per_rank: %s: operand %d must be a local tensor, found %s", op, i, check.shown(list[i]))
  end
  for i = 1, list.n do values[i] = spread(list[i], list).value end
  return values
end

-- Converts operands of which the first may have different shards. All other operands must be equal on all ranks, so
-- they get no leading axes.
function operands.shared(list, op)
  local values = {list[1].value, n = list.n}
  for i = 2, list.n do
    local x = list[i]
    for axis = 1, x and x.mesh.naxis or 0 do
      check.that(x.value.shape[axis] == 1, "per_rank: %s: operand %d must be equal on all ranks, but differs along mesh axis %d", op,
        i, axis - 1)
    end
    values[i] = x and x.value:reshape(local_shape(x))
  end
  return values
end

-- ---- converting attributes to those of the global call ----

-- Returns the position of local axis `axis` in the global tensor. n: number of local axes.
local function moved_axis(x, op, axis, n)
  check.that(math.type(axis) == "integer" and axis >= -n and axis < n, "per_rank: %s: axis must be in -%d to %d, found %s", op, n,
    n - 1, check.shown(axis))
  return x.mesh.naxis + (axis < 0 and axis + n or axis)
end

local function moved_axes(x, op, axes, n)
  if type(axes) ~= "table" then return moved_axis(x, op, axes, n) end
  local list = {}
  for i, axis in ipairs(axes) do list[i] = moved_axis(x, op, axis, n) end
  return list
end

-- Each function below converts the attributes of one local call to those of the global call. Attributes are a table
-- by name.
local attributes = {}

function attributes.none() end

function attributes.axis(x, op, a)
  for _, name in ipairs{"axis", "axes", "axis0", "axis1"} do
    if a[name] then a[name] = moved_axes(x, op, a[name], #local_shape(x)) end
  end
end

-- Converts the axis of operators whose default axis is 0.
function attributes.first(x, op, a) a.axis = moved_axis(x, op, a.axis or 0, #local_shape(x)) end

-- Converts the axis of operators whose result has one more axis than the operand.
function attributes.new(x, op, a) a.axis = moved_axis(x, op, a.axis or 0, #local_shape(x) + 1) end

-- Converts the axis of operators whose default axis is the last one.
function attributes.last(x, op, a) a.axis = moved_axis(x, op, a.axis or -1, #local_shape(x)) end

local function check_axes(x, op, n)
  check.that(x.ndim >= n, "per_rank: %s: x must have at least %d axes, found %d", op, n, x.ndim)
end

-- Converts the axes of an operator that acts on all axes by default (no axis given, or an empty list).
function attributes.all(x, op, a)
  local n, axes, key = x.ndim, {}, op == "flip" and "axes" or "axis"
  check_axes(x, op, 1)
  for i = 1, n do axes[i] = i - 1 end
  local given = a[key]
  if type(given) == "table" and #given == 0 then given = nil end
  a[key] = moved_axes(x, op, given or axes, n)
end

-- Checks x for operators that act on its last two axes.
function attributes.matrix(x, op) check_axes(x, op, 2) end
function attributes.pad(x, op, a) check_axes(x, op, #(a.pad or {}) // 2) end
function attributes.norm(x, op, a) check_axes(x, op, math.max(1, #(a.normalized_shape or {}))) end

-- Converts the axes of an operator that acts by default on the axes of size 1. If x has no such axis, returns true,
-- because the operator's result then equals x.
function attributes.ones(x, op, a)
  local axes, own = {}, local_shape(x)
  for i, size in ipairs(own) do axes[#axes + 1] = size == 1 and i - 1 or nil end
  a.axis = moved_axes(x, op, a.axis or axes, #own)
  return type(a.axis) == "table" and #a.axis == 0
end

function attributes.sizes(x, _, a)
  local key = a.shape and "shape" or "sizes"
  a[key] = with_leading(x, a[key] or {})
end

function attributes.expand(x, op, a)
  local sizes = a.sizes or {}
  check.that(#sizes == #local_shape(x), "per_rank: %s: expected %d sizes, found %d", op, #local_shape(x), #sizes)
  attributes.sizes(x, op, a)
end

function attributes.permute(x, op, a)
  local axes = {}
  for i = 1, x.mesh.naxis do axes[i] = i - 1 end
  for _, axis in ipairs(a.axes or {}) do axes[#axes + 1] = moved_axis(x, op, axis, #local_shape(x)) end
  a.axes = axes
end

-- ---- calling operators on local tensors ----

-- operator -> {operands = converter of operands, attributes = converter of attributes}
local rules = {}
for _, row in ipairs{
  {"one", "none", "abs cast ceil cos dropout erf exp floor gelu log logical_not neg one_hot"},
  {"one", "none", "reciprocal relu round rsqrt sigmoid sign silu sin softplus sqrt square tanh"},
  {"one", "matrix", "tril triu"},
  {"one", "pad", "pad"},
  {"broadcast", "none", "add clamp div eq ge gt le logical_and logical_or lt maximum minimum mul ne pow sub where"},
  {"matrices", "none", "matmul"},
  {"one", "all", "all any flip logsumexp max mean min prod sum var"},
  {"one", "first", "argmax argmin"},
  {"one", "axis", "cumsum slice transpose"},
  {"one", "last", "log_softmax softmax topk"},
  {"one", "new", "unsqueeze"},
  {"one", "ones", "squeeze"},
  {"one", "sizes", "reshape"},
  {"one", "expand", "expand"},
  {"one", "permute", "permute"},
  {"equal", "first", "concat"},
  {"equal", "axis", "gather scatter_add"},
  {"equal", "new", "stack"},
  {"shared", "axis", "index_select"},
  {"shared", "none", "embedding"},
  {"shared", "norm", "layer_norm rms_norm"},
  {"shared", "matrix", "rotary"},
} do
  for name in row[3]:gmatch("%S+") do rules[name] = {operands = operands[row[1]], attributes = attributes[row[2]]} end
end

-- Appends v, which may be nil, to a list with a field n.
local function append(list, v)
  list.n = list.n + 1
  list[list.n] = v
end

-- Sets attributes by name. A list of integers may be given as one integer. If it is the operator's only attribute, it
-- may also be given as several arguments, as in x:reshape(2, 3).
local function set_attributes(record, given, a)
  local first = record.attributes[1]
  if #record.attributes == 1 and first.type == "integer[]" and math.type(given[1]) == "integer" then given = {given, n = 1} end
  for i, attribute in ipairs(record.attributes) do
    if given[i] ~= nil then a[attribute.name] = given[i] end
    local v = a[attribute.name]
    if attribute.type == "integer[]" and math.type(v) == "integer" then a[attribute.name] = {v} end
  end
  return given.n
end

-- Stores a named argument: an operand at its position, or an attribute.
local function set_named(record, name, value, list, a)
  for i, operand in ipairs(record.operands) do
    if operand.name == name and not operand.list then
      list.n, list[i] = math.max(list.n, i), value
      return
    end
  end
  a[name] = value
end

-- Divides the arguments of a call into operands and attributes by name, as operators do.
local function sorted(op, args)
  local record, list, given, a = rille._operator(op), {n = 0}, {n = 0}, {}
  for i = 1, args.n do
    local v, place = args[i], record.operands[list.n + 1]
    local entry = type(v) == "table" and not is_local(v) and v[1]
    if is_local(v) or layout.is_tensor(v) then
      append(list, v)
    elseif is_local(entry) or layout.is_tensor(entry) or type(v) == "table" and type(next(v)) == "string" then
      for _, x in ipairs(v) do append(list, x) end
      for key, value in pairs(v) do
        if type(key) == "string" then set_named(record, key, value, list, a) end
      end
    elseif place and (v == nil and place.optional or type(v) == "number" and place.number) then
      append(list, v)
    else
      append(given, v)
    end
  end
  for i = 1, list.n do
    check.that(not layout.is_tensor(list[i]),
      "per_rank: %s: an operand is a global tensor; pass it to the function as an input, or use mesh:replicated(x)", op)
  end
  local n = set_attributes(record, given, a)
  check.that(n <= #record.attributes, "per_rank: %s: expected at most %d arguments, found %d", op, #record.attributes + list.n - 1, n + list.n - 1)
  return list, a
end

-- Returns the first local operand, because the attributes refer to its axes.
local function first_local(list)
  for i = 1, list.n do
    if is_local(list[i]) then return list[i] end
  end
end

local function call(mesh, op, ...)
  local list, a = sorted(op, table.pack(...))
  local first = first_local(list)
  if rules[op].attributes(first, op, a) then return first end
  local values = rules[op].operands(list, op)
  if next(a) then append(values, a) end
  local results = table.pack(rille[op](table.unpack(values, 1, values.n)))
  for i = 1, results.n do results[i] = wrap(mesh, results[i]) end
  return table.unpack(results, 1, results.n)
end

local methods = {}
local function add_method(name)
  methods[name] = function(self, ...) return call(self.mesh, name, self, ...) end
end
for name in pairs(rules) do add_method(name) end

-- Returns the method of an element-wise operator of a shared library (rille.load_operators), or nil.
local function loaded_method(name)
  local record = type(name) == "string" and rille._operator(name)
  if not record or not record.library or not record.elementwise then return nil end
  rules[name] = {operands = operands.broadcast, attributes = attributes.none}
  add_method(name)
  return methods[name]
end

function methods:to(dtype) return self:cast(dtype) end
function methods:detach() return wrap(self.mesh, self.value:detach()) end
function methods:register_hook(fn)
  check.fn("per_rank: register_hook", "the argument", fn)
  return self.value:register_hook(function(g)
    local new = fn(wrap(self.mesh, g))
    check.that(new == nil or is_local(new), "per_rank: register_hook: the function must return a local tensor or nil, found %s", check.shown(new))
    return new and new.value
  end)
end
function methods:numel()
  local n = 1
  for _, size in ipairs(local_shape(self)) do n = n * size end
  return n
end

-- Merges the leading axes with the batch axis, because the operator accepts only four axes.
function methods:scaled_dot_product_attention(k, v, options)
  check.that(is_local(k) and is_local(v) and (options == nil or not is_local(options)),
    "per_rank: scaled_dot_product_attention: expected k, v and {is_causal =, scale =}; a mask is not supported")
  local list, merged = {self, k, v}, {}
  for i, x in ipairs(list) do
    list[i] = spread(x, list)
    local own, batch = local_shape(x), 1
    check.that(#own == 4, "per_rank: scaled_dot_product_attention: operands must have 4 axes, found %d", #own)
    for axis = 1, self.mesh.naxis do batch = batch * list[i].value.shape[axis] end
    merged[i] = list[i].value:reshape{batch * own[1], own[2], own[3], own[4]}
  end
  local y = rille.scaled_dot_product_attention(merged[1], merged[2], merged[3], options)
  local own = local_shape(self)
  own[4] = y.shape[4]
  return wrap(self.mesh, y:reshape(with_leading(list[1], own)))
end

-- ---- indexing and arithmetic ----

local properties = {
  shape = local_shape,
  ndim = function(x) return #local_shape(x) end,
  dtype = function(x) return x.value.dtype end,
}

-- Checks the entries of a key for the local shape.
local function check_key(shape, key)
  local axis = 0
  for _, entry in ipairs(key) do
    check.that(not is_local(entry), "per_rank: an index must be a position or a range, found a local tensor; use where, gather or index_select")
    if entry == "..." then return end
    axis = entry == rille.newaxis and axis or axis + 1
    local n = shape[axis] or 0
    check.that(axis <= #shape, "per_rank: an index must have at most %d entries, one per axis of the local tensor, found %d", #shape, #key)
    check.that(math.type(entry) ~= "integer" or entry >= -n and entry < n, "per_rank: position %s is out of range: axis %d of the local tensor has %d entries",
      check.shown(entry), axis - 1, n)
  end
end

-- Implements x[i] and x[{...}] on the local axes.
local function indexed(x, at)
  local full = {}
  for i = 1, x.mesh.naxis do full[i] = {} end
  local given = type(at) == "table" and not is_local(at) and at or {at}
  check_key(local_shape(x), given)
  return wrap(x.mesh, x.value[table.move(given, 1, #given, #full + 1, full)])
end

function Local.__index(x, key)
  if methods[key] then return methods[key] end
  if properties[key] then return properties[key](x) end
  if math.type(key) == "integer" or type(key) == "table" then return indexed(x, key) end
  local method = loaded_method(key)
  if method then return method end
  check.fail("per_rank: a local tensor has no '%s'; it has: %s", check.named(key),
    table.concat(check.sorted_keys(methods), ", ") .. ", shape, ndim, dtype")
end

function Local.__newindex() check.fail("per_rank: a local tensor cannot be assigned to") end
function Local.__len(x) return local_shape(x)[1] or 0 end
function Local.__tostring(x)
  return ("local %s {%s}"):format(x.value.dtype, table.concat(local_shape(x), ", "))
end

local function of(a, b) return is_local(a) and a.mesh or b.mesh end
for event, op in pairs{__add = "add", __sub = "sub", __mul = "mul", __div = "div", __pow = "pow"} do
  Local[event] = function(a, b) return call(of(a, b), op, a, b) end
end

-- The operators % and // have no name in Rille, so they are called by their sign.
local signs = {__mod = function(a, b) return a % b end, __idiv = function(a, b) return a // b end}
for event, apply in pairs(signs) do
  Local[event] = function(a, b)
    local values = operands.broadcast{n = 2, a, b}
    return wrap(of(a, b), apply(values[1], values[2]))
  end
end
function Local.__unm(x) return x:neg() end
local function refuse_comparison()
  check.fail("per_rank: the function runs once for all ranks, so it cannot branch on a local tensor; choose by c:where(a, b), with c = x:lt(y)")
end
Local.__lt, Local.__le, Local.__eq = refuse_comparison, refuse_comparison, refuse_comparison

-- Implements pairs(x), which visits the rows.
function Local.__pairs(x)
  return function(_, i)
    i = i and i + 1 or 0
    if i < #x then return i, x[i] end
  end
end

-- Implements rille.op(...) if an argument is a local tensor, or a list of local tensors. Operators call this function
-- (shell/bind/tensor/lua_op.c).
function Local.__operator(op, ...)
  local list = {n = 0}
  for i = 1, select("#", ...) do
    local v = select(i, ...)
    append(list, v)
    for k = 1, type(v) == "table" and rawlen(v) or 0 do append(list, rawget(v, k)) end
  end
  local first = first_local(list)
  local method = first[op] -- an error if local tensors lack the operator
  if rules[op] then return call(first.mesh, op, ...) end
  return method(...)
end

return {wrap = wrap, is = is_local, shape = local_shape, spread = spread}
