-- memory.lua - tests that registers share memory, for any number of tasks, also with micro-batches.

local tap = dofile("t/lib/tap.lua")
local nn = rille.nn

-- Returns the size of a device's arena, bytes. Arenas never shrink, so each program of this test needs its own
-- device.
local function arena(device)
  for _, d in ipairs(rille.devices()) do
    if d.device == device then return d.arena_bytes end
  end
end

local function chain(device, n)
  local p = rille.placement("cpu", {device})
  local x, w = rille.ones({64, 64}, {placement = p}), rille.eye(64, {placement = p})
  local y = x
  for _ = 1, n do y = y:matmul(w) end
  tap.is(y:sum():item(), 64 * 64, n .. " products of unit matrices")
  return arena(device)
end

tap.group("memory does not grow with the length of a chain", function()
  local short, long = chain(0, 20), chain(1, 9000)
  tap.is(long, short, "9,000 products need as much memory as 20")
end)

-- Trains a perceptron of K layers on ROWS rows in `pieces` micro-batches. Returns the size of the device's arena,
-- bytes.
local function train(device, pieces)
  local K <const>, N <const>, ROWS <const> = 12, 32, 512
  local p = rille.placement("cpu", {device})
  local layer = {}
  for i = 1, K do
    layer[i] = nn.Linear(N, N)
    layer[i]:to_global{placement = p, sbp = "B"}
  end
  local step = rille.graph(function(x)
    for i = 1, K do x = layer[i](x):relu() end
    return tap_backward(x:sum())
  end, {micro_batches = pieces, schedule = "1f1b"})
  step(rille.randn({ROWS, N}, {placement = p}))
  return arena(device)
end

tap.group("micro-batches reduce memory", function()
  local whole, half, eighth = train(2, 1), train(3, 2), train(4, 8)
  tap.ok(half <= 0.6 * whole, "two micro-batches need at most 0.6 of the arena", ("%d of %d bytes"):format(half, whole))
  tap.ok(eighth <= 0.2 * whole, "eight micro-batches need at most 0.2 of the arena", ("%d of %d bytes"):format(eighth, whole))
end)

-- Checks the memory of moves that have their own streams. A move that waits for a kernel cannot run at the same time
-- as this kernel, so at most two values are live.
tap.group("between kernels and moves at most two values are live", function()
  local ROWS <const>, N <const> = 2048, 8
  local p = rille.placement("cpu", {0, 1})
  local moves = { -- columns: layouts of the two factors of each product, and of the operand of softmax
    ["all-reduce"] = {"S(1)", "S(0)", "B"},
    ["reduce-scatter"] = {"S(1)", "S(0)", "S(0)"},
    ["all-gather"] = {"S(0)", "B", "B"},
  }
  for _, name in ipairs{"all-reduce", "reduce-scatter", "all-gather"} do
    local left, right, goes = table.unpack(moves[name])
    local w = rille.eye(N):to_global{placement = p, sbp = right}
    local step = rille.graph(function(x)
      for _ = 1, 5 do x = x:to_global{placement = p, sbp = left}:matmul(w):to_global{placement = p, sbp = goes}:softmax(1) end
      return x:sum()
    end)
    step(rille.ones({ROWS, N}):to_global{placement = p, sbp = "B"})
    local most, plan = 0, tostring(step:plan{physical = true})
    for bytes in plan:gmatch("\ndevice [^\n]- arena (%d+) B") do most = math.max(most, tonumber(bytes)) end
    tap.ok(plan:find("box " .. name, 1, true) and most <= 2.1 * 4 * ROWS * N, name, ("%.2f values"):format(most / (4 * ROWS * N)))
  end
end)

tap.group("memory_limit", function()
  local function step(limit)
    local p, layer = rille.placement("cpu", {5}), {}
    for i = 1, 6 do
      layer[i] = nn.Linear(32, 32)
      layer[i]:to_global{placement = p, sbp = "B"}
    end
    local made = rille.graph(function(x)
      for i = 1, 6 do x = layer[i](x):gelu() end
      return tap_backward(x:square():mean())
    end, {memory_limit = limit})
    made(rille.ones({512, 32}, {placement = p}))
    return made
  end
  local stats = step():stats().devices[1]
  tap.ok(stats.tenants:find("gelu f32{512, 32}", 1, true) and stats.tenants:find("memory.lua:", 1, true), "stats name the largest registers", stats.tenants)
  tap.ok(pcall(step, stats.peak_memory), "a step that needs exactly the limit is compiled")
  tap.fails(function() step(stats.peak_memory - 1) end, {"cpu:5", "memory_limit = " .. stats.peak_memory - 1, "gelu f32{512, 32}", "memory.lua:"},
    "a step that needs more is refused, with the largest registers in the message")
end)

-- Checks stats() of a step that is called with several batch sizes, and so has several plans: stats() must describe
-- the last call.
tap.group("stats are of the last call", function()
  local p = rille.placement("cpu", {6})
  local function made() return rille.graph(function(x) return x:exp():matmul(x:transpose(0, 1)):relu():sum() end) end
  local function stats_of(step, rows)
    local value = step(rille.full({rows, 16}, 0.25, {placement = p})):item()
    local s = step:stats()
    return {value, s.devices[1].peak_memory, s.devices[1].tenants, s.devices[1].device, #s.devices}
  end
  local rows, want = {64, 8, 256, 1, 32}, {}
  for i, n in ipairs(rows) do want[i] = stats_of(made(), n) end
  local step, got, last = made(), {}, 0
  for turn = 1, 2 do
    for i, n in ipairs(rows) do
      local t = stats_of(step, n)
      if turn == 1 then got[i] = t else tap.is(t, got[i], ("%d rows: stats are the same at the second call"):format(n)) end
    end
  end
  tap.is(got, want, "stats do not depend on earlier calls, larger or smaller")
  for i, n in ipairs(rows) do
    local text = stats_of(step, n)[3]
    tap.ok(#text > 0 and tostring(step:plan{physical = true}):find("most of it: " .. text, 1, true), ("%d rows: the plan names the same registers"):format(n), text)
  end
end)

tap.done()
