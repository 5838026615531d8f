-- show-step.lua - step:chart() and step:show(): what a chart says, and the picture.

local rille = require "rille"
local tap = dofile("t/tap.lua")

-- A chain of products over p devices, one after the other.
local function pipeline(p, pieces, schedule)
  local on, weight = {}, {}
  for s = 1, p do
    on[s] = rille.placement("cpu", {s - 1})
    weight[s] = rille.randn({8, 8}, {placement = on[s]}):requires_grad_(true)
  end
  local step = rille.graph(function(x, y)
    for s = 1, p do x = (s > 1 and x:to_global{placement = on[s], sbp = "B"} or x):matmul(weight[s]):tanh() end
    local loss = x:mse_loss(y)
    loss:backward()
    return loss
  end, {micro_batches = pieces, schedule = schedule})
  step(rille.randn({2 * pieces, 8}, {placement = on[1]}), rille.randn({2 * pieces, 8}, {placement = on[p]}))
  return step
end

tap.group("what a chart says", function()
  local step = pipeline(4, 8, "1f1b")
  local c = step:chart()
  tap.is({c.stages, c.pieces, #c.devices, c.schedule}, {4, 8, 4, "1f1b"}, "stages, pieces, devices, schedule")
  for _, name in ipairs{"planned", "measured"} do
    local run, idle, busy = c[name], 0, 0
    for _, d in ipairs(run.devices) do
      busy = busy + d.busy
      tap.ok(d.peak > 0, name .. ": a device holds registers")
    end
    tap.near(run.bubble, 1 - busy / (run.time * 4), name .. ": the bubble is what is not busy")
    for i, s in ipairs(run.spans) do
      if not (s.from >= 0 and s.to <= run.time * 1.000001 and s.from < s.to) then tap.ok(false, name .. ": span " .. i .. " lies in the run") end
    end
    for _, s in ipairs(run.stalls) do idle = idle + s.share tap.ok(s.text:find("^stage %d "), name .. ": " .. s.text) end
    tap.ok(idle / 4 <= run.bubble + 1e-6, name .. ": nobody waits longer than there is idle time")
  end
  local peak = step:chart{forward = 1, backward = 1, weight = 1}.planned.devices
  tap.ok(peak[1].peak > peak[4].peak, "with 1f1b the first stage holds more than the last")
  tap.fails(function() step:chart{forward = -1} end, "forward", "a negative cost is refused")
  tap.fails(function() step:chart{sideways = 1} end, "sideways", "an unknown one too")
  tap.fails(function() step:chart(3) end, "table", "and what is no table")
  tap.fails(function() rille.graph(function(x) return x end):show() end, "called", "a step that was not called has no schedule")
end)

tap.group("who waits", function()
  local first, second = rille.placement("cpu", {0}), rille.placement("cpu", {1})
  local step = rille.graph(function(x)
    return x:tanh():to_global{placement = second, sbp = "B"}:exp()
  end, {micro_batches = 8})
  rille._slow_op("exp", 0.002)
  step(rille.randn({16, 4}, {placement = first}))
  rille._slow_op("exp", 0)
  local words = {}
  for _, s in ipairs(step:chart().planned.stalls) do words[#words + 1] = s.text end
  tap.ok(table.concat(words, "; "):find("stage 0 waited %d+ %% for a register of tanh %(.-show%-step.lua:%d+%), which was still read by"),
    "a stage that is ahead waits for a register of its own, and the line is told", table.concat(words, "; "))
end)

-- What step:show() draws, at a width.
local function drawn(step, columns, color, costs)
  local plain, svg
  local show = rille._show
  rille._show = function(_, make_svg, make_plain) svg, plain = make_svg(), make_plain(columns, color) end
  local good, why = pcall(step.show, step, nil, costs)
  rille._show = show
  assert(good, why)
  return plain, svg
end

tap.group("the picture", function()
  for _, step in ipairs{pipeline(4, 8, "1f1b"), pipeline(2, 1, "gpipe"), pipeline(3, 200, "1f1b"), pipeline(4, 8, "zb-h1")} do
    for _, columns in ipairs{1, 20, 40, 80, 120} do
      local plain = drawn(step, columns, false)
      local widest = 0
      for line in plain:gmatch("[^\n]+") do widest = math.max(widest, utf8.len(line)) end
      if columns >= 40 then tap.ok(widest <= columns, ("fits into %d columns"):format(columns), widest) end
      local colored = drawn(step, columns, true)
      tap.ok(colored:find("\27[30;48;5;", 1, true) and not plain:find("\27"), "has colours when they are wanted")
    end
    local _, svg = drawn(step, 80, false)
    local open = 0
    for slash, closed in svg:gmatch("<(/?)[%a]+[^<>]-(/?)>") do open = open + (slash == "/" and -1 or closed == "/" and 0 or 1) end
    tap.is(open, 0, "as SVG every element ends")
    local right = 0
    for x, text in svg:gmatch('<text x="([%d.]+)"[^>]*>([^<]+)</text>') do right = math.max(right, x + 7.4 * utf8.len(text)) end
    local width = tonumber(svg:match('width="(%d+)"'))
    tap.ok(right > 0 and right <= width + 60, "and no text is cut off", ("%.0f of %d"):format(right, width))
    local over, lines = 0, {}
    for x, y, text in svg:gmatch('<text x="([%d.]+)" y="([%d.]+)" class="mid small">(%d+)</text>') do
      local half = 3.5 * #text
      if lines[y] and x - half < lines[y] - 0.2 then over = over + 1 end
      lines[y] = x + half
    end
    tap.is(over, 0, "no number of a piece lies over another")
    tap.ok(not svg:find("paint%-order"), "what it says can be read wherever it is drawn")
    tap.ok(svg:find("prefers%-color%-scheme:dark") and svg:find("<title>Schedule"), "for dark pages too, and with a title")
  end
  local plain = drawn(pipeline(4, 8, "1f1b"), 80, false, {forward = 1, backward = 2})
  tap.ok(plain:find("idle %(as given%)"), "costs that were given are told to be")
  tap.ok(plain:find("27.3 %%"), "theory says (p - 1) / (m + p - 1)")
  tap.ok(plain:find("cpu:0 0"), "device 0 begins with piece 0")
  local rows, less = 0, {}
  for _, pieces in ipairs{4, 16, 32} do
    local step = pipeline(4, pieces, "1f1b")
    for _, move in ipairs{0, 1, 5, 20, 80} do
      local costs = {forward = 1, backward = 2, move = move}
      local run = step:chart(costs).planned
      for _, width in ipairs{40, 80, 160} do
        local at = 0
        for row in drawn(step, width, false, costs):gmatch("\n  cpu:%d ([^\n]+)") do
          at = at + 1
          if at > #run.devices then break end
          local idle = select(2, row:gsub("·", ""))
          local cells = utf8.len(row)
          rows = rows + 1
          if cells - idle <= run.devices[at].busy / run.time * cells - 1 then
            less[#less + 1] = ("%d pieces, move %d, width %d, device %d: %d of %d"):format(pieces, move, width, at - 1, cells - idle, cells)
          end
        end
      end
    end
  end
  tap.is(less, {}, rows .. " rows of a terminal: none shows less work than its device has, short as acts may be")
  tap.is(rows, 3 * 5 * 3 * 4, "of all devices")
  local path = os.tmpname()
  pipeline(2, 4, "1f1b"):show(path .. ".svg")
  local f = assert(io.open(path .. ".svg"))
  tap.ok(f:read("a"):find("^<svg.*</svg>%s*$"), "with the name of a file it is a whole document")
  f:close()
  os.remove(path) os.remove(path .. ".svg")
  tap.fails(function() pipeline(2, 1):show("x.png") end, "an .svg file is wanted", "another kind of file is refused")
end)

-- ---- step:trace() ----

tap.group("a trace", function()
  local step, path = pipeline(4, 8, "1f1b"), os.tmpname()
  step:trace(path)
  local events, slices, ends, inside, last, least = rille.json.load(path).traceEvents, {}, {}, true, {}, 0
  os.remove(path)
  for _, e in ipairs(events) do
    if e.ph == "X" then
      slices[e.tid] = slices[e.tid] or {}
      table.insert(slices[e.tid], {e.ts, e.ts + e.dur})
    end
  end
  for _, e in ipairs(events) do
    if e.ph == "s" or e.ph == "f" then
      local found = false
      for _, s in ipairs(slices[e.tid]) do found = found or s[1] - 0.002 <= e.ts and e.ts <= s[2] + 0.002 end
      inside = inside and found
      ends[e.id] = (ends[e.id] or "") .. e.ph
    elseif e.ph == "C" then
      last[e.name] = e.args.bytes or e.args.used
      least = math.min(least, e.args.free or 0)
    end
  end
  local pairs_of, narrow = 0, 0
  for _, what in pairs(ends) do pairs_of, narrow = pairs_of + 1, narrow + (what == "sf" and 0 or 1) end
  tap.ok(pairs_of >= 2 * 3 * 8, "has an arrow for each piece that goes from device to device, there and back", pairs_of)
  tap.is(narrow, 0, "each with two ends")
  tap.ok(inside, "which lie in acts")
  tap.is(least, 0, "no result has more registers in use than there are")
  local left = 0
  for _, v in pairs(last) do left = left + v end
  tap.ok(last["memory cpu:0"] and last["credits cpu:3"], "counters tell bytes and registers of each device")
  tap.is(left, 0, "and at the end none is in use")
end)

tap.done()
