-- choose.lua - chooses the next ids from logits: the likeliest ids, or random ones.

local rille = require "rille"

-- Returns the logits; in each row, logits below the k-th greatest become -inf.
local function top_k(logits, k)
  k = math.min(k, logits.shape[2])
  local values = logits:topk(k)
  return rille.where(logits:lt(values:slice(1, k - 1, k)), -math.huge, logits)
end

-- Keeps the probabilities of the likeliest ids, which sum to at least `share`, and sets all others to 0. Bisection finds the
-- greatest threshold that still reaches the share, to 2^-32 of the greatest probability.
local function top_p(p, share)
  local low, high = p:max{axis = 1, keepdim = true} * 0, p:max{axis = 1, keepdim = true}
  for _ = 1, 32 do
    local middle = (low + high) * 0.5
    local reached = rille.where(p:gt(middle), p, 0):sum{axis = 1, keepdim = true}:ge(share)
    low, high = rille.where(reached, middle, low), rille.where(reached, high, middle)
  end
  return rille.where(p:gt(low), p, 0)
end

-- Samples an id per row: the first id whose cumulative probability exceeds `drawn` times the row's total.
local function draw(logits, drawn, by)
  logits = logits * by.scale
  if by.top_k then logits = top_k(logits, by.top_k) end
  local p = logits:softmax(1)
  if by.top_p then p = top_p(p, by.top_p) end
  local sum = p:cumsum(1)
  local bound = drawn * sum:slice(1, sum.shape[2] - 1, sum.shape[2])
  return sum:gt(bound):to("i64"):argmax{axis = 1, keepdim = true}
end

-- Chooses ids (batch, 1) from logits (batch, vocab); -1 for a row whose logits contain nan, or whose greatest is
-- infinite. drawn: (batch, 1), random numbers in [0, 1); nil if greedy. by: greedy, scale (1 / temperature), top_k,
-- top_p.
return function(logits, drawn, by)
  local likeliest = by.greedy and logits:argmax{axis = 1, keepdim = true}
  -- if a logit is nan, so is the maximum
  local greatest = likeliest and logits:gather(1, likeliest) or logits:max{axis = 1, keepdim = true}
  return rille.where((greatest - greatest):eq(0), likeliest or draw(logits, drawn, by), -1)
end
