-- choose.lua - the next ids, from logits: the most likely ones, or drawn.

local rille = require "rille"

-- Logits without those below the k-th greatest.
local function top_k(logits, k)
  k = math.min(k, logits.shape[2])
  local values = logits:topk(k)
  return rille.where(logits:lt(values:slice(1, k - 1, k)), -math.huge, logits)
end

-- Keeps the most likely ids until their share is `share` at least: all above the greatest bound over which the share is
-- still reached, which halving finds to 2^-32 of the range of probabilities.
local function top_p(p, share)
  local low, high = p:max{axis = 1, keepdim = true} * 0, p:max{axis = 1, keepdim = true}
  for _ = 1, 32 do
    local middle = (low + high) * 0.5
    local reached = rille.where(p:gt(middle), p, 0):sum{axis = 1, keepdim = true}:ge(share)
    low, high = rille.where(reached, middle, low), rille.where(reached, high, middle)
  end
  return rille.where(p:gt(low), p, 0)
end

-- Drawn ids: the first whose share of the sum of probabilities, with those before it, is more than drawn.
local function draw(logits, drawn, by)
  logits = logits * by.scale
  if by.top_k then logits = top_k(logits, by.top_k) end
  local p = logits:softmax(1)
  if by.top_p then p = top_p(p, by.top_p) end
  local sum = p:cumsum(1)
  local bound = drawn * sum:slice(1, sum.shape[2] - 1, sum.shape[2])
  return sum:gt(bound):to("i64"):argmax{axis = 1, keepdim = true}
end

-- logits: (batch, vocab) -> ids (batch, 1), -1 where logits are nan or their greatest is no finite number. drawn: (batch, 1),
-- in [0, 1), nil where ids are the likeliest ones, greedy. by: greedy, scale (1 / temperature), top_k, top_p.
return function(logits, drawn, by)
  local likeliest = by.greedy and logits:argmax{axis = 1, keepdim = true}
  local greatest = likeliest and logits:gather(1, likeliest) or logits:max{axis = 1, keepdim = true} -- nan is greater than all
  return rille.where((greatest - greatest):eq(0), likeliest or draw(logits, drawn, by), -1)
end
