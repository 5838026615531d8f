-- families.lua - writes model folders for the entries of t/golden/families.lua and encoders.lua, with weights by the formula in
-- families.py.
local rille = require "rille"
local json = require "rille.json"
local describe = require "rille.models.describe"
local names = require "rille.models.names"
local pieces = require "rille.models.pieces"
local Decoder = require "rille.models.decoder"
local Encoder = require "rille.models.encoder"

local families = {}

function families.hash(name)
  local h = 0x811C9DC5
  for i = 1, #name do h = ((h ~ name:byte(i)) * 0x01000193) & 0xFFFFFFFF end
  return h
end

-- Returns n numbers in [-1, 1), determined by name and index.
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
  local list = families.spread(name, n)
  local norm = #shape == 1 and name:find("weight$")
  for i, v in ipairs(list) do list[i] = #shape > 1 and 0.35 * v or norm and 1 + 0.5 * v or 0.5 * v end
  return rille.tensor(list, {dtype = "f64"}):to("f32"):reshape(shape)
end

-- Returns an entry's config.json as a table.
function families.words(entry) return json.decode(entry.config) end

-- Writes a table to the config.json of a folder.
function families.write_words(words, path)
  local file <close> = assert(io.open(path .. "/config.json", "w"))
  file:write(json.encode(words))
end

-- Writes an entry's folder. Returns the number of tensors, and the digest of their names and shapes.
function families.write(entry, path)
  local words = families.words(entry)
  local config = describe.of(words.model_type, words, math.huge)
  local class = describe.is_encoder(words.model_type) and Encoder or Decoder
  local state, tensors, digest, count = class(config):state_dict(), {}, 0, 0
  for _, row in ipairs(names.rows(words.model_type, config)) do
    if not (row.head and config.tied) then
      local t = pieces.join(row, state)
      tensors[row[1]] = weight(row[1], t.shape, t:numel())
      digest, count = digest + families.hash(row[1] .. " " .. table.concat(t.shape, "x")), count + 1
    end
  end
  rille.save(path, tensors, {max_shard_size = "1GB"})
  families.write_words(words, path)
  return count, digest & 0xFFFFFFFF
end

-- Returns true if two folders have equal tensors, else the name of a tensor that differs.
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
