-- Tests rille.plot: the SVG must be well formed, and its curves visible on light and dark pages.
local tap = dofile("t/lib/tap.lua")
local path = os.tmpname()

local function draw(series, options)
  rille.plot(path, series, options)
  return tap.read(path)
end

-- Returns true if every element is closed in order and every attribute has a value.
local function well_formed(text)
  local open = {}
  for slash, name, rest in text:gmatch("<(/?)([%w]+)([^>]*)>") do
    if slash == "/" then
      if table.remove(open) ~= name then return false end
    elseif rest:sub(-1) ~= "/" then
      open[#open + 1] = name
    end
    if rest:gsub('[%w%-]+="[^"]*"', ""):find('[="]') then return false end
  end
  return #open == 0
end

local function points(text)
  local list = {}
  for line in text:gmatch('points="([^"]*)"') do
    local curve = {}
    for x, y in line:gmatch("([%-%d.]+),([%-%d.]+)") do curve[#curve + 1] = {tonumber(x), tonumber(y)} end
    list[#list + 1] = curve
  end
  return list
end

tap.group("curves", function()
  local text = draw({loss = {3, 2, 1}, ["a <b> & c"] = {{0, 1}, {2, 3}}}, {title = "A & B", x = "step", y = "nats"})
  tap.ok(well_formed(text), "the SVG is well formed")
  tap.ok(text:find("prefers%-color%-scheme:dark"), "the SVG has colours for dark pages")
  tap.ok(text:find("a &lt;b&gt; &amp; c", 1, true) and text:find("A &amp; B", 1, true), "texts are escaped")
  local p = points(text)
  tap.is({#p, #p[1], #p[2]}, {2, 2, 3}, "series are sorted by name, with a point per value")
  tap.ok(p[2][1][1] < p[2][3][1] and p[2][1][2] < p[2][3][2], "steps increase to the right, and values upwards")
  tap.is({p[1][2][1], p[1][2][2]}, {p[2][3][1], p[2][1][2]}, "points have the right coordinates")
  for _, curve in ipairs(p) do
    for _, point in ipairs(curve) do
      tap.ok(point[1] >= 64 and point[1] <= 720 and point[2] >= 36 and point[2] <= 352, "each point is inside the frame")
    end
  end
end)

tap.group("unusual values", function()
  local long = tap.list(100000, function(i) return i % 7 end)
  tap.ok(#points(draw{long = long})[1] <= 2000, "a long series is thinned")
  for name, series in pairs{empty = {}, ["no values"] = {a = {}}, one = {a = {5}}, flat = {a = {2, 2, 2}},
    ["not numbers"] = {a = {0 / 0, 1 / 0, 3}}, ["named by a number"] = {[3] = {1, 2}}, ["far apart"] = {a = {1.7e308, -1.7e308, 1e299, -1e299, 2}},
    tiny = {a = {5e-324, 0}}, ["flat and large"] = {a = {1e17, 1e17}}, ["nearly one"] = {a = {1e17, 1e17 + 32}},
    ["large integers"] = {a = {math.maxinteger, math.mininteger}}} do
    local text = draw(series)
    tap.ok(well_formed(text) and not text:find("nan") and not text:find("inf"), name)
  end
  local many = {}
  for i = 1, 200 do many[("series %d"):format(i)] = {i, i + 1} end
  local crowded, lowest = draw(many), 0
  for y in crowded:gmatch('<text x="%d+" y="(%d+)">') do lowest = math.max(lowest, tonumber(y)) end
  tap.ok(well_formed(crowded) and lowest <= 352 and crowded:find("and 184 more", 1, true) and #points(crowded) == 200,
    "200 series are drawn, and as many are named as fit", lowest)
  tap.ok(not draw{["a\0b\27c\xff\xc3\x28 ü"] = {1}}:find("[^ü\n\32-\126]") and draw{["\xffa"] = {1}}:find(">?a<", 1, true),
    "characters that XML forbids become question marks in names")
  local text = draw({a = {1, 10, 100, 0, -1}}, {log = true})
  local p = points(text)[1]
  tap.is(#p, 3, "on a log scale, values of at most 0 are left out")
  tap.near(p[1][2] - p[2][2], p[2][2] - p[3][2], "on a log scale, powers of ten are equally spaced", 1e-2, 0.2)
end)

tap.group("mistakes", function()
  local function line(words, f) words[#words + 1] = "plot.lua"; tap.fails(f, words, words[1]) end
  line({"the name of a file"}, function() rille.plot({}, {}) end)
  line({"expected the name of an .svg file", "loss.png"}, function() rille.plot("/tmp/loss.png", {a = {1}}) end)
  line({"{name = {numbers}}"}, function() rille.plot(path, 3) end)
  line({"'a' must be a list"}, function() rille.plot(path, {a = 3}) end)
  line({"entry 2 of 'a'"}, function() rille.plot(path, {a = {1, "x"}}) end)
  for shown, series in pairs{["\"loss\""] = {loss = 1}, ["0"] = {[0] = 3, 2}, ["100"] = {[100] = 2}, ["2.5"] = {1, [2.5] = 2}} do
    line({"the list 'a' must have no key besides 1, 2, ..., found " .. shown}, function() rille.plot(path, {a = series}) end)
  end
  line({"entry 2 of 'a'"}, function() rille.plot(path, {a = {1, nil, 3}}) end)
  for shown, key in pairs{["true"] = true, ["2.5"] = 2.5, ["a table"] = {}} do
    line({"the name of a series must be a string", "found " .. shown}, function() rille.plot(path, {[key] = {1}}) end)
  end
  line({"two series are called '3'"}, function() rille.plot(path, {[3] = {1}, ["3"] = {2}}) end)
  line({"'colour'"}, function() rille.plot(path, {a = {1}}, {colour = 1}) end)
  line({"No such file"}, function() rille.plot("/nowhere/x.svg", {a = {1}}) end)
end)

os.remove(path)
tap.done()
