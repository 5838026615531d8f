-- Tests that every public name has a page, and that the example on each page runs and prints the stated result.
local tap = dofile("t/lib/tap.lua")
local rille = require "rille"
local pages = require "rille.pages"

tap.group("examples", function()
  for _, name in ipairs(pages.names()) do
    local row = pages.row(name)
    local env = setmetatable({}, {__index = _G})
    local run, why = load((row.code or "") .. "\nreturn " .. row.shows, "=" .. name, "t", env)
    local good, got = pcall(run or error, run and nil or why)
    if env.dir then os.execute("rm -r '" .. env.dir .. "'") end -- remove a folder of checkpoints
    tap.is(good and tostring(got) or got, row.gives, "?" .. name .. ": the example prints the stated result")
    tap.ok(rille.page(name):find(row.shows .. "   --> " .. row.gives, 1, true), "?" .. name .. " shows the example")
  end
end)

-- ---- names ----

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
  local skip = {init = true, forward = true, describe = true, start = true, kind = true, check_ids = true}
  for name in pairs(class) do
    if not skip[name] and name:sub(1, 2) ~= "__" then needs(prefix .. name) end
  end
end

local function methods_of(object)
  local meta = debug.getmetatable(object)
  return meta.__methods or type(meta.__index) == "table" and meta.__index or {}
end

local modules = {"checkpoint", "data", "io", "models", "nn", "optim", "parallel", "tokenizer", "train"}
local others = {"args", "autocast", "plot", "recover", "snapshot"} -- loaded on first use

tap.group("names", function()
  for _, name in ipairs(modules) do count(name .. ".", rille[name]) needs(name) end
  for _, name in ipairs(others) do tap.ok(rille[name], name) end
  count("", rille)
  count("nn.init.", rille.nn.init)
  count("sbp.", rille.sbp)
  for name in pairs(debug.getmetatable(rille.ones(1)).__methods) do
    local base = name:gsub("_$", "") -- the page of add documents x:add_(y)
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
  for _, name in ipairs{"device", "ranks", "shape", "size"} do needs("placement." .. name) end
  for _, name in ipairs{"encode", "decode", "save", "size"} do needs("tokenizer." .. name) end
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
  tap.ok(not pcall(rille.page, "/no such word at all"), "a search without result is an error")
  tap.ok(not pcall(rille.page, "nn.Nothing"), "an unknown name is an error")
  tap.ok(not pcall(rille.page, ""), "an empty name is an error")
  tap.ok(pages.signature("softmax"):find("^softmax%(x, axis"), "an operator's signature is that of its record")
end)
tap.done()
