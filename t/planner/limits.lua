-- limits.lua - tests planned steps within memory limits (actors/session/planner/fit.c, whatif.c).
--
-- No device may hold more than the limit. If no plan meets the limit, the error must name the least limit.
local tap = dofile("t/lib/tap.lua")
local nn, optim = rille.nn, rille.optim
local programs, place, _, train = dofile("t/lib/steps/planned.lua")

-- Calls try(k) for k = n, ..., 1. try() plans with k / n of the needed memory as the limit, and returns true if a
-- plan meets the limit. After the first k that fails, only k = 1 is tried (RILLE_LONG=1: all k).
local function shares(n, try)
  local met = true
  for k = n, 1, -1 do
    if met or k == 1 or os.getenv("RILLE_LONG") then met = try(k) end
  end
end

-- Tries limits far above the need, tight limits, and impossible ones.
do
  local _, step = train("mlp", "line", "B", "S(0)", {auto_parallel = true, memory_limit = 1e9})
  tap.ok(step:explain().gap == 0, "a distant limit does not change the plan")
  local good, why = pcall(train, "mlp", "line", "B", "S(0)", {auto_parallel = true, memory_limit = 200})
  tap.ok(not good and tostring(why):find("memory") and tostring(why):find("%d+$"), "the error for a limit that no plan meets names the least: " .. tostring(why))
  good, why = pcall(train, "mlp", "line", "B", "S(0)", {auto_parallel = true, memory_limit = 1})
  tap.ok(not good and tostring(why):find("in 1 byte per device", 1, true), "the error for one byte says 1 byte: " .. tostring(why))
end

-- Tries memory limits. A plan must not exceed its limit. If no plan meets the limit, the error must name the least
-- limit, and a plan must exist for this one.
do
  local function most(limit, sbp, mode, program)
    rille.manual_seed(1)
    local P = place("grid")
    local net = programs[program or "mlp"]():to_global{placement = P, sbp = sbp}
    local opt = optim.AdamW(net:parameters(), {lr = 0.01})
    local step = tap.training(opt, function(x)
      return net(x):square():mean()
    end, {auto_parallel = mode, time_limit = 0.1, memory_limit = limit})
    for _ = 1, 2 do step(rille.ones({24, 16}, {placement = P, sbp = {"S(0)", "B"}})) end
    return tap.most(step:stats().devices, function(d) return d.peak_memory end)
  end
  local function reported(limit, mode)
    local good, why = pcall(most, limit, "auto", mode, "blocks")
    return not good and tostring(why):match("needs (%d+)$")
  end
  local least = reported(1, "optimal")
  for _, mode in ipairs{"propagate", "recursive", "greedy"} do
    if tap.share() then tap.is(reported(1, mode), least, mode .. ": the least limit does not depend on the mode") end
  end
  local good, held = pcall(most, least - 1, "auto", "propagate", "blocks")
  tap.ok(good and held < tonumber(least) or not good and tostring(held):match("needs (%d+)$") == least,
    "one byte below the least limit: the error names the same limit, or a longer search has found a plan", held)
  for name, sbp in tap.sorted{B = {"B", "B"}, auto = "auto"} do
    for _, mode in ipairs{"optimal", "greedy"} do
      if not tap.share() then goto next end
      local much, least = most(nil, sbp, mode), nil
      shares(6, function(k)
        local limit, what = much * k // 6, ("%s, %s, a limit of %d of %d bytes: "):format(mode, name, much * k // 6, much)
        local good, held = pcall(most, limit, sbp, mode)
        if good then
          tap.ok(held <= limit, what .. "no device holds more than the limit", held)
        else
          least = math.tointeger(tostring(held):match("memory_limit: .* needs (%d+)$"))
          tap.ok(least and least > limit, what .. "the error names the least limit", held)
        end
        return good
      end)
      local good, held = pcall(most, least, sbp, mode)
      tap.ok(good and held <= least, ("%s, %s: the least limit, %d bytes, has a plan"):format(mode, name, least), held)
      ::next::
    end
  end
end

-- Tries stages with planned layouts and a searched schedule: the plan stays within the limit, or the error names the
-- least limit.
do
  local A, B = rille.placement("cpu", {0, 1}), rille.placement("cpu", {2, 3})
  local PIECES <const> = 4
  local function staged(limit, mode)
    rille.manual_seed(1)
    local layers = tap.list(4, function(i) return nn.Linear(16, 16):to_global{placement = i <= 2 and A or B, sbp = "B"} end)
    local step = rille.graph(function(x)
      for i, layer in ipairs(layers) do x = layer(i == 3 and x:to_global{placement = B, sbp = "S(0)"} or x):gelu() end
      return tap_backward(x:square():mean())
    end, {auto_parallel = mode, time_limit = 600, micro_batches = PIECES, schedule = "auto", memory_limit = limit})
    local bits = {step(rille.randn({64 * PIECES, 16}, {placement = A, sbp = "S(0)"})):item()}
    for i, layer in ipairs(layers) do bits[i + 1] = layer.weight.grad:totable() end
    local most = tap.most(step:stats().devices, function(d) return d.peak_memory end)
    return most, bits, step
  end
  for _, mode in ipairs{"greedy", "optimal"} do
    if not tap.share() then goto next end
    local much, want = staged(nil, mode)
    local least
    shares(12, function(k)
      local limit = much * k // 12
      local good, held, bits, step = pcall(staged, limit, mode)
      local name = ("%s, %d of %d bytes: "):format(mode, limit, much)
      if good then
        tap.ok(held <= limit and k > 1, name .. "no device of the pipeline holds more than the limit", held)
        tap.is(bits, want, name .. "the same bits")
        -- calls explain(), which also computes regrets, in every fourth case only
        local reported = k % 4 > 0 or step:explain().bound > 0
        tap.ok(reported and #step:hints() > 0, name .. "explain() has a bound and hints")
      else
        least = math.tointeger(tostring(held):match("needs (%d+)$") or tostring(held):match("the least[%a ]* is (%d+)"))
        tap.ok(least and least > limit, name .. "the error names the least limit", held)
      end
      return good
    end)
    tap.ok(least and least < much, mode .. ": some limits below the memory of the free plan are met")
    ::next::
  end
end

-- Checks limits in whatif: they include scratch memory of kernels, and an error names the least limit.
if tap.share() then
  local P = place("line")
  local net = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))
  net:to_global{placement = P, sbp = "auto"}
  local opt = optim.AdamW(net:parameters(), {lr = 0.01})
  local step = tap.training(opt, function(x) return net(x):square():sum() end, {auto_parallel = true})
  step(rille.randn({512, 64}, {placement = P, sbp = "S(0)"}))
  local all = rille.whatif(step, {mesh = {4}})
  tap.ok(all.scratch > 0 and all.memory > all.scratch, "kernels take some of the memory", all.scratch .. " of " .. all.memory)
  local limits = {all.memory, all.memory - 1, all.memory - all.scratch // 2, all.memory * 3 // 4, all.scratch, 1}
  for k, e in ipairs(rille.whatif(step, {mesh = {4}, memory = limits})) do
    tap.ok(not e and k > 1 or e.memory <= limits[k], ("whatif within %d bytes reports %s"):format(limits[k], e and e.memory or "none"))
  end
  tap.fails(function() rille.whatif(step, {mesh = {4}, memory = 10}) end, {"10 bytes", "the least found needs", "with scratch memory of kernels"},
    "whatif names a limit that no plan meets, and the least")
  local _, message = pcall(rille.whatif, step, {mesh = {4}, memory = 10})
  local least = tonumber(tostring(message):match("the least found needs (%d+)"))
  local good, e = pcall(rille.whatif, step, {mesh = {4}, memory = least})
  tap.ok(good and e.memory <= least, ("whatif meets the least limit, %s bytes"):format(least))
end

-- Checks that plans without time for a search have a valid bound, too.
tap.group("a bound within a limit", function()
  local P, layouts, sizes = rille.placement("cpu", {0, 1, 2, 3}), {"S(0)", "S(1)", "B", "auto"}, {16, 32, 64}
  local met, vain = 0, nil
  for seed = 1, 20 do
    if not tap.share() then goto next end
    math.randomseed(seed)
    local d, weights = sizes[math.random(3)], {}
    for i = 1, math.random(1, 4) do
      weights[i] = rille.randn({d, d}, {placement = P, sbp = layouts[math.random(4)], requires_grad = true})
    end
    local x = rille.randn({64, d}, {placement = P, sbp = layouts[math.random(3)]})
    local function planned(mode, limit)
      local step = rille.graph(function(h)
        for _, w in ipairs(weights) do h = h:matmul(w):relu() end
        return tap_backward(h:square():sum())
      end, {auto_parallel = mode, memory_limit = limit, time_limit = 0.1})
      local good, why = pcall(step, x)
      return good and step:explain(), why
    end
    -- plans once to choose layouts for "auto" and to create gradients, so that the next steps plan equal programs
    planned("propagate")
    local much = planned("propagate").memory
    for _, limit in ipairs{much, much * 3 // 4} do
      local e, why = planned("propagate", limit)
      local what = ("SEED %d, %d of %d bytes: "):format(seed, limit, much)
      if e then
        met = met + 1
        if not (e.memory <= limit and e.bound > 0 and e.bound <= e.cost) then
          vain = vain or ("%stold %d, cost %d, bound %d"):format(what, e.memory, e.cost, e.bound)
        end
      elseif limit == much then
        vain = vain or what .. why
      end
    end
    ::next::
  end
  tap.ok((tap.which or met > 0) and not vain, "propagate: limits of known plans are met; bounds are above 0 and at most the cost", vain or met)
end)

tap.done()
