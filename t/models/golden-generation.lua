-- golden-generation.lua - tests that the options of m:generate give the texts of transformers' generate
-- (t/golden/models/generation.lua): filters, penalties, banned and allowed ids, processors, log probabilities, beams.
local tap = dofile("t/lib/tap.lua")
local golden = dofile("t/golden/models/generation.lua")
local families = dofile("t/lib/families.lua")
local entries = dofile("t/golden/models/families.lua")

local dir = tap.folder()

local VOCAB <const> = entries.vocab
local rows = {{}, {}}
for i, v in ipairs(families.spread("ids", entries.rows * entries.length)) do
  local r, k = (i - 1) // entries.length + 1, (i - 1) % entries.length + 1
  if k <= golden.prompt then rows[r][k] = math.floor((v + 1) / 2 * (VOCAB - 3) + 3) end
end

local models = {}
for _, entry in ipairs(entries) do
  for _, case in ipairs(golden) do
    if case.family == entry.name and not models[entry.name] then
      families.write(entry, dir .. "/model")
      models[entry.name] = rille.models.load(dir .. "/model")
      os.execute(("rm -r '%s/model'"):format(dir))
    end
  end
end
os.execute(("rm -r '%s'"):format(dir))

-- ---- options that are names in generation.py, and functions in Lua ----

local function allowed_step(step)
  return function(ids) return tap.list({1, 7, step}, function(k) return (ids[#ids] + k) % VOCAB end) end
end

-- Halves the logits of all ids with the parity of the last id.
local function halves(ids, logits)
  local factor = {}
  for id = 0, VOCAB - 1 do factor[id + 1] = id % 2 == ids[#ids] % 2 and 0.5 or 1 end
  return logits * rille.tensor(factor)
end

local function options_of(case)
  local o = tap.with({max_new_tokens = golden.new, seed = case.seed}, case.options)
  if o.allowed_step then o.allowed, o.allowed_step = allowed_step(o.allowed_step), nil end
  if o.halves then o.processor, o.halves = halves, nil end
  return o
end

local function described(o)
  local words = {}
  for name, value in pairs(o) do words[#words + 1] = name .. " " .. (type(value) == "table" and "{...}" or tostring(value)) end
  table.sort(words)
  return table.concat(words, ", ")
end

local function new_ids(texts) return tap.list(texts, function(row) return table.move(row, golden.prompt + 1, #row, 1, {}) end) end

local function sums_of(more)
  local sums = {}
  for r, row in ipairs(more) do
    sums[r] = 0
    for _, p in ipairs(row.logprobs) do sums[r] = sums[r] + p end
  end
  return sums
end

for i, case in ipairs(golden) do
  if tap.share(i) then
    local name, o, m = ("%s: %s"):format(case.family, described(case.options)), options_of(case), models[case.family]
    if not o.beams then o.logprobs = 3 end
    local texts, more = m:generate(rows, o)
    tap.is(new_ids(texts), case.rows, name .. ": ids")
    if o.beams then
      local scores = tap.list(more, function(row) return row.score end)
      tap.near(scores, case.scores, name .. ": scores", 1e-5, 1e-5)
    else
      tap.near(sums_of(more), case.logprobs, name .. ": log probabilities", 1e-5, 2e-4)
      local top, ids = {}, {}
      for k, entry in ipairs(more[1].top_logprobs[#case.rows[1]]) do top[k], ids[k] = entry.logprob, entry.id end
      tap.near(top, case.top, name .. ": greatest log probabilities", 1e-4, 1e-4)
      tap.is(ids, case.top_ids, name .. ": their ids")
    end
  end
end

tap.done()
