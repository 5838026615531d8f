-- pieces.lua - reads the parameters of a language model as windows of a file's tensors, each rank its own shards.
--
-- A piece is {ours =, theirs =, dtype =, from =, to =, skip =, turn =}. The parameter `ours` is positions from[axis] to
-- to[axis] of each axis of the tensor `theirs`, without the first `skip` axes, and transposed if turn is true. Windows
-- are read in the parameters' layouts, so a rank reads only the bytes of its shards, also from joined tensors.

local rille = require "rille"
local check = require "rille.check"

local pieces = {}

-- Returns the k-th of n pieces along an axis (from 1) of an entry of rille._contents.
function pieces.part(ours, entry, axis, k, n, turn)
  local piece = {ours = ours, theirs = entry.name, dtype = entry.dtype, from = {}, to = {}, skip = 0, turn = turn}
  for a, size in ipairs(entry.shape) do
    piece.from[a] = a == axis and (k - 1) * size // n or 0
    piece.to[a] = a == axis and k * size // n or size
  end
  return piece
end

-- Returns the k-th of n pieces of position i of the first axis. The parameter lacks this axis.
function pieces.part_of_row(ours, entry, i, k, n)
  local piece = pieces.part(ours, entry, 2, k, n)
  piece.from[1], piece.to[1], piece.skip = i, i + 1, 1
  return piece
end

-- Returns the dtype for a model: the common dtype of its tensors; if they differ, f64 if one is f64, else f32.
function pieces.dtype(list)
  local dtype
  for _, piece in ipairs(list) do
    if dtype and dtype ~= piece.dtype then dtype = (dtype == "f64" or piece.dtype == "f64") and "f64" or "f32" end
    dtype = dtype or piece.dtype
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

-- Reads the parameters of a model. Changes no parameter if a shape does not match.
function pieces.read(model, who, path, format, list)
  local tensors, rows, wrong, state = {}, {}, {}, {}
  for _, found in ipairs(model:named_tensors()) do tensors[found.name] = found.tensor end
  for i, piece in ipairs(list) do
    local t = tensors[piece.ours]
    local here, there = "{" .. table.concat(t.shape, ", ") .. "}", shape_of(piece)
    if here ~= there then wrong[#wrong + 1] = ("'%s' is %s here, %s in what is loaded"):format(piece.ours, here, there) end
    rows[i] = {name = piece.theirs, from = piece.from, to = piece.to, skip = piece.skip, placement = t.placement,
      sbp = piece.turn and turned(t.sbp) or t.sbp}
  end
  check.that(#wrong == 0, "%s: %s: %s", who, path, check.told(wrong))
  for i, value in ipairs(rille._windows(who, path, format, rows)) do
    state[list[i].ours] = list[i].turn and value:transpose(0, 1) or value
  end
  model:load_state_dict(state)
end

return pieces
