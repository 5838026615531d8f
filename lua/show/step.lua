-- step.lua - step:show([file.svg]): the schedule of a compiled step. Rows are devices, and time runs to the right.
-- From top to bottom: planned times, measured times, register memory, the causes of waits.

local rille = require "rille"
local paint = require "rille.show.paint"
local theory_of = require "rille.show.theory"

local ROWS <const> = 16 -- maximum number of devices drawn; if there are more, draws the first ones and the last
local STALLS <const> = 4
local SMALL <const> = 0.01 -- share of forward time below which the time of transfers is not mentioned
local MOST <const> = 400 -- maximum spans per device that are drawn separately

-- ---- text about a step: headline, times, waits ----

local function headline(c)
  local places = #c.devices == 1 and c.devices[1].device or ("%d devices"):format(#c.devices)
  if c.threads < #c.devices then places = places .. (" on %d thread%s"):format(c.threads, c.threads > 1 and "s" or "") end
  local pieces = c.micro_batches > 1 and (", %d micro-batches, %s"):format(c.micro_batches, c.schedule) or ""
  return ("%d stage%s, %s%s"):format(c.stages, c.stages > 1 and "s" or "", places, pieces)
end

local function planned_text(c, theory)
  local from = c.given and "as given" or c.reckoned and "by estimated costs; nothing was measured yet" or "by measured costs"
  local text = ("planned: %s per step, %s idle (%s)"):format(paint.seconds(c.planned.time), paint.percent(c.planned.bubble), from)
  if c.activations > 0 then
    text = ("%s, %s of activations, %.2f of 1F1B's%s"):format(text, paint.bytes(c.activations), c.activations / c.activations_1f1b,
      c.again > 0 and (" with %s of forward recomputed, as here"):format(paint.percent(c.again)) or "")
  elseif c.again > 0 then text = ("%s, recomputing %s of forward"):format(text, paint.percent(c.again)) end
  if not theory then return c.bound > 0 and ("%s; the bound is %s idle"):format(text, paint.percent(c.bound)) or text end
  text = ("%s; in theory%s %s = %s"):format(text, theory.holds, paint.percent(theory.bubble), theory.formula)
  return c.move > SMALL * c.forward and text .. ", without communication time" or text
end

local function measured_text(c)
  local text = ("measured%s: %s per step, %s idle"):format(c.call < c.calls and (" in call %d of %d"):format(c.call, c.calls) or "",
    paint.seconds(c.measured.time), paint.percent(c.measured.bubble))
  if c.at_once < c.computing then
    text = ("%s; at least %s idle, because %d devices share %d threads"):format(text, paint.percent(1 - c.at_once / c.computing),
      c.computing, c.at_once)
  end
  return text
end

-- Returns the causes of waits: the measured ones, or, if devices share threads, the planned ones, because then most
-- measured waits come from the sharing.
local function stalls_of(c)
  local planned = not c.measured or c.at_once < c.computing
  local list, texts = (planned and c.planned or c.measured).stalls, {}
  for i = 1, math.min(STALLS, #list) do texts[i] = list[i].text end
  if #texts > 0 and planned and c.measured then texts[1] = "planned: " .. texts[1] end
  return texts
end

-- Returns the numbers of the devices whose rows are drawn; false stands for a gap.
local function rows_of(c)
  local rows, n = {}, #c.devices
  for d = 1, n do
    if n <= ROWS or d <= ROWS - 2 or d == n then rows[#rows + 1] = d
    elseif rows[#rows] then rows[#rows + 1] = false end
  end
  return rows
end

-- Returns the spans of a device. Unless the schedule splits backward, weight gradients are drawn as part of the backward
-- pass. (Backward of the first stage is only weight gradients, because its input needs no gradient.)
local function spans_of(c, run, device)
  local list = {}
  for _, s in ipairs(run.spans) do
    local joint = s.what == "weight" and s.micro_batch and not c.split
    if s.device == device then list[#list + 1] = joint and setmetatable({what = "backward"}, {__index = s}) or s end
  end
  return list
end

-- ---- drawing the schedule on the terminal ----

local textures = {forward = "░", backward = "▓", weight = "▒", move = "»", update = "█"}

-- Divides the time into cells. Joins neighbouring cells of equal contents to runs, and returns the runs that are not
-- idle: {what =, micro_batch =, stage =, from =, to =}; from and to are cells.
-- A cell shows the kind of work and the micro-batch that take most of its time. A cell that is idle more than half of
-- its time is shown as idle, until the work that was not shown adds up to a full cell. So acts that are much shorter
-- than a cell are shown in proportion to their time.
local function runs_of(spans, time, columns)
  local cells, runs, unseen = {}, {}, 0
  for _, s in ipairs(spans) do
    local from, to = s.from / time * columns, s.to / time * columns
    for k = math.floor(from), math.min(columns - 1, math.ceil(to) - 1) do
      local cell = cells[k] or {busy = 0, shares = {}}
      local key = s.what .. ":" .. (s.micro_batch or "")
      local share = math.min(to, k + 1) - math.max(from, k)
      cells[k], cell.busy = cell, cell.busy + share
      cell.shares[key] = (cell.shares[key] or 0) + share
      if not cell.most or cell.shares[key] > cell.shares[cell.key] then cell.most, cell.key = s, key end
    end
  end
  for k = 0, columns - 1 do
    local cell, last = cells[k], runs[#runs]
    local busy = cell and math.min(cell.busy, 1) or 0
    local seen = busy >= 0.5 or busy > 0 and unseen + busy >= 1
    unseen = unseen + busy - (seen and 1 or 0)
    if seen then
      if last and last.to == k and last.key == cell.key then last.to = k + 1
      else runs[#runs + 1] = {key = cell.key, what = cell.most.what, micro_batch = cell.most.micro_batch, stage = cell.most.stage, from = k, to = k + 1} end
    end
  end
  return runs
end

-- Returns the row of a device. A span begins with the number of its micro-batch, if the number fits.
local function row_text(spans, time, columns, color)
  local out, at = {}, 0
  local function idle(to)
    if to > at then out[#out + 1] = paint.colored(("·"):rep(to - at), "idle", color) end
  end
  for _, r in ipairs(runs_of(spans, time, columns)) do
    idle(r.from)
    local n, number = r.to - r.from, r.micro_batch and tostring(r.micro_batch) or ""
    if #number > n then number = n == 1 and number:sub(-1) or "" end
    out[#out + 1] = paint.colored(number .. (color and " " or textures[r.what]):rep(n - #number), r.what, color)
    at = r.to
  end
  idle(columns)
  return table.concat(out)
end

local function memory_text(points, most, columns)
  local out = {}
  for k = 0, columns - 1 do
    local bytes = 0
    for i = k * #points // columns + 1, math.max(k * #points // columns + 1, (k + 1) * #points // columns) do
      bytes = math.max(bytes, points[i])
    end
    out[#out + 1] = paint.blocks[math.ceil(8 * bytes / math.max(1, most))]
  end
  return table.concat(out)
end

-- Returns the legend of colours or textures, wrapped to columns.
local function legend_text(columns, color)
  local lines, used = {}, columns
  for _, what in ipairs{"forward", "backward", "weight", "move", "update"} do
    local entry = (color and paint.colored("  ", what, color) or textures[what]:rep(2)) .. " " .. what
    if used + #what + 5 > columns then lines[#lines + 1], used = "", 0 end
    lines[#lines] = lines[#lines] .. "  " .. entry
    used = used + #what + 5
  end
  return lines
end

local function plain_picture(c, theory, columns, color)
  local lines, rows = {}, rows_of(c)
  local label = 0
  for _, d in ipairs(c.devices) do label = math.max(label, #d.device) end
  local width = math.max(8, columns - label - 3)
  local function add(line) lines[#lines + 1] = line end
  local function say(text) add(paint.wrap(text, columns, "  ")) end
  local function panel(run, draw)
    for _, d in ipairs(rows) do
      add(d and ("  %-" .. label .. "s %s"):format(c.devices[d].device, draw(d)) or "  ...")
    end
  end
  add(paint.colored(paint.wrap(headline(c), columns, "  "), "head", color))
  say(planned_text(c, theory))
  panel(c.planned, function(d) return row_text(spans_of(c, c.planned, d), c.planned.time, width, color) end)
  if c.measured then
    say(measured_text(c))
    panel(c.measured, function(d) return row_text(spans_of(c, c.measured, d), c.measured.time, width, color) end)
  end
  local run, most = c.measured or c.planned, 0
  for _, d in ipairs(run.devices) do most = math.max(most, d.peak) end
  if most > 0 then
    local amount = 0
    for _, d in ipairs(run.devices) do amount = math.max(amount, #paint.bytes(d.peak)) end
    say("memory of activations, and its peak:")
    panel(run, function(d)
      local text = paint.bytes(run.devices[d].peak)
      return memory_text(run.devices[d].memory, most, math.max(4, width - amount - 1)) .. (" "):rep(amount - #text + 1) .. text
    end)
  end
  for _, line in ipairs(legend_text(columns, color)) do add(line) end
  for _, text in ipairs(stalls_of(c)) do say(text) end
  return table.concat(lines, "\n") .. "\n"
end

-- ---- drawing the schedule as SVG ----

local WIDTH <const>, LEFT <const>, RIGHT <const>, ROW <const>, GAP <const> = 960, 76, 20, 24, 4
local LINE <const>, LETTERS <const> = 18, 118 -- pixels: height of a line of text; maximum letters per line

local function tip_of(s)
  return ("%s%s, stage %d, %s"):format(s.what, s.micro_batch and " of micro-batch " .. s.micro_batch or "", s.stage, paint.seconds(s.to - s.from))
end

-- Returns the spans to draw; if there are too many, returns runs of half a pixel instead.
local function drawn_spans(spans, time)
  if #spans <= MOST then return spans end
  local cells <const> = 2 * (WIDTH - LEFT - RIGHT)
  local runs = runs_of(spans, time, cells)
  for _, r in ipairs(runs) do r.from, r.to = r.from / cells * time, r.to / cells * time end
  return runs
end

-- Draws the rows of a run from y downwards; the full width represents the times from 0 to `time`. Returns the y below
-- the rows.
local function draw_run(doc, c, run, rows, y, time)
  local scale = (WIDTH - LEFT - RIGHT) / time
  for _, d in ipairs(rows) do
    doc:text(LEFT - 8, y + ROW / 2 + 4, "end small", d and c.devices[d].device or "...")
    if d then doc:box(LEFT, y, run.time * scale, ROW - GAP, "idle") end
    local spans, free = d and drawn_spans(spans_of(c, run, d), time) or {}, 0
    for _, s in ipairs(spans) do
      local x, w = LEFT + s.from * scale, (s.to - s.from) * scale
      if w >= 0.15 then doc:box(x, y, math.max(0.3, w - (w > 4 and 0.8 or 0)), ROW - GAP, s.what, w > 1 and tip_of(s) or nil) end
    end
    -- texts are drawn after all boxes and without overlap, because transfers overlap other work
    for _, s in ipairs(spans) do
      local x, w, label = LEFT + s.from * scale, (s.to - s.from) * scale, s.micro_batch and tostring(s.micro_batch) or ""
      local half = 3.5 * #label
      if w >= 2 * half + 3 and x + w / 2 - half >= free then
        doc:text(x + w / 2, y + ROW / 2 + 2, "mid small", label)
        free = x + w / 2 + half
      end
    end
    y = y + ROW
  end
  return y
end

local function draw_axis(doc, y, time)
  local apart = 10 ^ math.floor(math.log(time / 4, 10))
  apart = time / apart > 20 and apart * 5 or time / apart > 10 and apart * 2 or apart
  for k = 0, math.floor(time / apart + 1e-9) do
    local x = LEFT + k * apart / time * (WIDTH - LEFT - RIGHT)
    doc:add('<path d="M%.1f %.1fv4" class="rule"/>', x, y)
    doc:text(x, y + 16, "mid small faint", k == 0 and "0" or paint.seconds(k * apart))
  end
  return y + 26
end

-- Draws one memory curve per device, all on the same scale.
local function draw_memory(doc, c, run, rows, y, time)
  local most = 1
  for _, d in ipairs(run.devices) do most = math.max(most, d.peak) end
  local scale = run.time / time * (WIDTH - LEFT - RIGHT)
  for _, d in ipairs(rows) do
    if d then
      local points, path, base = run.devices[d].memory, {}, y + ROW - GAP
      for k, bytes in ipairs(points) do
        path[#path + 1] = ("L%.1f %.1f"):format(LEFT + (k - 1) / #points * scale, base - bytes / most * (ROW - GAP))
        path[#path + 1] = ("L%.1f %.1f"):format(LEFT + k / #points * scale, base - bytes / most * (ROW - GAP))
      end
      doc:add('<path d="M%.1f %.1f%sL%.1f %.1fz" class="forward"/>', LEFT, base, table.concat(path), LEFT + scale, base)
      doc:text(LEFT - 8, y + ROW / 2 + 4, "end small", c.devices[d].device)
      doc:text(LEFT + 4, y + ROW / 2 + 3, "small", paint.bytes(run.devices[d].peak))
    end
    y = y + ROW
  end
  return y
end

local function draw_legend(doc, y)
  local x = LEFT
  for _, what in ipairs{"forward", "backward", "weight", "move", "update", "idle"} do
    doc:box(x, y - 10, 18, 12, what)
    doc:text(x + 24, y, "small", what == "weight" and "weight gradients" or what)
    x = x + (what == "weight" and 142 or 96)
  end
  return y + 14
end

-- Draws wrapped text from the baseline y on. Returns the next baseline.
local function draw_text(doc, y, class, text)
  for line in paint.wrap(text, LETTERS, "    "):gmatch("[^\n]+") do
    doc:text(LEFT, y, class, line)
    y = y + LINE
  end
  return y
end

-- Returns the time that the full width of the plan's picture represents, and the time that the full width of the
-- measured picture represents. The times are equal unless one picture would become too narrow.
local function scales_of(c)
  if not c.measured then return c.planned.time end
  local most, least = math.max(c.planned.time, c.measured.time), math.min(c.planned.time, c.measured.time)
  if most > 2.5 * least then return c.planned.time, c.measured.time end
  return most, most
end

local function svg_picture(c, theory)
  local doc, rows, y = paint.document("Schedule: " .. headline(c)), rows_of(c), 62
  local planned_time, measured_time = scales_of(c)
  doc:text(LEFT, 30, "head", headline(c))
  y = draw_text(doc, draw_legend(doc, 52) + 14, "faint", planned_text(c, theory)) - 10
  y = draw_run(doc, c, c.planned, rows, y, planned_time)
  if measured_time ~= planned_time then y = draw_axis(doc, y, planned_time) end
  local run, time = c.planned, planned_time
  if c.measured then
    run, time = c.measured, measured_time
    y = draw_text(doc, y + 16, "faint", measured_text(c)) - 10
    y = draw_run(doc, c, run, rows, y, time)
    y = draw_axis(doc, y, time)
  end
  y = draw_text(doc, y + 14, "faint", "memory of activations, to one scale, and its peak") - 10
  y = draw_memory(doc, c, run, rows, y, time) + LINE
  for _, text in ipairs(stalls_of(c)) do y = draw_text(doc, y, "", text) end
  return doc:finish(WIDTH, y + 4)
end

-- Shows a step. costs: as in step:chart, for the planned picture.
return function(step, path, costs)
  local c = step:chart(costs)
  c.given = costs ~= nil
  local theory = theory_of(c)
  rille._show(path, function() return svg_picture(c, theory) end,
    function(columns, color) return plain_picture(c, theory, columns, color) end)
end
