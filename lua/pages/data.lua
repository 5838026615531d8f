-- data.lua - pages of data sets, files and tokenizers.

return {
  data = {
    sign = "rille.data",
    text = "Reads data sets and cuts them into batches, in an order that depends on seed and epoch only.",
    returns = "a table with loader, tokens, chats, csv, text and permutation",
    errors = "a name that the table does not have; the error names the nearest one",
    code = "order = rille.data.permutation(4, 1)",
    shows = "#order",
    gives = "4",
    see = "data.loader data.csv data.tokens",
    words = "dataset dataloader batch input",
  },
  ["data.image"] = {
    sign = "rille.data.image(path, {height =, width =, placement =, sbp =})",
    text = [[
Reads the pixels of a PNG or JPEG file.
Grey values become equal red, green and blue; 16-bit values keep their high byte; transparency is ignored.
The image is turned to the orientation that a camera stored (EXIF), and CMYK becomes RGB, as transformers does.]],
    args = [[
path: string; name of the file
height, width: integers, default those of the file; size to which the image is resized, by Pillow's cubic filter
placement: devices
sbp: layout]],
    returns = "a tensor u8 {3, height, width}: red, green, blue, from 0 to 255",
    errors = "the file must be complete, undamaged, and of at most 2^27 pixels",
    code = [[
path = os.tmpname()
png = io.open(path, "wb")
png:write("\137PNG\013\010\026\010\000\000\000\013IHDR\000\000\000\002\000\000\000\001\008\002\000\000\000\123\064\232\221",
  "\000\000\000\015IDATx\156c\096\096\096\248\255\255\063\000\006\001\002\254\002\178\057\174\000\000\000\000IEND\174B\096\130")
png:close()
x = rille.data.image(path)
os.remove(path)]],
    shows = "x.shape[3]",
    gives = "2",
    see = "model.prepare load_npy data.loader",
    words = "png jpeg jpg picture photo pixels read decode pillow torchvision",
  },
  ["data.csv"] = {
    is = "tensor",
    sign = 'rille.data.csv(path, {separator = ",", header = false, dtype = "f32", placement =, sbp =})',
    text = "Reads a file of separated numbers (CSV) as a tensor of rows and columns.",
    args = [[
path: string
separator: string of one character, default ","
header: boolean, default false; the first line has column names
dtype: default "f32"
placement: devices of the tensor
sbp: layout, default "B"]],
    returns = "a tensor (rows, columns); with header also the list of names",
    errors = "a field that is no number, or a row of another length; the error has file, line and column",
    code = [[
path = os.tmpname()
file = io.open(path, 'w')
file:write('1,2\n3,4\n')
file:close()
x = rille.data.csv(path)
os.remove(path)]],
    shows = "x:sum():item()",
    gives = "10.0",
    see = "data.loader load",
    words = "dataset table import read",
  },
  ["data.loader"] = {
    is = "loader",
    sign = "rille.data.loader{x, y, ..., batch =, shuffle = false, seed = 0, drop_last = false, sbp =}",
    text = "Iterates over tensors in batches, in order or shuffled: for x, y in loader do.",
    args = [[
x, y, ...: tensors with equal numbers of rows
batch: integer; rows per batch
shuffle: boolean, default false; a new order per epoch
seed: integer, default 0; determines the order
drop_last: boolean, default false; leaves out a last batch with fewer rows
sbp: layout of the batches, default the layout of the tensors]],
    returns = "a loader; each loop over it is one epoch, #loader is the number of batches",
    errors = [[
tensors must have rows, and equally many; batch must be a positive integer;
drop_last needs at least one full batch]],
    code = [[
n = 0
for x in rille.data.loader{rille.ones(10, 2), batch = 4} do n = n + 1 end]],
    shows = "n",
    gives = "3",
    see = "loader.batches loader.state data.tokens",
    words = "dataloader dataset batch shuffle minibatch epoch",
  },
  ["data.permutation"] = {
    sign = "rille.data.permutation(n, seed)",
    text = "Returns the numbers 0 to n - 1 in a random order that depends on the seed only.",
    args = [[
n: integer
seed: integer]],
    returns = "a list of integers",
    errors = "n must be a positive integer, seed an integer",
    code = "order = rille.data.permutation(4, 1)",
    shows = "#order",
    gives = "4",
    see = "data.loader",
    words = "shuffle random",
  },
  ["data.text"] = {
    is = "tensor",
    sign = "rille.data.text(path, {tokenizer =, placement =, sbp =})",
    text = "Reads a text file as token ids: those of a tokenizer, or the bytes.",
    args = [[
path: string
tokenizer: a tokenizer; without one, ids are bytes
placement: devices of the tensor
sbp: layout, default "B"]],
    returns = "an i64 tensor of one axis",
    errors = "the file must be readable; tokenizer must be a rille.tokenizer",
    code = [[
path = os.tmpname()
file = io.open(path, 'w')
file:write('abc')
file:close()
x = rille.data.text(path)
os.remove(path)]],
    shows = "#x",
    gives = "3",
    see = "data.tokens tokenizer",
    words = "dataset corpus",
  },
  ["data.tokens"] = {
    is = "loader",
    sign = "rille.data.tokens(from, {batch =, length =, seed = 0, vocab =, placement =, sbp =, labels =})",
    text = [[
Iterates over windows of token ids, for training a language model: for x, y in tokens:batches() do.
Windows do not overlap and are shuffled. y is x shifted by one. Files are memory-mapped.]],
    args = [[
from: token file, list of files, list of ids, or tensor of ids
batch: integer; windows per batch
length: integer; ids per window
seed: integer, default 0; determines the order
vocab: integer; ids must be below it
placement: devices of x and y
sbp: layout of x and y
labels: {placement =, sbp =} of y, if it differs]],
    returns = "a loader; local tokens <close> releases its files",
    errors = "an id that is not below vocab; the error has file and position",
    code = [[
ids = {}
for i = 1, 40 do ids[i] = i end
tokens = rille.data.tokens(ids, {batch = 2, length = 4})
x, y = tokens:next()]],
    shows = "y.shape[2]",
    gives = "4",
    see = "data.loader data.text models",
    words = "dataset dataloader language model",
  },
  io = {
    sign = "rille.io",
    text = "Reads the formats of other programs, and lists the contents of files.",
    returns = "a table with contents, vocabulary and llmc",
    errors = "a name that the table does not have; the error names the nearest one",
    code = [[
path = os.tmpname()
os.remove(path)
path = path .. '.npy'
rille.save(path, rille.ones(2))
list = rille.io.contents(path)
os.remove(path)]],
    shows = "#list",
    gives = "1",
    see = "load save io.contents io.vocabulary",
    words = "import export file format",
  },
  ["io.contents"] = {
    sign = "rille.io.contents(path[, format])",
    text = "Lists the tensors of a file without reading their values.",
    args = [[
path: string; .safetensors, .npy, .npz, .gguf, .pt, .pth, .bin of torch.save, or a folder
format: string, optional; needed if the file name does not end in one of these]],
    returns = [[
a list of {name =, dtype =, shape =, stored =}, and the file's metadata;
stored is the file's name for a dtype that loading converts, such as "Q4_K"]],
    errors = "the file must be readable, and of a known format; a damaged header",
    code = [[
path = os.tmpname()
os.remove(path)
path = path .. '.npy'
rille.save(path, rille.ones(2))
list = rille.io.contents(path)
os.remove(path)]],
    shows = "list[1].dtype",
    gives = "f32",
    see = "load",
    words = "inspect metadata",
  },
  ["io.vocabulary"] = {
    sign = "rille.io.vocabulary(path)",
    text = "Reads the vocabulary of a GGUF file, with the data from which a tokenizer can be made.",
    args = "path: string; .gguf file",
    returns = [[
a table: model ("gpt2", "gemma4", "llama", "bert", "t5"), pre (name of the pattern that splits texts),
lists by id + 1: tokens, scores, types; merges; bos, eos and other special ids; template of chats]],
    errors = "the file must have a vocabulary",
    code = [[
path = os.tmpname() .. '.gguf'
file = io.open(path, 'wb')
file:write('GGUF', string.pack('<I4I8I8s8I4s8', 3, 0, 2, 'general.architecture', 8, 'llama'))
file:write(string.pack('<s8I4I4I8s8s8', 'tokenizer.ggml.tokens', 9, 8, 2, 'a', 'b'))
file:close()
v = rille.io.vocabulary(path)
os.remove(path)]],
    shows = "#v.tokens",
    gives = "2",
    see = "io.contents tokenizer models.load",
    words = "gguf tokens merges scores",
  },
  ["io.llmc"] = {
    sign = "rille.io.llmc.load(path), rille.io.llmc.tokens(path)",
    text = "Reads files of llm.c: a checkpoint of GPT-2, and a file of tokens.",
    args = "path: string",
    returns = "load: a table {name = tensor} and a table of sizes; tokens: an i64 tensor",
    errors = "the file must begin as llm.c writes it, and have as many bytes as its header says",
    code = [[
path = os.tmpname()
file = io.open(path, 'wb')
file:write(string.pack('<i4i4i4', 20240520, 1, 3), ('\0'):rep(1012), string.pack('<I2I2I2', 5, 6, 7))
file:close()
ids = rille.io.llmc.tokens(path)
os.remove(path)]],
    shows = "ids:sum():item()",
    gives = "18",
    see = "models.gpt2 data.tokens",
    words = "import",
  },
  load = {
    sign = "rille.load(path[, {placement =, sbp =, dtype =, names =}])",
    text = [[
Loads tensors by name from a file: safetensors, npz, gguf, torch.save, or a folder of shards; npy: one tensor.
Each rank reads the bytes of its own shard. No code of a pickle is run.]],
    args = [[
path: string; "~" and names of models in the cache of Hugging Face's tools ("owner/name") are expanded
placement: devices, or a function of the tensor's name
sbp: layout, default "B", or a function of the tensor's name
dtype: dtype of float tensors, or a function of the tensor's name; default that of the file
names: list of names to load, default all]],
    returns = "a table {name = tensor}; for .npy a tensor",
    errors = "a damaged file; the error names the fault",
    code = [[
path = os.tmpname() .. '.safetensors'
rille.save(path, {w = rille.ones(2)})
t = rille.load(path)
os.remove(path)]],
    shows = "t.w:sum():item()",
    gives = "2.0",
    see = "save nn.Module.load io.contents",
    words = "read import safetensors file restore weights huggingface torch pickle",
  },
  load_npy = {
    is = "tensor",
    sign = "rille.load_npy(path[, {placement =, sbp =}])",
    text = "Loads the tensor of a NumPy .npy file.",
    args = [[
path: string
placement: devices
sbp: layout, default "B"]],
    returns = "a tensor",
    errors = [[
the file must be an .npy of versions 1 to 3, of a supported dtype and complete;
sbp must fit its shape]],
    code = [[
path = os.tmpname() .. '.npy'
rille.save(path, rille.ones(2))
x = rille.load_npy(path)
os.remove(path)]],
    shows = "x:sum():item()",
    gives = "2.0",
    see = "load save",
    words = "numpy import read",
  },
  save = {
    sign = 'rille.save(path, what[, {max_shard_size = "5GB"}])',
    text = "Saves tensors or a module to a file, complete or not at all: safetensors, npy, or a folder of shards.",
    args = [[
path: string; ends in .safetensors or .npy (one tensor), or names a folder
what: table {name = tensor}, a module, or a tensor
max_shard_size: string such as "5GB"; for a folder]],
    returns = "nothing",
    errors = "a folder is not replaced as one: for training runs use rille.checkpoint",
    code = [[
path = os.tmpname() .. '.npy'
rille.save(path, rille.ones(2))]],
    shows = "os.remove(path)",
    gives = "true",
    see = "load checkpoint.save nn.Module.state_dict",
    words = "write export file safetensors numpy weights",
  },
  ["loader.advance"] = {
    sign = "loader:advance()",
    text = "Returns the next batch of the epoch that loader:begin() began; nil at its end.",
    returns = "tensors",
    errors = "no argument is accepted",
    code = [[
loader = rille.data.loader{rille.arange(4), batch = 4}
loader:begin()
loader:advance()]],
    shows = "loader:advance()",
    gives = "nil",
    see = "loader.begin loader.next",
  },
  ["loader.batches"] = {
    sign = "for x, y in loader:batches() do",
    text = "Iterates over the batches of the next epoch; for x, y in loader do is the same.",
    returns = "an iterator of tensors",
    errors = "no argument is accepted",
    code = [[
loader = rille.data.loader{rille.arange(4), batch = 3}
n = 0
for x in loader:batches() do n = n + #x end]],
    shows = "n",
    gives = "4",
    see = "data.loader loader.epoch",
    words = "epoch",
  },
  ["loader.begin"] = {
    sign = "loader:begin()",
    text = "Begins the next epoch; then loader:advance() returns its batches, one per call.",
    returns = "nothing",
    errors = "no argument is accepted",
    code = [[
loader = rille.data.loader{rille.arange(4), batch = 3}
loader:begin()]],
    shows = "#loader:advance()",
    gives = "3",
    see = "loader.advance",
  },
  ["loader.epoch"] = {
    sign = "for x, y in loader:epoch(n) do",
    text = "Iterates over the batches of epoch n, which depend on the seed and n only.",
    args = "n: integer, from 0",
    returns = "an iterator of tensors",
    errors = "n must be an integer of 0 or more",
    code = "loader = rille.data.loader{rille.arange(4), batch = 4, shuffle = true}",
    shows = "loader:epoch(3)():sum():item()",
    gives = "6",
    see = "loader.batches",
  },
  ["loader.load_state"] = {
    sign = "loader:load_state(s)",
    text = "Continues at a position that loader:state() returned; the first loop finishes that epoch.",
    args = "s: table",
    returns = "nothing",
    errors = "the state must be of equal data and batches",
    code = [[
loader = rille.data.loader{rille.arange(4), batch = 3}
loader:next()
other = rille.data.loader{rille.arange(4), batch = 3}
other:load_state(loader:state())]],
    shows = "other:next():item()",
    gives = "3",
    see = "loader.state checkpoint.load",
    words = "position resume",
  },
  ["loader.next"] = {
    sign = "loader:next()",
    text = "Returns one batch, and begins the next epoch when the current one is over.",
    returns = "tensors",
    errors = "no argument is accepted",
    code = [[
loader = rille.data.loader{rille.arange(4), batch = 3}
loader:next()]],
    shows = "loader:next():item()",
    gives = "3",
    see = "loader.batches",
  },
  ["loader.order"] = {
    sign = "loader:order(n)",
    text = "Returns the order of the rows in epoch n.",
    args = "n: integer, from 0",
    returns = "a list of positions, from 0",
    errors = "n must be a number",
    code = "loader = rille.data.loader{rille.arange(4), batch = 4}",
    shows = "loader:order(0)[4]",
    gives = "3",
    see = "data.permutation",
    words = "shuffle",
  },
  ["loader.refuses"] = {
    sign = "loader:refuses(s)",
    text = "Returns why a state cannot be loaded; nil if it can be loaded.",
    args = "s: table, as loader:state() returns",
    returns = "a string or nil",
    errors = "none: a value of any type is answered",
    code = "loader = rille.data.loader{rille.arange(4), batch = 3}",
    shows = "loader:refuses(loader:state())",
    gives = "nil",
    see = "loader.load_state",
  },
  ["loader.state"] = {
    sign = "loader:state()",
    text = "Returns the position in the data as a table, for a checkpoint.",
    returns = "a table of numbers",
    errors = "no argument is accepted",
    code = [[
loader = rille.data.loader{rille.arange(4), batch = 3}
loader:next()]],
    shows = "loader:state().at",
    gives = "3",
    see = "loader.load_state checkpoint.save",
    words = "position resume",
  },
  ["loader.stats"] = {
    sign = "data:stats()",
    text = "Counts what the background reader of data.tokens did.",
    returns = "a table: depth (batches ahead), read, taken (batches), full and waited (counts), wait (seconds)",
    errors = "the loader must be one of data.tokens",
    code = [[
data = rille.data.tokens({1, 2, 3, 4, 5}, {batch = 1, length = 2})
data:next()]],
    shows = "data:stats().taken",
    gives = "1",
    see = "data.tokens",
    words = "slow prefetch input",
  },
  ["loader.take"] = {
    sign = "loader:take(epoch, first, n)",
    text = "Returns n rows of an epoch, after the first `first` rows of its order.",
    args = [[
epoch: integer, from 0
first: integer, from 0
n: integer]],
    returns = "tensors",
    errors = "for data.tokens, the rows must be within the epoch",
    code = "loader = rille.data.loader{rille.arange(4), batch = 4}",
    shows = "loader:take(0, 1, 2):sum():item()",
    gives = "3",
    see = "loader.epoch",
  },
  tokenizer = {
    is = "tokenizer",
    sign = "rille.tokenizer(path, {pattern =, special =})",
    text = [[
Loads a tokenizer, which turns text into token ids and back.
Files: tokenizer.json (Hugging Face: BPE, Unigram, WordPiece, WordLevel), tekken.json,
*.model (SentencePiece), *.tiktoken, *.gguf. Truncation and padding are not applied.]],
    args = [[
path: string; the file
pattern: string; required for *.tiktoken, otherwise absent: "gpt2", "cl100k", "o200k",
"llama3", "qwen", or a regular expression that splits words
special: list of special tokens, default {}: for *.tiktoken also {[text] = id};
for *.model the control pieces that a text may contain]],
    returns = "a tokenizer; t:encode(text), t:decode(ids), t:chat(messages), t.size, t:save(path)",
    errors = [[
the file must be of one of these formats; ids must be distinct;
the pattern must compile]],
    code = "t = rille.tokenizer.train({'aaab aaab'}, {size = 258})",
    shows = "t:decode(t:encode('ab'))",
    gives = "ab",
    see = "tokenizer.train tokenizer.encode tokenizer.chat data.text",
    words = "bpe text vocabulary huggingface sentencepiece unigram wordpiece tiktoken",
  },
  ["tokenizer.chat"] = {
    sign = "t:chat(messages, {add_generation_prompt =, answers =, tools =, documents =, template =, variables =})",
    text = [[
Turns messages into the text that a model expects, by its chat template (Jinja).
The template is in the tokenizer's folder: chat_template.jinja or tokenizer_config.json.]],
    args = [[
messages: list of {role = "user", content = "..."}, or JSON text
add_generation_prompt: boolean, default false; ends the text where the answer begins
answers: boolean, default false; also returns where the template's generation blocks stand
tools: list, or JSON text; default none
documents: list, or JSON text; default none
template: string; the name of one of the folder's templates, or the text of a template
variables: table, default {}; further names that the template sees]],
    returns = "a string; with answers also a list of {first, last}, the positions of bytes of answers",
    errors = [[
the folder must have a template, unless template is given; an error of the template
names its file and line]],
    code = "t = rille.tokenizer.train({'aaab aaab'}, {size = 258})",
    shows = "t:chat({{role = 'user', content = 'Hi'}}, {template = '{{ messages[0].content }}!'})",
    gives = "Hi!",
    see = "tokenizer.encode model.generate",
    words = "apply_chat_template jinja instruct conversation",
  },
  ["tokenizer.decode"] = {
    sign = "t:decode(ids, {skip_special_tokens = false})",
    text = "Turns token ids into text.",
    args = [[
ids: list of integers, or tensor
skip_special_tokens: boolean, default false]],
    returns = "a string",
    errors = [[
an id must be from 0 to t.size - 1, and have a token;
ids must be a list of integers or an i64 tensor]],
    code = "t = rille.tokenizer.train({'aaab aaab'}, {size = 258})",
    shows = "t:decode(t:encode('ab'))",
    gives = "ab",
    see = "tokenizer.encode",
  },
  ["tokenizer.encode"] = {
    sign = "t:encode(text, {add_special_tokens = false})",
    text = "Turns text into token ids.",
    args = [[
text: string; any bytes
add_special_tokens: boolean, default false; adds the special tokens of the file's template]],
    returns = "a list of integers",
    errors = "text must be a string of at most 2 GiB; add_special_tokens must be a boolean",
    code = "t = rille.tokenizer.train({'aaab aaab'}, {size = 258})",
    shows = "#t:encode('b')",
    gives = "1",
    see = "tokenizer.decode",
    words = "tokenize",
  },
  ["tokenizer.save"] = {
    sign = "t:save(path)",
    text = "Writes byte-level BPE as a tokenizer.json file, another tokenizer as the file that was read.",
    args = "path: string",
    returns = "nothing",
    errors = "path must be writable, and end in .json or like the file that was read; tokens must be such that JSON can hold them",
    code = [[
t = rille.tokenizer.train({'aaab aaab'}, {size = 258})
path = os.tmpname()
t:save(path)]],
    shows = "os.remove(path)",
    gives = "true",
    see = "tokenizer",
  },
  ["tokenizer.size"] = {
    sign = "t.size",
    text = "Is the number of ids, special tokens included.",
    returns = "an integer",
    errors = "the field is read-only",
    code = "t = rille.tokenizer.train({'aaab aaab'}, {size = 258})",
    shows = "t.size",
    gives = "258",
    see = "tokenizer",
    words = "vocabulary",
  },
  ["tokenizer.train"] = {
    is = "tokenizer",
    sign = "rille.tokenizer.train(texts, {size =, special = {}, pattern =})",
    text = "Learns a byte-level BPE tokenizer from texts.",
    args = [[
texts: list of strings, or of {file = path}
size: integer; number of ids
special: list of special tokens, default {}
pattern: string; regular expression that splits words, default GPT-2's]],
    returns = "a tokenizer",
    errors = [[
texts must be a list of strings or {file = path};
size must be at least 256 + #special, at most 2^24]],
    code = "t = rille.tokenizer.train({'aaab aaab'}, {size = 258})",
    shows = "t.size",
    gives = "258",
    see = "tokenizer",
    words = "bpe",
  },
}
