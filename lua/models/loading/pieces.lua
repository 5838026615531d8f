-- pieces.lua - reads the parameters of a language model from a file; each rank reads only its shards.
--
-- A piece is {ours =, theirs =, dtype =, from =, to =, skip =, turn =}. The parameter `ours` is a window of the
-- tensor `theirs`: positions from[axis] to to[axis] of each axis. by_rows: each row of the parameter is a complete
-- row of the tensor. by_columns: each column of the parameter's matrices is a complete row of the tensor. The first `skip` axes are dropped, and the window is transposed if turn is true. Windows are
-- read in the layouts of the parameters, so a rank reads only the bytes of its shards, even from joined tensors.
--
-- A row {theirs, ours, ours..., key = value, ...} names a tensor of the file and its parameters. Keys:
--   axis, shares   the parameters are joined along this axis (from 1), in these shares (default: equal shares)
--   groups         number of blocks of that axis; each block has a part of every parameter
--   turn           true: the last two axes are exchanged in the file
--   stack          `theirs` is one entry of the parameter's first axis; stack is the entry's index, from 0
--   join           function that makes the parameter from the list of all such tensors
--   view           true: the tensor in the file has an additional first axis, of size 1
--   f32            true: the tensor is f32 in a model of any dtype
--   pairs          number of heads; the file stores the two rows of a rotated pair side by side (out_of_pairs)
--   plus           number that was added to the values in the file
-- If a row has groups, stack, view, pairs or plus, its pieces have a function `make`, which computes the parameter
-- from the tensor. Each rank then reads a part of the tensor's rows.

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"

local pieces = {}

-- Returns the axis, from 1, along which a row's parameters are joined in the file's tensor `entry`; by default the parameters'
-- first axis.
function pieces.axis(row, entry)
  return row.axis or row.turn and not row.stack and #entry.shape == 2 and 2 or 1
end

-- Divides the file's tensor `entry` along an axis (from 1), and returns the k-th part for the parameter `ours`, as a
-- piece {ours =, theirs =, from =, to =, ...}. shares: number of equal parts, or a list of shares.
function pieces.part(ours, entry, axis, k, shares, turn)
  local piece = {ours = ours, theirs = entry.name, dtype = entry.dtype, stored = entry.stored, low_bits = entry.low_bits, from = {}, to = {}, skip = 0, turn = turn}
  local before, own, sum = k - 1, 1, shares
  if type(shares) == "table" then
    before, own, sum = 0, shares[k], 0
    for i, share in ipairs(shares) do before, sum = before + (i < k and share or 0), sum + share end
  end
  for a, size in ipairs(entry.shape) do
    piece.from[a] = a == axis and before * size // sum or 0
    piece.to[a] = a == axis and (before + own) * size // sum or size
  end
  return piece
end

-- Returns a view of x, with its last two axes exchanged if the file stores the tensor of this row transposed (row.turn).
local function turned_by(row, x)
  return row.turn and x.ndim > 1 and x:transpose(x.ndim - 2, x.ndim - 1) or x:reshape(x.shape)
end

-- Returns a view of x in which the axis (from 1) is split into two; the first has size n.
local function in_blocks(x, axis, n)
  local shape = x.shape
  shape[axis] = shape[axis] // n
  table.insert(shape, axis, n)
  return x:reshape(shape)
end

-- Returns a view of x in which the axis (from 1) and the next one are merged.
local function out_of_blocks(x, axis)
  local shape = x.shape
  shape[axis] = shape[axis] * table.remove(shape, axis + 1)
  return x:reshape(shape)
end

-- Reorders the rows of n heads. In the file the two rows of a rotated pair are side by side. In the result the two
-- rows are half a head apart, as nn.Rotary expects.
local function out_of_pairs(x, n)
  local shape = x.shape
  local pairs <close> = x:reshape{n, shape[1] // n // 2, 2, -1}
  local halves <close> = pairs:transpose(1, 2)
  return halves:reshape(shape)
end

-- Returns the piece (head of this file) for the k-th parameter of a naming row: the window of the file's tensor
-- `entry` that contains the parameter.
function pieces.of_row(row, entry, k)
  local ours, axis, shares = row[k + 1], pieces.axis(row, entry), row.shares or #row - 1
  if not (row.groups or row.stack or row.view or row.pairs or row.plus or row.turn and #entry.shape > 2) then
    local piece = pieces.part(ours, entry, axis, k, shares, row.turn and #entry.shape == 2)
    piece.f32, piece.by_rows = row.f32, axis == 1 and not piece.turn
    return piece
  end
  local whole = pieces.part(ours, entry, 1, 1, 1)
  whole.stack, whole.join, whole.f32 = row.stack, row.join, row.f32
  local changed = row.stack or row.view or row.plus
  whole.by_rows = axis == 1 and not (changed or row.turn)
  whole.by_columns = row.turn and #entry.shape == 3 and not (changed or row.groups or row.pairs)
  function whole.make(value)
    if row.view then return value:reshape{-1} end
    if row.plus then return value - row.plus end
    if row.pairs then return out_of_pairs(value, row.pairs) end
    if not row.groups then return turned_by(row, value) end
    local window = pieces.part(ours, {shape = {entry.shape[axis] // row.groups}}, 1, k, shares)
    local blocks <close> = in_blocks(value, axis, row.groups)
    local own <close> = blocks:slice(axis, window.from[1], window.to[1])
    local rows <close> = out_of_blocks(own, axis)
    return turned_by(row, rows)
  end
  return whole
end

-- Returns the tensor of a naming row as the file stores it: joins the row's parameters, the reverse of reading.
-- state: name of a parameter -> its value.
function pieces.join(row, state)
  local parts, n = {}, #row - 1
  for k = 1, n do
    local value = state[row[k + 1]]
    if row.stack then value = value:slice(0, row.stack, row.stack + 1):squeeze(0) end
    parts[k] = row.axis and turned_by(row, value) or value
  end
  local axis = row.axis or 1
  if row.view then return parts[1]:reshape{1, -1} end
  for k = 1, row.groups and n or 0 do parts[k] = in_blocks(parts[k], axis, row.groups) end
  local value = n == 1 and parts[1] or rille.concat(parts, row.groups and axis or axis - 1)
  if row.groups then value = out_of_blocks(value, axis) end
  return row.axis and value or turned_by(row, value)
end

-- Returns the piece of a parameter that has one axis fewer than the file's tensor: position i of the tensor's first
-- axis, and the k-th of n equal parts of its second axis.
function pieces.part_of_row(ours, entry, i, k, n)
  local piece = pieces.part(ours, entry, 2, k, n)
  piece.from[1], piece.to[1], piece.skip = i, i + 1, 1
  return piece
end

-- Returns the dtype for a model: the common dtype of its tensors, without those that are dequantised. If the dtypes
-- differ, returns f64 if one of them is f64, else f32.
function pieces.dtype(list)
  local dtype
  for _, piece in ipairs(list) do
    local own = not piece.f32 and not piece.low_bits and piece.dtype or dtype
    if dtype and dtype ~= own then dtype = (dtype == "f64" or own == "f64") and "f64" or "f32" end
    dtype = dtype or own
  end
  return dtype or "f32"
end

local function shape_of(piece)
  local shape = {}
  for a = piece.skip + 1, #piece.from do shape[#shape + 1] = piece.to[a] - piece.from[a] end
  if piece.turn then shape[1], shape[2] = shape[2], shape[1] end
  return "{" .. table.concat(shape, ", ") .. "}"
end

local other = {["0"] = "1", ["1"] = "0"}

-- Returns the SBP, as text, of the transpose of a matrix with this SBP.
local function turned(sbp)
  return (sbp:gsub("S%((%d)", function(d) return "S(" .. other[d] end))
end

-- Returns the SBP, as text, with S(0) in place of every S(axis).
local function by_rows(sbp) return (sbp:gsub("S%b()", "S(0)")) end

-- Computes a parameter from the tensor that was read from the file: applies piece.make, or transposes. Frees that
-- tensor. like: a tensor in the parameter's layout.
local function made(piece, value, like)
  if not (piece.make or piece.turn) then return value end
  local read <close> = value
  local new <close> = piece.make and piece.make(read) or read:transpose(0, 1)
  return rille.eval(new:to_global{placement = like.placement, sbp = like.sbp})
end

-- Joins the tensors of a stacked parameter, and frees them. like: a tensor in the parameter's layout.
local function made_of_stack(piece, parts, like)
  local new <close> = piece.join and piece.join(parts) or rille.stack(parts, 0)
  local value = rille.eval(new:to_global{placement = like.placement, sbp = like.sbp})
  for _, part in ipairs(parts) do local _ <close> = part end
  return value
end

-- A stacked parameter is stored in the file as several tensors, one per entry of its first axis. Returns a table from
-- the name of each stacked parameter to the number of these tensors.
local function stack_sizes(list)
  local sizes = {}
  for _, piece in ipairs(list) do
    if piece.stack then sizes[piece.ours] = (sizes[piece.ours] or 0) + 1 end
  end
  return sizes
end

-- Returns the argument `rows` of rille._windows, with an entry for each piece of the list: the piece's tensor in the
-- file, its window, and the layout and dtype in which to read the window. Fails if a shape does not match.
local function windows(tensors, who, path, list)
  local rows, wrong = {}, {}
  for i, piece in ipairs(list) do
    local t = tensors[piece.ours]
    local here, there = "{" .. table.concat(t.shape, ", ") .. "}", shape_of(piece)
    if here ~= there and not piece.make then
      wrong[#wrong + 1] = ("'%s' is %s here, %s in the file"):format(piece.ours, here, there)
    end
    rows[i] = {name = piece.theirs, from = piece.from, to = piece.to, skip = piece.skip, placement = t.placement,
      sbp = piece.make and by_rows(t.sbp) or piece.turn and turned(t.sbp) or t.sbp,
      dtype = layout.is_float(t) and layout.is_float(piece) and t.dtype or nil}
  end
  check.that(#wrong == 0, "%s: %s: %s", who, path, check.problems(wrong))
  return rows
end

-- Returns the pieces in the order of their parameters' sizes, the largest first: memory that is needed for a short time, in
-- proportion to a parameter, is then needed while the model is small.
local function largest_first(list, tensors)
  local order, place = table.move(list, 1, #list, 1, {}), {}
  for i, piece in ipairs(list) do place[piece] = {-tensors[piece.ours]:numel(), i} end
  table.sort(order, function(a, b)
    local x, y = place[a], place[b]
    return x[1] < y[1] or x[1] == y[1] and x[2] < y[2]
  end)
  return order
end

-- Reads the parameters of a model. If a shape does not match, no parameter changes. Values are read in the layout and
-- dtype of the parameters, and the parameters take over the memory of the values. Only transposed or joined
-- parameters need further copies, a few at a time. partial: parameters may be missing in the file. consume(name, value),
-- optional: called with each complete value; returns true if it has replaced the parameter.
function pieces.read(model, who, path, format, list, partial, consume)
  local tensors, state, stacks, left = {}, {}, {}, stack_sizes(list)
  for _, found in ipairs(model:named_tensors()) do tensors[found.name] = found.tensor end
  if consume then list = largest_first(list, tensors) end
  local function keep(name, value)
    if not consume or not consume(name, value) then state[name] = value end
  end
  rille._windows(who, path, format, windows(tensors, who, path, list), function(k, value)
    local piece = list[k]
    local ours = piece.ours
    value = made(piece, value, tensors[ours])
    if not piece.stack then
      keep(ours, value)
      return
    end
    stacks[ours] = stacks[ours] or {}
    stacks[ours][piece.stack + 1] = value
    left[ours] = left[ours] - 1
    if left[ours] > 0 then return end
    local parts = stacks[ours]
    stacks[ours] = nil
    keep(ours, made_of_stack(piece, parts, tensors[ours]))
  end)
  model:load_state_dict(state, {strict = not partial and not consume})
end

return pieces
