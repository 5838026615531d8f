-- low-bit.lua - tests that rille.models.load computes the weights of low-bit checkpoints: FP8 with scales,
-- MXFP4, GPTQ, AWQ, bitsandbytes. The test computes each weight by the definition of the format, number by number, and
-- compares.
local tap = dofile("t/lib/tap.lua")
local golden = dofile("t/golden/models/families.lua")
local families = dofile("t/lib/families.lua")
local write_safetensors = dofile("t/lib/safetensors.lua")
local rille_json = require "rille.json"

local dir = tap.folder() .. "/x"
local function remove() os.execute(("rm -rf '%s'"):format(dir)) end

local entries = {}
for _, entry in ipairs(golden) do entries[entry.name] = entry end

math.randomseed(tap.seed())
local function words(n) return table.concat(tap.list(n, function() return string.pack("<I4", math.random(0, 0xFFFFFFFF)) end)) end
local function word(bytes, i) return (string.unpack("<I4", bytes, 4 * i + 1)) end

-- Returns the same n scales in two forms: as bytes of F32, and as a list. A scale is 1.5 times a power of two, so
-- products are exact.
local function scales(n)
  local list, bytes = {}, {}
  for i = 1, n do list[i] = 1.5 * 2.0 ^ -math.random(3, 6) end
  for i, v in ipairs(list) do bytes[i] = string.pack("<f", v) end
  return list, table.concat(bytes)
end

-- Returns the matrix of value(row, column), where rows and columns count from 0.
local function matrix(rows, columns, value)
  local list = {}
  for r = 0, rows - 1 do
    for c = 0, columns - 1 do list[#list + 1] = value(r, c) + 0.0 end
  end
  return rille.tensor(list):reshape{rows, columns}
end

-- ---- low-bit methods: each returns, for a weight {out, in}, the tensors stored under `name` (without .weight) and
-- the weight's value ----

local methods = {}

local function e4m3(b)
  local sign, e, m = b >> 7 == 1 and -1.0 or 1.0, b >> 3 & 15, b & 7
  return sign * (e == 0 and m * 2.0 ^ -9 or (8 + m) * 2.0 ^ (e - 10))
end

-- Returns a method for FP8 with a scale for each block of rows x columns.
local function fp8(ending, rows, columns, config)
  return function(name, out, inner)
    local bytes = tap.list(out * inner, function() return string.char(math.random(0, 1) << 7 | math.random(0, 0x6F)) end)
    bytes = table.concat(bytes)
    local r, c = rows or out, columns or inner
    local down, across = (out + r - 1) // r, (inner + c - 1) // c
    local list, packed = scales(down * across)
    return {[name .. ".weight"] = {dtype = "F8_E4M3", shape = {out, inner}, bytes = bytes},
      [name .. ending] = {dtype = "F32", shape = {down, across}, bytes = packed},
      [name .. ".input_scale"] = {dtype = "F32", shape = {1}, bytes = string.pack("<f", 1)}},
      matrix(out, inner, function(o, i) return e4m3(bytes:byte(o * inner + i + 1)) * list[o // r * across + i // c + 1] end)
  end, config
end

methods["fp8 blocks"] = {fp8(".weight_scale_inv", 12, 20, {quant_method = "fp8", weight_block_size = {12, 20}})}
methods["fp8 tensor"] = {fp8(".weight_scale", nil, nil, {quant_method = "fp8"})}

-- Stores integers, with one scale per row.
methods["int8 rows"] = {function(name, out, inner)
  local bytes, list, packed = {}, scales(out) -- keeps both values that scales() returns
  for i = 1, out * inner do bytes[i] = string.char(math.random(0, 255)) end
  bytes = table.concat(bytes)
  return {[name .. ".weight"] = {dtype = "I8", shape = {out, inner}, bytes = bytes},
    [name .. ".weight_scale"] = {dtype = "F32", shape = {out, 1}, bytes = packed}}, matrix(out, inner, function(o, i)
      return string.unpack("<i1", bytes, o * inner + i + 1) * list[o + 1]
    end)
end, {quant_method = "compressed-tensors", format = "int-quantized", config_groups = {group_0 = {weights = {symmetric = true}}}}}

methods["fp8 rows"] = {fp8(".weight_scale", 1, nil, {quant_method = "fbgemm_fp8"})}

-- Returns a method for GPTQ. order: true: a permutation assigns the inputs to groups.
local function gptq(bits, group, order, format)
  local per, mask = 32 // bits, (1 << bits) - 1
  return function(name, out, inner)
    local groups = inner // group
    local q, z, list, packed = words(inner // per * out), words(groups * out // per), scales(groups * out)
    local index, bytes = {}, {}
    for i = 0, inner - 1 do index[i] = order and (i * 7 + 3) % groups or i // group end
    for i = 0, inner - 1 do bytes[i + 1] = string.pack("<i4", index[i]) end
    local t = {[name .. ".qweight"] = {dtype = "I32", shape = {inner // per, out}, bytes = q},
      [name .. ".qzeros"] = {dtype = "I32", shape = {groups, out // per}, bytes = z},
      [name .. ".scales"] = {dtype = "F32", shape = {groups, out}, bytes = packed}}
    if order then t[name .. ".g_idx"] = {dtype = "I32", shape = {inner}, bytes = table.concat(bytes)} end
    return t, matrix(out, inner, function(o, i)
      local g = index[i]
      local zero = word(z, g * (out // per) + o // per) >> bits * (o % per) & mask
      if format ~= "gptq_v2" then zero = zero + 1 & mask end
      return ((word(q, i // per * out + o) >> bits * (i % per) & mask) - zero) * list[g * out + o + 1]
    end)
  end, {quant_method = "gptq", bits = bits, group_size = group, checkpoint_format = format}
end

for _, bits in ipairs{2, 4, 8} do methods[("gptq %d bits"):format(bits)] = {gptq(bits, 16, false)} end
methods["gptq reordered"] = {gptq(4, 16, true)}
methods["gptq v2"] = {gptq(4, 16, false, "gptq_v2")}

local awq_place = {[0] = 0, 4, 1, 5, 2, 6, 3, 7}
methods.awq = {function(name, out, inner)
  local groups = inner // 16
  local q, z, list, packed = words(inner * out // 8), words(groups * out // 8), scales(groups * out)
  return {[name .. ".qweight"] = {dtype = "I32", shape = {inner, out // 8}, bytes = q},
    [name .. ".qzeros"] = {dtype = "I32", shape = {groups, out // 8}, bytes = z},
    [name .. ".scales"] = {dtype = "F32", shape = {groups, out}, bytes = packed}}, matrix(out, inner, function(o, i)
      local shift = 4 * awq_place[o % 8]
      local number, zero = word(q, (i * out + o) // 8) >> shift & 15, word(z, (i // 16 * out + o) // 8) >> shift & 15
      return (number - zero) * list[i // 16 * out + o + 1]
    end)
end, {quant_method = "awq", bits = 4, group_size = 16, version = "gemm"}}

-- Returns a method for the 4-bit formats of bitsandbytes. Blocks of 64 numbers in row-major order share a scale.
-- nested: true: scales are indices into a table, and 3 successive scales share a scale of their own.
local function bnb4(kind, nested)
  return function(name, out, inner)
    local at, n = name .. ".weight", out * inner
    local blocks = (n + 63) // 64
    local bytes, table16, map = words((n + 7) // 8):sub(1, n // 2), scales(16)
    local state = {quant_type = kind, blocksize = 64, dtype = "float32", shape = {out, inner}}
    local t = {[at] = {dtype = "U8", shape = {n // 2, 1}, bytes = bytes}, [at .. ".quant_map"] = {dtype = "F32", shape = {16}, bytes = map}}
    local absmax, packed = scales(blocks)
    if nested then
      local index, outer_table, outer_map = words((blocks + 3) // 4):sub(1, blocks), scales(256)
      local outer, outer_bytes = scales((blocks + 2) // 3)
      for i = 1, blocks do absmax[i] = outer_table[index:byte(i) + 1] * outer[(i - 1) // 3 + 1] + 0.125 end
      state.nested_blocksize, state.nested_offset, packed = 3, 0.125, index
      t[at .. ".nested_absmax"] = {dtype = "F32", shape = {(blocks + 2) // 3}, bytes = outer_bytes}
      t[at .. ".nested_quant_map"] = {dtype = "F32", shape = {256}, bytes = outer_map}
    end
    local text = rille_json.encode(state)
    t[at .. ".absmax"] = {dtype = nested and "U8" or "F32", shape = {blocks}, bytes = packed}
    t[at .. ".quant_state.bitsandbytes__" .. kind] = {dtype = "U8", shape = {#text}, bytes = text}
    return t, matrix(out, inner, function(o, i)
      local k = o * inner + i
      return table16[(bytes:byte(k // 2 + 1) >> (k % 2 == 0 and 4 or 0) & 15) + 1] * absmax[k // 64 + 1]
    end)
  end, {quant_method = "bitsandbytes", load_in_4bit = true}
end

methods["bitsandbytes nf4"] = {bnb4("nf4", false)}
methods["bitsandbytes fp4, nested"] = {bnb4("fp4", true)}

methods["bitsandbytes 8 bits"] = {function(name, out, inner)
  local bytes, list = words((out * inner + 3) // 4):sub(1, out * inner), {}
  local packed = {}
  for i = 1, out do
    list[i] = 127 * 2.0 ^ -math.random(3, 6)
    packed[i] = string.pack("<f", list[i])
  end
  return {[name .. ".weight"] = {dtype = "I8", shape = {out, inner}, bytes = bytes},
    [name .. ".SCB"] = {dtype = "F32", shape = {out}, bytes = table.concat(packed)},
    [name .. ".weight_format"] = {dtype = "U8", shape = {}, bytes = "\0"}}, matrix(out, inner, function(o, i)
      return string.unpack("<i1", bytes, o * inner + i + 1) * list[o + 1] / 127
    end)
end, {quant_method = "bitsandbytes", load_in_8bit = true}}

-- ---- loading ----

local function f32(t)
  local list = tap.list(t:to("f32"):reshape{-1}:totable(), function(v) return string.pack("<f", v) end)
  return {dtype = "F32", shape = t.shape, bytes = table.concat(list)}
end

-- Writes a low-bit folder of a Llama. Returns its weights, by name.
local function write(method, change)
  local weights, tensors = {}, {}
  os.execute(("mkdir '%s'"):format(dir))
  families.write(entries.llama, dir)
  for name, t in pairs(rille.load(dir .. "/model.safetensors")) do
    local base = name:match("^(.*_proj)%.weight$")
    if base then
      local made, value = method[1](base, t.shape[1], t.shape[2])
      for part, bytes in pairs(made) do tensors[part] = bytes end
      weights[name] = value
    else
      tensors[name], weights[name] = f32(t), t
    end
  end
  if change then change(tensors) end
  write_safetensors(dir .. "/model.safetensors", tensors)
  local config = families.words(entries.llama)
  config.quantization_config = method[2]
  families.write_words(config, dir)
  return weights
end

-- Returns the number of elements in which a model differs from weights with Hugging Face's names.
local function differences(model, weights)
  local n = 0
  model:save(dir .. "/saved")
  local saved = rille.load(dir .. "/saved/model.safetensors")
  for name, t in pairs(weights) do n = n + saved[name]:ne(t):sum():item() end
  return n
end

for name, method in tap.sorted(methods) do
  if tap.share() then
    local weights = write(method)
    tap.is(differences(rille.models.load(dir, {dtype = "f32"}), weights), 0, name .. ": weights are those of the definition")
    local P = rille.placement("cpu", {0, 1})
    tap.is(differences(rille.models.load(dir, {dtype = "f32", placement = P, parallel = {tensor = 0}}), weights), 0,
      name .. ": tensor parallel ranks read their shards")
    remove()
  end
end

tap.group("errors", function()
  local function refused(method, change, text)
    write(method, change)
    tap.fails(function() rille.models.load(dir) end, text, text[#text])
    remove()
  end
  local q = "model.layers.1.self_attn.q_proj."
  refused(methods.awq, function(t) t[q .. "scales"] = nil end, {dir, "q_proj.qweight' has no .scales"})
  refused(methods.awq, function(t) t[q .. "qzeros"].shape = {4, 2} end, {dir, "q_proj.qzeros' has shape {4, 2}, which does not fit"})
  refused(methods["gptq reordered"], function(t) t[q .. "g_idx"].bytes = string.pack("<i4", 99):rep(32) end, {dir, "has group 99, but there are 2"})
  refused(methods["fp8 blocks"], function(t) t[q .. "weight_scale_inv"].shape = {1, 6} end, {dir, "weight_scale_inv' has shape {1, 6}"})
  refused({methods.awq[1], {quant_method = "awq", bits = 3, group_size = 16}}, nil, {dir, "awq with 3 bits is not supported; expected 4"})
  refused({methods.awq[1], {quant_method = "bits"}}, nil, {"config.json", "quant_method must be awq, bitsandbytes, compressed-tensors, fbgemm_fp8, fp8, gptq, mxfp4, found \"bits\""})
  refused({methods.awq[1], {quant_method = "bitsandbytes"}}, nil, {"config.json", "load_in_4bit must be true, or load_in_8bit must be true, found nil"})
  local nested = methods["bitsandbytes fp4, nested"]
  refused(nested, function(t) t[q .. "weight.quant_state.bitsandbytes__fp4"] = nil end, {dir, "q_proj.weight' has no .quant_state.bitsandbytes__nf4 beside it"})
  refused(nested, function(t) t[q .. "weight.quant_state.bitsandbytes__fp4"].bytes = ("{"):rep(t[q .. "weight.quant_state.bitsandbytes__fp4"].shape[1]) end, {dir, "is not JSON"})
  refused(nested, function(t) t[q .. "weight.nested_absmax"] = nil end, {dir, "must have shape, blocksize and, with nested scales, nested_blocksize"})
  refused(methods["bitsandbytes 8 bits"], function(t) t[q .. "SCB"].shape = {4, 8} end, {dir, "q_proj.SCB' has shape {4, 8}"})
  refused({methods.awq[1], {quant_method = "compressed-tensors", format = "pack-quantized"}}, nil, {"format must be float-quantized", "pack-quantized"})
  refused({methods.awq[1], {quant_method = "gptq", bits = "4"}}, nil, {"bits must be an integer, found \"4\""})
end)

-- Replaces each entry of quantization_config by values of other kinds. The folder must be loaded, or refused with the
-- entry's name.
tap.group("other entries of quantization_config", function()
  local wrong, count = {}, 0
  for name, method in tap.sorted(methods) do
    if not tap.share() then goto next end
    write(method)
    for key in tap.sorted(method[2]) do
      for _, value in ipairs{"x", 0, -1, 3, 1 << 40, 0.5, true, {}, {1}, {0, 0}, {a = 1}} do
        local config, q = families.words(entries.llama), {}
        for k, v in pairs(method[2]) do q[k] = v end
        q[key], config.quantization_config, count = value, q, count + 1
        families.write_words(config, dir)
        local good, why = pcall(rille.models.load, dir)
        if not good and (not why:find(dir, 1, true) or why:find("attempt to")) then wrong[#wrong + 1] = ("%s %s: %s"):format(name, key, why) end
      end
    end
    remove()
    ::next::
  end
  tap.is(wrong, {}, count .. " changes: each error names the file")
end)

-- Tests the experts of gpt-oss: 4-bit numbers in blocks of 32, each block with a scale that is a power of two.
tap.group("mxfp4", function()
  local e2m1, weights, tensors = {[0] = 0, 0.5, 1, 1.5, 2, 3, 4, 6}, {}, {}
  os.execute(("mkdir '%s'"):format(dir))
  families.write(entries.gpt_oss, dir)
  for name, t in pairs(rille.load(dir .. "/model.safetensors")) do
    local shape = t.shape
    if name:find("gate_up_proj$") then
      local groups = shape[2] // 32
      local numbers, exponents, list = words(shape[1] * shape[3] * groups * 4), {}, {}
      for i = 1, shape[1] * shape[3] * groups do exponents[i] = string.char(math.random(120, 126)) end
      exponents = table.concat(exponents)
      for e = 0, shape[1] - 1 do
        for i = 0, shape[2] - 1 do
          for o = 0, shape[3] - 1 do
            local group = (e * shape[3] + o) * groups + i // 32
            local bits = numbers:byte(group * 16 + i % 32 // 2 + 1) >> i % 2 * 4 & 15
            list[#list + 1] = (bits > 7 and -1.0 or 1.0) * e2m1[bits & 7] * 2.0 ^ (exponents:byte(group + 1) - 127)
          end
        end
      end
      weights[name] = rille.tensor(list):reshape(shape)
      tensors[name .. "_blocks"] = {dtype = "U8", shape = {shape[1], shape[3], groups, 16}, bytes = numbers}
      tensors[name .. "_scales"] = {dtype = "U8", shape = {shape[1], shape[3], groups}, bytes = exponents}
    else
      tensors[name], weights[name] = f32(t), t
    end
  end
  write_safetensors(dir .. "/model.safetensors", tensors)
  local config = families.words(entries.gpt_oss)
  config.quantization_config = {quant_method = "mxfp4"}
  families.write_words(config, dir)
  tap.is(differences(rille.models.load(dir, {dtype = "f32"}), weights), 0, "weights are those of the definition")
  remove()
end)

tap.done()
