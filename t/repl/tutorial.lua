-- Tests :tutorial: each line, typed in the shell, prints the stated result; the number of steps is right.
local tap = dofile("t/lib/tap.lua")

local function shell(lines, devices) return (tap.typed("--color never -i -d cpu:" .. devices, lines)) end

local function behind(text, line)
  local _, to = text:find("\nrille> " .. line .. "\n", 1, true)
  return to and text:sub(to + 1):match("^(.-)\n\n?rille> ") or to and text:sub(to + 1)
end

local steps = require "rille.pages.tutorial"
tap.group("steps", function()
  tap.is(#steps, 10, "there are ten steps")
  local typed = {}
  for k in ipairs(steps) do typed[k] = ":tutorial" end
  local text = shell(typed, 4)
  for k, step in ipairs(steps) do
    tap.ok(text:find(("\n%d of 10. %s\n"):format(k, step[1]), 1, true), step[1])
    for i = 3, #step do
      local line, gives = step[i][1], step[i][2]
      local found = behind(text, line)
      tap.ok(found and not found:find("(tutorial):1: ", 1, true), line, text:sub(-400))
      if gives then tap.is(found and found:sub(1, #gives), gives, line .. " gives " .. gives) end
      tap.ok(#line <= 118, "a line has at most 118 columns")
    end
  end
  tap.ok(not text:find("traceback", 1, true), "no line is an error")
end)

tap.group("single steps", function()
  tap.ok(shell({":tutorial 10", "l1.weight.shape"}, 4):find("{32, 32}", 1, true), "a later step has the names of earlier steps")
  local text = shell({":tutorial 2", "a:to_local(0).shape", ":tutorial 11", ":tutorial x", ":tutorial 0"}, 4)
  tap.ok(text:find("2 of 10", 1, true), ":tutorial N prints step N")
  tap.ok(text:find("\n{2, 6}\n", 1, true), ":tutorial N defines its names")
  for _, wrong in ipairs{"11", "x", "0"} do tap.ok(text:find("from 1 to 10, found '" .. wrong .. "'", 1, true), "step " .. wrong .. " is refused") end
  tap.ok(shell({":tutorial"}, 2):find("needs 4 cpu devices", 1, true), "too few devices are reported")
end)
tap.done()
