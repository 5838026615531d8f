-- train.lua - tests rille.train.saves_to, which checks before a training starts whether its results can be saved.
--
-- saves_to must succeed if and only if a real save succeeds, and saves_to may change no file.

local tap = dofile("t/lib/tap.lua")
local nn = rille.nn

local dir = tap.folder() .. "/x"
local function sh(command) assert(os.execute(command:gsub("@", dir)), command) end
local function fresh()
  sh "rm -rf @ && mkdir @ @/folder && echo text >@/file && echo old >@/folder/old"
  sh "ln -s file @/link && ln -s folder @/way && ln -s no/x @/lost"
end
-- Returns names, contents and times of all files in the folder.
local function state()
  return (tap.output(("cd '%s' && ls -lAR --time-style=+%%s.%%N && find . -type f -exec cat {} +"):format(dir)))
end

local saves = {
  file = function(path) rille.plot(path, {loss = {1, 2}}) end,
  folder = function(path)
    rille.models.gpt2.new{vocab = 3, length = 2, layers = 1, heads = 1, width = 2}:save(path)
  end,
  checkpoints = function(path) rille.checkpoint.save(path, {model = nn.Linear(2, 2), step = 1}) end,
}
local paths = {"file", "folder", "new", "new/", "folder/new", "folder/old", "folder/", "no/new", "file/new", "link", "way", "way/new", "lost"}

tap.group("saves_to agrees with the save", function()
  local good, bad = 0, 0
  for kind, save in pairs(saves) do
    for _, path in ipairs(paths) do
      fresh()
      local name, before = dir .. "/" .. path, state()
      local reported, why = pcall(rille.train.saves_to, name, kind)
      if kind ~= "checkpoints" then tap.is(state(), before, ("%s, %s: nothing is changed"):format(kind, path)) end
      local saved, because = pcall(save, name)
      tap.is(reported, saved, ("%s, %s: saves_to accepts if the save succeeds"):format(kind, path))
      if reported ~= saved then tap.diag(tostring(reported and because or why)) end
      if reported then good = good + 1 else bad = bad + 1 end
      if not reported then tap.ok(tap.has(tostring(why), name), ("%s, %s: the error names the path"):format(kind, path)) end
    end
  end
  tap.ok(good >= 15 and bad >= 9, ("%d paths could be saved to, %d could not"):format(good, bad))
end)

-- Checks that an argument of a wrong type is reported at the user's line, with the function's name.
tap.group("arguments of the wrong kind", function()
  local progress = rille.train.progress
  local out = setmetatable({}, {__index = {write = function() end, flush = function() end}})
  for what, row in pairs{
    ["train.progress:update: the step"] = {function(v) progress{total = 3, file = out}:update(v, 1, 2) end, 1.5, "1", {}, -1},
    ["train.progress:update: loss"] = {function(v) progress{total = 3, file = out}:update(1, v, 2) end, "1", {}, true},
    ["train.progress:update: the number of samples"] = {function(v) progress{total = 3, file = out}:update(1, 1, v) end, "1", {}, -1, 0 / 0},
    ["train.progress: file"] = {function(v) progress{total = 3, file = v} end, 3, "x", {}},
    ["train.progress: step"] = {function(v) progress{total = 3, step = v} end, 3, "x", print},
    ["train.progress: unit"] = {function(v) progress{total = 3, unit = v} end, 3, {}},
    ["train.busy_share: step"] = {function(v) rille.train.busy_share(v) end, 3, "x", {}, rille.ones{1}},
    ["autocast"] = {function(v) rille.autocast("bf16", v) end, 3, {}, "x"},
    ["plot: title"] = {function(v) rille.plot(dir .. ".svg", {a = {1, 2}}, {title = v}) end, 3, {}, true},
    ["args: expected a list of words"] = {function(v) rille.args(v, {}) end, 3, true},
    ["args: expected a table of options"] = {function(v) rille.args({}, v) end, 3, "x"},
    ["args: word 1"] = {function(v) rille.args({v}, {}) end, 3, {}},
    ["nn.rotary_tables: placement"] = {function(v) nn.rotary_tables(4, 4, {placement = v}) end, 3, "cpu", {}},
    ["nn.MixtureOfExperts: d "] = {function(v) nn.MixtureOfExperts(v, 4, 4) end, 0, 1.5, {}, "4"},
  } do
    for i = 2, #row do
      tap.fails(function() return row[1](row[i]) end, {"train.lua:", what}, ("%s refuses %s"):format(what, row[i]))
    end
  end
  tap.fails(function() nn.MixtureOfExperts(4, 4) end, {"train.lua:", "the number of experts must be a positive integer, found nil"}, "MixtureOfExperts refuses a missing number of experts")
  tap.fails(function() rille.train.progress{total = 3, file = out}:update(nil, 1, 1) end, {"train.lua:", "the step must be an integer"}, "a missing step")
  progress{total = 1, file = out}:update(1.0, 0 / 0, 3)
end)

tap.group("errors", function()
  fresh()
  local line = debug.getinfo(1, "l").currentline + 1
  local _, why = pcall(function() rille.train.saves_to(dir .. "/no/x", "folder") end)
  local want = ("train.lua:%d: train.saves_to: %s/no/x cannot be written: No such file"):format(line, dir)
  tap.ok(tap.has(tostring(why), want), "the error has the user's line")
  tap.fails(function() rille.train.saves_to(dir .. "/file", "folder") end, {"is a file, expected a folder"}, "a file instead of a folder is refused")
  tap.fails(function() rille.train.saves_to(dir .. "/folder") end, {"is a folder, expected a file"}, "a folder instead of a file is refused")
  tap.fails(function() rille.train.saves_to(dir, "module") end, {[[kind must be "file", "folder", "picture" or "checkpoints", found "module"]]}, "an unknown kind is refused")
  tap.fails(function() rille.train.saves_to(dir .. "/x.png", "picture") end, {"saves_to: expected the name of an .svg file", "x.png"}, "a picture must be an SVG")
  tap.fails(function() rille.train.saves_to(3) end, {"train.saves_to", "3"}, "a path must be a string")
  tap.is(rille.train.saves_to(dir .. "/folder/x"), dir .. "/folder/x", "the path is returned")
end)

tap.group("arguments of functions that stop a job", function()
  local exit = rille.train.exit_if_stopping
  for what, row in pairs{
    ["stopping: signals must be a list of TERM, USR1, USR2 and HUP"] = {function(v) rille.stopping{signals = v} end, 3, "TERM", {15}, {"KILL"},
      {"SIGTERM"}, {"TERM", {}}},
    ["stopping: signals must have no key besides 1, 2, ..., found"] = {function(v) rille.stopping{signals = v} end, {TERM = true}},
    ["stopping: expected the path of a file"] = {function(v) rille.stopping{file = v} end, 3, "", {}},
    ["stopping: options must be a table"] = {rille.stopping, 3, "TERM"},
    ["train.exit_if_stopping: code must"] = {function(v) exit(nil, nil, {code = v}) end, -1, 256, 1.5, "75"},
    ["train.exit_if_stopping: expected a folder and a table"] = {function(v) exit(v) end, dir, 3},
  } do
    for i = 2, #row do tap.fails(function() row[1](row[i]) end, {"train.lua:", what}, ("%s, not %s"):format(what, row[i])) end
  end
  tap.is(rille.stopping{file = dir .. "/absent"}, false, "a file that does not exist is no reason to stop")
  tap.is(exit(dir, {step = 1}), nil, "a job that need not stop continues")
  tap.is(os.execute("kill -USR1 $PPID") and rille.stopping(), "SIGUSR1", "the reason is the signal's name")
  tap.is(os.execute("kill -TERM $PPID") and rille.stopping(), "SIGUSR1", "the first reason stays")
end)

tap.done()
