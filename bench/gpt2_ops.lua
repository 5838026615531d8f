-- gpt2_ops.lua - traces of training steps of GPT-2 124M with AdamW (bench/gpt2.lua), for bench/gpt2_ops.py.
--
--   rille bench/gpt2_ops.lua --out FOLDER [--steps 4] [--batch 4] [--length 64] [--layers 12] [--bf16]
--
-- Writes the traces to FOLDER/1.json, FOLDER/2.json, ...

local rille = require "rille"
local o = rille.args(arg, {out = ".", steps = 4, batch = 4, length = 64, layers = 12, bf16 = false})
local VOCAB = 50257

rille.manual_seed(0)
local model = rille.models.gpt2.new{vocab = VOCAB, length = 1024, layers = o.layers, heads = 12, width = 768,
                                    placement = rille.placement("cpu", {0})}
local opt = rille.optim.AdamW(model:parameters(), {lr = 1e-4, weight_decay = 0.01})
local x, y = rille.randint(0, VOCAB, {o.batch, o.length}), rille.randint(0, VOCAB, {o.batch, o.length})
local function loss_of(a, b) return model(a):reshape{-1, VOCAB}:cross_entropy(b:reshape{-1}) end
local step = rille.graph(function(a, b)
  local loss = o.bf16 and rille.autocast("bf16", loss_of, a, b) or loss_of(a, b)
  loss:backward(); opt:step(); opt:zero_grad()
  return loss
end)
for i = 0, o.steps do
  step(x, y):item()
  if i > 0 then step:trace(o.out .. "/" .. i .. ".json") end -- the first step compiles
end
