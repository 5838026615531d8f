-- show-step.lua - tests of step:chart() and step:show(): the data of a chart, and its drawing.

local tap = dofile("t/lib/tap.lua")

local dealt, stages = dofile("t/lib/steps/dealt.lua"), dofile("t/lib/steps/stages.lua")
local function pipeline(p, pieces, schedule) return stages(tap.ranks(p), pieces, schedule, {kind = "cpu"}) end

tap.group("the data of a chart", function()
  local step = pipeline(4, 8, "1f1b")
  local c = step:chart()
  tap.is({c.stages, c.micro_batches, #c.devices, c.schedule}, {4, 8, 4, "1f1b"}, "a chart has stages, micro-batches, devices and the schedule")
  tap.is({c.pieces, c.planned.spans[1].piece, c.planned.spans[1].none}, {8, c.planned.spans[1].micro_batch, nil}, "old field names still work")
  for _, name in ipairs{"planned", "measured"} do
    local run, idle, busy = c[name], 0, 0
    for _, d in ipairs(run.devices) do
      busy = busy + d.busy
      tap.ok(d.peak > 0, name .. ": a device holds registers")
    end
    tap.near(run.bubble, 1 - busy / (run.time * 4), name .. ": the bubble is the idle share")
    for i, s in ipairs(run.spans) do
      if not (s.from >= 0 and s.to <= run.time * 1.000001 and s.from < s.to) then tap.ok(false, name .. ": span " .. i .. " is within the run") end
    end
    for _, s in ipairs(run.stalls) do idle = idle + s.share tap.ok(s.text:find("^stage %d "), name .. ": " .. s.text) end
    tap.ok(idle / 4 <= run.bubble + 1e-6, name .. ": reported waits do not exceed the idle time")
  end
  local peak = step:chart{forward = 1, backward = 1, weight = 1}.planned.devices
  tap.ok(peak[1].peak > peak[4].peak, "with 1f1b the first stage holds more than the last")
  tap.fails(function() step:chart{forward = -1} end, "forward", "a negative cost is refused")
  tap.fails(function() step:chart{sideways = 1} end, "sideways", "an unknown cost is refused")
  tap.fails(function() step:chart(3) end, "table", "a number instead of a table is refused")
  tap.fails(function() rille.graph(function(x) return x end):show() end, "call the step first", "a step that was not called has no schedule")
end)

tap.group("reported waits", function()
  local first, second = rille.placement("cpu", {0}), rille.placement("cpu", {1})
  local step = rille.graph(function(x) return x:tanh():to_global{placement = second, sbp = "B"}:exp() end, {micro_batches = 8})
  rille._slow_op("exp", 0.002)
  step(rille.randn({16, 4}, {placement = first}))
  rille._slow_op("exp", 0)
  local words = tap.list(step:chart().planned.stalls, function(s) return s.text end)
  tap.ok(table.concat(words, "; "):find("stage 0 waited %d+ %% for a register of tanh %(.-show%-step.lua:%d+%), which was still read by"),
    "a stage that is ahead waits for its own register, and the text names the line", table.concat(words, "; "))
end)

tap.group("the drawing", function()
  for _, step in ipairs{pipeline(4, 8, "1f1b"), pipeline(2, 1, "gpipe"), pipeline(3, 200, "1f1b"), pipeline(4, 8, "zb-h1")} do
    for _, columns in ipairs{1, 20, 40, 80, 120} do
      local plain = tap.drawn(step, columns, false)
      local widest = 0
      for line in plain:gmatch("[^\n]+") do widest = math.max(widest, utf8.len(line)) end
      if columns >= 40 then tap.ok(widest <= columns, ("fits into %d columns"):format(columns), widest) end
      local colored = tap.drawn(step, columns, true)
      tap.ok(colored:find("\27[30;48;5;", 1, true) and not plain:find("\27"), "has colours only if requested")
    end
    local _, svg = tap.drawn(step, 80, false)
    local open = 0
    for slash, closed in svg:gmatch("<(/?)[%a]+[^<>]-(/?)>") do open = open + (slash == "/" and -1 or closed == "/" and 0 or 1) end
    tap.is(open, 0, "every SVG element is closed")
    local right = 0
    for x, text in svg:gmatch('<text x="([%d.]+)"[^>]*>([^<]+)</text>') do right = math.max(right, x + 7.4 * utf8.len(text)) end
    local width = tonumber(svg:match('width="(%d+)"'))
    tap.ok(right > 0 and right <= width + 60, "no SVG text is cut off", ("%.0f of %d"):format(right, width))
    local over, lines = 0, {}
    for x, y, text in svg:gmatch('<text x="([%d.]+)" y="([%d.]+)" class="mid small">(%d+)</text>') do
      local half = 3.5 * #text
      if lines[y] and x - half < lines[y] - 0.2 then over = over + 1 end
      lines[y] = x + half
    end
    tap.is(over, 0, "numbers of micro-batches do not overlap")
    tap.ok(not svg:find("paint%-order"), "the SVG does not rely on paint-order")
    tap.ok(svg:find("prefers%-color%-scheme:dark") and svg:find("<title>Schedule"), "the SVG has colours for dark pages, and a title")
  end
  local plain = tap.drawn(pipeline(4, 8, "1f1b"), 80, false, {forward = 1, backward = 2})
  tap.ok(plain:find("idle %(as given%)"), "the text says that costs were given")
  tap.ok(plain:gsub("%s+", " "):find("in theory 27.3 % = A / (A + m (F + B + W)), A = (p - 1) (F + B + W), p = 4 stages, m = 8 micro-batches cpu", 1, true), "theory says (p - 1) / (m + p - 1)")
  tap.ok(plain:find("cpu:0 0"), "device 0 begins with micro-batch 0")
  for row in plain:match("planned.-measured"):gmatch("\n  (cpu:%d [^\n]+)") do
    tap.ok(row:find("▓") and not row:find("▒"), "1F1B: each stage has a backward pass, also the first, whose input needs no gradient: " .. row)
  end
  tap.ok(tap.drawn(pipeline(4, 8, "zb-h1"), 80, false, {forward = 1, backward = 1, weight = 1}):match("cpu:0 [^\n]+"):find("▒"),
    "a schedule that splits backward shows weight gradients")
  local rows, less = 0, {}
  for _, pieces in ipairs{4, 16, 32} do
    local step = pipeline(4, pieces, "1f1b")
    for _, move in ipairs{0, 1, 5, 20, 80} do
      local costs = {forward = 1, backward = 2, move = move}
      local run = step:chart(costs).planned
      for _, width in ipairs{40, 80, 160} do
        local at = 0
        for row in tap.drawn(step, width, false, costs):gmatch("\n  cpu:%d ([^\n]+)") do
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
  tap.is(less, {}, rows .. " rows of a terminal: no row shows less work than its device has, even for short acts")
  tap.is(rows, 3 * 5 * 3 * 4, "all devices have rows")
  local path = os.tmpname()
  pipeline(2, 4, "1f1b"):show(path .. ".svg")
  tap.ok(tap.read(path .. ".svg"):find("^<svg.*</svg>%s*$"), "with a file name the SVG is a complete document")
  os.remove(path) os.remove(path .. ".svg")
  tap.fails(function() pipeline(2, 1):show("x.png") end, "expected the name of an .svg file", "another kind of file is refused")
end)

-- schedules with two stages per device: {number of stages, true if V-shaped}; all other schedules have one stage per
-- device
local twice = {interleaved = {2, false}, ["zb-v"] = {2, true}, ["v-half"] = {2, true}}

-- Returns the value of a formula of theory.lua, given as text with the values of its variables. c: a chart, whose
-- times are further variables.
local function value_of(formula, c)
  local env = {F = c.forward, B = c.backward, W = c.weight, max = math.max}
  for name, n in formula:gmatch("(%l) = (%d+)") do env[name] = tonumber(n) end
  local share, added = formula:match("^(.-), A = (.-), p = ")
  local function value(text) return assert(load("return " .. text:gsub("([mv)]) %f[vmF(]", "%1 * "), "=formula", "t", env))() end
  env.A = value(added)
  return value(share)
end

tap.group("theory", function()
  local theory_of = require "rille.show.theory"
  local schedules = {"1f1b", "gpipe", "zb-h1", "zb-h2", "interleaved", "zb-v", "v-half", "auto", {lag = 1}, {lag = 2},
    {lag = 1, split_backward = true}, {lag = 2, split_backward = true}, {lag = 3, split_backward = true}}
  local reported, wrong, none = {[""] = 0, [" at most"] = 0, [" at least"] = 0}, {}, {}
  for _, p in ipairs{2, 3, 4, 8} do
    for _, m in ipairs{1, 2, 3, 4, 8, 12, 16} do
      for _, schedule in ipairs(schedules) do
        if not tap.share() then goto next end
        local good, step = pcall(stages, dealt(p, table.unpack(twice[schedule] or {1})), m, schedule)
        assert(good, step)
        for _, costs in ipairs{{forward = 1, backward = 1, weight = 1}, {forward = 1, backward = 2}, {forward = 1, backward = 2, weight = 1},
          {forward = 2, backward = 1, weight = 1}, {forward = 1, backward = 1, weight = 2}} do
          local c = step:chart(costs)
          local theory = theory_of(c)
          if theory then
            local off = c.planned.bubble - theory.bubble
            reported[theory.holds] = reported[theory.holds] + 1
            if theory.holds ~= " at most" and off < -1e-6 or theory.holds ~= " at least" and off > 1e-6 then
              wrong[#wrong + 1] = ("%s, %d devices, %d pieces, %d %d %d: %.4f, theory says %.4f%s"):format(c.schedule, p, m, costs.forward,
                costs.backward, costs.weight or 0, c.planned.bubble, theory.bubble, theory.holds)
            end
            if math.abs(value_of(theory.formula, c) - theory.bubble) > 1e-9 then wrong[#wrong + 1] = c.schedule .. ": " .. theory.formula end
          else none[c.schedule] = (none[c.schedule] or 0) + (m > 1 and 1 or 0) end
        end
        ::next::
      end
    end
  end
  tap.is(wrong, {}, "the stated idle share and bound of each formula hold")
  for holds, n in pairs(reported) do tap.ok(tap.which or n > 100, ("%d plans have a stated share%s"):format(n, holds)) end
  tap.is(tap.list({"1f1b", "gpipe", "zb-h1", "zb-h2", "zb-v"}, function(name) return none[name] or 0 end), {0, 0, 0, 0, 0}, "schedules with a formula state it for two or more micro-batches")
  tap.ok(tap.which or none.auto > 0 and none["v-half"] > 0 and none.interleaved > 0, "searched schedules, and uneven numbers of micro-batches, state no formula")
  tap.is(theory_of(stages({0, 1, 0}, 4, "1f1b"):chart()), nil, "a device with more stages than others states no formula")
end)

-- ---- scales, kinds of work, computing devices, measured calls ----

tap.group("planned and measured runs of very different length", function()
  local step, hidden, drawn_rows = pipeline(3, 4, "1f1b"), {}, 0
  for k = -7, 5 do
    local costs = {forward = 10 ^ k, backward = 10 ^ k, weight = 10 ^ k}
    local _, svg = tap.drawn(step, 80, false, costs)
    for x, width in svg:gmatch('<rect x="([%d.]+)" y="[%d.]+" width="([%d.]+)" height="20.0" class="idle"') do
      drawn_rows = drawn_rows + 1
      if width + 0 < 300 then hidden[#hidden + 1] = ("costs of 1e%d: %s wide"):format(k, width) end
    end
    for path in svg:gmatch('<path d="(M[^"]+)z" class="forward"') do
      local right = 0
      for x in path:gmatch("L([%d.]+) ") do right = math.max(right, x + 0) end
      drawn_rows = drawn_rows + 1
      if right < 300 then hidden[#hidden + 1] = ("costs of 1e%d: memory until %g"):format(k, right) end
    end
  end
  tap.is(hidden, {}, "rows and memory curves are never drawn too small")
  tap.is(drawn_rows, 13 * 3 * 3, "all devices have rows")
end)

-- Trains a step with an optimiser. Returns the planned run: {device = {kind = {{from, to, micro-batch}, ...}}}.
local function trained(options, place)
  local on, weight = {}, {}
  for s = 1, 3 do
    on[s] = place and place(s) or rille.placement("meta", {s - 1})
    weight[s] = rille.randn({8, 8}, {placement = on[s]}):requires_grad_(true)
  end
  local opt = rille.optim.Adam(weight, {lr = 0.1})
  local step = tap.training(opt, function(x)
    for s = 1, 3 do x = (s > 1 and x:to_global{placement = on[s], sbp = on[s].size > 1 and "S(0)" or "B"} or x):matmul(weight[s]):tanh() end
    return x:mean()
  end, options)
  step(rille.randn({4 * options.micro_batches, 8}, {placement = on[1], sbp = on[1].size > 1 and "S(0)" or "B"}))
  return step
end

tap.group("kinds of work", function()
  for _, pieces in ipairs{1, 4} do
    for _, schedule in ipairs{"1f1b", "gpipe", "zb-h1", "auto"} do
      for _, recompute in ipairs{false, true} do
        local early, moved, updates = {}, 0, 0
        for zero = 0, 3 do
          local function two(s) return rille.placement("meta", {2 * s - 2, 2 * s - 1}) end
          local step = trained({micro_batches = pieces, schedule = schedule, recompute = recompute, zero = zero}, two)
          local last = {}
          local spans = step:chart{forward = 1, backward = 1, weight = 1, move = 0.1, update = 1}.planned.spans
          for _, s in ipairs(spans) do
            if s.micro_batch and s.what == "forward" then last[s.device] = math.max(last[s.device] or 0, s.to) end
          end
          for _, s in ipairs(spans) do
            if s.what == "update" then
              updates = updates + 1
              if s.micro_batch or s.from < last[s.device] - 1e-9 then early[#early + 1] = ("zero %d, device %d, %g"):format(zero, s.device, s.from) end
            end
            moved = moved + (s.what == "move" and not s.micro_batch and 1 or 0)
          end
        end
        local name = ("%d pieces, %s%s: "):format(pieces, schedule, recompute and ", recomputed" or "")
        tap.is(early, {}, name .. "no update is shown before the forward pass of the last micro-batch")
        tap.ok(updates >= 4 * 6, name .. "each device has updates", updates)
        tap.ok(pieces == 1 or moved > 0, name .. "moves of gradients, once per batch, are shown", moved)
      end
    end
  end
end)

tap.group("devices that only store offloaded values", function()
  local costs = {forward = 1, backward = 1, weight = 1, update = 0}
  for _, schedule in ipairs{"1f1b", "gpipe", "zb-h1", "zb-h2"} do
    local function chart(offload) return trained({micro_batches = 4, schedule = schedule, offload = offload}):chart(costs) end
    local kept, storage = chart(), chart(rille.placement("meta", {3, 4, 5}))
    tap.is({kept.computing, #kept.devices, storage.computing, #storage.devices}, {3, 3, 3, 6}, schedule .. ": storage devices do not count as computing")
    tap.near(storage.planned.bubble, kept.planned.bubble, schedule .. ": storage devices do not count as idle")
    tap.ok(storage.bound <= storage.planned.bubble + 1e-9 and storage.bound > 0, schedule .. ": storage devices do not change the bound")
  end
end)

tap.group("the measured call", function()
  local first, second = rille.placement("cpu", {0}), rille.placement("cpu", {1})
  local step = rille.graph(function(x) return x:exp():to_global{placement = second, sbp = "B"}:sum() end, {micro_batches = 4})
  local x = rille.ones({8, 8}, {placement = first})
  for _ = 1, 9 do step(x) end
  local c = step:chart()
  tap.is({c.call, c.calls}, {3, 9}, "the first three calls are timed")
  tap.ok(tap.drawn(step, 200, false):find("measured in call 3 of 9: ", 1, true), "the text says which call was measured")
  step(x)
  c = step:chart()
  tap.is({c.call, c.calls}, {10, 10}, "after the first chart every call is timed")
  tap.ok(tap.drawn(step, 200, false):find("measured: ", 1, true), "then the last call is shown")
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
  tap.ok(pairs_of >= 2 * 3 * 8, "has an arrow for each micro-batch that moves between devices, forward and backward", pairs_of)
  tap.is(narrow, 0, "each arrow has two ends")
  tap.ok(inside, "the ends of arrows are within acts")
  tap.is(least, 0, "no result uses more registers than it has")
  local left = 0
  for _, v in pairs(last) do left = left + v end
  tap.ok(last["memory cpu:0"] and last["credits cpu:3"], "counters show bytes and registers of each device")
  tap.is(left, 0, "at the end no register is in use")
end)

tap.done()
