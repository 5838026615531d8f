-- traced.lua - finds roles of layers for tensor parallelism in a trace of the model.
--
-- The model runs forward and backward on meta devices, with one weight sharded and all other parameters replicated.
-- Every operator chooses its layout by its rule, as in training. A parameter whose gradient is S(d) is used as shards
-- along d, so its layer joins the chain of the first: as a column (d = 0) or a row (d = 1). A row ends the chain,
-- because its pin replicates its result. Layers are tried in the order in which the model calls them. A chain that
-- lies within one member of a list, such as a block, is repeated in all members of the same shapes.
--
-- A chain of two or more weights is sharded. A single weight is sharded if the bytes that it moves per step are fewer
-- than the bytes of the copies that sharding saves; it becomes a column or a row, whichever moves fewer bytes.

local rille = require "rille"
local check = require "rille.check"
local layout = require "rille.layout"
local meta = require "rille.parallel.meta"

local who <const> = "rille.parallel: input"

-- ---- layers ----

-- Returns the layers and parameters without a role: {path =, tensor =, name = the weight's name, column = role}. A
-- layer of Rille has one role for weight and bias, and a pin; other parameters have roles of their own.
local function units_of(model, roles, least)
  local units, module, seen = {}, {}, {}
  for path, m in model:named_modules() do module[m] = path end
  for _, found in ipairs(model:named_tensors()) do
    local t, owner = found.tensor, module[found.holder]
    local own = owner and check.is_own(found.holder.forward) and rawget(found.holder, "weight") ~= nil
    local path = own and owner or found.name
    local free = found.kind == "parameter" and t.requires_grad and not (roles[path] or owner and roles[owner])
    if free and #t.shape >= least and (not own or found.key == "weight") and not seen[t] then
      local column = own and getmetatable(found.holder) == rille.nn.Embedding and "embedding" or "column"
      units[#units + 1] = {path = path, name = found.name, tensor = t, column = column, place = #units}
    end
    seen[t] = true
  end
  return units
end

-- Sorts the units by the first call of their module, then by the order of definition.
local function sort_by_call(trace)
  local modules, first, n = {}, {}, 0
  for path, m in trace.model:named_modules() do modules[#modules + 1] = {path = path, module = m} end
  local list = {}
  for k, entry in ipairs(modules) do list[k] = entry.module end
  trace.run({}, function(call)
    meta.with_forward(list, function(k, own, ...)
      n = n + 1
      first[modules[k].path] = first[modules[k].path] or n
      return own(...)
    end, call)
  end)
  local function rank(u)
    local path = u.path
    while path and not first[path] do path = path ~= "" and (path:match("^(.*)%.[^.]*$") or "") or nil end
    return path and first[path] or math.huge
  end
  for _, u in ipairs(trace.units) do u.rank = rank(u) end
  table.sort(trace.units, function(a, b)
    if a.rank ~= b.rank then return a.rank < b.rank end
    return a.place < b.place
  end)
end

-- ---- trials ----

local function loss_of(y)
  check.that(layout.is_tensor(y) and layout.is_float(y), "%s: the model must return a tensor of a float dtype, found %s", who,
    check.shown(y))
  return (y.ndim > 0 and y:logsumexp(-1) or y):sum()
end

-- Runs forward and backward with these roles. Returns the SBP of each unit's gradient, and a function that returns the bytes
-- that all ranks receive.
local function try(trace, roles)
  local sbp, roots = {}, {}
  trace.run(roles, function(call)
    local weights, at = {}, {}
    local named = {}
    for _, found in ipairs(trace.model:named_tensors()) do named[found.name] = found.tensor end
    for k, u in ipairs(trace.units) do weights[k], at[k] = named[u.name], u end
    roots[1] = loss_of(call())
    local grads = table.pack(rille.grad(roots[1], weights))
    for k, u in ipairs(at) do sbp[u], roots[k + 1] = grads[k].sbp, grads[k] end
  end)
  return sbp, function() return rille.explain(roots).bytes end
end

-- Returns the roles found so far with those of a chain.
local function with(trace, chain)
  local roles = {}
  for path, role in pairs(trace.roles) do roles[path] = role end
  for _, link in ipairs(chain) do roles[link.unit.path] = link.role end
  return roles
end

-- Adds to the chain the units that the trial used as shards, up to the first row. Returns true if there were any.
local function extend(trace, chain, sbp)
  local within, n = {}, #chain
  for _, link in ipairs(chain) do within[link.unit] = true end
  for _, u in ipairs(trace.units) do
    local d = sbp[u]:match("^S%((%d)%)$")
    local role = d == "0" and u.column or d == "1" and "row"
    if role and not u.done and not within[u] then
      chain[#chain + 1] = {unit = u, role = role}
      if role == "row" then break end
    end
  end
  return #chain > n
end

-- Returns the chain that begins with this unit in this role; bytes: what it adds to the bytes of a step.
local function grow(trace, unit, role)
  local chain, bytes = {{unit = unit, role = role}}, nil
  repeat
    local sbp, count = try(trace, with(trace, chain))
    local more = extend(trace, chain, sbp)
    if not more then bytes = count() end
  until not more
  chain.bytes, chain.copies, chain.weights = bytes - trace.bytes, 0, 0
  for _, link in ipairs(chain) do
    local t = link.unit.tensor
    chain.copies = chain.copies + (trace.ranks - 1) * t:numel() * layout.shard_bytes(t, {shape = {}})
    chain.weights = chain.weights + (#t.shape > 1 and 1 or 0)
  end
  return chain
end

-- ---- members of lists ----

-- Returns the part of the paths that all links share and that ends with a place in a list: "blocks.0."; nil: none.
local function member_of(chain)
  local common = chain[1].unit.path
  for _, link in ipairs(chain) do
    while link.unit.path:sub(1, #common) ~= common do common = common:sub(1, -2) end
  end
  return common:match("^(.*%f[%d]%d+%.)")
end

-- Returns the chain in each other member of the list whose layers have the same shapes and no role yet.
local function repeated(trace, chain)
  local member, at, list = member_of(chain), {}, {}
  if not member then return list end
  local pattern = "^(" .. member:gsub("[%^%$%(%)%%%.%[%]%*%+%-%?]", "%%%0"):gsub("%f[%d]%d+%f[%%]", "%%d+") .. ")"
  for _, u in ipairs(trace.units) do at[u.path] = u end
  local rest = chain[1].unit.path:sub(#member + 1)
  for _, u in ipairs(trace.units) do
    local other = u.path:match(pattern)
    if other and other ~= member and u.path == other .. rest then
      local copy = {}
      for k, link in ipairs(chain) do
        local like = at[other .. link.unit.path:sub(#member + 1)]
        local same = like and not like.done and table.concat(like.tensor.shape, " ") == table.concat(link.unit.tensor.shape, " ")
        copy[k] = same and {unit = like, role = link.role} or nil
      end
      if #copy == #chain then list[#list + 1] = copy end
    end
  end
  return list
end

-- ---- decisions ----

local function settle(trace, chain)
  local kept = chain.weights > 1 or chain.bytes < chain.copies
  local copies = {chain, table.unpack(repeated(trace, chain))}
  for _, copy in ipairs(copies) do
    for k, link in ipairs(copy) do
      if kept or k == 1 then link.unit.done = true end
      if kept then trace.roles[link.unit.path] = link.role end
    end
  end
  if kept then trace.bytes = trace.bytes + #copies * chain.bytes end
  trace.found[#trace.found + 1] = {chain = chain, times = #copies, kept = kept}
end

local function decide(trace, unit)
  local chain = grow(trace, unit, unit.column)
  if chain.weights == 1 then
    local row = grow(trace, unit, "row")
    if row.bytes < chain.bytes then chain = row end
  end
  settle(trace, chain)
end

-- Returns a function that calls the model on the inputs, as replicated meta tensors on `place`.
local function caller(model, input, place)
  local given = layout.is_tensor(input) and {input} or input
  check.that(type(given) == "table" and #given > 0, "%s must be a tensor, or the list of the arguments of the model's forward, found %s",
    who, check.shown(input))
  local args = {}
  for k, v in ipairs(given) do
    args[k] = layout.is_tensor(v) and rille.zeros(v.shape, {dtype = v.dtype, placement = place, sbp = "B"}) or v
  end
  return function() return (model(table.unpack(args))) end
end

-- Returns the roles found: path -> role, and the list of decisions: {chain =, times =, kept =}. roles: the roles that
-- are known. ranks: over which tensor parallelism shards. entries_of(roles, place): the table of layouts. least: least
-- number of dimensions of a parameter.
local function traced(model, input, roles, ranks, entries_of, least)
  check.that((rille.zeros({}, {requires_grad = true}) * 1).requires_grad,
    "%s: the trace needs gradients; call rille.parallel outside of rille.no_grad", who)
  local place = meta.mesh({ranks}, 0)
  local call = caller(model, input, place)
  local trace = {model = model, units = units_of(model, roles, least), roles = {}, found = {}, ranks = ranks, bytes = 0}
  function trace.run(more, fn)
    return meta.replace(model, entries_of(more, place), place, function() return fn(call) end)
  end
  sort_by_call(trace)
  local _, count = try(trace, {})
  trace.bytes = count()
  for _, unit in ipairs(trace.units) do
    if not unit.done and #unit.tensor.shape > 1 then decide(trace, unit) end
  end
  return trace.roles, trace.found
end

return traced
