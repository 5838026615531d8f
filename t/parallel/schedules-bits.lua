-- schedules-bits.lua - tests that losses and gradients have the bits of one device under every schedule, with recompute,
-- offload, zero, and any mapping of stages to devices.
--
-- Values are small integers, so no sum is rounded.

local tap = dofile("t/lib/tap.lua")

local WIDTH <const>, PIECES <const>, ROWS <const> = 4, 8, 2

-- Networks as lists of layers {device, from...}. A layer reads the sum of the results of the layers in `from` (0: the
-- network's input).
local nets = {
  ["a chain"] = {{0, 0}, {1, 1}, {2, 2}, {3, 3}},
  ["there and back"] = {{0, 0}, {1, 1}, {2, 2}, {2, 3}, {1, 4}, {0, 5}},
  ["a wave of four"] = {{0, 0}, {1, 1}, {1, 2}, {0, 3}, {0, 4}, {1, 5}, {1, 6}, {0, 7}},
  ["round"] = {{0, 0}, {1, 1}, {0, 2}, {1, 3}},
  ["skips"] = {{0, 0}, {1, 1}, {2, 2, 0}, {3, 3, 1}},
  ["encoder and decoder"] = {{0, 0}, {1, 1}, {2, 0}, {3, 3, 2}, {2, 4, 2}},
  ["two towers"] = {{0, 0}, {1, 1}, {2, 0}, {3, 3}, {1, 2, 4}},
}

-- Runs a step and returns {loss, gradients}. place(d): placement of the network's device d; look(step): optional
-- function that inspects the step; rows: number of rows per micro-batch.
local function trained(net, place, options, look, rows)
  rille.manual_seed(7)
  local weight = {}
  for i, layer in ipairs(net) do
    weight[i] = rille.randint(-1, 2, {WIDTH, WIDTH}, {placement = place(layer[1])}):to("f32"):detach():requires_grad_(true)
  end
  local x = rille.randint(-1, 2, {PIECES * (rows or ROWS), WIDTH}, {placement = place(0)}):to("f32"):detach()
  local function forward(x)
    local value = {[0] = x}
    for i, layer in ipairs(net) do
      local function here(k)
        return layer[k] ~= 0 and net[layer[k]][1] == layer[1] and value[layer[k]] or value[layer[k]]:to_global{placement = place(layer[1]), sbp = "B"}
      end
      local sum = here(2)
      for k = 3, #layer do sum = sum + here(k) end
      value[i] = sum:matmul(weight[i]):relu()
    end
    return tap_backward(value[#net]:sum())
  end
  local step = options and rille.graph(forward, options) or forward
  local loss = step(x)
  if look then look(step) end
  local result = {loss:item()}
  for i in ipairs(net) do result[i + 1] = weight[i].grad and weight[i].grad:totable() end
  return result
end

local schedules = {"1f1b", "gpipe", "zb-h1", "zb-h2", "auto", {memory = 0.5}, {memory = 0.75}, {memory = 2}, {lag = 3, split_backward = true}}

local function schedule_name(s) return type(s) == "string" and s or s.memory and "memory " .. s.memory or "lag " .. s.lag end

local function cpu(d) return rille.placement("cpu", {d}) end
local storage = rille.placement("cpu", {4, 5, 6, 7})

local names = tap.all(pairs(nets))
table.sort(names)

for _, name in ipairs(names) do
  local net = nets[name]
  tap.group(name, function()
    local want = trained(net, function() return cpu(0) end)
    local refused = 0
    local list = {table.unpack(schedules)}
    if name == "round" then list[#list + 1] = "interleaved" end
    if name == "there and back" then list[#list + 1], list[#list + 2], list[#list + 3] = "zb-v", "v-half", "v-min" end
    for i, schedule in ipairs(list) do
      local methods = {{}, {recompute = true}, {offload = storage}, schedule.memory and {recompute = "auto"} or nil}
      if not os.getenv("RILLE_LONG") then methods = {methods[1], methods[2 + (i + #name) % (#methods - 1)]} end
      for _, how in ipairs(methods) do
        if not tap.share() then goto next end
        local text = schedule_name(schedule)
        local good, got = pcall(trained, net, cpu, {micro_batches = PIECES, schedule = schedule, recompute = how.recompute, offload = how.offload})
        if not good and type(schedule) == "table" and tostring(got):find("the least is") then refused = refused + 1
        else
          if good then tap.is(got, want, ("%s%s: bits are those of one device"):format(text, how.recompute and ", recomputed: " .. tostring(how.recompute) or how.offload and ", offloaded" or ""))
          else tap.ok(false, text, got) end
        end
        ::next::
      end
    end
    tap.ok(refused <= 6, "at most 6 cases are refused", refused)
  end)
end

-- ---- per-act offsets; losses that read no data, on stages or on separate devices ----

-- Tests per-act offsets, which a plan uses if its registers would otherwise exceed the lower bound. Values have 16
-- KiB.
tap.group("per-act offsets", function()
  local places = 0
  local function look(step) places = places + (tostring(step:plan{physical = true}):find(" at %d+ offsets") and 1 or 0) end
  for _, name in ipairs{"a chain", "there and back", "a wave of four", "encoder and decoder"} do
    local want = trained(nets[name], function() return cpu(0) end, nil, nil, 1024)
    for _, s in ipairs{"1f1b", "zb-h1", "zb-h2", "auto", {lag = 3, split_backward = true}} do
      if tap.share() then tap.is(trained(nets[name], cpu, {micro_batches = PIECES, schedule = s}, look, 1024), want, name .. ", " .. schedule_name(s)) end
    end
  end
  tap.ok(places >= (tap.which and 0 or 10), places .. " plans have per-act offsets")
end)

tap.group("parts of the loss that no data reaches", function()
  local function gradients(options, last)
    local weight = {}
    for d = 0, 3 do weight[d + 1] = rille.full({WIDTH, WIDTH}, 0.5, {placement = cpu(d == 3 and last or d), requires_grad = true}) end
    local step = rille.graph(function(x)
      local y = x:matmul(weight[1]):to_global{placement = cpu(1), sbp = "B"}:matmul(weight[2])
      local alone = weight[3]:square():sum() + weight[3]:to_global{placement = cpu(2), sbp = "B"}:sum()
      local loss = y:mean() + alone:to_global{placement = cpu(1), sbp = "B"} + weight[2]:square():sum()
      loss:backward()
      weight[4]:square():sum():backward()
      return loss
    end, options)
    local result = {step(rille.ones({PIECES * ROWS, WIDTH}, {placement = cpu(0)})):item()}
    for i = 1, 4 do result[i + 1] = weight[i].grad:totable() end
    return result
  end
  local want = gradients({}, 1)
  for _, schedule in ipairs(schedules) do
    for _, how in ipairs{{}, {recompute = true}, {offload = storage}} do
      if not tap.share() then goto next end
      local text = schedule_name(schedule)
      local options = {micro_batches = PIECES, schedule = schedule, recompute = how.recompute, offload = how.offload}
      tap.fails(function() gradients(options, 3) end, {"schedules-bits.lua", "the stage on cpu[3] receives no input"}, text .. ": a loss on a device without data is refused")
      local good, got = pcall(gradients, options, 1)
      if good then tap.is(got, want, ("%s%s: gradients are those of one batch"):format(text, how.recompute and ", recomputed" or how.offload and ", offloaded" or ""))
      else tap.ok(tostring(got):find("the least is"), text, got) end
      ::next::
    end
  end
end)

-- ---- steps without data: nothing is split into micro-batches, so a schedule has no acts to order ----

tap.group("no data at all", function()
  for _, schedule in ipairs(schedules) do
    local w = rille.full({WIDTH}, 0.5, {placement = cpu(0), requires_grad = true})
    local function forward() return w:square():sum() + w:to_global{placement = cpu(1), sbp = "B"}:sum():to_global{placement = cpu(0), sbp = "B"} end
    local options, x = {micro_batches = PIECES, schedule = schedule}, rille.ones({PIECES, 2}, {placement = cpu(0)})
    tap.is(rille.graph(forward, options)(x):item(), 0.75 * WIDTH, schedule_name(schedule) .. ": forward alone runs once")
    tap.fails(function() rille.graph(function() forward():backward() end, options)(x) end, {"receives no input"}, schedule_name(schedule) .. ": backward without data is refused")
  end
end)

-- ---- stages in a circle: data returns to an earlier device, or gradients pass through the stages again ----

tap.group("a circle of devices", function()
  -- Trains p layers. again: true: the loss passes the gradient of the first weight through the layers again; false:
  -- the loss reads this gradient directly.
  local function trained(p, again, place, options)
    rille.manual_seed(5)
    local weight = {}
    for d = 1, p do weight[d] = rille.randint(-1, 2, {WIDTH, WIDTH}, {placement = place(d - 1)}):to("f32"):detach():requires_grad_(true) end
    -- linear: true: each layer doubles its result; the value of the batch is then the sum of those of its
    -- micro-batches. false: each layer squares its result.
    local function through(x, linear)
      for d = 1, p do
        x = (d > 1 and x:to_global{placement = place(d - 1), sbp = "B"} or x):matmul(weight[d])
        x = linear and x * 2 or x:square()
      end
      return x
    end
    local x = rille.randint(-1, 2, {PIECES * ROWS, WIDTH}, {placement = place(0)}):to("f32"):detach()
    local step = rille.graph(function(x)
      local g = rille.grad(through(x):sum(), {weight[1]})
      return tap_backward((again and through(g:sum{axis = 0, keepdim = true}, true) or g):sum())
    end, options)
    local result = {step(x):item()}
    for d = 1, p do result[d + 1] = weight[d].grad:totable() end
    return result
  end
  for p = 2, 4 do
    for _, again in ipairs{false, true} do
      local want = trained(p, again, function() return cpu(0) end, {micro_batches = PIECES})
      for _, schedule in ipairs{"1f1b", "gpipe", "zb-h1", "zb-h2", "auto", {memory = 2}, {lag = 3, split_backward = true}} do
        if tap.share() then tap.is(trained(p, again, cpu, {micro_batches = PIECES, schedule = schedule}), want,
          ("%s, %d stages, a gradient that %s: bits are those of one device"):format(schedule_name(schedule), p, again and "passes through the stages again" or "enters the loss")) end
      end
    end
  end
end)

-- ---- several losses: heads on all stages, added up; or separate heads on devices that share no operator ----

tap.group("several losses", function()
  -- Returns losses, then gradients. whole: true: each stage has a head, and the loss is the sum of the heads; false:
  -- each layer reads only the step's argument.
  local function trained(p, whole, place, options)
    rille.manual_seed(9)
    local weight, head = {}, {}
    local function drawn(d) return rille.randint(-1, 2, {WIDTH, WIDTH}, {placement = place(d)}):to("f32"):detach():requires_grad_(true) end
    for d = 1, p do weight[d], head[d] = drawn(d - 1), drawn(d - 1) end
    local step = rille.graph(function(x)
      local losses, sum = {}, nil
      local h = x
      for d = 1, p do
        h = (d > 1 and (whole and h or x):to_global{placement = place(d - 1), sbp = "B"} or x):matmul(weight[d]):relu()
        losses[d] = h:matmul(head[d]):sum()
        if not whole then losses[d]:backward()
        elseif d == 1 then sum = losses[1]
        else sum = sum:to_global{placement = place(d - 1), sbp = "B"} + losses[d] end
      end
      if whole then sum:backward() end
      return table.unpack(losses)
    end, options)
    local x = rille.randint(-1, 2, {PIECES * ROWS, WIDTH}, {placement = place(0)}):to("f32"):detach()
    local result = {step(x)}
    for d = 1, p do result[d] = result[d]:item() end
    for d = 1, p do
      result[p + d], result[2 * p + d] = weight[d].grad:totable(), head[d].grad:totable()
    end
    return result
  end
  for p = 2, 4 do
    for _, whole in ipairs{true, false} do
      local want = trained(p, whole, function() return cpu(0) end, {micro_batches = PIECES})
      for _, schedule in ipairs{"1f1b", "gpipe", "zb-h1", "zb-h2", "auto", {memory = 2}, {lag = 3, split_backward = true}} do
        for _, how in ipairs{{}, {recompute = true}, {offload = storage}} do
          local options = {micro_batches = PIECES, schedule = schedule, recompute = how.recompute, offload = how.offload}
          if tap.share() then tap.is(trained(p, whole, cpu, options), want, ("%d %s, %s%s: bits are those of one device"):format(p, whole and "heads, added up" or "separate losses",
            schedule_name(schedule), how.recompute and ", recomputed" or how.offload and ", offloaded" or "")) end
        end
      end
    end
  end
end)

tap.group("separate losses that share operators", function()
  local w, line = rille.eye(WIDTH, {placement = cpu(0), requires_grad = true}), debug.getinfo(1, "l").currentline + 2
  local step = rille.graph(function(x)
    local h = x:matmul(w)
    h:sum():backward()
    h:to_global{placement = cpu(1), sbp = "B"}:square():sum():backward()
  end, {micro_batches = PIECES})
  tap.fails(function() step(rille.ones({PIECES, WIDTH}, {placement = cpu(0)})) end,
    {"already called through matmul (t/parallel/schedules-bits.lua:" .. line, "call backward() once", "t/parallel/schedules-bits.lua:" .. line + 2},
    "the second backward is refused; the error has both lines and the remedy")
end)

-- ---- a weight that two stages share: one stage sends its gradient to the other once per batch ----

tap.group("a weight of two stages", function()
  local function trained(pieces, options)
    local w = rille.eye(WIDTH, {placement = cpu(0)}):requires_grad_(true)
    options = options or {}
    options.micro_batches = pieces
    local step = rille.graph(function(x)
      local h = x:matmul(w):to_global{placement = cpu(1), sbp = "B"}
      return tap_backward(h:matmul(w:to_global{placement = cpu(1), sbp = "B"}):square():mean())
    end, options)
    local loss = step(rille.ones({PIECES * ROWS, WIDTH}, {placement = cpu(0)})):item()
    return {loss, w.grad:totable()}, step:stats().devices[1].bytes_in
  end
  local want, whole = trained(1)
  for _, schedule in ipairs{"1f1b", "gpipe", "zb-h1", "zb-h2", "auto"} do
    for _, recompute in ipairs{false, true} do
      if not tap.share() then goto next end
      local got, moved = trained(PIECES, {schedule = schedule, recompute = recompute})
      local name = schedule .. (recompute and ", recomputed: " or ": ")
      tap.is(got, want, name .. "the gradient is that of one batch")
      tap.is(moved, whole, name .. "the gradient's bytes move once")
      ::next::
    end
  end
end)

-- ---- stages of two ranks each that split the batch, with updates on slices ----

-- Returns losses and weights after two steps of four layers on these placements. Learning rate and momentum are 0.5, so
-- all values stay exact.
local function updated(at, batch, options)
  rille.manual_seed(11)
  local weight = tap.list(4, function(i) return rille.randint(-1, 2, {WIDTH, WIDTH}, {placement = at[i]}):to("f32"):detach():requires_grad_(true) end)
  local opt = rille.optim.SGD(weight, {lr = 0.5, momentum = 0.5})
  local x = rille.randint(-1, 2, {PIECES * ROWS, WIDTH}, {placement = at[1], sbp = batch}):to("f32"):detach()
  local step = rille.graph(function(x)
    for i = 1, 4 do
      if i > 1 and at[i] ~= at[i - 1] then x = x:to_global{placement = at[i], sbp = batch} end
      x = x:matmul(weight[i]):relu()
    end
    return tap_update(opt, x:sum())
  end, options)
  local result = tap.list(2, function() return step(x):item() end)
  for i = 1, 4 do result[i + 2] = weight[i]:totable() end
  return result
end

tap.group("data and pipeline parallel, in slices", function()
  local on, others = {}, rille.placement("cpu", {2, 3, 4, 5, 6, 7, 0, 1}) -- each stage offloads to the devices of the next stage
  for i = 1, 4 do on[i] = rille.placement("cpu", {2 * i - 2, 2 * i - 1}) end
  local two, all = {on[1], on[1], on[2], on[2]}, {"1f1b", "gpipe", "zb-h1", "zb-h2", "auto", {memory = 2}}
  local pipelines = {
    {"two stages", two, 8, all}, {"four stages", on, 4, all}, {"two stages, four micro-batches", two, 4, all},
    {"round", {on[1], on[2], on[1], on[2]}, 4, {"interleaved"}},
    {"there and back", {on[1], on[2], on[2], on[1]}, 4, {"zb-v", "v-half", "v-min", {memory = 1}}},
  }
  for _, p in ipairs(pipelines) do
    local name, at, pieces = p[1], p[2], p[3]
    local want = updated({cpu(0), cpu(0), cpu(0), cpu(0)}, "B", {micro_batches = pieces})
    for _, schedule in ipairs(p[4]) do
      for zero = 0, 3 do
        for _, how in ipairs{{}, {recompute = true}, {offload = others}, {recompute = true, offload = others}} do
          local text = ("%s, %s, zero %d%s%s"):format(name, schedule_name(schedule), zero,
            how.recompute and ", recomputed" or "", how.offload and ", offloaded" or "")
          local options = {micro_batches = pieces, schedule = schedule, zero = zero, recompute = how.recompute, offload = how.offload}
          if tap.share() then tap.is(updated(at, "S(0)", options), want, text .. ": bits are those of one device") end
        end
      end
    end
    for zero = 0, 3 do
      local options = {micro_batches = pieces, schedule = {memory = 0.9}, zero = zero, recompute = "auto"}
      if tap.share() then tap.is(updated(at, "S(0)", options), want, ("%s, memory 0.9, zero %d, recompute auto: bits are those of one device"):format(name, zero)) end
    end
  end
end)

-- Uses products so small that the estimated time of a micro-batch is 0 ns.
tap.group("a step with an estimated time of 0", function()
  local all = rille.placement("cpu", {{0, 1}, {2, 3}, {4, 5}, {6, 7}})
  for _, schedule in ipairs{"auto", {memory = 2}, "1f1b"} do
    local w = rille.ones({4, 4}):to("bf16"):to_global{placement = all, sbp = {"B", "B"}}:detach():requires_grad_(true)
    local step = rille.graph(function(x)
      return tap_backward(x:matmul(w):to("f32"):sum())
    end, {micro_batches = 4, schedule = schedule})
    local x = rille.ones({16, 4}):to("bf16"):to_global{placement = all, sbp = {"S(0)", "B"}}
    tap.is(step(x):item(), 256, schedule_name(schedule))
    tap.is(w.grad:sum():item(), 256, schedule_name(schedule) .. ": its gradient")
  end
end)

tap.done()
