-- linear_cross_entropy.lua - the cross entropy of a linear layer's logits, computed in chunks, so that the logits are
-- never in memory as a whole.
--
--   loss = rille.linear_cross_entropy(m:features(ids), m.lm_head.weight, labels)
--
-- The positions are divided into chunks. The logits of one chunk exist at a time, and backward computes the logits
-- again. Chunks are cut within each rank's shard, so cutting moves no data.

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"
local recompute = require "rille.step.recomputed"

local WHO <const> = "linear_cross_entropy"

-- Returns a view of t in which the axis is split into n parts: (..., n, size / n, ...).
local function in_parts(t, axis, n)
  local shape = t.shape
  shape[axis + 1] = shape[axis + 1] // n
  table.insert(shape, axis + 1, n)
  return t:reshape(shape)
end

-- Returns a view of t in which the axis and the next one are merged.
local function merged(t, axis)
  local shape = t.shape
  shape[axis + 1] = shape[axis + 1] * table.remove(shape, axis + 2)
  return t:reshape(shape)
end

-- Returns the losses of the positions in a chunk, or their sum. The sum is f32 for half precision, whose range and
-- digits do not hold the sum of many positions.
local function chunk_loss(x, weight, labels, bias, options, each)
  local y = rille.matmul(x, weight:transpose(0, 1))
  if bias then y = y + bias end
  local loss = y:reshape{-1, weight.shape[1]}:cross_entropy(labels:reshape{-1}, options)
  if each then return loss:reshape(labels.shape) end
  return (loss.dtype == "f64" and loss or loss:to "f32"):sum()
end

local function check_shapes(x, weight, labels)
  local tensors = {x, weight, labels}
  for i = 1, 3 do
    check.that(layout.is_tensor(tensors[i]), "%s: argument %d must be a tensor, found %s", WHO, i, check.shown(tensors[i]))
  end
  local want = x.shape
  local width = table.remove(want)
  check.that(#want > 0 and weight.ndim == 2 and weight.shape[2] == width,
    "%s: expected x (..., d) and weight (classes, d), found {%s} and {%s}", WHO, table.concat(x.shape, ", "), table.concat(weight.shape, ", "))
  check.that(layout.is_float(weight), "%s: weight must be of a float dtype, found %s", WHO, weight.dtype)
  check.that(table.concat(want, ",") == table.concat(labels.shape, ","), "%s: labels must have shape {%s}, found {%s}", WHO,
    table.concat(want, ", "), table.concat(labels.shape, ", "))
end

return check.limited(WHO, function(x, weight, labels, given)
  local o = check.options(WHO, given, {bias = check.none, chunks = 8, reduction = "mean", ignore_index = -100, label_smoothing = 0})
  check.count(WHO, "chunks", o.chunks)
  check.that(o.reduction == "mean" or o.reduction == "sum" or o.reduction == "none",
    "%s: reduction must be \"mean\", \"sum\" or \"none\", found %s", WHO, check.shown(o.reduction))
  check_shapes(x, weight, labels)
  local axis, none = x.ndim - 2, o.reduction == "none"
  local ranks, n = layout.shard_count(x, axis), x.shape[axis + 1]
  if n % ranks ~= 0 then ranks = 1 end
  local each = n // ranks
  local count = math.max(1, math.min(o.chunks, each))
  local options = {reduction = "none", ignore_index = o.ignore_index, label_smoothing = o.label_smoothing}
  local xs, ys, parts = in_parts(x, axis, ranks), in_parts(labels, axis, ranks), {}
  for k = 1, count do
    local first, stop = (k - 1) * each // count, k * each // count
    local part = recompute(chunk_loss, merged(xs:slice(axis + 1, first, stop), axis), weight, merged(ys:slice(axis + 1, first, stop), axis),
      o.bias, options, none)
    parts[#parts + 1] = none and in_parts(part, axis, ranks) or part
  end
  if none then return merged(#parts > 1 and rille.concat(parts, axis + 1) or parts[1], axis) end
  local loss = parts[1]
  for k = 2, #parts do loss = loss + parts[k] end
  if o.reduction == "mean" then loss = loss / labels:ne(o.ignore_index):sum():to(loss.dtype) end
  return loss:to(x.dtype)
end)
