-- writer.lua - compiled steps for text generation. The steps are cached per model, so only the first text compiles.
--
-- A writer has two steps. `prompt` reads whole prompts, (batch, length), and fills the key/value cache (cache.lua).
-- `next` takes the last id of each row and its position. Both steps choose the following ids on the devices, so only
-- ids are transferred to the host. A writer serves texts of one batch size, one layout, one way to choose ids, and at
-- most `room` positions. temperature and top_p are read at each run.
--
-- The most recently used writers of a model are cached. take() removes a writer from the cache; give_back() returns it
-- after a text has ended without an error. Texts that are written concurrently therefore use separate writers. A writer
-- is discarded if something that its steps were traced with has changed: the model's tensors, functions and settings,
-- autocast, or the session's generation (layouts, pins).

local rille = require "rille"
local layout = require "rille.layout"
local settings = require "rille.nn.settings"
local trace = require "rille.trace"
local cache = require "rille.models.cache"
local choose = require "rille.models.choose"

local writer = {}

local MOST = 4 -- maximum number of writers per model

local kept = setmetatable({}, {__mode = "k"}) -- model -> its writers, most recently used first

-- ---- creating a writer ----

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

-- Returns the features at one position of each row, (batch, 1, width). last: positions, i64 (batch, 1).
local function entries_at(x, last)
  local batch, _, width = table.unpack(x.shape)
  return x:gather(1, layout.on_mesh_of(last, x):reshape{batch, 1, 1}:expand{batch, 1, width})
end

local function new(model, batch, room, where, o)
  local seen, how = cache.new(room), {}
  local self = {how = how}
  local by = {greedy = o.temperature == 0, top_k = o.top_k, top_p = o.top_p and rille.live(function() return how.top_p end),
    scale = rille.live(function() return 1 / how.temperature end)}
  local function pick(x, u)
    local logits = model:logits(x)
    return choose(logits:reshape{batch, logits.shape[3]}:to_global(where), u, by)
  end
  self.prompt = rille.graph(function(ids, last, u)
    return quietly(model, function()
      seen:begin(ids)
      return pick(entries_at(model:features(ids, seen), last), u)
    end)
  end)
  self.next = rille.graph(function(ids, at, u)
    return quietly(model, function()
      seen:go_to(at)
      return pick(model:features(ids, seen), u)
    end)
  end)
  return self
end

-- ---- keeping writers ----

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
    -- a part with settings is compared by its settings, not by its caches
    if settings.speaks(part) then part = settings.said(t, key) end
    if type(part) == "table" and (getmetatable(part) == nil or part.named_modules) then
      add_table(part, state, seen)
    else
      state[#state + 1] = part
    end
  end
end

-- Returns the values that a trace of the model depends on, and the session's generation (layouts, pins).
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

-- Returns the key that all texts of a writer share.
local function key_of(batch, room, where, o)
  local sbp = type(where.sbp) == "table" and table.concat(where.sbp, " ") or where.sbp
  return table.concat({batch, room, tostring(where.placement), sbp, tostring(o.temperature == 0), tostring(o.top_k),
    tostring(o.top_p ~= nil), tostring(rille._autocast())}, "|")
end

-- Returns a writer for `batch` rows of at most `room` positions, ids laid out as `where`. o: temperature, top_k, top_p.
function writer.take(model, batch, room, where, o)
  local list, key, found = kept[model] or {}, key_of(batch, room, where, o), nil
  local state, generation = state_of(model)
  for i = #list, 1, -1 do
    if not is_as_before(list[i], state, generation) then
      table.remove(list, i)
    elseif list[i].key == key then
      found = table.remove(list, i)
    end
  end
  if not found then
    found = new(model, batch, room, where, o)
    found.key, found.state, found.generation = key, state_of(model)
  end
  found.how.temperature, found.how.top_p = o.temperature, o.top_p
  return found
end

function writer.give_back(model, self)
  local list = kept[model] or {}
  kept[model] = list
  table.insert(list, 1, self)
  list[MOST + 1] = nil
end

return writer
