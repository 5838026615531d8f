-- lstm.lua - times a training step of nn.LSTM by sequence length, compared with PyTorch and the limit; and a step of
-- rille.scan over nn.LSTMCell.
--
--   RILLE_THREADS=1 [PYTHON=build/venv/bin/python] build/release/rille bench/lstm.lua
--
-- The batch is 32, with 64 inputs, 256 hidden units, f32. A step is forward, mean of squares, backward. PyTorch runs
-- if PYTHON names a Python with torch; both use RILLE_THREADS threads, by default 1. Columns:
--
--   T              length of the sequence
--   rille, torch   time of a step, the least of the repetitions, ms
--   cpu, torch's   CPU time of both, the least of the repetitions, ms; for machines with other load
--   limit          time of the step's products, ms; each is computed as one product over all positions, although a
--                  recurrence cannot do so
--   lines          lines of the printed plan
--
-- The second table has the same layer as rille.scan over nn.LSTMCell, without and with recompute = true. Columns:
-- time of a step, ms; time of the first call, which traces and compiles, ms; lines of the printed plan; peak memory,
-- MiB.
local rille = require "rille"
local nn = rille.nn
local BATCH <const>, IN <const>, HIDDEN <const>, REPEATS <const> = 32, 64, 256, 5
local lengths <const> = {64, 128, 256, 512, 1024}
local THREADS <const> = tonumber(os.getenv("RILLE_THREADS")) or 1

-- Returns the least time of the repetitions, and their least CPU time, in ms.
local function fastest(fn)
  local best, cpu = math.huge, math.huge
  fn()
  for _ = 1, REPEATS do
    local begin, used = rille.clock(), os.clock()
    fn()
    best, cpu = math.min(best, rille.clock() - begin), math.min(cpu, os.clock() - used)
  end
  return best * 1e3, cpu * 1e3
end

local PEER <const> = [[
import time, torch
torch.set_num_threads(%d)
net = torch.nn.LSTM(%d, %d, batch_first=True)
best, cpu, x = 1e9, 1e9, torch.randn(%d, %d, %d)
for i in range(%d + 1):
    begin, used = time.perf_counter(), time.process_time()
    net.zero_grad()
    net(x)[0].square().mean().backward()
    if i: best, cpu = min(best, time.perf_counter() - begin), min(cpu, time.process_time() - used)
print(best * 1e3, cpu * 1e3)
]]

-- Returns PyTorch's time and its CPU time, in ms; nil without PyTorch.
local function peer(length)
  local python, name = os.getenv("PYTHON"), os.tmpname()
  if not python then return nil end
  local f <close> = io.open(name, "w")
  f:write(PEER:format(THREADS, IN, HIDDEN, BATCH, length, IN, REPEATS)):flush()
  local pipe <close> = io.popen(("%s %s"):format(python, name))
  local ms, cpu = pipe:read("n", "n")
  os.remove(name)
  return ms, cpu
end

local function step_of(net)
  return rille.graph(function(x)
    local loss = net(x):square():mean()
    return loss, rille.grad(loss, net:parameters())
  end)
end

-- Returns a function that computes a product of these sizes.
local function product(m, k, n)
  local a, b = rille.randn(m, k), rille.randn(k, n)
  local step = rille.graph(function(x, y) return x:matmul(y) end)
  return function() step(a, b):to_local(0) end
end

local function shown(ms) return ms and ("%.1f"):format(ms) or "-" end

print("   T   rille   torch     cpu  torch's   limit  torch/rille  rille/limit  lines")
for _, length in ipairs(lengths) do
  local rows, gates = BATCH * length, 4 * HIDDEN
  local net = nn.LSTM(IN, HIDDEN)
  local step, x = step_of(net), rille.randn(BATCH, length, IN)
  local torch, torch_cpu = peer(length)
  local ms, cpu = fastest(function() (step(x)):item() end)
  local lines = select(2, tostring(step:plan()):gsub("\n", ""))
  -- The input projection has two products (forward, weight gradient); the recurrence has three.
  local limit = 2 * fastest(product(rows, IN, gates)) + 3 * fastest(product(rows, HIDDEN, gates))
  print(("%4d %7.1f %7s %7.1f %8s %7.1f %12s %12.2f %6d"):format(length, ms, shown(torch), cpu, shown(torch_cpu), limit,
    torch and ("%.2f"):format(torch / ms) or "-", ms / limit, lines))
end

local function scan_step(cell, recompute)
  return rille.graph(function(x)
    local zero = rille.zeros{BATCH, HIDDEN}
    local _, ys = rille.scan(function(s, t)
      local h, c = cell(t, s.h, s.c)
      return {h = h, c = c}, h
    end, {h = zero, c = zero}, x, {axis = 1, recompute = recompute})
    local loss = ys:square():mean()
    return loss, rille.grad(loss, cell:parameters())
  end)
end

print("\n   T  recompute     step    first   lines      MiB")
for _, length in ipairs{16, 64, 256, 1024} do
  for _, recompute in ipairs{false, true} do
    local step, x = scan_step(nn.LSTMCell(IN, HIDDEN), recompute), rille.randn(BATCH, length, IN)
    local begin = rille.clock()
    local loss = step(x)
    loss:item()
    local first = rille.clock() - begin
    local ms = fastest(function() (step(x)):item() end)
    local lines = select(2, tostring(step:plan()):gsub("\n", ""))
    print(("%4d  %10s %8.1f %8.1f %7d %8.1f"):format(length, recompute, ms, first * 1e3, lines, step:stats().devices[1].peak_memory / 2 ^ 20))
  end
end
