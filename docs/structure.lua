-- structure.lua - draws docs/structure.svg: the parts of Rille, their folders, and what each part includes and calls of the others.
--
--   bash t/project/layering.sh build/release/rille parts | build/release/rille docs/structure.lua > docs/structure.svg
--
-- A line of input is "part part how" (includes, calls, or both) or "part has folder...". The picture contains the input as a
-- comment, and t/project/layering.sh compares it with the sources. A part is above the parts it uses. An arrow is
-- thin if a longer way leads there, too; thin arrows to the lowest part are left out. docs/structure-before.svg was drawn
-- in the same way of commit 68e48685, before the folders were split.

-- name, purpose, column (0 left .. 1 right)
local about = {
  {"shell", "the program, its prompt, Lua's side of rille.h", 0.5},
  {"actors/session", "rille.h: tensors, gradients, steps", 0.5},
  {"actors/cluster", "worker processes", 0.5},
  {"actors/act", "messages, the bus, device threads", 0.5},
  {"actors/plan", "plans are made and proved", 0.5},
  {"kernels", "how a call is computed", 0.38},
  {"kernels/op", "one record per operator", 0.62},
  {"kernels/cpu", "loops, oneDNN", 0.5},
  {"kernels/cuda", "plug-in for GPUs", 0.23},
  {"boxing", "redistribution", 0.97},
  {"sbp", "rules, signatures, the planner's search", 0.5},
  {"runtime/text", "text to ids and back", 0.02},
  {"runtime/file", "tensor files", 0.02},
  {"runtime", "errors, memory, types, layouts, the stored graph", 0.5},
}
local WIDTH <const>, TOP <const>, STEP <const>, HIGH <const>, MARGIN <const> = 1120, 24, 110, 68, 24

-- ---- what was read ----

local list, takes, known, has = {}, {}, {}, {}
for _, a in ipairs(about) do known[a[1]], takes[a[1]] = a, {} end
for line in io.lines() do
  list[#list + 1] = line
  local part, names = line:match("^(%S+) has (.+)$")
  local from, to, how = line:match("^(%S+) (%S+) (%S+)$")
  if part then
    has[part] = names
  else
    assert(from and known[from] and known[to], "structure.lua: no row in `about` for the parts of this line: " .. line)
    takes[from][to] = how
  end
end

-- Returns the length of the longest path of arrows down from a part: its height.
local height = {}
local function height_of(folder)
  if height[folder] then return height[folder] end
  local most = 0
  for to in pairs(takes[folder]) do most = math.max(most, height_of(to) + 1) end
  height[folder] = most
  return most
end
local floors = 0
for name in pairs(takes) do floors = math.max(floors, height_of(name)) end

-- Returns true if a path of two or more arrows leads from one part to the other.
local function roundabout(from, to)
  local function leads(a)
    for b in pairs(takes[a]) do
      if b == to or leads(b) then return true end
    end
    return false
  end
  for next in pairs(takes[from]) do
    if next ~= to and leads(next) then return true end
  end
  return false
end

-- ---- drawing ----

local box = {}
for _, a in ipairs(about) do
  local wide = math.max(15 * #a[1] * 0.62, #a[2] * 6.6, #(has[a[1]] or "") * 6.9) + 36
  local x = MARGIN + wide / 2 + a[3] * (WIDTH - 2 * MARGIN - wide)
  box[a[1]] = {x = x, y = TOP + (floors - height[a[1]]) * STEP, wide = wide}
end

local thin, bold = {}, {} -- {from, to}
for _, line in ipairs(list) do
  local from, to = line:match("^(%S+) (%S+)")
  if to == "has" then goto next end
  local kind = roundabout(from, to) and thin or bold
  if kind == bold or height[to] > 0 then kind[#kind + 1] = {from, to} end
  ::next::
end

-- Returns true if an arrow starts at the side of its box, not at the lower edge. Such an arrow leads to a box at least two rows
-- below and outside of the upper box's width, and passes beside the boxes in between.
local function sideways(from, to)
  local b, c = box[from], box[to]
  return height[from] - height[to] > 1 and math.abs(b.x - c.x) > b.wide / 2 + 100
end

-- Places the ends of arrows along the edge of a box, in the order of their other ends.
local down, up = {}, {}
for name in pairs(takes) do down[name], up[name] = {}, {} end
for _, kind in ipairs{thin, bold} do
  for _, a in ipairs(kind) do
    if not sideways(a[1], a[2]) then table.insert(down[a[1]], a[2]) end
    table.insert(up[a[2]], a[1])
  end
end
local function ports(name, others)
  table.sort(others, function(p, q)
    if box[p].x ~= box[q].x then return box[p].x < box[q].x end
    return height[p] > height[q]
  end)
  local b, at, n = box[name], {}, #others
  local span = math.min(b.wide - 44, 34 * (n - 1))
  for i, other in ipairs(others) do at[other] = b.x + (n > 1 and (i - 1) / (n - 1) - 0.5 or 0) * span end
  return at
end
for name in pairs(takes) do down[name], up[name] = ports(name, down[name]), ports(name, up[name]) end

local function arrow(from, to, class)
  local u, v = up[to][from], box[to].y - 7
  if sideways(from, to) then
    local b = box[from]
    local x, y = b.x + (u > b.x and 0.5 or -0.5) * b.wide, b.y + HIGH / 2
    return ('<path class="%s" d="M%.0f %.0fC%.0f %.0f %.0f %.0f %.0f %.0f"/>'):format(class, x, y, u, y, u, y + (v - y) * 0.3, u, v)
  end
  local x, y = down[from][to], box[from].y + HIGH
  local bend = math.max(20, (v - y) * 0.45)
  return ('<path class="%s" d="M%.0f %.0fC%.0f %.0f %.0f %.0f %.0f %.0f"/>'):format(class, x, y, x, y + bend, u, v - bend, u, v)
end

local tall = TOP + floors * STEP + HIGH + 46
print(([[
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="ui-sans-serif, system-ui, sans-serif">
<!-- made by docs/structure.lua of:
%s
-->
<title>The parts of Rille, their folders, and what each includes and calls of the others: all arrows point down</title>
<style>.page{fill:#fff}.box{fill:#eef3fa;stroke:#22304a;stroke-width:1.2}.public{fill:#ffe9cf}.base{fill:#e3f2dd}
.name{fill:#22304a;font:600 15px ui-monospace,Menlo,monospace}.what,.has{fill:#4a566b;font-size:12.5px}.has{font-family:ui-monospace,Menlo,monospace;font-size:11.5px}
.bold{fill:none;stroke:#22304a;stroke-width:1.7;marker-end:url(#head)}
.thin{fill:none;stroke:#8793a8;stroke-width:.9;opacity:.75;marker-end:url(#faint)}.head{fill:#22304a}.faint{fill:#8793a8}
@media (prefers-color-scheme:dark){.page{fill:#15181e}.box{fill:#232b38;stroke:#97a1b3}.public{fill:#4b3a22}.base{fill:#26382a}
.name{fill:#eef1f7}.what,.has{fill:#b6bfcd}.bold{stroke:#dfe4ee}.head{fill:#dfe4ee}.thin{stroke:#76819a}.faint{fill:#76819a}}</style>
<defs><marker id="head" viewBox="0 0 8 8" refX="2" refY="4" markerWidth="5.5" markerHeight="5.5" orient="auto">
<path class="head" d="M0 0L8 4L0 8z"/></marker>
<marker id="faint" viewBox="0 0 8 8" refX="2" refY="4" markerWidth="6" markerHeight="6" orient="auto">
<path class="faint" d="M0 0L8 4L0 8z"/></marker></defs>
<rect class="page" width="%d" height="%d" rx="10"/>]]):format(WIDTH, tall, table.concat(list, "\n"), WIDTH, tall))
for _, a in ipairs(thin) do print(arrow(a[1], a[2], "thin")) end
for _, a in ipairs(bold) do print(arrow(a[1], a[2], "bold")) end
for _, a in ipairs(about) do
  local b, class = box[a[1]], a[1] == "shell" and " public" or a[1] == "actors/session" and " public" or
    a[1]:find("^runtime") and " base" or ""
  print(('<rect class="box%s" x="%.0f" y="%.0f" width="%.0f" height="%d" rx="8"/>'):format(class, b.x - b.wide / 2, b.y, b.wide, HIGH))
  print(('<text class="name" x="%.0f" y="%.0f" text-anchor="middle">%s/</text>'):format(b.x, b.y + 21, a[1]))
  print(('<text class="what" x="%.0f" y="%.0f" text-anchor="middle">%s</text>'):format(b.x, b.y + 39, a[2]))
  if has[a[1]] then print(('<text class="has" x="%.0f" y="%.0f" text-anchor="middle">%s</text>'):format(b.x, b.y + 57, has[a[1]])) end
end
print(('<text class="what" x="%d" y="%d">An arrow: includes headers of, and calls. Thin: other arrows lead there, too; all lead to runtime/. None points up, none closes a circle.</text>'):format(MARGIN, tall - 14))
print("</svg>")
