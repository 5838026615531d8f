-- families.lua - writes model folders for the entries of t/golden/models/families.lua, encoders.lua and towers.lua. The
-- weights follow the formula in families.py.
local json = require "rille.json"
local files = require "rille.models.loading.files"
-- loads rille.models first, because rille.models.llama extends the kind "llama"
local kinds = rille.models and require "rille.models.loading.kinds"
local pieces = require "rille.models.loading.pieces"

local families = {}

function families.hash(name)
  local h = 0x811C9DC5
  for i = 1, #name do h = ((h ~ name:byte(i)) * 0x01000193) & 0xFFFFFFFF end
  return h
end

-- Returns n numbers in [-1, 1), which depend on name and index.
function families.spread(name, n)
  local list, seed = {}, families.hash(name)
  for i = 0, n - 1 do
    local h = (seed + i * 0x9E3779B1) & 0xFFFFFFFF
    h = ((h ~ h >> 16) * 0x85EBCA6B) & 0xFFFFFFFF
    h = ((h ~ h >> 13) * 0xC2B2AE35) & 0xFFFFFFFF
    list[i + 1] = (h ~ h >> 16) / 2147483648 - 1
  end
  return list
end

local function weight(name, shape, n)
  if name:find("num_batches_tracked$") then return rille.full({}, 7, {dtype = "i64"}) end
  if name:find("running_var$") then name = name .. "weight" end
  local list = families.spread(name, n)
  local norm = #shape == 1 and name:find("weight$")
  for i, v in ipairs(list) do list[i] = #shape > 1 and 0.35 * v or norm and 1 + 0.5 * v or 0.5 * v end
  return rille.tensor(list, {dtype = "f64"}):to("f32"):reshape(shape)
end

function families.words(entry) return json.decode(entry.config) end

function families.write_words(words, path)
  local file <close> = assert(io.open(path .. "/config.json", "w"))
  file:write(json.encode(words))
end

-- Returns the kind of an entry (language.lua), and its config.
function families.kind(entry)
  local words, contents = families.words(entry), {}
  local _, kind = kinds.of(words.model_type)
  for i, name in ipairs(entry.has or {}) do contents[i] = {name = name} end
  local other = entry.has and "" or "pooler.dense.weight"
  for i = #contents + 1, 1000 do contents[i] = {name = other} end
  return kind, kind.from_config(words, contents, "/nowhere")
end

-- Writes an entry's folder. Returns the number of tensors, and the digest of their names and shapes.
function families.write(entry, path)
  local kind, config = families.kind(entry)
  local state, tensors, digest, count = kind.class(config):state_dict(), {}, 0, 0
  files.each_row(kind, config, function(row)
    if not (row.head and config.tied) then
      local t = pieces.join(row, state)
      tensors[row[1]] = weight(row[1], t.shape, t:numel())
      digest, count = digest + families.hash(row[1] .. " " .. table.concat(t.shape, "x")), count + 1
    end
  end)
  rille.save(path, tensors, {max_shard_size = "1GB"})
  families.write_words(families.words(entry), path)
  return count, digest & 0xFFFFFFFF
end

-- Returns the sum of a tensor's elements, weighted by the formula.
function families.summed(t, name)
  local weights = rille.tensor(families.spread(name, t:numel()), {dtype = "f64"}):to("f32"):reshape(t.shape)
  return (t * weights:to_global{placement = t.placement, sbp = "B"}):sum()
end

-- Returns the weighted sum of summed() as a number, computed in f64.
function families.weighted(t, name)
  return (t:to("f64"):reshape{-1} * rille.tensor(families.spread(name, t:numel()), {dtype = "f64"})):sum():item()
end

-- Returns the sum of a model's gradients, weighted by the formula, and the sum of their absolute values.
function families.gradient(model)
  local state, sum, absolute = {}, 0, 0
  local here = {placement = rille.placement("cpu", {0}), sbp = "B"}
  for name, p in model:named_parameters() do state[name] = p.grad and p.grad:to_global(here) or rille.zeros(p.shape) end
  for name, b in model:named_buffers() do state[name] = rille.zeros(b.shape) end
  files.each_row(model.kind, model.config, function(row)
    if not (row.head and model.config.tied) then
      local g = pieces.join(row, state)
      sum, absolute = sum + families.weighted(g, "gradient " .. row[1]), absolute + g:to("f64"):abs():sum():item()
    end
  end)
  return sum, absolute
end

-- Returns true if two folders have equal tensors; otherwise the name of a tensor that differs.
function families.same_tensors(one, two)
  local a, b = rille.load(one .. "/model.safetensors"), rille.load(two .. "/model.safetensors")
  for name, t in pairs(a) do
    if not b[name] or table.concat(t.shape, "x") ~= table.concat(b[name].shape, "x") or not t:eq(b[name]):all():item() then return name end
  end
  for name in pairs(b) do
    if not a[name] then return name end
  end
  return true
end

return families
