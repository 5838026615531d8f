-- golden-families.lua - tests that rille.models.load reads Hugging Face's decoders. Logits, loss, gradients and greedy
-- text must match t/golden/models/families.lua, and a saved folder must have the same tensors.
--
-- Each entry runs on one device, and under some recipes. RILLE_LONG=1 tries all entries under all recipes.
local tap = dofile("t/lib/tap.lua")
local golden = dofile("t/golden/models/families.lua")
local families = dofile("t/lib/families.lua")
local spread, weighted, gradient_of = families.spread, families.weighted, families.gradient

local dir = tap.folder()

local ids = tap.list(spread("ids", golden.rows * golden.length), function(v) return math.floor((v + 1) / 2 * (golden.vocab - 3) + 3) end)
ids = rille.tensor(ids, {dtype = "i64"}):reshape{golden.rows, golden.length}

-- ---- one device ----

local function loss_of(model, x, y) return model(x):reshape{-1, golden.vocab}:cross_entropy(y:reshape{-1}) end
local x, y = ids:slice(1, 0, golden.length - 1), ids:slice(1, 1, golden.length)

local function prompt() return ids:slice(1, 0, golden.prompt):totable() end
local function greedy(model)
  local rows = model:generate(prompt(), {max_new_tokens = golden.new, temperature = 0})
  for r, row in ipairs(rows) do rows[r] = table.move(row, golden.prompt + 1, #row, 1, {}) end
  return rows
end

local function some_of(logits)
  return {logits:slice(0, 0, 1):slice(1, golden.length - 1, golden.length):slice(2, 0, 6):reshape{-1}:totable(),
    logits:slice(0, 1, 2):slice(1, golden.length // 2, golden.length // 2 + 1):slice(2, 0, 6):reshape{-1}:totable()}
end

-- ---- recipes ----

local function mesh(ranks) return rille.placement("cpu", ranks) end
local P2, P22, Q2 = mesh{0, 1}, mesh{{0, 1}, {2, 3}}, mesh{2, 3}
local recipes = {
  {"tensor", P2, {tensor = 0}}, {"data, zero 3", P2, {data = 0, zero = 3}}, {"tensor, sequence", P2, {tensor = 0, sequence = true}},
  {"2d", P22, {tensor = {0, 1}, method = "2d"}}, {"data, tensor", P22, {data = 0, tensor = 1}}, {"stages", P2, {stages = {P2, Q2}, tensor = 0}},
}

-- Compares a model under a recipe with the results on one device.
local function try_recipe(entry, at, r, logits)
  local what = ("%s, %s: "):format(entry.name, r[1])
  local model = rille.models.load(at, {placement = r[2], parallel = r[3]})
  local where, there = rille.parallel.input(model), rille.parallel.labels(model)
  tap.near(model(ids:to_global(where)):totable(), logits, what .. "logits", 1e-4, 2e-5)
  local loss = loss_of(model, x:to_global(where), y:to_global(there))
  tap.near(loss:item(), entry.loss, what .. "loss", 1e-5, 1e-5)
  loss:backward()
  local sum, absolute = gradient_of(model)
  tap.near({sum / entry.absolute, absolute / entry.absolute}, {entry.gradient / entry.absolute, 1}, what .. "gradients", 0, 1e-4)
  tap.is(greedy(model), entry.greedy, what .. "greedy text")
end

for number, entry in ipairs(golden) do
  if tap.share() then tap.group(entry.name, function()
    local at = dir .. "/" .. entry.name:gsub(" ", "-")
    local count, digest = families.write(entry, at)
    tap.is({count, digest}, {entry.tensors, entry.digest}, entry.name .. ": names and shapes of tensors")
    local model = rille.models.load(at)
    local logits, want = model(ids), {table.move(entry.logits, 1, 6, 1, {}), table.move(entry.logits, 7, 12, 1, {})}
    tap.near(some_of(logits), want, entry.name .. ": logits", 1e-5, 1e-5)
    tap.near(weighted(logits, "logits"), entry.all_logits, entry.name .. ": all logits", 1e-5, 2e-4)
    local loss = loss_of(model, x, y)
    tap.near(loss:item(), entry.loss, entry.name .. ": loss", 1e-6, 1e-6)
    loss:backward()
    local sum, absolute = gradient_of(model)
    tap.near({sum / entry.absolute, absolute / entry.absolute}, {entry.gradient / entry.absolute, 1}, entry.name .. ": gradients", 0, 2e-5)
    tap.is(greedy(model), entry.greedy, entry.name .. ": greedy text")
    model:save(dir .. "/saved")
    tap.is(families.same_tensors(at, dir .. "/saved"), true, entry.name .. ": the saved folder has the same tensors")
    -- skips models with experts, because int8 inputs could change the router's choice of experts
    if number % 4 == 0 and not model.config.experts then
      local small = rille.models.load(at, {quantize = "int8"})
      tap.ok((small(ids) - logits):abs():max():item() < 0.08 * logits:abs():max():item(), entry.name .. ": logits with int8 weights")
    end
    logits = logits:totable()
    for k, r in ipairs(recipes) do
      local one = k == number % #recipes + 1 or os.getenv "RILLE_LONG"
      if one and (not r[3].tensor or model.config.kv_heads % 2 == 0) then try_recipe(entry, at, r, logits) end
    end
    os.execute(("rm -rf '%s' '%s/saved'"):format(at, dir))
  end) end
end
tap.done()
