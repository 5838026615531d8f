-- rotary.lua - rotary position embedding: rotates queries and keys by their position. Su et al. 2021.
--
-- nn.rotary_tables returns the tables for rille.rotary: cos and sin of position * frequency, each (length, size / 2),
-- with frequency i = base^(-2i / size). Angles are computed in f64, because f32 is too coarse for large positions.
--
-- nn.Rotary caches the tables per placement, for as many positions as were used so far. The blocks of a model share
-- the tables, and only the used part of a long context costs memory. The tables are constants, not part of a model's
-- state. If a field (base, scaling, size, length) changes, the next call computes new tables. For explicit positions,
-- angles are computed directly.

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"
local trace = require "rille.step.trace"

-- Scalings of the frequencies for long contexts, by `rope_type` (or `type`) of config.json: functions f(o, frequency,
-- i, size, base, long) that return the factor of the i-th frequency (from 0).
-- o: the options of the scaling. long: true if the text is longer than o.original_max_position_embeddings.
local scalings = {}

function scalings.default() return 1 end
function scalings.linear(o) return 1 / o.factor end

-- Dynamic scaling: has no effect up to the model's length, and longer texts are refused.
function scalings.dynamic() return 1 end

-- Llama 3: keeps frequencies whose wavelength is much shorter than the trained length, and divides frequencies with a
-- longer wavelength by the factor. Interpolates between both.
function scalings.llama3(o, frequency)
  local turns = o.original_max_position_embeddings * frequency / (2 * math.pi)
  local kept = (turns - o.low_freq_factor) / (o.high_freq_factor - o.low_freq_factor)
  kept = math.min(1, math.max(0, kept))
  return kept + (1 - kept) / o.factor
end

-- YaRN (Peng et al. 2023): keeps frequencies of at least beta_fast turns within the trained length. Divides
-- frequencies of at most beta_slow turns by the factor. Interpolates linearly by index between both.
function scalings.yarn(o, _, i, size, base)
  local function index_of(turns)
    return size * math.log(o.original_max_position_embeddings / (turns * 2 * math.pi)) / (2 * math.log(base))
  end
  local first, last = index_of(o.beta_fast or 32), index_of(o.beta_slow or 1)
  if o.truncate ~= false then first, last = math.floor(first), math.ceil(last) end
  first, last = math.max(first, 0), math.min(last, size - 1)
  local scaled = math.min(1, math.max(0, (i - first) / math.max(last - first, 0.001)))
  return 1 - scaled + scaled / o.factor
end

-- LongRoPE (Ding et al. 2024): a factor for each frequency, from one of two lists.
function scalings.longrope(o, _, i, _, _, long) return 1 / (long and o.long_factor or o.short_factor)[i + 1] end

-- rope_type -> function that returns the factor by which cos and sin are multiplied; no entry: 1.
local magnitudes = {}

function magnitudes.yarn(o)
  local function grows(scale) return o.factor > 1 and 0.1 * scale * math.log(o.factor) + 1 or 1 end
  if o.attention_factor then return o.attention_factor end
  local both = (o.mscale or 0) ~= 0 and (o.mscale_all_dim or 0) ~= 0
  return both and grows(o.mscale) / grows(o.mscale_all_dim) or grows(1)
end

function magnitudes.longrope(o)
  if o.attention_factor then return o.attention_factor end
  return o.factor > 1 and math.sqrt(1 + math.log(o.factor) / math.log(o.original_max_position_embeddings)) or 1
end

local wants = {
  default = {},
  linear = {"factor"},
  dynamic = {"factor"},
  llama3 = {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"},
  yarn = {"factor", "original_max_position_embeddings"},
  longrope = {"factor", "original_max_position_embeddings"},
}
local allows = {yarn = {"beta_fast", "beta_slow", "attention_factor", "mscale", "mscale_all_dim"}, longrope = {"attention_factor"}}

local function check_positive(who, what, kind, name, value)
  check.that(type(value) == "number" and value > 0 and value < math.huge,
    "%s: %s: %s needs a positive, finite number '%s', found %s", who, what, kind, name, check.shown(value))
end

-- Checks a scaling, and returns the name of its type. size: the rotated size of a head, if known.
local function check_scaling(who, what, scaling, size)
  check.that(type(scaling) == "table", "%s: %s must be a table, {rope_type =, factor =}, found %s", who, what, check.shown(scaling))
  local kind = scaling.rope_type or scaling.type
  check.that(type(kind) == "string" and wants[kind], "%s: %s: unknown scaling %s; expected one of: %s", who, what,
    check.shown(kind), table.concat(check.sorted_keys(wants), ", "))
  for _, name in ipairs(wants[kind]) do check_positive(who, what, kind, name, scaling[name]) end
  for _, name in ipairs(allows[kind] or {}) do
    if scaling[name] ~= nil then check_positive(who, what, kind, name, scaling[name]) end
  end
  check.that(kind ~= "llama3" or scaling.low_freq_factor < scaling.high_freq_factor,
    "%s: %s: low_freq_factor of llama3 must be below high_freq_factor, found %s and %s", who, what,
    check.shown(scaling.low_freq_factor), check.shown(scaling.high_freq_factor))
  for _, name in ipairs(kind == "longrope" and {"short_factor", "long_factor"} or {}) do
    local list = scaling[name]
    check.that(type(list) == "table" and (not size or #list == size // 2), "%s: %s: %s must be a list of %s numbers, found %s", who,
      what, name, size and size // 2 or "size / 2", type(list) == "table" and ("of %d"):format(#list) or check.shown(list))
    for _, value in ipairs(list) do check_positive(who, what, kind, name, value) end
  end
  return kind
end

local unscaled = {rope_type = "default"}

-- Returns the frequencies, f64 {1, size / 2}, and the factor of cos and sin. long: true if the text is longer than
-- the length of the original training; only LongRoPE has other frequencies then.
local function frequencies(size, options, long)
  local list = {}
  local scaling = options.scaling or unscaled
  local kind = check_scaling("nn.rotary_tables", "scaling", scaling, size)
  for i = 0, size // 2 - 1 do
    local f = options.base ^ (-2 * i / size)
    list[i + 1] = f * scalings[kind](scaling, f, i, size, options.base, long)
  end
  local place = options.placement
  return rille.tensor({list}, {dtype = "f64", placement = place, sbp = place and layout.replicated(place)}),
    magnitudes[kind] and magnitudes[kind](scaling) or 1
end

-- Returns true if texts with this number of positions use LongRoPE's second list of factors.
local function is_long(length, scaling)
  return scaling ~= nil and scaling.long_factor ~= nil and length > scaling.original_max_position_embeddings
end

local function turns(angle, dtype, magnitude)
  local cos, sin = angle:cos(), angle:sin()
  if magnitude ~= 1 then cos, sin = cos * magnitude, sin * magnitude end
  return cos:to(dtype), sin:to(dtype)
end

local function check_size(who, size)
  check.that(math.type(size) == "integer" and size > 0 and size % 2 == 0, "%s: size must be an even, positive integer, found %s", who,
    check.quoted(size))
end

local function tables(length, size, options, long)
  check.count("nn.rotary_tables", "length", length)
  check_size("nn.rotary_tables", size)
  options = check.options("nn.rotary_tables", options, {base = 10000, dtype = "f32", placement = check.none,
    scaling = check.none})
  check.positive("nn.rotary_tables", "base", options.base)
  layout.check_placement("nn.rotary_tables", options.placement)
  if options.scaling ~= nil then check_scaling("nn.rotary_tables", "scaling", options.scaling, size) end
  if long == nil then long = is_long(length, options.scaling) end
  local frequency, magnitude = frequencies(size, options, long)
  local where = {dtype = "f64", placement = frequency.placement, sbp = frequency.sbp}
  local cos, sin = turns(rille.arange(length, where):reshape{length, 1} * frequency, options.dtype, magnitude)
  return cos:detach(), sin:detach()
end

local Rotary = {}
Rotary.__index, Rotary.__name = Rotary, "nn.Rotary"

local LEAST <const> = 64 -- minimum number of positions of a table

local function check_fields(self)
  check.count("nn.Rotary", "length", self.length)
  check_size("nn.Rotary", self.size)
  check.positive("nn.Rotary", "base", self.base)
  if self.scaling ~= nil then check_scaling("nn.Rotary", "scaling", self.scaling, self.size) end
end

local function copy_of(t)
  local copy = {}
  for key, v in pairs(t) do copy[key] = v end
  return copy
end

-- Returns true if two tables have equal entries, or if both are nil.
local function same_entries(a, b)
  for key, v in pairs(a or {}) do
    if not b or b[key] ~= v then return false end
  end
  for key in pairs(b or {}) do
    if not a or a[key] == nil then return false end
  end
  return true
end

-- Returns true if the cached tables were made with the present fields.
local function is_of(kept, self)
  local of = kept.of
  return of.base == self.base and of.size == self.size and of.length == self.length and same_entries(of.scaling, self.scaling)
end

local function new_tables(self, placement)
  check_fields(self)
  local of = {base = self.base, size = self.size, length = self.length, scaling = self.scaling and copy_of(self.scaling)}
  local where = {base = of.base, scaling = of.scaling, placement = placement}
  local new = {placement = placement, short = {length = 0}, long = {length = 0}, of = of, where = where,
    -- table for a check of positions, with a row per position and no columns: looking up a position of self.length or
    -- more is an error
    there = trace.outside(rille.zeros, {of.length, 0}, {dtype = "f64", placement = placement, sbp = layout.replicated(placement)})}
  new.short.frequency, new.magnitude = trace.outside(frequencies, of.size, where)
  if is_long(of.length, of.scaling) then new.long.frequency = trace.outside(frequencies, of.size, where, true) end
  return new
end

-- Returns the cache of a placement. Constants are created outside a trace, because a compiled step keeps its tables
-- even if another caller later needs longer ones.
function Rotary:on(placement)
  if trace.meets(self) then trace.follow(self, {"base", "size", "length", "scaling", "interleaved"}) end
  local place = #self.kept + 1
  for i, kept in ipairs(self.kept) do
    if kept.placement == placement then place = i end
  end
  local kept = self.kept[place]
  if not kept or not is_of(kept, self) then
    kept = new_tables(self, placement)
    self.kept[place] = kept
  end
  return kept
end

-- Returns the tables of cosines and sines for at least `positions` positions, and for at most self.length.
function Rotary:tables(placement, positions)
  local kept = self:on(placement)
  positions = math.min(positions, self.length)
  local long = is_long(positions, self.scaling)
  local own = long and kept.long or kept.short
  if own.length < positions then
    local length = math.max(own.length, LEAST)
    while length < positions do length = 2 * length end
    own.length = math.min(length, self.length)
    own.cos, own.sin = trace.outside(tables, own.length, self.size, kept.where, long)
  end
  return own.cos, own.sin
end

-- Computes the tables for explicit positions, (batch, 1, n, size / 2). at: i64 (batch, n). lengths: i64 (batch, n or
-- 1), length of the text to which each position belongs, which selects one of LongRoPE's two lists of factors; nil:
-- at + 1, as for a text that is being generated.
function Rotary:tables_at(at, lengths)
  local kept, batch, n = self:on(at.placement), at.shape[1], at.shape[2]
  local frequency = kept.short.frequency
  if kept.long.frequency then
    lengths = lengths or at + 1
    local long = lengths:gt(math.tointeger(self.scaling.original_max_position_embeddings)):reshape{lengths.shape[1], lengths.shape[2], 1}
    frequency = rille.where(long, kept.long.frequency, frequency)
  end
  local angle = rille.concat({at:to("f64"):reshape{batch, n, 1} * frequency, rille.embedding(at, kept.there)}, 2)
  return turns(angle:reshape{batch, 1, n, self.size // 2}, "f32", kept.magnitude)
end

-- Rotates pairs of elements of x by the angles with these cosines and sines, which may differ between the rows of a
-- batch.
local function rotate(x, cos, sin, interleaved)
  local size, half, last = x.shape[4], x.shape[4] // 2, x.ndim - 1
  local function part(k)
    if interleaved then return x:slice(last, k, size, 2) end
    return x:slice(last, k * half, (k + 1) * half)
  end
  local a, b = part(0), part(1)
  a, b = a * cos - b * sin, b * cos + a * sin
  if interleaved then return rille.stack({a, b}, 4):reshape(x.shape):to(x.dtype) end
  return rille.concat({a, b}, 3):to(x.dtype)
end

-- Rotates q and k, each (batch, heads, n, head size), by their positions. at: i64 (batch, n); nil: 0, 1, 2... lengths:
-- see tables_at. If a head is larger than self.size, only its first self.size elements are rotated.
function Rotary:turn(q, k, at, lengths)
  for name, x in pairs{q = q or false, k = k or false} do
    check.that(layout.is_tensor(x) and x.ndim == 4, "nn.Rotary: %s must be a tensor (batch, heads, n, head size), found %s", name,
      layout.is_tensor(x) and tostring(x.shape) or check.shown(x or nil))
  end
  local interleaved, fn, cos, sin = self.interleaved or false, rille.rotary, nil, nil
  if at then
    fn, cos, sin = rotate, self:tables_at(layout.on_mesh_of(at, q), lengths and layout.on_mesh_of(lengths, q))
  else
    cos, sin = self:tables(q.placement, q.shape[3])
  end
  local function rotated(x)
    local size = x.shape[4]
    if size == self.size then return fn(x, cos, sin, interleaved) end
    return rille.concat({fn(x:slice(3, 0, self.size), cos, sin, interleaved), x:slice(3, self.size, size)}, 3)
  end
  return rotated(q), rotated(k)
end

-- Returns the settings that determine the rotation.
function Rotary:settings()
  return {base = self.base, size = self.size, scaling = self.scaling, interleaved = self.interleaved}
end

local function new(length, size, options)
  options = check.options("nn.Rotary", options, {base = 10000, scaling = check.none, interleaved = false})
  local self = {length = length, size = size, base = options.base, scaling = options.scaling,
    interleaved = options.interleaved or nil, kept = {}}
  check_fields(self)
  return setmetatable(self, Rotary)
end

return {tables = tables, new = new, check_scaling = check_scaling, is = function(v) return getmetatable(v) == Rotary end}
