-- A mesh axis of one device costs nothing and changes nothing of a plan, whatever layouts are called there
-- (actors/plan/candidate.c, price.c).
local tap = dofile("t/tap.lua")
local rille = require "rille"

local P = rille.placement
local line = {"cpu", {0, 1, 2, 3}}
local square = {"cpu", {{0, 1}, {2, 3}}}
-- Meshes with axes of one device, and how an entry of the mesh without them is written there.
local meshes = {
  {line, {"cpu", {{0}, {1}, {2}, {3}}}, {1}},
  {line, {"cpu", {{0, 1, 2, 3}}}, {2}},
  {line, {"cpu", {{{0}, {1}, {2}, {3}}}}, {2}},
  {square, {"cpu", {{{0}, {1}}, {{2}, {3}}}}, {1, 2}},
  {square, {"cpu", {{{0, 1}}, {{2, 3}}}}, {1, 3}},
  {square, {"cpu", {{{0, 1}, {2, 3}}}}, {2, 3}},
}

local function axes(ranks)
  local n = 0
  while type(ranks) == "table" do ranks, n = ranks[1], n + 1 end
  return n
end

-- Entries of the axes that are not of one device, and `other` on those that are.
local function spread(entries, at, n, other)
  local sbp = {}
  for a = 1, n do sbp[a] = other end
  for k, a in ipairs(at) do sbp[a] = entries[k] end
  return sbp
end

local programs = {
  ["a sum of rows"] = function(place)
    local v = rille.randn({512, 64}, {placement = place, sbp = "auto"})
    return function() return v:exp():sum(0) end
  end,
  ["a training step"] = function(place, entries)
    local w = rille.randn({64, 64}, {placement = place, sbp = entries("S(0)", "S(1)")}):requires_grad_()
    local x = rille.randn({128, 64}, {placement = place, sbp = entries("S(0)", "B")})
    local opt = rille.optim.SGD({w}, {lr = 0.1, momentum = 0.9})
    return function()
      local loss = x:matmul(w):square():mean()
      loss:backward()
      opt:step()
      opt:zero_grad()
      return loss
    end
  end,
}

-- What is off, in words.
local function differs(a, b) return a ~= b and ("%s instead of %s"):format(b, a) or nil end

local function planned(place, program, entries)
  rille.manual_seed(5)
  local step = rille.graph(program(place, entries), {auto_parallel = true, time_limit = 20})
  local first = step():sum():item()
  return step:explain(), first, step():sum():item(), step:stats()
end

local function most(stats)
  local peak = 0
  for _, d in ipairs(stats.devices) do peak = math.max(peak, d.peak_memory) end
  return peak
end

for _, name in ipairs{"a sum of rows", "a training step"} do
  local program = programs[name]
  for _, m in ipairs(meshes) do
    local plain, with, at = P(table.unpack(m[1])), P(table.unpack(m[2])), m[3]
    local few, many = axes(m[1][2]), axes(m[2][2])
    local a, a1, a2, as = planned(plain, program, function(...)
      local e = {table.unpack({...}, 1, few)}
      return few == 1 and e[1] or e
    end)
    for _, other in ipairs{"B", "S(0)", "S(1)"} do
      local b, b1, b2, bs = planned(with, program, function(...)
        return spread({...}, at, many, other)
      end)
      local off = differs(a.cost, b.cost) or differs(a.bound, b.bound) or differs(a.bytes, b.bytes) or
        differs(most(as), most(bs)) or (math.abs(b2 - a2) > 1e-4 * math.abs(a2) and differs(a2, b2)) or nil
      tap.ok(not off and math.abs(b1 - a1) <= 1e-4 * math.abs(a1),
        ("%s: an axis of one device, %s on it, changes nothing of %s"):format(name, other, with),
        off and (off .. " (cost, bound, bytes, memory or value)"))
    end
  end
end

tap.done()
