-- whos.lua - :whos and :mem: the user's variables, and who owns what memory.

local rille = require "rille"
local paint = require "rille.show.paint"

local whos = {}

-- Bytes of a tensor over all devices.
local sizes = {f32 = 4, f64 = 8, bf16 = 2, f16 = 2, i32 = 4, i64 = 8, u8 = 1, bool = 1}
local function tensor_bytes(x)
  local n = 0
  for _, shard in ipairs(x:shards()) do
    local size = sizes[x.dtype]
    for _, d in ipairs(shard.shape) do size = size * d end
    n = n + size
  end
  return n
end

local function is_tensor(v) return type(v) == "userdata" and (debug.getmetatable(v) or {}).__name == "rille.tensor" end
local function is_module(v) return type(v) == "table" and getmetatable(v) ~= nil and type(v.named_tensors) == "function" end
local function is_optimizer(v) return type(v) == "table" and getmetatable(v) ~= nil and type(v.state_dict) == "function" and not is_module(v) end

-- All tensors in a value, each once: seen says which were met before.
local function tensors_in(v, seen, list, depth)
  if is_tensor(v) then
    if not seen[v] then seen[v], list[#list + 1] = true, v end
  elseif type(v) == "table" and depth < 6 and not seen[v] then
    seen[v] = true
    for _, inner in next, v do tensors_in(inner, seen, list, depth + 1) end
  end
  return list
end

local function sum_of(list)
  local n = 0
  for _, x in ipairs(list) do n = n + tensor_bytes(x) end
  return n
end

local function of_tensor(x)
  return ("%s {%s} %s"):format(x.dtype, table.concat(x.shape, ", "), x.sbp), tostring(x.placement), tensor_bytes(x)
end

-- What a value is, in words; where it lies; bytes, nil where that is no question.
local function described(v)
  if is_tensor(v) then return of_tensor(v) end
  if is_module(v) then
    local n = 0
    for _, p in ipairs(v:parameters()) do n = n + p:numel() end
    return ("module of %d parameters"):format(n), "", sum_of(tensors_in(v, {}, {}, 0))
  end
  if is_optimizer(v) then return "optimiser", "", nil end
  if type(v) == "table" and not getmetatable(v) then
    local tensors = tensors_in(v, {}, {}, 0)
    local n = 0
    for _ in next, v do n = n + 1 end
    return ("table of %d"):format(n), "", #tensors > 0 and sum_of(tensors) or nil
  end
  local text = type(v) == "string" and ("%q"):format(#v > 40 and v:sub(1, 37) .. "..." or v):gsub("\n", "n") or tostring(v)
  if text:find("0x%x+") then text = type(v) end
  return text, "", nil
end

-- list: {{name, value}, ...}
function whos.whos(list, columns)
  if #list == 0 then return "  you have no variables yet\n" end
  local rows = {{"name", "what", "on", "bytes"}}
  for _, entry in ipairs(list) do
    local what, where, bytes = described(entry[2])
    rows[#rows + 1] = {entry[1], what, where, bytes and paint.bytes(bytes) or ""}
  end
  return paint.table(rows, columns)
end

-- ---- :mem ----

local function devices_text(columns)
  local rows = {{"device", "values", "arena of plans", "most so far", "limit"}}
  for _, d in ipairs(rille.devices()) do
    rows[#rows + 1] = {("%s:%d"):format(d.kind, d.device), paint.bytes(d.live_bytes), paint.bytes(d.arena_bytes),
      paint.bytes(d.peak_bytes), (d.limit_bytes or 0) > 0 and paint.bytes(d.limit_bytes) or "none"}
  end
  return #rows > 1 and paint.table(rows, columns) or "  no device was used yet\n"
end

-- Owners, the largest first; a tensor counts where it is met first, in order of names, modules before what else holds them.
local function owners_text(list, columns)
  local seen, owners, known = {}, {}, 0
  local function add(name, what, tensors)
    local bytes = sum_of(tensors)
    known = known + bytes
    if bytes > 0 then owners[#owners + 1] = {name, what, bytes} end
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
  table.sort(owners, function(x, y) return x[3] > y[3] end)
  local rows = {{"owner", "what", "bytes"}}
  for k = 1, math.min(#owners, 20) do rows[#rows + 1] = {owners[k][1], owners[k][2], paint.bytes(owners[k][3])} end
  if #owners > 20 then rows[#rows + 1] = {"...", ("%d more"):format(#owners - 20), ""} end
  return #rows > 1 and paint.table(rows, columns) or "", known
end

function whos.mem(list, external, columns)
  collectgarbage()
  local owners, known = owners_text(list, columns)
  local live, rest = 0, {}
  for _, d in ipairs(rille.devices()) do live = live + d.live_bytes end
  local text = devices_text(columns) .. owners
  rest[1] = ("  %s in values; %s of them by your variables' names"):format(paint.bytes(live), paint.bytes(math.min(known, live)))
  rest[2] = ("  held by garbage or handles: %s; Lua: %s"):format(paint.bytes(external), paint.bytes(collectgarbage("count") * 1024 // 1))
  return text .. table.concat(rest, "\n") .. "\n"
end

return whos
