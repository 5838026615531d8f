-- safetensors.lua - writes .safetensors files with tensors of any dtype of the format, for tests.
local json = require "rille.json"

-- Writes a file. tensors: name -> {dtype = the format's name, shape =, bytes =}.
return function(path, tensors)
  local names, head, at, values = {}, {}, 0, {}
  for name in pairs(tensors) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do
    local t = tensors[name]
    head[name] = {dtype = t.dtype, shape = json.array and json.array(t.shape) or t.shape, data_offsets = {at, at + #t.bytes}}
    at, values[i] = at + #t.bytes, t.bytes
  end
  local file <close> = assert(io.open(path, "wb"))
  file:write(string.pack("<s8", json.encode(head)), table.concat(values))
end
