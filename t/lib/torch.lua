-- torch.lua - writes state dicts like torch.save, for tests: a zip file with a pickle, and a member for each storage.

local crc32 = dofile("t/lib/crc32.lua")

-- Returns a zip file of stored members {{name, bytes}, ...}.
local function zip(members)
  local out, records, at = {}, {}, 0
  for i, m in ipairs(members) do
    local name, bytes = m[1], m[2]
    local common = string.pack("<I2I2I2I2I2I4I4I4I2I2", 0, 0, 0, 0, 33, crc32(bytes), #bytes, #bytes, #name, 0)
    out[i] = "PK\3\4" .. common .. name .. bytes
    records[i] = "PK\1\2\0\0" .. common .. string.pack("<I2I2I2I4I4", 0, 0, 0, 0, at) .. name
    at = at + #out[i]
  end
  local directory = table.concat(records)
  return table.concat(out) .. directory .. string.pack("<c4I2I2I2I2I4I4I2", "PK\5\6", 0, 0, #members, #members, #directory, at, 0)
end

local function text(s) return string.pack("<c1s4", "X", s) end
local function int(i) return string.pack("<c1i4", "J", i) end
local function tuple(list) return "(" .. table.concat(list) .. "t" end

-- Writes a file. tensors: name -> f32 tensor.
return function(path, tensors)
  local pickle, members, names = {"\x80\2}("}, {{"model/data.pkl", ""}, {"model/byteorder", "little"}, {"model/version", "3\n"}}, {}
  for name in pairs(tensors) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do
    local t, sizes, strides, stride, bytes = tensors[name], {}, {}, 1, {}
    for axis = #t.shape, 1, -1 do
      sizes[axis], strides[axis] = int(t.shape[axis]), int(stride)
      stride = stride * t.shape[axis]
    end
    for k, v in ipairs(t:to("f32"):reshape{-1}:totable()) do bytes[k] = string.pack("<f", v) end
    local storage = tuple{text "storage", "ctorch\nFloatStorage\n", text(tostring(i)), text "cpu", int(stride)} .. "Q"
    pickle[#pickle + 1] = text(name) .. "ctorch._utils\n_rebuild_tensor_v2\n" ..
      tuple{storage, int(0), tuple(sizes), tuple(strides), "\x89", "ccollections\nOrderedDict\n)R"} .. "R"
    members[#members + 1] = {"model/data/" .. i, table.concat(bytes)}
  end
  members[1][2] = table.concat(pickle) .. "u."
  local file <close> = assert(io.open(path, "wb"))
  file:write(zip(members))
end
