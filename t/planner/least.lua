-- least.lua - tests the least memory limit that a planner reports, on random programs
-- (actors/plan/outline/fusion_groups.c, sbp/limit/squeeze.c).
--
-- If no plan meets a limit, the error names the least limit with a plan. The planner must find a plan with that limit,
-- and none with a smaller limit. Every plan must keep its limit.
local tap = dofile("t/lib/tap.lua")
local SEED <const> = tonumber(os.getenv("SEED") or 1)
local CHAINS <const> = os.getenv("RILLE_LONG") and 200 or 10
local UNARY <const> = {"neg", "exp", "tanh", "relu", "square", "sigmoid"}
local BINARY <const> = {"add", "sub", "mul", "maximum"}
local LAYOUT <const> = {"S(0)", "S(1)", "B"}

-- Functions that add an operator on the values so far. v[0] is the argument.
local make = {
  function(v, i) local f = UNARY[math.random(#UNARY)]; return function() return rille[f](v[i - 1]) end end,
  function(v, i) local f, k = BINARY[math.random(#BINARY)], math.random(0, i - 1); return function() return rille[f](v[i - 1], v[k]) end end,
  function(v, i, w) local f, k = BINARY[math.random(#BINARY)], math.random(2); return function() return rille[f](v[i - 1], w[k]) end end,
  function(v, i, w) return function() return v[i - 1]:matmul(w.square) end end,
  function(v, i) return function() return v[i - 1]:softmax(-1) end end,
}
local SHARE <const> = {9, 15, 17, 18, 20} -- cumulative probabilities of the five kinds of operators, in twentieths

local function chain(seed)
  math.randomseed(seed)
  local rows, cols = 16 * math.random(8), 16 * math.random(8)
  local place = rille.placement("cpu", {0, 1, 2, 3})
  local function leaf(n) return rille.randn({n, cols}, {placement = place, sbp = LAYOUT[math.random(3)]}) end
  local v, w, call = {}, {leaf(rows), leaf(rows), square = leaf(cols)}, {}
  local x = leaf(rows)
  for i = 1, math.random(3, 8) do
    local draw, kind = math.random(20), 1
    while SHARE[kind] < draw do kind = kind + 1 end
    call[i] = make[kind](v, i, w)
  end
  -- Returns a function of the memory limit. The function returns two numbers: the bytes that the fullest device
  -- holds, and the bytes that the planner reports for this device. It raises an error if no plan meets the limit.
  return function(limit)
    local step = rille.graph(function(y)
      v[0] = y
      for i, f in ipairs(call) do v[i] = f() end
      local last = v[#call]
      for i in pairs(v) do v[i] = nil end
      return last
    end, {auto_parallel = true, memory_limit = limit, time_limit = 0.5})
    step(x)
    local held = tap.most(step:stats().devices, function(d) return d.peak_memory end)
    return held, rille.whatif(step, {mesh = {4}}).memory
  end
end

for seed = SEED, SEED + CHAINS - 1 do
  local run = chain(seed)
  local held, counted = run()
  tap.ok(counted >= 0.98 * held and counted <= 1.12 * held, ("seed %d: the planner counts %d bytes, the device holds %d"):format(seed, counted, held))
  local good, why = pcall(run, 1)
  local least = not good and math.tointeger(tostring(why):match("found needs (%d+)$"))
  tap.ok(least and least <= held, "a limit of one byte is refused, and the error names the least: " .. tostring(why))
  local fits, most = pcall(run, least)
  tap.ok(fits and most <= least, ("the least limit, %d bytes, has a plan of %s bytes"):format(least, tostring(most)))
  local low, high = 1, least -- low: a limit that is rejected; high: a limit that is accepted
  while high - low > 1 + least // 64 do
    local half = (low + high) // 2
    local accepted, bytes = pcall(run, half)
    if accepted then high = bytes else low = half end
    if accepted and bytes > half then break end
  end
  tap.is(high, least, "no lower limit has a plan")
end

-- Tries programs on meshes of one to three axes, with and without autocast and gradients. Strategies may split the
-- axis over which a call normalises. A refused limit names the least limit that has a plan. A second search must find
-- the same least limit, also after several rounds of planning.
local MESHES <const> = {{0, 1, 2, 3}, {{0, 1}, {2, 3}}, {{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}}, {0, 1}}
local PROGRAMS <const> = os.getenv("RILLE_LONG") and 300 or 8

local function program(seed)
  math.randomseed(seed)
  local mesh = MESHES[math.random(#MESHES)]
  local place, sizes = rille.placement("cpu", mesh), {}
  while type(mesh) == "table" do
    sizes[#sizes + 1] = #mesh
    mesh = mesh[1]
  end
  local rows, cols, cast, backward = 8 * math.random(8), 8 * math.random(8), math.random(2) == 1, math.random(3) == 1
  local function leaf(n)
    local sbp = tap.list(#sizes, function() return LAYOUT[math.random(3)] end)
    return rille.randn({n, cols}, {placement = place, sbp = #sizes == 1 and sbp[1] or sbp})
  end
  local function pieces()
    local cut = {1, 1}
    for _, n in ipairs(sizes) do
      local k = math.random(3)
      if k < 3 then cut[k] = cut[k] * n end
    end
    return math.random(3) == 1 and cut or nil
  end
  local v, w, call, x = {}, {leaf(rows), leaf(rows), square = leaf(cols)}, {}, leaf(rows)
  if backward then w[1]:requires_grad_() end
  for i = 1, math.random(2, 6) do
    local cut, f, k = pieces(), math.random(#BINARY), math.random(0, i - 1)
    local kinds = {
      function() return rille[UNARY[f]](v[i - 1]) end,
      function() return rille[BINARY[f]](v[i - 1], v[k]) end,
      function() return rille[BINARY[f]](v[i - 1], w[1 + k % 2]) end,
      function() return v[i - 1]:matmul(w.square, {strategy = cut and {cut, {cut[2], 1}}}) end,
      function() return v[i - 1]:softmax(1, {strategy = cut and {cut}}) end,
      function() return v[i - 1]:rms_norm(nil, {strategy = cut and {cut}}) end,
      function() return v[i - 1]:layer_norm(nil, nil, {strategy = cut and {cut}}) end,
    }
    call[i] = kinds[math.random(#kinds)]
  end
  local function forward()
    for i, f in ipairs(call) do v[i] = f() end
    return v[#call]
  end
  return function(limit)
    local step = rille.graph(function(y)
      v[0] = backward and y * w[1] or y
      local last = cast and rille.autocast("bf16", forward) or forward()
      for i in pairs(v) do v[i] = nil end
      if backward then
        last:to("f32"):square():mean():backward()
        w[1].grad = nil
      end
      return last
    end, {auto_parallel = true, memory_limit = limit, time_limit = 0.2})
    step(x)
    return tap.most(step:stats().devices, function(d) return d.peak_memory end)
  end
end

for seed = SEED, SEED + PROGRAMS - 1 do
  local run = program(seed)
  local free, held = pcall(run)
  local good, why = pcall(run, 1)
  local least = not good and math.tointeger(tostring(why):match("found needs (%d+)$"))
  local fits, most = pcall(run, least)
  tap.ok(free and least and fits and most <= least,
    ("program %d: the reported least limit, %s bytes, has a plan of %s bytes"):format(seed, least, most), free and why or held)
  local fewer, bytes = pcall(run, least and least - 1)
  tap.ok(fewer and bytes < least or math.tointeger(tostring(bytes):match("found needs (%d+)$")) == least,
    "a byte less has a smaller plan, or the error names the same least limit", bytes)
end
tap.done()
