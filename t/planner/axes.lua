-- axes.lua - tests mesh axes of size 1, and meshes of many axes (actors/plan/assign/candidate.c, price.c).
--
-- An axis of one device must cost nothing and must not change the plan, whatever its SBP entries. On many axes, the
-- operators of a long program have few candidates, but requested strategies must be among them.
local tap = dofile("t/lib/tap.lua")

local P = rille.placement
local line = {"cpu", {0, 1, 2, 3}}
local square = {"cpu", {{0, 1}, {2, 3}}}
-- Pairs of meshes: one without axes of size 1, and one with such axes. Third column: for each axis of the first mesh,
-- its position in the second mesh.
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

-- Returns an SBP list for n axes: `entries` on the axes at positions `at`, and `other` on the remaining axes, which
-- have size 1.
local function spread(entries, at, n, other)
  local sbp = tap.list(n, function() return other end)
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
    return function() return tap_update(opt, x:matmul(w):square():mean()) end
  end,
}

-- Returns a text that describes the difference between a and b; nil if they are equal.
local function differs(a, b) return a ~= b and ("%s instead of %s"):format(b, a) or nil end

local function planned(place, program, entries)
  rille.manual_seed(5)
  local step = rille.graph(program(place, entries), {auto_parallel = true, time_limit = 20})
  local first = step():sum():item()
  return step:explain(), first, step():sum():item(), step:stats()
end

local function most(stats) return tap.most(stats.devices, function(d) return d.peak_memory end) end

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
      local b, b1, b2, bs = planned(with, program, function(...) return spread({...}, at, many, other) end)
      local off = differs(a.cost, b.cost) or differs(a.bound, b.bound) or differs(a.bytes, b.bytes) or
        differs(most(as), most(bs)) or (math.abs(b2 - a2) > 1e-4 * math.abs(a2) and differs(a2, b2)) or nil
      tap.ok(not off and math.abs(b1 - a1) <= 1e-4 * math.abs(a1),
        ("%s: an axis of one device with entry %s does not change the plan on %s"):format(name, other, with),
        off and (off .. " (cost, bound, bytes, memory or value)"))
    end
  end
end

-- Tries many axes. Operators of a short program have all candidates, those of a long program only few. The candidate
-- that a strategy requests must be one of them.
local cube = P("cpu", {{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}})

local function chain(length, strategy)
  rille.manual_seed(7)
  local x = rille.randn({16, 8}, {placement = cube, sbp = {"B", "B", "B"}})
  local w = rille.randn({8, 24}, {placement = cube, sbp = "auto"})
  local step = rille.graph(function(x)
    local y = x:matmul(w, {strategy = strategy})
    for _ = 1, length do y = y:tanh() end
    return y:sum()
  end, {auto_parallel = true, time_limit = 0.01})
  return step, step(x):item()
end

local function candidates(e, name)
  local most = 0
  for _, op in ipairs(e.ops) do
    if op.name == name then most = math.max(most, #op.candidates) end
  end
  return most
end

do
  local parts <const> = {{2, 2}, {2, 2}}
  local short, value = chain(1)
  local few = candidates(short:explain(), "matmul")
  for _, c in ipairs{{1, parts}, {400}, {400, parts}} do
    local step, other = chain(table.unpack(c))
    local e = step:explain()
    local what = ("%d operators, %s: "):format(c[1], c[2] and "a strategy" or "no strategy")
    tap.ok(e.bound <= e.cost and e.gap >= 0, what .. "explain() has a plan and a bound")
    if c[1] == 1 then tap.ok(math.abs(other - value) < 1e-3, what .. "the sum is equal", other .. " and " .. value) end
    if c[1] > 1 and not c[2] then
      local n = candidates(e, "matmul")
      tap.ok(n > 1 and n < few, what .. "matmul has fewer candidates than in a short program", n .. " and " .. few)
    end
    for _, op in ipairs(c[2] and e.ops or {}) do
      if op.name == "matmul" then
        local cut = table.concat(op.candidates[1].outputs, " ") .. table.concat(op.candidates[1].inputs, " ")
        tap.ok(cut:find("S(0)", 1, true) and cut:find("S(1)", 1, true) and cut:find("P", 1, true),
          what .. "rows, columns and the contraction are split", cut)
      end
    end
  end
  local x = rille.randn({8, 8, 8}, {placement = cube, sbp = {"S(0)", "S(1)", "S(2)"}})
  local step = rille.graph(function()
    local y = x
    for _ = 1, 400 do y = y:tanh() end
    return y
  end, {auto_parallel = true, time_limit = 0.01})
  step()
  local least, e = 1, step:explain()
  for _, op in ipairs(e.ops) do least = math.min(least, op.candidates[1].share) end
  tap.ok(least == 1 / 8 and e.bytes == 0, "a tensor split on three axes stays split in a long program, with 1/8 of the work per device", least)
  for _, mesh in ipairs{{2, 2, 2, 2}, {16, 16, 16, 24}, {10, 10, 10, 10, 10}, {2, 2, 2, 2, 2, 2}, {12, 8, 8, 8, 8, 2}} do
    local e = rille.whatif(chain(400), {mesh = mesh})
    tap.ok(e.cost > 0 and e.bound <= e.cost, table.concat(mesh, " x ") .. ": whatif finds a plan and a bound")
  end
end

tap.done()
