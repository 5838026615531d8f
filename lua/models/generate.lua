-- generate.lua - model:generate(ids, {...}): extends prompts, one id per row at a time.
--
-- One pass reads the prompts; then a compiled step runs for each id. The model keeps both compiled steps (writer.lua).
-- Each row has its own random generator (seed, row), which draws one number per id. The chosen id is the id whose
-- interval of the cumulative distribution contains the number. So samples depend neither on the layout nor on other
-- rows.

local rille = require "rille"
local check = require "rille.check"
local layout = require "rille.layout"
local random = require "rille.random"
local prompts = require "rille.models.prompts"
local writer = require "rille.models.writer"

local who = "generate"

-- Temperatures below COLD are treated as 0 (greedy): any two different f32 logits are then far enough apart that the
-- likeliest id is certain, and 1 / temperature may exceed f32. A top_p below COLD is also greedy.
local COLD = 1e-30

-- ---- options ----

-- Returns the layout of ids: as the prompts', but never sharded along a row.
local function place_of(model, ids)
  if layout.is_tensor(ids) then return {placement = ids.placement, sbp = (ids.sbp:gsub("S%(1%)", "B"))} end
  return rille.parallel.input(model)
end

-- Returns the set of stop ids, from one id, a list of ids, or nil. An id outside the vocabulary is an error, because it
-- would never stop a text.
local function read_stops(stop, vocab)
  local list, stops, n = type(stop) == "table" and stop or {stop}, {}, 0
  for i = 1, #list do
    local id = check.whole(who, "a stop id", list[i], 0)
    check.that(id < vocab, "%s: a stop id must be below %d, the number of ids of the model, found %s", who, vocab, check.shown(id))
    stops[id] = true
  end
  for _ in pairs(list) do n = n + 1 end
  check.that(n == #list,
    "%s: stop must be an id or a list of ids; found a table with the keys %s", who, table.concat(check.sorted_keys(list), ", "))
  return stops
end

local function read_options(model, given, longest)
  local o = check.options(who, given, {max_new_tokens = 20, temperature = 1, top_k = check.none, top_p = check.none,
    seed = check.none, stop = check.none, on_token = check.none})
  check.whole(who, "max_new_tokens", o.max_new_tokens, 0)
  if check.number(who, "temperature", o.temperature, 0) < COLD then o.temperature = 0 end
  if o.top_k ~= nil then check.count(who, "top_k", o.top_k) end
  if o.top_p ~= nil then
    check.number(who, "top_p", o.top_p, 0)
    check.that(o.top_p > 0 and o.top_p <= 1, "%s: top_p must be above 0 and at most 1, found %s", who, check.shown(o.top_p))
    if o.top_p == 1 then o.top_p = nil elseif o.top_p < COLD then o.temperature = 0 end
  end
  if o.on_token ~= nil then check.fn(who, "on_token", o.on_token) end
  o.stops = read_stops(o.stop, model.config.vocab)
  check.that(o.max_new_tokens <= model.config.length - longest, -- not max_new_tokens + longest, which could overflow
    "%s: a prompt of %d ids and %d new ids exceed the model's %d positions; %s", who, longest, o.max_new_tokens,
    model.config.length, longest < model.config.length and ("at most %d new ids fit"):format(model.config.length - longest)
      or "a shorter prompt would do")
  if o.seed == nil then o.seed = rille.randint(0, 1 << 53, {1}):item() end
  check.integer(who, "seed", o.seed)
  return o
end

-- ---- the loop ----

local function drawers(seed, n)
  local mix, list = random.integers(seed), {}
  for r = 1, n do list[r] = random.numbers(mix()) end
  return list
end

-- Returns the number of positions to reserve for a text of n: a power of two from 64, at most `most`, so that texts of
-- similar length share a writer.
local function room_for(n, most)
  local room = 64
  while room < n do room = 2 * room end
  return math.min(room, most)
end

local function go_on(model, rows, longest, o, where)
  local w = writer.take(model, #rows, room_for(longest + o.max_new_tokens, model.config.length), where, o)
  local draw, ended = drawers(o.seed, #rows), {}

  local function ids(t) return rille.tensor(t, {dtype = "i64", placement = where.placement, sbp = where.sbp}) end
  local function column(values, dtype)
    local t = {}
    for r = 1, #rows do t[r] = {values(r)} end
    return rille.tensor(t, {dtype = dtype, placement = where.placement, sbp = where.sbp})
  end
  local function drawn() return o.temperature > 0 and column(function(r) return draw[r]() end, "f32") or nil end
  local function last() return column(function(r) return #rows[r] - 1 end, "i64") end

  local chosen, left = w.prompt(ids(prompts.padded(rows, longest)), last(), drawn()):totable(), #rows
  for n = 1, o.max_new_tokens do
    local told = {}
    for r, row in ipairs(rows) do
      check.that(ended[r] or chosen[r][1] >= 0, "%s: the logits after id %d of row %d are nan or inf", who, #row - 1, r - 1)
      told[r] = not ended[r] and chosen[r][1]
      if told[r] then
        row[#row + 1] = told[r]
        if o.stops[told[r]] then ended[r], left = true, left - 1 end
      end
    end
    if o.on_token then o.on_token(told) end
    if left == 0 or n == o.max_new_tokens then break end
    chosen = w.next(column(function(r) return rows[r][#rows[r]] end, "i64"), last(), drawn()):totable()
  end
  writer.give_back(model, w)
end

-- Returns the rows as a tensor: padded to the longest row with each row's last id.
local function as_tensor(rows, ids, where)
  local longest = 0
  for _, row in ipairs(rows) do longest = math.max(longest, #row) end
  return rille.tensor(prompts.padded(rows, longest), {dtype = ids.dtype, placement = where.placement, sbp = where.sbp})
end

return function(model, ids, given)
  if layout.is_tensor(ids) then
    model:check_ids(ids)
    check.that(ids.dtype ~= "u8" or model.config.vocab <= 256, "%s: the result has the prompts' dtype, and u8 cannot hold " ..
      "the %d ids of the model; use i32 or i64", who, model.config.vocab)
  end
  local rows, longest = prompts.read(who, ids, model.config.vocab)
  local o, where = read_options(model, given, longest), place_of(model, ids)
  if o.max_new_tokens > 0 then go_on(model, rows, longest, o, where) end
  return layout.is_tensor(ids) and as_tensor(rows, ids, where) or rows
end
