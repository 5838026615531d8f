-- choose.lua - chooses the next ids from logits: the likeliest ids (greedy), or random ids.
--
-- Settings are tensors with one row per row of logits, so that texts with different settings share a compiled step.
-- `how` contains only the settings that at least one row uses:
--   drawn          (rows, 1) random numbers in [0, 1); nil: every row is greedy
--   scale          (rows, 1) 1 / temperature; 0: the row is greedy. mixed: set if some rows are greedy, and some are not
--   top_k          (rows, 1) i64; 0: off. widest: the greatest top_k, as text: a compiled step may turn a number into
--                  an argument, but a text stays a constant of the step
--   top_p, typical_p   (rows, 1) share of probability; 2: off
--   min_p          (rows, 1) least share of the greatest probability; 0: off
--   bias, adds     {ids = (rows, n), values = (rows, n)}: numbers added to logits before and after the repetition penalty
--   repetition     {ids =, values =}: repetition penalties of ids; 0: none
--   allowed        {ids =, values =, mask = (rows, vocab) or nil, only = (rows, 1)}: in rows with only = 1, ids without a
--                  value and with 0 in the mask become impossible
--   logprobs       number of likeliest ids to report beside the chosen id, as text
--   beams          number of likeliest ids to return in place of a choice, as text

local rille = require "rille"

local choose = {}

-- ---- adding biases and penalties to logits ----

local function added(x, list) return x:scatter_add(1, list.ids, list.values) end
local function marks(x, list) return added(rille.zeros(x.shape, {placement = x.placement, sbp = x.sbp}), list) end

-- Applies the repetition penalty of each id: divides positive logits by the penalty, and multiplies negative logits
-- (Keskar et al. 2019).
local function repeated(x, list)
  local penalty = marks(x, list)
  return rille.where(penalty:eq(0), x, rille.where(x:gt(0), x / penalty, x * penalty))
end

-- Applies bias, penalties and bans to the logits (rows, vocab).
function choose.edit(x, how)
  if how.bias then x = added(x, how.bias) end
  if how.repetition then x = repeated(x, how.repetition) end
  if how.adds then x = added(x, how.adds) end
  if how.allowed then
    local marked = how.allowed.mask and added(how.allowed.mask:to("f32"), how.allowed) or marks(x, how.allowed)
    x = rille.where(marked:lt(how.allowed.only), -math.huge, x)
  end
  return x
end

-- ---- filtering logits and probabilities ----

-- Replaces, in each row, the logits below the k-th greatest by -inf.
local function top_k(logits, how)
  local widest = math.min(tonumber(how.widest), logits.shape[2])
  local least = logits:topk(widest):gather(1, (how.top_k - 1):clamp(0, widest - 1))
  return rille.where(logits:lt(rille.where(how.top_k:gt(0), least, -math.huge)), -math.huge, logits)
end

-- Finds the threshold at which reached(threshold) changes, by bisection, to 2^-32 of the interval. Returns two
-- thresholds close to it: reached is true at the first, and false at the second.
local function bisect(inside, outside, reached)
  for _ = 1, 32 do
    local middle = (inside + outside) * 0.5
    local good = reached(middle)
    inside, outside = rille.where(good, middle, inside), rille.where(good, outside, middle)
  end
  return inside, outside
end

local function total(p) return p:sum{axis = 1, keepdim = true} end

-- Keeps the fewest likeliest ids whose probabilities sum to at least `share`, and sets all other probabilities to 0.
local function top_p(p, share)
  local greatest = p:max{axis = 1, keepdim = true}
  local low = bisect(greatest * 0, greatest, function(middle) return total(rille.where(p:gt(middle), p, 0)):ge(share) end)
  return rille.where(p:gt(low), p, 0)
end

-- Keeps the fewest ids whose probabilities sum to at least `share`, in order of how near their information, -log p,
-- is to the entropy (Meister et al. 2023).
local function typical_p(p, share)
  p = p / total(p)
  local information = rille.where(p:gt(0), p, 1):log() * -1
  local far = rille.where(p:gt(0), (information - total(p * information)):abs(), 0)
  local most = far:max{axis = 1, keepdim = true}
  local near = bisect(most, most * 0 - 1, function(middle) return total(rille.where(far:le(middle), p, 0)):ge(share) end)
  return rille.where(far:le(near), p, 0)
end

-- Samples an id per row: the first id whose cumulative probability exceeds `drawn` times the row's total.
local function draw(logits, how)
  logits = logits * how.scale
  if how.top_k then logits = top_k(logits, how) end
  local p = logits:softmax(1)
  if how.top_p then p = top_p(p, how.top_p) end
  if how.min_p then p = rille.where(p:ge(p:max{axis = 1, keepdim = true} * how.min_p), p, 0) end
  if how.typical_p then p = typical_p(p, how.typical_p) end
  local sum = p:cumsum(1)
  local bound = how.drawn * sum:slice(1, sum.shape[2] - 1, sum.shape[2])
  return sum:gt(bound):to("i64"):argmax{axis = 1, keepdim = true}
end

-- ---- choosing ids ----

-- Returns the n greatest values of each row, greatest first, and their ids: (rows, n) each.
local function greatest_of(x, n)
  local values, ids = {}, {}
  for i = 1, math.min(n, x.shape[2]) do
    ids[i] = x:argmax{axis = 1, keepdim = true}
    values[i] = x:gather(1, ids[i])
    x = x:scatter_add(1, ids[i], rille.where(values[i]:eq(values[i]), -math.huge, 0))
  end
  return rille.concat(values, 1), rille.concat(ids, 1)
end

-- Chooses ids (rows, 1) from edited logits (rows, vocab); the id is -1 for a row whose logits contain nan, or whose
-- greatest logit is infinite. Log probabilities are computed from `plain`, the model's unedited logits. Returns {ids
-- =, logprobs =, top =, top_ids =}.
function choose.pick(logits, plain, how)
  if how.beams then
    local top, top_ids = greatest_of(logits, tonumber(how.beams))
    return {top = top, top_ids = top_ids}
  end
  local likeliest = (not how.drawn or how.mixed) and logits:argmax{axis = 1, keepdim = true}
  -- if a logit is nan, so is the maximum
  local greatest = likeliest and logits:gather(1, likeliest) or logits:max{axis = 1, keepdim = true}
  local chosen = how.drawn and draw(logits, how) or likeliest
  if how.mixed then chosen = rille.where(how.scale:eq(0), likeliest, chosen) end
  local out = {ids = rille.where((greatest - greatest):eq(0), chosen, -1)}
  if how.logprobs then
    local p = plain:log_softmax(1)
    out.logprobs = p:gather(1, chosen)
    if how.logprobs ~= "0" then out.top, out.top_ids = greatest_of(p, tonumber(how.logprobs)) end
  end
  return out
end

return choose
