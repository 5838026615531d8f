-- Tests the help pages: every public name has a page, every example runs and prints the stated result, all pages have
-- the same form, and a search for users' words finds the right pages.
local tap = dofile("t/lib/tap.lua")
local pages = require "rille.pages"

tap.group("examples", function()
  for _, name in ipairs(pages.names()) do
    local row = pages.row(name)
    local env = setmetatable({}, {__index = _G})
    local run, why = load((row.code or "") .. "\nreturn " .. row.shows, "=" .. name, "t", env)
    local good, got = pcall(run or error, run and nil or why)
    if env.dir then os.execute("rm -rf '" .. env.dir .. "'") end -- deletes an example's folder of checkpoints
    tap.is(good and tostring(got) or got, row.gives, "?" .. name .. ": the example prints the stated result")
    tap.ok(rille.page(name):find(row.shows .. "   --> " .. row.gives, 1, true), "?" .. name .. " shows the example")
  end
end)

-- ---- the form of a page ----

-- Returns the names that are written before a ":" in the arguments of a page.
local function documented(row)
  local names = {}
  for line in ("\n" .. (row.args or "")):gmatch("\n([%w_., ]-): ") do
    for name in line:gmatch("[%w_]+") do names[name] = true end
  end
  return names
end

-- Returns the names of the positional parameters in a documented call: a and b for "f(a, b = 1, {c =})". A method may be
-- called on any variable.
local function positional(sign)
  local names, inside = {}, sign:match("[%w_]%((.-)%)")
  for name in (inside or ""):gsub("%b{}", ""):gsub("%b\"\"", ""):gsub("%b[]", ""):gmatch("[%a_][%w_]*") do
    if name ~= "nil" and name ~= "io" and name ~= "stderr" then names[#names + 1] = name end
  end
  return names
end

-- names in a call that are no parameters: objects, and values
local KNOWN = {x = true, y = true, ["true"] = true, ["false"] = true, Net = true}

-- Returns the faults in the form of a page, as one string.
local function faults(name)
  local row, wrong = pages.row(name), {}
  local function check(good, why) if not good then wrong[#wrong + 1] = why end end
  local first = row.text:match("[^\n]*")
  check(first:find("^%u") and first:find("[.:]$"), "the first line is no sentence")
  check(#first <= 120, "the first sentence is longer than 120 columns")
  local body = "\n" .. pages.body(name) .. "\n"
  local members = rille.page(name):match("\n  %?.*") or ""
  for line in (body .. members .. "\n"):gmatch("([^\n]*)\n") do check(utf8.len(line) <= 118, "long line: " .. line) end
  for _, title in ipairs{"returns", "errors"} do
    local _, n = body:gsub(("\n  %-14s %%S"):format(title), "")
    check(n == 1, ("'%s' occurs %d times"):format(title, n))
  end
  check(row.see, "no related page")
  if rille._operator(name) and not row.args then return table.concat(wrong, "; ") end
  local have = documented(row)
  for line, next_line in (row.args or ""):gmatch("([^\n]*)\n()") do
    -- true: the text of an argument continues on a line that was broken by hand
    local broken = row.args:sub(next_line, next_line) == " "
    check(not broken or utf8.len((line:gsub("^[%w_., ]-: ", ""))) <= 101, "this line folds: " .. line)
  end
  for braces in (row.options and "" or row.sign):gmatch("%b{}") do
    for option in ("{" .. braces:sub(2, -2):gsub("%b{}", "")):gmatch("([%a_][%w_]*) =") do check(have[option], "no line for the option " .. option) end
  end
  if row.sign:find("^rille%.") or row.sign:find(":[%w_]+%(") then
    for _, p in ipairs(positional(row.sign)) do check(have[p] or KNOWN[p], "no line for the argument " .. p) end
  end
  return table.concat(wrong, "; ")
end

tap.group("form", function()
  for _, name in ipairs(pages.names()) do
    tap.is(faults(name), "", "?" .. name .. " has a purpose, a line for each argument, the result, errors and related pages")
    for other in (pages.row(name).see or ""):gmatch("%S+") do
      tap.ok(pages.row(other) and other ~= name, ("?%s: see also ?%s exists"):format(name, other))
    end
  end
end)

-- ---- search for words ----

-- Questions of users, each with a page that must be among the first three results.
local asked = {
  ["pipeline"] = "parallel", ["pipelines"] = "graph", ["mesh"] = "placement", ["nan"] = "stats", ["loss"] = "cross_entropy",
  ["losses"] = "mse_loss", ["mask"] = "where", ["attention mask"] = "scaled_dot_product_attention", ["all-reduce"] = "boxing",
  ["allreduce"] = "to_global", ["device"] = "devices", ["gpu"] = "device_info", ["cuda"] = "device_info", ["dataloader"] = "data.loader",
  ["checkpoint"] = "checkpoint", ["learning rate"] = "optimizer.lr", ["scheduler"] = "optim.cosine", ["warmup"] = "optim.cosine",
  ["convolution"] = "conv2d", ["batch norm"] = "nn.BatchNorm2d", ["mixed precision"] = "autocast", ["fp16"] = "autocast",
  ["gradient accumulation"] = "graph", ["micro-batches"] = "graph", ["gradient clipping"] = "optim.clip_grad_norm",
  ["exploding gradients"] = "optim.clip_grad_norm", ["freeze"] = "requires_grad_", ["csv"] = "data.csv", ["dataset"] = "data",
  ["shuffle"] = "data.loader", ["save weights"] = "save", ["resume"] = "checkpoint.load", ["numpy"] = "load_npy",
  ["huggingface"] = "models", ["tokenize"] = "tokenizer.encode", ["random seed"] = "manual_seed", ["reproducible"] = "manual_seed",
  ["profiler"] = "graph.trace", ["slow"] = "graph.stats", ["timeline"] = "graph.show", ["memory"] = "devices", ["fsdp"] = "parallel",
  ["zero"] = "zero_", ["tensor parallel"] = "parallel", ["redistribute"] = "to_global", ["sharding"] = "sbp", ["replicate"] = "sbp",
  ["communication"] = "boxing", ["quantization"] = "nn.Int8Linear", ["rope"] = "rotary", ["transformer"] = "nn.TransformerBlock",
  ["mixture of experts"] = "nn.MixtureOfExperts", ["custom layer"] = "nn.Module", ["weight tying"] = "nn.tie", ["activation"] = "relu",
  ["inference"] = "nn.Module.eval", ["broadcast"] = "expand", ["concatenate"] = "concat", ["indexing"] = "index", ["histogram"] = "hist",
  ["workers"] = "workers", ["crash"] = "is_lost", ["predict cluster"] = "whatif", ["command line"] = "args", ["deadlock"] = "graph.actors",
  ["oom"] = "nn.Module.recompute", ["number of parameters"] = "nn.Module.parameters", ["float16"] = "to", ["fine-tune"] = "requires_grad_",
  ["dtensor"] = "sbp", ["slurm"] = "workers", ["text generation"] = "model.generate", ["anomaly"] = "detect_nan", ["einsum"] = "matmul",
  ["save a model"] = "model.save", ["normalize"] = "layer_norm", ["pooling"] = "max_pool2d", ["argparse"] = "args", ["greedy"] = "graph", ["dropout"] = "dropout",
}

-- Words that users of other programs search for, each with the page that must be the first result. If the words are a
-- topic of the guide, the answer must name the guide's chapter.
local first = {
  ["two machines"] = "workers", ["reduce memory"] = "nn.Module.recompute", dlpack = "load_npy", ["custom op"] = "operator",
  ["auto parallel"] = "graph", communication = "graph.explain", ema = "copy_", ["variable length"] = "graph", python = "save",
  ["confusion matrix"] = "argmax", ["c library"] = "load_operators", validation = "data.permutation",
  docker = "workers", p2p = "to_global", ["ctrl-c"] = "stopping", ["gradient checkpointing"] = "nn.Module.recompute", amp = "autocast",
  dataloader = "data.loader", ["batch size"] = "data.loader", vram = "nn.Module.recompute", nvlink = "to_global", tpu = "placement",
  ["class weights"] = "cross_entropy", ["data augmentation"] = "flip", ["train test split"] = "data.permutation",
  lstm = "nn.LSTM", onnx = "save", kubernetes = "workers", slurm = "workers", pandas = "data.csv", numpy = "load_npy",
  ["early stopping"] = "checkpoint.save", tensorboard = "plot", wandb = "plot", zero = "parallel", checkpointing = "nn.Module.recompute",
  dropout = "dropout", softmax = "softmax", mask = "masked_fill", ["mixed precision"] = "autocast", distributed = "parallel",
  cuda = "device_info", gpu = "device_info", csv = "data.csv", jupyter = "help", torchrun = "workers", fsdp = "parallel", ddp = "parallel",
  megatron = "parallel", lora = "models.lora", tokenizer = "tokenizer", gguf = "load", profiler = "graph.trace", trace = "graph.trace",
  oom = "nn.Module.recompute", ["loss function"] = "cross_entropy", ["activation function"] = "relu", ["nan loss"] = "detect_nan",
  ["what is sbp"] = "sbp", ["tensor to list"] = "totable", ["how do i save a model"] = "save", zeros_like = "zeros", isnan = "ne",
  offload = "graph", leak = "nn.Module.recompute", get_rank = "placement.size", GradScaler = "autocast", ["inference mode"] = "nn.Module.eval",
  int8 = "nn.Int8Linear", chat = "tokenizer.chat", ["multi-gpu"] = "parallel", png = "data.image",
}

-- Returns the name of a heading in links: "Watch a training" -> "watch-a-training".
local function anchor(heading) return (heading:lower():gsub("[^%w -]", ""):gsub(" ", "-")) end

-- Returns the anchors of a chapter's headings as a set; nil if there is no such chapter.
local function headings(chapter)
  local file <close> = io.open("docs/guide/" .. chapter)
  if not file then return nil end
  local set = {}
  for line in file:lines() do
    local heading = line:match("^#+ (.*)")
    if heading then set[anchor(heading)] = true end
  end
  return set
end

tap.group("topics", function()
  for word, page in pairs(first) do
    tap.is(pages.find(word) or pages.search(word)[1], page, ("?%s shows ?%s first"):format(word, page))
  end
  local topics, search = require "rille.pages.topics", require "rille.pages.search"
  for _, topic in ipairs(topics) do
    local words = topic.words:match("[^,]*")
    for name in topic.see:gmatch("%S+") do tap.ok(pages.row(name), ("the topic %s names the page %s, which exists"):format(words, name)) end
    local chapter, part = (topic.chapter or ""):match("^([^#]*)#?(.*)$")
    local set = chapter == "" and {} or headings(chapter)
    tap.ok(set and (part == "" or set[part]), ("the topic %s names the chapter %s, which exists"):format(words, topic.chapter))
    for phrase in topic.words:gmatch("[^,]+") do
      local found = false
      for _, other in ipairs(search.topics(topics, phrase)) do found = found or other == topic end
      tap.ok(found, ("?%s leads to the topic %s"):format(phrase, words))
    end
    local answer = pages.found(words)
    tap.ok(answer:find(topic.text:sub(1, 40), 1, true) and (not topic.chapter or answer:find("docs/guide/" .. topic.chapter, 1, true)),
      ("?%s answers with text and chapter"):format(words), answer)
  end
end)

-- Misspelt words, each with the words that the user meant.
local misspelt = {
  atention = "attention", convolusion = "convolution", dropot = "dropout", optimzer = "optimizer", tensorbord = "tensorboard",
  ["gradint cliping"] = "gradient cliping", ["learnig rate"] = "learning rate", sofmax = "softmax", transformr = "transformer",
  checkpointng = "checkpointing", embeddng = "embedding", pipline = "pipeline", quantizaton = "quantization",
}

tap.group("misspelt words", function()
  for question, meant in pairs(misspelt) do
    local found = pages.found(question)
    tap.is(found:match("[^\n]*"), ("no page has the words '%s'; pages on '%s'"):format(question, meant), ("?%s means ?%s"):format(question, meant))
    tap.is(found:gsub("^[^\n]*", ""), pages.found(meant):gsub("^[^\n]*", ""), ("?%s has the answer of ?%s"):format(question, meant))
  end
  for _, word in ipairs{"xyzzy", "nosuchthing", "qqqqq"} do tap.is(pages.found(word), nil, ("?%s finds nothing"):format(word)) end
end)

tap.group("search", function()
  for question, page in pairs(asked) do
    local found = pages.search(question)
    -- if the question is a page's name, this page is shown without a search
    local place = pages.find(question) == page and 1 or nil
    for i, name in ipairs(found) do place = place or name == page and i or nil end
    tap.ok(place and place <= 3, ("?%s: ?%s is among the first three"):format(question, page), table.concat(found, " "))
  end
  tap.ok(not table.concat(pages.search("rat"), " "):find("lr", 1, true), "words are compared whole: 'rat' is not in 'rate'")
  tap.is(table.concat(pages.search("shards"), " "), table.concat(pages.search("shard"), " "), "a plural finds what its singular finds")
  tap.is(#pages.search("xyzzy"), 0, "a word that no page has finds nothing")
  tap.ok(rille.page("learning rate"):find("\n  ?optimizer.lr ", 1, true), "a page of words lists pages")
end)

-- ---- pages of all public names ----

local public, missing = 0, {}
local function needs(page)
  public = public + 1
  if not pages.row(page) then missing[#missing + 1] = page end
end
local function count(prefix, t)
  for name in pairs(t) do
    if type(name) == "string" and name:sub(1, 1) ~= "_" then needs(prefix .. name) end
  end
end

-- Returns the names of a class and its base classes, up to nn.Module.
local function count_class(prefix, class)
  local skip = {init = true, forward = true, describe = true, start = true, kind = true, check_ids = true, parallel = true}
  for name in pairs(class) do
    if not skip[name] and name:sub(1, 1) ~= "_" then needs(prefix .. name) end
  end
end

local function methods_of(object)
  local meta = debug.getmetatable(object)
  return meta.__methods or type(meta.__index) == "table" and meta.__index or {}
end

local modules = {"checkpoint", "data", "io", "models", "nn", "optim", "parallel", "tokenizer", "train"}
local others = {"args", "autocast", "per_rank", "plot", "recover", "snapshot", "stopping"} -- modules that are loaded on first use

tap.group("names", function()
  for _, name in ipairs(modules) do count(name .. ".", rille[name]) needs(name) end
  for _, name in ipairs(others) do tap.ok(rille[name], name) end
  count("", rille)
  count("nn.init.", rille.nn.init)
  count("sbp.", rille.sbp)
  for name in pairs(debug.getmetatable(rille.ones(1)).__methods) do
    local base = name:gsub("_$", "") -- x:add_(y) is documented on the page of x:add(y)
    if name:sub(1, 1) ~= "_" then needs(pages.row(name) and name or base) end
  end
  for _, name in ipairs{"shape", "ndim", "dtype", "placement", "sbp", "device", "requires_grad", "grad", "name"} do
    needs("tensor." .. name)
  end

  count("nn.Module.", rille.nn.Module)
  for name, class in pairs(rille.nn) do
    if type(class) == "table" and class ~= rille.nn.Module and class ~= rille.nn.init then count_class("nn." .. name .. ".", class) end
  end
  local w = rille.nn.Parameter(rille.ones(2))
  count("optimizer.", methods_of(rille.optim.SGD({w})))
  count("graph.", methods_of(rille.graph(function(x) return x end)))
  count("loader.", methods_of(rille.data.loader{rille.ones(2), batch = 1}))
  count("loader.", methods_of(methods_of(rille.data.loader{rille.ones(2), batch = 1})))
  local model = rille.models.gpt2.new{vocab = 11, length = 8, layers = 1, heads = 2, width = 8}
  count_class("model.", getmetatable(getmetatable(model)).__index)
  count("progress.", methods_of(rille.train.progress{total = 1, file = io.tmpfile()}))
  count("replicas.", methods_of(rille.train.replicas{}))
  for _, name in ipairs{"device", "ranks", "shape", "size"} do needs("placement." .. name) end
  for _, name in ipairs{"encode", "decode", "chat", "save", "size"} do needs("tokenizer." .. name) end
  table.sort(missing)
  tap.is(table.concat(missing, " "), "", ("each of %d public names has a page"):format(public))
  tap.ok(public > 400, "there are more than 400 public names", public)
end)

tap.group("asking", function()
  tap.is(rille.page("Linear"), rille.page("rille.nn.Linear"), "the last part of a name is enough if it is unambiguous")
  tap.is(rille.page("net.fc1:parameters"), rille.page("nn.Module.parameters"), "a method after a variable is found")
  tap.is(rille.page("x:add_"), rille.page("add"), "an in-place operator is on the page of the operator")
  tap.ok(rille.page("nn"):find("?nn.Linear", 1, true), "a module's page lists its members")
  tap.ok(rille.page("/softmax"):find("?softmax", 1, true), "/word finds pages")
  tap.ok(rille.page("*norm*"):find("?nn.LayerNorm", 1, true), "a pattern with * finds names")
  tap.ok(not pcall(rille.page, "/xyzzy"), "a search without result is an error")
  tap.ok(not pcall(rille.page, "nn.Nothing"), "an unknown name is an error")
  tap.ok(not pcall(rille.page, ""), "an empty name is an error")
  tap.ok(pages.signature("softmax"):find("^softmax%(x, axis"), "an operator's signature is that of its record")
end)
tap.done()
