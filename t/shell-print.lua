-- shell-print.lua - what tensors, shapes and looks at their values print.
local rille = require "rille"
local tap = require "t.tap"

local P = rille.placement("cpu", {0, 1, 2, 3})

local function lines(value)
  local list = {}
  for line in (tostring(value) .. "\n"):gmatch("(.-)\n") do list[#list + 1] = line end
  return list
end

-- Every layout prints the same values, whoever owns them.
for _, shape in ipairs{{7}, {3, 5}, {40, 50}, {9, 8, 70}, {2, 3, 4, 100}, {1200}, {0, 4}} do
  local values = rille.randn(shape)
  local want = lines(values)
  for _, sbp in ipairs{"B", "S(0)", "S(-1)", "P"} do
    local x = values:to_global{placement = P, sbp = sbp ~= "P" and sbp or "B"}
    if sbp == "P" then x = rille.stack({x * 0.5, x * 0.5}, 0):to_global{sbp = "S(0)"}:sum(0) end
    local got = lines(x)
    local same = #got == #want
    for k = 2, #want do same = same and got[k] == want[k] end
    tap.ok(same, ("%s of {%s} prints as one device has it"):format(sbp, table.concat(shape, ", ")))
    tap.is(got[1]:find("reduced for display") ~= nil, x.sbp:find("P") ~= nil, "a partial value is told to be reduced")
    for _, line in ipairs(got) do tap.ok(#line <= 80, "a line has 80 columns at most") end
  end
end

local strange = rille.tensor({1, 0 / 0, 1 / 0, -1 / 0, 0 / 0})
tap.ok(tostring(strange):find("^f32 {5} B on cpu%[0%], 2 nan, 2 inf\n"), "nan and infinities are counted")
tap.is(tostring(rille.ones({2, 3}).shape), "{2, 3}", "a shape prints")
tap.ok(rille.ones({2, 3}).shape == rille.zeros({2, 3}).shape, "and compares")
tap.ok(rille.ones({2, 3}).shape == {2, 3} and rille.ones({2}).shape ~= {3}, "with lists, too")

local x = rille.arange(100, {placement = P, sbp = "S(0)"}):to("f32")
local s = x:stats()
tap.is({s.numel, s.min, s.max, s.mean, s.zeros, s.nan, s.inf}, {100, 0, 99, 49.5, 1, 0, 0}, "stats are of all values")
tap.ok(math.abs(s.std - x:var():sqrt():item()) < 1e-4, "so is std")
s = strange:stats()
tap.is({s.numel, s.min, s.max, s.nan, s.inf}, {5, 1, 1, 2, 2}, "nan and infinities are counted apart")
tap.is(rille.zeros({0}):stats().numel, 0, "nothing has stats")
local h = x:hist(4)
tap.is(h.counts, {25, 25, 25, 25}, "a histogram counts")
tap.is(rille.ones({5}):hist(2).counts, {5, 0}, "one value is in the first part")
tap.is(tostring(h), "0 |████| 99   most 25", "and prints as bars")
tap.done()
