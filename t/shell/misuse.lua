-- misuse.lua - tests how the shell explains Lua's own errors (lua/base/misuse.lua): the user's line, the module and the remedy.
local tap = dofile("t/lib/tap.lua")

local function printed(code, before)
  return (tap.output(("%s '%s' -d cpu:1 --no-init -e '%s' 2>&1"):format(before or "", tap.program(), code:gsub("'", "'\\''"))))
end

local NET = [[
local rille = require "rille" local nn = rille.nn
local x = rille.ones{2}
local Net, Outer = nn.Module:extend("Net"), nn.Module:extend("Outer")
function Net:init() self.fc, self.list = nn.Linear(2, 2), {nn.ReLU()} end
function Net:forward(x, how) local y = how(self, x) return y end
function Outer:init() self.net = Net() end
function Outer:forward(...) local y = self.net(...) return y end
local net, fc = Outer(), nn.Linear(2, 2)
]]

-- Rows: the code of line 9, then the words of its message.
for _, row in ipairs{
  {"local _ = x.grad[1]", "attempt to index a nil value (field 'grad'); no gradient was computed: call loss:backward() first"},
  {"fc.weight = 3 fc(x)", "nn.Linear: 'weight' must be a tensor, found 3"},
  {"net(x, function(self, x) self.fc.weight = 3 return self.fc(x) end)", "nn.Linear: 'weight' must be a tensor, found 3 (in Outer.net"},
  {"local s = nn.Sequential(nn.ReLU()) s[1] = 3 s(x)", "nn.Sequential: entry 1 must be a module, found 3"},
  {"fc.forward(x)", "forward is a method: write net(x), or net:forward(x) with a colon (found self = a tensor)"},
  {"fc.forward()", "forward is a method: write net(x), or net:forward(x) with a colon (found self = nil)"},
  {"fc:nosuch()", "attempt to call a nil value (method 'nosuch'); nn.Linear has no method 'nosuch'"},
  {"net(x, function(self, x) return self.list(x) end)", "call the modules of the list one by one: for _, m in ipairs(list) do x = m(x) end; or make an nn.Sequential (in Outer.net)"},
  {"function Net.forward(x) return x:relu() end Net()(x)", "'x' is the module itself: declare function Net:forward(x) with a colon"},
  {"net(x, function(self, x) return self.nosuch(x) end)", "attempt to call a nil value (field 'nosuch')"},
  {"function Net:forward(x) local y = self.nosuch(x) return y end net(x)", "Net has no field 'nosuch'; set self.nosuch in Net:init (in Outer.net)"},
  {"function Net:forward(x) return self.fc(x) end local n = Net() local y = n(rille.ones{3})", "found 3 (in Net.fc, in the forward at (command line):9)"},
  {"function Net:forward(x) return rille.linear_cross_entropy(x, x, 3) end local n = Net() local y = n(x)", "found 3 (in Net, in the forward at (command line):9)"},
  {"return rille.lstm", "rille has no 'lstm': write rille.nn.LSTM"}, {"return rille.adamw", "rille has no 'adamw': write rille.optim.AdamW"},
  {"return rille.TensorDataset", "rille has no 'TensorDataset': write rille.data.loader"},
  {"rille.trace(3)", "rille has no 'trace': write step:trace(path), where step = rille.graph(fn)"},
  {"fc.bias = 3 fc(x)", "nn.Linear: 'bias' must be a tensor, found 3"},
  {"fc.weight = x fc(x)", "nn.Linear: weight must have 2 dimensions, (output, input), found 1"},
  {"local w = x - x.grad * 0.1", "(field 'grad'); no gradient was computed: call loss:backward() first"},
  {"for p in net:parameters() do end", "write for i, x in ipairs(list) do"},
  {"local o = {} o.param_groups[1] = 1", "write opt.groups"},
  {"for _ in pairs(nil) do end", "pairs and ipairs expect a table"},
  {"local list = {fc} list(x)", "call the modules of the list one by one"},
  {"net(x, function(_, x) return x.y.z end)", "a tensor has no field or method 'y' (in Outer.net)"},
  {"net(x, function(_, x) return x:matmul(rille.ones{7, 7}) end)", "matmul: ", "(in Outer.net)"},
  {"net(x, function(_, x) return nn.Linear(9, 9)(x) end)", "the last dimension of the input must be 9, found 2 (in Outer.net)"},
  {"net(x, function(_, x) return z.y end)", "attempt to index a nil value (global 'z') (in Outer.net)"},
  {"local _ = 1 + x.item", "a function value (field 'item'); call the method: x:item()"},
  {"local _ = 1 < x.item", "call the method, as in x:item()"},
  {"print(('%d'):format(x))", "number expected, got rille.tensor); write x:item() for the number"},
  {"for i = 1, x do end", "write x:item() for the number of a tensor of one element"},
  {"for k in next, x do end", "write x:totable() for a table, or pairs(x) for the rows"},
  {"local _ = x.shape[0] + 1", "the list has no such entry; lists of Lua count from 1"},
  {"local _ = torch.randn(2)", "attempt to index a nil value (global 'torch'); write rille, as in rille.randn{2, 3}"},
} do
  local text = printed(NET .. row[1])
  tap.ok(tap.has(text, table.unpack(row, 2)), row[1], text)
  tap.ok(text:find("^rille: %(command line%):[59]: ") and not text:find("\trille%.") and not text:find("[C]", 1, true),
    "the user's line comes first, without lines of Rille: " .. row[1], text)
end

local text = printed(NET .. "fc(rille.ones{3})")
tap.ok(not text:find("traceback"), "a traceback that shows only the line of the message is left out", text)
text = printed(NET .. "local function deep() fc(rille.ones{3}) end deep()")
tap.ok(tap.has(text, "stack traceback:\n\t(command line):9: in local 'deep'\n\t(command line):9: in main chunk\n"), "a traceback has the lines of the user", text)
text = printed(NET .. "fc(rille.ones{3})", "RILLE_LUA_DIR=lua")
tap.ok(tap.has(text, "\trille.nn.linear:"), "RILLE_LUA_DIR shows the lines of Rille, too", text)

tap.done()
