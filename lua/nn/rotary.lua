-- rotary.lua - turning queries and keys by their position. Su et al. 2021.
--
-- nn.rotary_tables gives the tables of rille.rotary: cos, sin of position * frequency, each (length, size / 2), where
-- frequency i is base^(-2i / size). Angles are computed in f64: at large positions f32 has no digits left for them.
-- nn.Rotary keeps the tables on each placement where they were wanted, of as many positions as were, so that a model's
-- blocks share them and a long context costs what is used of it; they are constants and no part of a model's state.

local rille = require "rille"
local check = require "rille.check"
local layout = require "rille.layout"
local trace = require "rille.trace"

-- How longer contexts change the frequencies: factor f(i-th frequency) by `type` (`rope_type` in config.json).
local scalings = {}

function scalings.default() return 1 end
function scalings.linear(o) return 1 / o.factor end

-- Llama 3: wavelengths that the trained length holds often stay, those longer than it are stretched, between is blended.
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

local function frequencies(size, options)
  local list = {}
  local scaling = options.scaling or {rope_type = "default"}
  local factor = scalings[check_scaling("nn.rotary_tables", "scaling", scaling)]
  for i = 0, size // 2 - 1 do
    local f = options.base ^ (-2 * i / size)
    list[i + 1] = f * factor(scaling, f)
  end
  return list
end

local function tables(length, size, options)
  check.count("nn.rotary_tables", "the length", length)
  check.count("nn.rotary_tables", "the size", size)
  check.that(size % 2 == 0, "nn.rotary_tables: the size is even, not %d", size)
  options = check.options("nn.rotary_tables", options, {base = 10000, dtype = "f32", placement = check.none,
    scaling = check.none})
  check.positive("nn.rotary_tables", "base", options.base)
  local place = options.placement
  local where = {dtype = "f64", placement = place, sbp = place and layout.whole(place)}
  local frequency = rille.tensor(frequencies(size, options), where)
  local angle = rille.arange(length, where):reshape{length, 1} * frequency:reshape{1, size // 2}
  return angle:cos():to(options.dtype):detach(), angle:sin():to(options.dtype):detach()
end

local Rotary = {}
Rotary.__index, Rotary.__name = Rotary, "nn.Rotary"

local LEAST <const> = 64 -- positions of a table

-- Constants are made outside of a trace: a compiled step reads them as they are, also when others have longer ones.
function Rotary:tables(placement, positions)
  local at = #self.kept + 1
  for i, kept in ipairs(self.kept) do
    if kept.placement == placement then
      if kept.length >= positions then return kept.cos, kept.sin end
      at = i
    end
  end
  local kept = {placement = placement, length = LEAST}
  while kept.length < positions do kept.length = 2 * kept.length end
  kept.length = math.min(kept.length, self.length)
  kept.cos, kept.sin = trace.outside(tables, kept.length, self.size,
    {base = self.base, scaling = self.scaling, placement = placement})
  self.kept[at] = kept
  return kept.cos, kept.sin
end

-- x: (batch, heads, n, size), turned by its place; at: i64 (batch, n), all below most, or nil for 0, 1, 2...
function Rotary:turn(x, at, most)
  local cos, sin = self:tables(x.placement, math.min(self.length, at and (most or self.length) or x.shape[3]))
  if not at then return rille.rotary(x, cos, sin) end
  at = layout.beside(at, x)
  local batch, n, half = at.shape[1], at.shape[2], self.size // 2
  cos = rille.embedding(at, cos):reshape{batch, 1, n, half}
  sin = rille.embedding(at, sin):reshape{batch, 1, n, half}
  local a, b = x:slice(3, 0, half), x:slice(3, half, 2 * half)
  return rille.concat({a * cos - b * sin, b * cos + a * sin}, 3):to(x.dtype)
end

local function new(length, size, options)
  options = check.options("nn.Rotary", options, {base = 10000, scaling = check.none})
  check.count("nn.Rotary", "the length", length)
  check.that(math.type(size) == "integer" and size > 0 and size % 2 == 0, "nn.Rotary: the size is even, not %s", check.shown(size))
  check.positive("nn.Rotary", "base", options.base)
  if options.scaling ~= nil then check_scaling("nn.Rotary", "scaling", options.scaling) end
  return setmetatable({length = length, size = size, base = options.base, scaling = options.scaling, kept = {}}, Rotary)
end

return {tables = tables, new = new, check_scaling = check_scaling, is = function(v) return getmetatable(v) == Rotary end}
