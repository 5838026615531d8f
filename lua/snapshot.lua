-- snapshot.lua - rille.snapshot(note, {keep = 1}): saves all variables, random counters, optimisers and `note` in
-- memory.
--
-- The core keeps the tensors, by holding their buffers without a copy. State that exists only in Lua, such as an
-- optimiser's learning rate and step counts, is saved here. snapshot.watch(object, keep) registers keep(object),
-- which returns a function that restores the object. The registration does not keep an object from being
-- garbage-collected.

local rille = require "rille"
local check = require "rille.base.check"

-- kept: number of a snapshot -> Lua state that was saved with it. parts: the training whose state a snapshot stores with
-- workers that outlive the controller (resume.lua); nil: none
local M = {watched = setmetatable({}, {__mode = "k"}), kept = {}}

-- Copies a note: numbers, strings, booleans and tables of them.
local function copy(value, seen, path)
  local kind = type(value)
  if kind == "number" or kind == "string" or kind == "boolean" or kind == "nil" then return value end
  check.that(kind == "table", "snapshot: %s must be a number, a string, a boolean or a table of them, found %s", path,
    check.shown(value))
  check.that(not seen[value], "snapshot: %s contains itself", path)
  seen[value] = true
  local out = {}
  for k, v in pairs(value) do
    check.that(type(k) == "number" or type(k) == "string", "snapshot: a key of %s must be a number or a string, found %s", path,
      check.shown(k))
    out[k] = copy(v, seen, ("%s.%s"):format(path, k))
  end
  seen[value] = nil
  return out
end

function M.watch(object, keep) M.watched[object] = keep end

-- Restores the snapshot of that number, and returns its note.
function M.restore(number)
  local kept = M.kept[number]
  for later in pairs(M.kept) do
    if later > number then M.kept[later] = nil end
  end
  for _, back in ipairs(kept.back) do back() end
  -- makes all steps trace again, because their traces may contain state that the snapshot does not have, such as
  -- state tensors for a new option of an optimiser
  rille._generation()
  return copy(kept.note, {}, "note")
end

return setmetatable(M, {__call = check.limited_call("snapshot", function(_, note, options)
  local o = check.options("snapshot", options, {keep = 1})
  check.that(o.keep == 1 or o.keep == 2, "snapshot: keep must be 1 or 2, found %s", check.quoted(o.keep))
  local kept = {note = copy(note, {}, "note"), back = {}}
  local text, tensors
  if M.parts and rille._keeps_state() then
    text, tensors = require("rille.checkpoint")._state("snapshot", M.parts, kept.note)
  end
  local number, oldest = rille._snapshot(math.tointeger(o.keep), text, tensors)
  for object, keep in pairs(M.watched) do kept.back[#kept.back + 1] = keep(object) end
  M.kept[number] = kept
  for old in pairs(M.kept) do
    if old < oldest then M.kept[old] = nil end
  end
end)})
