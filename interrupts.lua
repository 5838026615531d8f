local P, dir, told = rille.placement("cpu", {0, 1}), "shared/interrupts", {wrote = 0, read = 0}
local parts = {model = rille.nn.Linear(4096, 4096):to_global{placement = P, sbp = "S(0)"}, step = 5}
local function save() rille.checkpoint.save(dir, parts, {keep = 1}) end
local function load() rille.checkpoint.load(dir, {model = parts.model}) end
save()
for turn = 1, 60 do -- on a loaded machine a press may come where nobody writes or reads
  if turn > 12 and told.wrote > 0 and told.read > 0 then break end
  local good, err = pcall(function()
    rille._forget_presses()
    io.open("turn", "w"):write(turn):close()
    while true do (turn % 2 == 0 and load or save)() end
  end)
  assert(not good and err:find "interrupted", err)
  local what = err:match "interrupted while workers (%l+) files"
  if what then told[what] = told[what] + 1 end
end
io.open("turn", "w"):write("done"):close()
load()
print(told.wrote > 0, told.read > 0, (parts.model.bias * 0):sum():item(), #rille.workers())
