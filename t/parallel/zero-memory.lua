-- zero-memory.lua - compares memory and bytes of a step with zero 1, 2, 3 (rille.parallel) with the formulas of
-- Rajbhandari et al. 2020.
--
-- A trace also shows that gathers and scatters overlap with computation.
--
-- With n parameters of 4 bytes, parameters and gradients have n elements each, and Adam's two moments 2 n. Over d ranks,
-- each of these is replicated or split into d shards. With micro-batches, full gradients accumulate, and the scattered
-- sum is stored in addition.
local tap = dofile("t/lib/tap.lua")
local nn, optim = rille.nn, rille.optim

local function trained(d, zero, pieces, width, layers, reshard)
  local blocks, n = {}, 0
  local P = rille.placement("cpu", tap.ranks(d))
  rille.manual_seed(1)
  for i = 1, layers do blocks[i] = nn.TransformerBlock(width, 2) end
  local net = nn.Sequential(table.unpack(blocks))
  for _, p in ipairs(net:parameters()) do n = n + p:numel() end
  net:to_global{placement = P, sbp = "B"}
  rille.parallel(net, {data = 0, zero = zero, reshard = reshard})
  local opt = optim.AdamW(net:parameters(), {lr = 0.01})
  local step = tap.training(opt, function(x) return net(x):square():mean() end, {micro_batches = pieces})
  local x, losses = rille.randn({8 * pieces, 2, width}):to_global(rille.parallel.input(net)), {}
  for i = 1, 3 do losses[i] = step(x):item() end
  return step, n, losses
end

-- Returns bytes per parameter on a rank: of the parameter, its optimiser state and its gradient together. kept: true:
-- gathered parameters are kept for backward.
local function formula(d, zero, pieces, kept)
  local state, gradients = zero >= 1 and 8 / d or 8, zero >= 2 and 4 / d or 4
  if pieces > 1 and zero >= 2 then gradients = 4 + 4 / d end
  return (zero == 3 and 4 / d or 4) + (kept and 4 or 0) + state + gradients
end

-- Returns bytes of working memory: activations, and the gathered parameters and full gradients of one or two of the
-- eight blocks. If moves have their own streams, one gradient is scattered while the next one is computed, so both
-- are in memory.
local function at_work(step, n, width, pieces)
  local streams = tostring(step:plan{physical = true}):find("stream move", 1, true)
  return (pieces == 1 and 0.4 or 1.25) * n + (streams and 4 * 4 * width * width or 0)
end

local function most_and_moved(step)
  local most, moved = 0, 0
  for _, device in ipairs(step:stats().devices) do
    most, moved = math.max(most, device.peak_memory), moved + device.bytes_in
  end
  return most, moved
end

tap.group("memory and bytes", function()
  local WIDTH <const> = 64
  for _, pieces in ipairs{1, 4} do
    for _, d in ipairs{2, 4, 8} do
      local whole
      for case = 0, 4 do
        if not tap.share() then goto next end
        local zero, kept = math.min(case, 3), case == 4
        local step, n, losses = trained(d, zero, pieces, WIDTH, 8, not kept and (zero == 3 or nil))
        local most, moved = most_and_moved(step)
        local name = ("%d ranks, zero %d%s, %d micro-batches: "):format(d, zero, kept and ", gathers kept" or "", pieces)
        local bytes = formula(d, zero, pieces, kept)
        whole = whole or case > 0 and select(3, trained(d, 0, pieces, WIDTH, 8)) or losses
        tap.is(losses, whole, name .. "losses have the bits of zero 0")
        tap.ok(most <= bytes * n + at_work(step, n, WIDTH, pieces), name .. "memory is at most that of the formula",
          ("%.2f bytes per parameter, the formula %.2f"):format(most / n, bytes))
        local methods = case == 3 and 2 * pieces + 1 or 2
        tap.ok(moved <= 4 * methods * (d - 1) * n and moved >= 0.97 * 4 * methods * (d - 1) * n, name .. "each parameter moves " .. methods .. " times",
          ("%.2f"):format(moved / 4 / (d - 1) / n))
        ::next::
      end
    end
  end
end)

tap.group("overlap with computation", function()
  local SLEEP <const> = 0.002
  rille._slow_op("matmul", SLEEP)
  rille._slow_op("contract", SLEEP)
  local acts = dofile("t/lib/steps/acts.lua")((trained(2, 3, 2, 32, 4)))
  rille._slow_op("matmul", 0)
  rille._slow_op("contract", 0)
  local computed, scattered, early = 0, 0, 0
  for _, a in ipairs(acts) do
    if a.name:find("contract") then computed = math.max(computed, a.to) end
  end
  for _, a in ipairs(acts) do
    if a.name == "reduce-scatter" then
      scattered = scattered + 1
      early = early + (a.from < computed and 1 or 0)
    end
  end
  tap.ok(scattered > 0 and early >= 0.9 * scattered, "gradients are scattered during the last micro-batch",
    ("%d of %d before the last kernel ends"):format(early, scattered))
  local threads = {}
  for _, d in ipairs(rille.devices()) do threads[d.thread] = true end
  if not threads[1] then return tap.ok(true, "parameters are gathered while the other device computes # SKIP there is one device thread") end
  local gathered, beside = 0, 0
  for _, a in ipairs(acts) do
    if a.name == "all-gather" then
      gathered = gathered + 1
      for _, b in ipairs(acts) do
        if b.device ~= a.device and b.to - b.from >= 1e6 * SLEEP and b.from < a.to and a.from < b.to then
          beside = beside + 1
          break
        end
      end
    end
  end
  tap.ok(gathered > 0 and beside >= 0.5 * gathered, "parameters are gathered while the other device computes", ("%d of %d"):format(beside, gathered))
end)

tap.done()
