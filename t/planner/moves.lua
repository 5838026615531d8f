-- moves.lua - tests moves that the user writes, and moves of variables between updates.
--
-- explain() must report the bytes that actors count, with and without a planner, with and without micro-batches.

local tap = dofile("t/lib/tap.lua")

local seed <const> = tonumber(os.getenv("SEED"))
local P <const>, DRAWS <const> = rille.placement("cpu", {0, 1, 2, 3}), os.getenv("RILLE_LONG") and 1000 or 160
local function one_of(list) return list[math.random(#list)] end
local layouts = {"S(0)", "S(1)", "B"}
local readers = {
  function(v) return v:exp():sum() end, function(v) return (v * 2):sum() end, function(v) return v:square():sum{axis = 0}:sum() end,
}

-- Draws a program with 2 to 4 moves of one value. Fields of a move: of: number of the earlier move whose result it
-- moves, 0: it moves the value itself; to: the new layout; reader: a function that reads the result.
local function drawn(number)
  math.randomseed(number)
  local moves = tap.list(math.random(2, 4), function(i) return {of = math.random(0, i - 1), to = one_of(layouts), reader = one_of(readers)} end)
  return {moves = moves, x = one_of(layouts), w = one_of(layouts), grad = math.random(2) == 1,
    how = {auto_parallel = one_of{true, "propagate", "greedy"}, micro_batches = one_of{1, 2}}}
end

local function text(d)
  local words = {("x %s, w %s%s, %s, %d micro-batches:"):format(d.x, d.w, d.grad and " with gradient" or "", tostring(d.how.auto_parallel),
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

tap.group("moves written by the user", function()
  local first, last, wrong = seed or 1, seed or DRAWS, nil
  local some, tried = 0, 0
  for number = first, last do
    if seed or tap.share() then
      local d = drawn(number)
      local reported, moved = told_and_moved(d)
      if reported ~= moved then wrong = wrong or ("SEED=%d: %s: %d bytes reported, %d moved"):format(number, text(d), reported, moved) end
      if moved > 0 then some = some + 1 end
      tried = tried + 1
    end
  end
  tap.ok(not wrong, ("draws %d to %d: reported bytes are those that actors count"):format(first, last), wrong)
  tap.ok(seed or some > tried // 2, "most draws move something", some)
end)

-- Tries moves between all pairs of layouts that the call allows, also partial layouts. Each mode of the planner must
-- find a plan, and no plan may cost less than that of the optimal mode. (One kind of partial value cannot become
-- another.)
tap.group("moves between all layouts", function()
  local line, grid = {"S(0)", "S(1)", "B", "P", "P(max)", "P(min)"}, {}
  for _, a in ipairs{"S(0)", "B", "P", "P(max)"} do
    for _, b in ipairs{"S(1)", "B", "P", "P(max)"} do
      if a == b or not (a:find("P") and b:find("P")) then grid[#grid + 1] = {a, b} end
    end
  end
  local function text(sbp) return type(sbp) == "table" and ("(%s, %s)"):format(sbp[1], sbp[2]) or sbp end
  local tried, refused, wrong = 0, 0, nil
  for k, all in ipairs{line, grid} do
    local place = k == 1 and P or rille.placement("cpu", {{0, 1}, {2, 3}})
    local cut = all == line and "S(0)" or {"S(0)", "B"}
    for _, from in ipairs(all) do
      for _, to in ipairs(all) do
        for _, reads in ipairs{"the value", "a product", "a product, twice"} do
          if not tap.share() then goto next end
          local x = rille.randn({8, 12}, {placement = place, sbp = from})
          local w = rille.randn({8, 12}, {placement = place, sbp = cut, requires_grad = true})
          local function f(x)
            local v = reads == "the value" and x or x * w
            local y = v:to_global{placement = place, sbp = to}:exp():sum()
            if reads:find("twice") then y = y + (v:to_global{placement = place, sbp = to} * 2):sum() + v:neg():sum() end
            w.grad = nil
            if y.requires_grad then y:backward() end
            return y
          end
          local good, want = pcall(f, x)
          local slope, cost = good and w.grad, {}
          for _, mode in ipairs{"optimal", "propagate", "recursive", "greedy"} do
            local step = rille.graph(f, {auto_parallel = mode, time_limit = 600})
            local fine, y = pcall(step, x)
            local what = ("%s to %s, %s, %s: "):format(text(from), text(to), reads, mode)
            tried, refused = tried + 1, refused + (fine and 0 or 1)
            if fine ~= good then
              wrong = wrong or what .. tostring(fine and "the move is impossible" or y)
            elseif not good then
              if not tostring(y):find("cannot become", 1, true) then wrong = wrong or what .. tostring(y) end
            else
              local e = step:explain()
              cost[mode] = e.cost
              if math.abs(y:item() - want:item()) > 1e-3 * (1 + math.abs(want:item())) then wrong = wrong or what .. "its value" end
              if slope and (w.grad - slope):abs():max():item() > 1e-3 then wrong = wrong or what .. "its gradient" end
              if e.bytes ~= tap.received(step) then wrong = wrong or ("%s%d bytes reported, %d moved"):format(what, e.bytes, tap.received(step)) end
              if cost.optimal > e.cost then wrong = wrong or ("%s%d ns, optimal %d"):format(what, e.cost, cost.optimal) end
            end
          end
          ::next::
        end
      end
    end
  end
  tap.ok(not wrong, tried .. " plans: values, gradients and bytes are right, and optimal costs least", wrong)
  tap.ok((tap.which or refused > 0) and refused < tried // 2, "impossible moves are refused by the call", refused)
end)

-- Updates one variable twice. The second update may need a layout into which the first update cannot write, so a move
-- is needed between them. Each mode of the planner must find a plan.
tap.group("updates that follow each other", function()
  local updates = {
    relu = function(v, x) v:add_(x:relu()) end, add = function(v, x) v:add_(x) end,
    copy = function(v, x) v:copy_(x:relu()) end, mul = function(v, x) v:mul_(x:relu()) end,
  }
  local tried, wrong = 0, nil
  for k, sbps in ipairs{{"S(1)", "P"}, {{"P", "B"}, {"S(0)", "P"}}} do
    local place = k == 1 and P or rille.placement("cpu", {{0, 1}, {2, 3}})
    updates.cut = function(v, x) v:add_(x:to_global{sbp = k == 1 and "S(0)" or {"S(0)", "S(1)"}}) end
    for _, sbp in ipairs(sbps) do
      for first, f in tap.sorted(updates) do
        for second, g in tap.sorted(updates) do
          if not tap.share() then goto next end
          local costs, want = {}, nil
          for _, mode in ipairs{false, "optimal", "propagate", "recursive", "greedy"} do
            local x = rille.ones({8, 12}, {placement = place, sbp = sbp})
            local v = rille.full({8, 12}, 2, {placement = place, sbp = place == P and "B" or {"B", "B"}})
            local step = rille.graph(function(x)
              f(v, x); g(v, x)
              return v:sum()
            end, {auto_parallel = mode})
            local good, y = pcall(step, x)
            want = want or y:item()
            local what = ("%s, then %s, of %s on %s, %s: "):format(first, second, tostring(sbp), place, mode)
            tried = tried + 1
            if not good or y:item() ~= want then
              wrong = wrong or what .. tostring(y)
            elseif mode then
              local e = step:explain()
              costs[mode] = e.cost
              if e.bytes ~= tap.received(step) then wrong = wrong or what .. "reported bytes are not those that actors count" end
              if e.bound > e.cost or e.cost < costs.optimal then wrong = wrong or what .. "bound above cost, or below optimal" end
            end
          end
          ::next::
        end
      end
    end
  end
  tap.ok(not wrong, tried .. " steps: values, bytes and bounds are right", wrong)
end)

tap.done()
