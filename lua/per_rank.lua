-- per_rank.lua - rille.per_rank(fn, {inputs =, outputs =}): runs a function on the shards of each rank.
--
--   local product = rille.per_rank(function(mesh, x, w) return mesh:psum(x:matmul(w)) end,
--     {inputs = {"S(1)", "S(0)"}, outputs = {"B"}})
--   local y = product(x, w)                                                     -- as shard_map of JAX
--
-- The function is called once, with local tensors (per_rank/local.lua) that stand for the shards of all ranks. Inputs
-- are converted to local tensors by reshapes that move no bytes. The methods of `mesh` communicate.

local rille = require "rille"
local check = require "rille.base.check"
local branches = require "rille.step.branches"
local layout = require "rille.base.layout"
local locals = require "rille.per_rank.local"

-- ---- moving, merging and splitting axes of the global tensor, counted from 1 ----

-- Returns value with its axis `from` moved to position `to`.
local function moved(value, from, to)
  local axes = {}
  for i = 1, #value.shape do
    if i ~= from then axes[#axes + 1] = i - 1 end
  end
  table.insert(axes, to, from - 1)
  return value:permute(axes)
end

-- Moves axis i directly before axis `into`, and merges both.
local function join(value, i, into)
  local at = i < into and into - 1 or into
  value = moved(value, i, at)
  local shape = {table.unpack(value.shape)}
  local size = table.remove(shape, at)
  shape[at] = shape[at] * size
  return value:reshape(shape)
end

-- Merges leading axis i, along which the shards of mesh axis i are stacked, into axis `into`: joins the shards of the
-- ranks in order. Leading axis i keeps size 1.
local function merge(value, i, into)
  local joined = join(value, i, into)
  local shape = {table.unpack(joined.shape)}
  table.insert(shape, i, 1)
  return joined:reshape(shape)
end

-- Reverses merge(): splits axis `axis` into m shards along leading axis i, which had size 1.
local function divide(value, i, axis, m)
  local shape = {table.unpack(value.shape)}
  shape[axis] = shape[axis] // m
  table.insert(shape, axis, m)
  table.remove(shape, i)
  return moved(value:reshape(shape), axis - 1, i)
end

-- ---- communication: the methods of `mesh` ----

local Mesh = {}
local mesh_methods = {}

function Mesh.__index(_, name)
  local elsewhere = not mesh_methods[name] and type(name) == "string" and rille._elsewhere("mesh", name)
  return mesh_methods[name] or check.fail("per_rank: the mesh has no '%s'%s; it has: %s", check.named(name),
    elsewhere and ": " .. elsewhere or "", table.concat(check.sorted_keys(mesh_methods), ", "))
end

-- Returns the index (from 1) and the size of a mesh axis; default: axis 0.
local function mesh_axis(mesh, who, axis)
  axis = axis or 0
  check.that(math.type(axis) == "integer" and axis >= 0 and axis < mesh.naxis, "per_rank: %s: mesh axis must be in 0 to %d, found %s",
    who, mesh.naxis - 1, check.shown(axis))
  return axis + 1, mesh.placement.shape[axis + 1]
end

-- Returns the axis of the underlying global tensor, from 1, that is axis `axis` of the local tensor x.
local function local_axis(x, who, axis)
  local n = x.ndim
  axis = axis or 0
  check.that(math.type(axis) == "integer" and axis >= -n and axis < n, "per_rank: %s: axis must be in -%d to %d, found %s", who, n,
    n - 1, check.shown(axis))
  return x.mesh.naxis + (axis < 0 and axis + n or axis) + 1
end

local function check_local(who, x)
  check.that(locals.is(x), "per_rank: %s: expected a local tensor, found %s", who, check.shown(x))
end

-- Returns the global tensor of x with one shard per rank along mesh axis i, so that the shards may differ. If the
-- shards were equal, the tensor had only one; then expands leading axis i.
local function varying(x, i)
  local sizes = {}
  for k = 1, #x.value.shape do sizes[k] = -1 end
  if x.value.shape[i] == x.mesh.placement.shape[i] then return x.value end
  sizes[i] = x.mesh.placement.shape[i]
  return locals.wrap(x.mesh, x.value:expand(sizes)).value
end

function mesh_methods:rank(axis)
  local i, m = mesh_axis(self, "rank", axis)
  local shape, sbp = {}, layout.replicated(self.placement)
  for k = 1, self.naxis do shape[k] = 1 end
  shape[i], sbp[i] = m, m > 1 and "S(0)" or "B"
  return locals.wrap(self, rille.arange(m, {placement = self.placement, sbp = sbp}):reshape(shape))
end

function mesh_methods:replicated(t)
  check.that(layout.is_tensor(t) and not t.sbp:find("[SP]"), "per_rank: replicated: expected a replicated tensor, found %s",
    layout.is_tensor(t) and "layout " .. t.sbp or check.shown(t))
  local shape = {}
  for i = 1, self.naxis do shape[i] = 1 end
  return locals.wrap(self, layout.on_mesh_of(t, self):reshape(table.move(t.shape, 1, #t.shape, #shape + 1, shape)))
end

function mesh_methods:psum(x, axis)
  check_local("psum", x)
  local i, m = mesh_axis(self, "psum", axis)
  if x.value.shape[i] == 1 then return m == 1 and x or x * m end
  return locals.wrap(self, x.value:sum(i - 1, true))
end

function mesh_methods:all_gather(x, axis, dimension)
  check_local("all_gather", x)
  local i = mesh_axis(self, "all_gather", axis)
  local at, value = local_axis(x, "all_gather", dimension), varying(x, i)
  local sbp = {}
  for k = 1, self.naxis do sbp[k] = k ~= i and value.shape[k] > 1 and ("S(%d)"):format(k - 1) or "B" end
  return locals.wrap(self, merge(value:to_global{placement = self.placement, sbp = sbp}, i, at))
end

function mesh_methods:all_to_all(x, axis, split, concat)
  check_local("all_to_all", x)
  local i, m = mesh_axis(self, "all_to_all", axis)
  local from, to, value = local_axis(x, "all_to_all", split), local_axis(x, "all_to_all", concat), varying(x, i)
  check.that(value.shape[from] % m == 0, "per_rank: all_to_all: axis %d has %d elements, which the %d ranks of mesh axis %d must divide",
    from - self.naxis - 1, value.shape[from], m, i - 1)
  -- a new axis (the receiving ranks) changes places with leading axis i (the sending ranks)
  local shape, axes = {table.unpack(value.shape)}, {}
  shape[from] = shape[from] // m
  table.insert(shape, from, m)
  for k = 1, #shape do axes[k] = k - 1 end
  axes[i], axes[from] = axes[from], axes[i]
  value = locals.wrap(self, value:reshape(shape):permute(axes)).value
  return locals.wrap(self, join(value, from, to < from and to or to + 1))
end

function mesh_methods:shift(x, axis, n)
  check_local("shift", x)
  local i, m = mesh_axis(self, "shift", axis)
  n = n or 1
  check.that(math.type(n) == "integer", "per_rank: shift: n must be an integer, found %s", check.shown(n))
  n = n % m
  if x.value.shape[i] == 1 or n == 0 then return x end
  return locals.wrap(self, rille._shift(x.value, {axis = i - 1, mesh_axis = i - 1, ranks = n}))
end

-- ---- converting inputs and outputs ----

-- Returns the entries of a layout, one per mesh axis.
local function entries(who, sbp)
  check.that(not sbp:find("order"), "per_rank: %s: a layout with its own order of mesh axes is not supported, found %s", who, sbp)
  return layout.entries(sbp)
end

-- Checks that the shards of axis `axis`, which has `size` elements, are equal: the function is called once for all ranks. m: number
-- of ranks of mesh axis i; unit: number of adjacent elements that a shard keeps together.
local function check_equal_shards(who, axis, size, unit, m, i)
  check.that(size % (m * unit) == 0, "per_rank: %s: axis %d has %d elements%s, which the %d ranks of mesh axis %d must divide, because the " ..
    "function runs once for all ranks; pad the axis to %d elements", who, axis, size, unit > 1 and (" in units of %d"):format(unit) or "",
    m, i - 1, (size + m * unit - 1) // (m * unit) * m * unit)
end

-- Converts input number k to a local tensor.
local function enter(mesh, k, x, sbp)
  local who = ("input %d"):format(k)
  local value, shape = x:to_global{placement = mesh.placement, sbp = sbp}, {}
  local list, n = entries(who, value.sbp), mesh.naxis
  for i = 1, n do shape[i] = 1 end
  value = value:reshape(table.move(value.shape, 1, #value.shape, n + 1, shape))
  for i = 1, n do
    local axis, unit = layout.split_of(list[i])
    check.that(axis or list[i] == "B", "per_rank: %s: a layout must be S or B on each mesh axis, found %s", who, list[i])
    if axis then
      local m = mesh.placement.shape[i]
      check_equal_shards(who, axis, value.shape[n + axis + 1], unit, m, i)
      value = divide(value, i, n + axis + 1, m)
    end
  end
  return locals.wrap(mesh, value)
end

-- Returns the entries of the layout `sbp` of a result whose shards have the sizes `shard`.
local function read_layout(mesh, who, sbp, shard)
  local shape = {}
  for i, size in ipairs(shard) do shape[i] = size * mesh.placement.size end
  entries(who, type(sbp) == "table" and table.concat(sbp, ", ") or tostring(sbp))
  local good, t = check.try(rille.empty, shape, {placement = mesh.placement, sbp = sbp})
  check.that(good, "per_rank: %s: %s", who, (tostring(t):gsub("^.-empty: ", "")))
  return entries(who, t.sbp)
end

-- Converts a local result, number k, to a global tensor.
local function leave(mesh, k, x, sbp)
  local who, n = ("output %d"):format(k), mesh.naxis
  check.that(locals.is(x), "per_rank: %s must be a local tensor, found %s", who, check.shown(x))
  check.that(x.mesh == mesh, "per_rank: %s is a local tensor of another call; return one that this call computes", who)
  local value, list = x.value, read_layout(mesh, who, sbp, x.shape)
  for i = n, 1, -1 do
    local axis, unit = layout.split_of(list[i])
    if axis then
      check.that(value.shape[n + axis + 1] % unit == 0, "per_rank: %s: axis %d of the local result has %d elements, which must be a multiple of the unit %d",
        who, axis, value.shape[n + axis + 1], unit)
      value = merge(varying(locals.wrap(mesh, value), i), i, n + axis + 1)
    elseif list[i] == "P" then
      value = varying(locals.wrap(mesh, value), i):sum(i - 1, true)
    else
      check.that(value.shape[i] == 1, "per_rank: %s differs along mesh axis %d, so its layout must be S or P there, found B; " ..
        "psum and all_gather make it equal", who, i - 1)
    end
  end
  return value:reshape{table.unpack(value.shape, n + 1)}:to_global{placement = mesh.placement, sbp = list}
end

-- ---- calling the user's function ----

local function check_list(name, list)
  check.that(type(list) == "table", "per_rank: %s must be a list of layouts, one per tensor, found %s", name, check.shown(list))
  for k, sbp in ipairs(list) do
    check.that(type(sbp) == "string" or type(sbp) == "table" or type(sbp) == "userdata",
      "per_rank: %s[%d] must be a layout, found %s", name, k, check.shown(sbp))
  end
end

-- Returns the mesh of the inputs: their common placement.
local function mesh_of(inputs, args)
  check.that(args.n == #inputs, "per_rank: the number of tensors must be %d, one per entry of inputs, found %d", #inputs, args.n)
  for k = 1, args.n do
    check.that(layout.is_tensor(args[k]), "per_rank: input %d must be a tensor, found %s", k, check.shown(args[k]))
    check.that(args[k].placement == args[1].placement, "per_rank: all inputs must be on one placement, found %s and %s",
      tostring(args[1].placement), tostring(args[k].placement))
  end
  local placement = args[1].placement
  return setmetatable({placement = placement, naxis = #placement.shape}, Mesh)
end

local compared = "must compare a local tensor by x:eq(y), which has a result per rank, found == or ~=, whose result is equal on all ranks"
local faults = {number = compared, value = compared,
  branch = "must choose by c:where(a, b), found a branch on the local tensor c, which counts as true on all ranks",
  key = "must select by index_select or c:where(a, b), found a local tensor as the key of a table, which finds no entry"}

local checked = setmetatable({}, {__mode = "k"}) -- set of the functions without such faults

-- Checks that fn(mesh, x, ...) with n tensors does not branch on a local tensor.
local function check_branches(fn, n)
  if checked[fn] then return end
  local list = {branches.MESH}
  for i = 1, n do list[i + 1] = branches.TENSOR end
  branches.search(fn, list, function(kind, line) check.fail("per_rank: %s %s", line, faults[kind]) end)
  checked[fn] = true
end

local function per_rank(fn, options)
  check.fn("per_rank", "the first argument", fn)
  options = check.options("per_rank", options, {inputs = check.none, outputs = check.none})
  local inputs, outputs = options.inputs, options.outputs
  check_list("inputs", inputs)
  check_list("outputs", outputs)
  check.that(#inputs > 0, "per_rank: inputs must name at least one layout, found none")
  return function(...)
    local args = table.pack(...)
    local mesh = mesh_of(inputs, args)
    check_branches(fn, args.n)
    for k = 1, args.n do args[k] = enter(mesh, k, args[k], inputs[k]) end
    local results = table.pack(fn(mesh, table.unpack(args, 1, args.n)))
    check.that(results.n == #outputs, "per_rank: the number of results must be %d, one per entry of outputs, found %d", #outputs, results.n)
    for k = 1, results.n do results[k] = leave(mesh, k, results[k], outputs[k]) end
    return table.unpack(results, 1, results.n)
  end
end

return check.limited("per_rank", per_rank)
