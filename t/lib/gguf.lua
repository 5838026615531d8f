-- gguf.lua - writes GGUF files, for tests. The entries of t/golden/models/gguf_files.lua state how the tensors of a GGUF
-- file are made of those of Hugging Face's files.

local gguf, common = {}, dofile("t/golden/models/gguf_files.lua").common

local kinds = {u = {4, "<I4"}, i = {5, "<i4"}, f = {6, "<f"}, b = {7, "<I1"}, s = {8, "<s8"}, q = {10, "<I8"}}

-- Returns the bytes of a metadata value. A list is written as an array.
local function value_bytes(kind, value)
  local code, form = kinds[kind][1], kinds[kind][2]
  local function one(v) return string.pack(form, kind == "b" and (v and 1 or 0) or v) end
  if type(value) ~= "table" then return string.pack("<I4", code) .. one(value) end
  local list = {}
  for i, v in ipairs(value) do list[i] = one(v) end
  return string.pack("<I4I4I8", 9, code, #value) .. table.concat(list)
end

-- Writes a file. metadata: list of {key, kind, value}; tensors: list of {name =, shape =, bytes =, type = GGUF's number}.
function gguf.write(path, metadata, tensors)
  local out, at = {"GGUF", string.pack("<I4I8I8", 3, #tensors, #metadata)}, 0
  for _, m in ipairs(metadata) do out[#out + 1] = string.pack("<s8", m[1]) .. value_bytes(m[2], m[3]) end
  for _, t in ipairs(tensors) do
    out[#out + 1] = string.pack("<s8I4", t.name, #t.shape)
    for i = #t.shape, 1, -1 do out[#out + 1] = string.pack("<I8", t.shape[i]) end
    out[#out + 1] = string.pack("<I4I8", t.type, at)
    at = (at + #t.bytes + 31) // 32 * 32
  end
  local head = table.concat(out)
  out = {head, ("\0"):rep(-#head % 32)}
  for _, t in ipairs(tensors) do out[#out + 1] = t.bytes .. ("\0"):rep(-#t.bytes % 32) end
  local file <close> = assert(io.open(path, "wb"))
  file:write(table.concat(out))
end

function gguf.f32(name, t)
  local list, n = t:to("f32"):reshape{-1}:totable(), {}
  for i = 1, #list, 128 do
    local some = table.move(list, i, math.min(i + 127, #list), 1, {})
    n[#n + 1] = string.pack("<" .. ("f"):rep(#some), table.unpack(some))
  end
  return {name = name, shape = t.shape, type = 0, bytes = table.concat(n)}
end

-- Block type -> GGUF's number, bytes and elements of a block, and bytes {position, value} of the scales: f16 2^-13, or
-- 2^-8 for MXFP4. The scales of the minima of Q4_K and Q5_K make the mean of the values about 0.
local types = {Q8_0 = {8, 34, 32, {0, 0, 1, 8}}, Q4_0 = {2, 18, 32, {0, 0, 1, 20}}, Q4_K = {12, 144, 256, {0, 0, 1, 8, 2, 0x80, 3, 0x13}},
  Q5_K = {13, 176, 256, {0, 0, 1, 8, 2, 0xc0, 3, 0x17}}, Q6_K = {14, 210, 256, {208, 0, 209, 8}}, MXFP4 = {39, 17, 32, {0, 119}}}

-- Returns a tensor of random quantised blocks, whose values are at most about 1/4. The rows of the shape must divide into
-- blocks.
function gguf.random_blocks(name, shape, kind)
  local number, bytes, elements, fixed = table.unpack(types[kind])
  local out, n = {}, 1
  for _, size in ipairs(shape) do n = n * size end
  for i = 1, n // elements do
    local b = {}
    for k = 1, bytes do b[k] = math.random(0, 255) end
    for k = 1, #fixed, 2 do b[fixed[k] + 1] = fixed[k + 1] end
    out[i] = string.char(table.unpack(b))
  end
  return {name = name, shape = shape, type = number, bytes = table.concat(out)}
end

-- ---- operations of llama.cpp's converter on tensors ----

local ops = {}
function ops.copy(x) return x end
function ops.plus(x) return x + 1 end
function ops.flat(x) return x:reshape{-1} end
function ops.turn(x) return x:transpose(x.ndim - 2, x.ndim - 1) end
function ops.pairs(x, n)
  local shape = x.shape
  return x:reshape{n, 2, shape[1] // n // 2, -1}:transpose(1, 2):reshape(shape)
end
function ops.half(x, k) return x:slice(1, k * x.shape[2] // 2, (k + 1) * x.shape[2] // 2) end
function ops.part(x, k) return x:slice(0, k * x.shape[1] // 2, (k + 1) * x.shape[1] // 2) end
function ops.alternate(x, k)
  local shape = x.shape
  shape[#shape] = shape[#shape] // 2
  shape[#shape + 1] = 2
  local y = x:reshape(shape):slice(#shape - 1, k, k + 1):squeeze(#shape - 1)
  return y.ndim == 3 and y:transpose(1, 2) or y
end
local function latent(x, text)
  local n, keys, values = text:match("(%d+) (%d+) (%d+)")
  return x:reshape{math.tointeger(n), keys + values, x.shape[2]}, math.tointeger(keys), math.tointeger(keys + values)
end
function ops.latentk(x, text)
  local y, keys = latent(x, text)
  return y:slice(1, 0, keys):transpose(1, 2)
end
function ops.latentv(x, text)
  local y, keys, all = latent(x, text)
  return y:slice(1, keys, all)
end
function ops.blocks(x, text)
  local n, q, k, v = text:match("(%d+) (%d+),(%d+),(%d+)")
  local shares, shape, at, parts = {q, k, v}, x.shape, 0, {}
  local size = shape[1] // (n * (q + k + v))
  x = x:reshape{math.tointeger(n), -1, #shape > 1 and shape[2] or 1}
  for i, share in ipairs(shares) do
    local rows = math.tointeger(share) * size
    parts[i] = x:slice(1, at, at + rows):reshape{-1, x.shape[3]}
    at = at + rows
  end
  return rille.concat(parts, 0):reshape(shape)
end

-- Makes a tensor of a GGUF file by an operation on tensors of Hugging Face's files. names: names of these tensors;
-- has: the tensors by name. Returns nil if the layer has no such tensor.
local function made(operation, names, has)
  local op, argument = operation:match("^(%a+) ?(.*)$")
  if op == "values" then
    local list = {}
    for v in argument:gmatch("[^,]+") do list[#list + 1] = tonumber(v) + 0.0 end
    return rille.tensor(list)
  end
  if op == "stack" then
    local first, last, list = names:match("%[(%d+)%-(%d+)%]"), nil, {}
    first, last = names:match("%[(%d+)%-(%d+)%]")
    for i = first, last do list[#list + 1] = has[(names:gsub("%[.*%]", math.tointeger(i)))] end
    return #list > 0 and rille.stack(list, 0) or nil
  end
  local x = has[names]
  return x and ops[op](x, math.tointeger(tonumber(argument)) or argument)
end

-- Returns the tensors {name, tensor} of an entry. The entry's rows, and rows that all entries share, state the
-- operation that makes each tensor.
function gguf.tensors(entry, has)
  local layers, list = 1, {}
  for name in pairs(has) do
    local i = name:match("[a-z]%.(%d+)%.")
    layers = math.max(layers, i and tonumber(i) + 1 or 1)
  end
  for name, operation, names in (entry.tensors .. "\n" .. common):gmatch("([^%s;]+)  ([^\n;]-)  ([^%s;]+)") do
    for i = 0, name:find("%%") and layers - 1 or 0 do
      local t = made(operation, (names:gsub("%%", math.tointeger(i))), has)
      if t then list[#list + 1] = {(name:gsub("%%", math.tointeger(i))), t} end
    end
  end
  return list
end

return gguf
