-- expert_lora.lua - low-rank adapters (nn.LoRA) for a weight of a mixture of experts: the product of rows x with an
-- expert's matrix is x w + scaling (x A) B; A: (experts, in, r), B: (experts, r, out).
--
-- The adapter of the weight mixture.up is the module mixture.up_lora, which nn.MixtureOfExperts calls. The weight
-- stays in the mixture. A weight in blocks can have an adapter, too.

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"
local start = require "rille.nn.base.start"
local nn = rille.nn

local ExpertLoRA = nn.LoRA:extend("models.ExpertLoRA")

ExpertLoRA.__rank_axis = {lora_A = 2, lora_B = 1}

local mixture_of = setmetatable({}, {__mode = "k"}) -- adapter -> the mixture that has the weight

-- Returns the numbers of inputs and outputs of an expert's matrix, and the dtype of an adapter.
local function sizes_of(mixture, name)
  local w, kind = mixture[name], mixture.kinds and mixture.kinds[name]
  local shape = w.shape
  if not kind then return shape[2], shape[3], w.dtype end
  return rille.from_blocks(rille.zeros({1, shape[3], shape[4]}, {dtype = "u8"}), {kind = kind}).shape[2], shape[2], "f32"
end
ExpertLoRA.__sizes = sizes_of

-- Returns true if the tensor `name` of a module is a weight of experts that can have an adapter.
function ExpertLoRA.__fits(m, name)
  local w = rawget(m, "router") and (name == "gate" or name == "up" or name == "down") and rawget(m, name)
  return w and (m.kinds and m.kinds[name] ~= nil or layout.is_float(w)) or false
end

-- Returns the layout of A and B, which divides the experts like the weight.
local function layout_like(w)
  local sbp = layout.entries(w.sbp)
  for i, entry in ipairs(sbp) do sbp[i] = layout.split_of(entry) == 0 and entry or "B" end
  return {placement = w.placement, sbp = sbp}
end

-- options: those of nn.LoRA.
function ExpertLoRA:init(mixture, name, options)
  local who = "models.lora"
  for _, key in ipairs{"dora", "bias"} do
    check.that(not options[key], "%s: %s must be false for the experts' weight '%s', found true", who, key, name)
  end
  check.that((options.dropout or 0) == 0, "%s: dropout must be 0 for the experts' weight '%s', found %s", who, name, options.dropout)
  local alpha, r = options.alpha or options.r, options.r
  check.count(who, "r", r)
  check.number(who, "alpha", alpha, 0)
  self.r, self.dropout, self.merged, self.of_experts = r, 0, false, name -- of_experts: name of the weight
  self.scaling = alpha / (options.rslora and r ^ 0.5 or r)
  mixture_of[self] = mixture
  local n_in, n_out, dtype = sizes_of(mixture, name)
  local where, bound = layout_like(mixture[name]), n_in ^ -0.5
  self.lora_A = start.parameter((rille.rand({mixture.experts, n_in, r}, where) * (2 * bound) - bound):to(dtype):to_global(where))
  self.lora_B = start.parameter(rille.zeros({mixture.experts, r, n_out}, {placement = where.placement, sbp = where.sbp, dtype = dtype}))
end

-- Puts the adapter on a mixture that has none for this weight.
function ExpertLoRA:__put_on(mixture) mixture_of[self] = mixture end

-- Returns the updates of products of rows x with experts' matrices; nil: the adapter is off or merged. groups, best: as in
-- nn.MixtureOfExperts; nil: each expert multiplies all rows.
function ExpertLoRA:forward(x, groups, best)
  if self.merged or nn.LoRA.__is_off(self) then return nil end
  local function times(rows, w)
    if not best then return rille.matmul(rows, w) end
    local shape = w.shape
    return rille._expert_matmul(rows, w:reshape{groups, shape[1] // groups, shape[2], shape[3]}, best)
  end
  return times(times(x, self.lora_A), self.lora_B) * self.scaling
end

-- ---- merging the adapter into the weight ----

function ExpertLoRA:__base_tensors() return {weight = mixture_of[self][self.of_experts]} end

function ExpertLoRA:__base_path(path) return (path:gsub("_lora$", "")) end

function ExpertLoRA:__check_merge()
  check.that(layout.is_float(self:__base_tensors().weight), "models.lora.merge: a quantized weight cannot hold an adapter; merge into the float model")
end

-- Returns the weight plus `sign` times the adapter's update.
local function changed(self, sign)
  return rille.no_grad(function()
    local w = self:__base_tensors().weight
    local sum = w + rille.matmul(self.lora_A, self.lora_B) * (sign * self.scaling)
    return {weight = sum:to_global(layout.of(w)):detach()}
  end)
end

function ExpertLoRA:__merged_tensors()
  self:__check_merge()
  return self.merged and self:__base_tensors() or changed(self, 1)
end

function ExpertLoRA:__unmerged_tensors() return changed(self, -1) end

function ExpertLoRA:__factor() return rille.ones({1}, {placement = self.lora_A.placement}) end

function ExpertLoRA:describe() return ("%s, r = %d"):format(self.of_experts, self.r) end

return ExpertLoRA
