-- Tests that no public function ignores extra arguments: the error must report the expected number of arguments.
local tap = dofile("t/lib/tap.lua")
local nn = rille.nn

-- Functions that accept any number of arguments, because they pass the arguments on or make a list of them.
-- x:backward is among them, because its message for extra arguments says more (t/shell/errors.lua tests the message).
local open = {}
for name in ("tensor:backward grad no_grad per_micro_batch enable_grad autocast reshape permute expand zeros ones rand randn empty slice concat stack transpose nn.Sequential explain plan eval"):gmatch("%S+") do
  open[name] = true
end

local function many(first)
  local list = {first}
  for i = #list + 1, 40 do list[i] = false end
  return table.unpack(list, 1, 40)
end

local function refuses(name, fn, first)
  if open[name] then return end
  local ok, message = pcall(fn, many(first))
  message = tostring(message)
  tap.ok(not ok and (message:find("expected [%w ]+ arguments?, found %d") or message:find(" is a table, not a function; it has: ", 1, true)), name .. " refuses 40 arguments",
    ok and "they were accepted" or message)
end

local public = dofile("t/lib/public.lua")

tap.group("functions", function()
  local operators = {}
  for _, name in ipairs(rille.operators()) do operators[name] = true end
  operators.cat, operators.to_global = true, true
  for _, name in ipairs{"explain", "plan"} do
    local x = rille.ones(2)
    tap.fails(function() rille[name](x, x, 5, 6) end, {name .. ": expected at most", "found 4"}, name .. " accepts tensors alone")
  end
  public.each(rille, "", function(name, fn) if not operators[name] then refuses(name, fn) end end)
  for _, name in ipairs{"args", "plot", "recover", "scan", "snapshot", "stopping", "parallel", "tokenizer"} do refuses(name, rille[name]) end
  for _, module in ipairs{"nn", "nn.init", "optim", "data", "io", "models", "checkpoint", "parallel", "tokenizer", "train", "sbp"} do
    local t = rille
    for part in module:gmatch("%w+") do t = t[part] end
    public.each(t, module .. ".", refuses)
  end
  for _, model in ipairs{"gpt2", "llama", "moe", "resnet"} do public.each(rille.models[model], "models." .. model .. ".", refuses) end
end)

tap.group("functions that create tensors", function()
  local forms = {full = {{{2}, 1}}, eye = {{2}, {2, 3}}, arange = {{2}, {1, 2}, {1, 2, 1}}, linspace = {{1, 2, 3}}, randint = {{0, 2, {2}}, {0, 2, 2}}}
  for _, name in ipairs{"zeros", "ones", "rand", "randn", "empty"} do forms[name] = {{{2}}, {2}, {2, 3}} end
  for name, calls in pairs(forms) do
    for _, call in ipairs(calls) do
      local function with(...)
        local list = {table.unpack(call)}
        for i, v in ipairs{...} do list[#call + i] = v end
        return pcall(rille[name], table.unpack(list))
      end
      tap.ok(with() and with{dtype = "f32"}, ("%s accepts options after %d arguments"):format(name, #call))
      local good, message = with({dtype = "f32"}, 1)
      tap.ok(not good and message:find(name .. ": options must be the last argument, found 1 after them", 1, true), name .. " refuses an argument after the options",
        message)
    end
  end
end)

tap.group("grad", function()
  local x = rille.ones({1}, {requires_grad = true})
  tap.fails(function() return rille.grad(x * 2, {x}, {create_graph = true}) end, {"grad: expected at most 2 arguments, found 3"}, "an argument after the list is refused")
end)

tap.group("operators", function()
  for _, name in ipairs(rille.operators()) do
    local ok, message = pcall(rille[name], many(rille.ones{2}))
    tap.ok(not ok, name .. " refuses 40 arguments", message)
  end
end)

tap.group("methods", function()
  local operators = {}
  for _, name in ipairs(rille.operators()) do operators[name] = true end
  for kind, object in pairs(public.objects()) do
    public.methods(kind, object, function(name, fn)
      local method = name:match(":(.*)")
      if kind ~= "tensor" or method ~= "to" and not operators[method:gsub("_$", "")] then refuses(name, fn, object) end
    end)
  end
end)

tap.group("layers", function()
  for _, call in ipairs{
    {"nn.Linear", nn.Linear(2, 2), rille.ones{1, 2}}, {"nn.ReLU", nn.ReLU(), rille.ones{2}}, {"nn.Dropout", nn.Dropout(), rille.ones{2}},
    {"nn.MSELoss", nn.MSELoss(), rille.ones{2}, rille.ones{2}}, {"nn.Sequential", nn.Sequential(nn.ReLU()), rille.ones{2}},
  } do
    local name, layer = call[1], call[2]
    tap.ok(pcall(layer, table.unpack(call, 3)), name .. " accepts the right number of arguments")
    call[#call + 1] = 5
    tap.fails(function() layer(table.unpack(call, 3)) end, {"arity.lua:", name, "expected at most"}, name .. ": one argument too many fails")
  end
end)

tap.done()
