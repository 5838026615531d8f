-- clip.lua - scales gradients to limit their joint norm. Pascanu, Mikolov & Bengio 2013.
--
-- Gradients may have any placements and layouts. First each gradient is converted to the layout of its optimiser's
-- state, which completes a pending reduction once. Each placement sums the squares of its gradients (or other powers,
-- or computes the maximum). The sums are added on the first placement, and the scaling factor is sent to all
-- placements. If only an optimiser reads the scaled gradients, they are never stored, because the update reads
-- gradient and factor. Otherwise the scaled gradients overwrite the gradients, provided that no other handle refers
-- to a gradient. So this file closes handles right after use, without waiting for Lua's garbage collector.

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"

-- Returns the gradient of p in the layout of its optimiser's state; nil: none.
local function gradient_of(p)
  local g, state = p.grad, layout.of_state(p)
  if not g or layout.equal(g, state) then return g end
  local elsewhere <close> = g
  return elsewhere:to_global(state)
end

-- Groups the parameters with gradients by placement: {{placement =, params =, grads =}, ...}, in order of appearance.
local function by_placement(params)
  local groups = {}
  local function group_of(placement)
    for _, group in ipairs(groups) do
      if group.placement == placement then return group end
    end
    groups[#groups + 1] = {placement = placement, params = {}, grads = {}}
    return groups[#groups]
  end
  for _, p in ipairs(params) do
    local g = gradient_of(p)
    if g then
      local group = group_of(p.placement)
      group.params[#group.params + 1] = p
      group.grads[#group.grads + 1] = g
    end
  end
  return groups
end

-- By norm type, three functions: of computes the total of |g|^p over a gradient, join combines two totals, root
-- computes the norm from a total.
local function add(a, b) return a + b end
local two = {of = function(g) return rille._square_sum(g) end, join = add, root = function(t) return t:sqrt() end}
local function wide(g) return (g.dtype == "bf16" or g.dtype == "f16") and g:to("f32") or g end
local largest = {of = function(g) return wide(g:abs():max()) end, join = function(a, b) return a:maximum(b) end,
  root = function(t) return t * 1 end}
local function power(p)
  return {of = function(g) return (wide(g):abs() ^ p):sum() end, join = add, root = function(t) return t ^ (1 / p) end}
end

local function norm_of_type(p)
  check.that(type(p) == "number" and p > 0, "optim.clip_grad_norm: norm_type must be a number above 0 (math.huge: the largest element), found %s",
    check.quoted(p))
  return p == 2 and two or p == math.huge and largest or power(p)
end

-- Combines two partial totals by the norm's rule (sum or maximum), and closes the handles of both. total: nil for the
-- first part.
local function joined(norm, total, part)
  if not total then return part end
  local a <close> = total
  local b <close> = part
  return norm.join(a, b)
end

local function total_of(norm, grads)
  local total
  for _, g in ipairs(grads) do total = joined(norm, total, norm.of(g)) end
  return total
end

-- Returns the scalar t, replicated on each device of the placement, and closes t's handle.
local function whole_on(t, placement)
  local here <close> = t
  return here:to_global{placement = placement, sbp = layout.replicated(placement)}
end

-- Returns the factor by which the gradients are multiplied.
local function factor_of(norm, max)
  local least <close> = norm + 1e-6
  local most <close> = max / least
  return most:minimum(1)
end

-- Scales the gradients of params so that their joint norm is at most max. Returns the norm before scaling, a tensor.
return function(params, max, norm_type)
  check.parameters("optim.clip_grad_norm", params)
  for i, p in ipairs(params) do
    check.that(layout.is_tensor(p), "optim.clip_grad_norm: parameter %d must be a tensor, found %s", i, check.shown(p))
  end
  check.number("optim.clip_grad_norm", "the limit", max, 0)
  local kind, norm = norm_of_type(norm_type or 2), nil
  rille.no_grad(function()
    local groups = by_placement(params)
    check.that(#groups > 0, "optim.clip_grad_norm: no parameter has a gradient; call loss:backward() before")
    local home, total = groups[1].placement, nil
    for _, group in ipairs(groups) do total = joined(kind, total, whole_on(total_of(kind, group.grads), home)) end
    local sum <close> = total
    norm = kind.root(sum)
    for _, group in ipairs(groups) do
      local f <close> = whole_on(factor_of(norm, max), group.placement)
      for i, p in ipairs(group.params) do
        local g <close> = group.grads[i]
        local cut <close> = rille._rescale(g, f)
        p.grad = cut
      end
    end
  end)
  return norm
end
