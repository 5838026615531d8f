-- files.lua - tests of malformed files and options: the error must name the file or option, the wrong part, and
-- the value of that part.
local tap = dofile("t/lib/tap.lua")
local nn, T = rille.nn, rille.tensor
local dir = tap.folder()
local function write(name, s) return tap.write(dir .. "/" .. name, s) end

-- Checks that fn raises an error of three parts: the user's line, the function's name, and the text `want`.
local function refused(fn, want, what)
  local good, why = pcall(fn)
  why = tostring(why)
  tap.ok(not good and why:sub(-#want) == want, ("%s: %s"):format(what, good and "no error" or why))
end

-- ---- ids of tokens ----

local small = rille.tokenizer.train({"abc abd hello hello world"}, {size = 262, special = {"<|end|>"}})
small:save(dir .. "/small.json")
local json = tap.read(dir .. "/small.json")
local function with_id(id, token)
  local text, n = json:gsub('"' .. (token or "a") .. '": %d+', ('"%s": %s'):format(token or "a", id))
  assert(n == 1)
  return write("x.json", text)
end
for id, want in pairs{["268.5"] = "the id of the token 'a' must be an integer, found 268.5", ['"7"'] = "the id of the token 'a' must be an integer, found \"7\"",
  null = "the id of the token 'a' must be an integer, found null", ["-3"] = "the token 'a' has id -3; with 261 tokens ids must be from 0 to 66580",
  ["3000000000"] = "the token 'a' has id 3000000000; with 261 tokens ids must be from 0 to 66580"} do
  refused(function() rille.tokenizer(with_id(id)) end, want, "the id of a token")
end
refused(function() rille.tokenizer(with_id(5)) end, "two tokens have id 5; one is 'a'", "the id of another token")
for from, want in pairs{['"id": 261'] = "the id of the token '<|end|>' must be an integer, found 1.5"} do
  refused(function() rille.tokenizer(write("y.json", (json:gsub(from, '"id": 1.5')))) end, want, "the id of a special token")
end
local holes = rille.tokenizer(with_id(300))
refused(function() holes:decode{97} end, "no token has id 97; this tokenizer has 262 tokens, with ids from 0 to 300 and gaps", "an id in a gap")
refused(function() small:decode{262} end, "no token has id 262; this tokenizer has 262 tokens, with ids from 0 to 261", "an id beyond the last")
local around = '"post_processor": {"type": "BertProcessing", "cls": ["a", 0.5], "sep": ["a", 1]}'
refused(function() rille.tokenizer(write("z.json", (json:gsub('"post_processor": null', around)))) end,
  "post_processor has id 0.5, which is not a token", "an invalid id in the template")
for what, o in pairs{["tokenizer.train: size must be at least 256 (256 bytes and 0 special tokens), found 3"] = {size = 3},
  ["tokenizer.train: the special token 'a' occurs twice"] = {size = 300, special = {"a", "a"}},
  ["tokenizer.train: the pattern does not compile: missing closing parenthesis, at byte 1 of the pattern"] = {size = 300, pattern = "("}} do
  local good, why = pcall(rille.tokenizer.train, {"abc"}, o)
  tap.is({good, why:gsub("^[^ ]*: ", "", 1)}, {false, what, 1}, "the error names the function once")
end

refused(function() rille.tokenizer.train({"aa", nil, "bb"}, {size = 260}) end, "expected a string or {file = path}, found nil", "a gap in the texts")
refused(function() rille.tokenizer.train("story.txt", {size = 260}) end, "expected a list of strings or files, found \"story.txt\"; write {file = path} for a file, or {string} to train on the string itself", "the name of a file")
refused(function() rille.tokenizer.train({}, {size = 260}) end, "expected a list of strings or files, found an empty one", "no texts")
refused(function() rille.tokenizer.train({"aa", x = "bb"}, {size = 260}) end, "the list of strings or files must have no key besides 1, 2, ..., found \"x\"", "a name in the texts")

-- ---- truncated files of one tensor ----

rille.save(dir .. "/a.npy", T{{1, 2, 3}, {4, 5, 6}})
local npy = tap.read(dir .. "/a.npy")
for _, n in ipairs{128, 130, #npy - 1} do
  for name, load in pairs{load_npy = rille.load_npy, load = rille.load} do
    refused(function() load(write("cut.npy", npy:sub(1, n))) end, ("/cut.npy: the tensor has 24 bytes from position 128 on, beyond the end at %d"):format(n), name)
  end
end

-- ---- wrong files as models ----

local one, none = dir .. "/small.json", dir .. "/none"
for kind, models in pairs{gpt2 = ", a .safetensors of such a folder or a .bin of llm.c", llama = ", or a .safetensors of such a folder"} do
  local load = rille.models[kind].load
  refused(function() load(one) end, ("models.%s.load: %s is a file; expected a folder with config.json and its safetensors%s"):format(kind, one, models), "a file")
  for _, path in ipairs{none, none .. ".safetensors"} do
    refused(function() load(path) end, ("models.%s.load: %s: No such file or directory"):format(kind, path), "nothing")
  end
end

local bare = dir .. "/bare"
os.execute(("mkdir '%s'"):format(bare))
for _, kind in ipairs{"gpt2", "llama", "moe"} do
  local load, path = rille.models[kind].load, bare .. "/config.json"
  for text, why in pairs{none = ": No such file or directory; expected a folder with config.json and its safetensors", [""] = ": line 1 is not JSON: unexpected token near end of file",
    ["{]"] = ": line 1 is not JSON: string or '}' expected near ']'", ["[1]"] = ": expected a JSON object, found an array",
    ["{}"] = (': model_type must be "%s", found nil'):format(kind), ['{"model_type":{"a":1}}'] = (': model_type must be "%s", found a table'):format(kind),
    ['{"model_type":null}'] = (': model_type must be "%s", found nil'):format(kind)} do
    os.remove(path)
    if text ~= "none" then write("bare/config.json", text) end
    refused(function() load(bare) end, ("models.%s.load: %s%s"):format(kind, path, why), "no config")
  end
end

-- Writes a single-file model into the folder of a sharded model, so that the folder has two models.
local both = dir .. "/both"
local model = rille.models.gpt2.new{vocab = 20, length = 16, layers = 1, heads = 2, width = 8}
model:save(both, {max_shard_size = "1KB"})
local shards = rille.load(both)
local newer = {}
for name, t in pairs(shards) do newer[name] = t + 1 end
rille.save(both .. "/model.safetensors", newer)
local two = both .. ": the folder has both model.safetensors and model.safetensors.index.json, perhaps of two models; name one of the files"
refused(function() rille.load(both) end, two, "a folder of two")
refused(function() rille.models.gpt2.load(both) end, two, "a folder of two models")
tap.is(rille.load(both .. "/model.safetensors")["wpe.weight"]:totable(), newer["wpe.weight"]:totable(), "the complete file is read by its name")
tap.is(rille.load(both .. "/model.safetensors.index.json")["wpe.weight"]:totable(), shards["wpe.weight"]:totable(), "the sharded file is read by its index")
tap.is(rille.models.gpt2.load(both .. "/model.safetensors").wpe.weight:totable(), newer["wpe.weight"]:totable(), "a model is read by the file's name")
model:save(both)
tap.is(rille.models.gpt2.load(both).wpe.weight:totable(), model.wpe.weight:totable(), "saving into the folder removes the ambiguity")

-- ---- JSON files as Lua values ----

for text, line in pairs{[""] = 1, ["\n\n{"] = 3, ["[1,\n2"] = 2, ["[1]\n[2]"] = 2, ['{"a": 1,\n "a": 2}'] = 2, ['\n"\255"'] = 2, ["[\n1\0]"] = 2,
  ["\n1e999"] = 2, ["\n{\"\\u0000\": 1}"] = 2, [("["):rep(2049)] = 1, ["[12345678901234567890,\n1,]"] = 2} do
  tap.fails(function() rille.json.load(write("v.json", text)) end,
    {"files.lua:", ("%s/v.json: line %d is not JSON: "):format(dir, line)}, ("%q"):format(text:sub(1, 30)))
end
do
  local whole, wrong = '{"large": 1000000000000000019884624838656, "rest": ' .. json .. "}", {}
  math.randomseed(tap.seed(3))
  local function try(text, cut)
    local good, why = pcall(rille.json.decode, text, "v.json")
    if good and cut or not good and not why:find("v.json: line %d+ is not JSON: ") then wrong[#wrong + 1] = tostring(why) end
  end
  for n = 0, #whole - 1, 11 do try(whole:sub(1, n), true) end
  for _ = 1, 1000 do
    local at = math.random(#whole)
    try(whole:sub(1, at - 1) .. string.char(math.random(0, 255)) .. whole:sub(at + 1))
  end
  tap.is(wrong, {}, "truncated JSON is refused; changed JSON is read or refused; each error names file and line")
end

-- ---- lists of numbers ----

for _, values in ipairs{{1, 2, dtype = "i64"}, {{1, 2}, {3, 4, dtype = "i64"}}, {{1, 2, dtype = "i64"}, {3, 4}}, {dtype = "i64"}, {1, 2, [5] = 3}} do
  local good, why = pcall(T, values)
  tap.ok(not good and why:find("options must be a second table", 1, true), "values mixed with options: " .. tostring(why))
end
do
  local grown = {}
  for i = 9, 1, -1 do grown[i] = i end
  for i = 10, 17 do grown[i] = i end
  tap.is(T(grown).shape, {17}, "a list filled in any order is accepted")
end

local p, q = rille.ones({2}, {requires_grad = true}), rille.ones{2}
for want, groups in pairs{["group 1: the list of parameters is empty; net:parameters() lists the fields of modules that are tensors with requires_grad"] = {{params = {}}, {params = {p}}}, ["group 2: the list of parameters is empty; net:parameters() lists the fields of modules that are tensors with requires_grad"] = {{params = {p}}, {params = {}}},
  ["group 1 must be {params = list, ...}, found a table without params"] = {{p}},
  ["the list of parameters is empty; net:parameters() lists the fields of modules that are tensors with requires_grad"] = {}, ["entry 2 of the list of parameters is nil"] = {p, nil, rille.ones({2}, {requires_grad = true})},
  ["entry 2 of the list of parameters is nil "] = {{params = {p}}, nil, {params = {q}}}, ["the list of parameters must have no key besides 1, 2, ..., found \"params\""] = {params = {p}},
  ["group 1: entry 1 of the list of parameters is nil"] = {{params = {nil, p}}}, ["the list of parameters must have no key besides 1, 2, ..., found \"w\""] = {w = p}} do
  want = want:gsub(" $", "")
  refused(function() rille.optim.SGD(groups, {lr = 1}) end, "optim.SGD: " .. want, "groups")
end
refused(function() rille.optim.SGD(nn.Linear(1, 1)) end, "optim.SGD: expected a list of parameters, found an nn.Linear; pass its parameters: net:parameters()", "a module")
refused(function() rille.optim.Adam({p}, {betas = {0.9}}) end, "optim.Adam: betas must be a list of two numbers, found {0.9}", "one beta")
refused(function() rille.checkpoint.load(dir, nn.Linear(1, 1)) end, "expected a table {model =, optimizer =, data =}, found an nn.Linear; write {model = ...}", "a module as parts")
refused(function() rille.checkpoint.save(dir, rille.optim.SGD({p})) end, "found an optim.SGD; write {optimizer = ...}", "an optimizer as parts")
refused(function() rille.checkpoint.load(nn.Linear(1, 1), dir) end, "expected the name of a folder, found an nn.Linear", "swapped arguments")
refused(function() rille.checkpoint.save(dir, {model = rille.optim.SGD({p})}) end, "model must be a module, found an optim.SGD", "an optimizer as model")
refused(function() rille.optim.clip_grad_norm({p, nil, p}, 1) end, "optim.clip_grad_norm: entry 2 of the list of parameters is nil", "a gap")
local function adam(n) return rille.optim.AdamW(tap.list(n, function() return rille.ones({2}, {requires_grad = true}) end)) end
refused(function() adam(1):load_state_dict(adam(2):state_dict()) end, "optim.AdamW:load_state_dict: '1.m' is not state of the 1 parameters here", "a state of more")
refused(function() rille.optim.SGD({p}, {lr = 1}):load_state_dict(adam(1):state_dict()) end,
  "optim.SGD:load_state_dict: '0.m' is not state of the 1 parameters here", "a state of another kind")
local g = rille.models.gpt2.new{vocab = 20, length = 16, layers = 2, heads = 2, width = 8}
for want, stages in pairs{["stages[1] must be a placement, found 1"] = {1}, ["stages[2] must be a placement, found \"x\""] = {rille.placement("cpu", {0}), "x"}} do
  refused(function() rille.parallel(g, {stages = stages}) end, "parallel: " .. want, "stages")
end

-- ---- random values of wrong dtypes ----

for _, dtype in ipairs{"i32", "i64", "u8", "bool"} do
  for _, name in ipairs{"rand", "randn"} do
    refused(function() rille[name]({4}, {dtype = dtype}) end, ("%s: dtype must be float, found %s"):format(name, dtype), "integers between 0 and 1")
  end
  refused(function() nn.init.uniform_(rille.zeros({4}, {dtype = dtype})) end, "nn.init.uniform_: expected a tensor of a float dtype, found " .. dtype, "an initialiser of integers")
end
refused(function() rille.randint(250, 260, {4}, {dtype = "u8"}) end, "randint: 259 does not fit in u8, which holds all integers from 0 to 255", "integers above the dtype's range")
refused(function() rille.randint(-1, 2, {4}, {dtype = "u8"}) end, "randint: -1 does not fit in u8, which holds all integers from 0 to 255", "integers below the dtype's range")
tap.ok(rille.randint(0, 256, {4}, {dtype = "u8"}):numel() == 4, "randint accepts the full range of u8")
for dtype, most in pairs{bool = 1, bf16 = 256, f16 = 2048, f32 = 1 << 24, f64 = 1 << 53} do
  local least = dtype == "bool" and 0 or -most
  local ends = ("%s, which holds all integers from %d to %d"):format(dtype, least, most)
  refused(function() rille.randint(0, most + 2, {4}, {dtype = dtype}) end, ("randint: %d does not fit in %s"):format(most + 1, ends), "an upper limit that the dtype cannot represent")
  refused(function() rille.randint(least - 1, 1, {4}, {dtype = dtype}) end, ("randint: %d does not fit in %s"):format(least - 1, ends), "a lower limit that the dtype cannot represent")
  rille.manual_seed(3)
  local x, lo = rille.randint(most - 1, most + 1, {64}, {dtype = dtype}):to"f64", most - 1
  tap.ok(x:min():item() == lo and x:max():item() == most, dtype .. ": the largest integers are drawn")
  tap.ok(rille.randint(least, most + 1, {64}, {dtype = dtype}):to"f64":abs():max():item() <= most, "randint accepts the full range of exact integers")
end
refused(function() nn.init.uniform_(rille.zeros{4}, 2, 1) end, "nn.init.uniform_: expected two numbers, the smaller first, found 2 and 1", "a reversed range")
refused(function() nn.init.normal_(rille.zeros{4}, "a") end, "nn.init.normal_: mean must be a number, found \"a\"", "a mean that is no number")

-- ---- a tokenizer for data.text ----

tap.is(rille.data.text(write("t.txt", "abc<|end|>"), {tokenizer = small}):totable(), small:encode("abc<|end|>"), "data.text encodes a file with a tokenizer")
for _, value in ipairs{3, "a", {}, T{1}, false} do
  tap.fails(function() rille.data.text(dir .. "/t.txt", {tokenizer = value}) end, {"tokenizer must be a rille.tokenizer"}, "a value that is no tokenizer")
end
refused(function() small:save(dir .. "/a.tiktoken") end, "/a.tiktoken: the name of a saved tokenizer must end in .json", "a file name of another format")

-- ---- options of layers ----

for _, row in ipairs{{nn.Linear, {2, 2, {bias = 0}}, "bias must be true or false, found 0"}, {nn.SwiGLU, {2, 2, {bias = "no"}}, "bias must be true or false, found \"no\""},
  {nn.Conv2d, {2, 2, 1, {bias = 0}}, "bias must be true or false, found 0"}, {nn.LayerNorm, {2, {bias = "no"}}, "bias must be true or false, found \"no\""},
  {nn.MultiheadAttention, {2, 1, {is_causal = 0}}, "is_causal must be true or false, found 0"}, {nn.TransformerBlock, {2, 1, {is_causal = 0}}, "is_causal must be true or false, found 0"},
  {nn.Conv2d, {2, 2, {1, 2, 3}}, "kernel_size must be a positive integer or {height, width}, found {1, 2, 3}"}, {nn.LayerNorm, {{}}, "expected the sizes of the last axes, at least one, found none"},
  {nn.RMSNorm, {{}}, "expected the sizes of the last axes, at least one, found none"}, {nn.LayerNorm, {}, "expected the sizes of the last axes, at least one, found none"},
  {nn.BatchNorm2d, {2, {momentum = 2}}, "momentum must be a number from 0 to 1, found 2"}, {nn.BatchNorm2d, {2, {momentum = "a"}}, "momentum must be a number from 0 to 1, found \"a\""},
  {nn.init.normal_, {T{1}, 0, -1}, "std must be a number of at least 0, found -1"}} do
  refused(function() row[1](table.unpack(row[2])) end, row[3], "a layer")
end
refused(function() nn.Linear(1, 1):load_state_dict{weight = T{{1}}, bias = 3} end, "nn.Linear:load_state_dict: 'bias' must be a tensor in the loaded state, found 3", "a number for a tensor")

tap.done()
