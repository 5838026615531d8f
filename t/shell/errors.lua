-- Tests of error messages: each must name the mistake, and the user's line exactly once.
local tap = dofile("t/lib/tap.lua")
local T = rille.tensor
local P0, P1 = rille.placement("cpu", {0, 1}), rille.placement("cpu", {2, 3})
local a, b = rille.ones({4, 5}), rille.ones({6, 8})

-- Checks the error of function f, which must be written on one source line. The error must contain the texts in
-- `words`. It must begin with the number of that line, and must not contain the number a second time.
local function fails(words, f)
  local line = debug.getinfo(f, "S").linedefined
  local good, err = pcall(f)
  if good then return tap.ok(false, table.concat(words, ", ") .. " on line " .. line .. " is an error") end
  err = tostring(err)
  local place = "errors%.lua:" .. line .. ":"
  local _, times = err:gsub(place, "")
  local missing
  for _, word in ipairs(words) do if not err:find(word, 1, true) then missing = word end end
  tap.ok(times == 1 and err:find("^[^:]*" .. place) and not missing, err:gsub("\n", " "),
    missing and "without " .. missing or "the line is named " .. times .. " times")
end

tap.group("operators", function()
  fails({"matmul", "{4, 5}", "{6, 8}"}, function() return a:matmul(b) end)
  fails({"add", "{4, 5}"}, function() return a + b end)
  fails({"softmax", "'axes'", "axis", "x is f32{4, 5} B on cpu[0]"}, function() return a:softmax{axes = 1} end)
  fails({"softmax", "axis", "integer", "last"}, function() return a:softmax("last") end)
  fails({"softmax", "axis", "integer"}, function() return a:softmax(0.5) end)
  fails({"softmax", "axis", "twice"}, function() return a:softmax(1, {axis = 1}) end)
  fails({"sum", "keepdim", "true or false"}, function() return a:sum{keepdim = 1} end)
  fails({"reshape", "shape", "integers"}, function() return a:reshape{2, "ten"} end)
  fails({"relu", "too many"}, function() return a:relu(b) end)
  fails({"relu", "too many"}, function() return a:relu(1) end)
  fails({"relu", "unknown argument"}, function() return a:relu{slope = 1} end)
  fails({"matmul", "tensor", "b", "found \"b\""}, function() return rille.matmul(a, "b") end)
  fails({"matmul", "nil"}, function() return rille.matmul(a, nil, 1) end)
  fails({"matmul"}, function() return rille.matmul(a) end)
  fails({"matmul", "a file"}, function() return rille.matmul(a, io.stdout) end)
  fails({"concat", "entry 2", "found 5"}, function() return rille.concat({a, 5}, 0) end)
  fails({"concat", "another float dtype; found i64", "f32{4, 5}"}, function() return rille.concat({a, a}, {dtype = "i64"}) end)
  fails({"lt"}, function() return a < b end)
  fails({"lt"}, function() return a <= b end)
  fails({"add_"}, function() return rille.ones({2}).add_(5) end)
  fails({": to: ", "f99", "bf16"}, function() return a:to("f99") end)
end)

tap.group("gradients", function()
  fails({"backward: retain_graph must be true or false, found 1"}, function() rille.ones({1}, {requires_grad = true}):sum():backward{retain_graph = 1} end)
  fails({"backward: expected no argument, or {retain_graph = true}, found 5"}, function() rille.ones({1}, {requires_grad = true}):sum():backward(5) end)
  fails({"no_grad", "found 5"}, function() rille.no_grad(5) end)
  fails({"no_grad", "found nil"}, function() rille.no_grad() end)
  fails({": grad: ", "f32{4, 5}", "f32{3}"}, function() a.grad = rille.ones({3}) end)
  tap.is(rille.no_grad(setmetatable({}, {__call = function(_, x) return x + 1 end}), 2), 3, "a callable table is accepted as a function")
end)

tap.group("names", function()
  fails({"shpae"}, function() return a.shpae end)
  fails({"shape"}, function() a.shape = {1} end)
  fails({"'colour'"}, function() a.colour = 1 end)
  fails({"requires_grad"}, function() a.requires_grad = 1 end)
  fails({"nosuch"}, function() return rille.nosuch end)
  fails({"nosuch"}, function() return P0.nosuch end)
  fails({"'matmull'", "nearest name is 'matmul'"}, function() return rille.matmull end)
  fails({"'totabel'", "nearest name is 'totable'"}, function() return a:totabel() end)
  fails({"'sgape'", "nearest name is 'shape'"}, function() return a.sgape end)
  fails({"rille.nn has no 'Linaer'", "nearest name is 'Linear'", "it has: AvgPool2d, "}, function() return rille.nn.Linaer(1, 2) end)
  fails({"rille.nn has no 'zzzzzzzz'; it has: AvgPool2d, "}, function() return rille.nn.zzzzzzzz end)
  fails({"rille.nn has no '1'"}, function() return rille.nn[1] end)
  fails({"rille.optim has no 'Adamw'", "nearest name is 'AdamW'", "SGD"}, function() return rille.optim.Adamw end)
  fails({"rille.data has no 'loaders'", "'loader'"}, function() return rille.data.loaders end)
  fails({"rille.train has no 'line'", "progress"}, function() return rille.train.line end)
  fails({"rille.io has no 'gguf'", "llmc"}, function() return rille.io.gguf end)
  fails({"rille has no '" .. ("x"):rep(300)}, function() return rille[("x"):rep(300)] end)
end)

tap.group("positions", function()
  fails({"4", "axis 0", "count from 0", "x is f32{4, 5} B on cpu[0]"}, function() return a[4] end)
  fails({"-5", "axis 0"}, function() return a[-5] end)
  fails({"5", "axis 1"}, function() return a[{0, 5}] end)
  fails({"one per dimension"}, function() return a[{0, 0, 0}] end)
  fails({"integer"}, function() return a[0.5] end)
  fails({"step"}, function() return a[{{0, 4, 0}}] end)
  fails({"range"}, function() return a[{{0, 1, 1, 1}}] end)
  fails({"found true"}, function() return a[true] end)
  fails({"no dimensions"}, function() return #T(1) end)
  fails({"assign to a copy", "for x[0][1] = v, write x[{0, 1}] = v"}, function() a[0][1] = 5 end)
  fails({"3 entries", "axis 1"}, function() a[0] = T({1, 2, 3}) end)
  fails({"dimensions"}, function() a[0] = a end)
  fails({"found \"zero\""}, function() a[0] = "zero" end)
  fails({"300", "u8"}, function() rille.zeros({2}, {dtype = "u8"})[0] = 300 end)
  fails({"axis must be from -2 to 1, found 2"}, function() return a:split(1, 2) end)
  fails({"add up to 3", "x is f32{4, 5} B on cpu[0]"}, function() return a:split({1, 2}) end)
  fails({"add up to"}, function() return a:split({math.maxinteger, math.maxinteger, 2 + #a}) end)
  fails({"sum", "dimension 1 twice"}, function() return a:sum{axis = {1, -1}} end)
  fails({"flip", "dimension 0 twice"}, function() return a:flip{0, 0} end)
  local eight = rille.ones({1, 1, 1, 1, 1, 1, 1, 1})
  fails({"unsqueeze", "at most 8", "x is f32{1, 1,"}, function() return eight:unsqueeze(0) end)
  fails({"stack", "at most 8"}, function() return rille.stack({eight, eight}) end)
  fails({"one_hot", "at most 8"}, function() return eight:to("i64"):one_hot(2) end)
  fails({"embedding", "at most 8"}, function() return rille.embedding(eight:to("i64"), rille.ones({2, 3})) end)
  fails({"max", "no elements", "x is f32{0}"}, function() return rille.ones({0}):max() end)
  local bytes = rille.empty({1 << 61}, {dtype = "u8", placement = rille.placement("meta", {0})})
  fails({"concat", "larger than 2^62"}, function() return rille.concat({bytes, bytes, bytes, bytes, bytes}, 0) end)
  fails({"at least 1", "x is f32{4, 5}"}, function() return a:chunk(0) end)
  fails({"permute", "dimension 0 twice", "x is f32{4, 5}"}, function() return a:permute{0, 0} end)
end)

tap.group("memory", function()
  local much, line = rille.zeros({1 << 56}, {placement = P0, sbp = "S(0)"}), debug.getinfo(1, "l").currentline
  fails({"zeros: f32{72057594037927936} S(0) on cpu[0, 1]: out of memory on cpu:0"}, function() return much:totable() end)
  fails({"add: f32{72057594037927936} S(0) on cpu[0, 1]: out of memory on cpu:0"}, function() return (much + 1):to_local(0):item() end)
  local held = {"out of memory on cpu:", "; reduce the batch, or use micro_batches, recompute", "largest tensors: ", "f32{72057594037927936}", "errors.lua:" .. line}
  fails(held, function() return much:cumsum(0):max():item() end)
end)

tap.group("creation", function()
  fails({"ragged"}, function() return T({{1, 2}, {3}}) end)
  fails({"placement", "1 to 2", '"x"'}, function() return rille.placement("cpu", {0, 1, x = 2}) end)
  fails({"placement", "1 to 1", "the key 5"}, function() return rille.placement("cpu", {{0, [5] = 1}, {2}}) end)
  fails({"found 2", "table"}, function() return T({{1}, 2}) end)
  fails({"found \"one\""}, function() return T({"one"}) end)
  fails({"f99", "bf16"}, function() return T({1}, {dtype = "f99"}) end)
  fails({": zeros: ", "f99", "bf16"}, function() return rille.zeros({1}, {dtype = "f99"}) end)
  fails({"256", "u8"}, function() return T({256}, {dtype = "u8"}) end)
  fails({"'devise'", "placement"}, function() return rille.zeros({2}, {devise = "cpu"}) end)
  fails({"zeros", "-3"}, function() return rille.zeros({2, -3}) end)
  fails({"zeros", "2.5"}, function() return rille.zeros({2.5}) end)
  fails({"zeros", "found nil"}, function() return rille.zeros() end)
  fails({"arange", "step"}, function() return rille.arange(0, 5, 0) end)
  fails({"arange"}, function() return rille.arange(0, math.huge) end)
  fails({"randint", "5"}, function() return rille.randint(5, 5, {2}) end)
  fails({"placement", "table"}, function() return rille.zeros({2}, {placement = {0}}) end)
  fails({"S(2)"}, function() return rille.zeros({2, 2}, {placement = P0, sbp = "S(2)"}) end)
end)

-- Checks each function that accepts a layout: its errors must begin with the function's name.
tap.group("layouts", function()
  local P22 = rille.placement("cpu", {{0, 1}, {2, 3}})
  local x, file = rille.ones({4, 5}), "examples/data/digits_y.npy"
  local methods = {
    ["zeros: "] = function(how) rille.zeros({4, 5}, how) end,
    ["tensor: "] = function(how) T({{4, 5}}, how) end,
    ["arange: "] = function(how) rille.arange(5, how) end,
    ["to_global: "] = function(how) x:to_global(how) end,
    ["to_global_: "] = function(how) x:to_global_(how) end,
    ["boxing: from: "] = function(how) rille.boxing{shape = {4, 5}, from = how, to = {placement = P0, sbp = "B"}} end,
    ["boxing: to: "] = function(how) rille.boxing{shape = {4, 5}, to = how, from = {placement = P0, sbp = "B"}} end,
    ["load: "] = function(how) rille.load(file, how) end,
    ["load_npy: "] = function(how) rille.load_npy(file, how) end,
  }
  local wrong = {"Q(0)", "S(9)", "S", "", "B,B", "(B", "P(mean)", "S(0)\0junk", {}, {1}, {"B", "B", "B"}, {"B\0", "B"}, {"B", ordr = {0}},
    {"P", "P(max)"}, {"S(0)", "S(0)", order = {0}}, {"S(0)", "S(0)", order = {0, 0}}, {"B", "B", order = {0, 2}}, 5, true}
  for method, f in pairs(methods) do
    local bad
    for _, sbp in ipairs(wrong) do
      for _, placement in ipairs{P0, P22} do
        local good, err = pcall(f, {placement = placement, sbp = sbp})
        if good or not err:find("errors%.lua:%d+: " .. method .. "sbp: ") then bad = tostring(sbp) .. ": " .. tostring(err) end
      end
    end
    tap.ok(not bad, method .. "begins the error of every mistake", bad)
    tap.fails(function() f{placement = "cpu", sbp = "B"} end, method .. "placement must be a rille.placement, found", method .. "placement")
  end
  fails({": placement: unknown device kind \"gpu\""}, function() rille.placement("gpu", {0}) end)
  local last = 0
  while pcall(rille.placement, "cpu", {last + 1}) do last = last + 1 end
  fails({": placement: no device cpu:99: this session has cpu:0 to cpu:" .. last}, function() rille.placement("cpu", {99}) end)
  local mesh = rille.placement("cpu", {{0, 1}, {2, 3}})
  tap.is(rille.ones({4}, {placement = mesh, sbp = "B"}).sbp, "(B, B)", "a single B means B on every mesh axis")
  fails({'"(B)" has 1 entry, but the mesh has 2 axes: write one entry per axis, as in {"B", "B"}'}, function() local _ = rille.ones({4}, {placement = mesh, sbp = "(B)"}) end)
  fails({'"S(0)" has 1 entry, but the mesh has 2 axes: write one entry per axis, as in {"S(0)", "B"}'}, function() local _ = rille.ones({4}, {placement = mesh, sbp = "S(0)"}) end)
  fails({'expected one entry per mesh axis, 2, found 1'}, function() return rille.ones({4}, {placement = mesh, sbp = {"B"}}) end)
  if not pcall(rille.placement, "cuda", {0}) then
    fails({": placement: no device cuda:0: this session has no GPU; open the session with devices = \"cuda:all\" (on the command line: -d cuda:all)"}, function() rille.placement("cuda", {0}) end)
  end
  fails({": placement: ", "zero byte"}, function() rille.placement("cpu\0", {0}) end)
end)

tap.group("texts that contain a zero byte", function()
  fails({": zeros: ", "zero byte"}, function() rille.zeros({2}, {dtype = "f32\0x"}) end)
  fails({": zeros: ", "zero byte"}, function() rille.zeros({2}, {name = "a\0x"}) end)
  fails({": zeros: ", "zero byte"}, function() rille.zeros({2}, {["name\0"] = "a"}) end)
  fails({": to: ", "zero byte"}, function() a:to("f32\0x") end)
  fails({": gelu: ", "zero byte"}, function() a:gelu("tanh\0x") end)
  fails({": softmax: ", "zero byte"}, function() a:softmax{["axis\0"] = 1} end)
  fails({": boxing: ", "zero byte"}, function() rille.boxing{shape = {1}, dtype = "f32\0"} end)
  fails({": load: ", "zero byte"}, function() rille.load("x.npy\0.npy") end)
  fails({": save: ", "zero byte"}, function() rille.save("x.npy\0.npy", a) end)
  fails({": show: ", "zero byte"}, function() a:show("x.svg\0.svg") end)
  fails({": graph: ", "zero byte"}, function() rille.graph(print, {schedule = "1f1b\0"}) end)
  fails({"zero byte"}, function() a.name = "a\0b" end)
  fails({"zero byte"}, function() a["name\0"] = "a" end)
  fails({"zero byte"}, function() return rille["nn\0"] end)
  fails({"zero byte"}, function() return P0["size\0"] end)
end)

tap.group("values and files", function()
  fails({"item", "one element"}, function() return a:item() end)
  fails({"5"}, function() return a:to_local(5) end)
  fails({"integer"}, function() return a:to_local("first") end)
  fails({"variable"}, function() (a + 1):copy_(a) end)
  fails({"copy_", "found 1"}, function() a:copy_(1) end)
  fails({"to_global"}, function() return a:to_global("B") end)
  fails({"to_global", "table", "nil"}, function() return rille.to_global(a) end)
  tap.is(rille.to_global(a, {placement = P0, sbp = "S(0)"}).sbp, "S(0)", "to_global is a function too")
  fails({"'place'"}, function() return a:to_global{place = P0} end)
  fails({": load: no/such.npy: No such file"}, function() return rille.load("no/such.npy") end)
  fails({": save: no/such.npy: cannot be written: No such file"}, function() return rille.save("no/such.npy", a) end)
  fails({": save: ", "x.pickle", ".safetensors"}, function() rille.save("x.pickle", {a = a}) end)
  fails({": load: ", "x.pickle", ".safetensors"}, function() rille.load("x.pickle") end)
  fails({": load: ", "'name'"}, function() rille.load("x.npy", {name = "a"}) end)
  fails({": save: ", "max_shard_size", "5 LB"}, function() rille.save("x", {a = a}, {max_shard_size = "5 LB"}) end)
  fails({"'five'", "found 5"}, function() rille.save("x.npy", {five = 5}) end)
  fails({"one tensor", "2"}, function() rille.save("x.npy", {a = a, b = b}) end)
  fails({"meta"}, function() return rille.zeros({2}, {placement = rille.placement("meta", {0, 1})}):totable() end)
end)

tap.group("graphs", function()
  fails({"function"}, function() return rille.graph(5) end)
  fails({"'micro'", "micro_batches"}, function() return rille.graph(print, {micro = 1}) end)
  fails({"micro_batches"}, function() return rille.graph(print, {micro_batches = 0}) end)
  fails({"lag"}, function() return rille.graph(print, {schedule = {lag = "two"}}) end)
  fails({"call the step first"}, function() return rille.graph(function() end):stats() end)
  fails({"item"}, function() rille.graph(function(x) return x * x:sum():item() end)(a) end)
  fails({"matmul"}, function() rille.graph(function(x) return x:matmul(x) end)(a) end)
  fails({"live", "found \"1\""}, function() return rille.graph(function(x) return x * rille.live(function() return "1" end) end)(a) end)
  local step = rille.graph(function(x) return x * rille.live(function() error("from live", 0) end) end)
  tap.fails(function() step(a) end, {"from live"}, "an error in a live number's function is reported")
  tap.is(rille.graph(function(x) return x + 1 end)(T({1})):item(), 2, "the next graph works")
  local inner = rille.graph(function(x) return x end)
  fails({"inside"}, function() return rille.graph(function(x) return inner(x) end)(a) end)
end)

tap.group("remedies", function()
  fails({"optim.cosine: expected at most 1 argument, found 3; write rille.optim.cosine{lr ="}, function() rille.optim.cosine(1, 2, 3) end)
  fails({"parallel: expected at most 2 arguments, found 3; write rille.parallel(model"}, function() rille.parallel(1, 2, 3) end)
  fails({"to_global: expected at most 1 argument, found 2; write x:to_global{placement =, sbp =}"}, function() a:to_global(P0, "B") end)
  fails({"unknown option 'pad'; the nearest name is 'padding'"}, function() rille.nn.Conv2d(1, 1, 1, {pad = 1}) end)
  fails({"unknown option 'fsdp': write data = 0, zero = 3"}, function() rille.parallel(rille.nn.ReLU(), {fsdp = true}) end)
  fails({"the mesh has no 'ppermute': write mesh:shift(x, axis, n)"}, function() rille.per_rank(function(m) return m.ppermute end, {inputs = {"B"}, outputs = {"B"}})(a) end)
  fails({"randint: expected integers low and high and a shape, as in rille.randint(0, 9, {4}); found a table"}, function() rille.randint(5, {2}) end)
  fails({"nn.BatchNorm1d: input must have 4 channels, its dimension 1, found 5"}, function() rille.nn.BatchNorm1d(4)(a) end)
  fails({"linear_cross_entropy: argument 3 must be a tensor, found nil"}, function() rille.linear_cross_entropy(a, b) end)
  fails({"dpo_loss: argument 4 must be a tensor of log probabilities, found nil"}, function() rille.dpo_loss(a, a, a) end)
  fails({"f: the body has 'y'; expected an operand"}, function() rille.operator{name = "f", body = "y"} end)
  fails({"train.report: samples must be at least 0, because they are added up; found -1"}, function() rille.train.report{samples = -1} end)
  fails({"found 4 in tensor 1 and 6 in tensor 2"}, function() rille.data.loader{a, b, batch = 1} end)
end)

-- Checks source lines. An error inside Rille's Lua modules must have the user's line. An error of a value that is
-- computed later must have the line of the operator's call.
tap.group("lines", function()
  local fc = rille.nn.Linear(3, 2)
  local good, err = pcall(function() return fc(a) end)
  tap.ok(not good and err:find("errors%.lua:" .. debug.getinfo(1, "l").currentline - 1) and err:find("nn.Linear: the last dimension of the input must be 3, found 5", 1, true),
    "an error inside a module names the user's line and the module", err)
  local ids = T({0, 9}, {dtype = "i64"})
  local built, wanted = debug.getinfo(1, "l").currentline + 1, debug.getinfo(1, "l").currentline + 2
  local y = rille.embedding(ids, a)
  good, err = pcall(function() return y:totable() end)
  tap.ok(not good and err:find("^[^:]*errors%.lua:" .. built .. ":"), "an error in a run names the line that built the operator", err)
  tap.ok(not good and err:find("needed at [^:]*errors%.lua:" .. wanted), "the error names the line that needed the value", err)
  local chunk = load("local x = ...\nreturn x:matmul(x)", "=chunk")
  good, err = pcall(chunk, a)
  tap.ok(not good and err:find("^chunk:2: matmul"), "the error names the chunk", err)
  local co = coroutine.wrap(function() return a:matmul(a) end)
  good, err = pcall(co)
  tap.ok(not good and err:find("errors.lua:" .. debug.getinfo(1, "l").currentline - 2, 1, true), "an error in a coroutine has the coroutine's line", err)
  local e = rille.explain(T({1}):relu())
  tap.is(e.ops[#e.ops].line:match("[^/]*$"), "errors.lua:" .. debug.getinfo(1, "l").currentline - 1, "explain() has the lines of operators")
end)

tap.group("modes after errors", function()
  local p = T({1, 2}, {requires_grad = true})
  pcall(function() p:add_(T({1, 2, 3})) end)
  pcall(function() p[7] = 1 end)
  pcall(rille.no_grad, function() error("x") end)
  pcall(function() rille.graph(function(x) rille.no_grad(function() error("y") end) end)(p) end)
  tap.ok((p * 2).requires_grad, "gradients are recorded as before")
  tap.is(p:totable(), {1, 2}, "values are unchanged")
end)

tap.done()
