-- man.lua - prints the man page rille(1), from the output of `rille --help` and :help and from the registry of help. The build
-- runs it (cmake/install.cmake).
--
--   rille docs/man.lua > rille.1

local pages = require "rille.pages"

local program = 0
while arg[program - 1] do program = program - 1 end

local function run(command)
  local out = io.popen(command:gsub("RILLE", arg[program]) .. " 2>&1")
  local text = out:read("a")
  out:close()
  return text
end

-- Returns text with troff's special characters escaped.
local function plain(text) return (text:gsub("\\", "\\e"):gsub("%-", "\\-"):gsub("\n(['.])", "\n\\&%1"):gsub("^(['.])", "\\&%1")) end
local function section(title) print(".SH " .. title) end
local function literal(text) print(".nf\n" .. plain(text):gsub("\n$", "") .. "\n.fi") end
local function item(head, text) print((".TP\n.B %s\n%s"):format(plain(head), plain(text))) end

local help = run("RILLE --help")
local version = run("RILLE --version"):match("rille (%S+),")

print('.\\" Made by docs/man.lua.')
print(('.TH RILLE 1 "" "rille %s" "User Commands"'):format(version))
section "NAME"
print("rille \\- tensor programs on many devices as if they were one")
section "SYNOPSIS"
literal(help:match("usage: (.-)\nRuns"):gsub("\n +", "\n"))
section "DESCRIPTION"
print(plain([[
Runs a script in Lua, or a shell. A tensor is distributed over a mesh of devices by its layout (split, broadcast or partial on
each mesh axis), and is used as if it were in one place. Without a script, and if stdin is a terminal, rille is a shell; "-"
reads the script from stdin.]]))
section "OPTIONS"
for line, more in help:match("\n\n(.-)\n\nEnvironment"):gsub("\n                       +", " "):gmatch("  +(%-[^\n]-)  +([^\n]+)") do item(line, more) end
section "MANY PROCESSES"
literal(run("RILLE launch --help"))
section "THE SHELL"
print("Tab completes names, options and file names. Enter runs a complete chunk. Up and Down move within a chunk.")
for command, text in run("echo :help | RILLE --no-init --color never -i"):gmatch("\n  (:%a+ ?[%u/%[%] ]-)  +([^\n]+)") do item(command, text) end
item("?NAME", "The help page of a name. ?learning rate lists the pages on these words, ?*norm* the pages with a matching name.")
item("Ctrl-C", "The first press cancels the run at its next act, or after the updates that have begun. The second press prints the cause of the wait.")
section "ENVIRONMENT"
for name, text in help:match("Environment variables:\n(.-)In the shell"):gmatch("  (RILLE_%S+) +([^\n]+)") do item(name, text) end
item("XDG_CONFIG_HOME, XDG_STATE_HOME", "Folders of init.lua and the history; by default ~/.config and ~/.local/state.")
item("NO_COLOR", "Disables colours.")
section "FILES"
item("~/.config/rille/init.lua", "Runs first, unless --no-init is given.")
item("~/.local/state/rille/history", "The typed lines.")
section "EXIT STATUS"
for _, row in ipairs{{"0", "success"}, {"1", "an error of the script"}, {"2", "wrong options or devices"},
  {"3", "a worker was lost"}, {"130", "interrupted"}} do item(row[1], row[2]) end
section "NAMES"
print("Calls of all functions. rille.help(name), or ?name in the shell, prints the page.")
local lines = {}
for _, name in ipairs(pages.names()) do lines[#lines + 1] = pages.signature(name) end
literal(table.concat(lines, "\n"))
section "EXAMPLES"
item('rille -E "rille.ones{2, 3}:sum():item()"', "Prints 6.0.")
item("rille launch -n 4 -d cpu:2 script.lua", "Runs a script on four worker processes with two devices each.")
item("rille launch -H a:4,user@b:4 script.lua", "The same on two hosts, where ssh starts four workers each.")
