-- completions.lua - prints completions of the command line for bash or zsh, from the texts that --help prints. The build runs
-- it (cmake/install.cmake).
--
--   rille docs/completions.lua bash > rille        rille docs/completions.lua zsh > _rille

local program = 0
while arg[program - 1] do program = program - 1 end

local function run(command)
  local out = io.popen(arg[program] .. " " .. command .. " 2>&1")
  local text = out:read("a")
  out:close()
  return text
end

-- Returns the options of a help text: {names = {"-d", "--devices"}, value = "LIST" or nil, words = {...} or nil, text = "..."}.
local function read_options(text)
  local list = {}
  for line in text:gsub("\n                +", " "):gmatch("[^\n]+") do
    local head, more = line:match("^ +(%-.-)  +(.+)$")
    if not head then head, more = line:match("^ +(%-.-%u+) (.+)$") end
    if head then
      local o = {names = {}, value = head:match("%-%a[%w-]* (%w+)$"), text = more}
      for name in head:gmatch("%-%-?%a[%w-]*") do o.names[#o.names + 1] = name end
      if o.value == "WHEN" then o.words = more:gsub(" or ", " "):gsub(",", "") end
      if o.value and o.value:find("%l") then o.words = o.value end -- --quantize int8
      if not o.value and #o.names == 2 and #o.names[1] > 2 then -- "--doctor [--json]" is two options
        list[#list + 1] = {names = {table.remove(o.names)}, text = "with " .. o.names[1]}
      end
      list[#list + 1] = o
    end
  end
  return list
end

-- Returns the names of commands, sorted, from the first lines of a help text.
local function read_commands(text)
  local list = {}
  for line in text:match("^(.-)\nRuns"):gmatch("\n +rille (%l[%l, ]*)") do
    for name in line:gmatch("%l+") do list[#list + 1] = name end
  end
  table.sort(list)
  return list
end

local help = run("--help")
local commands = read_commands(help)
local groups = {main = read_options(help), worker = read_options(run("launch --help")), serve = read_options(run("serve --help"))}
local group_of = {launch = "launch", coordinator = "launch", worker = "worker", keys = "worker", serve = "serve"}

-- Returns the names of options as one text.
local function names(options, sep)
  local list = {}
  for _, o in ipairs(options) do table.move(o.names, 1, #o.names, #list + 1, list) end
  return table.concat(list, sep)
end

-- launch and coordinator accept the options of the program, too.
groups.launch = table.move(groups.worker, 1, #groups.worker, 1, {})
local both = " " .. names(groups.worker, " ") .. " "
for _, o in ipairs(groups.main) do
  if not both:find(" " .. o.names[1] .. " ", 1, true) then table.insert(groups.launch, o) end
end

local function bash()
  print("# Completion of rille(1) for bash. Made by docs/completions.lua.")
  print("_rille()\n{\n  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n  COMPREPLY=()")
  print("  case $prev in")
  for _, o in ipairs(table.move(groups.serve, 1, #groups.serve, #groups.main + 1, {table.unpack(groups.main)})) do
    if o.words then print(('  %s) COMPREPLY=($(compgen -W "%s" -- "$cur")); return ;;'):format(names({o}, "|"), o.words)) end
  end
  print("  esac\n  local options commands\n  case ${COMP_WORDS[1]} in")
  for _, name in ipairs(commands) do
    if group_of[name] then
      print(('  %s) options="%s" ;;'):format(name, names(groups[group_of[name]], " ")))
    end
  end
  print(('  *) options="%s" ;;\n  esac'):format(names(groups.main, " ")))
  print(('  [ "$COMP_CWORD" != 1 ] || commands="%s"'):format(table.concat(commands, " ")))
  print('  case $cur in\n  -*) COMPREPLY=($(compgen -W "$options" -- "$cur")) ;;')
  print('  *) COMPREPLY=($(compgen -W "$commands" -- "$cur") $(compgen -f -- "$cur")) ;;\n  esac\n}')
  print("complete -o filenames -F _rille rille")
end

local paths = {F = true, FILE = true, FOLDER = true, DIRS = true} -- values that are names of files or folders

-- Prints options as an array of specifications of zsh's _arguments.
local function specifications(name, options)
  print(("  local -a %s=("):format(name))
  for _, o in ipairs(options) do
    local text = o.text:gsub("[][]", "\\%0"):gsub("'", "'\\''"):gsub(":", "\\:")
    local values = o.words and "(" .. o.words .. ")" or paths[o.value] and "_files" or " "
    for _, option in ipairs(o.names) do
      print(("    '%s[%s]%s'"):format(option, text, o.value and (":%s:%s"):format(o.value, values) or ""))
    end
  end
  print("  )")
end

local function zsh()
  print("#compdef rille\n# Completion of rille(1) for zsh. Made by docs/completions.lua.\n_rille() {")
  for _, name in ipairs{"main", "launch", "worker", "serve"} do specifications(name, groups[name]) end
  print("  case $words[2] in")
  for _, name in ipairs(commands) do
    if group_of[name] then
      print(("  %s) _arguments $%s '1:command:(%s)' '*:file:_files' ;;"):format(name, group_of[name], name))
    end
  end
  print(("  *) _arguments $main '1:command or script:{ compadd %s; _files }' '*:file:_files' ;;\n  esac\n}\n_rille \"$@\""):format(table.concat(commands, " ")))
end

(arg[1] == "zsh" and zsh or bash)()
