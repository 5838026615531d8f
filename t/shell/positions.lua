-- positions.lua - tests that the error of a wrong argument names the user's line: every public function and method is called
-- with every combination of up to two values of all types, and layers with every value as input. Each function is a case
-- of share.
local tap = dofile("t/lib/tap.lua")
local nn = rille.nn

local function nothing() end
local NIL = {}
local values = {NIL, 4, -1, 0.5, tap.folder() .. "/none", true, {}, {1}, nothing, rille.ones{2, 2}, nn.Linear(2, 2), nn.Linear, rille.placement("cpu", {0})}
local function given(v) if v ~= NIL then return v end end

-- Calls fn with every combination of up to two values. Returns the wrong errors, each once. An error is wrong if it
-- does not begin with a line of this file, if it names the function with the prefix "rille.", or if it is Lua's "bad
-- argument".
local function misplaced(fn, ...)
  local found, list, fixed = {}, {}, table.pack(...)
  local function try(a, b)
    local args = table.move({given(a), given(b), n = 2}, 1, 2, fixed.n + 1, {table.unpack(fixed, 1, fixed.n)})
    local good, why = pcall(function() local _ = fn(table.unpack(args, 1, fixed.n + (b ~= nil and 2 or 1))) end)
    local placed = tostring(why):match("^t/shell/positions%.lua:%d+: (.*)")
    if good or placed and not placed:find("^rille%.[%w_.:]+: ") and not placed:find("^bad argument") then return end
    if not found[tostring(why)] then list[#list + 1], found[tostring(why)] = tostring(why), true end
  end
  for _, a in ipairs(values) do
    try(a)
    for _, b in ipairs(values) do try(a, b) end
  end
  return table.concat(list, "\n")
end

local public = dofile("t/lib/public.lua")

local function check(name, fn, ...) return tap.share() and tap.is(misplaced(fn, ...), "", name .. ": errors name the user's line") end

tap.group("functions", function()
  for _, name in ipairs{"args", "autocast", "func", "operator", "per_rank", "plot", "recover", "snapshot", "stopping", "parallel", "tokenizer"} do
    check(name, rille[name])
  end
  public.each(rille, "", check)
  for _, path in ipairs{"nn", "nn.init", "optim", "data", "io", "io.llmc", "models", "models.gpt2", "models.llama", "models.moe", "models.resnet", "checkpoint",
    "parallel", "tokenizer", "train", "sbp"} do
    local t = rille
    for part in path:gmatch("[^.]+") do t = t[part] end
    public.each(t, path .. ".", check)
  end
end)

tap.group("methods", function()
  check("nn.Rotary:turn", nn.Rotary(4, 2).turn, nn.Rotary(4, 2))
  local objects = public.objects()
  objects.class = nn.Module
  for kind, object in tap.sorted(objects) do
    public.methods(kind, object, function(name, fn)
      check(name, fn, object)
      check(name:gsub(":", "."), function(a, b)
        -- skips calls on objects of other classes, whose method of this name may be another one
        if type(a) ~= "table" or not getmetatable(a) then local _ = fn(a, b) end
      end)
    end)
  end
end)

tap.group("layers", function()
  local made = {}
  for name, args in pairs{AvgPool2d = {2}, BatchNorm1d = {2}, BatchNorm2d = {2}, Conv1d = {2, 2, 1}, Conv2d = {2, 2, 1}, Embedding = {4, 2}, GRU = {2, 2},
    GRUCell = {2, 2}, GroupNorm = {1, 2}, LSTM = {2, 2}, LSTMCell = {2, 2}, LayerNorm = {2}, Linear = {2, 2}, MaxPool2d = {2},
    MixtureOfExperts = {2, 2, 2}, MultiheadAttention = {2, 1}, Positions = {4, 2}, RMSNorm = {2}, RNN = {2, 2}, RNNCell = {2, 2}, SwiGLU = {2, 2},
    TransformerBlock = {2, 1}, Upsample = {2}, Int8Linear = {nn.Linear(2, 2)}, BlockLinear = {nn.Linear(32, 2)},
    BlockEmbedding = {nn.Embedding(2, 32)}, LoRA = {nn.Linear(2, 2)}, Int8Experts = {nn.MixtureOfExperts(2, 2, 2)}} do
    made[name] = args
  end
  for name, class in tap.sorted(nn) do
    if type(class) == "table" and class ~= nn.Module and class ~= nn.init then
      local layer = class(table.unpack(made[name] or {}))
      check("nn." .. name .. "(x)", layer)
      for _, v in ipairs(name ~= "Sequential" and name ~= "Identity" and {4, "x", true, {}, nothing} or {}) do
        tap.fails(function() layer(v) end, {"nn." .. name .. ": input must be a tensor, found "}, "nn." .. name .. " refuses " .. type(v))
      end
    end
  end
end)

tap.group("a value that a forward forgot to return", function()
  local Block = nn.Module:extend("Block")
  function Block:init() self.act = nn.ReLU() end
  -- no tail call, because a tail call would remove this line from the call stack
  function Block:forward(x) local y = self.act(x); return y end
  local Net = nn.Module:extend("Net")
  function Net:init() self.blocks = {Block(), Block()} end
  function Net:forward(x)
    local function forgets() end
    self.blocks[1](x)
    return self.blocks[2](forgets())
  end
  local net = Net()
  tap.fails(function() net(rille.ones{2}) end, {"positions.lua:" .. debug.getinfo(Block.forward, "S").linedefined ..
    ": nn.ReLU: input must be a tensor, found nil; did the forward before it return a value? (in Net.blocks.1.act)"}, "the message names line and module")
  local missing = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
  missing[1].forward = function() end
  tap.fails(function() missing(rille.ones{2}) end, {"positions.lua:", "nn.ReLU: input must be a tensor, found nil", "(in nn.Sequential.1)"}, "also inside nn.Sequential")
end)

tap.done()
