-- Every public name of the modules written in Lua has a page, and the example on it runs and gives what it says.
local tap = dofile("t/tap.lua")
local rille = require "rille"
local pages = require "rille.pages"

local known = {}
tap.group("examples", function()
  for _, name in ipairs(pages.names()) do
    known[name] = true
    local code, shows, gives = pages.example(name)
    local env = setmetatable({}, {__index = _G})
    local run, why = load(code .. "\nreturn " .. shows, "=" .. name, "t", env)
    local good, got = pcall(run or error, run and nil or why)
    if env.dir then os.execute("rm -r '" .. env.dir .. "'") end -- a folder of checkpoints
    tap.is(good and tostring(got) or got, gives, "?" .. name .. ": the example gives what it says")
  end
end)

tap.group("examples of what is written in C", function()
  for name, e in pairs(require("rille.examples").all) do
    local good, got = pcall(load("return " .. e[1], "=" .. name, "t"))
    tap.is(good and tostring(got) or got, e[2], "?" .. name .. ": the example gives what it says")
    tap.ok(rille.page(name):find(e[1] .. "   --> " .. e[2], 1, true), "?" .. name .. " has it")
  end
  local bare = {}
  for _, name in ipairs(rille.operators()) do
    if not require("rille.examples").all[name] then bare[#bare + 1] = name end
  end
  tap.is(table.concat(bare, " "), "", "each operator has one")
end)

tap.group("names", function()
  local public, missing = 0, {}
  local function count(prefix, t)
    for name in pairs(t) do
      public = public + 1
      if not known[prefix .. "." .. name] then missing[#missing + 1] = prefix .. "." .. name end
    end
  end
  for _, module in ipairs{"nn", "optim", "data", "models", "parallel", "checkpoint", "tokenizer", "io", "train"} do
    count(module, rille[module])
    tap.ok(pcall(rille.page, module), module .. " has a page")
  end
  count("nn.init", rille.nn.init)
  tap.is(table.concat(missing, " "), "", ("each of %d public names has a page"):format(public))
  tap.ok(public > 55, "there are many", public)
end)

tap.group("functions and methods", function()
  local examples, bare, public = require("rille.examples").all, {}, 0
  for _, where in ipairs{rille, debug.getmetatable(rille.ones(1)).__methods} do
    for name in pairs(where) do
      local base = name:gsub("_$", "") -- x:add_(y) is on the page of add
      if name:sub(1, 1) ~= "_" then
        public = public + 1
        if not (examples[name] or examples[base] or known[name]) then
          bare[#bare + 1] = name
        end
      end
    end
  end
  tap.is(table.concat(bare, " "), "", ("each of %d has a page with an example"):format(public))
  for _, name in ipairs{"args", "autocast", "parallel", "plot", "recover", "snapshot"} do
    tap.ok(known[name] or examples[name], name .. ", loaded when it is asked for, too")
  end
end)

tap.group("asking", function()
  tap.is(rille.page("Linear"), rille.page("rille.nn.Linear"), "the last part of a name is enough where it is clear")
  tap.ok(rille.page("nn"):find("?nn.Linear", 1, true), "a module's page names what is in it")
  tap.ok(rille.page("/softmax"):find("?softmax", 1, true), "/word finds pages")
  tap.ok(not pcall(rille.page, "/no such word at all"), "a word that is nowhere is an error")
  tap.ok(not pcall(rille.page, "nn.Nothing"), "so is a name that is none")
end)
tap.done()
