-- rows.lua - converts the sampling settings of the texts in a pass to tensors for choose.lua.
--
-- A row is {text =, n =}: the pass chooses the id that follows the first n ids of the text. A row that is false is
-- idle.

local rille = require "rille"

local OFF = 2 -- turns a filter off, because no sum of probabilities reaches 2

local function power_of_two(n)
  local p = 1
  while p < n do p = 2 * p end
  return p
end

-- Filter -> {value in rows that do not use the filter, dtype}.
local filters = {top_k = {0, "i64"}, top_p = {OFF, "f32"}, min_p = {0, "f32"}, typical_p = {OFF, "f32"}}

local function scale_of(row) return row and row.text.o.temperature > 0 and 1 / row.text.o.temperature or 0 end

-- Returns a tensor (rows, 1) of value(row).
local function column(rows, value, dtype, where)
  local t = {}
  for r, row in ipairs(rows) do t[r] = {value(row)} end
  return rille.tensor(t, {dtype = dtype, placement = where.placement, sbp = where.sbp})
end

-- Returns the settings that are equal for all ids of a text.
local function constant(rows, where)
  local how = {}
  local function add(name, off, dtype)
    local used, widest = false, 1
    for _, row in ipairs(rows) do
      local value = row and row.text.o.temperature > 0 and row.text.o[name]
      used = used or value
      widest = math.max(widest, value or 1)
    end
    if not used then return end
    how[name] = column(rows, function(row) return row and row.text.o[name] or off end, dtype, where)
    if name == "top_k" then how.widest = tostring((widest + 7) // 8 * 8) end
  end
  for name, of in pairs(filters) do add(name, of[1], of[2]) end
  local open, logprobs, greedy, sampled = false, -1, false, false
  for _, row in ipairs(rows) do
    if scale_of(row) == 0 then greedy = true else sampled = true end
    open = open or row and row.text.o.processor and true
    logprobs = math.max(logprobs, row and row.text.o.logprobs or -1)
  end
  -- scale is a tensor even if all rows are greedy: a compiled step copies a table of settings that contains a tensor,
  -- and so notices changed contents
  how.scale = column(rows, scale_of, "f32", where)
  if greedy and sampled then how.mixed = "yes" end
  if open then how.open = "yes" end
  if logprobs >= 0 then how.logprobs = tostring(logprobs == 0 and 0 or power_of_two(logprobs)) end
  return how
end

-- Returns the lists of ids and of values, one of each for each row, as tensors {ids = (rows, n), values = (rows, n)}. n is one
-- of a few sizes, because each one needs a compiled step.
local function padded(ids, values, where)
  local n = 8
  for _, list in ipairs(ids) do
    while n < #list do n = 8 * n end
  end
  for r, list in ipairs(ids) do
    for i = #list + 1, n do list[i], values[r][i] = 0, 0 end
  end
  return {ids = rille.tensor(ids, {dtype = "i64", placement = where.placement, sbp = where.sbp}),
    values = rille.tensor(values, {dtype = "f32", placement = where.placement, sbp = where.sbp})}
end

-- Returns tables id -> number, one for each row, as tensors.
local function sparse(lists, where)
  local ids, values = {}, {}
  for r, list in ipairs(lists) do
    ids[r], values[r] = {}, {}
    for id, value in pairs(list or {}) do
      ids[r][#ids[r] + 1], values[r][#values[r] + 1] = id, value
    end
  end
  return padded(ids, values, where)
end

-- Returns the allowed ids of the rows (text.lua) as tensors.
local function allowed_ids(sets, where)
  local ids, values, masks, some = {}, {}, {}, nil
  for r, set in ipairs(sets) do
    ids[r], values[r] = table.move(set and set.ids or {}, 1, set and #set.ids or 0, 1, {}), {}
    for i = 1, #ids[r] do values[r][i] = 1 end
    some = some or set and set.mask
  end
  local how = padded(ids, values, where)
  how.only = column(sets, function(set) return set and 1 or 0 end, "f32", where)
  if not some then return how end
  for r, set in ipairs(sets) do masks[r] = (set and set.mask or some)(where, not (set and set.mask)) end
  how.mask = #masks == 1 and masks[1] or rille.concat(masks, 0):to_global(where)
  return how
end

-- Adds the edits of logits to the settings `how`.
local function add_edits(how, rows, where)
  local of, any = {bias = {}, repetition = {}, adds = {}, allowed = {}}, {}
  for r, row in ipairs(rows) do
    local edits = row and row.text:has_edits() and row.text:edits(row.n) or {}
    for name, lists in pairs(of) do
      lists[r] = edits[name] or false
      any[name] = any[name] or edits[name]
    end
  end
  for name, lists in pairs(of) do
    if any[name] then how[name] = (name == "allowed" and allowed_ids or sparse)(lists, where) end
  end
end

-- Returns true if both lists of rows refer to the same texts.
local function same_texts(a, b)
  if not a or #a ~= #b then return false end
  for r, row in ipairs(b) do
    if (a[r] and a[r].text) ~= (row and row.text) then return false end
  end
  return true
end

local function any(rows, fn)
  for _, row in ipairs(rows) do
    if row and fn(row) then return true end
  end
  return false
end

-- Returns the settings of a pass. kept: a table in which settings that stay constant are cached between passes.
return function(rows, where, kept)
  if not same_texts(kept.rows, rows) then kept.how = constant(rows, where) end
  kept.rows = rows
  local edited = any(rows, function(row) return row.text:has_edits() end)
  local sampled = any(rows, function(row) return scale_of(row) > 0 end)
  if not edited and not sampled then return kept.how end
  local how = {}
  for name, value in pairs(kept.how) do how[name] = value end
  if sampled then
    how.drawn = column(rows, function(row) return scale_of(row) > 0 and row.text:number_after(row.n) or 0 end, "f32", where)
  end
  if edited then add_edits(how, rows, where) end
  return how
end
