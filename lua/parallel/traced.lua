-- traced.lua - finds roles of layers for tensor parallelism in a trace of the model.
--
-- The model runs forward and backward on meta devices, with one weight sharded and all other parameters replicated.
-- Every operator chooses its layout by its rule, as in training. So sharding one weight may shard the weights of the
-- following layers, too. A chain is such a sequence of layers, like the column and row layers of Megatron. If the
-- gradient of a parameter is S(d), the parameter is used as shards along d. Its layer then joins the chain of the
-- sharded weight: as a column (d = 0) or a row (d = 1). A module whose result is a pending reduction ends the chain,
-- because a pin replicates the module's result. Layers are tried in the order in which the model calls them. A chain
-- within one member of a list, such as a block, is repeated in all members of the same shapes.
--
-- If the ranks do not divide a number of heads, operators split features by units. A gradient S(0, unit 64) then says that
-- the layer's features are groups of 64, and the layer is sharded by complete groups.
--
-- A chain of two or more weights is sharded. A single weight is sharded if sharding saves more bytes of copies than
-- it moves per step. The weight becomes a column or a row, whichever moves fewer bytes.

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"
local meta = require "rille.parallel.meta"
local paint = require "rille.show.paint"

local who <const> = "parallel: input"

-- ---- listing the layers without a role ----

-- Returns the path of the module that contains this parameter.
local function holder_of(name, is_module)
  repeat name = name:match("^(.*)%.[^.]*$") or "" until is_module[name]
  return name
end

-- Returns the layers and parameters without a role: {path =, tensor =, name = the weight's name, column = role,
-- holder = path of the module}. A layer of Rille has one role for weight and bias, and a pin; each other parameter is
-- a separate unit.
local function units_of(model, roles, least)
  local units, module, path_of, seen = {}, {}, {}, {}
  for path, m in model:named_modules() do module[m], path_of[path] = path, m end
  for _, found in ipairs(model:named_tensors()) do
    local t, owner = found.tensor, module[found.holder]
    local own = owner and check.is_own(found.holder.forward) and rawget(found.holder, "weight") ~= nil
    local path = own and owner or found.name
    local role = roles[path] or owner and roles[owner]
    local free = found.kind == "parameter" and t.requires_grad and (not role or role == "block")
    if free and #t.shape >= least and (not own or found.key == "weight") and not seen[t] then
      local column = own and getmetatable(found.holder) == rille.nn.Embedding and "embedding" or "column"
      units[#units + 1] = {path = path, name = found.name, tensor = t, column = column, place = #units, holder = holder_of(found.name, path_of)}
    end
    seen[t] = true
  end
  return units
end

-- Calls the model once. Sorts the units (layers and parameters without a role) by the first call of their module,
-- then by the order of definition. Sets the field source of each layer of Rille: path of the module whose result is
-- the layer's input; nil: none.
local function sort_by_call(trace)
  local modules, paths, first, source, maker, n = {}, {}, {}, {}, {}, 0
  for path, m in trace.model:named_modules() do modules[#modules + 1], paths[#paths + 1] = m, path end
  trace.run({}, function(call)
    meta.with_forward(modules, function(k, own, self, x, ...)
      n = n + 1
      local path = paths[k]
      if not first[path] then first[path], source[path] = n, x and maker[x] end
      local results = table.pack(own(self, x, ...))
      if results[1] ~= nil then maker[results[1]] = maker[results[1]] or path end
      return table.unpack(results, 1, results.n)
    end, call)
  end)
  for _, u in ipairs(trace.units) do u.rank, u.source = first[u.holder] or math.huge, u.path == u.holder and source[u.path] end
  table.sort(trace.units, function(a, b)
    if a.rank ~= b.rank then return a.rank < b.rank end
    return a.place < b.place
  end)
end

-- ---- trying a role for a layer ----

local is_norm = {[rille.nn.LayerNorm] = true, [rille.nn.RMSNorm] = true}

-- Returns a copy of a value in which fn(tensor) replaces each tensor, also in nested tables. Visits the fields of a table
-- in the order of their names. seen: the copies of the tables that contain the value.
local function map_tensors(value, fn, seen)
  seen = seen or {}
  if layout.is_tensor(value) then return fn(value) end
  if type(value) ~= "table" or getmetatable(value) then return value end
  if seen[value] then return seen[value] end
  local copy, keys = {}, {}
  seen[value] = copy
  for key in pairs(value) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for _, key in ipairs(keys) do copy[key] = map_tensors(value[key], fn, seen) end
  return copy
end

-- Returns a loss that depends on all tensors of a float dtype in y, the model's result.
local function loss_of(y)
  local floats, loss = 0, nil
  map_tensors(y, function(t)
    if not layout.is_float(t) then return t end
    floats = floats + 1
    if not t.requires_grad then return t end
    local sum = (t.ndim > 0 and t:logsumexp(-1) or t):sum()
    loss = loss and loss + sum or sum
    return t
  end)
  check.that(floats > 0, "%s: the model must return a tensor of a float dtype, or a table with such tensors, found %s", who,
    check.shown(y))
  check.that(loss, "%s: the model must return a tensor that depends on a parameter with requires_grad", who)
  return loss
end

-- Calls the model. If a module that contains units (layers and parameters without a role) returns a pending
-- reduction, this call replicates the result instead, and adds the module's path to the set `sums`.
local function call_reduced(trace, call, sums)
  local modules, paths, known = {}, {}, {}
  for path, m in trace.model:named_modules() do known[path] = m end
  for _, u in ipairs(trace.units) do
    if u.holder ~= "" and known[u.holder] then
      modules[#modules + 1], paths[#paths + 1], known[u.holder] = known[u.holder], u.holder, nil
    end
  end
  return meta.with_forward(modules, function(k, own, ...)
    local results = table.pack(own(...))
    results[1] = map_tensors(results[1], function(y)
      if y.sbp:sub(1, 1) ~= "P" then return y end
      sums[paths[k]] = true
      return y:_pin{placement = y.placement, sbp = "B"}
    end)
    return table.unpack(results, 1, results.n)
  end, call)
end

-- Runs forward and backward with these roles. Returns the SBP of the gradient of each unit (a layer or parameter),
-- the set of modules that return pending reductions, and a function that returns how many bytes all ranks receive.
local function try(trace, roles)
  local sbp, sums, roots = {}, {}, {}
  trace.run(roles, function(call)
    local weights, of = {}, {}
    for name, p in trace.model:named_parameters() do
      if p.requires_grad then weights[#weights + 1], of[name] = p, #weights + 1 end
    end
    roots[1] = loss_of(call_reduced(trace, call, sums))
    local grads = table.pack(rille.grad(roots[1], weights))
    for _, u in ipairs(trace.units) do sbp[u] = grads[of[u.name]].sbp end
    for k, g in ipairs(grads) do roots[k + 1] = g:to_global{placement = g.placement, sbp = weights[k].sbp} end
  end)
  return sbp, sums, function() return rille.explain(roots).bytes end
end

-- Adds the roles of a chain of layers. Also adds a role for the module that computes the input of a column layer. The
-- pin of this module reduces the gradient of that input once for all column layers that read it.
local function add_roles(trace, chain, roles)
  for _, link in ipairs(chain) do
    local source = link.role == "column" and link.unit.source
    roles[link.unit.path] = link.role
    if source and source ~= "" and not roles[source] and not trace.is_known(source) then
      roles[source] = is_norm[getmetatable(trace.module[source])] and "norm" or "block"
    end
  end
end

-- Returns the roles found so far, together with those of a chain.
local function with(trace, chain)
  local roles = {}
  for path, role in pairs(trace.roles) do roles[path] = role end
  add_roles(trace, chain, roles)
  return roles
end

-- Records the number of groups by which the features of a layer or parameter are split, if the SBP of its gradient has a
-- unit. Returns true if the number was unknown.
local function learn(trace, u, sbp)
  local dimension, unit = layout.split_of(sbp)
  if not dimension or unit == 1 or trace.groups[u.path] then return false end
  trace.groups[u.path] = u.tensor.shape[dimension + 1] // unit
  return true
end

-- Adds to the chain the layers and parameters whose gradients are sharded in `sbp`, the result of a trial, up to and
-- including the first row layer. Returns true if the trial has changed the chain.
local function extend(trace, chain, sbp)
  local within, changed = {}, false
  for _, link in ipairs(chain) do
    within[link.unit] = true
    changed = learn(trace, link.unit, sbp[link.unit]) or changed
  end
  for _, u in ipairs(trace.units) do
    local d = layout.split_of(sbp[u])
    local role = d == 0 and u.column or d == 1 and "row"
    if role and not u.done and not within[u] then
      chain[#chain + 1], changed = {unit = u, role = role}, true
      learn(trace, u, sbp[u])
      if role == "row" then break end
    end
  end
  return changed
end

-- Returns the chain (sequence of layers that are sharded together) that begins with this unit, a layer or parameter,
-- in this role. chain.bytes: number of bytes that the chain adds to a step.
local function grow(trace, unit, role)
  local chain, bytes = {{unit = unit, role = role}}, nil
  trace.groups[unit.path] = nil
  repeat
    local sbp, sums, count = try(trace, with(trace, chain))
    local more = extend(trace, chain, sbp)
    if not more then bytes, chain.sums = count(), sums end
  until not more
  chain.bytes, chain.copies, chain.weights = bytes - trace.bytes, 0, 0
  for _, link in ipairs(chain) do
    local t = link.unit.tensor
    chain.copies = chain.copies + (trace.ranks - 1) * t:numel() * layout.shard_bytes(t, {shape = {}})
    chain.weights = chain.weights + (#t.shape > 1 and 1 or 0)
  end
  return chain
end

-- ---- repeating a chain of layers in all members of a list ----

-- Returns the longest prefix that ends with a list position, such as "blocks.0.", and that the paths of all links
-- have in common; nil: none.
local function member_of(chain)
  local common = chain[1].unit.path
  for _, link in ipairs(chain) do
    while link.unit.path:sub(1, #common) ~= common do common = common:sub(1, -2) end
  end
  return common:match("^(.*%f[%d]%d+%.)")
end

-- If a chain of layers is within one member of a list, such as a block, returns the same chain of each other member
-- whose layers have the same shapes and no role yet.
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

-- ---- deciding which chains of layers to shard ----

-- Returns a decision as a line of text.
local function line_of(chain, times, kept, bytes)
  local links, each = {}, times > 1 and (", %d times"):format(times) or ""
  for k, link in ipairs(chain) do links[k] = ("%s %s"):format(link.unit.path, link.role) end
  if kept then
    return ("found in the trace: %s%s; moves %s%s per step"):format(table.concat(links, ", "), each, paint.bytes(math.abs(bytes)),
      bytes < 0 and " less" or "")
  end
  return ("replicated by the trace: %s%s, because sharding would move %s per step and save copies of %s"):format(chain[1].unit.path,
    each, paint.bytes(bytes), paint.bytes(chain.copies))
end

-- Returns the bytes that a step moves with the roles found so far.
local function measure(trace)
  local _, _, count = try(trace, trace.roles)
  return count()
end

-- Shards a chain of layers, and the same chain in all other members of its list, or leaves the chain's first layer
-- replicated. A chain is sharded if it has two or more weights, or if it moves fewer bytes per step than the copies
-- of weights that it saves.
local function settle(trace, chain)
  local kept = chain.weights > 1 or chain.bytes < chain.copies
  local copies = {chain, table.unpack(repeated(trace, chain))}
  for _, copy in ipairs(copies) do
    if kept then add_roles(trace, copy, trace.roles) end
    for k, link in ipairs(copy) do
      trace.groups[link.unit.path] = kept and trace.groups[chain[k].unit.path] or nil
      link.unit.done, link.unit.tried = kept, kept or k == 1 or link.unit.tried
      -- a module of the user's class has no pin otherwise
      if kept and chain.sums[chain[k].unit.holder] and link.unit.path == link.unit.name then
        trace.roles[link.unit.holder] = "block"
      end
    end
  end
  local before = trace.bytes
  if kept then trace.bytes = before + (#copies > 1 and measure(trace) - before or chain.bytes) end
  trace.found[#trace.found + 1] = line_of(chain, #copies, kept, kept and trace.bytes - before or chain.bytes)
end

-- Decides whether to shard the chain of layers that begins with this unit, a layer or parameter.
local function decide(trace, unit)
  local chain = grow(trace, unit, unit.column)
  if chain.weights == 1 then
    local row = grow(trace, unit, "row")
    if row.bytes < chain.bytes then chain = row end
  end
  settle(trace, chain)
end

-- Returns a function that calls the model on the inputs. Replicated meta tensors on `place` replace the tensors of the
-- inputs.
local function caller(model, input, place)
  local given = layout.is_tensor(input) and {input} or input
  check.that(type(given) == "table" and #given > 0, "%s must be a tensor, or the list of the arguments of the model's forward, found %s",
    who, check.shown(input))
  local args = map_tensors(given, function(t) return rille.zeros(t.shape, {dtype = t.dtype, placement = place, sbp = "B"}) end)
  return function()
    local good, y = check.try(model, table.unpack(args))
    check.that(good, "%s: the model failed on meta devices, where tensors have no values: %s; pass another input, or name the " ..
      "layers: layers = {[\"*.fc1\"] = \"column\", [\"*.fc2\"] = \"row\"}", who, tostring(y))
    return y
  end
end

-- Returns the roles found (path -> role), and the decisions as lines of text. roles: the roles that are known
-- already; ranks: number of ranks of the tensor axes; entries_of(roles, place, groups): returns the table of layouts;
-- least: least number of dimensions that a parameter must have; groups: path -> number of groups of features that stay
-- complete, to which traced() adds those that it finds.
local function traced(model, input, roles, ranks, entries_of, least, groups)
  check.that((rille.zeros({}, {requires_grad = true}) * 1).requires_grad,
    "%s: the trace needs gradients; call rille.parallel outside of rille.no_grad", who)
  local place = meta.mesh({ranks}, 0)
  local call = caller(model, input, place)
  local trace = {model = model, units = units_of(model, roles, least), roles = {}, groups = groups, found = {}, ranks = ranks, bytes = 0, module = {}}
  for path, m in model:named_modules() do trace.module[path] = m end
  function trace.is_known(path) return roles[path] ~= nil end
  function trace.run(more, fn)
    return meta.replace(model, entries_of(more, place, groups), place, function() return fn(call) end)
  end
  sort_by_call(trace)
  trace.bytes = measure(trace)
  for _, unit in ipairs(trace.units) do
    if not unit.tried and #unit.tensor.shape > 1 then decide(trace, unit) end
  end
  return trace.roles, trace.found
end

return traced
