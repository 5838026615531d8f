-- fail.lua - makes every act of a training step fail once. The error must name a line, and the session must still compute right.
--
-- The step is that of the digits example on a smaller network, as a pipeline of two stages with two devices each (pp-tp).

local tap = dofile("t/lib/tap.lua")
local nn, optim = rille.nn, rille.optim

local first, second = rille.placement("cpu", {0, 1}), rille.placement("cpu", {2, 3})
local LINES <const> = {} -- description of the code on a line, by line number

local function mark(what)
  LINES[debug.getinfo(2, "l").currentline] = what
end

local function make()
  rille.manual_seed(3)
  local fc1, fc2, fc3 = nn.Linear(64, 32), nn.Linear(32, 32), nn.Linear(32, 10)
  fc1:to_global{placement = first, sbp = "B"}
  fc2:to_global{placement = second, sbp = "B"}
  fc3:to_global{placement = second, sbp = "B"}
  fc1.weight:to_global_{placement = first, sbp = "S(0)"}
  fc1.bias:to_global_{placement = first, sbp = "S(0)"}
  fc2.weight:to_global_{placement = second, sbp = "S(1)"}
  local net = {parameters = {fc1.weight, fc1.bias, fc2.weight, fc2.bias, fc3.weight, fc3.bias}}
  net.optimiser = optim.AdamW(net.parameters, {lr = 3e-3, weight_decay = 0.01})
  function net.step(x, y)
    local h = fc1(x):gelu() mark "first layer"
    h = h:to_global{placement = second, sbp = h.sbp} mark "the move"
    local loss = fc3(fc2(h):gelu()):cross_entropy(y) mark "the rest"
    loss:backward() mark "backward"
    net.optimiser:step() mark "the update"
    net.optimiser:zero_grad()
    return loss
  end
  return net
end

local here = "t/hostile/fail.lua"
local images = rille.load_npy("examples/data/digits_x.npy"):reshape{1797, 64}:slice(0, 0, 16):to("f32") / 16
local labels = rille.load_npy("examples/data/digits_y.npy"):slice(0, 0, 16):to("i64")
local x = images:to_global{placement = first, sbp = "B"}
local y = labels:to_global{placement = second, sbp = "B"}
x, y = x:detach(), y:detach()
x:totable()
y:totable()

local function flat(t)
  if type(t) ~= "table" then return ("%a"):format(t) end
  return table.concat(tap.list(t, function(e) return flat(e) end), " ")
end

-- Returns the variables of training: weights and optimiser state.
local function variables(net)
  local list = {table.unpack(net.parameters)}
  for _, slot in ipairs(net.optimiser.slots) do table.move({slot.m, slot.v}, 1, 2, #list + 1, list) end
  return list
end

local function texts_of(list) return tap.list(list, function(v) return flat(v:totable()) end) end

local function copies(list)
  return tap.list(list, function(p) return rille.tensor(p:totable(), {placement = p.placement, sbp = p.sbp}) end)
end

local function set(list, values)
  rille.no_grad(function()
    for i, p in ipairs(list) do
      p:copy_(values[i])
      p:totable()
      p.grad = nil
    end
  end)
end

-- Makes each act fail in turn. Returns three counts: acts, defects by kind, and variables that a failed run has
-- changed in part.
local function fail_each(net, step)
  for _ = 1, 2 do step(x, y):item() end
  local list = variables(net)
  local values = copies(list)
  local steps, texts = net.optimiser.steps, texts_of(values)
  local function again()
    set(list, values)
    net.optimiser.steps = steps
  end
  local before = rille.counters().acts
  local want = flat(step(x, y):item())
  local acts = rille.counters().acts - before
  again()
  local got = {acts = acts, silent = 0, unnamed = 0, changed = 0, inexact = 0, torn = 0, lines = {}}
  for k = 1, acts do
    rille._fail_act(k)
    local good, err = pcall(step, x, y)
    rille._fail_act(0)
    err = tostring(err)
    if good or not err:find("made to fail", 1, true) then got.silent = got.silent + 1 end
    local line = err:match("^" .. here:gsub("%p", "%%%0") .. ":(%d+): ")
    if line then got.lines[math.tointeger(line)] = true end
    if not line or not LINES[math.tointeger(line)] then
      got.unnamed = got.unnamed + 1
      got.example = got.example or ("act %d: %s"):format(k, err)
    end
    for i, p in ipairs(list) do
      local whole, value = pcall(p.totable, p)
      if not whole then
        got.torn = got.torn + 1
        if not tostring(value):find("only partly written", 1, true) then got.changed = got.changed + 1 end
      elseif flat(value) ~= texts[i] then
        got.changed = got.changed + 1
        got.example = got.example or ("act %d: variable %d has changed"):format(k, i)
      end
    end
    again()
    if flat(step(x, y):item()) ~= want then got.inexact = got.inexact + 1 end
    again()
  end
  return got
end

local function is_handled(got, name)
  tap.ok(got.acts > 50, name .. ": the step has enough acts", tostring(got.acts))
  tap.is(got.silent, 0, ("%s: each act can fail, and the error is reported"):format(name))
  tap.is(got.unnamed, 0, name .. ": each error names a line of the step")
  tap.is(got.changed, 0, name .. ": each variable has its old value, or reading it is an error")
  tap.is(got.inexact, 0, name .. ": after the variables are reset, the next step gives exactly the same loss")
  if got.example then tap.diag(got.example) end
  tap.diag(("%d acts, %d times a variable was only partly written"):format(got.acts, got.torn))
end

tap.group("a compiled step", function()
  local net = make()
  local got = fail_each(net, rille.graph(net.step, {micro_batches = 4}))
  is_handled(got, "pp-tp, four micro-batches")
  local seen = {}
  for line in pairs(got.lines) do seen[LINES[line] or line] = true end
  tap.ok(seen["first layer"] and seen["the rest"] and seen["the update"], "the errors name lines of every part of the step")
end)

tap.group("a plain loop", function()
  local net = make()
  is_handled(fail_each(net, net.step), "pp-tp, plain")
end)

-- ---- errors in the user's data and calls ----

tap.group("labels out of range", function()
  local net = make()
  local bad = rille.tensor({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 10}, {dtype = "i64", placement = second})
  for name, step in pairs{plain = net.step, compiled = rille.graph(net.step, {micro_batches = 4})} do
    step(x, y):item()
    local list = variables(net)
    local old = texts_of(list)
    tap.fails(function() step(x, bad) end, {here .. ":", "10"}, name .. ": an error names the line and the label")
    tap.is(texts_of(list), old, name .. ": no rank has updated anything")
    for _, p in ipairs(net.parameters) do p.grad = nil end
    tap.ok(step(x, y):item() > 0, name .. ": valid labels work afterwards")
  end
end)

-- Tests bad ids and labels in calls whose value is not read. Such a call is not computed in forward, so only the
-- computation of its gradient can check the ids. With split classes, only the loss reads the logits at the labels.
tap.group("bad ids and labels of values that are not read", function()
  local wrong, tried, at = {}, 0, {placement = rille.placement("cpu", {0, 1})}
  local there = {placement = at.placement}
  local calls = {
    embedding = function(w, ids) return rille.embedding(ids, w) end,
    ["index_select in rows"] = function(w, ids) return w:index_select(0, ids) end,
    ["index_select in columns"] = function(w, ids) return w:transpose(0, 1):index_select(1, ids) end,
    gather = function(w, ids) return w:gather(0, ids:unsqueeze(1)) end,
    ["scatter_add's src"] = function(w, ids)
      return rille.zeros({8, 8}, there):scatter_add(0, ids:unsqueeze(1):expand{2, 8}, w)
    end,
    cross_entropy = function(w, ids) return rille.ones({2, 8}, there):matmul(w):cross_entropy(ids) end,
  }
  for _, sbp in ipairs{"B", "S(0)", "S(1)"} do
    at.sbp, at.requires_grad = sbp, true
    for name, call in pairs(calls) do
      local w = rille.ones({8, 8}, at)
      local opt = rille.optim.SGD({w}, {lr = 0.5})
      local function train(ids)
        call(w, ids):sum():backward()
        opt:step()
      end
      for method, step in pairs{eager = train, compiled = rille.graph(train)} do
        for _, id in ipairs{8, -7, 1 << 62, math.mininteger} do
          local ids = rille.tensor({0, id}, {dtype = "i64", placement = at.placement})
          local good, err = pcall(function() step(ids) return w:sum():item() end)
          w.grad, tried = nil, tried + 1
          local text = name == "cross_entropy" and "label %d at position 1 is not one of 8 classes" or "id %d at position "
          local said = not good and tostring(err):find(text:format(id), 1, true)
          if not said or w:sum():item() ~= 64 then wrong[#wrong + 1] = ("%s, %s, %s: %s"):format(name, sbp, method, err) end
        end
      end
    end
  end
  tap.is(wrong, {}, ("are reported, and nothing is updated (%d)"):format(tried))
end)

tap.group("a lookup and its gradient", function()
  local w = rille.ones({6, 8}, {requires_grad = true})
  local opt = rille.optim.SGD({w}, {lr = 0.5})
  local function gates(read)
    local step = rille.graph(function(ids)
      local y = rille.embedding(ids, w)
      y = (read and y:square() or y):sum()
      y:backward(); opt:step(); opt:zero_grad()
      return read and y
    end)
    step(rille.tensor({1, 2}, {dtype = "i64"}))
    local plan, name = tostring(step:plan()), {}
    for number, what in plan:gmatch("\n *(%d+) +(%S+)") do name[number] = what end
    local after = {}
    for number in plan:match(" gate .-after ([%d, ]+);"):gmatch("%d+") do after[#after + 1] = name[number] end
    return table.concat(after, " ")
  end
  tap.is(gates(true), "embedding", "check the same ids once: updates wait for the lookup")
  tap.is(gates(false), "index_add", "check the ids in the gradient if the looked-up values are not needed")
end)

-- Checks that errors report positions in the user's batch, for any number of micro-batches and any layout.
tap.group("positions of bad labels and ids", function()
  local four = rille.placement("cpu", {{0, 1}, {2, 3}})
  local wrong, tried = {}, 0
  local function words(f, ...)
    local good, err = pcall(f, ...)
    return good and "nothing" or tostring(err):match("at position (%S+) ") or tostring(err)
  end
  for _, how in ipairs{{placement = first, sbp = "B"}, {placement = first, sbp = "S(0)"}, {placement = four, sbp = {"S(0)", "B"}},
      {placement = four, sbp = {"S(0)", "S(0)"}}} do
    local logits, table_of = rille.zeros({16, 5}, how), rille.zeros({5, 3}, {placement = how.placement})
    if how.placement == four then table_of = table_of:to_global{sbp = {"B", "B"}}:detach() end
    local calls = {
      function(ids) return rille.embedding(ids, table_of):sum() end,
      function(ids, x) return x:cross_entropy(ids) end,
      function(ids) return ids:one_hot(5):sum() end,
      function(ids) return rille.embedding(ids:unsqueeze(1) + 0, table_of):sum() end,
      function(ids) return (ids // (ids - 7)):sum() end,
    }
    for _, pieces in ipairs{2, 4} do
      for c, call in ipairs(calls) do
        local step = rille.graph(call, {micro_batches = pieces})
        for at = 0, 15 do
          local values = tap.list(16, function(i) return i == at + 1 and 7 or 1 end)
          local ids = rille.tensor(values, {dtype = "i64", placement = how.placement, sbp = how.sbp})
          local got, want = words(step, ids, logits), c == 4 and ("{%d,"):format(at) or tostring(at)
          tried = tried + 1
          if got ~= want then wrong[#wrong + 1] = ("call %d, %d pieces, %s: %s, not %s"):format(c, pieces, ids.sbp, got, want) end
        end
      end
    end
  end
  tap.is(#wrong, 0, ("%d bad labels and ids are reported with their position in the batch"):format(tried))
  for i = 1, math.min(#wrong, 5) do tap.diag(wrong[i]) end
end)

tap.group("an error of the script in a step", function()
  local net = make()
  net.step(x, y):item()
  local list = variables(net)
  local old = texts_of(list)
  local step = rille.graph(function(a, b)
    local loss = net.step(a, b)
    local _ = loss.nothing.there
    return loss
  end, {micro_batches = 4})
  tap.fails(function() step(x, y) end, here .. ":", "in a trace is reported with its line")
  local gradients = tap.sum(net.parameters, function(p) return (p.grad and 1 or 0) end)
  tap.is({texts_of(list), gradients}, {old, 0}, "variables and gradients are as before the trace")
  local again = rille.graph(net.step, {micro_batches = 4})
  tap.ok(again(x, y):item() > 0, "another graph can be traced and runs")
end)

tap.done()
