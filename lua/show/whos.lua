-- whos.lua - :whos, :mem, :devices, :workers: the user's variables, owners of memory, devices and workers.

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"
local paint = require "rille.show.paint"

local whos = {}

-- Returns the bytes of a tensor over all devices.
local function tensor_bytes(x)
  local n = 0
  for _, shard in ipairs(x:shards()) do n = n + layout.shard_bytes(x, shard) end
  return n
end

local function is_kind(v, name) return type(v) == "userdata" and (debug.getmetatable(v) or {}).__name == name end
local function is_tensor(v) return is_kind(v, "rille.tensor") end
local function is_placement(v) return is_kind(v, "rille.placement") end
local is_module = require("rille.nn.base.settings").is_module

-- reads the field of an unknown table by raw access, because the table's __index may fail
local function is_optimizer(v)
  local meta = type(v) == "table" and debug.getmetatable(v)
  local methods = type(meta) == "table" and rawget(meta, "__methods")
  return type(methods) == "table" and rawget(methods, "state_dict") ~= nil
end

-- Returns the table that contains a value's contents. For an optimiser, which is itself an empty table, returns a
-- table of its state and parameters.
local function inside(v)
  return is_optimizer(v) and type(v.slots) == "table" and {v.slots, {table.unpack(v.params)}} or v
end

-- Returns the tensors in a value, without duplicates. seen: set of the tensors and tables that were visited.
local function tensors_in(v, seen, list, depth)
  if is_tensor(v) then
    if not seen[v] then seen[v], list[#list + 1] = true, v end
  elseif type(v) == "table" and depth < 6 and not seen[v] then
    seen[v] = true
    for _, inner in next, inside(v) do tensors_in(inner, seen, list, depth + 1) end
  end
  return list
end

-- Returns two totals: the bytes of the tensors whose values are in memory, and the bytes of the other tensors.
local function sums_of(list)
  local there, later = 0, 0
  for _, x in ipairs(list) do
    if x:_has_value() then there = there + tensor_bytes(x) else later = later + tensor_bytes(x) end
  end
  return there, later
end

-- Returns "1.0 MiB (24 B)": the bytes in memory, and in brackets the bytes of values that are not computed yet. LATER
-- explains the brackets to the user.
local LATER <const> = "  (in brackets: not in memory, computed when read)\n"
local function amount(there, later)
  local parts = {there > 0 and paint.bytes(there) or nil}
  if later > 0 then parts[#parts + 1] = ("(%s)"):format(paint.bytes(later)) end
  return #parts > 0 and table.concat(parts, " ") or "0 B"
end
local function with_amounts(text) return text:find("%(%d[%d.]* %a+%)\n") and text .. LATER or text end

local function of_tensor(x) return ("%s {%s} %s"):format(x.dtype, table.concat(x.shape, ", "), x.sbp) end

-- Returns a text in quotes, shortened if long.
local function quoted(text)
  local n = utf8.len(text)
  local long = (n or #text) > 40
  if long then text = text:sub(1, n and utf8.offset(text, 38) - 1 or 37) end
  return ("%q"):format(text):gsub("\\\n", "\\n") .. (long and "..." or "")
end

-- Returns the first line of a value's text. Returns the value's type if it cannot be printed, or prints as an
-- address.
local function text_of(v)
  if type(v) == "string" then return quoted(v) end
  local good, text = pcall(tostring, v)
  return good and not text:find("0x%x+") and text:match("^[^\n]*") or type(v)
end

-- Returns a description of a value, its placement, and its tensors; nil if the value has no bytes to show.
local function described(v)
  if is_tensor(v) then return of_tensor(v), paint.place(v.placement), {v} end
  if is_placement(v) then return paint.place(v), "", nil end
  if type(v) == "table" and check.index_of(v) == v then return "class", "", nil end
  if is_module(v) then
    local n = 0
    for _, p in ipairs(rille.nn.Module.parameters(v)) do n = n + p:numel() end
    return ("module of %d parameters"):format(n), "", tensors_in(v, {}, {}, 0)
  end
  if is_optimizer(v) then return "optimiser", "", nil end
  if type(v) == "table" and not getmetatable(v) then
    local tensors = tensors_in(v, {}, {}, 0)
    local n = 0
    for _ in next, v do n = n + 1 end
    return ("table of %d"):format(n), "", #tensors > 0 and tensors or nil
  end
  return text_of(v), "", nil
end

-- Returns the table of :whos. list: {{name, value}, ...}
function whos.whos(list, columns)
  if #list == 0 then return "  you have no variables yet\n" end
  local rows = {{"name", "what", "on", "bytes"}}
  for _, entry in ipairs(list) do
    local what, where, tensors = described(entry[2])
    rows[#rows + 1] = {entry[1], what, where, tensors and amount(sums_of(tensors)) or ""}
  end
  return with_amounts(paint.table(rows, columns, {3}))
end

-- ---- :devices, :workers ----

function whos.devices(columns)
  local rows = {{"device", "thread", "values", "plans", "at most", "limit"}}
  for _, d in ipairs(rille.devices()) do
    rows[#rows + 1] = {("%s:%d"):format(d.kind, d.device), d.thread < 0 and "on another host" or tostring(d.thread), paint.bytes(d.live_bytes),
      paint.bytes(d.arena_bytes), paint.bytes(d.peak_bytes), (d.limit_bytes or 0) > 0 and paint.bytes(d.limit_bytes) or ""}
  end
  return #rows > 1 and paint.table(rows, columns, {2, 4}) or "  no device was used yet\n"
end

-- Returns {"cpu:0", "cpu:1", "cpu:2"} as "cpu:0-2".
local function runs_of(devices)
  local runs, before = {}, {}
  for _, device in ipairs(devices) do
    local kind, number = device:match("^(.*):(%d+)$")
    if kind == before.kind and tonumber(number) == before.to + 1 then
      before.to = before.to + 1
    else
      before = {kind = kind, from = tonumber(number), to = tonumber(number)}
      runs[#runs + 1] = before
    end
  end
  for k, r in ipairs(runs) do runs[k] = ("%s:%d%s"):format(r.kind, r.from, r.to > r.from and "-" .. r.to or "") end
  return table.concat(runs, " ")
end

function whos.workers(columns)
  local rows = {{"rank", "state", "pid", "host", "last heard", "devices"}}
  for _, w in ipairs(rille.workers()) do
    local state = w.slow and ("%s, %.1f times slower than others"):format(w.state, w.slow) or w.state
    rows[#rows + 1] = {tostring(w.rank), state, tostring(w.pid), w.host, ("%.1f s ago"):format(w.heartbeat), runs_of(w.devices)}
  end
  return paint.table(rows, columns, {3, 4})
end

-- ---- :mem ----

-- Returns the owners of memory as text, largest first, and the bytes that they own. A tensor with two or more owners
-- counts for one of them: for a module, if one owns it, else for the first owner by name.
local function owners_text(list, columns)
  local seen, owners, known = {}, {}, 0
  local function add(name, what, tensors)
    local there, later = sums_of(tensors)
    known = known + there
    if there + later > 0 then owners[#owners + 1] = {name = name, what = what, there = there, later = later} end
  end
  local function grads_of(tensors)
    local grads = {}
    for _, x in ipairs(tensors) do
      local g = x.requires_grad and x.grad
      if g and not seen[g] then seen[g], grads[#grads + 1] = true, g end
    end
    return grads
  end
  for pass = 1, 2 do
    for _, entry in ipairs(list) do
      local name, v = entry[1], entry[2]
      if is_module(v) == (pass == 1) then
        local tensors = tensors_in(v, seen, {}, 0)
        local what = is_module(v) and "module" or is_optimizer(v) and "optimiser's state" or is_tensor(v) and of_tensor(v) or type(v)
        add(name, what, tensors)
        add(name, "gradients", grads_of(tensors))
      end
    end
  end
  table.sort(owners, function(x, y)
    if x.there ~= y.there then return x.there > y.there end
    return x.later > y.later
  end)
  local rows = {{"owner", "what", "bytes"}}
  for k = 1, math.min(#owners, 20) do
    local o = owners[k]
    rows[#rows + 1] = {o.name, o.what, amount(o.there, o.later)}
  end
  if #owners > 20 then rows[#rows + 1] = {"...", ("%d more"):format(#owners - 20), ""} end
  return #rows > 1 and with_amounts(paint.table(rows, columns)) or "", known
end

function whos.mem(list, external, columns)
  collectgarbage()
  local owners, known = owners_text(list, columns)
  local live = 0
  for _, d in ipairs(rille.devices()) do live = live + d.live_bytes end
  return whos.devices(columns) .. owners ..
    ("  %s in tensors, of which your variables own %s\n"):format(paint.bytes(live), paint.bytes(math.min(known, live))) ..
    ("  Lua itself %s; tensors that Lua holds, including garbage, %s\n"):format(paint.bytes(collectgarbage("count") * 1024 // 1), paint.bytes(external))
end

return whos
