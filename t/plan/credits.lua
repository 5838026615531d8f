-- credits.lua - how many registers a result has follows from the program: its stages, phases and the schedule.
--
-- Read off the text of plans, so nothing here depends on time.

local rille = require "rille"
local tap = dofile("t/lib/tap.lua")

local function text_of(step) return tostring(step:plan()) end

-- Registers of the first result of each task with this name, by the order of the list; how often is one per device.
local function registers(plan, name, phase)
  local found = {}
  for line in plan:gmatch("[^\n]+") do
    local task, device, rest = line:match("^ *[%d-]+ +([%w%- +]-)  +cpu%[(%d+)%] +(.*)$")
    if task == name and (not phase or rest:find("; " .. phase, 1, true)) then
      local n = rest:match("^%w+%b{} x(%d+)")
      found[#found + 1] = {device = tonumber(device), n = n and tonumber(n) or 1}
    end
  end
  return found
end

local function counts(list)
  local n = {}
  for i, r in ipairs(list) do n[i] = r.n end
  return table.concat(n, " ")
end

-- A chain of products over these devices, one after the other; what a stage does to x.
local function pipeline(devices, pieces, schedule, skip)
  local on, weight = {}, {}
  for s, d in ipairs(devices) do
    on[s] = rille.placement("cpu", {d})
    weight[s] = rille.randn({8, 8}, {placement = on[s]}):requires_grad_(true)
  end
  local gain = rille.randn({8}, {placement = on[1]}):requires_grad_(true)
  local step = rille.graph(function(x, y)
    x = x * gain
    local first = x
    for s = 1, #devices do x = (s > 1 and x:to_global{placement = on[s], sbp = "B"} or x):matmul(weight[s]) end
    if skip then x = x + first:to_global{placement = on[#devices], sbp = "B"} end
    local loss = x:mse_loss(y)
    loss:backward()
    return loss
  end, {micro_batches = pieces, schedule = schedule})
  local x = rille.randn({2 * pieces, 8}, {placement = on[1]})
  step(x, rille.randn({2 * pieces, 8}, {placement = on[#devices]}))
  return text_of(step)
end

tap.group("a stage has as many registers as pieces are between its forward and its backward", function()
  local boxes = registers(pipeline({0, 1, 2, 3}, 8, "1f1b"), "box permute", "forward")
  tap.is(counts(boxes), "3 2 1", "1f1b: p - s of them at the end of each hop")
  boxes = registers(pipeline({0, 1, 2, 3}, 8, {lag = 2}), "box permute", "forward")
  tap.is(counts(boxes), "5 3 1", "lag 2: 2 (p - 1 - s) + 1")
  boxes = registers(pipeline({0, 1, 2, 3}, 8, "gpipe"), "box permute", "forward")
  tap.is(counts(boxes), "8 8 8", "gpipe: one for each piece")
end)

tap.group("what pieces wait for does not wait for pieces", function()
  -- The gradient of a sum is the same for all pieces: it comes once a batch, while few pieces are under way.
  local on = {rille.placement("cpu", {0}), rille.placement("cpu", {1}), rille.placement("cpu", {2})}
  for _, schedule in ipairs{"gpipe", "1f1b", "zb-h1", "zb-h2"} do
    for _, loss in ipairs{"sum", "mean"} do
      for _, pieces in ipairs{1, 4, 8} do
        local grads, weights = {}, {}
        rille.manual_seed(3)
        for s = 1, 3 do weights[s] = rille.randint(-2, 3, {4, 4}, {placement = on[s]}):to("f32"):detach():requires_grad_(true) end
        local x = rille.randint(-2, 3, {16, 4}, {placement = on[1]}):to("f32")
        local step = rille.graph(function(x)
          for s = 1, 3 do x = (s > 1 and x:to_global{placement = on[s], sbp = "B"} or x):matmul(weights[s]):relu() end
          x = x:matmul(weights[3])
          local l = x[loss](x)
          l:backward()
          return l
        end, {micro_batches = pieces, schedule = schedule})
        local good, why = pcall(step, x)
        tap.ok(good, ("%s, the %s of %d pieces"):format(schedule, loss, pieces), why)
        for s = 1, 3 do grads[s] = weights[s].grad and weights[s].grad:totable() end
        local h, plain = x:detach(), {}
        for s = 1, 3 do plain[s] = weights[s]:detach():clone():requires_grad_(true) end
        for s = 1, 3 do h = (s > 1 and h:to_global{placement = on[s], sbp = "B"} or h):matmul(plain[s]):relu() end
        h = h:matmul(plain[3])
        local l = h[loss](h) / (loss == "sum" and pieces or 1)
        l:backward()
        local want = {}
        for s = 1, 3 do want[s] = plain[s].grad:totable() end
        tap.near(grads, want, "and its gradients are those of one piece")
      end
    end
  end
end)

tap.group("stages are those of the program", function()
  local plain = pipeline({0, 1, 2, 3}, 8, "1f1b")
  for i = 0, 1100 do -- orders of the eight devices
    local order, left = {}, {0, 1, 2, 3, 4, 5, 6, 7}
    for n = 8, 1, -1 do
      order[#order + 1] = table.remove(left, i % n + 1)
      i = i // n
    end
    rille.placement("cpu", order)
  end
  tap.is(counts(registers(pipeline({4, 5, 6, 7}, 8, "1f1b"), "box permute", "forward")),
    counts(registers(plain, "box permute", "forward")), "however many placements were made before")
  local turns = registers(pipeline({0, 1, 0, 1}, 8, "1f1b"), "box permute", "forward")
  tap.is(counts(turns), "3 2 1", "devices that come again are stages of their own: interleaved")
end)

tap.group("a value that skips stages is not what they wait for", function()
  local plan = pipeline({0, 1, 2, 3}, 8, "1f1b", true)
  tap.is(registers(plan, "mul", "forward")[1].n, 4, "where it is made it has a register for each hop that it skips, and one more")
  tap.is(counts(registers(plan, "box permute", "forward")), "3 2 1 3", "where it is read, one for each hop")
  tap.is(counts(registers(plan, "box permute", "backward")), "3 1 1 1", "and its gradient on the way back")
end)

tap.group("gradients of weights come last", function()
  local plan = pipeline({0, 1}, 4, "1f1b")
  local weights = registers(plan, "contract+accumulate", "weights")
  tap.is(#weights, 2, "they are a phase of their own")
  tap.is(#registers(plan, "contract", "backward"), 0, "and none is in another")
end)

tap.done()
