-- grammar.lua - prints the processor time that response_format adds to one new id, for a tokenizer of many ids.
--
--   build/release/rille -d cpu:1 bench/grammar.lua tokenizer.json
--   build/release/rille -d cpu:1 bench/grammar.lua qwen.tiktoken qwen       with the name of the pattern of a .tiktoken file
--
-- The text of two JSON objects is read id by id, twice. A row is a format and a reading; columns are the number of ids, the
-- mean and the longest time to find the ids that may follow, and to convert them to tensors, in ms.

local rille = require "rille"
local new_text = require "rille.models.generation.text"
local random = require "rille.base.random"
local sampling = require "rille.models.generation.sampling"
local settings_of = require "rille.models.generation.rows"

local path, pattern = ...
local tokenizer = rille.tokenizer(path, pattern and {pattern = pattern})
local schema = {type = "object", properties = {name = {type = "string"}, age = {type = "integer"}, kind = {enum = {"a", "b"}},
  tags = {type = "array", items = {type = "string"}, maxItems = 3}}, required = {"name", "age", "kind", "tags"}}
local documents = {'{"name": "someone with words, and more; é 日本", "age": 31, "kind": "b", "tags": ["x", "y z"]}',
  '{"name": "Ludwig van Beethoven (1770 - 1827)", "age": 56, "kind": "a", "tags": ["composer", "pianist"]}'}
local where = {placement = rille.placement("cpu", {0})}
where.sbp = require("rille.base.layout").replicated(where.placement)

local function timed(sums, name, fn, ...)
  local start = os.clock()
  fn(...)
  local ms = 1e3 * (os.clock() - start)
  sums[name], sums[name .. "_worst"] = (sums[name] or 0) + ms, math.max(sums[name .. "_worst"] or 0, ms)
end

local function read(document, format, sums)
  local o = sampling.read("bench", {response_format = format, tokenizer = tokenizer, seed = 1, max_new_tokens = 1000}, tokenizer.size)
  local text, kept = new_text({1}, o, random.integers(1)), {}
  for _, id in ipairs(tokenizer:encode(document)) do
    timed(sums, "ids", text.edits, text, #text.ids)
    timed(sums, "tensors", settings_of, {{text = text, n = #text.ids}}, where, kept)
    text:accept(id)
    sums.n = (sums.n or 0) + 1
  end
end

local start = os.clock()
require "rille.models.generation.json_grammar"(tokenizer, tokenizer.size)
print(("%d ids; once per tokenizer: %.0f ms"):format(tokenizer.size, 1e3 * (os.clock() - start)))
for _, format in ipairs{{type = "json_object"}, {type = "json_schema", json_schema = {schema = schema}}} do
  for reading = 1, 2 do
    local sums = {}
    for _, document in ipairs(documents) do read(document, format, sums) end
    print(("%s, reading %d: %d ids, ids %.3f (%.2f), tensors %.3f (%.2f)"):format(format.type, reading, sums.n, sums.ids / sums.n, sums.ids_worst,
      sums.tensors / sums.n, sums.tensors_worst))
  end
end
