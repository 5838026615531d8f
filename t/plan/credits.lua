-- credits.lua - tests that the number of registers of a result follows from the program's stages, phases and schedule.
--
-- The test reads the text of plans, so nothing depends on time.

local tap = dofile("t/lib/tap.lua")

local function text_of(step) return tostring(step:plan()) end

-- Returns device and number of registers of each task with this name, in task order.
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

-- Returns the plan of a pipeline with one matrix product per device. skip: true: the last stage also reads the first
-- stage's input.
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
    return tap_backward(x:mse_loss(y))
  end, {micro_batches = pieces, schedule = schedule})
  local x = rille.randn({2 * pieces, 8}, {placement = on[1]})
  step(x, rille.randn({2 * pieces, 8}, {placement = on[#devices]}))
  return text_of(step)
end

tap.group("a stage has one register per micro-batch between its forward and its backward", function()
  local boxes = registers(pipeline({0, 1, 2, 3}, 8, "1f1b"), "box permute", "forward")
  tap.is(counts(boxes), "3 2 1", "1f1b: the move into stage s has p - s registers")
  boxes = registers(pipeline({0, 1, 2, 3}, 8, {lag = 2}), "box permute", "forward")
  tap.is(counts(boxes), "5 3 1", "lag 2: 2 (p - s) - 1 registers")
  boxes = registers(pipeline({0, 1, 2, 3}, 8, "gpipe"), "box permute", "forward")
  tap.is(counts(boxes), "8 8 8", "gpipe: one register per micro-batch")
end)

tap.group("a value that all micro-batches read does not wait for a micro-batch", function()
  -- Checks the gradient of a sum. This gradient is equal for all micro-batches, so it must be sent once per batch,
  -- and few micro-batches may be in flight.
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
          return tap_backward(x[loss](x))
        end, {micro_batches = pieces, schedule = schedule})
        local good, why = pcall(step, x)
        tap.ok(good, ("%s, the %s of %d micro-batches: the step runs"):format(schedule, loss, pieces), why)
        for s = 1, 3 do grads[s] = weights[s].grad and weights[s].grad:totable() end
        local h, plain = x:detach(), tap.list(3, function(s) return weights[s]:detach():clone():requires_grad_(true) end)
        for s = 1, 3 do h = (s > 1 and h:to_global{placement = on[s], sbp = "B"} or h):matmul(plain[s]):relu() end
        h = h:matmul(plain[3])
        local l = h[loss](h)
        l:backward()
        local want = tap.list(3, function(s) return plain[s].grad:totable() end)
        tap.near(grads, want, "its gradients equal those of one batch")
      end
    end
  end
end)

tap.group("the program determines the stages", function()
  local plain = pipeline({0, 1, 2, 3}, 8, "1f1b")
  for i = 0, 1100 do -- tries the first 1,100 permutations of 8 devices
    local order, left = {}, {0, 1, 2, 3, 4, 5, 6, 7}
    for n = 8, 1, -1 do
      order[#order + 1] = table.remove(left, i % n + 1)
      i = i // n
    end
    rille.placement("cpu", order)
  end
  tap.is(counts(registers(pipeline({4, 5, 6, 7}, 8, "1f1b"), "box permute", "forward")),
    counts(registers(plain, "box permute", "forward")), "earlier placements do not change the numbers of registers")
  local turns = registers(pipeline({0, 1, 0, 1}, 8, "1f1b"), "box permute", "forward")
  tap.is(counts(turns), "3 2 1", "a device that recurs is a further stage: interleaved")
end)

tap.group("stages do not wait for a value that skips them", function()
  local plan = pipeline({0, 1, 2, 3}, 8, "1f1b", true)
  tap.is(registers(plan, "mul", "forward")[1].n, 4, "the producer has a register for each skipped hop, and one more")
  tap.is(counts(registers(plan, "box permute", "forward")), "3 2 1 3", "the move to the reader has a register for each hop")
  tap.is(counts(registers(plan, "box permute", "backward")), "3 1 1 1", "the moves of gradients have registers for the skipped hops")
end)

tap.group("weight gradients are computed last", function()
  local plan = pipeline({0, 1}, 4, "1f1b")
  local weights = registers(plan, "contract+accumulate", "weights")
  tap.is(#weights, 2, "weight gradients have a phase of their own")
  tap.is(#registers(plan, "contract", "backward"), 0, "no weight gradient is in the backward phase")
end)

tap.done()
