-- train.lua - whether what a training learns can be saved is told before it begins: as the save itself would tell, and
-- without changing anything.

local tap = dofile("t/tap.lua")
local nn = rille.nn

local dir = os.tmpname()
os.remove(dir)
local function sh(command) assert(os.execute(command:gsub("@", dir)), command) end
local function fresh()
  sh "rm -rf @ && mkdir @ @/folder && echo text >@/file && echo old >@/folder/old"
  sh "ln -s file @/link && ln -s folder @/way && ln -s no/x @/lost"
end
-- All names, contents and times of what there is.
local function state()
  local p = io.popen(("cd '%s' && ls -lAR --time-style=+%%s.%%N && find . -type f -exec cat {} +"):format(dir))
  local text = p:read("a")
  p:close()
  return text
end

local saves = {
  file = function(path) rille.plot(path, {loss = {1, 2}}) end,
  folder = function(path)
    rille.models.gpt2.new{vocab = 3, length = 2, layers = 1, heads = 1, width = 2}:save(path)
  end,
  checkpoints = function(path) rille.checkpoint.save(path, {model = nn.Linear(2, 2), step = 1}) end,
}
local paths = {"file", "folder", "new", "new/", "folder/new", "folder/old", "folder/", "no/new", "file/new", "link", "way", "way/new", "lost"}

tap.group("what can be saved where", function()
  local good, bad = 0, 0
  for kind, save in pairs(saves) do
    for _, path in ipairs(paths) do
      fresh()
      local name, before = dir .. "/" .. path, state()
      local told, why = pcall(rille.train.saves_to, name, kind)
      if kind ~= "checkpoints" then tap.is(state(), before, ("%s, %s: nothing is changed"):format(kind, path)) end
      local saved, because = pcall(save, name)
      tap.is(told, saved, ("%s, %s: it is told that it can be saved where it can"):format(kind, path))
      if told ~= saved then tap.diag(tostring(told and because or why)) end
      if told then good = good + 1 else bad = bad + 1 end
      if not told then tap.ok(tap.has(tostring(why), name), ("%s, %s: the error names the path"):format(kind, path)) end
    end
  end
  tap.ok(good >= 15 and bad >= 9, ("%d could be saved, %d could not"):format(good, bad))
end)

tap.group("errors", function()
  fresh()
  local line = debug.getinfo(1, "l").currentline + 1
  local _, why = pcall(function() rille.train.saves_to(dir .. "/no/x", "folder") end)
  local want = ("train.lua:%d: rille.train.saves_to: %s/no/x cannot be written: No such file"):format(line, dir)
  tap.ok(tap.has(tostring(why), want), "the line is the user's")
  tap.fails(function() rille.train.saves_to(dir .. "/file", "folder") end, {"is a file; a folder is wanted"}, "a file is no folder")
  tap.fails(function() rille.train.saves_to(dir .. "/folder") end, {"is a folder; a file is wanted"}, "nor is it the other way round")
  tap.fails(function() rille.train.saves_to(dir, "module") end, {"a file, a folder or checkpoints", "module"}, "what is saved is one of three kinds")
  tap.fails(function() rille.train.saves_to(3) end, {"rille.train.saves_to", "3"}, "a path is a text")
  tap.is(rille.train.saves_to(dir .. "/folder/x"), dir .. "/folder/x", "the path is given back")
end)

os.execute("rm -rf '" .. dir .. "'")
tap.done()
