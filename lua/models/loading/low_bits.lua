-- low_bits.lua - low-bit checkpoints of Hugging Face: finds out from quantization_config of config.json how the
-- weights are stored.
--
-- Loading dequantises the weights (runtime/file/quantised.h), so the model has no low-bit weights.

local check = require "rille.base.check"

local low_bits = {}

local function table_of(v) return type(v) == "table" and v or {} end

-- Returns the format "scaled" with the size of its blocks, {rows =, columns =}.
local function scaled(block) return {method = "scaled", rows = table_of(block)[1], columns = table_of(block)[2]} end

-- quant_method -> function(q, refuse), which returns the format for rille._contents. refuse(text) raises an error.
local methods = {}

function methods.fp8(q) return scaled(q.weight_block_size) end
methods.fbgemm_fp8 = methods.fp8
function methods.mxfp4() return {method = "mxfp4"} end

methods["compressed-tensors"] = function(q, refuse)
  local known = {["float-quantized"] = true, ["naive-quantized"] = true, ["int-quantized"] = true}
  if not known[q.format] then refuse("format", q.format, "float-quantized, int-quantized or naive-quantized") end
  local weights = table_of(table_of(table_of(q.config_groups).group_0).weights)
  if weights.symmetric == false then refuse("symmetric", false, "true") end
  return scaled(weights.block_structure or weights.group_size and {1, weights.group_size})
end

function methods.gptq(q)
  return {method = "gptq", bits = q.bits, group = q.group_size, minus_one = q.checkpoint_format ~= "gptq_v2"}
end

function methods.awq(q, refuse)
  if q.version and tostring(q.version):lower() ~= "gemm" then refuse("version", q.version, "gemm") end
  return {method = "awq", bits = q.bits or q.w_bit, group = q.group_size or q.q_group_size}
end

function methods.bitsandbytes(q, refuse)
  if q.load_in_4bit == true then return {method = "bnb4"} end
  if q.load_in_8bit ~= true then refuse("load_in_4bit", q.load_in_4bit, "true, or load_in_8bit must be true") end
  return {method = "bnb8"}
end

-- Returns true if a folder has weights that Rille quantized (quantize.lua). q: quantization_config.
function low_bits.is_own(q)
  return type(q) == "table" and q.quant_method == "rille" and (q.bits == 8 or type(q.blocks) == "table")
end

-- Returns the format of a folder's tensors for rille._contents; nil: the weights are not low-bit. q:
-- quantization_config.
function low_bits.format(who, path, q)
  if q == nil then return nil end
  local function refuse(word, value, expected)
    check.fail("%s: %s: quantization_config: %s must be %s, found %s", who, path, word, expected, check.shown(value))
  end
  if type(q) ~= "table" then check.fail("%s: %s: quantization_config must be an object, found %s", who, path, check.shown(q)) end
  local method = methods[q.quant_method]
  if not method then refuse("quant_method", q.quant_method, table.concat(check.sorted_keys(methods), ", ")) end
  local format = method(q, refuse)
  for _, word in ipairs{"bits", "group", "rows", "columns"} do
    if format[word] ~= nil and math.type(format[word]) ~= "integer" then refuse(word, format[word], "an integer") end
  end
  return format
end

-- Marks those entries of a file that loading dequantises. The model's dtype must not depend on the dtype of these
-- entries.
function low_bits.mark(format, contents)
  for _, entry in ipairs(contents) do
    entry.low_bits = format and entry.stored == format.method or not format and entry.dtype == "u8" or nil
  end
  return contents
end

return low_bits
