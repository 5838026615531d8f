-- print.lua - tests of the printed form of tensors, shapes, statistics and histograms.
local tap = require "t.lib.tap"

local P = rille.placement("cpu", {0, 1, 2, 3})

local function lines(value) return tap.all((tostring(value) .. "\n"):gmatch("(.-)\n")) end

-- Checks that every layout prints the same values.
for _, shape in ipairs{{7}, {3, 5}, {40, 50}, {9, 8, 70}, {2, 3, 4, 100}, {1200}, {0, 4}} do
  local values = rille.randn(shape)
  local want = lines(values)
  for _, sbp in ipairs{"B", "S(0)", "S(-1)", "P"} do
    local x = values:to_global{placement = P, sbp = sbp ~= "P" and sbp or "B"}
    if sbp == "P" then x = rille.stack({x * 0.5, x * 0.5}, 0):to_global{sbp = "S(0)"}:sum(0) end
    local got = lines(x)
    local same = #got == #want
    for k = 2, #want do same = same and got[k] == want[k] end
    tap.ok(same, ("%s of {%s} prints the same as on one device"):format(sbp, table.concat(shape, ", ")))
    tap.is(got[1]:find("reduced for display") ~= nil, x.sbp:find("P") ~= nil, "the head says that a partial value is reduced for display")
    for _, line in ipairs(got) do tap.ok(#line <= 80, "a line has at most 80 columns") end
  end
end

local strange = rille.tensor({1, 0 / 0, 1 / 0, -1 / 0, 0 / 0})
tap.ok(tostring(strange):find("^f32 {5} B on cpu%[0%], 2 nan, 2 inf\n"), "the head counts nan and infinities")
tap.is(tostring(rille.ones({2, 3}).shape), "{2, 3}", "a shape prints as a list")
tap.ok(rille.ones({2, 3}).shape == rille.zeros({2, 3}).shape, "equal shapes compare equal")
tap.ok(rille.ones({2, 3}).shape == {2, 3} and rille.ones({2}).shape ~= {3}, "shapes compare with lists")

local x = rille.arange(100, {placement = P, sbp = "S(0)"}):to("f32")
local s = x:stats()
tap.is({s.numel, s.min, s.max, s.mean, s.zeros, s.nan, s.inf}, {100, 0, 99, 49.5, 1, 0, 0}, "stats() covers all values")
tap.ok(math.abs(s.std - x:var():sqrt():item()) < 1e-4, "stats() has the standard deviation")
s = strange:stats()
tap.is({s.numel, s.min, s.max, s.nan, s.inf}, {5, 1, 1, 2, 2}, "stats() counts nan and infinities separately")
for _, nan in ipairs{0 / 0, -(0 / 0)} do
  local t = rille.tensor{nan}
  tap.is({tostring(t:item()), tostring(t:totable()[1])}, {"nan", "nan"}, "nan prints without a sign")
  tap.ok(not (tostring(t:stats()) .. tostring(t:hist())):find("-nan", 1, true), "statistics print nan without a sign")
  for _, f in ipairs{function() rille.tensor({nan}, {dtype = "i32"}) end, function() t:dropout{p = nan} end,
                     function() t:reshape(nan) end, function() rille.optim.constant{lr = nan} end} do
    local _, err = pcall(f)
    tap.ok(err:find(" nan") and not err:find("-nan", 1, true), "errors print nan without a sign", err)
  end
end
tap.is(rille.zeros({0}):stats().numel, 0, "an empty tensor has statistics")
for _, t in ipairs{rille.zeros({0}), rille.tensor{0 / 0, 1 / 0}} do
  s = t:stats()
  for _, key in ipairs{"min", "max", "mean", "std"} do tap.ok(s[key] ~= s[key], ("without finite numbers %s is nan"):format(key)) end
  tap.is(tostring(t:hist(2)), "nan to nan, most 0\n|  |", "without finite numbers a histogram is empty")
end
s = rille.tensor{3, 0 / 0}:stats()
tap.is({s.min, s.max, s.mean}, {3, 3, 3}, "statistics of a single number equal the number")
tap.ok(s.std ~= s.std, "std of a single number is nan")
local h = x:hist(4)
tap.is(h.counts, {25, 25, 25, 25}, "a histogram counts values")
tap.is(rille.ones({5}):hist(2).counts, {5, 0}, "equal values are in the first bin")
tap.is(tostring(h), "0 to 99, most 25\n|████|", "a histogram prints as bars")

-- ---- memory used for printing ----

local function most_memory()
  for line in io.lines("/proc/self/status") do
    local kb = line:match("^VmHWM:%s+(%d+)")
    if kb then return tonumber(kb) end
  end
end
for _, sbp in ipairs{"S(0)", "S(1)", "B"} do
  local large = rille.rand({4000, 4000}, {placement = P, sbp = sbp})
  large:sum():item()
  local before = most_memory()
  tap.ok(#tostring(large) < 1000, sbp .. ": a large tensor prints its edges")
  tap.ok(most_memory() - before <= 1024, sbp .. ": printing reads only the edges: 1 MiB of extra memory is enough", most_memory() - before)
  large = nil
  collectgarbage()
end

-- ---- printing in the shell: lists, modules, widths ----

local options = "-d cpu:4 --color never"
local text = tap.typed(options .. " -i", {"{rille.ones{3}, rille.zeros{2, 2}}", "{w = rille.ones{3}, n = {1, 'two'}}", "rille.nn.Linear(3, 4):parameters()", "{rille.ones{20}}"})
local function has(part, name) tap.ok(text:find(part, 1, true), name, text) end
has("{\n  f32 {3} B on cpu[0]: {1., 1., 1.},\n  f32 {2, 2} B on cpu[0]: {{0., 0.}, {0., 0.}}\n}", "a list of small tensors has their values")
has('{n = {1, "two"}, w = f32 {3} B on cpu[0]: {1., 1., 1.}}', "a table of small tensors prints their values, in one line if it fits")
has("  f32 {4, 3} B on cpu[0], requires_grad,\n", "parameters print their head, larger ones without values")
has("{f32 {20} B on cpu[0]}", "larger tensors in a list print only their head")

if os.execute("script -qec true /dev/null </dev/null >/dev/null 2>&1") then
  for _, columns in ipairs{40, 80, 120} do
    local path = tap.write(os.tmpname(), "print(rille.randn{30, 40}) print(rille.randn{1000}) print(rille.arange(200)) print(rille.randn{2, 3, 300})")
    local shown = tap.output(([[script -qec "stty cols %d; %s --no-init %s %s" /dev/null </dev/null 2>&1]]):format(columns, tap.program(), options, path))
    shown = shown:gsub("\r", "")
    os.remove(path)
    local widest, n = 0, 0
    for line in shown:gmatch("[^\n]+") do
      n = n + 1
      if line:find("^%s") then widest = math.max(widest, utf8.len(line)) end
    end
    tap.ok(n > 20 and widest <= columns, ("rows fit into %d columns"):format(columns), widest)
    tap.ok(columns == 40 or widest > columns // 2, "rows use the width", widest)
  end
else
  tap.ok(true, "widths # SKIP there is no script(1)")
end

tap.done()
