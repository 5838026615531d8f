-- Tests the texts of messages. A row is a wrong call and the parts that its error must contain. An error names the
-- fault, the value found, the expectation, and what to write instead. An error about data, found during a run, also
-- names the operator's line and module.
local tap = dofile("t/lib/tap.lua")
local nn, T = rille.nn, rille.tensor
local x, ids = rille.ones({4, 5}), T({0, 9}, {dtype = "i64"})
local image = rille.ones({2, 3, 8, 8})
local P = rille.placement("cpu", {0})

tap.group("generation", function()
  local m = rille.models.gpt2.new{vocab = 11, length = 8, layers = 1, heads = 2, width = 8}
  local scheduler = m:scheduler{slots = 1}
  local function generate(o) return function() m:generate({{1, 2, 3}}, o) end end
  for _, row in ipairs{
    {generate{max_new_tokens = 2, processor = function() return 4 end}, "generate: processor must return the changed logits, a tensor {11}; found 4"},
    {generate{max_new_tokens = 2, allowed = function() return {77} end}, "generate: an id that allowed returns must be below 11, the number of ids of the model, found 77"},
    {generate{tokenizer = 3}, "generate: tokenizer must be a tokenizer of rille.tokenizer, found 3"},
    {generate{max_new_tokens = 2, min_new_tokens = 5, stop = 1}, "generate: min_new_tokens must be at most max_new_tokens, 2; found 5"},
    {function() scheduler:cancel(3) end, "scheduler:cancel: expected a result of s:add, found 3"},
    {function() scheduler:step(3) end, "scheduler:step: expected no argument, found 3"},
    {function() rille.models.load("t/lib/tap.lua") end, "models.load: t/lib/tap.lua is a file; expected a folder with config.json"},
  } do
    tap.fails(row[1], {row[2]}, row[2])
  end
end)

tap.group("operators", function()
  local mask, q = rille.ones({4}):gt(0), rille.ones({1, 2, 3, 4})
  local k, v = rille.ones({1, 2, 5, 4}), rille.ones({1, 2, 6, 4})
  for _, row in ipairs{
    {function() rille.graph(function(v) return v end).rate = 3 end, "a compiled step has no field 'rate' that can be set"},
    {function() rille.parallel(nn.Linear(2, 2), {weight = "S(0)"}) end, "parallel: 'weight' must be a table {placement =, sbp =} of a parameter, found \"S(0)\""},
    {function() nn.Linear(2, 2):freeze() end, "write for _, p in ipairs(net:parameters()) do p:requires_grad_(false) end"},
    {function() T({300}, {dtype = "u8"}) end, "tensor: 300 does not fit in u8, which holds all integers from 0 to 255"},
    {function() rille.load("net.onnx") end, "unknown format: the name must end in .safetensors, .npy, .npz, .gguf, .pt, .pth or .bin, or be a folder"},
    {function() rille.optim.SGD({}, {lr = 1}) end, "optim.SGD: the list of parameters is empty; net:parameters() lists"},
    {function() x:matmul(x) end, "matmul: dimension 1 of a is 5 but dimension 0 of b is 4, expected equal sizes; a is"},
    {function() return x + rille.ones({6, 5}) end, "add: dimension 0 of the operands is 4 and 6, expected equal sizes or 1; a is"},
    {function() x:softmax(2) end, "softmax: axis must be from -2 to 1, found 2"},
    {function() x:unsqueeze(4) end, "unsqueeze: axis must be from -3 to 2, found 4"},
    {function() x:gelu("tan") end, 'gelu: approximate must be "none" or "tanh", found "tan"'},
    {function() x:gelu(5) end, 'gelu: approximate must be "none" or "tanh", found 5'},
    {function() x:relu(x) end, "relu: one tensor too many; expected relu(x)"},
    {function() x:clamp(0, 1, "a") end, "clamp: one argument too many: \"a\"; expected clamp(x, min, max)"},
    {function() rille.cat({x, rille.ones({4})}) end, "cat: operands must have as many dimensions as the first, 2, found 1"},
    {function() rille.concat({x, rille.ones({4})}) end, "concat: operands must have as many"},
    {function() rille.cat({}) end, "cat: expected a list of at least 1 tensor, found an empty list"},
    {function() rille.stack({}) end, "stack: expected a list of at least 1 tensor"},
    {function() x:to("float32") end, 'to: unknown dtype "float32": write "f32"'},
    {function() x:to("cuda") end, 'to: expected a dtype such as "f32", found the device "cuda"; x:to_global{placement = rille.placement("cuda", {0})'},
    {function() T({1}, {dtype = "long"}) end, 'tensor: unknown dtype "long": write "i64"'},
    {function() rille.boxing{shape = {1}, dtype = "half", from = {placement = P, sbp = "B"}, to = {placement = P, sbp = "B"}} end,
      'boxing: unknown dtype "half": write "f16"'},
    {function() rille.linspace(0, 1) end, "linspace: n, the number of elements, must be an integer of at least 0, found nil"},
    {function() rille.linspace("a", 1, 3) end, 'linspace: start must be a number, found "a"'},
    {function() rille.data.loader(x, 2) end, "data.loader: expected one table, {x, y, batch = 64}, found a tensor and 2"},
    {function() rille.data.loader({x, batch = 2}, 2) end, "data.loader: expected one table, {x, y, batch = 64}, found a table and 2"},
    {function() rille.eye(-1) end, "eye: the number of rows must be an integer of at least 0, found -1"},
    {function() x:index_select(0, mask) end, "index_select: ids must be integer, found bool; a mask selects with masked_select"},
    {function() x:index_select(0, T({1})) end, 'index_select: ids must be integer, found f32; convert it with to("i64")'},
    {function() x:cross_entropy(T({0, 1, 2, 3})) end, "cross_entropy: labels must be the classes' numbers, i64 or i32, found f32; convert them to i64"},
    {function() x:cross_entropy(ids) end, "cross_entropy: labels must have shape {4} (axis 1 of logits is the classes), found {2}"},
    {function() image:conv2d(rille.ones({4, 2, 3, 3})) end, "conv2d: expected an image of 2 channels (dimension 1 of x), found 3; x is f32{2, 3, 8, 8}"},
    {function() image:conv2d(rille.ones({4, 1, 3, 3}), {groups = 2}) end, "groups must divide the input channels, 3, and the output channels, 4; found 2"},
    {function() image:conv2d(rille.ones({4, 3, 9, 3})) end, "conv2d: in dimension 2, the kernel must not exceed the padded image, 8, found 9; add padding"},
    {function() image:conv2d(rille.ones({4, 3, 3, 3}), {stride = 0}) end, "conv2d: stride must be at least 1, found 0"},
    {function() x:conv2d(x) end, "conv2d: x and w must have 4 dimensions, found 2 and 2"},
    {function() image:max_pool2d(9) end, "max_pool2d: in dimension 2, the window must not exceed the padded image, 8, found 9; add padding"},
    {function() image:max_pool2d(2, {padding = 2}) end, "max_pool2d: padding must be at most half of kernel_size, 2, found 2"},
    {function() x:layer_norm(nil, nil, {normalized_shape = {4}}) end, "layer_norm: normalized_shape must be {5}, the last sizes of x, found {4}"},
    {function() rille.ones({}):layer_norm() end, "x must have at least 1 dimension, found 0"},
    {function() q:scaled_dot_product_attention(rille.ones({1, 2, 5, 3}), v) end, "scaled_dot_product_attention: q and k must have the same size (last dimension), found 4 and 3"},
    {function() q:scaled_dot_product_attention(k, v) end, "scaled_dot_product_attention: k and v must have the same length (dimension 2), found 5 and 6"},
    {function() q:scaled_dot_product_attention(k, k, rille.ones({4, 5})) end, "mask must be {1, 2, 3, 5} or a shape that broadcasts to it, found {4, 5}"},
    {function() x:scatter_add(ids, T({1, 2}), 0) end, "scatter_add: ids must have as many dimensions as x, 2, found 1"},
    {function() (x + 1):copy_(x) end, "copy_: expected a variable, found the result of an operator; clone or detach it first, or write x[0] = y to change a part of x"},
    {function() (x + 1):add_(x) end, "add_: expected a variable, found the result of an operator"},
    {function() rille.ones({2}):copy_(x) end, "copy_: the value must have the variable's shape {2} or broadcast to it, found {4, 5}"},
    {function() rille.placement("gpu", {0}) end, 'placement: unknown device kind "gpu": expected cpu, meta or cuda; a GPU is cuda'},
    {function() rille.placement("cuda:0", {0}) end, 'placement: expected a device kind without a number, such as "cpu", found "cuda:0"'},
    {function() rille.placement("cpu", {9999}) end, "; open the session with devices = \"cpu:10000\" (on the command line: -d cpu:10000)"},
    {function() rille.placement("cpu", {-1}) end, "placement: a rank must be a device number from 0 on, an integer, found -1"},
  } do tap.fails(row[1], {"messages.lua:", row[2]}, row[2]) end
end)

-- Checks errors of composite operators. No error may name an operator that users cannot call.
tap.group("composites", function()
  local wrong
  local public = {}
  for _, name in ipairs(rille.operators()) do public[name] = true end
  for name in pairs(public) do
    local call = rille[name]
    if type(call) == "function" then
      for _, arguments in ipairs{{x, x}, {x, image}, {image, x, x}, {x, ids, x}, {ids, ids, ids}, {image, image, ids}} do
        local good, why = pcall(call, table.unpack(arguments))
        local inner = not good and tostring(why):match("^[^:]*:%d+: [%w_]+: ([%w_]+): ")
        if inner and not public[inner] then wrong = tostring(why) end
      end
    end
  end
  tap.ok(not wrong, "an error of a composite names no hidden operator", wrong)
end)

-- Rows of modules with wrong data, which Rille finds during a run. The error must name the user's line and the
-- module's path, eagerly and in a compiled step.
tap.group("modules", function()
  local Net = nn.Module:extend("Net")
  function Net:init(inner) self.blocks = {nn.ReLU(), inner} end
  function Net:forward(...) return self.blocks[2](...) end
  local Classes = nn.Module:extend("Classes")
  function Classes:forward(logits, labels) return logits:cross_entropy(labels) end
  for _, row in ipairs{
    {Net(nn.Embedding(4, 2)), {ids}, "embedding: id 9 at position 1 is not in a table of 4 rows (positions count from 0) (in Net.blocks.1)"},
    {Net(Classes()), {rille.ones({2, 5}), ids}, "cross_entropy: label 9 at position 1 is not one of 5 classes (positions count from 0) (in Net.blocks.1)"},
    {nn.Embedding(4, 2), {ids}, "embedding: id 9 at position 1 is not in a table of 4 rows (positions count from 0) (in nn.Embedding)"},
    {Classes(), {rille.ones({2, 5}), ids}, "is not one of 5 classes (positions count from 0)"},
  } do
    for name, call in pairs{eager = function() return row[1](table.unpack(row[2])) end, step = rille.graph(function(...) return row[1](...) end)} do
      local good, why = pcall(function() return call(table.unpack(row[2])):sum():item() end)
      tap.ok(not good and tap.has(tostring(why), "messages.lua:", row[3]), name .. ": " .. row[3], why)
    end
  end
  local net = Net(nn.Embedding(4, 2))
  local y = net(ids)
  net.blocks[2], net = nil, nil
  collectgarbage()
  local good, why = pcall(y.totable, y)
  tap.ok(not good and tap.has(tostring(why), "(in nn.Embedding)"), "a module that no longer exists is named by its class", why)
end)

tap.group("paths", function()
  local nn = rille.nn
  local Block, Net = nn.Module:extend("Block"), nn.Module:extend("Net")
  function Net:init() self.blocks = {Block()} end
  function Net:forward(v) return self.blocks[1](v) end
  for _, fault in ipairs{"x[9]", "x:nosuch()", "x:split(0)", "x:chunk(0)", "nn.CrossEntropyLoss()(x)", "nn.Linear(4, 2)(x)", "rille.zeros{-1}", "rille.tensor{1, 'a'}"} do
    Block.forward = load("local rille, nn = ... return function(self, x) local y = " .. fault .. " return y end", "=user.lua")(rille, nn)
    tap.fails(function() Net()(x) end, {"user.lua:1: ", "(in Net.blocks.0)"}, fault .. " names the module's path")
  end
  for name, t in pairs{["rille.models.gpt2"] = rille.models.gpt2, ["rille.checkpoint"] = rille.checkpoint} do
    tap.fails(function() t{} end, {"messages.lua:", name .. " is a table, not a function; it has: load, "}, name .. " is not called")
  end
end)

-- Applies every operator of Lua to every kind of object: each error must be Rille's, and name what was found.
tap.group("operators", function()
  local net = nn.Linear(2, 2)
  local objects = {tensor = x, ["compiled step"] = rille.graph(print), ["nn.Linear"] = net, ["class nn.Linear"] = nn.Linear, placement = rille.placement("cpu", {0}),
    ["optim.SGD"] = rille.optim.SGD(net:parameters(), {lr = 1}), tokenizer = rille.tokenizer.train({"a b"}, {size = 257}),
    ["data.loader"] = rille.data.loader{x, batch = 2}, ["live number"] = rille.live(function() return 1 end), table = x.shape}
  for name, object in pairs(objects) do
    for _, code in ipairs{"o + 1", "1 + o", "o - 1", "o * 2", "o / 2", "o % 2", "o ^ 2", "o // 2", "-o", "o & 1", "1 | o", "o ~ 1", "~o", "o << 1", "o >> 1",
      "o .. 'a'", "'a' .. o", "o < 1", "1 < o", "o <= o", "o > 1", "#o", "o()", "next(o)"} do
      local good, why = pcall(load("local o = ... local _ = " .. code, "=user"), object)
      local called = code:find("(", 1, true)
      local own = tap.has(tostring(why), "user:1: " .. (called and "call: expected " or "operator "), ": expected ", "found ", name)
      tap.ok(good or called or own, ("%s, o: %s"):format(code, name), why)
      local raw = not good and (tostring(why):find("attempt to", 1, true))
      tap.ok(not raw, ("%s, o: %s: not in the words of Lua"):format(code, name), why)
    end
  end
  for _, row in ipairs{
    {"o .. 'a'", x, "operator ..: expected strings or numbers, found a tensor; write tostring(x), or x:item() for its number"},
    {"o + 1", net, "operator +: expected tensors or numbers, found an nn.Linear; call the module first, as in net(x)"},
    {"nn.Linear * o", x, "found the class nn.Linear; make a module first, as in nn.Linear(...)"},
    {"o * nn.Linear", x, "mul: b must be a tensor or a number, found the class nn.Linear"},
    {"o < 1", x, "found a tensor; write a:lt(b), a:le(b), a:gt(b) or a:ge(b)"},
    {"o:stats()", nn, "rille.nn has no 'stats'"},
    {"o.stats()", rille.graph(print), "stats: expected a compiled step, found nil; write x:stats(...), with a colon"},
    {"o.item()", x, "item: expected a tensor, found nil; write x:item(...), with a colon"},
    {"rille.graph(o)", x, "graph: expected a function, found a tensor"},
    {"rille.no_grad(o)", x, "no_grad: expected a function, found a tensor"},
  } do
    local code = load("local o, rille, nn = ... local _ = " .. row[1], "=user")
    tap.fails(function() code(row[2], rille, nn) end, {"user:1: ", row[3]}, row[1])
  end
end)

tap.group("steps", function()
  for _, row in ipairs{
    {function() rille.graph(function(a) return a:reshape{4, 5} + 1 end, {micro_batches = 2})(x) end,
      "with micro_batches = 2, a tensor that depends on the step's arguments has the rows of one micro-batch: write -1"},
    {function() rille.whatif(3) end, "whatif: expected a compiled step, found"},
    {function() rille.graph(print, {offload = true}) end, "graph: offload must be a placement, found true"},
    {function() (rille.ones{2} + 1):fill_(2) end, "fill_: expected a variable, found the result of an operator"},
    {function() rille.graph(print):stats() end, "graph: the step has no plan yet; call the step first"},
    {function() rille.graph(print, {auto_parallel = 3}) end, '"optimal", "propagate", "recursive" or "greedy", found 3'},
    {function() rille.graph(print, {schedule = {memory = 1, lag = 2}}) end, "memory chooses lag and split_backward; expected either memory or these, found both"},
  } do tap.fails(row[1], {"messages.lua:", row[2]}, row[2]) end
  for name, fn in pairs{
    matmul = function(a) return a:matmul(rille.ones{3, 4}) end, add = function(a) return a + rille.ones{3} end,
    reshape = function(a) return a:reshape{7, 5} end, expand = function(a) return a:expand{3, 5} end,
    linear = function(a) return rille.nn.Linear(3, 4)(a) end,
  } do
    local good, why = pcall(rille.graph(fn, {micro_batches = 2}), x)
    tap.ok(not good and not tostring(why):find("write -1", 1, true), name .. ": a wrong size that is not the batch's has no hint about rows", why)
  end
  for name, fn in pairs{
    expand = function(a) return a:expand{4, 5} end, flat = function(a) return a:reshape{20} end, open = function(a) return a:reshape{4, -1} end,
  } do
    local good, why = pcall(rille.graph(fn, {micro_batches = 2}), x)
    tap.ok(good or tap.has(tostring(why), "write -1"), name .. ": the batch's size has the hint", why)
  end
  local p = rille.ones({64, 64}, {requires_grad = true})
  local step = rille.graph(function(a) return (a * p):sum() end, {memory_limit = 1})
  local good, why = pcall(step, rille.ones({64, 64}))
  tap.ok(not good and not tostring(why):find("largest tensors: *$"), "a limit without tensors of the step lists no tensor", why)
end)

tap.group("files", function()
  local path = tap.folder() .. "/x.safetensors"
  rille.save(path, {first = x, second = x})
  tap.fails(function() rille.load(path, {names = {"third"}}) end, {"load: ", "no tensor named 'third'; it has: first, second"}, "the names of a file")
  tap.fails(function() rille.load(path, {dtype = "i32"}) end, {"dtype must be float, found i32; load without dtype, then convert the tensor"}, "a dtype of a file")
  local csv = tap.write(tap.folder() .. "/x.csv", "1;2\n3;4\n")
  tap.fails(function() rille.data.csv(csv) end, {'the fields seem to be separated by ";": write separator = ";"'}, "a separator of a file")
end)

tap.done()
