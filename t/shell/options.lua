-- Tests that every public function with options rejects a misspelt option by name.
local tap = dofile("t/lib/tap.lua")
local pages = require "rille.pages"
local nn, optim, data = rille.nn, rille.optim, rille.data

local x = rille.ones{2, 2}
local function with(t, o)
  for key, value in pairs(o) do t[key] = value end
  return t
end
local function graph() return rille.graph(function(y) return y end) end
local function called()
  local step = graph()
  step(x)
  return step
end
local ids = rille.zeros({1, 4}, {dtype = "i64"})
local sizes = {vocab = 8, length = 4, layers = 1, heads = 1, width = 4}
local net, dir = nn.Linear(2, 2), os.tmpname()
local bert = {vocab = 8, length = 4, layers = 1, heads = 1, width = 4, kv_heads = 1, hidden = 4, eps = 1e-12, is_causal = false}

-- Functions by help page: each calls the page's function with a table of options.
local calls = {
  boxing = function(o) return rille.boxing(with({shape = {2}, dtype = "f32"}, o)) end,
  chunk = function(o) return x:chunk(2, 0, o) end, split = function(o) return x:split(1, 0, o) end,
  graph = function(o) return rille.graph(print, o) end, scan = function(o) return rille.scan(print, x, x, o) end, recover = function(o) return rille.recover(o) end,
  snapshot = function(o) return rille.snapshot(nil, o) end, stopping = function(o) return rille.stopping(o) end,
   plan = function(o) return rille.plan(x, o) end,
  dpo_loss = function(o) return rille.dpo_loss(x, x, x, x, o) end,
  linear_cross_entropy = function(o) return rille.linear_cross_entropy(rille.ones(2, 2), rille.ones(2, 2), ids:reshape{-1}:slice(0, 0, 2), o) end,
  ["nn.BlockEmbedding"] = function(o) return nn.BlockEmbedding(nn.Embedding(2, 32), o) end,
  ["nn.BlockLinear"] = function(o) return nn.BlockLinear(nn.Linear(32, 2), o) end,
  ["nn.LoRA"] = function(o) return nn.LoRA(nn.Linear(2, 2), o) end,
  ["models.lora"] = function(o) return rille.models.lora(rille.models.llama.new(sizes), o) end,
  ["data.chats"] = function(o)
    return data.chats({{prompt = "a", completion = "b"}}, with({tokenizer = rille.tokenizer.train({"a b"}, {size = 257}), length = 4}, o))
  end,
  ["nn.Module.load"] = function(o)
    rille.save(dir .. ".safetensors", net)
    return net:load(dir .. ".safetensors", o)
  end,
  ["nn.Module.load_state_dict"] = function(o) return net:load_state_dict(net:state_dict(), o) end,
  whatif = function(o) return rille.whatif(called(), with({mesh = {2}}, o)) end,
  ["nn.AvgPool2d"] = function(o) return nn.AvgPool2d(2, o) end, ["nn.MaxPool2d"] = function(o) return nn.MaxPool2d(2, o) end,
  ["nn.BatchNorm1d"] = function(o) return nn.BatchNorm1d(2, o) end, ["nn.Conv1d"] = function(o) return nn.Conv1d(2, 2, 1, o) end,
  ["nn.GroupNorm"] = function(o) return nn.GroupNorm(1, 2, o) end,
  ["nn.BatchNorm2d"] = function(o) return nn.BatchNorm2d(2, o) end, ["nn.Conv2d"] = function(o) return nn.Conv2d(2, 2, 1, o) end,
  ["nn.CrossEntropyLoss"] = nn.CrossEntropyLoss, ["nn.Embedding"] = function(o) return nn.Embedding(2, 2, o) end, ["nn.GELU"] = nn.GELU,
  ["nn.LayerNorm"] = function(o) return nn.LayerNorm(2, o) end, ["nn.Linear"] = function(o) return nn.Linear(2, 2, o) end,
  ["nn.MSELoss"] = nn.MSELoss, ["nn.MixtureOfExperts"] = function(o) return nn.MixtureOfExperts(2, 2, 2, o) end,
  ["nn.MultiheadAttention"] = function(o) return nn.MultiheadAttention(4, 2, o) end, ["nn.RMSNorm"] = function(o) return nn.RMSNorm(2, o) end,
  ["nn.Rotary"] = function(o) return nn.Rotary(4, 4, o) end, ["nn.SwiGLU"] = function(o) return nn.SwiGLU(2, 2, o) end,
  ["nn.LSTM"] = function(o) return nn.LSTM(2, 2, o) end, ["nn.LSTMCell"] = function(o) return nn.LSTMCell(2, 2, o) end,
  ["nn.GRU"] = function(o) return nn.GRU(2, 2, o) end, ["nn.GRUCell"] = function(o) return nn.GRUCell(2, 2, o) end,
  ["nn.RNN"] = function(o) return nn.RNN(2, 2, o) end, ["nn.RNNCell"] = function(o) return nn.RNNCell(2, 2, o) end,
  ["nn.TransformerBlock"] = function(o) return nn.TransformerBlock(4, 2, o) end,
  ["nn.rotary_tables"] = function(o) return nn.rotary_tables(4, 4, o) end,
  ["nn.Module.load"] = function(o) return net:load(dir .. ".m", o) end,
  ["nn.Module.load_state_dict"] = function(o) return net:load_state_dict(net:state_dict(), o) end,
  ["nn.Module.to_global"] = function(o) return net:to_global(o) end, to_global = function(o) return x:to_global(o) end,
  ["graph.chart"] = function(o) return called():chart(o) end, ["graph.show"] = function(o) return called():show(nil, o) end,
  ["graph.plan"] = function(o) return called():plan(o) end,
  ["tokenizer.decode"] = function(o) return rille.tokenizer.train({"a b"}, {size = 257}):decode({1}, o) end,
  ["tokenizer.encode"] = function(o) return rille.tokenizer.train({"a b"}, {size = 257}):encode("a", o) end,
  ["tokenizer.chat"] = function(o)
    o.template = o.template or "x"
    return rille.tokenizer.train({"a b"}, {size = 257}):chat({}, o)
  end,
  ["model.forward"] = function(o) return rille.models.gpt2.new(sizes)(ids, o) end,
  ["model.features"] = function(o) return rille.models.gpt2.new(sizes):features(ids, o) end,
  ["model.save"] = function(o) return rille.models.gpt2.new(sizes):save(dir .. ".d", o) end,
  ["model.embed"] = function(o) return require("rille.models.loading.kinds").of("bert").new(bert):embed(ids, o) end,
  ["model.generate"] = function(o) return rille.models.gpt2.new(sizes):generate(ids, o) end,
  ["model.scheduler"] = function(o) return rille.models.gpt2.new(sizes):scheduler(o) end,
  ["scheduler.add"] = function(o) return rille.models.gpt2.new(sizes):scheduler():add({1}, o) end,
  ["scheduler.generate"] = function(o) return rille.models.gpt2.new(sizes):scheduler():generate({{1}}, o) end,
  ["checkpoint.load"] = function(o) return rille.checkpoint.load(dir, o) end, ["checkpoint.save"] = function(o) return rille.checkpoint.save(dir, o) end,
  ["data.csv"] = function(o) return data.csv(dir, o) end, ["data.image"] = function(o) return data.image(dir, o) end, ["data.loader"] = function(o) return data.loader(with({x, batch = 1}, o)) end,
  ["data.text"] = function(o) return data.text(dir, o) end, ["data.tokens"] = function(o) return data.tokens({1, 2, 3}, with({batch = 1, length = 1}, o)) end,
  load = function(o) return rille.load(dir, o) end, load_npy = function(o) return rille.load_npy(dir, o) end,
  save = function(o) return rille.save(dir, x, o) end,
  ["models.gpt2"] = rille.models.gpt2.new, ["models.llama"] = rille.models.llama.new, ["models.moe"] = rille.models.moe.new,
  ["models.load"] = function(o)
    rille.models.llama.new(sizes):save(dir .. ".m")
    return rille.models.load(dir .. ".m", o)
  end,
  ["models.resnet"] = rille.models.resnet.new,
  backward = function(o) return rille.ones({1}, {requires_grad = true}):sum():backward(o) end,
  func = function(o) return rille.func(o) end, operator = function(o) return rille.operator(o) end, ["optim.class"] = optim.class,
  ["optimizer.add_param_group"] = function(o)
    return optim.SGD(net:parameters()):add_param_group(with({params = {rille.ones({1}, {requires_grad = true})}}, o))
  end,
  ["optim.Adam"] = function(o) return optim.Adam(net:parameters(), o) end, ["optim.AdamW"] = function(o) return optim.AdamW(net:parameters(), o) end,
  ["optim.SGD"] = function(o) return optim.SGD(net:parameters(), o) end, ["optim.constant"] = optim.constant, ["optim.cosine"] = optim.cosine,
  ["optim.linear"] = optim.linear, parallel = function(o) return rille.parallel(rille.models.gpt2.new(sizes), o) end,
  plot = function(o) return rille.plot(dir .. ".svg", {a = {1, 2}}, o) end, tokenizer = function(o) return rille.tokenizer(dir, o) end,
  ["tokenizer.train"] = function(o) return rille.tokenizer.train({"a"}, o) end,
  index_put_ = function(o) return rille.zeros({2}):index_put_({0}, 1, o) end,
  ["sbp.split"] = function(o) return rille.sbp.split(0, o) end,
  from_local = function(o) return rille.from_local({rille.ones(2)}, with({placement = rille.placement("cpu", {0}), sbp = "S(0)"}, o)) end,
  per_rank = function(o) return rille.per_rank(function(_, a) return a end, with({inputs = {"B"}, outputs = {"B"}}, o)) end,
  ["train.elastic"] = rille.train.elastic,
  ["train.exit_if_stopping"] = function(o) return rille.train.exit_if_stopping(nil, nil, o) end,
  ["train.progress"] = function(o) return rille.train.progress(with({total = 1}, o)) end,
  ["train.replicas"] = rille.train.replicas, ["train.resume"] = rille.train.resume,
}
for _, name in ipairs{"arange", "empty", "eye", "full", "linspace", "ones", "rand", "randint", "randn", "tensor", "zeros"} do
  local given = {arange = {3}, empty = {{2}}, eye = {2}, full = {{2}, 1}, linspace = {0, 1, 2}, ones = {{2}}, rand = {{2}},
    randint = {0, 2, {2}}, randn = {{2}}, tensor = {{1}}, zeros = {{2}}}
  calls[name] = function(o)
    local list = {table.unpack(given[name])}
    list[#list + 1] = o
    return rille[name](table.unpack(list))
  end
end

-- Pages whose functions have no options although the pages show braces: these contain lists, names that the user
-- chooses, or operands.
local none = {args = true}

local function has_options(name)
  for braces in pages.signature(name):gmatch("%b{}") do
    if braces:find("=") and not none[name] then return true end
  end
  return false
end

tap.group("options", function()
  for _, name in ipairs(pages.names()) do
    local operator = rille._operator(name)
    if operator and not pages.row(name).sign then
      local ok, message = pcall(rille[name], x, x, {no_such_option = 1})
      tap.ok(not ok, name .. " refuses an unknown option", message)
    elseif calls[name] or has_options(name) then
      tap.fails(function() return calls[name]{no_such_option = 1} end, {"no_such_option"}, name .. " names an unknown option in its error")
    end
  end
end)

local values = {4, -1, 0.5, "no such word", true, {}, {{}}, print, x, nn.ReLU()}

-- Tries wrong values of an option. Returns the errors that do not begin with a line of this file, each error once.
local function misplaced(call, option)
  local list, found = {}, {}
  for _, value in ipairs(values) do
    local good, why = pcall(call, {[option] = value})
    why = tostring(why)
    if not good and not why:find("^t/shell/options%.lua:%d+: ") and not found[why] then list[#list + 1], found[why] = why, true end
  end
  return table.concat(list, "\n")
end

tap.group("values", function()
  for _, name in ipairs(pages.names()) do
    local call = calls[name]
    for braces in (call and pages.signature(name) or ""):gmatch("%b{}") do
      for option in ("{" .. braces:sub(2, -2):gsub("%b{}", "")):gmatch("([%a_][%w_]*) =") do
        -- calls the function from a line of this file; pcall would call functions such as nn.GELU directly, without a
        -- line
        local from_here = function(o) local _ = call(o) end
        tap.is(misplaced(from_here, option), "", ("%s: an error of the option %s names the user's line"):format(name, option))
      end
    end
  end
end)

os.remove(dir)
os.remove(dir .. ".safetensors")
os.execute(("rm -rf '%s.m'"):format(dir))
tap.done()
