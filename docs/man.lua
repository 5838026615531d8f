-- man.lua - writes the man page rille(1): from what `rille --help` and :help print, and from the registry of help. The build
-- does (cmake/install.cmake).
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

-- Text as troff takes it.
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
Runs a script in Lua, or a shell. Tensors lie on meshes of devices, each with a layout - split, broadcast or partial for each
mesh axis -, and are used as if they were in one place. Without a script, and when stdin is a terminal, rille is a shell;
"-" is stdin as a script.]]))
section "OPTIONS"
for line, more in help:match("\n\n(.-)\n\nEnvironment"):gsub("\n                       +", " "):gmatch("  +(%-[^\n]-)  +([^\n]+)") do item(line, more) end
section "MANY PROCESSES"
literal(run("RILLE launch --help"))
section "THE SHELL"
print("Tab completes names, options and file names; Enter ends a chunk that is complete; Up and Down move within it.")
for command, text in run("echo :help | RILLE --no-init --color never -i"):gmatch("\n  (:%a+ ?[%u/%[%] ]-)  +([^\n]+)") do item(command, text) end
item("?NAME", "The page of a name; /WORD lists the pages that have the word, *norm* those whose names fit.")
item("Ctrl-C", "The first press cancels the run in progress at its next act, or when its updates of variables are done; the second tells what is waited for.")
section "ENVIRONMENT"
for name, text in help:match("Environment: (.-)\nIn the shell"):gsub("\n", " "):gmatch("(RILLE_[%w_=:,]+) %((.-)%)") do item(name, text) end
item("XDG_CONFIG_HOME, XDG_STATE_HOME", "Where init.lua and the history are; ~/.config and ~/.local/state.")
item("NO_COLOR", "Nothing is coloured.")
section "FILES"
item("~/.config/rille/init.lua", "Is run before everything else, unless --no-init is given.")
item("~/.local/state/rille/history", "What was typed.")
section "EXIT STATUS"
for _, row in ipairs{{"0", "all went well"}, {"1", "an error of the script"}, {"2", "options or devices that make no sense"},
  {"3", "a worker was lost"}, {"130", "interrupted"}} do item(row[1], row[2]) end
section "NAMES"
print("How everything is called; rille.help(name), or ?name in the shell, tells more.")
local lines = {}
for _, name in ipairs(pages.names()) do lines[#lines + 1] = pages.signature(name) end
literal(table.concat(lines, "\n"))
section "EXAMPLES"
item('rille -E "rille.ones{2, 3}:sum():item()"', "Prints 6.0.")
item("rille launch -n 4 -d cpu:2 script.lua", "Runs a script on four worker processes with two devices each.")
item("rille launch -H a:4,user@b:4 script.lua", "The same on two hosts, where ssh starts four workers each.")
