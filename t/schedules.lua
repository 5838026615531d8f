-- schedules.lua - schedules on the virtual clock: how long a step takes, in which order a stage works, and how many
-- pieces it holds, for many numbers of stages and pieces. Meta devices: nothing is computed.

local rille = require "rille"
local tap = dofile("t/tap.lua")

-- A chain of products over these devices; the same number again is another stage.
local function pipeline(devices, pieces, schedule)
  local on, weight = {}, {}
  for q, d in ipairs(devices) do
    on[q] = rille.placement("meta", {d})
    weight[q] = rille.empty({8, 8}, {placement = on[q], requires_grad = true})
  end
  local step = rille.graph(function(x, y)
    for q = 1, #devices do x = (q > 1 and x:to_global{placement = on[q], sbp = "B"} or x):matmul(weight[q]):tanh() end
    local loss = x:mse_loss(y)
    loss:backward()
    return loss
  end, {micro_batches = pieces, schedule = schedule})
  step(rille.empty({2 * pieces, 8}, {placement = on[1]}), rille.empty({2 * pieces, 8}, {placement = on[#devices]}))
  return step
end

local function chain(p)
  local devices = {}
  for d = 1, p do devices[d] = d - 1 end
  return devices
end

local APART <const> = {forward = 1, backward = 1, weight = 1}
local JOINT <const> = {forward = 1, backward = 2, weight = 0} -- both kinds of gradients as one act

local function near(x) return math.floor(x + 0.5) end
local function slots(step, costs) return near(step:chart(costs).planned.time) end

-- "f0 f1 b0": what a device does, in order. Where nobody wants the gradient of the input, weights are all of backward.
local function order(chart, device)
  local words = {}
  for _, s in ipairs(chart.planned.spans) do
    if s.device == device and s.piece then
      local what = s.what:sub(1, 1)
      words[#words + 1] = (device == 1 and what == "w" and "b" or what) .. s.piece
    end
  end
  return table.concat(words, " ")
end

-- Pieces between forward and the end of these kinds of work, at most.
local function held(chart, device, ends)
  local events, n, most = {}, 0, 0
  for _, s in ipairs(chart.planned.spans) do
    if s.device == device and s.what == "forward" then events[#events + 1] = {near(s.from), 1} end
    if s.device == device and ends[s.what] then events[#events + 1] = {near(s.to), -1} end
  end
  table.sort(events, function(a, b) return a[1] < b[1] or (a[1] == b[1] and a[2] < b[2]) end)
  for _, e in ipairs(events) do
    n = n + e[2]
    most = math.max(most, n)
  end
  return most
end

local function classic(p, s, m) -- 1F1B on stage s of p, from 0
  local words, ahead = {}, math.min(m, p - 1 - s)
  for i = 0, ahead - 1 do words[#words + 1] = "f" .. i end
  for i = 0, m - 1 do
    if i + ahead < m then words[#words + 1] = "f" .. i + ahead end
    words[#words + 1] = "b" .. i
  end
  return table.concat(words, " ")
end

tap.group("one stage a device", function()
  for p = 2, 16 do
    for _, m in ipairs{2, 3, 8, 16, 64} do
      local devices, name = chain(p), ("%d stages, %d pieces: "):format(p, m)
      local plain, gpipe = pipeline(devices, m, "1f1b"), pipeline(devices, m, "gpipe")
      local full, chart = 3 * (m + p - 1), plain:chart(JOINT)
      local ordered, pools = true, true
      for s = 0, p - 1 do
        ordered = ordered and order(chart, s + 1) == classic(p, s, m)
        pools = pools and held(chart, s + 1, {[s == 0 and "weight" or "backward"] = true}) == math.min(m, p - s)
      end
      tap.is({near(chart.planned.time), slots(gpipe, JOINT)}, {full, full}, name .. "1f1b and gpipe take (m + p - 1) (F + B)")
      tap.ok(ordered, name .. "1f1b has the classic order")
      tap.ok(pools, name .. "and p - s pieces on stage s")
      tap.ok(slots(plain, APART) <= full and slots(gpipe, APART) <= full, name .. "with weight gradients apart no more")
      local least = 3 * m + p - 1
      for lag, schedule in ipairs{"zb-h1", "zb-h2"} do
        local split = pipeline(devices, m, schedule):chart(APART)
        local within = true
        for s = 0, p - 1 do
          within = within and held(split, s + 1, {weight = true}) <= lag * (p - 1) + 1 and
            (s == 0 or held(split, s + 1, {backward = true}) <= lag * (p - 1 - s) + 1)
        end
        tap.ok(within, name .. schedule .. " holds no more than its pools")
        if m >= p then tap.is(near(split.planned.time), least, name .. schedule .. " takes m (F + B + W) + (p - 1) (F + B - W)")
        else tap.ok(near(split.planned.time) <= full, name .. schedule .. " takes no longer than 1f1b") end
      end
    end
  end
end)

tap.done()
