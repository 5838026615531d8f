-- rotary.lua - rotary position embedding: rotates queries and keys by their position. Su et al. 2021.
--
-- nn.rotary_tables returns the tables for rille.rotary: cos and sin of position * frequency, each (length, size / 2),
-- with frequency i = base^(-2i / size). Angles are computed in f64, because f32 is too coarse for large positions.
--
-- nn.Rotary caches the tables per placement, for as many positions as were used so far. The blocks of a model share the
-- tables, and a long context costs memory only for its used part. The tables are constants and not part of a model's
-- state. If a field (base, scaling, size, length) changes, the next call computes new tables. For explicit positions,
-- angles are computed directly.

local rille = require "rille"
local check = require "rille.check"
local layout = require "rille.layout"
local trace = require "rille.trace"

-- Scalings of the frequencies for long contexts: factor f(i-th frequency), by `type` (`rope_type` in config.json).
local scalings = {}

function scalings.default() return 1 end
function scalings.linear(o) return 1 / o.factor end

-- Llama 3: keeps wavelengths much shorter than the trained length, stretches longer ones, and blends between.
function scalings.llama3(o, frequency)
  local turns = o.original_max_position_embeddings * frequency / (2 * math.pi)
  local kept = (turns - o.low_freq_factor) / (o.high_freq_factor - o.low_freq_factor)
  kept = math.min(1, math.max(0, kept))
  return kept + (1 - kept) / o.factor
end

local wants = {
  default = {},
  linear = {"factor"},
  llama3 = {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"},
}

local function check_scaling(who, what, scaling)
  check.that(type(scaling) == "table", "%s: %s is a table, {rope_type =, factor =}, not %s", who, what, check.shown(scaling))
  local kind = scaling.rope_type or scaling.type
  check.that(type(kind) == "string" and wants[kind], "%s: %s: no scaling is called %s; there are: %s", who, what,
    check.shown(kind), table.concat(check.sorted_keys(wants), ", "))
  for _, name in ipairs(wants[kind]) do
    local value = scaling[name]
    check.that(type(value) == "number" and value > 0 and value < math.huge,
      "%s: %s: %s wants a positive, finite number '%s', not %s", who, what, kind, name, check.shown(value))
  end
  check.that(kind ~= "llama3" or scaling.low_freq_factor < scaling.high_freq_factor,
    "%s: %s: llama3 wants a low_freq_factor below its high_freq_factor, not %s and %s", who, what,
    check.shown(scaling.low_freq_factor), check.shown(scaling.high_freq_factor))
  return kind
end

-- Returns the frequencies, f64 {1, size / 2}.
local function frequencies(size, options)
  local list = {}
  local scaling = options.scaling or {rope_type = "default"}
  local factor = scalings[check_scaling("nn.rotary_tables", "scaling", scaling)]
  for i = 0, size // 2 - 1 do
    local f = options.base ^ (-2 * i / size)
    list[i + 1] = f * factor(scaling, f)
  end
  local place = options.placement
  return rille.tensor({list}, {dtype = "f64", placement = place, sbp = place and layout.whole(place)})
end

local function turns(angle, dtype) return angle:cos():to(dtype), angle:sin():to(dtype) end

local function tables(length, size, options)
  check.count("nn.rotary_tables", "the length", length)
  check.count("nn.rotary_tables", "the size", size)
  check.that(size % 2 == 0, "nn.rotary_tables: the size is even, not %d", size)
  options = check.options("nn.rotary_tables", options, {base = 10000, dtype = "f32", placement = check.none,
    scaling = check.none})
  check.positive("nn.rotary_tables", "base", options.base)
  layout.check_placement("nn.rotary_tables", options.placement)
  local frequency = frequencies(size, options)
  local where = {dtype = "f64", placement = frequency.placement, sbp = frequency.sbp}
  local cos, sin = turns(rille.arange(length, where):reshape{length, 1} * frequency, options.dtype)
  return cos:detach(), sin:detach()
end

local Rotary = {}
Rotary.__index, Rotary.__name = Rotary, "nn.Rotary"

local LEAST <const> = 64 -- minimum positions of a table

local function check_fields(self)
  check.count("nn.Rotary", "the length", self.length)
  check.that(math.type(self.size) == "integer" and self.size > 0 and self.size % 2 == 0, "nn.Rotary: the size is even, not %s",
    check.shown(self.size))
  check.positive("nn.Rotary", "base", self.base)
  if self.scaling ~= nil then check_scaling("nn.Rotary", "scaling", self.scaling) end
end

local function copy_of(t)
  local copy = {}
  for key, v in pairs(t) do copy[key] = v end
  return copy
end

-- Returns true if two tables have equal entries, or both are nil.
local function same_entries(a, b)
  for key, v in pairs(a or {}) do
    if not b or b[key] ~= v then return false end
  end
  for key in pairs(b or {}) do
    if not a or a[key] == nil then return false end
  end
  return true
end

-- Returns true if the cached tables were made with the current fields.
local function is_of(kept, self)
  local of = kept.of
  return of.base == self.base and of.size == self.size and of.length == self.length and same_entries(of.scaling, self.scaling)
end

local function new_tables(self, placement)
  check_fields(self)
  local of = {base = self.base, size = self.size, length = self.length, scaling = self.scaling and copy_of(self.scaling)}
  local where = {base = of.base, scaling = of.scaling, placement = placement}
  return {placement = placement, length = 0, of = of, where = where, frequency = trace.outside(frequencies, of.size, where),
    -- A table without columns, one row per position: looking up a position beyond the length is an error.
    there = trace.outside(rille.zeros, {of.length, 0}, {dtype = "f64", placement = placement, sbp = layout.whole(placement)})}
end

-- Returns the cache of a placement. Constants are created outside a trace: a compiled step keeps its tables, even if
-- another caller needs longer tables.
function Rotary:on(placement)
  if trace.meets(self) then trace.follow(self, {"base", "size", "length", "scaling"}) end
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

-- Returns the tables for at least `positions` positions, at most self.length.
function Rotary:tables(placement, positions)
  local kept = self:on(placement)
  positions = math.min(positions, self.length)
  if kept.length < positions then
    local length = math.max(kept.length, LEAST)
    while length < positions do length = 2 * length end
    kept.length = math.min(length, self.length)
    kept.cos, kept.sin = trace.outside(tables, kept.length, self.size, kept.where)
  end
  return kept.cos, kept.sin
end

-- Rotates q and k, each (batch, heads, n, size), by their positions. at: i64 (batch, n); nil: 0, 1, 2...
function Rotary:turn(q, k, at)
  if not at then
    local cos, sin = self:tables(q.placement, q.shape[3])
    return rille.rotary(q, cos, sin), rille.rotary(k, cos, sin)
  end
  at = layout.beside(at, q)
  local kept, batch, n, half = self:on(at.placement), at.shape[1], at.shape[2], self.size // 2
  local angle = rille.concat({at:to("f64"):reshape{batch, n, 1} * kept.frequency, rille.embedding(at, kept.there)}, 2)
  local cos, sin = turns(angle:reshape{batch, 1, n, half}, "f32")
  local function rotated(x)
    local a, b = x:slice(3, 0, half), x:slice(3, half, 2 * half)
    return rille.concat({a * cos - b * sin, b * cos + a * sin}, 3):to(x.dtype)
  end
  return rotated(q), rotated(k)
end

-- Returns the settings that determine the rotation.
function Rotary:settings() return {base = self.base, size = self.size, scaling = self.scaling} end

local function new(length, size, options)
  options = check.options("nn.Rotary", options, {base = 10000, scaling = check.none})
  local self = {length = length, size = size, base = options.base, scaling = options.scaling, kept = {}}
  check_fields(self)
  return setmetatable(self, Rotary)
end

return {tables = tables, new = new, check_scaling = check_scaling, is = function(v) return getmetatable(v) == Rotary end}
