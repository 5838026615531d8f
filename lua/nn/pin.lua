-- pin.lua - where the input, the output and the parameters of a module lie while it is called.
--
--   pin.of[m] = {placement = P, input = sbp, output = sbp, use = {weight = sbp}, panels = n}     each may be missing
--
-- A rule that chooses layouts one operator at a time does not know what comes after a block. A pin says it:
-- the first argument comes as `input`, the result leaves as `output`, on `placement`; their gradients go back
-- to where the values came from, so that a move in the forward pass has its mirror image in the backward pass.
-- While the module runs, a parameter that is in `use` lies as that says, and its gradient is what the call
-- makes it: it moves when it is deposited. A linear layer with
-- panels takes its operands bit by bit (panels.lua). Which pins there are decides rille.parallel; a layer knows of none.

local rille = require "rille"
local layout = require "rille.layout"

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
  local y = panels.product(x, m.weight, p.use and p.use.weight or m.weight.sbp, p.panels)
  return m.bias and y + m.bias:to(y.dtype) or y
end

-- Calls m with what its pin says. around(f, ...) gives what f(...) gives: it is for the part in which parameters are used.
function pin.call(m, p, around, x, ...)
  local call <close> = panels.call()
  if p.input or p.placement then x = laid(x, p.placement, p.input, there_and_back) end
  local how = p.panels and in_panels or p.use and with_used or forward
  local results = table.pack(around(how, m, p, x, ...))
  if p.output then results[1] = laid(results[1], p.placement, p.output, there_and_back) end
  return table.unpack(results, 1, results.n)
end

return pin
