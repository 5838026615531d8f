-- tuning.lua - pages of fine-tuning: adapters, conversations, losses.

local MODEL = "m = rille.models.llama.new{vocab = 11, length = 8, layers = 1, heads = 2, width = 8}"
local TUNED = MODEL .. "\nrille.models.lora(m, {r = 2})"

return {
  ["nn.LoRA"] = {
    sign = "rille.nn.LoRA(layer, {r = 8, alpha = r, dropout = 0, rslora = false, dora = false, bias = false})",
    text = [[
Adds a trainable low-rank adapter to a linear layer: y = layer(x) + scaling (x A^T) B^T.
The layer is frozen, so only r (in + out) numbers are trained. rille.models.lora adds adapters to a model.
An nn.Embedding looks up rows of weight + scaling (B A)^T. DoRA also trains the lengths of the weight's rows.]],
    args = [[
layer: nn.Linear, nn.Int8Linear, nn.BlockLinear or nn.Embedding
r: integer, default 8; rank
alpha: number, default r; scaling = alpha / r
dropout: number, default 0; probability of dropping an input of A; an nn.Embedding ignores it
rslora: boolean, default false; scaling = alpha / sqrt(r)
dora: boolean, default false; scales rows to trained lengths
bias: boolean, default false; adds a trained bias to B]],
    returns = "a module; lora_A: (r, in), random; lora_B: (out, r), zero (for an nn.Embedding: A zero, B random);\nlora_magnitude, lora_bias: (out); weight, bias: those of the layer",
    errors = "layer must be an nn.Linear, nn.Int8Linear, nn.BlockLinear or nn.Embedding; r must be a positive integer;\nbias must be false for an embedding, and if dora is true",
    code = "net = rille.nn.LoRA(rille.nn.Linear(3, 2), {r = 1})",
    shows = "net.lora_A.shape[2]",
    gives = "3",
    see = "models.lora nn.Linear nn.Int8Linear nn.BlockLinear",
    words = "adapter peft low rank qlora dora",
  },
  ["nn.LoRA.merge"] = {
    sign = "net:merge([on])",
    text = "Adds the adapter's update to the weight, or subtracts the update.",
    args = "on: boolean, default true; false: subtracts",
    returns = "the module",
    errors = "an int8 weight cannot hold an adapter",
    code = "net = rille.nn.LoRA(rille.nn.Linear(3, 2), {r = 1})",
    shows = "net:merge().merged",
    gives = "true",
    see = "models.lora.merge",
  },
  ["nn.LoRA.merged_weight"] = {
    sign = "net:merged_weight()",
    text = "Returns the weight with the adapter's update, and changes nothing.",
    returns = "a tensor (out, in), in the weight's layout",
    errors = "an int8 weight cannot hold an adapter",
    code = "net = rille.nn.LoRA(rille.nn.Linear(3, 2), {r = 1})",
    shows = "net:merged_weight().shape[1]",
    gives = "2",
    see = "models.lora.merge",
  },
  ["models.lora"] = {
    is = "model",
    sign = 'rille.models.lora(m, {r = 8, alpha = r, targets = {"q_proj", "v_proj"}, dropout = 0, rslora = false, dora = false, bias = false, train = {}}), (m, dir)',
    text = [[
Adds LoRA adapters to a model and freezes all other parameters, or loads the adapters of a PEFT folder.
A model with weights in int8 or in blocks of GGUF is tuned in the same way (QLoRA); call m:train() first.
Recipes of rille.parallel shard adapters like their layers. m:save(dir) saves weights with their adapters.
A second call adds adapters with other options. Adapters of a tied weight cannot be merged.]],
    args = [[
m: a module
r: integer, default 8; rank of the adapters
alpha: number, default r; the update is scaled by alpha / r
targets: list of names or paths of linear layers, embeddings, or weights of experts ("gate", "up", "down");
  a regular expression of complete paths; or "all-linear": all linear layers but lm_head and the routers of experts
dropout: number, default 0; probability of dropping an input of an adapter
rslora: boolean, default false; the update is scaled by alpha / sqrt(r)
dora: boolean, default false; trains the lengths of the weights' rows, too
bias: boolean, default false; adds a trained bias to each update
train: list of names or paths of modules or parameters to train completely, as modules_to_save of PEFT
dir: string; folder of PEFT, with adapter_config.json and adapter_model.safetensors]],
    returns = "m",
    errors = [[
a target must name a linear layer, an embedding or a weight of experts;
adapters of experts have no dora, bias or dropout;
a folder with another method than LoRA, an unknown option, or a missing or unknown tensor]],
    code = MODEL,
    shows = "#rille.models.lora(m, {r = 2, targets = 'all-linear'}):parameters()",
    gives = "26",
    see = "models.lora.save models.lora.merge models.lora.without models.lora.swap nn.LoRA",
    words = "fine-tuning finetune peft adapter qlora low rank",
  },
  ["models.lora.save"] = {
    sign = "rille.models.lora.save(m, dir)",
    text = [[
Saves the adapters of a model, and the parameters that are trained completely, as a PEFT folder.
A tensor that joins several layers in the model's file gets one adapter with the sum of their ranks;
the adapters of a loaded folder share A, so the rank remains. Adapters of experts are target_parameters of PEFT.]],
    args = "m: a model with adapters\ndir: string; folder",
    returns = "nothing",
    errors = "the model must have adapters; each adapted layer must have a name in files of this kind of model",
    code = TUNED .. [[

dir = os.tmpname()
os.remove(dir)
rille.models.lora.save(m, dir)
names = rille.io.contents(dir .. "/adapter_model.safetensors")
os.execute("rm -r " .. dir)]],
    shows = "names[1].name",
    gives = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight",
    see = "models.lora model.save",
    words = "peft adapter_model checkpoint",
  },
  ["models.lora.merge"] = {
    sign = "rille.models.lora.merge(m[, on])",
    text = [[
Adds the adapters of a model to its weights, so that they cost no time, or subtracts them again.
Weights change by rounding when adapters are added and subtracted.
A checkpoint of merged adapters has a tensor lora_factor for each. To load the checkpoint, merge the
adapters of the model first.]],
    args = "m: a model with adapters\non: boolean, default true; false: subtracts",
    returns = "m",
    errors = "the model must have adapters; int8 weights cannot hold adapters",
    code = TUNED,
    shows = "rille.models.lora.merge(m).layers[1].attention.q_proj.merged",
    gives = "true",
    see = "models.lora nn.LoRA",
    words = "merge_and_unload unmerge",
  },
  ["models.lora.without"] = {
    sign = "rille.models.lora.without(m, fn, ...)",
    text = [[
Calls a function while the adapters of a model are off, as for the reference of rille.dpo_loss.
Parameters that are trained completely have the base model's values during the call.]],
    args = "m: a model with adapters\nfn: function; called with the further arguments",
    returns = "the results of fn",
    errors = "the model must have adapters; fn must be a function",
    code = TUNED,
    shows = "rille.models.lora.without(m, function() return 3 end)",
    gives = "3",
    see = "models.lora dpo_loss",
    words = "disable_adapter base reference",
  },
  ["models.lora.swap"] = {
    sign = "rille.models.lora.swap(m[, adapters])",
    text = [[
Replaces all adapters of a model by others, and returns those that the model had.
So one model in memory serves several adapters: load each folder with rille.models.lora(m, dir),
and remove its adapters with rille.models.lora.swap(m).
Parameters that are trained completely belong to the adapters. Compiled steps use the new adapters.]],
    args = "m: a module\nadapters: a result of this function; default: none",
    returns = "the adapters that the model had, for another call of this function or rille.models.lora.mix",
    errors = "merged adapters; adapters of another model, or of another layout; a call within a compiled step",
    code = TUNED .. "\none = rille.models.lora.swap(m)\nrille.models.lora(m, {r = 3})\ntwo = rille.models.lora.swap(m, one)",
    shows = "m.layers[1].attention.q_proj.r",
    gives = "2",
    see = "models.lora models.lora.mix",
    words = "set_adapter load_adapter multiple adapters switch unload",
  },
  ["models.lora.mix"] = {
    sign = "rille.models.lora.mix{{adapters, weight}, ...}",
    text = "Returns adapters whose updates of the weights are the weighted sum of other adapters' updates.",
    args = "adapters: a result of rille.models.lora.swap\nweight: number",
    returns = "adapters for rille.models.lora.swap; ranks are the sums of ranks",
    errors = "adapters with dora, with a bias, or with parameters that are trained completely",
    code = TUNED .. "\none = rille.models.lora.swap(m)\nrille.models.lora.swap(m, rille.models.lora.mix{{one, 0.5}, {one, 0.5}})",
    shows = "m.layers[1].attention.q_proj.r",
    gives = "4",
    see = "models.lora.swap models.lora.merge",
    words = "add_weighted_adapter combine merge cat",
  },
  ["data.chats"] = {
    is = "tensor",
    sign = "rille.data.chats(from, {tokenizer =, length =, pack = false, template =, eos =, pad = 0, placement =, sbp =})",
    text = [[
Reads conversations as rows of ids and labels, for instruction tuning; only tokens of answers are labels.
A line of the file, or an entry of the list, is {"messages": [{"role": ..., "content": ...}, ...]} or
{"prompt": ..., "completion": ...}. Other labels are -100, which cross_entropy ignores. Long examples are cut.
An example that has no token of an answer within length is left out.
If the chat template has generation blocks, their texts are the answers; otherwise messages of the assistant are.]],
    args = [[
from: string, a file of JSON lines; or a list of tables
tokenizer: rille.tokenizer; messages use its chat template
length: integer; positions of a row
pack: boolean, default false; rows hold several examples; best fit decreasing, as packing = "bfd" of TRL
template: string; name or text of a chat template
eos: integer; id that ends a completion
pad: integer, default 0; id after the last example of a row
placement: devices of the tensors
sbp: layout, default "B"]],
    returns = "ids x and labels y (rows, length), shifted by one; with pack also document numbers, for m(x, {documents = d})",
    errors = "an example without messages, or without prompt and completion; the error names file and line;\nno example has a token of an answer within length",
    code = [[
t = rille.tokenizer.train({'aaab aaab'}, {size = 257})
x, y = rille.data.chats({{prompt = 'x', completion = 'y'}}, {tokenizer = t, length = 3})]],
    shows = "t:decode{y:totable()[1][1]}",
    gives = "y",
    see = "data.loader model.forward tokenizer.chat cross_entropy",
    words = "jsonl json lines sft instruction labels mask ignore_index conversation",
  },
  linear_cross_entropy = {
    sign = 'rille.linear_cross_entropy(x, weight, labels, {bias =, chunks = 8, reduction = "mean", ignore_index = -100, label_smoothing = 0})',
    text = [[
Computes the cross entropy of the logits x weight^T without holding all logits in memory.
The axis before the last one of x is divided into chunks. Backward computes the logits of a chunk again.
A model whose m:logits(x) also scales or bounds the product (Gemma 2, Cohere, Granite) needs cross_entropy.]],
    args = [[
x: tensor (..., d), such as m:features(ids)
weight: tensor (classes, d), such as m.lm_head.weight
labels: integer tensor (...)
bias: tensor (classes)
chunks: integer, default 8
reduction: "mean" (default), "sum" or "none"
ignore_index: integer, default -100; label to ignore
label_smoothing: number, default 0]],
    returns = 'a tensor without dimensions; with reduction "none", a tensor of labels\' shape',
    errors = "weight must be float (classes, d), labels must have x's shape without its last axis",
    code = "x, w = rille.ones{4, 3}, rille.ones{2, 3}",
    shows = "('%.4f'):format(rille.linear_cross_entropy(x, w, rille.tensor({0, 1, 0, 1}, {dtype = 'i64'})):item())",
    gives = "0.6931",
    see = "cross_entropy model.features nn.Module.recompute",
    words = "fused chunked logits memory vocabulary liger",
  },
  dpo_loss = {
    sign = "rille.dpo_loss(chosen, rejected, ref_chosen, ref_rejected, {beta = 0.1, label_smoothing = 0})",
    text = [[
Computes the loss of direct preference optimisation (DPO), which makes chosen answers likelier than rejected ones.
It is -log sigmoid(beta ((chosen - rejected) - (ref_chosen - ref_rejected))), the mean over the batch.]],
    args = [[
chosen, rejected: tensors (batch); log probabilities of answers
ref_chosen, ref_rejected: tensors (batch); those of the reference model, by rille.models.lora.without
beta: number, default 0.1
label_smoothing: number, default 0; share of pairs whose order is wrong]],
    returns = "a tensor without dimensions",
    errors = "the log probabilities must be tensors; label_smoothing must be from 0 to 1",
    code = "a, b = rille.tensor{-1.0}, rille.tensor{-2.0}",
    shows = "('%.4f'):format(rille.dpo_loss(a, b, a, b):item())",
    gives = "0.6931",
    see = "models.lora.without linear_cross_entropy",
    words = "preference rlhf alignment trl",
  },
}
