-- formats.lua - tests how rille.models.load finds a model: by the path of a folder or file, by a path with
-- "~", or by a name in the cache of Hugging Face's tools. Also tests folders with files of torch.save, and partial
-- loads.
local tap = dofile("t/lib/tap.lua")

local write_torch = dofile("t/lib/torch.lua")
local P2 = rille.placement("cpu", {0, 1})

local dir = tap.folder()
local sizes = {vocab = 31, length = 12, layers = 2, heads = 2, width = 16, hidden = 24}
local ids = rille.tensor({{3, 1, 4}}, {dtype = "i64"})
local m = rille.models.llama.new(sizes)
local want = m(ids):totable()
m:save(dir .. "/model")

-- Returns the output of a child that runs the code with these variables of the environment.
local function run(env, code) return (tap.run("-d cpu:1", code, ("cd '%s' && env %s"):format(dir, env)):gsub("%s+$", "")) end

tap.group("names of folders", function()
  local says = 'local m = rille.models.load(%q); print(m.config.width, m(rille.tensor({{3, 1, 4}}, {dtype = "i64"})):sum():item())'
  local width = run("HOME=/", says:format(dir .. "/model"))
  tap.ok(width:find("^16"), "a folder is loaded by its path")
  tap.is(run("HOME='" .. dir .. "'", says:format("~/model")), width, "~ stands for the home folder")
  tap.is(run("HOME='" .. dir .. "'", says:format("~/model/model.safetensors")), width, "~ is expanded in names of files")
  local cache = dir .. "/cache/models--org--tiny.1"
  os.execute(("mkdir -p '%s/refs' '%s/snapshots' && printf abc > '%s/refs/main' && ln -s '%s/model' '%s/snapshots/abc'"):format(cache, cache, cache, dir, cache))
  tap.is(run("HF_HUB_CACHE='" .. dir .. "/cache'", says:format("org/tiny.1")), width, "a model's name is found in HF_HUB_CACHE")
  tap.is(run("HF_HUB_CACHE='" .. dir .. "/cache'", says:format("org/tiny.1/model.safetensors")), width, "and a file of it")
  os.execute(("mkdir -p '%s/.cache/huggingface' && ln -s '%s/cache' '%s/.cache/huggingface/hub'"):format(dir, dir, dir))
  tap.is(run("-u HF_HUB_CACHE -u HF_HOME -u XDG_CACHE_HOME HOME='" .. dir .. "'", says:format("org/tiny.1")), width, "and in ~/.cache")
  tap.is(run("-u HF_HUB_CACHE HF_HOME='" .. dir .. "/.cache/huggingface'", says:format("org/tiny.1")), width, "and in HF_HOME")
  tap.ok(run("HF_HUB_CACHE='" .. dir .. "/cache'", says:format("org/other")):find("org/other.*No such file"), "an unknown model is no file")
  os.execute(("mkdir -p '%s/org' && ln -s '%s/model' '%s/org/tiny.1'"):format(dir, dir, dir))
  tap.is(run("HF_HUB_CACHE=/nowhere", says:format("org/tiny.1")), width, "a folder of this name is preferred")
  tap.is(run("HOME='" .. dir .. "'", 'rille.save("~/x.safetensors", {a = rille.ones{2}}); print(#rille.load("' .. dir .. '/x.safetensors").a)'), "2",
    "~ is expanded when files are saved")
end)

tap.group("partial loads", function()
  local t = rille.load(dir .. "/model/model.safetensors")
  local function save(change)
    local changed = tap.with(t)
    change(changed)
    rille.save(dir .. "/model", changed, {max_shard_size = "1GB"})
  end
  local function load() return rille.models.load(dir .. "/model", {strict = false}) end
  save(function(c) c["lm_head.weight"], c["score.weight"] = nil, rille.ones{2, 16} end)
  tap.fails(function() rille.models.load(dir .. "/model") end, {"'lm_head.weight' is missing", "'score.weight' is not a tensor of llama"}, "by default all names must fit")
  local part, report = load()
  tap.is({report.missing, report.unexpected}, {{"lm_head.weight"}, {"score.weight"}}, "strict = false returns the names")
  tap.is(part:features(ids):totable(), m:features(ids):totable(), "the other parameters are loaded")
  tap.ok(part.lm_head.weight:var():item() > 1e-5, "a missing parameter is initialised")
  save(function(c)
    for name, x in pairs(t) do
      c[name] = nil
      if name:find("^model%.") then c[name:sub(7)] = x end
    end
  end)
  part, report = load()
  tap.is({report.missing, report.unexpected}, {{"lm_head.weight"}, {}}, "a base model has names without a prefix, and no head")
  tap.is(part:features(ids):totable(), m:features(ids):totable(), "its parameters are loaded")
  save(function(c) c["model.norm.weight"] = rille.ones{3} end)
  tap.fails(load, {"'norm.weight' is {16} here, {3} in the file"}, "shapes must fit")
  save(function() end)
  local good, none = load()
  tap.is({good(ids):totable(), none}, {want, {missing = {}, unexpected = {}}}, "a complete file has an empty report")
  tap.is(select("#", rille.models.load(dir .. "/model")), 1, "a strict load returns the model alone")
end)

tap.group("modules", function()
  local net = rille.nn.Sequential(rille.nn.Linear(3, 4), rille.nn.Linear(4, 2))
  local function both(state) return select(2, net:load_state_dict(state, {strict = false})) end
  tap.is(both{["0.weight"] = rille.ones{4, 3}, other = rille.ones{1}}, {missing = {"0.bias", "1.weight", "1.bias"}, unexpected = {"other"}},
    "load_state_dict returns names in their order")
  tap.is(net:parameters()[1]:sum():item(), 12, "a partial state is loaded")
  tap.fails(function() both{["0.weight"] = rille.ones{3}} end, {"'0.weight' is {4, 3} here, {3} in the loaded state"}, "shapes must fit")
  rille.save(dir .. "/part.safetensors", {["1.bias"] = rille.ones{2}})
  local _, report = net:load(dir .. "/part.safetensors", {strict = false})
  tap.is(report.missing, {"0.weight", "0.bias", "1.weight"}, "a partial file is loaded")
  tap.fails(function() net:load(dir .. "/part.safetensors") end, {"'0.weight' is missing"}, "by default all names must fit")
  tap.fails(function() net:load(dir .. "/part.safetensors", {strict = 0}) end, {"strict must be true or false"}, "strict is a boolean")
end)

tap.group("files of torch.save", function()
  local t = rille.load("t/golden/state.pt")
  tap.is({t.x:totable(), t.turned:totable(), t.small:totable(), t.half:totable(), t["inner.list.0"]:totable()},
    {{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}}, {{0, 4, 8}, {1, 5, 9}, {2, 6, 10}, {3, 7, 11}}, {-1, 2}, {{4, 5, 6, 7}, {8, 9, 10, 11}}, {0, 1, 2, 3}},
    "values, transposed values, and values in lists are read")
  tap.is({t.small.dtype, t.half.dtype, t.turned.dtype}, {"i32", "bf16", "f32"}, "dtypes")
  local contents, says = rille.io.contents("t/golden/state.pt")
  tap.is({contents[3].name, contents[3].dtype, contents[3].stored, says.epoch}, {"small", "i32", "I8", "3"}, "contents lists dtypes and numbers")
  tap.is(rille.load("t/golden/state.pt", {placement = P2, sbp = function(name) return name == "turned" and "S(0)" or "B" end}).turned:to_global(
    {placement = P2, sbp = "B"}):totable(), t.turned:totable(), "shards of a transposed value are read")
  tap.fails(function() rille.load(dir .. "/model/config.json", {}) end, {"unknown format", ".pt, .pth or .bin"}, "an unknown format")
end)

tap.group("folders with files of torch.save", function()
  local at, t, halves = dir .. "/torch", rille.load(dir .. "/model/model.safetensors"), {{}, {}}
  local one, index = at .. "/pytorch_model.bin", {weight_map = {}}
  os.execute(("mkdir '%s' && cp '%s/model/config.json' '%s'"):format(at, dir, at))
  write_torch(one, t)
  tap.is(rille.models.load(at)(ids):totable(), want, "one file")
  tap.is(rille.models.load(one)(ids):totable(), want, "the name of the file")
  tap.is(rille.models.llama.load(one, {placement = P2, parallel = {tensor = 0}})(ids:to_global{placement = P2, sbp = "B"}).shape, {1, 3, 31},
    "ranks read their shards")
  for name, x in tap.sorted(t) do
    local k = #name % 2 + 1
    halves[k][name], index.weight_map[name] = x, ("pytorch_model-0000%d-of-00002.bin"):format(k)
  end
  for k = 1, 2 do write_torch(("%s/pytorch_model-0000%d-of-00002.bin"):format(at, k), halves[k]) end
  os.remove(one)
  do
    tap.write(one .. ".index.json", require("rille.json").encode(index))
  end
  tap.is(rille.models.load(at)(ids):totable(), want, "shards with an index")
  tap.is(#rille.io.contents(one .. ".index.json"), #rille.io.contents(dir .. "/model"), "contents lists an index")
  os.execute(("cp '%s/model/model.safetensors' '%s'"):format(dir, at))
  os.execute(("rm '%s'/pytorch_model-*.bin"):format(at))
  tap.is(rille.models.load(at)(ids):totable(), want, "safetensors are preferred")
end)

tap.done()
