-- given.lua - positions, documents and padding that a caller passes to a language model:
--
--   logits = m(ids, {documents = d})     documents packed into rows; a position attends to its own document alone
--   logits = m(ids, {mask = t})          padding at either end of a row, where t is 0 or false
--   logits = m(ids, {positions = p})     other positions than 0, 1, 2...
--
-- In a row of d, a document is a run of equal numbers; in a row of t, padding and text are runs of equal values. For
-- each query, attention receives the span of its run: the first key and the end. Spans need memory linear in the
-- length. The layers call this object in place of the key/value cache (cache.lua).

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"

local Given = {}
Given.__index = Given

local names = {positions = check.none, documents = check.none, mask = check.none}

-- Returns the position of each entry (nil: 0, 1, 2...), and the length of the text that the entry belongs to.
function Given:positions() return self.at, self.lengths end

-- Returns k, v, and a table that says which keys the queries of a layer see. Has the signature of Cache:keep.
function Given:keep(_, k, v, seen)
  if self.spans then seen.spans = layout.on_mesh_of(self.spans, k) end
  return k, v, seen
end

-- Returns i64 (batch, length): 1 where an entry of t differs from the previous entry of its row, else 0. before: i64
-- (length), index of the previous entry for each position.
local function changes(t, before) return t:ne(t:index_select(1, before)):to("i64") end

-- Divides each row of a batch into runs of equal entries. Returns, for each entry, the position of the first entry of
-- its run, and the end of the run. t: 1 where an entry differs from the previous one, else 0.
local function runs(t)
  local run = t:minimum(1):cumsum(1)
  local counts = (run * 0):scatter_add(1, run, run * 0 + 1)
  local ends = counts:cumsum(1):gather(1, run)
  return ends - counts:gather(1, run), ends
end

local function check_like(who, name, t, ids)
  check.that(layout.is_tensor(t) and t.ndim == 2 and t.shape[1] == ids.shape[1] and t.shape[2] == ids.shape[2],
    "%s: %s must be a tensor {%d, %d}, the shape of ids, found %s", who, name, ids.shape[1], ids.shape[2],
    layout.is_tensor(t) and "{" .. table.concat(t.shape, ", ") .. "}" or check.shown(t))
  check.that(name == "mask" or layout.is_integer(t), "%s: %s must be integers, found %s", who, name, t.dtype)
end

-- Returns the object for a forward pass over ids. given: the caller's options. If `given` is nil or a cache, returns
-- `given` itself.
return function(who, ids, given)
  if given == nil or type(given) == "table" and given.keep then return given end
  local how = check.options(who, given, names)
  for name in pairs(how) do check_like(who, name, how[name], ids) end
  local batch, n = table.unpack(ids.shape)
  local where = {placement = ids.placement, sbp = layout.replicated(ids.placement)}
  local at, before = rille.arange(n, where), (rille.arange(n, where) - 1):maximum(0)
  local all = how.documents and changes(how.documents, before)
  if how.mask then
    local padding = changes(how.mask:ne(0), before)
    all = all and all + padding or padding
  end
  local lengths = how.positions and how.positions:max{axis = 1, keepdim = true} + 1
  if not all then return setmetatable({at = how.positions, lengths = lengths}, Given) end
  local first, ends = runs(all)
  return setmetatable({at = how.positions or at:reshape{1, n} - first, lengths = lengths or ends - first,
    spans = rille.stack({first, ends}, 2):reshape{batch, 1, n, 2}}, Given)
end
