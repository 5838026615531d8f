-- planner-moves.lua - moves that the user wrote, of one value and of what they give: what explain() says is moved is what
-- actors count, with a planner and without, in pieces and whole.

local rille = require "rille"
local tap = dofile("t/tap.lua")

local seed <const> = tonumber(os.getenv("SEED"))
local P <const>, DRAWS <const> = rille.placement("cpu", {0, 1, 2, 3}), 400
local function one_of(list) return list[math.random(#list)] end
local layouts = {"S(0)", "S(1)", "B"}
local readers = {
  function(v) return v:exp():sum() end, function(v) return (v * 2):sum() end, function(v) return v:square():sum{axis = 0}:sum() end,
}

-- What each move is of - the value, 0, or what an earlier move gave - where to, and what reads it.
local function drawn(number)
  math.randomseed(number)
  local moves = {}
  for i = 1, math.random(2, 4) do moves[i] = {of = math.random(0, i - 1), to = one_of(layouts), reader = one_of(readers)} end
  return {moves = moves, x = one_of(layouts), w = one_of(layouts), grad = math.random(2) == 1,
    how = {auto_parallel = one_of{true, "propagate", "greedy"}, micro_batches = one_of{1, 2}}}
end

local function text(d)
  local words = {("x %s, w %s%s, %s, %d pieces:"):format(d.x, d.w, d.grad and " learned" or "", tostring(d.how.auto_parallel),
    d.how.micro_batches)}
  for i, m in ipairs(d.moves) do words[#words + 1] = ("%d to %s"):format(m.of, m.to) end
  return table.concat(words, " ")
end

local function told_and_moved(d)
  local w = rille.ones({64, 96}, {placement = P, sbp = d.w, requires_grad = d.grad})
  local step = rille.graph(function(x)
    local v, sum = {[0] = x:exp()}, nil
    if d.how.micro_batches == 1 then v[0] = v[0] * w end
    for i, m in ipairs(d.moves) do
      v[i] = v[m.of]:to_global{placement = P, sbp = m.to}
      local y = m.reader(v[i])
      sum = sum and sum + y or y
    end
    if d.grad and d.how.micro_batches == 1 then sum:backward() end
    return sum
  end, d.how)
  step(rille.ones({64, 96}, {placement = P, sbp = d.x}))
  return step:explain().bytes, tap.received(step)
end

tap.group("moves that the user wrote", function()
  local first, last, wrong = seed or 1, seed or DRAWS, nil
  local some = 0
  for number = first, last do
    local d = drawn(number)
    local told, moved = told_and_moved(d)
    if told ~= moved then wrong = wrong or ("SEED=%d: %s: %d told, %d moved"):format(number, text(d), told, moved) end
    if moved > 0 then some = some + 1 end
  end
  tap.ok(not wrong, ("draws %d to %d: the bytes that actors count"):format(first, last), wrong)
  tap.ok(seed or some > DRAWS // 2, "most move something", some)
end)

tap.done()
