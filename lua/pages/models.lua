-- models.lua - pages of rille.models.

return {
  models = {
    sign = "rille.models",
    text = [[
Has known models built from rille.nn: GPT-2, Llama, a mixture of experts, a ResNet.
rille.models.gpt2.new{...} makes one with random weights, rille.models.load(folder) reads any Hugging Face folder.]],
    returns = "a table with gpt2, llama, moe, resnet, load and lora",
    errors = "a name that the table does not have; the error names the nearest one",
    code = "m = rille.models.resnet.new{classes = 3, width = 4, blocks = {1}}",
    shows = "m(rille.ones(1, 3, 8, 8)).shape[2]",
    gives = "3",
    see = "models.load models.gpt2 parallel model.generate",
    words = "pretrained language huggingface zoo",
  },
  ["models.gpt2"] = {
    is = "model",
    sign = "rille.models.gpt2.new{vocab =, length =, layers =, heads =, width =, dropout = 0, placement =, sbp =, dtype =}, .load(dir[, {parallel =, quantize =, ...}])",
    text = "Makes a GPT-2 language model, or loads one from a Hugging Face folder.",
    args = [[
vocab: integer; number of token ids
length: integer; maximum number of positions
layers: integer; number of blocks
heads: integer; attention heads
width: integer; size of a position's features
dropout: number, default 0
dir: string; folder, for load
placement: devices, for new and load
sbp: layout of parameters, or a function of the name
dtype: dtype of parameters
parallel: a recipe of rille.parallel, for load
quantize: "int8", "int4": weights of 8 or 4 bits for inference, for load]],
    returns = "a model; m(ids) returns logits (batch, length, vocab) of integer ids (batch, length)",
    errors = "a sequence must have at most length positions",
    code = [[
ids = rille.tensor({{1, 2, 3}}, {dtype = 'i64'})
m = rille.models.gpt2.new{vocab = 11, length = 8, layers = 1, heads = 2, width = 8}]],
    shows = "m(ids).shape[3]",
    gives = "11",
    see = "model.generate parallel models.llama",
    words = "language transformer gpt",
  },
  ["models.llama"] = {
    is = "model",
    sign = "rille.models.llama.new{vocab =, length =, layers =, heads =, width =, kv_heads =, hidden =, placement =, sbp =, dtype =}, .load(dir[, {parallel =, quantize =, ...}])",
    text = "Makes a Llama language model, or loads one from a Hugging Face folder.",
    args = [[
vocab: integer; number of token ids
length: integer; maximum number of positions
layers: integer; number of blocks
heads: integer; attention heads
width: integer; size of a position's features
kv_heads: integer, default heads; heads of keys and values
hidden: integer; hidden size of the feed-forward layers
head_dim: integer, default width / heads; size of a head
activation: string; activation function of the feed-forward layers
eps: number; added to the variance in norms
tied: boolean; the head is the embedding
qkv_bias, out_bias, mlp_bias: boolean; biases of projections
theta, rope_scaling, rotary_size: rotary positions (?nn.Rotary)
dir: string; folder, for load
placement: devices, for new and load
sbp: layout of parameters, or a function of the name
dtype: dtype of parameters
parallel: a recipe of rille.parallel, for load
quantize: "int8", "int4": weights of 8 or 4 bits for inference, for load]],
    returns = "a model; m(ids) returns logits (batch, length, vocab) of integer ids (batch, length)",
    errors = [[
sizes must be positive integers; heads must divide width;
ids must be integers (batch, at most length), below vocab;
kv_heads must divide heads, and a head must have an even size]],
    code = [[
ids = rille.tensor({{1, 2, 3}}, {dtype = 'i64'})
m = rille.models.llama.new{vocab = 11, length = 8, layers = 1, heads = 2, width = 8}]],
    shows = "m(ids).shape[3]",
    gives = "11",
    see = "model.generate parallel models.gpt2",
    words = "language transformer rope",
  },
  ["models.load"] = {
    is = "model",
    sign = "rille.models.load(path[, {placement =, sbp =, parallel =, dtype =, quantize =, strict =, dropout =}])",
    text = [[
Loads a model from a Hugging Face folder of any supported kind, or a language model from a GGUF file.
Kinds are language models, encoders, models for images, for images with texts and for speech, and encoder-decoders.
The kind is model_type in config.json, or the file's architecture; docs/files.md lists the kinds.
Low-bit weights (FP8, MXFP4, GPTQ, AWQ, blocks of GGUF) become floats while they are read.]],
    args = [[
path: string; a folder, a name "owner/name" in Hugging Face's cache, a file, or a checkpoint of llm.c
placement: devices
sbp: layout of parameters, or a function of the name
parallel: a recipe of rille.parallel
dtype: dtype of parameters, default that of the file
quantize: "int8", "int4": weights of 8 or 4 bits, for inference; "keep": products are computed on
the blocks of a GGUF file, in the file's memory
strict: boolean, default true; false: tensors may be missing or unexpected
dropout: number, for GPT-2]],
    returns = [[
a model; m(ids), m:generate(ids), m:save(dir), m.config;
of an encoder m(ids, {mask =, types =}) and m:embed(ids);
of a model for images m(images), m:embed(images), m:prepare(pixels);
of CLIP and SigLIP m(ids, images), m:embed_images(images), m:embed_texts(ids, {mask =});
of one of their towers m(ids, {mask =}) or m(images), and m:embed of the same arguments;
of T5 and Whisper m(inputs, targets), m:encode(inputs), m:generate(inputs), m:log_mel(sound);
if strict is false also {missing =, unexpected =}, lists of names]],
    errors = [[
a folder must have config.json with a supported model_type (the error lists them);
names of tensors must match unless strict is false, shapes always]],
    code = [[
dir = os.tmpname()
os.remove(dir)
rille.models.llama.new{vocab = 11, length = 8, layers = 1, heads = 2, width = 8}:save(dir)
m = rille.models.load(dir)
os.execute("rm -r " .. dir)]],
    shows = "m.config.layers",
    gives = "1",
    see = "models.gpt2 models.llama model.generate model.embed model.prepare tokenizer",
    words = "bert encoder vit clip siglip t5 whisper resnet convnext speech image translation huggingface pretrained gguf llama.cpp gptq awq fp8 mistral qwen gemma phi deepseek",
  },
  ["models.moe"] = {
    is = "model",
    sign = "rille.models.moe.new{vocab =, length =, layers =, heads =, width =, hidden =, experts = 8, top_k = 2}, .load(dir)",
    text = "Makes a language model with a mixture of experts in every block, or loads one from a folder.",
    args = [[
vocab: integer; number of token ids
length: integer; maximum number of positions
layers: integer; number of blocks
heads: integer; attention heads
width: integer; size of a position's features
dir: string; folder, for load
hidden: integer; hidden size of an expert
experts: integer, default 8; experts per block
top_k: integer, default 2; experts per position]],
    returns = "a model; m(ids) returns logits (batch, length, vocab)",
    errors = [[
sizes must be positive integers; heads must divide width;
ids must be integers (batch, at most length), below vocab; top_k must be at most experts]],
    code = [[
ids = rille.tensor({{1, 2, 3}}, {dtype = 'i64'})
m = rille.models.moe.new{vocab = 11, length = 8, layers = 1, heads = 2, width = 8}]],
    shows = "m(ids).shape[3]",
    gives = "11",
    see = "nn.MixtureOfExperts models.gpt2",
    words = "mixture experts",
  },
  ["models.resnet"] = {
    is = "model",
    sign = "rille.models.resnet.new{classes =, channels = 3, width = 16, blocks = {2, 2, 2}}",
    text = "Makes a residual network for classifying images.",
    args = [[
classes: integer
channels: integer, default 3; channels of the images
width: integer, default 16; channels of the first stage
blocks: list of integers, default {2, 2, 2}; residual blocks per stage]],
    returns = "a model; x: (batch, channels, h, w), result: (batch, classes)",
    errors = [[
sizes must be positive integers, blocks a list of them;
x must have 4 dimensions and that many channels]],
    code = "m = rille.models.resnet.new{classes = 3, width = 4, blocks = {1}}",
    shows = "m(rille.ones(1, 3, 8, 8)).shape[2]",
    gives = "3",
    see = "nn.Conv2d nn.BatchNorm2d",
    words = "image classification cnn vision",
  },
  ["model.config"] = {
    sign = "m.config",
    text = "Is the table of sizes and options of a language model; a loaded one also has eos_token_id if its folder does.",
    returns = "a table",
    errors = "none: a changed entry changes no layer, and m:save refuses a model that differs from its config",
    code = "m = rille.models.gpt2.new{vocab = 11, length = 8, layers = 1, heads = 2, width = 8}",
    shows = "m.config.heads",
    gives = "2",
    see = "models.gpt2 nn.Module.settings",
  },
  ["model.embed"] = {
    sign = 'm:embed(ids[, {mask =, types =, pooling =, normalise =}])',
    text = [[
Returns a vector for each text, made by an encoder such as BERT: its features, pooled over the positions that count.
rille.models.load reads pooling and normalise from the modules.json of sentence-transformers.
Models for images have m:embed(images), CLIP and SigLIP m:embed_images(images) and m:embed_texts(ids, {mask =}).]],
    args = [[
ids: integer tensor (batch, length)
mask: bool or integer tensor (batch, length); false or 0: padding
types: integer tensor (batch, length); token types, default 0
pooling: "mean", "cls" (first position), "max" or "pooler" (the model's own), default that of the folder, else "mean"
normalise: boolean, default that of the folder, else false; true: the vectors have norm 1]],
    returns = "a tensor (batch, width), f32",
    errors = "mask and types must have the shape of ids",
    code = [[
bert = require("rille.models.loading.kinds").of "bert"
m = bert.new{vocab = 11, length = 8, layers = 1, heads = 2, width = 8, hidden = 16, kv_heads = 2, eps = 1e-12, is_causal = false}
ids = rille.tensor({{1, 2, 3}}, {dtype = 'i64'})]],
    shows = "m:embed(ids).shape[2]",
    gives = "8",
    see = "models.load model.features tokenizer",
    words = "bert encoder sentence embedding embeddings vector search retrieval similarity pooling",
  },
  ["model.prepare"] = {
    sign = "m:prepare(images)",
    text = [[
Prepares images for a loaded model: resizes, crops, scales and normalises them.
preprocessor_config.json of the model's folder describes the steps, as for transformers' image processors.]],
    args = "images: u8 tensor (batch, channels, height, width) or (channels, height, width)",
    returns = "a tensor (batch, channels, height, width), f32",
    errors = "the folder must have preprocessor_config.json or processor_config.json",
    code = [[
dir = os.tmpname()
os.remove(dir)
os.execute("mkdir " .. dir)
rille.save(dir .. "/model.safetensors", {["classifier.weight"] = rille.randn{2, 8}})
function write(name, text) local f = io.open(dir .. name, "w"); f:write(text); f:close() end
write("/config.json", '{"model_type": "vit", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "image_size": 32}')
write("/preprocessor_config.json", '{"size": {"height": 32, "width": 32}}')
m = rille.models.load(dir, {strict = false})
os.execute("rm -r " .. dir)]],
    shows = "m:prepare(rille.zeros({3, 40, 50}, {dtype = 'u8'})).shape[4]",
    gives = "32",
    see = "models.load model.embed",
    words = "image preprocess processor resize crop normalise mean std pillow",
  },
  ["model.forward"] = {
    sign = "m(ids, {positions =, documents =, mask =})",
    text = [[
Computes the logits of the next id at each position.
With documents, a row holds several texts: no position attends to another text, and positions restart at 0.
With a mask, texts of different lengths are padded at either end. The memory is linear in the length.]],
    args = [[
ids: integer tensor (batch, length)
positions: integer tensor like ids; default: 0, 1, 2... from the beginning of each document, and after padding
documents: integer tensor like ids; a run of equal numbers is one document
mask: tensor like ids; 0 or false for padding, whose logits have no meaning]],
    returns = "a tensor (batch, length, vocab), f32",
    errors = "ids must be integers (batch, at most config.length); options must have the shape of ids",
    code = [[
m = rille.models.llama.new{vocab = 11, length = 8, layers = 1, heads = 2, width = 8}
ids, documents = rille.tensor({{1, 2, 1, 2}}, {dtype = 'i64'}), rille.tensor({{1, 1, 2, 2}}, {dtype = 'i64'})
y = m(ids, {documents = documents})]],
    shows = "(y:slice(1, 0, 2) - y:slice(1, 2, 4)):abs():max():item() < 1e-5",
    gives = "true",
    see = "model.features data.chats scaled_dot_product_attention",
    words = "packing document mask position_ids attention_mask left padding sequence varlen",
  },
  ["model.features"] = {
    sign = "m:features(ids, {positions =, documents =, mask =})",
    text = "Returns the input of the last layer, per position.",
    args = "ids: integer tensor (batch, length)\npositions, documents, mask: as in m(ids)",
    returns = "a tensor (batch, length, width)",
    errors = "ids must be integers (batch, at most config.length), below config.vocab",
    code = [[
ids = rille.tensor({{1, 2, 3}}, {dtype = 'i64'})
m = rille.models.gpt2.new{vocab = 11, length = 8, layers = 1, heads = 2, width = 8}]],
    shows = "m:features(ids).shape[3]",
    gives = "8",
    see = "model.forward model.logits",
    words = "hidden embedding",
  },
  ["model.generate"] = {
    sign = "m:generate(ids, {max_new_tokens = 20, temperature = 1, top_k =, top_p =, seed =, stop =, ...})",
    text = [[
Generates tokens that continue prompts.
By default, each token is sampled from the model's distribution. Equal seeds give equal tokens in every layout.
T5 and Whisper read inputs (ids, or a spectrogram of m:log_mel), and generate a list of ids for each.]],
    args = [[
ids: integer tensor (batch, length), or a list of lists of ids of any lengths
prompt, mask: of T5 and Whisper: list of the result's first ids, default the start id; padding mask of T5's ids
max_new_tokens, min_new_tokens: integers, default 20 and 0; before the minimum no stop id is chosen
temperature: number, default 1; 0 always takes the likeliest token
top_k: integer; samples from the k likeliest tokens
top_p: number; samples from the likeliest tokens with this total probability
min_p: number; samples from tokens with this share of the greatest probability
typical_p: number; samples from tokens of typical information with this total probability
seed: integer; default: the session's seed
stop: token id, string, or a list of these; generation ends at the first; strings need tokenizer
tokenizer: rille.tokenizer
repetition_penalty: number, default 1; makes ids of the prompt and of new tokens less likely, as in transformers
presence_penalty, frequency_penalty: numbers, default 0; subtracted from the logits of ids among the new tokens
logit_bias: table {[id] = number} that is added to logits
bad_words: list of lists of ids that must not occur
allowed: function(ids) that returns the list of ids that may follow, nil: all; for grammars
response_format: {type = "json_object"}: the new text is one JSON object, with which it ends; needs tokenizer;
  {type = "json_schema", json_schema = {schema = table or JSON text}}: an object or array that satisfies the schema
processor: function(ids, logits) that returns changed logits of one row
logprobs: integer; returns log probabilities of the tokens and of this number of likeliest ids
n: integer, default 1; sequences for each prompt
beams: integer; beam search as in transformers, with length_penalty = 1 and early_stopping
draft: smaller model with the same vocabulary, which proposes draft_tokens = 4 tokens; the result is the same
on_token: function, called with a list of one id per row, false for rows without a new id]],
    returns = [[
prompt and continuation, a tensor or lists like ids; with logprobs also a list of {ended =, logprobs =, top_logprobs =},
with beams a list of {score =}]],
    errors = [[
prompt and new tokens must fit into the model's length; logits must not be NaN;
min_new_tokens needs stop, draft_tokens needs draft, length_penalty and early_stopping need beams;
response_format excludes allowed, beams and min_new_tokens]],
    code = [[
ids = rille.tensor({{1, 2, 3}}, {dtype = 'i64'})
m = rille.models.gpt2.new{vocab = 11, length = 8, layers = 1, heads = 2, width = 8}]],
    shows = "m:generate(ids, {max_new_tokens = 2, temperature = 0}).shape[2]",
    gives = "5",
    see = "models.gpt2 tokenizer model.scheduler",
    words = "sample sampling inference text generation beam search speculative decoding grammar json penalty logprobs",
  },
  ["model.scheduler"] = {
    sign = "m:scheduler{slots = 8, length =, chunk = 64, draft =, draft_tokens = 4}",
    text = [[
Makes a scheduler for continuous batching: it generates many sequences at a time, and accepts more at any step.
Schedules of the learning rate are at ?optim.cosine.
If a prompt begins like an earlier sequence, as in a chat, only the rest of the prompt is read (prefix cache).]],
    args = [[
slots: integer, default 8; sequences that are generated at a time; further ones wait
length: integer, default the model's; most tokens of a prompt and its continuation
chunk: integer, default 64; most tokens of a prompt that one step reads
draft: smaller model with the same vocabulary, for speculative decoding
draft_tokens: integer, default 4; tokens that the draft model proposes per step]],
    returns = "a scheduler; s:add, s:step, s:generate, s:cancel, s:forget; s.running and s.waiting count sequences",
    errors = "length must be at most the model's; the draft model must have the model's vocabulary",
    code = [[
m = rille.models.gpt2.new{vocab = 11, length = 8, layers = 1, heads = 2, width = 8}
s = m:scheduler{slots = 2}
sequence = s:add({1, 2, 3}, {max_new_tokens = 2, temperature = 0})
while not sequence.ended do s:step() end]],
    shows = "#sequence.ids",
    gives = "5",
    see = "model.generate scheduler.add scheduler.step",
    words = "continuous batching serve server slots prefix cache chat",
  },
  ["scheduler.add"] = {
    sign = "s:add(ids, {max_new_tokens = 20, temperature = 1, ...})",
    text = "Adds a prompt to a scheduler; the options are those of m:generate for one sequence.",
    args = "ids: list of token ids; the prompt",
    options = "model.generate",
    returns = [[
a sequence: ids (prompt and new tokens), ended (nil, "stop", "length", "cancelled" or "error"), piece (string that the
last step added, with the option tokenizer), logprobs, top_logprobs, reused (number of prompt tokens found in the cache)]],
    errors = "prompt and max_new_tokens must fit into the scheduler's length",
    code = [[
m = rille.models.gpt2.new{vocab = 11, length = 8, layers = 1, heads = 2, width = 8}
s = m:scheduler{slots = 2}]],
    shows = "s:add({1, 2, 3}, {max_new_tokens = 2}).ended",
    gives = "nil",
    see = "model.scheduler scheduler.step",
  },
  ["scheduler.step"] = {
    sign = "s:step()",
    text = "Generates the next token of each sequence that has a slot; with a draft model, up to draft_tokens + 1 tokens.",
    returns = "a list of the sequences that have new tokens or ended",
    errors = 'none for a sequence: NaN logits set its field ended to "error"',
    code = [[
m = rille.models.gpt2.new{vocab = 11, length = 8, layers = 1, heads = 2, width = 8}
s = m:scheduler{slots = 2}
s:add({1, 2, 3}, {max_new_tokens = 2})]],
    shows = "#s:step()",
    gives = "1",
    see = "model.scheduler scheduler.add",
  },
  ["scheduler.generate"] = {
    sign = "s:generate(ids, {max_new_tokens = 20, ...})",
    text = "Generates tokens as m:generate does, with the cached keys and values of earlier sequences that begin alike.",
    args = "ids: integer tensor (batch, length), or a list of lists of ids",
    options = "model.generate",
    returns = "as m:generate",
    errors = "as m:generate; beams and draft are for m:generate only",
    code = [[
m = rille.models.gpt2.new{vocab = 11, length = 8, layers = 1, heads = 2, width = 8}
s = m:scheduler{slots = 2}]],
    shows = "#s:generate({{1, 2, 3}}, {max_new_tokens = 2})[1]",
    gives = "5",
    see = "model.generate model.scheduler",
  },
  ["scheduler.cancel"] = {
    sign = "s:cancel(sequence)",
    text = "Ends a sequence of a scheduler, and frees its slot.",
    args = "sequence: a result of s:add",
    returns = "nothing",
    errors = "sequence must be a result of s:add",
    code = [[
m = rille.models.gpt2.new{vocab = 11, length = 8, layers = 1, heads = 2, width = 8}
s = m:scheduler{slots = 2}
sequence = s:add({1, 2, 3}, {max_new_tokens = 2})
s:cancel(sequence)]],
    shows = "sequence.ended",
    gives = "cancelled",
    see = "model.scheduler scheduler.add",
  },
  ["scheduler.forget"] = {
    sign = "s:forget()",
    text = "Clears the cached keys and values of earlier sequences; must be called after the model's weights have changed.",
    returns = "nothing",
    errors = "no argument is accepted",
    code = [[
m = rille.models.gpt2.new{vocab = 11, length = 8, layers = 1, heads = 2, width = 8}
s = m:scheduler{slots = 2}]],
    shows = "s:forget()",
    gives = "nil",
    see = "model.scheduler",
  },
  ["model.logits"] = {
    sign = "m:logits(features)",
    text = "Applies the last layer to features: m(ids) is m:logits(m:features(ids)).",
    args = "features: tensor (batch, length, width)",
    returns = "a tensor (batch, length, vocab), f32",
    errors = "the last axis of features must have size config.width",
    code = [[
ids = rille.tensor({{1, 2, 3}}, {dtype = 'i64'})
m = rille.models.gpt2.new{vocab = 11, length = 8, layers = 1, heads = 2, width = 8}]],
    shows = "m:logits(m:features(ids)).shape[3]",
    gives = "11",
    see = "model.features",
  },
  ["model.save"] = {
    sign = 'm:save(dir[, {max_shard_size = "5GB"}])',
    text = [[
Writes a model as config.json and model.safetensors, with Hugging Face's names.
A model with 8-bit weights has Rille's names, and only Rille reads it.]],
    args = [[
dir: string; folder
max_shard_size: string, default "5GB"]],
    returns = "nothing",
    errors = "dir must be a folder, or new; the model must be as its config says",
    code = [[
m = rille.models.gpt2.new{vocab = 11, length = 8, layers = 1, heads = 2, width = 8}
dir = os.tmpname()
os.remove(dir)
m:save(dir)
other = rille.models.gpt2.load(dir)]],
    shows = "other.config.vocab",
    gives = "11",
    see = "models.gpt2 save",
    words = "export huggingface",
  },
}
