-- panels.lua - checks the plan of a SUMMA product on devices with streams. The plan must gather each panel while the
-- previous panel is multiplied, with two panels in memory at a time. t/act/streams.c runs products with such panels.

local panels = require "rille.nn.base.panels"

-- Appends the task numbers of a text such as "0-1, 5" to the list.
local function numbers(text, list)
  for first, last in (text or ""):gmatch("%f[%d](%d+)%-?(%d*)") do
    for i = tonumber(first), tonumber(last) or tonumber(first) do list[#list + 1] = i end
  end
  return list
end

-- Returns a table by task number. An entry has the task's name and its direct predecessors, read from the printed
-- plan.
local function tasks_of(step)
  local tasks = {}
  for ids, name, rest in tostring(step:plan()):gmatch("\n *([%d%-]+)  (%S+ ?%S*) ([^\n]*)") do
    local before = numbers(rest:match("after ([%d%-, ]+)"), numbers(rest:match("from ([%d%-, %.]+)"), {}))
    for _, id in ipairs(numbers(ids, {})) do tasks[id] = {name = name, before = before} end
  end
  return tasks
end

-- Returns the set of products that must end before the task begins, by following predecessors.
local function products_before(tasks, id, seen, found)
  for _, before in ipairs(tasks[id].before) do
    if not seen[before] then
      seen[before] = true
      if tasks[before].name:find("^matmul") then found[before] = true end
      products_before(tasks, before, seen, found)
    end
  end
  return found
end

local on = rille.placement("async", {{0, 1}, {2, 3}})
for _, count in ipairs{2, 4, 8} do
  local x = rille.randn({4, 128, 1024}, {placement = on, sbp = {"S(0)", "S(2)"}})
  local w = rille.randn({256, 1024}, {placement = on, sbp = {"S(1)", "S(0)"}})
  local step = rille.graph(function(v) return panels.product(v, w, {"B", "S(0)"}, count) end)
  step(x)
  local tasks, done, gathers = tasks_of(step), 0, 0
  for id = 0, #tasks do -- tasks are in the order of panels, with four products per panel
    if tasks[id].name:find("^matmul") then
      done = done + 1
    elseif tasks[id].name:find("^box all") then
      gathers = gathers + 1
      local before = 0
      for _ in pairs(products_before(tasks, id, {}, {})) do before = before + 1 end
      assert(before <= math.max(0, done - 4), ("%d panels: a gather that comes after %d products depends on %d"):format(count, done, before))
    end
  end
  assert(done == 4 * count and gathers == 8 * count, ("%d panels: %d products, %d gathers"):format(count, done, gathers))
end
