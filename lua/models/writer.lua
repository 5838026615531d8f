-- writer.lua - the compiled steps with which a model writes text, kept with it, so that only the first text compiles.
--
-- A writer has two: `prompt` reads whole prompts, (batch, length), and fills its cache of keys and values (cache.lua); `next`
-- takes the last id of each row and where it stands. Both choose the ids that come then, so that only ids leave the devices.
-- It serves texts of one batch and layout, as many positions as its room has, one way to choose; temperature and top_p
-- are asked for when a step runs.
--
-- Of each model the writers used last are kept. Who takes one has it alone, and gives it back when its text has ended well:
-- a text that is written while another one is has a writer of its own. What its steps were traced with - the model's
-- tensors, functions and settings, autocast, the session's generation (layouts, pins) - must be as it was; a writer for
-- which it is not is forgotten.

local rille = require "rille"
local layout = require "rille.layout"
local settings = require "rille.nn.settings"
local trace = require "rille.trace"
local cache = require "rille.models.cache"
local choose = require "rille.models.choose"

local writer = {}

local MOST = 4 -- of a model

local kept = setmetatable({}, {__mode = "k"}) -- model -> its writers, the one used last first

-- ---- making one ----

-- What fn gives, traced as in eval mode and without gradients, whatever mode the model is in.
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

-- The features at one entry of each row, (batch, 1, width); last: i64 (batch, 1).
local function entries_at(x, last)
  local batch, _, width = table.unpack(x.shape)
  return x:gather(1, layout.beside(last, x):reshape{batch, 1, 1}:expand{batch, 1, width})
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

-- ---- keeping them ----

-- What is in t, in an order of its own: tensors, functions, plain values, and tables within; one that came before by its turn.
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
    if settings.speaks(part) then part = settings.said(t, key) end -- it keeps more than what it computes with
    if type(part) == "table" and (getmetatable(part) == nil or part.named_modules) then
      add_table(part, state, seen)
    else
      state[#state + 1] = part
    end
  end
end

-- All that a trace of the model was made with.
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

-- What all texts of a writer have in common.
local function key_of(batch, room, where, o)
  local sbp = type(where.sbp) == "table" and table.concat(where.sbp, " ") or where.sbp
  return table.concat({batch, room, tostring(where.placement), sbp, tostring(o.temperature == 0), tostring(o.top_k),
    tostring(o.top_p ~= nil), tostring(rille._autocast())}, "|")
end

-- A writer for `batch` rows of at most `room` positions, ids laid out as `where` says. o: temperature, top_k, top_p.
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
