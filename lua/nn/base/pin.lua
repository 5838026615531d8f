-- pin.lua - pins a module's layouts: fixes the layouts of its input, output and parameters during each call.
--
--   pin.of[m] = {placement = P, input = sbp, output = sbp, use = {weight = sbp}, panels = n, whole = true}   all optional
--
-- A planner that chooses layouts operator by operator does not know which layers follow a block. A pin states the
-- layout that suits these layers.
--
-- The first argument is redistributed to `input`, and the result to `output`, on `placement`. The gradients are
-- redistributed back to the layouts that the values had before. So each redistribution in the forward pass has its
-- mirror image in the backward pass. All other tensor arguments (masks, cross-attention memory), also in option
-- tables, are moved to `placement` with their SBP.
--
-- During the call, each parameter in `use` (of m or of m's tables) has the SBP given there. The parameter's gradient
-- keeps this layout, and is redistributed when it is accumulated. panels: a linear layer multiplies its operands
-- panel by panel (panels.lua). whole: m is a model in pipeline stages, and values shared by blocks are moved once per
-- stage. rille.parallel sets pins; layers know nothing of them.

local rille = require "rille"
local layout = require "rille.base.layout"

local biased = require "rille.nn.base.biased"
local panels = require "rille.nn.base.panels"

local pin = {of = setmetatable({}, {__mode = "k"})}

-- Returns the number of mesh axes that an SBP has.
local function axes_of(sbp)
  if type(sbp) == "table" then return #sbp end
  return #layout.entries(sbp)
end

-- Redistributes t to a placement (default: t's own) and an SBP (default: t's own, or B if the numbers of mesh axes
-- differ).
local function in_layout(t, placement, sbp, move)
  if not layout.is_tensor(t) then return t end
  -- If sbp has more or fewer axes than t's mesh, t is on the wrong mesh: returns t unchanged. The layer's operators
  -- then report both placements.
  if not placement and axes_of(sbp) ~= #t.placement.shape then return t end
  placement = placement or t.placement
  if not sbp and placement == t.placement then return t end
  sbp = sbp or #placement.shape == #t.placement.shape and t.sbp or layout.replicated(placement)
  return move(t, {placement = placement, sbp = sbp})
end

local function mirrored(t, where) return t:_pin(where) end
local function there(t, where) return layout.equal(t, where) and t or t:to_global(where) end

-- Returns the table and the key of a parameter: "weight" -> m, "weight"; "list.0" -> m.list, 1.
function pin.field(m, name)
  local holder, key = m, nil
  for part in name:gmatch("[^.]+") do
    if key ~= nil then holder = type(holder) == "table" and rawget(holder, key) or nil end
    local place = math.tointeger(tonumber(part))
    key = place and place + 1 or part
  end
  return type(holder) == "table" and holder or m, key
end

-- Calls m:forward(...) while the parameters of m have the layouts in `use`, and then restores their layouts, also
-- after an error.
local function with_used(m, p, ...)
  local kept = {}
  local undo <close> = setmetatable({}, {__close = function()
    for _, was in ipairs(kept) do rawset(was[1], was[2], was[3]) end
  end})
  for name, sbp in pairs(p.use) do
    local holder, key = pin.field(m, name)
    local t = rawget(holder, key)
    kept[#kept + 1] = {holder, key, t}
    rawset(holder, key, in_layout(t, p.placement, sbp, there))
  end
  return m:forward(...)
end

local function forward(m, _, ...) return m:forward(...) end

local function in_panels(m, p, x)
  return biased(panels.product(x, m.weight, p.use and p.use.weight or m.weight.sbp, p.panels), m.bias)
end

-- ---- moving all arguments but the first to the placement of a stage ----

-- during a call of the whole model: tensor -> placement -> copy of the tensor on it, so that the blocks of a stage
-- share one transfer
local moved

local function whole_call()
  local before = moved
  moved = {}
  return setmetatable({}, {__close = function() moved = before end})
end

-- Returns t on the placement. Copies of variables are not cached, because a variable may be written between two blocks.
local function on_placement(t, placement)
  local known = moved and not t.is_leaf and (moved[t] or {})
  if known and known[placement] then return known[placement] end
  local there = in_layout(t, placement, nil, mirrored)
  -- A copy that was made under no_grad has no gradient function, so it cannot be used again if a gradient is needed.
  if known and not rawequal(there, t) and there.requires_grad == t.requires_grad then
    moved[t], known[placement] = known, there
  end
  return there
end

-- Moves v, a tensor or a table of tensors, to the placement, and returns the result. If all tensors of a table are on
-- the placement already, returns the table itself; otherwise returns a copy of the table. Records the copies in
-- copies[table]: {as = the copy, at_first = the contents of the copy before the call}. During the traversal of a
-- table, copies[table] is true.
local function table_on_placement(v, placement, copies)
  if layout.is_tensor(v) then return on_placement(v, placement) end
  if type(v) ~= "table" or getmetatable(v) ~= nil then return v end
  if copies[v] then return copies[v] ~= true and copies[v].as or v end
  copies[v] = true
  local as, at_first, differs = {}, {}, false
  for key, part in next, v do
    as[key] = table_on_placement(part, placement, copies)
    at_first[key], differs = as[key], differs or not rawequal(as[key], part)
  end
  copies[v] = differs and {as = as, at_first = at_first} or nil
  return differs and as or v
end

-- Writes changes of copied tables back to the caller's tables. Replaces a copied table among the results by the
-- caller's table.
local function put_back(copies, results)
  for own, c in pairs(copies) do
    for key in next, c.at_first do
      if c.as[key] == nil then own[key] = nil end
    end
    for key, part in next, c.as do
      if not rawequal(part, c.at_first[key]) then own[key] = part end
    end
    for i = 1, results.n do
      if rawequal(results[i], c.as) then results[i] = own end
    end
  end
end

-- ---- calling a module with its pinned layouts ----

-- Calls m with its pin. around(f, ...) calls f(...) and returns its results; it runs the part of the call that uses
-- parameters, with recomputation in the backward pass if m asks for that.
function pin.call(m, p, around, x, ...)
  local call <close> = panels.call()
  local whole <close> = p.whole and whole_call() or nil
  if p.placement or p.whole then rille._stage(p.placement) end
  local how = p.panels and in_panels or p.use and with_used or forward
  local given, copies = table.pack(x, ...), {}
  if p.input and layout.is_tensor(x) then given[1] = in_layout(x, p.placement, p.input, mirrored) end
  for i = 1, p.placement and given.n or 0 do
    given[i] = i > 1 and rawequal(given[i], x) and given[1] or table_on_placement(given[i], p.placement, copies)
  end
  local results = table.pack(around(how, m, p, table.unpack(given, 1, given.n)))
  put_back(copies, results)
  if p.output then results[1] = in_layout(results[1], p.placement, p.output, mirrored) end
  return table.unpack(results, 1, results.n)
end

return pin
