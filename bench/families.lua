-- families.lua - computes what bench/peers/families.py compares: Rille's part of bench/families.sh.
--
--   rille -d cpu:4 bench/families.lua FOLDER
local root = arg[1]

local function read(at, options) return rille.models.load(at, options) end

local function mesh(ranks) return rille.placement("cpu", ranks) end
local P2, P22 = mesh{0, 1}, mesh{{0, 1}, {2, 3}}
local recipes = {
  {"tensor", P2, {tensor = 0}}, {"tensor, sequence", P2, {tensor = 0, sequence = true}}, {"2d", P22, {tensor = {0, 1}, method = "2d"}},
  {"data, zero 3", P2, {data = 0, zero = 3}}, {"data, tensor", P22, {data = 0, tensor = 1}}, {"stages", P2, {stages = {P2, mesh{2, 3}}, tensor = 0}},
}

local function loss_of(model, ids)
  local n = ids.shape[2]
  local logits = model(ids:slice(1, 0, n - 1))
  return logits:reshape{-1, logits.shape[3]}:cross_entropy(ids:slice(1, 1, n):reshape{-1})
end

local function compute(at)
  local given = rille.load(at .. "/result.safetensors")
  local ids, model = given.ids, read(at .. "/f32")
  local out = {logits = model(ids):detach(), shards = read(at .. "/shards")(ids):detach()}
  for _, half in ipairs{"bf16", "f16"} do out[half] = read(at .. "/" .. half)(ids):detach():to("f32") end
  out.greedy = rille.tensor(model:generate(ids:slice(1, 0, 10):totable(), {max_new_tokens = given.greedy.shape[2] - 10, temperature = 0}), {dtype = "i64"})
  for _, r in ipairs(recipes) do
    if (not r[3].tensor or model.config.kv_heads % 2 == 0) and (not r[3].stages or model.config.layers > 1) then
      local other = read(at .. "/f32", {placement = r[2], parallel = r[3]})
      out["recipe " .. r[1]] = other(ids:to_global(rille.parallel.input(other))):detach():to_global{placement = ids.placement, sbp = "B"}
    end
  end
  model:save(at .. "/rille-saved")
  local loss = loss_of(model, ids)
  loss:backward()
  out.loss = loss:detach():reshape{1}
  rille.save(at .. "/rille.safetensors", out)
  local parameters, gradients = model:parameters(), {}
  for i, p in ipairs(parameters) do gradients[i] = p.grad and p.grad:clone() or p:detach() * 0 end
  rille.optim.SGD(parameters, {lr = 0.01}):step()
  model:save(at .. "/rille-step")
  rille.no_grad(function()
    for i, p in ipairs(parameters) do p:copy_(gradients[i]) end
    for _, b in model:named_buffers() do b:copy_(b * 0) end
  end)
  model:save(at .. "/rille-gradients")
end

for name in io.popen(("ls '%s'"):format(root)):lines() do
  local good, why = pcall(compute, root .. "/" .. name)
  if not good then print(name, why) end
end
