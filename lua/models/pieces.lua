-- pieces.lua - reads the parameters of a language model from a file; each rank reads only its shards.
--
-- A piece is {ours =, theirs =, dtype =, from =, to =, skip =, turn =}. The parameter `ours` is a window of the tensor `theirs`:
-- positions from[axis] to to[axis] of each axis. The first `skip` axes are dropped, and the window is transposed if turn is true.
-- Windows are read in the parameters' layouts, so a rank reads only the bytes of its shards, also from joined tensors.
--
-- A row {theirs, ours, ours..., turn =, axis =, shares =, groups =, stack =, view =, f32 =} names a tensor of the file and
-- its parameters. axis, shares: the parameters are joined along this axis (from 1) in these shares (default: equal). turn: their
-- last two axes are exchanged in the file. groups: number of blocks of that axis; each block has a part of every parameter. stack:
-- `theirs` holds one position of the parameter's first axis: its index, from 0. view: the file has a first axis of 1. f32: the
-- tensor is f32 in a model of any dtype. Pieces of rows with groups, stack or view have a function `make`, which makes the
-- parameter from the tensor; each rank reads a part of the tensor's rows.

local rille = require "rille"
local check = require "rille.check"

local pieces = {}

-- Returns the axis, from 1, along which a row's parameters are joined in the file's tensor `entry`; by default the parameters'
-- first axis.
function pieces.axis(row, entry)
  return row.axis or row.turn and not row.stack and #entry.shape == 2 and 2 or 1
end

-- Returns the k-th of several pieces of the file's tensor `entry`, divided along an axis (from 1). shares: number of equal pieces,
-- or a list of shares.
function pieces.part(ours, entry, axis, k, shares, turn)
  local piece = {ours = ours, theirs = entry.name, dtype = entry.dtype, from = {}, to = {}, skip = 0, turn = turn}
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

-- Returns x, with the last two axes exchanged if the row has `turn`.
local function turned_by(row, x)
  return row.turn and x.ndim > 1 and x:transpose(x.ndim - 2, x.ndim - 1) or x
end

-- Returns a view of x in which the axis (from 1) is split in two, the first of size n.
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

-- Returns the piece of a row's k-th parameter.
function pieces.of_row(row, entry, k)
  local ours, axis, shares = row[k + 1], pieces.axis(row, entry), row.shares or #row - 1
  if not (row.groups or row.stack or row.view or row.turn and #entry.shape > 2) then
    local piece = pieces.part(ours, entry, axis, k, shares, row.turn and #entry.shape == 2)
    piece.f32 = row.f32
    return piece
  end
  local whole = pieces.part(ours, entry, 1, 1, 1)
  whole.stack, whole.f32 = row.stack, row.f32
  function whole.make(value)
    if row.view then return value:reshape{-1} end
    if row.groups then
      local window = pieces.part(ours, {shape = {entry.shape[axis] // row.groups}}, 1, k, shares)
      value = out_of_blocks(in_blocks(value, axis, row.groups):slice(axis, window.from[1], window.to[1]), axis)
    end
    return turned_by(row, value)
  end
  return whole
end

-- Returns a row's tensor as the file stores it, made from the model's state (name -> tensor): the reverse of reading.
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

-- Returns position i of the file tensor's first axis, and of it the k-th of n equal pieces along the second. The parameter lacks
-- the first axis.
function pieces.part_of_row(ours, entry, i, k, n)
  local piece = pieces.part(ours, entry, 2, k, n)
  piece.from[1], piece.to[1], piece.skip = i, i + 1, 1
  return piece
end

-- Returns the dtype for a model: the common dtype of its tensors; if they differ, f64 if one is f64, else f32.
function pieces.dtype(list)
  local dtype
  for _, piece in ipairs(list) do
    local own = not piece.f32 and piece.dtype or dtype
    if dtype and dtype ~= own then dtype = (dtype == "f64" or own == "f64") and "f64" or "f32" end
    dtype = dtype or own
  end
  return dtype
end

local function shape_of(piece)
  local shape = {}
  for a = piece.skip + 1, #piece.from do shape[#shape + 1] = piece.to[a] - piece.from[a] end
  if piece.turn then shape[1], shape[2] = shape[2], shape[1] end
  return "{" .. table.concat(shape, ", ") .. "}"
end

local other = {["0"] = "1", ["1"] = "0"}

-- Returns the SBP, as text, of a transposed matrix.
local function turned(sbp)
  return (sbp:gsub("S%((%d)%)", function(d) return ("S(%s)"):format(other[d]) end))
end

-- Returns the SBP, as text, with every S(axis) replaced by S(0).
local function by_rows(sbp) return (sbp:gsub("S%(%d%)", "S(0)")) end

-- Reads the parameters of a model. Changes no parameter if a shape does not match.
function pieces.read(model, who, path, format, list)
  local tensors, rows, wrong, state = {}, {}, {}, {}
  for _, found in ipairs(model:named_tensors()) do tensors[found.name] = found.tensor end
  for i, piece in ipairs(list) do
    local t = tensors[piece.ours]
    local here, there = "{" .. table.concat(t.shape, ", ") .. "}", shape_of(piece)
    if here ~= there and not piece.make then
      wrong[#wrong + 1] = ("'%s' is %s here, %s in the file"):format(piece.ours, here, there)
    end
    rows[i] = {name = piece.theirs, from = piece.from, to = piece.to, skip = piece.skip, placement = t.placement,
      sbp = piece.make and by_rows(t.sbp) or piece.turn and turned(t.sbp) or t.sbp}
  end
  check.that(#wrong == 0, "%s: %s: %s", who, path, check.problems(wrong))
  local stacks = {}
  for i, value in ipairs(rille._windows(who, path, format, rows)) do
    local piece = list[i]
    if piece.make then value = piece.make(value) elseif piece.turn then value = value:transpose(0, 1) end
    if piece.stack then
      stacks[piece.ours] = stacks[piece.ours] or {}
      stacks[piece.ours][piece.stack + 1] = value
    else
      state[piece.ours] = value
    end
  end
  for ours, values in pairs(stacks) do state[ours] = rille.stack(values, 0) end
  model:load_state_dict(state)
end

return pieces
