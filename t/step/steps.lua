-- steps.lua - tests loops of training steps: number of compilations, memory that is held, and old and new values of variables.

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
  function net.loss(x, y) return b(a(x):gelu():to_global{placement = second, sbp = "S(0)"}):cross_entropy(y) end
  function net.step(x, y) return tap_update(net.optimiser, net.loss(x, y)) end
  return net
end

local function settled()
  collectgarbage()
  collectgarbage()
  return rille.counters()
end

-- Runs a long loop. Returns three numbers: compilations after the second step; growth of memory since step 20, bytes;
-- growth of the number of values since step 800. Before step 800 the number of values still grows, because the
-- session remembers 10,000 computed operators for explain().
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
  tap.is({got.bytes, got.arena}, {0, 0}, name .. " holds as many bytes after 1,000 steps as after 20")
  tap.is(got.runs, 0, name .. " allocates no memory within a run")
end

local losses = {}

tap.group("1,000 steps with random garbage collections and a new learning rate each", function()
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
  is_steady(got, "a compiled step of four micro-batches")
  losses.pieces = got.loss

  tap.is(losses.rarely, losses.plain, "the loss does not depend on when it is read")
  tap.is(losses.graph, losses.plain, "a compiled step gives the same loss as the loop, bit by bit")
end)

-- ---- counting computations ----

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
    tap.is(acts_of(function() net.parameters[1].grad:totable() end), 0, "reading a gradient again computes nothing")
  end)
  tap.ok(again > 0, "a loss read before backward is computed")
  tap.is(acts_of(function() net.x:totable() end), 0, "reading a leaf computes nothing")
end)

-- Makes an operator of forward sleep. Backward after item() is slow if it computes this operator again. Compares the
-- best of three runs.
tap.group("values that gradients read are kept", function()
  local SLEEP <const> = 0.1
  local x, y = rille.rand({16, 8}), rille.zeros({16}, {dtype = "i64"})
  local w = rille.rand({8, 4}, {requires_grad = true})
  local function seconds_of(name, forward)
    local best = math.huge
    for _ = 1, 3 do
      local loss = forward(x:matmul(w)) -- after this call, only the loss has a handle
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

-- ---- old and new versions of variables ----

tap.group("old versions keep their values", function()
  local w = rille.tensor({1, 2, 3}, {requires_grad = true})
  local twice = w * 2 -- a value that is not computed yet
  local seen = w:detach()
  w:copy_(rille.tensor{10, 20, 30})
  tap.is(twice:totable(), {2, 4, 6}, "an operator on the old version is computed from the old version")
  tap.is(seen:totable(), {1, 2, 3}, "a detached handle keeps the old version")
  tap.is(w:totable(), {10, 20, 30}, "the variable has the new value")
  w:add_(1)
  w:mul_(2)
  tap.is(w:totable(), {22, 42, 62}, "in-place updates run in order")

  local opt = optim.SGD({w}, {lr = 1})
  local squares = (w * w):sum()
  local before = w:detach()
  squares:backward()
  opt:step()
  tap.is(w:totable(), {-22, -42, -62}, "a step of descent")
  tap.is(before:totable(), {22, 42, 62}, "a value detached before the step is unchanged")
  tap.is(squares:item(), 22 * 22 + 42 * 42 + 62 * 62, "a loss computed before the step is unchanged")
end)

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
  for t, old in pairs(kept) do tap.is(old:totable(), history[t], ("the version of step %d has its old values"):format(t)) end
  tap.ok(w:totable()[1][1] ~= history[1][1][1], "the variable has a new value")
end)

-- ---- losses and gradients ----

tap.group("two losses", function()
  local w = rille.tensor({1, 2}, {requires_grad = true})
  local shared = w * w
  local one, two = shared:sum(), (w * 3):sum()
  one:backward()
  two:backward()
  tap.is(w.grad:totable(), {2 * 1 + 3, 2 * 2 + 3}, "backward of each adds to the gradient")
  tap.is({one:item(), two:item()}, {5, 9}, "both losses can be read")
  w.grad = nil
  local joint = (w * w):sum() + (w * 3):sum()
  joint:backward()
  tap.is(w.grad:totable(), {5, 7}, "backward of the sum gives the same gradient")
end)

tap.group("gradients over two calls, and after the step", function()
  local w = rille.tensor({1, 2}, {requires_grad = true})
  local opt = optim.SGD({w}, {lr = 0.5})
  for _ = 1, 2 do (w * w):sum():backward() end
  local g = w.grad
  opt:step()
  tap.is(w:totable(), {1 - 0.5 * 4, 2 - 0.5 * 8}, "the step uses the sum of both gradients")
  tap.is(w.grad:totable(), {4, 8}, "p.grad can be read after the step")
  tap.is(g:totable(), {4, 8}, "a handle taken before the step has the gradient")
  opt:zero_grad()
  tap.is(w.grad, nil, "zero_grad clears p.grad")
  tap.is(g:totable(), {4, 8}, "a handle keeps the gradient after zero_grad")
  ;(w * 3):sum():backward()
  opt:step()
  tap.is(w:totable(), {-1 - 1.5, -2 - 1.5}, "the next step starts without old gradients")
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
  tap.ok(right, "each temporary has the value and the gradient of its step")
end)

tap.group("no_grad and detach", function()
  local w = rille.tensor({2, 3}, {requires_grad = true})
  local still = rille.no_grad(function() return w * w end)
  tap.is(still.requires_grad, false, "a value computed in no_grad requires no gradient")
  tap.fails(function() still:sum():backward() end, "gradient", "backward through a value of no_grad is an error")
  local cut = (w * w):detach()
  ;(cut * w):sum():backward()
  tap.is(w.grad:totable(), {4, 9}, "no gradient passes through detach")
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
  tap.is(after.live_bytes - before.live_bytes, 0, "a running mean of 500 steps holds no old values")
  tap.near(running:totable(), {4, 6}, "the running mean has the right value")
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
  tap.near(total:item(), want, "equals the sum of the losses read")
end)

-- ---- results that are read repeatedly through other values ----

tap.group("a result with a handle", function()
  local x = rille.ones({4, 4})
  local y = (x * 2):matmul(x):exp()
  local acts = {}
  for i = 1, 6 do
    local before = rille.counters().acts
    y:sum():item()
    acts[i] = rille.counters().acts - before
  end
  tap.ok(acts[1] > acts[3], "is computed with its first reader, and kept from the second on", table.concat(acts, " "))
  tap.is({acts[4], acts[5], acts[6]}, {acts[3], acts[3], acts[3]}, "is not computed again")
end)

-- ---- long programs that are not read ----

tap.group("20,000 small operators", function()
  local x = rille.ones({4})
  x:totable()
  local start = settled()
  for _ = 1, 20000 do local _ = x + 1 end
  local done = settled()
  tap.is({done.live_values - start.live_values, done.live_nodes - start.live_nodes, done.live_bytes - start.live_bytes},
    {0, 0, 0}, "that are not read leave nothing in memory")
  tap.is(done.acts, start.acts, "that are not read are not computed")

  local y = x
  for _ = 1, 20000 do y = y + 1 end
  tap.is(y:totable(), {20001, 20001, 20001, 20001}, "in one chain are computed")
  local e = rille.explain(y)
  tap.ok(#e.ops > 0 and #e.ops <= 20000 and e.ops[#e.ops].name == "add", "explain() lists the remembered operators",
    ("%d operators"):format(#e.ops))
  tap.ok(#tostring(e) > 0, "the result of explain() prints")
  y, e = nil, nil
  for _ = 1, 12000 do local z = x + 1; z:totable() end
  local last = settled()
  tap.ok(last.live_nodes - start.live_nodes <= 10001, "at most 10,000 computed operators are remembered",
    ("%d nodes"):format(last.live_nodes - start.live_nodes))
  tap.is(last.live_bytes - start.live_bytes, 0, "remembered operators hold no bytes")
end)

tap.done()
