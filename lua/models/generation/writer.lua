-- writer.lua - compiled steps for text generation. The steps are cached per model, so only the first text compiles.
--
-- A writer has these steps: `prompt` reads whole prompts, (batch, length), and fills the key/value cache (cache.lua).
-- `next` reads further ids of all rows at given positions; `next_of` reads further ids of some rows. These steps choose
-- the following ids on the devices (choose.lua), so only ids are transferred to the host. `pick` chooses from logits
-- that the host has changed. A writer serves texts of one batch size, one layout, and at most `room` positions.
--
-- The most recently used writers of a model are cached. take() removes a writer from the cache; give_back() returns
-- it after a text has ended without an error. Texts that are written concurrently therefore use separate writers. A
-- writer is discarded if anything has changed on which its traced steps depend: the model's tensors, functions and
-- settings, autocast, or the session's generation (layouts, pins).

local rille = require "rille"
local layout = require "rille.base.layout"
local settings = require "rille.nn.base.settings"
local trace = require "rille.step.trace"
local cache = require "rille.models.generation.cache"
local choose = require "rille.models.generation.choose"

local writer = {}

local MOST <const> = 4 -- maximum number of writers per model
local FORMS <const> = 48 -- maximum number of compiled forms of a step: combinations of settings and sizes

local kept = setmetatable({}, {__mode = "k"}) -- model -> its cached writers, most recently used first

-- ---- creating a writer and its compiled steps ----

-- Calls fn in eval mode and without gradients, and restores the model's modes afterwards.
local function quietly(model, fn, ...)
  local modules, was = model:modules(), {}
  trace.sets_modes()
  for i, m in ipairs(modules) do
    was[i] = m.training
    trace.turn(m, false)
  end
  local results = table.pack(pcall(rille.no_grad, fn, ...))
  for i, m in ipairs(modules) do trace.turn(m, was[i]) end
  if not results[1] then error(results[2], 0) end
  return table.unpack(results, 2, results.n)
end

-- Returns the features of some entries of each row, (batch, n, width). last: indices of the entries, i64 (batch, n).
local function entries_at(x, last)
  local batch, n, width = x.shape[1], last.shape[2], x.shape[3]
  return x:gather(1, layout.on_mesh_of(last, x):reshape{batch, n, 1}:expand{batch, n, width})
end

-- Returns a key for a set of sampling settings. Sets that need different programs have different keys: a key contains
-- the names of settings, their plain values, and the shapes of tensors.
local function form_of(how)
  local words = {}
  for name, value in pairs(how) do
    words[#words + 1] = name .. (type(value) == "string" and value or type(value) == "table" and "#" .. value.ids.shape[2] or "")
  end
  table.sort(words)
  return table.concat(words, " ")
end

-- Returns a function that calls fn as a compiled step. The last argument of the function is a table of settings.
-- There is one step for each form of the settings and each size of the first argument, at most FORMS.
local function by_form(fn)
  local steps, n = {}, 0
  return function(...)
    local args = table.pack(...)
    local key = table.concat(args[1].shape, " ") .. " " .. form_of(args[args.n])
    if not steps[key] then
      if n == FORMS then steps, n = {}, 0 end
      steps[key], n = rille.graph(fn), n + 1
    end
    return steps[key](...)
  end
end

-- Creates a writer and its steps. Arguments of the steps: last, the entries after which ids are chosen, i64 (batch,
-- n), nil if each row has one entry; how, the settings of choose.lua. If how.open is set, a step returns logits,
-- {scores =, logits =}, and chooses no ids.
local function new(model, batch, room, where)
  local seen, self = cache.new(batch, room), {}
  local function finish(x, last, how)
    local logits = model:logits(last and entries_at(x, last) or x)
    logits = logits:reshape{logits.shape[1] * logits.shape[2], logits.shape[3]}:to_global(where)
    local scores = choose.edit(how.beams and logits:log_softmax(1) or logits, how)
    if how.open then return {scores = scores, logits = logits} end
    return choose.pick(scores, logits, how)
  end
  self.prompt = by_form(function(ids, last, how)
    return quietly(model, function()
      seen:begin(ids)
      return finish(model:features(ids, seen), last, how)
    end)
  end)
  self.next = by_form(function(ids, at, last, how)
    return quietly(model, function()
      seen:go_to(at)
      return finish(model:features(ids, seen), last, how)
    end)
  end)
  self.next_of = by_form(function(ids, at, last, slots, inverse, how)
    return quietly(model, function()
      seen:go_to_rows(at, slots, inverse)
      return finish(model:features(ids, seen), last, how)
    end)
  end)
  self.pick = by_form(function(scores, logits, how) return choose.pick(scores, logits, how) end)
  self.reorder = rille.graph(function(from) seen:reorder(from) end)
  return self
end

-- ---- caching the writers of a model ----

-- Appends the contents of t to state, in sorted order: tensors, functions, plain values, and nested tables. A table
-- that occurs again is appended as its number.
local function add_table(t, state, seen)
  if seen[t] then
    state[#state + 1] = seen[t]
    return
  end
  seen[t] = ("table %d"):format(#state)
  state[#state + 1], state[#state + 2] = getmetatable(t) or false, t.forward or false
  local keys = {}
  for key in pairs(t) do
    if not settings.nowhere[key] then keys[#keys + 1] = key end
  end
  table.sort(keys, function(a, b)
    if type(a) ~= type(b) or type(a) == "boolean" then return type(a) < type(b) end
    return (type(a) == "number" or type(a) == "string") and a < b
  end)
  for _, key in ipairs(keys) do
    local part = rawget(t, key)
    state[#state + 1] = key
    -- a part with a function `settings` is compared by its settings, because it may also have caches
    if settings.speaks(part) then part = settings.said(t, key) end
    if type(part) == "table" and (getmetatable(part) == nil or part.named_modules) then
      add_table(part, state, seen)
    else
      state[#state + 1] = part
    end
  end
end

-- Returns a list of the values on which a trace of the model depends; and the session's generation, a number that
-- changes with layouts and pins.
local function state_of(model)
  local state = {model.features, model.logits}
  add_table(model, state, {})
  return state, rille.counters().generation
end

local function is_as_before(self, state, generation)
  if self.generation ~= generation or #self.state ~= #state then return false end
  for i, part in ipairs(state) do
    if not rawequal(part, self.state[i]) then return false end
  end
  return true
end

-- Returns the key of a writer: a string of the batch size, the number of positions and the layout.
local function key_of(batch, room, where)
  local sbp = type(where.sbp) == "table" and table.concat(where.sbp, " ") or where.sbp
  return table.concat({batch, room, tostring(where.placement), sbp, tostring(rille._autocast())}, "|")
end

-- Returns a writer for `batch` rows of at most `room` positions. where: layout of the ids.
function writer.take(model, batch, room, where)
  local list, key, found = kept[model] or {}, key_of(batch, room, where), nil
  local state, generation = state_of(model)
  for i = #list, 1, -1 do
    if not is_as_before(list[i], state, generation) then
      table.remove(list, i)
    elseif list[i].key == key then
      found = table.remove(list, i)
    end
  end
  if not found then
    found = new(model, batch, room, where)
    found.key, found.state, found.generation = key, state_of(model)
  end
  return found
end

-- Returns true if the compiled steps of a writer may still be used: the model's values and the session's generation
-- (layouts, pins) are those of the traces.
function writer.is_current(model, self) return is_as_before(self, state_of(model)) end

function writer.give_back(model, self)
  local list = kept[model] or {}
  kept[model] = list
  table.insert(list, 1, self)
  list[MOST + 1] = nil
end

return writer
