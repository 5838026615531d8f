-- plot.lua - rille.plot(file, {loss = {3.2, 2.9, ...}, ["validation loss"] = {{0, 3.3}, {100, 2.1}}}): curves as an SVG.
--
-- A series is a list of numbers, at x = 0, 1, 2..., or a list of points {x, y}. Options (the third argument): title,
-- x, y (axis labels), log = true (logarithmic y axis). Colours follow the reader's light or dark mode.

local check = require "rille.base.check"

local WIDTH, HEIGHT = 720, 400
local LEFT, RIGHT, TOP, BOTTOM = 64, 24, 36, 48
local NAMED = 16 -- maximum number of series that the legend names; the legend states how many more there are
local MOST = 2000 -- maximum points drawn per series; more would not be visible
local FARTHEST = 1e300 -- greatest magnitude drawn; larger values count as infinite

-- Colours of the series, each {on a light page, on a dark page}: mostly from the palette of Okabe & Ito (2008), which
-- colour-blind readers can distinguish.
local colours = {{"#0072b2", "#56b4e9"}, {"#d55e00", "#e69f00"}, {"#009e73", "#4fd1a5"}, {"#aa4499", "#cc79a7"},
  {"#7a6a00", "#f0e442"}, {"#555555", "#bbbbbb"}}

local function style()
  local light, dark = {}, {}
  for i, pair in ipairs(colours) do
    light[i] = (".s%d{stroke:%s}.f%d{fill:%s}"):format(i, pair[1], i, pair[1])
    dark[i] = (".s%d{stroke:%s}.f%d{fill:%s}"):format(i, pair[2], i, pair[2])
  end
  return ([[<style>text{font:12px system-ui,sans-serif;fill:#333}.page{fill:#fff}.grid{stroke:#ddd}
.line{fill:none;stroke-width:1.8;stroke-linejoin:round}%s
@media (prefers-color-scheme:dark){text{fill:#ccc}.page{fill:#16181d}.grid{stroke:#333}%s}</style>]]):format(
    table.concat(light), table.concat(dark))
end

-- Escapes a text for XML; characters that XML does not allow, and invalid UTF-8, become '?'.
local function escaped(s)
  s = s:gsub("[\0-\8\11\12\14-\31\127]", "?")
  while true do
    local _, bad = utf8.len(s)
    if not bad then break end
    s = s:sub(1, bad - 1) .. "?" .. s:sub(bad + 1)
  end
  return (s:gsub("[&<>\"]", {["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;"}))
end

-- ---- reading the points of a series ----

-- Returns true if v can be drawn, that is, if differences of such numbers are finite.
local function is_finite(v) return v == v and v > -FARTHEST and v < FARTHEST end

-- Returns the finite points of a series, {{x, y}, ...}.
local function points_of(name, series, log)
  check.that(type(series) == "table", "plot: '%s' must be a list of numbers, found %s; series are {name = {numbers}}", name, check.shown(series))
  check.list("plot", ("the list '%s'"):format(name), series)
  local points = {}
  for i = 1, #series do
    local x, y = i - 1, series[i]
    if type(y) == "table" then x, y = y[1], y[2] end
    check.that(type(x) == "number" and type(y) == "number", "plot: entry %d of '%s' must be a number or {x, y}, found %s", i, name,
      type(series[i]) == "table" and check.listed(series[i]) or check.shown(series[i]))
    if is_finite(x) and is_finite(y) and (not log or y > 0) then points[#points + 1] = {x + 0.0, log and math.log(y, 10) or y + 0.0} end
  end
  return points
end

-- Returns the series by name; numeric keys become strings.
local function by_name(series)
  local named = {}
  for key, list in pairs(series) do
    check.that(type(key) == "string" or math.type(key) == "integer", "plot: the name of a series must be a string, found %s",
      check.shown(key))
    local name = tostring(key)
    check.that(named[name] == nil, "plot: two series are called '%s'", name)
    named[name] = list
  end
  return named
end

-- Reduces a series to at most MOST points, each the mean of a run of neighbours.
local function thinned(points)
  local run = math.ceil(#points / MOST)
  if run <= 1 then return points end
  local few = {}
  for i = 1, #points, run do
    local x, y, n = 0, 0, 0
    for k = i, math.min(i + run - 1, #points) do x, y, n = x + points[k][1], y + points[k][2], n + 1 end
    few[#few + 1] = {x / n, y / n}
  end
  return few
end

local function bounds(all, axis)
  local low, high = math.huge, -math.huge
  for _, s in ipairs(all) do
    for _, p in ipairs(s.points) do low, high = math.min(low, p[axis]), math.max(high, p[axis]) end
  end
  if low > high then return 0, 1 end
  local size = math.max(math.abs(low), math.abs(high))
  if high - low <= math.max(1e-12 * size, 1e-290) then -- the curve is practically constant
    local half = math.max(0.5, 1e-6 * size)
    return low - half, high + half
  end
  return low, high
end

-- Returns about n round numbers from low to high, spaced by 1, 2 or 5 times a power of ten.
local function ticks(low, high, n)
  local rough = (high - low) / n
  local power = 10 ^ math.floor(math.log(rough, 10))
  local apart = power * (rough / power < 1.5 and 1 or rough / power < 3.5 and 2 or rough / power < 7.5 and 5 or 10)
  local list = {}
  for k = math.ceil(low / apart - 1e-9), math.floor(high / apart + 1e-9) do list[#list + 1] = k * apart end
  return list
end

-- ---- drawing the curves ----

local function draw(all, o)
  local x0, x1 = bounds(all, 1)
  local y0, y1 = bounds(all, 2)
  local margin = (y1 - y0) * 0.04
  y0, y1 = y0 - margin, y1 + margin
  local function px(x) return LEFT + (x - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT) end
  local function py(y) return HEIGHT - BOTTOM - (y - y0) / (y1 - y0) * (HEIGHT - TOP - BOTTOM) end
  local head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">'
  local out = {head:format(WIDTH, HEIGHT, WIDTH, HEIGHT), style(), ('<rect class="page" width="%d" height="%d"/>'):format(WIDTH, HEIGHT)}
  local function add(format, ...) out[#out + 1] = format:format(...) end
  for _, y in ipairs(ticks(y0, y1, 6)) do
    add('<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>', LEFT, WIDTH - RIGHT, py(y), py(y))
    add('<text x="%d" y="%.1f" text-anchor="end">%s</text>', LEFT - 8, py(y) + 4, ("%.4g"):format(o.log and 10 ^ y or y))
  end
  for _, x in ipairs(ticks(x0, x1, 8)) do
    add('<text x="%.1f" y="%d" text-anchor="middle">%s</text>', px(x), HEIGHT - BOTTOM + 18, ("%.6g"):format(x))
  end
  if o.title then add('<text x="%d" y="22" style="font-weight:600">%s</text>', LEFT, escaped(o.title)) end
  local middle, half_way = (LEFT + WIDTH - RIGHT) // 2, (TOP + HEIGHT - BOTTOM) // 2
  if o.x then add('<text x="%d" y="%d" text-anchor="middle">%s</text>', middle, HEIGHT - 10, escaped(o.x)) end
  if o.y then
    add('<text transform="translate(16,%d) rotate(-90)" text-anchor="middle">%s</text>', half_way, escaped(o.y))
  end
  for i, s in ipairs(all) do
    local path, c = {}, (i - 1) % #colours + 1
    for k, p in ipairs(s.points) do path[k] = ("%.1f,%.1f"):format(px(p[1]), py(p[2])) end
    if #path == 1 then add('<circle class="f%d" cx="%.1f" cy="%.1f" r="3"/>', c, px(s.points[1][1]), py(s.points[1][2])) end
    add('<polyline class="line s%d" points="%s"/>', c, table.concat(path, " "))
    if i <= NAMED then
      add('<rect class="f%d" x="%d" y="%d" width="14" height="4"/><text x="%d" y="%d">%s</text>', c, WIDTH - 170, TOP + 18 * i - 6,
        WIDTH - 150, TOP + 18 * i, escaped(s.name))
    end
  end
  if #all > NAMED then add('<text x="%d" y="%d">and %d more</text>', WIDTH - 150, TOP + 18 * (NAMED + 1), #all - NAMED) end
  out[#out + 1] = "</svg>\n"
  return table.concat(out, "\n")
end

return check.limited("plot", function(path, series, options)
  check.picture("plot", path)
  check.that(type(series) == "table", "plot: expected {name = {numbers}}, found %s", check.shown(series))
  local o = check.options("plot", options, {title = check.none, x = check.none, y = check.none, log = false})
  for _, name in ipairs{"title", "x", "y"} do
    if o[name] ~= nil then check.text("plot", name, o[name]) end
  end
  local named, all = by_name(series), {}
  for _, name in ipairs(check.sorted_keys(named)) do
    all[#all + 1] = {name = name, points = thinned(points_of(name, named[name], o.log))}
  end
  rille._write("plot", path, draw(all, o))
end)
