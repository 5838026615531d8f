-- replicas.lua - tests that a variable's replicas on devices of one host share one buffer. Each device writes one
-- slice of the buffer (actors/plan/outline/shared_update.h).
--
-- Every reader and writer of the variable must see the same values.
local tap = dofile("t/lib/tap.lua")
local optim = rille.optim
-- The weight has 66,560 bytes, more than the threshold for sharing. The number of devices does not divide its rows.
local ROWS <const>, COLUMNS <const>, BATCH <const> = 130, 128, 24

-- Values are small integers, so sums have the same bits in any order.
local function whole(shape, how) return rille.randint(-2, 3, shape, how):to("f32") end

local function trained(how, batch, pieces, zero)
  rille.manual_seed(3)
  local w = whole({ROWS, COLUMNS}):to_global(how):detach():requires_grad_()
  local all = type(how.sbp) == "table" and {"B", "B"} or "B"
  local b = whole({COLUMNS}):to_global{placement = how.placement, sbp = all}:detach():requires_grad_()
  local opt = optim.SGD({w, b}, {lr = 1, momentum = 1})
  local step = tap.training(opt, function(x, y) return ((x:matmul(w) + b) * y):sum() end, {micro_batches = pieces, zero = zero})
  local x = whole({BATCH, ROWS}):to_global{placement = how.placement, sbp = batch}
  local y = whole({BATCH, COLUMNS}):to_global{placement = how.placement, sbp = batch}
  return w, function() return step(x, y):item() end, step, opt
end

local function live_bytes()
  collectgarbage(); collectgarbage()
  return tap.sum(rille.devices(), function(d) return d.live_bytes end)
end

local function place(mesh) return rille.placement("cpu", mesh) end

tap.group("layouts", function()
  local one, go = trained({placement = place{0}, sbp = "B"}, "B", 1)
  local losses, want = {go(), go(), go()}, one:totable()
  local cases = {
    {"2 ranks", {0, 1}, "B", "S(0)"},
    {"4 ranks", {0, 1, 2, 3}, "B", "S(0)"},
    {"2 x 2", {{0, 1}, {2, 3}}, {"B", "B"}, {"S(0)", "B"}},
    {"2 x 2, columns split", {{0, 1}, {2, 3}}, {"B", "S(1)"}, {"S(0)", "B"}},
    {"2 x 2, rows split", {{0, 1}, {2, 3}}, {"S(0)", "B"}, {"B", "S(0)"}},
    {"2 x 2, both in the other order", {{3, 1}, {2, 0}}, {"B", "S(0)"}, {"S(0)", "B"}},
  }
  for _, case in ipairs(cases) do
    for pieces = 1, 2 do
      for zero = 0, 3 do
        local w, run, step = trained({placement = place(case[2]), sbp = case[3]}, case[4], pieces, zero)
        local what = ("%s, %d micro-batches, zero %d: "):format(case[1], pieces, zero)
        tap.is({run(), run(), run()}, losses, what .. "losses are those of one device")
        tap.is(w:totable(), want, what .. "values are those of one device")
        for _, shard in ipairs(w:shards()) do
          local part = w
          for d = 1, 2 do part = part:slice(d - 1, shard.offset[d], shard.offset[d] + shard.shape[d]) end
          if not tap.is(w:to_local(shard.rank):totable(), part:totable(), what .. "shard of rank " .. shard.rank) then return end
        end
      end
    end
  end
end)

tap.group("memory", function()
  local bytes = 4 * ROWS * COLUMNS
  for _, n in ipairs{2, 4} do
    local ranks = {table.unpack({0, 1, 2, 3}, 1, n)}
    local before = live_bytes()
    local w, run, step = trained({placement = place(ranks), sbp = "B"}, "S(0)", 1)
    run()
    local held = live_bytes() - before
    tap.ok(held >= 2 * bytes and held < 3 * bytes, n .. " devices hold a variable and its momentum once", ("%d bytes of %d"):format(held, bytes))
    local devices = step:stats().devices
    tap.ok(devices[1].peak_memory - devices[n].peak_memory >= bytes, "the step's statistics count the shared buffers once")
    w:copy_(rille.zeros{ROWS, COLUMNS})
    w:sum():item()
    tap.ok(live_bytes() - before < 3 * bytes, "an assignment keeps the shared buffer")
    run()
    tap.ok(live_bytes() - before < 3 * bytes, "a further step keeps the shared buffer")
  end
end)

tap.group("initial values", function()
  local bytes = 4 * ROWS * COLUMNS
  local function made(how)
    rille.manual_seed(5)
    local shape = {ROWS, COLUMNS}
    return {rille.zeros(shape, how), rille.full(shape, 3, how), rille.rand(shape, how), rille.randn(shape, how),
      rille.eye(ROWS, COLUMNS, how), rille.randn(shape, how) * 2 + 1}
  end
  local function values(tensors) return tap.list(tensors, function(t) return t:totable() end) end
  local want = values(made{placement = place{0}, sbp = "B"})
  for _, case in ipairs{{{0, 1}, "B"}, {{2, 0, 1}, "B"}, {{{0, 1}, {2, 3}}, {"B", "S(0)"}}, {{{0, 1}, {2, 3}}, {"S(1)", "B"}}} do
    local before = live_bytes()
    local tensors = made{placement = place(case[1]), sbp = case[2]}
    local what = " of a value on " .. tostring(place(case[1]))
    tap.is(values(tensors), want, "elements are those of one device:" .. what)
    local held = live_bytes() - before
    tap.ok(held < (#tensors + 1) * bytes, "replicas share one buffer:" .. what, held)
    for _, t in ipairs(tensors) do
      for _, shard in ipairs(t:shards()) do
        local part = t
        for d = 1, t.ndim do part = part:slice(d - 1, shard.offset[d], shard.offset[d] + shard.shape[d]) end
        if not tap.is(t:to_local(shard.rank):totable(), part:totable(), "rank " .. shard.rank) then return end
      end
    end
  end
end)

-- Checks the memory of gradients. The addends of a gradient must be summed at once and then freed, before the
-- updates. With ZeRO, replicas do not share a buffer: each device has its own copy.
tap.group("gradients", function()
  local LAYERS <const>, SIDE <const> = 8, 160
  local bytes = 4 * SIDE * SIDE
  local function peak(ranks, batch, zero)
    local how = {placement = place(ranks), sbp = "B"}
    local w = tap.list(LAYERS, function() return whole({SIDE, SIDE}):to_global(how):detach():requires_grad_() end)
    local opt = optim.SGD(w, {lr = 1})
    local step = tap.training(opt, function(x)
      for i = 1, LAYERS do x = x:matmul(w[i]) end
      return x:sum()
    end, {zero = zero})
    step(whole({2 * #ranks, SIDE}):to_global{placement = how.placement, sbp = batch}):item()
    return tap.sum(step:stats().devices, function(d) return d.peak_memory end)
  end
  local one = peak({0}, "B", 0)
  for n = 2, 4 do
    for zero = 0, 2, 2 do
      local sum = peak({table.unpack({0, 1, 2, 3}, 1, n)}, "S(0)", zero)
      local own = zero > 0 and (n - 1) * LAYERS * bytes or 0
      tap.ok(sum - one - own < (n + 2) * bytes, ("%d devices, zero %d: addends of one gradient beside the memory of one device"):format(n, zero),
        ("%d bytes more"):format(sum - one - own))
    end
  end
end)

tap.group("other readers and writers", function()
  local function both(f)
    local out = {}
    for i, ranks in ipairs{{0}, {0, 1}} do
      local w, run, _, opt = trained({placement = place(ranks), sbp = "B"}, i == 1 and "B" or "S(0)", 1)
      run()
      out[i] = {f(w, run, opt), run(), w:totable()}
    end
    tap.is(out[2][2], out[1][2], "the loss is that of one device")
    return tap.is(out[2], out[1], "values are those of one device")
  end
  both(function(w, run)
    local before = w:to_local(0)
    local was = before:totable()
    run()
    tap.is(before:totable(), was, "a shard read before an update keeps its values")
  end)
  both(function(w) rille.no_grad(function() w:copy_(w * 2 + 1) end); return w:sum():item() end)
  both(function(w) rille.no_grad(function() w:add_(w) end); return w:sum():item() end)
  both(function(w, run)
    local other = rille.graph(function() rille.no_grad(function() w:mul_(3) end) return w:sum() end)
    return {other():item(), run(), other():item()}
  end)
  both(function(w, run, opt) -- an update outside a compiled step
    (w * w):sum():backward()
    opt:step()
    opt:zero_grad()
    return w:totable()
  end)
  both(function(w, run) -- a step that reads the variable after updating it
    local opt = optim.SGD({w}, {lr = 1})
    local late = rille.graph(function()
      local sum = w:sum()
      sum:backward(); opt:step(); opt:zero_grad()
      return sum, w:sum()
    end)
    local a, b = late()
    return {a:item(), b:item()}
  end)
  both(function(w)
    local path = os.tmpname() .. ".safetensors"
    rille.save(path, {w = w})
    local read = rille.load(path).w:totable()
    os.remove(path)
    return read
  end)
  both(function(w, run)
    w:to_global_{placement = w.placement, sbp = "S(0)"}
    local own_sbp = w.sbp
    w:to_global_{placement = w.placement, sbp = "B"}
    return own_sbp
  end)
end)

tap.done()
