-- pin.lua - where the input, the output and the parameters of a module lie while it is called.
--
--   pin.of[m] = {placement = P, input = sbp, output = sbp, use = {weight = sbp}, panels = n, whole = true}   each may be missing
--
-- A rule that chooses layouts one operator at a time does not know what comes after a block. A pin says it:
-- the first argument comes as `input`, the result leaves as `output`, on `placement`; their gradients go back
-- to where the values came from, so that a move in the forward pass has its mirror image in the backward pass.
-- All other tensors that are given, masks and memory, in option tables too, come to `placement` as they lie.
-- While the module runs, a parameter that is in `use` lies as that says, and its gradient is what the call
-- makes it: it moves when it is deposited. A linear layer with
-- panels takes its operands bit by bit (panels.lua). whole: m is a model in stages, what its blocks share is moved
-- once a stage. Which pins there are decides rille.parallel; a layer knows of none.

local rille = require "rille"
local layout = require "rille.layout"

local biased = require "rille.nn.biased"
local panels = require "rille.nn.panels"

local pin = {of = setmetatable({}, {__mode = "k"})}

-- Of how many mesh axes a layout speaks.
local function axes_of(sbp)
  if type(sbp) == "table" then return #sbp end
  return select(2, sbp:gsub("order.*", ""):gsub(",", "")) + 1
end

-- t on the placement (its own when nil) as sbp (whole ranks when nil and t must go elsewhere).
local function laid(t, placement, sbp, move)
  if not layout.is_tensor(t) then return t end
  -- On a mesh that the layout is not of, t is where the layer is not: its operators tell of both places.
  if not placement and axes_of(sbp) ~= #t.placement.shape then return t end
  placement = placement or t.placement
  if not sbp and placement == t.placement then return t end
  sbp = sbp or #placement.shape == #t.placement.shape and t.sbp or layout.whole(placement)
  return move(t, {placement = placement, sbp = sbp})
end

local function there_and_back(t, where) return t:_pin(where) end
local function there(t, where) return layout.equal(t, where) and t or t:to_global(where) end

-- m:forward(...) while the fields of m hold what `use` says, however it ends.
local function with_used(m, p, ...)
  local kept = {}
  local undo <close> = setmetatable({}, {__close = function()
    for name, t in pairs(kept) do rawset(m, name, t) end
  end})
  for name, sbp in pairs(p.use) do
    kept[name] = rawget(m, name)
    rawset(m, name, laid(kept[name], p.placement, sbp, there))
  end
  return m:forward(...)
end

local function forward(m, _, ...) return m:forward(...) end

local function in_panels(m, p, x)
  return biased(panels.product(x, m.weight, p.use and p.use.weight or m.weight.sbp, p.panels), m.bias)
end

-- ---- what a stage is given besides the stream ----

-- In a call of the whole model: tensor -> placement -> the tensor there, so that all blocks of a stage take one move.
local moved

local function whole_call()
  local before = moved
  moved = {}
  return setmetatable({}, {__close = function() moved = before end})
end

-- t on the placement. A variable may be written between two blocks, so what was moved of it is not kept.
local function brought(t, placement)
  local known = moved and not t.is_leaf and (moved[t] or {})
  if known and known[placement] then return known[placement] end
  local there = laid(t, placement, nil, there_and_back)
  if known and not rawequal(there, t) and there.requires_grad == t.requires_grad then -- not under no_grad alone
    moved[t], known[placement] = known, there
  end
  return there
end

-- v, a tensor or a table of such, on the placement; a table in which nothing lies elsewhere is itself. copies[table] is
-- what stands for it, {as = its copy, at_first = the same before the call}, or true while it is looked at.
local function carried(v, placement, copies)
  if layout.is_tensor(v) then return brought(v, placement) end
  if type(v) ~= "table" or getmetatable(v) ~= nil then return v end
  if copies[v] then return copies[v] ~= true and copies[v].as or v end
  copies[v] = true
  local as, at_first, differs = {}, {}, false
  for key, part in next, v do
    as[key] = carried(part, placement, copies)
    at_first[key], differs = as[key], differs or not rawequal(as[key], part)
  end
  copies[v] = differs and {as = as, at_first = at_first} or nil
  return differs and as or v
end

-- What was written to copies is written to the tables that were given; a copy that comes out is its table.
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

-- ---- the call ----

-- Calls m with what its pin says. around(f, ...) gives what f(...) gives: it is for the part in which parameters are used.
function pin.call(m, p, around, x, ...)
  local call <close> = panels.call()
  local whole <close> = p.whole and whole_call() or nil
  local how = p.panels and in_panels or p.use and with_used or forward
  local given, copies = table.pack(x, ...), {}
  if p.input and layout.is_tensor(x) then given[1] = laid(x, p.placement, p.input, there_and_back) end
  for i = 1, p.placement and given.n or 0 do
    given[i] = i > 1 and rawequal(given[i], x) and given[1] or carried(given[i], p.placement, copies)
  end
  local results = table.pack(around(how, m, p, table.unpack(given, 1, given.n)))
  put_back(copies, results)
  if p.output then results[1] = laid(results[1], p.placement, p.output, there_and_back) end
  return table.unpack(results, 1, results.n)
end

return pin
