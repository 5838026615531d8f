-- dpo_loss.lua - the loss of direct preference optimisation (DPO; Rafailov et al. 2023).
--
--   chosen = -rille.linear_cross_entropy(x, weight, labels, {reduction = "none"}):sum{axis = 1}     log probabilities of answers
--   loss = rille.dpo_loss(chosen, rejected, ref_chosen, ref_rejected, {beta = 0.1})

local check = require "rille.base.check"
local layout = require "rille.base.layout"

local WHO <const> = "dpo_loss"

-- Returns log(1 + exp(-x)), the negative logarithm of the sigmoid.
local function softplus_of_minus(x) return (-x):softplus() end

return check.limited(WHO, function(chosen, rejected, ref_chosen, ref_rejected, given)
  local o = check.options(WHO, given, {beta = 0.1, label_smoothing = 0})
  check.number(WHO, "beta", o.beta, 0)
  check.share(WHO, "label_smoothing", o.label_smoothing)
  local tensors = {chosen, rejected, ref_chosen, ref_rejected}
  for i = 1, 4 do
    check.that(layout.is_tensor(tensors[i]), "%s: argument %d must be a tensor of log probabilities, found %s", WHO, i,
      check.shown(tensors[i]))
  end
  local margin = ((chosen - rejected) - (ref_chosen - ref_rejected)) * o.beta
  local loss = softplus_of_minus(margin)
  if o.label_smoothing > 0 then loss = loss * (1 - o.label_smoothing) + softplus_of_minus(-margin) * o.label_smoothing end
  return loss:mean()
end)
