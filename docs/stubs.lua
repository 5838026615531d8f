-- stubs.lua - prints definitions for the Lua language server (LuaLS), for completion and checks in editors, from the registry of
-- help and the operators' records. The build runs it (cmake/install.cmake), for share/rille/luals/rille.lua.
--
--   rille docs/stubs.lua > rille.lua

local rille = require "rille"
local pages = require "rille.pages"

local class_of = {tensor = "rille.Tensor", placement = "rille.Placement", graph = "rille.Graph", optimizer = "rille.Optimizer",
  loader = "rille.Loader", tokenizer = "rille.Tokenizer", model = "rille.Model", scheduler = "rille.Scheduler", progress = "rille.Progress"}
local modules = {"nn", "optim", "data", "models", "parallel", "checkpoint", "tokenizer", "io", "train", "sbp"}
local keyword = {["in"] = "n_in", ["function"] = "fn", ["end"] = "to"}

-- type of a parameter, by its name on the pages
local type_of = {shape = "integer[]|integer", sizes = "integer[]", path = "string", dir = "string", file = "string", text = "string", name = "string",
  kind = "string", ranks = "table", rank = "integer", dtype = "rille.dtype", fn = "function", n = "integer", x = "rille.Tensor", y = "rille.Tensor",
  ids = "rille.Tensor", params = "rille.Tensor[]", model = "rille.nn.Module", module = "rille.nn.Module", step = "rille.Graph", options = "table"}
local field_type = {shape = "integer[]", ndim = "integer", dtype = "rille.dtype", placement = "rille.Placement", sbp = "string", device = "string",
  requires_grad = "boolean", grad = "rille.Tensor?", name = "string?", is_leaf = "boolean", ranks = "integer[]", size = "integer", steps = "integer",
  lr = "number", params = "rille.Tensor[]", groups = "table[]", config = "table", training = "boolean"}

local function comment(text)
  for line in (text .. "\n"):gmatch("([^\n]*)\n") do print("---" .. line) end
end

-- Splits text at the commas outside of brackets.
local function parts(text)
  local list, depth, from = {}, 0, 1
  for i = 1, #text do
    local c = text:sub(i, i)
    if c:find("[({]") then depth = depth + 1 elseif c:find("[)}]") then depth = depth - 1
    elseif c == "," and depth == 0 then
      list[#list + 1], from = text:sub(from, i - 1), i + 1
    end
  end
  list[#list + 1] = text:sub(from)
  return list
end

-- Returns the parameters of a call: "rille.randint(lo, hi, shape, {dtype =})".
local function parameters(sign)
  local inside = sign:match("^[%w_.:= ]*(%b())")
  if not inside then return sign:match("^[%w_.:= ]*%b{}") and {{name = "options", type = "table"}} or {} end
  local list = {}
  local optional = false
  for _, part in ipairs(parts((inside:sub(2, -2):gsub("%[", "\1"):gsub("%]", "")))) do
    local p = part:gsub("\1", ""):match("^%s*(.-)%s*$")
    if p == "..." then list[#list + 1] = {name = "...", type = "any"}
    elseif p ~= "" then
      local name = p:match("^{") and "options" or p:match("^([%a_][%w_]*)") or "value"
      optional = optional or p:find("=", 1, true) ~= nil or name == "options"
      list[#list + 1] = {name = keyword[name] or name, type = type_of[name] or "any", optional = optional}
    end
    optional = optional or part:find("\1", 1, true) ~= nil
  end
  return list
end

local function of_record(record, method)
  local list = {}
  for i, o in ipairs(record.operands) do
    local kind = o.list and "rille.Tensor[]" or o.number and "rille.Tensor|number" or "rille.Tensor"
    if not (method and i == 1) then list[#list + 1] = {name = o.name, type = kind, optional = o.optional} end
  end
  for _, a in ipairs(record.attributes) do
    list[#list + 1] = {name = keyword[a.name] or a.name, type = (a.name == "dtype" and "rille.dtype" or a.type) .. "|table", optional = true}
  end
  if record.source then list[#list + 1] = {name = "options", type = "rille.Options", optional = true} end
  return list
end

local function emit(name, params, result, text)
  comment(text)
  local names, seen = {}, {}
  for _, p in ipairs(params) do
    while seen[p.name] do p.name = p.name .. "_" end
    seen[p.name] = true
    print(("---@param %s%s %s"):format(p.name, p.optional and p.name ~= "..." and "?" or "", p.type))
    names[#names + 1] = p.name
  end
  for _, r in ipairs(result) do print("---@return " .. r) end
  print(("function %s(%s) end\n"):format(name, table.concat(names, ", ")))
end

local function results(name, record)
  local is = pages.row(name).is
  if is then return {class_of[is]} end
  local list = {}
  for i = 1, record and record.results or 0 do list[i] = "rille.Tensor" end
  return list
end

-- Returns a page as Markdown: purpose, a list of the arguments, result, errors, example.
local function text_of(name)
  local row = pages.row(name)
  local parts = {row.text}
  local function add(format, text) if text then parts[#parts + 1] = format:format(text) end end
  add("%s", row.args and ("\n" .. row.args):gsub("\n([%w_., ]-): ", "\n- `%1`: "))
  add("\nReturns %s", row.returns)
  add("\nErrors: %s", row.errors)
  add("\n```lua\n%s\n```", pages.example(name))
  return table.concat(parts, "\n")
end

print([[
---@meta rille
-- Made by docs/stubs.lua.

---@alias rille.dtype "f32"|"f64"|"bf16"|"f16"|"i32"|"i64"|"u8"|"bool"
---@alias rille.sbp string|string[]

---@class rille.Options
---@field dtype? rille.dtype
---@field placement? rille.Placement
---@field sbp? rille.sbp
---@field requires_grad? boolean
---@field name? string

---@class rille
local rille = {}
]])

-- ---- what objects have ----

local operators = {"add", "sub", "mul", "div", "idiv", "mod", "pow"}
local function emit_class(prefix, class, more)
  print(("---@class %s%s"):format(class, more or ""))
  if prefix == "tensor" then
    for _, op in ipairs(operators) do print(("---@operator %s(rille.Tensor|number): rille.Tensor"):format(op)) end
    print("---@operator unm: rille.Tensor")
    print("---@operator len: integer")
    print("---@field [integer] rille.Tensor")
  elseif prefix == "graph" then
    print("---@overload fun(...): ...")
  end
  local methods = {}
  local inner = pages.below(prefix)
  table.sort(inner)
  for _, name in ipairs(inner) do
    local sign = pages.signature(prefix .. "." .. name)
    if sign:find("[:.]" .. name .. "%(") then methods[#methods + 1] = name
    else print(("---@field %s %s %s"):format(name, field_type[name] or "any", pages.summary(prefix .. "." .. name))) end
  end
  local var = class:match("(%w+)$")
  print(("local %s = {}\n"):format(var))
  for _, name in ipairs(methods) do
    local page = prefix .. "." .. name
    local sign = pages.signature(page):gsub("^[%w_]+ = ", "")
    emit(var .. ":" .. name, parameters(sign), results(page), text_of(page))
  end
  return var
end

local vars = {}
for _, prefix in ipairs{"placement", "tensor", "graph", "optimizer", "loader", "tokenizer", "model", "scheduler", "progress"} do
  vars[prefix] = emit_class(prefix, class_of[prefix], prefix == "model" and ": rille.nn.Module" or nil)
end

-- methods of tensors: operators, and functions with a page without a prefix
local methods = debug.getmetatable(rille.tensor(0)).__methods
local sorted = {}
for name in pairs(methods) do if name:sub(1, 1) ~= "_" then sorted[#sorted + 1] = name end end
table.sort(sorted)
for _, name in ipairs(sorted) do
  local page = pages.row(name) and name or name:gsub("_$", "")
  local row, record = pages.row(page), rille._operator(page)
  local params = record and not row.sign and of_record(record, true) or parameters(row.sign and row.sign:match("x:.*") or row.sign or "")
  emit("Tensor:" .. name, params, results(page, record), name == page and text_of(page) or ("x:%s in place."):format(page))
end

-- ---- functions and modules ----

local is_module = {}
for _, name in ipairs(modules) do is_module[name] = true end

local function emit_function(full, page)
  local row, record = pages.row(page), rille._operator(page)
  local params = record and not row.sign and of_record(record) or parameters((row.sign or ""):gsub("^[%w_]+ = ", ""))
  for _, p in ipairs(params) do
    if p.name == "options" and row.options then p.type = "rille.Options" end
  end
  emit(full, params, results(page, record), text_of(page))
end

-- Prints the methods of a class of modules.
local function emit_methods(class)
  local inner = pages.below(class)
  table.sort(inner)
  for _, name in ipairs(inner) do
    local page = class .. "." .. name
    local call = pages.signature(page):match(":[%w_]+%b()") or pages.signature(page):match(":[%w_]+%b{}")
    if call then emit("rille." .. class .. ":" .. name, parameters(call), results(page), text_of(page)) end
  end
end

-- Returns the annotation of an object that can be called, by the signature on its page.
local function overload_of(page, result)
  local list = {}
  for _, p in ipairs(parameters(pages.signature(page))) do
    list[#list + 1] = ("%s%s: %s"):format(p.name, p.optional and p.name ~= "..." and "?" or "", p.type)
  end
  return ("---@overload fun(%s): %s"):format(table.concat(list, ", "), result)
end

-- Prints a table in a module: an architecture with the functions new and load, or a function with functions in it.
local function emit_table(page, found)
  print(("---@class rille.%s"):format(page))
  if page:find("^models") and not rawget(found, "new") then
    comment(text_of(page))
    print(overload_of(page, "rille.Model"))
  end
  print(("rille.%s = {}\n"):format(page))
  if rawget(found, "new") then emit(("rille.%s.new"):format(page), parameters(pages.signature(page)), {"rille.Model"}, text_of(page)) end
  if rawget(found, "load") then emit(("rille.%s.load"):format(page), parameters("load(path[, {}])"), {"rille.Model"}, text_of(page)) end
  local inner = page:find("^models") and pages.below(page) or {}
  table.sort(inner)
  for _, name in ipairs(inner) do emit_function(("rille.%s.%s"):format(page, name), page .. "." .. name) end
end

local function emit_module(prefix)
  local inner = pages.below(prefix)
  table.sort(inner)
  for _, name in ipairs(inner) do
    local page = prefix .. "." .. name
    local value = rille[prefix:match("^%w+")]
    local found = prefix == "nn.init" and value.init[name] or rawget(value, name)
    if found == nil then -- of the objects that the module gives
    elseif prefix == "nn" and type(found) == "table" and name ~= "init" then
      print(("---@class rille.nn.%s%s"):format(name, name == "Module" and "" or ": rille.nn.Module"))
      comment(text_of(page))
      if name ~= "Module" then print(overload_of(page, "rille.nn." .. name)) end
      print(("rille.nn.%s = {}\n"):format(name))
      emit_methods(page)
    elseif type(found) == "table" then
      emit_table(page, found)
    elseif type(found) == "string" then
      print(("---@type string\nrille.%s = nil\n"):format(page))
    else
      emit_function("rille." .. page, page)
    end
  end
end

local top, loaded_later = {}, {}
for _, name in ipairs(pages.modules) do loaded_later[name] = true end
for _, name in ipairs(pages.names()) do
  if not name:find(".", 1, true) and (is_module[name] or rawget(rille, name) or loaded_later[name]) then top[#top + 1] = name end
end
for _, name in ipairs(top) do
  if is_module[name] then
    print(("---@class rille.%s"):format(name))
    comment(pages.summary(name))
    print(("rille.%s = {}\n"):format(name))
  else
    emit_function("rille." .. name, name)
  end
end
for _, name in ipairs(modules) do emit_module(name) end
emit_module("nn.init")
print("return rille")
