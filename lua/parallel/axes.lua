-- axes.lua - the sharding rules of tensor parallelism. For each role of a mesh axis in a recipe, the rules say which
-- tensors the axis shards, and along which dimension.
--
-- The columns of the table `cuts` are activations (batch, ..., width) and parameters ({out, in, ...}). For a parameter,
-- the SBP after a slash is its SBP while a layer uses it. Entries missing from the table are B.
--
--   stream    between blocks (residual stream)                         norm     input of a norm
--   inner     input of column layers (a norm's result)                 wide     output of column layers: heads, hidden
--   row_in    input of row layers                                      logits, ids, labels
--   column    weights of q, k, v, fc1, gate, up, the head, and embeddings      column_bias
--   row       weights of out and fc2                                row_bias       norm_weight   positions
--
-- Roles:
-- data        shards the batch; weights are replicated.
-- tensor      Megatron's 1D (Shoeybi et al. 2019). sequence: also shards the stream by length (Korthikanti et al. 2022).
-- rows, columns   2D (Xu & You 2021): output-stationary in column layers, input-stationary in row layers. A weight is
--             gathered over `rows`; a layer's input is gathered, or its output reduced, over `columns`.
-- i, j, k     3D (Bian et al. 2021): column layers gather their input over j and their weight over i, and reduce over k. Row
--             layers exchange j and k. Norms reduce their rows' statistics over k. A weight's input axis is sharded by k
--             (or j) first and then by i, which requires an SBP order. Experts are sharded over j and k; the rows of
--             tokens are sharded over i.
--
-- No attention head is cut. If the ranks do not divide the number of heads, mesh axes that shard `wide` by S(-1) split
-- `wide` by units, S(-1, unit 64) for heads of 64. The weights before and after `wide` are split by the same units.
--
-- 2.5D is 2D with one more data axis. `order` is the order in which two or more mesh axes shard one dimension of an
-- activation. Parameters use the reverse order, so that the result of a gather over one axis is contiguous.

local check = require "rille.base.check"

local axes = {}

axes.order = {"data", "tensor", "sequence", "rows", "columns", "i", "j", "k"}
local built_in = #axes.order

local cuts = {
  data = {stream = "S(0)", norm = "S(0)", inner = "S(0)", routed = "S(0)", wide = "S(0)", row_in = "S(0)", logits = "S(0)", ids = "S(0)",
    labels = "S(0)"},
  tensor = {wide = "S(-1)", row_in = "S(-1)", logits = "S(-1)", column = "S(0)", column_bias = "S(0)", row = "S(1)",
    experts = "S(0)"},
  sequence = {stream = "S(1)", norm = "S(1)", wide = "S(-1)", row_in = "S(-1)", logits = "S(-1)", column = "S(0)",
    column_bias = "S(0)", row = "S(1)", experts = "S(0)"},
  rows = {stream = "S(0)", norm = "S(0)", inner = "S(0)", wide = "S(0)", row_in = "S(0)", logits = "S(0)", ids = "S(0)",
    labels = "S(0)", column = "S(1)/B", row = "S(0)/B"},
  columns = {stream = "S(-1)", wide = "S(-1)", row_in = "S(-1)", logits = "S(-1)", column = "S(0)", column_bias = "S(0)",
    row = "S(1)", positions = "S(1)", experts = "S(0)"},
  i = {stream = "S(0)", norm = "S(0)", inner = "S(0)", routed = "S(0)", wide = "S(0)", row_in = "S(0)", logits = "S(0)", ids = "S(0)",
    labels = "S(0)", column = "S(1)/B", row = "S(1)/B"},
  j = {stream = "S(0)", norm = "S(0)", wide = "S(-1)", row_in = "S(-1)", logits = "S(-1)", column = "S(0)", column_bias = "S(0)",
    row = "S(1)", experts = "S(0)"},
  k = {stream = "S(-1)", norm = "S(-1)", inner = "S(-1)", wide = "S(0)", logits = "S(0)", labels = "S(0)",
    column = "S(1)", row = "S(0)",
    row_bias = "S(0)", norm_weight = "S(0)", positions = "S(1)", experts = "S(0)"},
}

local is_parameter = {column = true, column_bias = true, row = true, row_bias = true, norm_weight = true, positions = true,
  experts = true, whole = true}

-- Returns the mesh axes (from 0) in the order in which they shard a dimension; nil: in mesh order.
local function cutting_order(parts, reverse)
  local rank, list, plain = {}, {}, true
  for i, name in ipairs(axes.order) do rank[name] = i end
  for a = 0, #parts - 1 do list[a + 1] = a end
  table.sort(list, function(a, b)
    local x, y = rank[parts[a + 1]] or 0, rank[parts[b + 1]] or 0
    if x ~= y then return reverse == (x > y) end
    return a < b
  end)
  for i, a in ipairs(list) do plain = plain and a == i - 1 end
  return not plain and list or nil
end

-- Returns an SBP as text. If two axes shard one dimension in an order other than mesh order, the order is appended.
local function text_of(entries, order)
  if #entries == 1 then return entries[1] end
  local text, last, matters = "(" .. table.concat(entries, ", ") .. ")", {}, false
  for _, a in ipairs(order or {}) do
    local e = entries[a + 1]:match("^S%(%-?%d+")
    if e then
      matters = matters or last[e] and a < last[e]
      last[e] = a
    end
  end
  return matters and ("%s order (%s)"):format(text, table.concat(order, ", ")) or text
end

-- Names of all columns of the table `cuts`.
local columns = {}
for _, cut in pairs(cuts) do
  for what in pairs(cut) do columns[what] = true end
end

-- rille.parallel.axis(name[, cut]): returns a copy of the rules of the role `name`. If `cut` is given, first defines
-- the role with these rules. The name becomes a key of recipes: {[name] = mesh axis}.
function axes.role(name, cut)
  local who = "parallel.axis"
  check.that(type(name) == "string", "%s: the name must be a string, found %s", who, check.shown(name))
  if cut ~= nil then
    check.that(not cuts[name], "%s: '%s' is already defined; choose another name", who, name)
    check.that(name:find("^[%a_][%w_]*$"), "%s: the name must be a word, found '%s'", who, name)
    check.that(type(cut) == "table", "%s: the rules must be a table, {column = \"S(0)\"}, found %s", who, check.shown(cut))
    for what, sbp in pairs(cut) do
      check.that(columns[what], "%s: unknown column '%s'; expected one of: %s", who, tostring(what),
        table.concat(check.sorted_keys(columns), ", "))
      local good = type(sbp) == "string" and (sbp:find("^S%(%-?%d+%)$") or is_parameter[what] and sbp:find("^S%(%d+%)/B$"))
      check.that(good,
        "%s: '%s' must be S(axis)%s, found %s", who, what, is_parameter[what] and " or S(axis)/B" or "", check.shown(sbp))
    end
    cuts[name] = {}
    for what, sbp in pairs(cut) do cuts[name][what] = sbp end
    axes.order[#axes.order + 1] = name
  end
  check.that(cuts[name], "%s: unknown role '%s'; expected one of: %s", who, name, table.concat(axes.order, ", "))
  local copy = {}
  for what, sbp in pairs(cuts[name]) do copy[what] = sbp end
  return copy
end

-- Returns true if the rules of a role shard parameters.
function axes.shards_parameters(part)
  for what in pairs(cuts[part] or {}) do
    if is_parameter[what] then return true end
  end
  return false
end

-- Returns the names of roles that users defined.
function axes.own() return {table.unpack(axes.order, built_in + 1)} end

-- Tensor whose dimension can be the features of heads -> the entry that shards this dimension.
local features = {column = "S(0)", column_bias = "S(0)", row = "S(1)", wide = "S(-1)", row_in = "S(-1)"}

-- Returns the dimension of a tensor (from 0; -1: last) that can be the features of heads; nil: none. what: a column of
-- the table `cuts`.
function axes.features(what) return features[what] and tonumber(features[what]:match("%-?%d+")) end

-- Returns the SBP of a tensor, as text. what: kind of the tensor, a column of the table `cuts`. parts: the role of
-- each mesh axis, or "none". used: true returns the SBP that a parameter has while a layer uses it. zero: the
-- dimension of a parameter that ZeRO shards over the axes parts.zero, after all other axes; nil: none. unit: number of
-- adjacent features, such as those of a head, that stay on one rank; nil: 1.
function axes.layout(parts, what, used, zero, unit)
  local entries = {}
  for a, part in ipairs(parts) do
    local cut = cuts[part] and cuts[part][what] or "B"
    if is_parameter[what] then cut = used and cut:match("/(.*)$") or cut:match("^[^/]*") end
    local of_heads = unit and cut == features[what] and cuts[part].wide == "S(-1)"
    if of_heads then cut = cut:gsub("%)", (", unit %d)"):format(unit)) end
    entries[a] = zero and parts.zero[a] and is_parameter[what] and ("S(%d)"):format(zero) or cut
  end
  return text_of(entries, cutting_order(parts, is_parameter[what] or false))
end

-- Returns the number of ranks over which `dimension` of the tensor, such as its heads, is sharded.
function axes.ways(parts, shape, what, dimension)
  local n = 1
  for a, part in ipairs(parts) do
    if cuts[part] and cuts[part][what] == dimension then n = n * shape[a] end
  end
  return n
end

-- ---- assigning roles to mesh axes ----

local function list_of(v) return type(v) == "table" and v or {v} end

local methods = {
  ["1d"] = {"tensor"}, ["2d"] = {"rows", "columns"}, ["2.5d"] = {"rows", "columns", "data"}, ["3d"] = {"i", "j", "k"},
}

local function tensor_parts(recipe)
  local list = list_of(recipe.tensor)
  check.that(#list >= 1 and #list <= 3, "parallel: tensor must name 1, 2 or 3 mesh axes, found %d", #list)
  local method = recipe.method or ({"1d", "2d"})[#list]
  check.that(method, "parallel: with 3 tensor axes, method must be \"2.5d\" or \"3d\", found nil")
  local parts = methods[method]
  check.that(parts, "parallel: unknown method '%s'; expected one of: %s", tostring(method),
    table.concat(check.sorted_keys(methods), ", "))
  check.that(#parts == #list, "parallel: method %s needs %d mesh axes, but tensor names %d", method, #parts, #list)
  check.that(not recipe.sequence or method == "1d", "parallel: sequence needs method 1d, found %s", method)
  return list, recipe.sequence and {"sequence"} or parts, method
end

-- Checks that the first two mesh axes of the 2.5D method have equal sizes. The message lists suitable meshes with the
-- same number of ranks.
local function check_square(a, b, depth)
  if a == b then return end
  local n, fit = a * b * depth, {}
  for q = 1, n do
    if n % (q * q) == 0 then fit[#fit + 1] = ("%d x %d x %d"):format(q, q, n // (q * q)) end
  end
  check.fail("parallel: method 2.5d needs mesh axes q x q x depth; the first two are %d and %d; of %d ranks %s would do",
    a, b, n, table.concat(fit, ", "))
end

-- Sets parts.zero: the mesh axes (from 1) over which ZeRO shards.
local function set_zero_axes(recipe, parts)
  local list = recipe.zero_axes == nil and recipe.data or recipe.zero_axes
  for _, axis in ipairs(list ~= nil and list_of(list) or {}) do
    check.that(math.type(axis) == "integer" and parts[axis + 1] == "data",
      "parallel: zero_axes must be data axes, found %s", check.shown(axis))
    parts.zero[axis + 1] = true
  end
  check.that(next(parts.zero) or recipe.zero_axes == nil, "parallel: zero_axes must have at least one data axis, found none")
end

-- Returns the role of each axis of a mesh of this shape.
function axes.parts(recipe, shape)
  local parts = {zero = {}}
  for a = 1, #shape do parts[a] = "none" end
  local function take(axis, part)
    check.that(math.type(axis) == "integer", "parallel: a mesh axis must be an integer, found %s", check.shown(axis))
    check.that(axis >= 0 and axis < #shape,
      "parallel: a mesh axis must be from 0 to %d, found %d", #shape - 1, axis)
    check.that(parts[axis + 1] == "none", "parallel: mesh axis %d cannot have two roles, %s and %s", axis, parts[axis + 1],
      part)
    parts[axis + 1] = part
  end
  if recipe.data ~= nil then
    local list = list_of(recipe.data)
    for i = 1, #list do take(list[i], "data") end
  end
  for _, name in ipairs(axes.own()) do
    if recipe[name] ~= nil then take(recipe[name], name) end
  end
  set_zero_axes(recipe, parts)
  if recipe.tensor == nil then
    check.that(recipe.method == nil, "parallel: method needs tensor axes: {tensor = {0, 1}, method =}")
    check.that(not recipe.sequence, "parallel: sequence needs a tensor axis: {tensor = 0, sequence = true}")
    return parts
  end
  local list, roles, method = tensor_parts(recipe)
  for i = 1, #list do take(list[i], roles[i]) end
  if method == "2.5d" then check_square(shape[list[1] + 1], shape[list[2] + 1], shape[list[3] + 1]) end
  return parts
end

return axes
