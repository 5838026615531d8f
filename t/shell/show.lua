-- show.lua - tests of x:show() and rille.boxing{...}:show() on the terminal, in colours, and as SVG. t/boxing/show.c
-- tests the drawings themselves.

local tap = dofile("t/lib/tap.lua")

local function run(options, chunk)
  return (tap.run("-d cpu:4 " .. options, 'local rille = require "rille"\nlocal P = rille.placement("cpu", {{0, 1}, {2, 3}})\n' .. chunk))
end
local function read(path)
  local text = tap.read(path)
  os.remove(path)
  return text
end
local tensor = 'rille.ones({5, 6}, {placement = P, sbp = {"S(0)", "B"}}):show()'
local plain, colored = run("--color never", tensor), run("--color always", tensor)
tap.ok(tap.has(plain, "(S(0), B) on cpu[[0, 1], [2, 3]]", "f32{5, 6}", "0, 1", "2, 3"), "a tensor's layout is drawn")
tap.ok(not plain:find("\27"), "--color never draws without colours")
tap.ok(tap.has(colored, "\27[30;48;5;"), "--color always draws in colours")
tap.is(colored:gsub("\27%[[%d;]*m", ""), plain, "colours change nothing else")
tap.is(run("--color auto", tensor), plain, "--color auto draws no colours without a terminal")

local move = [[
local b = rille.boxing{shape = {4, 4}, dtype = "f32", from = {placement = P, sbp = {"S(0)", "P"}},
                       to = {placement = P, sbp = {"B", "S(1)"}}}
b:show()
]]
tap.ok(tap.has(run("--color never", move), "(S(0), P)", "(B, S(1))", "==>", "receive"), "a move is drawn with both ends")

local P = rille.placement("cpu", {0, 1})
local path = os.tmpname() .. ".svg"
local x = rille.ones({4, 2}, {placement = P, sbp = "S(0)"})
x:show(path)
tap.ok(read(path):find("^<svg.*</svg>%s*$"), "with a file name a tensor is drawn as a complete SVG document")
local b = rille.boxing{shape = {4, 2}, from = {placement = P, sbp = "S(0)"}, to = {placement = P, sbp = "B"}}
b:show(path)
tap.ok(tap.has(read(path), "<svg", "all-gather", "32 B"), "a move is drawn as SVG")
rille.explain(x:to_global{sbp = "B"}).boxing[1]:show(path)
tap.ok(tap.has(read(path), "all-gather"), "a move of explain() is drawn as SVG")

tap.fails(function() x:show("x.png") end, "expected the name of an .svg file", "another kind of file is refused")
tap.fails(function() x:show("/nowhere/x.svg") end, "cannot be written", "a file that cannot be written is an error")
tap.fails(function() b.show{} end, "show", "a wrong argument of show is refused")

tap.done()
