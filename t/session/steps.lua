-- steps.lua - a loop of training steps: what it compiles, what it holds, and which value is read when.

local rille = require "rille"
local tap = dofile("t/lib/tap.lua")
local nn, optim = rille.nn, rille.optim

-- ---- a net on two stages ----

local first, second = rille.placement("cpu", {0, 1}), rille.placement("cpu", {2, 3})
local STEPS = 1000

local function make()
  rille.manual_seed(1)
  local a, b = nn.Linear(6, 8), nn.Linear(8, 4)
  a:to_global{placement = first, sbp = "B"}
  b:to_global{placement = second, sbp = "B"}
  local net = {parameters = {a.weight, a.bias, b.weight, b.bias}}
  net.x = rille.randn({16, 6}, {placement = first, sbp = "S(0)"})
  net.y = rille.tensor({0, 1, 2, 3, 3, 2, 1, 0, 0, 1, 2, 3, 1, 1, 2, 2},
    {dtype = "i64", placement = second, sbp = "S(0)"})
  net.optimiser = optim.SGD(net.parameters, {lr = 0.1, momentum = 0.5})
  function net.loss(x, y)
    return b(a(x):gelu():to_global{placement = second, sbp = "S(0)"}):cross_entropy(y)
  end
  function net.step(x, y)
    local loss = net.loss(x, y)
    loss:backward()
    net.optimiser:step()
    net.optimiser:zero_grad()
    return loss
  end
  return net
end

local function settled()
  collectgarbage()
  collectgarbage()
  return rille.counters()
end

-- What steps compile after the first two, and what they hold beyond what the 20th held; values beyond the 800th: 10,000
-- computed operators are remembered for explain, which 800 steps have more than filled.
local function long_loop(net, step, read)
  local random = rille.data.permutation(STEPS, tap.seed(1))
  local two, bytes, values, last
  for t = 1, STEPS do
    net.optimiser.lr = 0.1 / (1 + t)
    do
      local loss = step(net.x, net.y)
      if read(t) then last = loss:item() end
    end
    if random[t] < STEPS // 20 then collectgarbage() end
    if t == 2 then two = rille.counters().compiles end
    if t == 20 then bytes = settled() end
    if t == 800 then values = settled() end
  end
  local now = settled()
  return {compiles = now.compiles - two, values = now.live_values - values.live_values,
    nodes = now.live_nodes - values.live_nodes, bytes = now.live_bytes - bytes.live_bytes,
    arena = now.arena_bytes - bytes.arena_bytes, loss = last, runs = now.run_allocations}
end

local function is_steady(got, name)
  tap.is(got.compiles, 0, name .. " compiles nothing after its second step")
  tap.is({got.values, got.nodes}, {0, 0}, name .. " holds as many values after 1,000 steps as after 800")
  tap.is({got.bytes, got.arena}, {0, 0}, name .. " holds as many bytes as after 20")
  tap.is(got.runs, 0, name .. " asks for no memory within a run")
end

local losses = {}

tap.group("1,000 steps, collected at random, with another learning rate each", function()
  local net = make()
  local got = long_loop(net, net.step, function() return true end)
  is_steady(got, "a plain loop whose loss is read")
  losses.plain = got.loss

  net = make()
  got = long_loop(net, net.step, function(t) return t % 50 == 0 end)
  is_steady(got, "a plain loop whose loss is read now and then")
  losses.rarely = got.loss

  net = make()
  local graph = rille.graph(net.step)
  got = long_loop(net, graph, function() return true end)
  is_steady(got, "a compiled step")
  losses.graph = got.loss

  net = make()
  graph = rille.graph(net.step, {micro_batches = 4})
  got = long_loop(net, graph, function(t) return t % 3 == 0 end)
  is_steady(got, "a compiled step of four pieces")
  losses.pieces = got.loss

  tap.is(losses.rarely, losses.plain, "when the loss is read does not change it")
  tap.is(losses.graph, losses.plain, "a compiled step gives the bits of the loop")
end)

-- ---- how often things are computed ----

local function acts_of(f)
  local before = rille.counters().acts
  f()
  return rille.counters().acts - before
end

tap.group("forward is computed once", function()
  local net = make()
  for _ = 1, 2 do net.step(net.x, net.y):item() end
  local alone = acts_of(function() net.loss(net.x, net.y):item() end)
  local late = acts_of(function() net.step(net.x, net.y):item() end)
  local early = acts_of(function()
    local loss = net.loss(net.x, net.y)
    loss:item()
    loss:backward()
    net.optimiser:step()
    net.optimiser:zero_grad()
    loss:item()
  end)
  tap.ok(early < late + alone / 2, "item() before backward() does not compute forward again",
    ("%d acts; %d when read later, forward alone %d"):format(early, late, alone))
  local again = acts_of(function()
    local loss = net.loss(net.x, net.y)
    loss:item()
    local first_backward = acts_of(function() loss:backward(); net.parameters[1].grad:totable() end)
    tap.ok(first_backward > 0, "backward is computed when a gradient is read")
    tap.is(acts_of(function() net.parameters[1].grad:totable() end), 0, "and reading it again computes nothing")
  end)
  tap.ok(again > 0, "something was computed")
  tap.is(acts_of(function() net.x:totable() end), 0, "a leaf is there")
end)

-- An operator that sleeps is noticed: backward after item() must not run it again. The shortest of three tries counts.
tap.group("what gradients read is kept", function()
  local SLEEP <const> = 0.1
  local x, y = rille.rand({16, 8}), rille.zeros({16}, {dtype = "i64"})
  local w = rille.rand({8, 4}, {requires_grad = true})
  local function seconds_of(name, forward)
    local best = math.huge
    for _ = 1, 3 do
      local loss = forward(x:matmul(w)) -- a handle on the loss alone
      loss:item()
      rille._slow_op(name, SLEEP)
      local begin = rille.clock()
      loss:backward()
      w.grad:totable()
      best = math.min(best, rille.clock() - begin)
      rille._slow_op(name, 0)
      w.grad = nil
    end
    return best
  end
  for _, case in ipairs{
    {"gelu", function(h) return h:gelu():sum() end},
    {"tanh", function(h) return h:tanh():sum() end},
    {"exp", function(h) return h:exp():sum() end},
    {"softmax", function(h) return h:softmax(-1):square():sum() end},
    {"layer_norm", function(h) return h:layer_norm():square():sum() end},
    {"cross_entropy_rows", function(h) return h:cross_entropy(y) end},
    {"topk", function(h) return (h:topk(2)):sum() end},
  } do
    local took = seconds_of(table.unpack(case))
    tap.ok(took < SLEEP, case[1] .. " is not computed again by backward", ("%.3f s"):format(took))
  end
end)

-- ---- versions ----

tap.group("an old value stays what it was", function()
  local w = rille.tensor({1, 2, 3}, {requires_grad = true})
  local twice = w * 2 -- not computed yet
  local seen = w:detach()
  w:copy_(rille.tensor{10, 20, 30})
  tap.is(twice:totable(), {2, 4, 6}, "what was asked of the old version is computed from it")
  tap.is(seen:totable(), {1, 2, 3}, "a detached handle keeps the old version")
  tap.is(w:totable(), {10, 20, 30}, "the variable has the new one")
  w:add_(1)
  w:mul_(2)
  tap.is(w:totable(), {22, 42, 62}, "updates follow each other")

  local opt = optim.SGD({w}, {lr = 1})
  local squares = (w * w):sum()
  local before = w:detach()
  squares:backward()
  opt:step()
  tap.is(w:totable(), {-22, -42, -62}, "a step of descent")
  tap.is(before:totable(), {22, 42, 62}, "what was detached before it is as it was")
  tap.is(squares:item(), 22 * 22 + 42 * 42 + 62 * 62, "and so is the loss")
end)

-- All elements in one text.
local function flat(t)
  if type(t) ~= "table" then return ("%.9g"):format(t) end
  local parts = {}
  for i, e in ipairs(t) do parts[i] = flat(e) end
  return table.concat(parts, " ")
end

tap.group("old values across steps, while bytes are written over", function()
  local net = make()
  local history, kept = {}, {}
  local w = net.parameters[1]
  for t = 1, 12 do
    history[t] = w:totable()
    if t % 3 == 0 then kept[t] = w:detach() end
    net.step(net.x, net.y)
    if t % 5 == 0 then collectgarbage() end
  end
  local same = 0
  for t, old in pairs(kept) do
    if flat(old:totable()) == flat(history[t]) then same = same + 1 end
  end
  tap.is(same, 4, "four versions that were kept are what they were")
  tap.ok(flat(w:totable()) ~= flat(history[1]), "the variable has gone on")
end)

-- ---- losses and gradients ----

tap.group("two losses", function()
  local w = rille.tensor({1, 2}, {requires_grad = true})
  local shared = w * w
  local one, two = shared:sum(), (w * 3):sum()
  one:backward()
  two:backward()
  tap.is(w.grad:totable(), {2 * 1 + 3, 2 * 2 + 3}, "backward of each adds to the gradient")
  tap.is({one:item(), two:item()}, {5, 9}, "and both can be read")
  w.grad = nil
  local joint = (w * w):sum() + (w * 3):sum()
  joint:backward()
  tap.is(w.grad:totable(), {5, 7}, "their sum gives the same")
end)

tap.group("gradients over two calls, and after the step", function()
  local w = rille.tensor({1, 2}, {requires_grad = true})
  local opt = optim.SGD({w}, {lr = 0.5})
  for _ = 1, 2 do (w * w):sum():backward() end
  local g = w.grad
  opt:step()
  tap.is(w:totable(), {1 - 0.5 * 4, 2 - 0.5 * 8}, "the step takes the sum of both")
  tap.is(w.grad:totable(), {4, 8}, "p.grad can be read after it")
  tap.is(g:totable(), {4, 8}, "and through a handle taken before")
  opt:zero_grad()
  tap.is(w.grad, nil, "zero_grad clears it")
  tap.is(g:totable(), {4, 8}, "not for who holds it")
  ;(w * 3):sum():backward()
  opt:step()
  tap.is(w:totable(), {-1 - 1.5, -2 - 1.5}, "the next step starts from nothing")
end)

tap.group("temporaries that are kept", function()
  local w = rille.tensor({{1, 2}, {3, 4}}, {requires_grad = true})
  local opt = optim.SGD({w}, {lr = 0.25})
  local kept = {}
  for t = 1, 4 do
    local h = w:matmul(w)
    kept[t] = {h = h, want = w:totable()}
    h:sum():backward()
    kept[t].grad = w.grad
    opt:step()
    opt:zero_grad()
    if t == 2 then collectgarbage() end
  end
  local right = true
  for _, k in ipairs(kept) do
    local a, b, c, d = k.want[1][1], k.want[1][2], k.want[2][1], k.want[2][2]
    local h = k.h:totable()
    right = right and h[1][1] == a * a + b * c and h[1][2] == a * b + b * d and h[2][1] == c * a + d * c and
      h[2][2] == c * b + d * d
    local g = k.grad:totable()
    right = right and g[1][1] == (a + b) + (a + c) and g[2][2] == (c + d) + (b + d)
  end
  tap.ok(right, "each has the value and the gradient of its step")
end)

tap.group("no_grad and detach", function()
  local w = rille.tensor({2, 3}, {requires_grad = true})
  local still = rille.no_grad(function() return w * w end)
  tap.is(still.requires_grad, false, "what no_grad computes requires no gradient")
  tap.fails(function() still:sum():backward() end, "gradient", "and backward through it is an error")
  local cut = (w * w):detach()
  ;(cut * w):sum():backward()
  tap.is(w.grad:totable(), {4, 9}, "no gradient goes through detach")
  local running = rille.tensor({0, 0})
  for _ = 1, 100 do
    rille.no_grad(function() running:copy_(running * 0.5 + w) end)
  end
  collectgarbage()
  local before = settled()
  for _ = 1, 500 do
    rille.no_grad(function() running:copy_(running * 0.5 + w) end)
    running:totable()
  end
  local after = settled()
  tap.is(after.live_bytes - before.live_bytes, 0, "a running mean of 500 steps holds nothing of the past")
  tap.near(running:totable(), {4, 6}, "and has its value")
end)

tap.group("a loss that is summed over steps", function()
  local w = rille.tensor({1, 1}, {requires_grad = true})
  local opt = optim.SGD({w}, {lr = 0.125})
  local total, want = rille.tensor(0.0), 0
  for _ = 1, 10 do
    local loss = (w * w):sum()
    loss:backward()
    opt:step()
    opt:zero_grad()
    want = want + loss:item()
    total = total + loss:detach()
  end
  tap.near(total:item(), want, "is the sum of what was read")
end)

-- ---- results that are read through others, again and again ----

tap.group("a result with a handle", function()
  local x = rille.ones({4, 4})
  local y = (x * 2):matmul(x):exp()
  local acts = {}
  for i = 1, 6 do
    local before = rille.counters().acts
    y:sum():item()
    acts[i] = rille.counters().acts - before
  end
  tap.ok(acts[1] > acts[3], "is computed with the first that reads it, and kept by the second", table.concat(acts, " "))
  tap.is({acts[4], acts[5], acts[6]}, {acts[3], acts[3], acts[3]}, "and not computed again")
end)

-- ---- long programs that nobody reads ----

tap.group("20,000 small operators", function()
  local x = rille.ones({4})
  x:totable()
  local start = settled()
  for _ = 1, 20000 do local _ = x + 1 end
  local done = settled()
  tap.is({done.live_values - start.live_values, done.live_nodes - start.live_nodes, done.live_bytes - start.live_bytes},
    {0, 0, 0}, "without reading leave nothing")
  tap.is(done.acts, start.acts, "and are not computed")

  local y = x
  for _ = 1, 20000 do y = y + 1 end
  tap.is(y:totable(), {20001, 20001, 20001, 20001}, "in one chain are computed")
  local e = rille.explain(y)
  tap.ok(#e.ops > 0 and #e.ops <= 20000 and e.ops[#e.ops].name == "add", "explain tells of what is remembered",
    ("%d operators"):format(#e.ops))
  tap.ok(#tostring(e) > 0, "and prints")
  y, e = nil, nil
  for _ = 1, 12000 do local z = x + 1; z:totable() end
  local last = settled()
  tap.ok(last.live_nodes - start.live_nodes <= 10001, "of what was computed 10,000 operators are remembered, no more",
    ("%d nodes"):format(last.live_nodes - start.live_nodes))
  tap.is(last.live_bytes - start.live_bytes, 0, "without their bytes")
end)

tap.done()
