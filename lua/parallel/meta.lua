-- meta.lua - a model on meta devices, where tensors have layouts but no values. priced.lua calls the model there to
-- estimate the costs of blocks, traced.lua to trace it.

local rille = require "rille"
local layout = require "rille.base.layout"
local pin = require "rille.nn.base.pin"

local meta = {}

-- Creates a mesh of this shape on the meta ranks from `first` on.
function meta.mesh(shape, first)
  local function part(axis)
    local list = {}
    for k = 1, shape[axis] do
      if axis == #shape then list[k], first = first, first + 1 else list[k] = part(axis + 1) end
    end
    return list
  end
  return rille.placement("meta", part(1))
end

-- Calls fn. During the call, meta tensors on `place` replace the model's parameters and buffers, and the model's
-- modules are pinned to `place`. Afterwards, also after an error, restores the model and the random state.
function meta.replace(model, entries, place, fn)
  local undo, twin, seed, count = {}, {}, rille._random()
  local done <close> = setmetatable({}, {__close = function()
    for k = #undo, 1, -1 do undo[k]() end
    rille._random(seed, count)
    rille._generation()
  end})
  for _, found in ipairs(model:named_tensors()) do
    local t, holder, key = found.tensor, found.holder, found.key
    local entry = entries[found.name]
    twin[t] = twin[t] or rille.zeros(t.shape, {dtype = t.dtype, placement = place, sbp = entry and entry.sbp or layout.replicated(place),
      requires_grad = t.requires_grad})
    undo[#undo + 1] = function() rawset(holder, key, t) end
    rawset(holder, key, twin[t])
  end
  for path, m in model:named_modules() do
    local had, entry = pin.of[m], entries[path]
    undo[#undo + 1] = function() pin.of[m] = had end
    pin.of[m] = entry and {placement = entry.placement and place, input = entry.input, output = entry.output, use = entry.use, panels = entry.panels}
  end
  rille._generation()
  return fn()
end

-- Calls fn. During the call, forward(k, own, m, ...) replaces the forward of module k in the list; own: the replaced
-- forward.
function meta.with_forward(modules, forward, fn)
  local had = {}
  local done <close> = setmetatable({}, {__close = function()
    for _, m in ipairs(modules) do rawset(m, "forward", had[m]) end
  end})
  for k, m in ipairs(modules) do
    had[m] = rawget(m, "forward")
    local own = m.forward
    rawset(m, "forward", function(self, ...) return forward(k, own, self, ...) end)
  end
  return fn()
end

-- Creates a tensor with t's shape, dtype and layout. The tensor requires a gradient if the dtype is a float.
function meta.like(t)
  return rille.zeros(t.shape, {dtype = t.dtype, placement = t.placement, sbp = t.sbp, requires_grad = layout.is_float(t)})
end

return meta
