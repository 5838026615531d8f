-- given.lua - tests positions, documents and masks as arguments of language models of each kind. A document in a
-- packed row, and a row with padding at either end, must have the logits of the text alone; a packed batch must have
-- the gradients of its texts alone.
local tap = dofile("t/lib/tap.lua")
local golden = dofile("t/golden/models/families.lua")
local families = dofile("t/lib/families.lua")

local function T(t) return rille.tensor(t, {dtype = "i64"}) end
local ids = {{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5}, {8, 9, 7, 9, 3, 2, 3, 8, 4, 6, 2}}
-- Some documents have more than 8 positions. From there on, longrope uses other frequencies.
local documents = {{1, 1, 1, 1, 1, 2, 2, 2, 2, 0, 0}, {1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2}}
local masks = {{0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0}}

-- Calls visit(row, first, last) for each run of equal numbers.
local function each_run(rows, visit)
  for b, row in ipairs(rows) do
    local first = 1
    for i = 2, #row + 1 do
      if row[i] ~= row[first] then
        visit(b, first, i - 1)
        first = i
      end
    end
  end
end

-- Computes each run of equal numbers as a separate text. Returns rows of logits, in which each run has the logits of
-- its text.
local function alone(m, rows)
  local want = {{}, {}}
  each_run(rows, function(b, first, last)
    local own = m(T{table.move(ids[b], first, last, 1, {})}):totable()[1]
    table.move(own, 1, #own, first, want[b])
  end)
  return want
end

local function compare(name, m)
  tap.near(m(T(ids), {documents = T(documents)}):totable(), alone(m, documents), name .. ": a document in a row has its logits alone",
    2e-5, 2e-5)
  local got, want = m(T(ids), {mask = T(masks)}):totable(), alone(m, masks)
  tap.near(got, want, name .. ": a padded text has its logits alone", 2e-5, 2e-5)
  tap.near(m(T(ids), {mask = T(masks), documents = T(documents)}):totable()[2], alone(m, {{}, {1, 1, 2, 2, 2, 2, 2, 2, 2, 0, 0}})[2],
    name .. ": documents and padding", 2e-5, 2e-5)
  tap.near(m(T(ids), {positions = T{{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}}}):totable(), m(T(ids)):totable(),
    name .. ": the usual positions", 2e-5, 2e-5)
end

local dir = os.tmpname()
os.remove(dir)
for _, entry in ipairs(golden) do
  if tap.share() then
    families.write(entry, dir)
    compare(entry.name, rille.models.load(dir))
    os.execute(("rm -r '%s'"):format(dir))
  end
end
local made = {}
for _, kind in ipairs{"gpt2", "llama", "moe"} do
  made[kind] = rille.models[kind].new{vocab = 31, length = 12, layers = 2, heads = 2, width = 16}
  compare("rille's " .. kind, made[kind])
end

local llama = made.llama
local shifted = llama(T(ids), {positions = T(ids) * 0 + rille.arange(11):to("i64") + 1})
tap.near(shifted:totable(), llama(T(ids)):totable(), "rotary positions that are shifted give the same logits", 2e-5, 2e-5)
tap.ok((made.gpt2(T(ids), {positions = T(ids) * 0 + rille.arange(11):to("i64") + 1}) - made.gpt2(T(ids))):abs():max():item() > 1e-3,
  "learned positions that are shifted give other logits")

-- ---- gradients ----

local function gradient(run)
  for _, p in ipairs(llama:parameters()) do p.grad = nil end
  run():backward()
  return tap.list(llama:parameters(), function(p) return p.grad:clone() end)
end

local whole = gradient(function() return llama(T(ids), {documents = T(documents)}):square():sum() end)
local parts = gradient(function()
  local sum = 0
  each_run(documents, function(b, first, last) sum = sum + llama(T{table.move(ids[b], first, last, 1, {})}):square():sum() end)
  return sum
end)
local worst = 0
for i, g in ipairs(whole) do worst = math.max(worst, (g - parts[i]):abs():max():item() / (1e-3 + parts[i]:abs():max():item())) end
tap.ok(worst < 2e-5, "gradients of packed documents are those of the documents alone", ("off by %g"):format(worst))

-- ---- memory ----

-- Returns the peak bytes of a training step on n positions. The model has a window, softcap and sinks.
local function memory_of(n)
  local m = require("rille.models.loading.kinds").of("gemma2").new{vocab = 32, length = n, layers = 2, heads = 4, kv_heads = 2, width = 16,
    hidden = 32, head_dim = 4, eps = 1e-5, theta = 10000, norm = "rms", norms = "12", activation = "silu", gated = true, tied = true,
    softcap = 2.0, sinks = true, windows = {32, false}}
  local step = rille.graph(function(x, d) (m(x, {documents = d}):square():mean()):backward() end)
  local x = rille.arange(n):reshape{1, n}:to("i64")
  step(x % 32, x // 100)
  return step:stats().devices[1].peak_memory
end
local short, long = memory_of(256), memory_of(1024)
tap.ok(short > 0 and long < 4.2 * short, "the memory of a step is linear in the length", ("%d bytes, %d bytes"):format(short, long))

-- ---- wrong arguments ----

for _, case in ipairs{
  {{documents = T{1, 2}}, "models.llama: documents must be a tensor {2, 11}, the shape of ids, found {2}"},
  {{documents = rille.zeros{2, 11}}, "models.llama: documents must be integers, found f32"},
  {{positions = 3}, "models.llama: positions must be a tensor {2, 11}, the shape of ids, found 3"},
  {{mask = T{{1}}}, "models.llama: mask must be a tensor {2, 11}, the shape of ids, found {1, 1}"},
  {{masks = T(masks)}, "models.llama: unknown option 'masks'"},
} do
  tap.fails(function() llama(T(ids), case[1]) end, {case[2]}, case[2])
end
tap.done()
