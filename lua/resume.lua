-- resume.lua - rille.train.resume{model =, optimizer =, data =}: continues a training from the last snapshot of a
-- controller that was lost, whose workers waited for this one (rille launch --keep). Returns the snapshot's note; nil:
-- there is none.
--
-- From this call on, each rille.snapshot also stores the state of these parts with workers that outlive the controller.

local rille = require "rille"
local check = require "rille.base.check"
local checkpoint = require "rille.checkpoint"
local json = require "rille.json"
local snapshot = require "rille.snapshot"

local who, name = "train.resume", "the snapshot of the previous controller"

-- Returns a function that reads tensors of the snapshot (checkpoint.lua, restore); nil and the reason if bytes are lost
-- or damaged.
local function reader(values)
  return function(names, placement, sbp)
    local tensors = {}
    for _, key in ipairs(names) do
      local whole, t = check.try(rille._kept_tensor, key, {placement = placement(key), sbp = sbp(key)}, #values[key].shape)
      if not whole then return nil, t end
      tensors[key] = t
    end
    return tensors
  end
end

local function restore(text, parts)
  local found, contents = json.decode(text), {}
  for key, value in pairs(found.values) do contents[#contents + 1] = {name = key, shape = value.shape, dtype = value.dtype} end
  local good, note = checkpoint._restore(who, name, found.state, contents, parts, reader(found.values))
  if not good then error(note, 0) end
  return note
end

return check.limited(who, function(parts)
  checkpoint._check_parts(who, parts)
  snapshot.parts = parts
  local text, took_over = rille._kept_state()
  if not text then
    if took_over then io.stderr:write("rille: train.resume: the workers keep no snapshot of a training; continues without one\n") end
    return nil
  end
  local good, note = check.try(restore, text, parts)
  if not good and rille.is_lost(note) then error(note, 0) end
  if not good then
    io.stderr:write(("rille: train.resume: does not continue from the workers' snapshot: %s\n"):format(note))
    return nil
  end
  io.stderr:write("rille: train.resume: continues from the snapshot of the previous controller\n")
  if rille._log then rille._log("recovered", "from " .. name) end
  return note == nil and true or note
end)
