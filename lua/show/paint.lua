-- paint.lua - common parts of all pictures: amounts as text, SVG documents, terminal tables.
--
-- An SVG fits light and dark pages: shapes have classes, whose colours depend on the reader's light or dark mode.

local paint = {}

-- ---- writing amounts as text ----

local units = {"B", "KiB", "MiB", "GiB", "TiB"}
function paint.bytes(n)
  local k = 1
  while n >= 1024 and k < #units do n, k = n / 1024, k + 1 end
  return k == 1 and ("%d B"):format(n) or (n < 9.95 and "%.1f %s" or "%.0f %s"):format(n, units[k])
end

function paint.seconds(s)
  if s >= 1 then return ("%.3g s"):format(s) end
  if s >= 1e-3 then return ("%.3g ms"):format(s * 1e3) end
  if s >= 1e-6 then return ("%.3g us"):format(s * 1e6) end
  return ("%.0f ns"):format(s * 1e9)
end

function paint.percent(x) return ("%.1f %%"):format(100 * x) end

-- Returns a placement as short text: "cpu[0-3]", "cpu[0-7] 2 x 4". Ranks that are not consecutive are listed.
function paint.place(P)
  local ranks, runs = P.ranks, true
  for k = 2, #ranks do runs = runs and ranks[k] == ranks[k - 1] + 1 end
  if not runs or #ranks < 3 then return tostring(P) end
  local mesh = #P.shape > 1 and " " .. table.concat(P.shape, " x ") or ""
  return ("%s[%d-%d]%s"):format(P.device, ranks[1], ranks[#ranks], mesh)
end

-- ---- drawing SVG documents ----

local escapes = {["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;", ["'"] = "&#39;"}
function paint.escape(s) return (s:gsub("[&<>\"']", escapes)) end

-- Class -> fill colours on light and on dark pages. The colours also differ in brightness (after Okabe & Ito 2008).
paint.fills = {
  forward = {"#8ec7ee", "#2f6f9f"}, backward = {"#8fd6b4", "#2b7a5b"}, weight = {"#ffd27a", "#8f6a1c"},
  move = {"#d9a6cf", "#85507b"}, update = {"#b9c0cc", "#5d6675"}, idle = {"#f0f2f6", "#20242c"},
  r0 = {"#a5d3f2", "#2f6f9f"}, r1 = {"#ffc896", "#9a5f2b"}, r2 = {"#b9e4ae", "#41763a"}, r3 = {"#f7b2c0", "#96485a"},
  r4 = {"#cfc0f2", "#645292"}, r5 = {"#ffe394", "#857023"}, r6 = {"#a3e2d8", "#2f776c"}, r7 = {"#e2cab0", "#76583a"},
}

local light, dark = {}, {}
for _, name in ipairs{"forward", "backward", "weight", "move", "update", "idle", "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7"} do
  light[#light + 1] = (".%s{fill:%s}"):format(name, paint.fills[name][1])
  dark[#dark + 1] = (".%s{fill:%s}"):format(name, paint.fills[name][2])
end
local style = [[<style>text{font:12px "DejaVu Sans",system-ui,sans-serif;fill:#22304a}.page{fill:#fff}.faint{fill:#5f6b80}
.head{font-size:16px;font-weight:600}.mid{text-anchor:middle}.end{text-anchor:end}.small{font-size:10.5px}
.line{fill:none;stroke-width:1.6;stroke:#0072b2}.rule{stroke:#d5dae3;fill:none}.edge{stroke:#22304a;stroke-width:1;fill:none}
%s
@media (prefers-color-scheme:dark){text{fill:#dfe4ee}.page{fill:#15181e}.faint{fill:#97a1b3}.line{stroke:#63b3e6}
.rule{stroke:#3a414d}.edge{stroke:#97a1b3}
%s}</style>]]
style = style:format(table.concat(light), table.concat(dark))

local Document = {}
Document.__index = Document

-- Creates an empty document: add shapes, then call finish(width, height). title: the text for screen readers.
function paint.document(title) return setmetatable({title = title, parts = {}}, Document) end

function Document:add(format, ...) self.parts[#self.parts + 1] = format:format(...) end

function Document:text(x, y, class, s) self:add('<text x="%.1f" y="%.1f" class="%s">%s</text>', x, y, class, paint.escape(s)) end

-- Adds a box. tip: text of the tooltip.
function Document:box(x, y, w, h, class, tip)
  local shape = '<rect x="%.2f" y="%.1f" width="%.2f" height="%.1f" class="%s"'
  if tip then return self:add(shape .. '><title>%s</title></rect>', x, y, w, h, class, paint.escape(tip)) end
  self:add(shape .. '/>', x, y, w, h, class)
end

function Document:finish(width, height)
  local head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">\n<title>%s</title>'
  return table.concat({head:format(width, height, width, height, paint.escape(self.title)), style,
    '<rect class="page" width="100%" height="100%"/>', table.concat(self.parts, "\n"), "</svg>\n"}, "\n")
end

-- ---- drawing on a terminal ----

-- Terminal colours (of 256) of text and background, by kind of work.
local grounds = {forward = "30;48;5;117", backward = "30;48;5;115", weight = "30;48;5;222", move = "30;48;5;182",
  update = "30;48;5;250", idle = "38;5;243", faint = "38;5;245", head = "1"}

function paint.colored(s, name, color)
  return color and s ~= "" and ("\27[%sm%s\27[0m"):format(grounds[name], s) or s
end

-- Wraps a text to lines of at most `columns`; lines after the first are indented.
function paint.wrap(s, columns, indent)
  local lines, line = {}, nil
  for word in s:gmatch("%S+") do
    if line and utf8.len(line) + 1 + utf8.len(word) > columns then
      lines[#lines + 1] = line
      line = nil
    end
    line = line and line .. " " .. word or (#lines > 0 and indent or "") .. word
  end
  lines[#lines + 1] = line
  return table.concat(lines, "\n")
end

local LEAST <const> = 12 -- minimum useful width of a column

-- Shortens a cell to `width`: keeps the end of "file:line", and the beginning of other texts.
local function cut(cell, width)
  local size = utf8.len(cell)
  if cell:find("^%S+:%d+$") then return ".." .. cell:sub(size and utf8.offset(cell, size - width + 3) or #cell - width + 3) end
  return cell:sub(1, (size and utf8.offset(cell, width - 1) or width - 1) - 1) .. ".."
end

-- Formats rows of texts as a table, with two spaces between columns; the first row is the head. If the table is too
-- wide, drops the columns in `spare` in that order, and then shortens the widest columns.
function paint.table(rows, columns, spare)
  local width, n = {}, 0
  for _, row in ipairs(rows) do
    n = math.max(n, #row)
    for k, cell in ipairs(row) do width[k] = math.max(width[k] or 0, utf8.len(cell) or #cell) end
  end
  for k = 1, n do -- an empty column is dropped
    local filled = false
    for i = 2, #rows do filled = filled or (rows[i][k] or "") ~= "" end
    if not filled then width[k] = 0 end
  end
  local function total(most)
    local sum = 0
    for k = 1, n do sum = sum + (width[k] > 0 and math.min(width[k], most or math.huge) + 2 or 0) end
    return sum
  end
  for _, k in ipairs(spare or {}) do
    if columns and total(LEAST) > columns then width[k] = 0 end
  end
  while columns and total() > columns do
    local widest = 1
    for k = 2, n do if width[k] > width[widest] then widest = k end end
    if width[widest] <= 6 then break end
    width[widest] = width[widest] - 1
  end
  local lines = {}
  for _, row in ipairs(rows) do
    local line = {}
    for k = 1, n do
      local cell = row[k] or ""
      local size = utf8.len(cell) or #cell
      if size > width[k] and width[k] > 0 then cell, size = cut(cell, width[k]), width[k] end
      if width[k] > 0 then line[#line + 1] = "  " .. cell .. (" "):rep(width[k] - size) end
    end
    lines[#lines + 1] = table.concat(line):gsub("%s+$", "")
  end
  return table.concat(lines, "\n") .. "\n"
end

paint.blocks = {[0] = " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}

return paint
