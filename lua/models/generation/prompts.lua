-- prompts.lua - reads the prompts of a language model: a tensor of ids (batch, length), or lists of any lengths.

local check = require "rille.base.check"
local layout = require "rille.base.layout"

local prompts = {}

-- Converts ids to a list of rows, which are Lua lists.
local function rows_of(who, ids)
  if not layout.is_tensor(ids) then
    check.that(type(ids) == "table" and #ids > 0, "%s: ids must be a tensor (batch, length) or a list of lists, found %s", who,
      check.shown(ids))
    for i = 1, #ids do
      local row = ids[i]
      check.that(type(row) == "table" and #row > 0, "%s: a prompt must be a list of ids that is not empty, such as {1, 2}; found %s as prompt %d (prompts count from 0)", who,
        type(row) == "table" and "an empty list" or check.shown(row), i - 1)
    end
    return ids
  end
  check.that(ids.shape[1] > 0 and ids.shape[2] > 0,
    "%s: prompts must have shape (batch, length), without empty axes; found {%s}", who,
    table.concat(ids.shape, ", "))
  return ids:totable()
end

local function id_of(who, r, id, vocab)
  local whole = type(id) == "number" and math.tointeger(id)
  check.that(whole, "%s: ids must be integers, found %s in prompt %d", who, check.shown(id), r - 1)
  check.that(whole >= 0 and whole < vocab, "%s: prompt %d has the id %d; the model has ids 0 to %d", who, r - 1, whole, vocab - 1)
  return whole
end

-- Returns a copy of the rows of ids, and the length of the longest row. Checks that all ids are below vocab.
function prompts.read(who, ids, vocab)
  local rows = rows_of(who, ids)
  local copy, longest = {}, 0
  for r, row in ipairs(rows) do
    copy[r] = {}
    for i = 1, #row do copy[r][i] = id_of(who, r, row[i], vocab) end
    longest = math.max(longest, #row)
  end
  return copy, longest
end

-- Pads rows to one length with their last id; attention ignores the padding.
function prompts.padded(rows, longest)
  local t = {}
  for r, row in ipairs(rows) do
    t[r] = table.move(row, 1, #row, 1, {})
    for i = #row + 1, longest do t[r][i] = row[#row] end
  end
  return t
end

return prompts
