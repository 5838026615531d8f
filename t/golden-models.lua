-- golden-models.lua - tiny GPT-2 and Llama are Hugging Face's (t/golden/models.lua, made by models.py there): logits,
-- losses of five AdamW steps, greedy text; and rotary frequencies scaled as Llama 3's.
local tap = dofile("t/tap.lua")
local rille = require "rille"
local optim = rille.optim
local files = require "rille.models.files"
local golden = dofile("t/golden/models.lua")

-- The formula of models.py.
local function numbers(t, seed)
  local list, n = {}, 1
  for _, d in ipairs(t.shape) do n = n * d end
  for i = 0, n - 1 do list[i + 1] = t.low + (t.high - t.low) * ((i * 7919 + seed * 104729 + 3571) % 9973) / 9973 end
  return rille.tensor(list):reshape(t.shape)
end

local function model_of(name, g)
  local model, tensors = rille.models[name].new(g.config), {}
  for seed, t in ipairs(g.tensors) do tensors[t.name] = numbers(t, seed) end
  return model:load_state_dict(files.state(model.kind, model.config, tensors, "golden"))
end

local function ids(rows) return rille.tensor(rows, {dtype = "i64"}) end

for _, name in ipairs{"gpt2", "llama"} do
  tap.group(name, function()
    local g = golden[name]
    local m = model_of(name, g)
    tap.near(m(ids(golden.ids)):reshape{-1}:totable(), g.logits, name .. ": logits", 1e-4, 1e-5)
    local n = #g.greedy - #golden.ids[1]
    tap.is(m:generate(ids{golden.ids[1]}, {max_new_tokens = n, temperature = 0}):totable(), {g.greedy}, name .. ": greedy text")
    local opt, losses = optim.AdamW(m:parameters(), {lr = 1e-2, weight_decay = 0.1}), {}
    local x, y = ids(golden.ids), ids(golden.labels):reshape{-1}
    local step = rille.graph(function(a, b)
      local logits = m(a)
      local loss = logits:reshape{-1, logits.shape[3]}:cross_entropy(b)
      loss:backward(); opt:step(); opt:zero_grad()
      return loss
    end)
    for i = 1, 5 do losses[i] = step(x, y):item() end
    tap.near(losses, g.losses, name .. ": losses of five steps", 1e-5)
  end)
end

tap.done()
