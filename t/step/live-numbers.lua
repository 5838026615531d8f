-- Tests live numbers, whose values a function returns anew for each call of the step. This function may do anything
-- except call the step itself. Rille calls it before it binds the step's arguments.
local tap = dofile "t/lib/tap.lua"

tap.group("a function that assigns what its step reads", function()
  local n <const> = 1 << 16
  local v, asked = rille.ones({n}), 0
  local g = rille.live(function()
    asked = asked + 1
    v:copy_(rille.full({n}, 7.0 + asked))
    local _ = v:sum():item()
    collectgarbage()
    return 2
  end)
  local step = rille.graph(function(x) return (x * g + v):sum() end)
  for _ = 1, 4 do
    local got = step(rille.ones({n})):item() / n
    tap.is(got, 2 + 7 + asked, "the run reads the assigned value")
  end
end)

tap.group("a function that calls its own step", function()
  local step, inside
  local g = rille.live(function()
    if step and inside then step(rille.ones({2})) end
    return 3
  end)
  step = rille.graph(function(x) return x * g end)
  tap.is(step(rille.ones({2})):totable(), {3, 3}, "runs while it does not call the step")
  inside = true
  local good, message = pcall(step, rille.ones({2}))
  tap.ok(not good, "is refused when it calls its own step")
  inside = false
  tap.is(step(rille.ones({2})):totable(), {3, 3}, "can run again afterwards: " .. tostring(message):match("[^\n]*"))
end)

tap.group("a call whose argument cannot be computed", function()
  local w = rille.nn.Linear(4, 4)
  local opt = rille.optim.Adam(w:parameters(), {lr = 0.1})
  local step = rille.graph(function(x)
    local loss = w(x):sum()
    loss:backward(); opt:step(); opt:zero_grad()
    return loss
  end)
  step(rille.ones({2, 4}))
  local steps = opt:state_dict().steps:item()
  local late = rille.ones({4, 4}):index_select(0, rille.tensor({1, 9}, {dtype = "i64"}))
  local good = pcall(step, late)
  tap.ok(not good, "the call fails")
  tap.is(opt:state_dict().steps:item(), steps, "the optimiser does not count the step")
end)

tap.group("a step without results", function()
  local k, v = 1.0, rille.zeros{2}
  local by_argument = rille.graph(function(a) v:add_(a) end)
  local by_upvalue = rille.graph(function() v:add_(k) end)
  local sum = 0
  for i = 1, 4 do
    k = i * 0.5
    tap.is(select("#", by_argument(i * 0.25)) + select("#", by_upvalue()), 0, "returns nothing in call " .. i)
    sum = sum + i * 0.75
    tap.is(v:totable(), {sum, sum}, "reads the numbers of call " .. i)
  end
end)

tap.group("arithmetic of live numbers", function()
  local k = 3
  local live = rille.live(function() return k end)
  local step = rille.graph(function(x) return x * (1 - live) + live // 2 * x - live ^ 2 + -live % 5 + live / x end)
  for i = 1, 3 do
    k = i + 0.5
    local x = rille.tensor{2.0}
    tap.near(step(x):item(), 2 * (1 - k) + k // 2 * 2 - k ^ 2 + -k % 5 + k / 2, "gives live numbers: call " .. i)
  end
  tap.fails(function() return live + {} end, {"live-numbers.lua:", "live: expected a number, found a table"}, "other values are refused")
  tap.fails(function() return live < 3 end, {"expected two numbers or two strings, found a live number"}, "comparing live numbers is refused")
end)

tap.done()
