-- Tests of Tab completion and of hints after an open call.
local tap = dofile("t/lib/tap.lua")

local nn = rille.nn
Net = nn.Module:extend("Net")
function Net:init() self.fc1 = nn.Linear(2, 3) end
function Net:frobnicate(x) return x end

x, net, text, P = rille.ones({4, 2}), Net(), "text", rille.placement("cpu", {0})
list, optim = nn.Sequential(nn.Linear(2, 3), nn.ReLU()), rille.optim
opt = optim.SGD(net:parameters(), {lr = 0.1})
step = rille.graph(function(a) return a end)
tree = {branch = {leaf = 1, grow = print}, [2] = {two = 2}, ["a key"] = {inside = 1}}
trap = setmetatable({}, {__index = function() error("asked") end, __pairs = function() error("walked") end})
longname = 41

-- Columns: text before the cursor; its completions ("...": the test does not compare them).
local cases = {
  {"longn", "longname"}, {"local y = longn", "longname"}, {"whi", "while"}, {"print(longn", "longname"},
  {"rille.placem", "placement"}, {"rille.nn.Lin", "Linear"}, {"rille.sbp.", "broadcast partial partial_sum split"},
  {"nosuch", ""}, {"nosuch.x", ""}, {"tree.branch.", "grow leaf"}, {"tree.branch:", "grow"}, {"tree[2].", "two"},
  {"tree['a key'].", "inside"}, {"trap.", ""}, {"trap:", ""}, {"trap.a.b", ""}, {"text:upp", "upper"}, {"('a'):upp", "upper"},
  {"string.rep('a', 2):up", ""}, -- the result of a C function or a user's function is unknown
  -- tensors
  {"x:matm", "matmul"}, {"x.sh", "shape shards show"}, {"x:sh", "shards show"}, {"x:matmul", "matmul matmul_"}, {"x.is_", "is_leaf"},
  {"x[0]:matm", "matmul"}, {"x[{{0, 2}}]:matm", "matmul"}, {"rille.randn{2, 3}:matm", "matmul"}, {"x.grad:matm", "matmul"},
  {"rille.matmul(x, x):matm", "matmul"}, {"x:relu():exp():matm", "matmul"}, {"(x + x):matm", "matmul"}, {"net(x):matm", "matmul"},
  {"net.fc1(x):matm", "matmul"}, {"x:to_global{sbp = 'B'}:matm", "matmul"}, {"x:item():", ""}, {"x.placement.si", "size"}, {"P.", "device ranks shape show size"},
  -- modules and other objects
  {"net.fc1:para", "parameters"}, {"net:frob", "frobnicate"}, {"net.fc", "fc1"}, {"Net():frob", "frobnicate"}, {"list[1]:para", "parameters"},
  {"list[1].wei", "weight"}, {"rille.nn.Linear(2, 3):para", "parameters"}, {"opt:zer", "zero_grad"}, {"optim.SGD({}):zer", "zero_grad"},
  {"step:st", "stats"}, {"rille.graph(f):st", "stats"}, {"rille.tokenizer('x'):enc", "encode"}, {"rille.models.gpt2.new{}:gen", "generate"},
  -- options
  {"rille.softmax{", "axis = |strategy = "}, {"x:softmax{ax", "axis = "}, {"x:sum(0, {keep", "keepdim = "},
  {"rille.randn({2, 3}, {pl", "placement = "}, {"nn.Conv2d(1, 2, 3, {stride = 2, pad", "padding = "}, {"optim.AdamW(p, {w", "weight_decay = "},
  {"rille.graph(f, {mi", "micro_batches = "}, {"rille.models.gpt2.new{la", "layers = "}, {"net:to_global{", "placement = |sbp = "},
  {"rille.boxing{from = {pl", "placement = "}, {"x:softmax{axis = longn", "longname"}, {"unknown{longn", "longname"}, {"{longn", "longname"},
  -- strings
  {"rille.placement('c", "cpu cuda"}, {'rille.placement "me', "meta"}, {"x:to_global{placement = P, sbp = 'S", "S(0) S(1) S(2)"},
  {"x:to_global{sbp = {'B', 'P(", "P(max) P(min)"}, {"rille.ones({2}, {dtype = 'b", "bf16 bool"}, {"x:to('bf", "bf16"},
  {"x:gelu{approximate = '", "none tanh"}, {"x:cross_entropy(y, {reduction = 's", "sum"}, {"rille.sbp.partial('m", "max min"},
  {"rille.graph(f, {schedule = 'zb-h", "zb-h1 zb-h2"}, {"rille.load('t/lib/tap", "t/lib/tap.h t/lib/tap.lua t/lib/tap.py t/lib/tap.sh"}, {"dofile 't/lib/tap", "t/lib/tap.h t/lib/tap.lua t/lib/tap.py t/lib/tap.sh"},
  {"rille.load('examples/em", "examples/embed.c examples/embed.lua"}, {"rille.load('exampl", "examples/"}, {"'longn", ""}, {"[[longn", ""},
  -- commands and pages
  {":ti", "time"}, {":time x:matm", "matmul"}, {":explain net.fc", "fc1"}, {"?nn.Lin", "nn.Linear"}, {"?matm", "matmul"}, {":help matm", "matmul"},
  -- texts that do not end with the beginning of a name
  {"1 .. longn", "longname"}, {"a..longn", "longname"}, {"'abc' .. x.dty", "dtype"}, {"x:nosuch():", ""}, {"-- longn", ""}, {"::lab", ""}, {"x::", ""},
  {"x:", "..."}, {"", "..."}, {"}", "..."}, {")", "..."}, {"x[", "..."}, {"((((", "..."}, {"x:softmax(", "..."}, {"'\\'", ""}, {"\"a\\\\\" .. longn", "longname"},
}

tap.group("completion", function()
  for _, case in ipairs(cases) do
    local good, found, begin = pcall(rille._complete, case[1])
    local all = case[2]:find("|", 1, true) and table.concat(good and found or {}, "|") or table.concat(good and found or {}, " ")
    if case[2]:sub(-3) == " = " and not case[2]:find("|") then all = good and table.concat(found, "|") end
    if case[2] == "..." then tap.ok(good, case[1] .. " is no error", found)
    else tap.is(good and all or found, case[2], "'" .. case[1] .. "' may become " .. (case[2] ~= "" and case[2] or "nothing")) end
    local typed = good and case[1]:sub(begin + 1)
    for _, word in ipairs(good and found or {}) do
      if word:sub(1, #typed) ~= typed then tap.ok(false, word .. " does not go on with " .. typed) end
    end
  end
end)

tap.group("hints", function()
  local function hint(line) return (select(3, rille._complete(line))) end
  tap.is(hint("x:softmax("), "(axis = -1)", "a method call shows the remaining arguments")
  tap.is(hint("rille.softmax("), "(x, axis = -1)", "a function call shows all arguments")
  tap.is(hint("x:relu("), "()", "a method without further arguments shows ()")
  tap.is(hint("print(x:softmax(0, "), "(axis = -1)", "the hint is that of the innermost call")
  tap.is(hint("x:softmax(0)"), nil, "a closed call has no hint")
  tap.is(hint("rille.nn.Linear(2, "), "(in, out, {bias = true})", "a layer shows its arguments")
  -- Modules and tensors both have a method to_global. The hint must be that of the module's method.
  tap.is(hint("net.fc1:to_global{"), "{placement =, sbp =}", "a module's method shows its options")
  tap.is(hint("rille.graph("):sub(1, 5), "(fn, ", "the hint of rille.graph begins with its arguments")
  tap.is(hint("unknown(("), nil, "an unknown function has no hint")
end)

-- Types random texts and presses Tab: completion must not fail or hang.
tap.group("any text", function()
  local seed = tonumber(os.getenv("SEED")) or os.time()
  print("# SEED=" .. seed)
  math.randomseed(seed)
  local parts = {"x", "net", ".", ":", "(", ")", "{", "}", "[", "]", ",", "=", "'", '"', " ", "rille", "softmax", "1", "..", "--", "\n", "[[", "]]", "function",
    "end", "?", "trap", "sbp", "\\", "\255", "=="}
  local wrong
  for _ = 1, os.getenv("RILLE_LONG") and 100000 or 3000 do
    local line = tap.list(math.random(12), function() return parts[math.random(#parts)] end)
    line = table.concat(line)
    local good, why = pcall(rille._complete, line)
    wrong = wrong or not good and ("%q: %s"):format(line, why)
  end
  tap.ok(not wrong, "Tab is no error", wrong)
end)
tap.done()
