-- pages.lua - the registry of help pages, from which ?name, rille.help, :help /word, the hint while typing, docs/,
-- the man page and the editor stubs are generated.
--
-- A row of the files in pages/ is a page. Fields:
--   sign    signature
--   text    purpose, one sentence on the first line; details follow
--   args    arguments, a line each: "name: type, default; meaning"
--   options true: the options of tensor creation are arguments, too
--   returns result
--   errors  cases that are errors
--   code    example: statements before the expression
--   shows   the example's expression
--   gives   the expression's value as text
--   see     names of related pages
--   words   search words that the text does not have (search.lua)
--   is      kind of object that a call returns ("tensor": the pages tensor.* describe it)
--   first   words accepted as the first argument
-- Only text, shows and gives are in every row. Each page states result and errors: a row itself, or the record of an
-- operator, which also has the formula, the arguments and the layouts. t/shell/help.lua checks the form, runs every example
-- and checks that every public name has a row.

local rille = require "rille"
local paint = require "rille.show.paint"
local search = require "rille.pages.search"
local topics = require "rille.pages.topics"

local OPTIONS = [[
dtype: "f32", "f64", "bf16", "f16", "i32", "i64", "u8" or "bool"
placement: devices of the tensor; default: device 0 of the default kind
sbp: layout over the placement, default "B"; shape and values are those of the whole tensor
requires_grad: boolean, default false; backward() accumulates x.grad
name: string for messages]]

local OPTION_ERRORS = "\nsbp must fit the shape and the mesh of the placement; requires_grad = true needs a float dtype"

-- Values that an option accepts, the same on all pages: option -> list of words.
local WORDS = {
  dtype = "f32|f64|bf16|f16|i32|i64|u8|bool",
  sbp = "S(0)|S(1)|S(2)|B|P|P(max)|P(min)",
  schedule = "gpipe|1f1b|zb-h1|zb-h2|interleaved|zb-v|v-half|v-min|auto",
  auto_parallel = "optimal|propagate|recursive|greedy",
  method = "1d|2d|2.5d|3d",
  quantize = "int8|int4|keep",
}

local pages, rows = {}, {}
local methods = debug.getmetatable(rille.tensor(0)).__methods
for _, file in ipairs{"functions", "layouts", "tensors", "operators", "nn", "layers", "modules", "steps", "training", "data", "models", "tuning"} do
  for name, row in pairs(require("rille.pages." .. file)) do
    assert(not rows[name], name)
    rows[name] = row
  end
end

-- Operators of shared libraries have a page, too, which is made from their record.
setmetatable(rows, {__index = function(_, name)
  local record = type(name) == "string" and rille._operator(name)
  return record and record.library and {text = "Calls an operator that rille.load_operators() loaded.", see = "load_operators"} or nil
end})

local function sorted(t)
  local names = {}
  for name in pairs(t) do names[#names + 1] = name end
  table.sort(names)
  return names
end

local function indented(text, by) return by .. text:gsub("\n", "\n" .. by) end

-- Returns the names of all pages.
function pages.names() return sorted(rows) end
function pages.row(name) return rows[name] end

local signs = {["+"] = "add", ["-"] = "sub", ["*"] = "mul", ["/"] = "div", ["^"] = "pow", ["//"] = "floor_divide", ["%"] = "remainder"}

local ending = {} -- last part of a name -> the name ("Linear" -> "nn.Linear"); false: not unique
for name in pairs(rows) do
  local last = name:match("[^.]*$")
  ending[last] = ending[last] == nil and name
end

-- Returns the name of a page: "nn.Linear" for "nn.Linear" and "rille.nn.Linear". If the ending is unique, also for
-- "Linear" and "net.fc1:Linear". nil: there is no such page.
function pages.find(name)
  name = signs[name] or name:gsub("^rille%.", "")
  if rows[name] then return name end
  local before, last = name:match("^(.-)[.:]?([^.:]*)$")
  -- models.gpt2.new is described on the page models.gpt2
  if rows[before] and (last == "new" or last == "load") then return before end
  if rows[last] then return last end
  -- x:add_(y) is described on the page add
  if last:match("._$") and rows[last:sub(1, -2)] then return last:sub(1, -2) end
  return ending[last] or nil
end

-- Returns the signature of a page, one line.
local signatures = {}
function pages.signature(name)
  local row = rows[name]
  signatures[name] = signatures[name] or row.sign or rille._record(name):match("[^\n]*")
  return signatures[name]
end

-- Returns the end of a message about a wrong call of the function `name`: "; write SIGNATURE"; "" if the function has
-- no page.
function pages.usage(name) return rows[name] and "; write " .. pages.signature(name) or "" end

-- Returns the first sentence of a page.
function pages.summary(name) return (rows[name].text:match("[^\n]*")) end

-- width of a page, and the column at which the texts of arguments and results begin
local WIDTH <const>, COLUMN <const> = 118, 17

-- Returns "  title          text", folded at the width; further lines are indented like the text.
local function part(title, text)
  local lines = {}
  for line in text:gmatch("[^\n]+") do lines[#lines + 1] = paint.wrap(line, WIDTH - COLUMN, "") end
  return ("  %-14s %s"):format(title, (table.concat(lines, "\n"):gsub("\n", "\n" .. (" "):rep(COLUMN))))
end

-- Returns lines "name: text" as two columns; a line that begins with a space continues the previous line.
local function columns(text)
  local lines = {}
  for line in text:gmatch("[^\n]+") do
    local name, rest = line:match("^([%w_., ]-): (.*)")
    local continued = not name or line:find("^ ")
    lines[#lines + 1] = continued and part("", line:match("^ *(.*)")) or part(name, rest)
  end
  return table.concat(lines, "\n")
end

-- Returns the body of a page as text: purpose, arguments, result and errors. The body of an operator's page also has
-- the layouts.
function pages.body(name)
  local row, parts = rows[name], {}
  local function add(text) parts[#parts + 1] = text ~= "" and text or nil end
  local formula, rest = (rille._record(name) or ""):match("^[^\n]*\n?([^\n]*)\n?(.*)")
  add(indented(row.text, "  "))
  add(formula ~= "" and indented(paint.wrap(formula, WIDTH - 2, ""), "  ") or "")
  if row.args then add(columns(row.args)) end
  if row.options then add(columns(OPTIONS)) end
  if row.returns then
    add(part("returns", row.returns))
    add(part("errors", row.errors .. (row.options and OPTION_ERRORS or "")))
  else
    add(rest)
  end
  return table.concat(parts, "\n")
end

-- Returns the example of a page as the user types it.
function pages.example(name)
  local row = rows[name]
  return (row.code and row.code .. "\n" or "") .. row.shows .. "   --> " .. row.gives
end

-- ---- options and arguments ----

-- Returns the options of a page: a list of {name =, words =}.
function pages.options(name)
  local list, seen = {}, {}
  local function add(option, words)
    if not seen[option] then list[#list + 1] = {name = option, words = words or WORDS[option]} end
    seen[option] = true
  end
  local record = rille._operator(name)
  for _, a in ipairs(record and record.attributes or {}) do add(a.name, WORDS[a.words] or a.words) end
  for braces in (rows[name].sign or ""):gmatch("%b{}") do
    for option in braces:gmatch("([%a_][%w_]*) =") do add(option) end
  end
  if record and not record.source and not rows[name].sign then add("strategy") end
  return list
end

-- Returns the list of words that the page `name` states for an option, or for the first argument (option = 1); nil:
-- none. Without a page, returns the option's words that are common to all pages.
function pages.words(name, option)
  local found = WORDS[option]
  if option == 1 then found = rows[name].first end
  for _, o in ipairs(name and option ~= 1 and pages.options(name) or {}) do
    if o.name == option then found = o.words end
  end
  if not found then return nil end
  local list = {}
  for word in found:gmatch("[^|]+") do list[#list + 1] = word end
  return list
end

-- Modules that are loaded on first use. pages.below() lists the names inside a module or a kind of object.
pages.modules = {"args", "autocast", "checkpoint", "data", "dpo_loss", "func", "io", "linear_cross_entropy", "models", "nn", "operator", "optim", "parallel", "per_rank", "plot",
  "recover", "scan", "snapshot", "stopping", "tokenizer", "train"}

local inner_of = {}
for name in pairs(rows) do
  local outer, inner = name:match("^(.*)%.([^.]*)$")
  if outer then
    inner_of[outer] = inner_of[outer] or {}
    table.insert(inner_of[outer], inner)
  end
end
function pages.below(name) return inner_of[name] or {} end

-- Returns "  ?name      text", folded at the width. A small indentation lets narrow terminals fold the text again.
local function entry(name, text)
  return ("  ?%-28s %s"):format(name, (paint.wrap(text, WIDTH - 32, ""):gsub("\n", "\n      ")))
end

-- Returns one line for each name inside a module; "" if there are none.
local function below(name)
  local lines = {}
  for _, inner in ipairs(sorted(rows)) do
    if inner:sub(1, #name + 1) == name .. "." then lines[#lines + 1] = "\n" .. entry(inner, pages.summary(inner)) end
  end
  return table.concat(lines)
end

local function related(name)
  return rows[name].see and "\n" .. part("see also", "?" .. rows[name].see:gsub(" ", ", ?")) or ""
end

local function whole(name)
  local example = rows[name].shows and "\n  example\n" .. indented(pages.example(name), "    ") or ""
  return pages.signature(name) .. "\n" .. pages.body(name) .. example .. related(name) .. below(name)
end

-- ---- search ----

local MOST <const> = 12 -- maximum number of pages that a search lists
local index, dictionary

local function fields_of(name)
  local row, record = rows[name], rille._record(name) or ""
  local arguments = record:match("^[^\n]*") .. "\n" .. (row.sign or "") .. "\n" .. (row.args or "")
  return {words = row.words, first = row.text:match("[^\n]*"), arguments = arguments,
    text = table.concat({row.text, row.returns or "", row.errors or "", record}, "\n")}
end

local function open_index()
  if not index then index, dictionary = search.index(sorted(rows), fields_of, topics) end
end

-- scopes in which the names of other programs are looked for, in this order (shell/bind/base/names.c)
local SCOPES <const> = {"tensor", "rille", "nn", "optim", "data", "init", "module", "field", "layer", "checkpoint", "option", "generate option"}

-- Returns Rille's equivalent of a name of another program, such as "write x:numel()"; nil: unknown. A method that ends
-- with _ has the equivalent of the method without _.
local function equivalent(name)
  for _, scope in ipairs(SCOPES) do
    local here = rille._elsewhere(scope, name) or rille._elsewhere(scope, (name:gsub("_$", "")))
    if here then return here end
  end
end

-- Returns the names of the pages that answer a question in words, best first. First are the pages of the question's
-- topics. If the question is a name of another program, the pages of the functions in Rille's equivalent follow, with
-- the page of the first method. Last are pages that contain the question's words.
function pages.search(question)
  open_index()
  local names, seen = {}, {}
  local function add(name)
    if name and not seen[name] and #names < MOST then names[#names + 1] = name end
    seen[name or ""] = true
  end
  for _, topic in ipairs(search.topics(topics, question)) do
    for name in topic.see:gmatch("%S+") do add(name) end
  end
  local here = equivalent(question) or ""
  for name in here:gmatch("%f[%w_]rille%.[%w_.]+") do add(pages.find(name)) end
  add(pages.find(here:match(":([%w_]+)%f[({]") or ""))
  for _, name in ipairs(search.find(index, question, MOST)) do add(name) end
  return names
end

-- Returns the words that a question asks for, such as "zeros_like" for "torch.zeros_like"; and Rille's equivalent, if
-- the question is a name of another program. Returns nil for other names with a dot.
local function understood(question)
  local last = question:match("^[%w_.:]+$") and question:match("[%w_]+$")
  local here = last and equivalent(last)
  if here or question:find("^torch%.") then return last, here end
  if question:find("[.:]") then return nil end
  return search.corrected(index, dictionary, question)
end

-- Returns the answer to a question, or nil: Rille's equivalent, the texts and chapters of its topics, and a list of pages.
-- Misspelt words are corrected. A name with a dot counts as a name, not as a question.
function pages.found(question)
  open_index()
  local meant, here = understood(question)
  if not meant then return nil end
  local lines = {here and indented(paint.wrap(meant .. ": " .. here, WIDTH - 2, ""), "  ")}
  for _, topic in ipairs(search.topics(topics, meant)) do
    lines[#lines + 1] = indented(paint.wrap(topic.text, WIDTH - 2, ""), "  ")
    if topic.chapter then lines[#lines + 1] = "  chapter: docs/guide/" .. topic.chapter end
  end
  for _, name in ipairs(pages.search(meant)) do lines[#lines + 1] = entry(name, pages.summary(name)) end
  local title = (here or question:find(meant, 1, true)) and "" or ("no page has the words '%s'; "):format(question)
  return #lines > 0 and ("%spages on '%s'\n%s"):format(title, meant, table.concat(lines, "\n")) or nil
end

-- Lists the pages whose names match a pattern in which stars stand for any text.
local function fitting(pattern)
  local lines = {}
  pattern = "^" .. pattern:lower():gsub("[^%w*_]", "%%%0"):gsub("%*", ".*") .. "$"
  for _, name in ipairs(sorted(rows)) do
    if name:lower():find(pattern) then lines[#lines + 1] = entry(name, pages.signature(name)) end
  end
  return #lines > 0 and table.concat(lines, "\n") or nil
end

-- Returns the page of a name as text, or nil. For "/word" and "*norm*", returns a list of pages.
function pages.page(name)
  if name:match("^/.") and not signs[name] then return pages.found(name:sub(2)) end
  if name:match("[%w_]") and name:find("*", 1, true) then return fitting(name) end
  local known = pages.find(name)
  return known and whole(known)
end

-- Returns all names, in lines of at most `columns` characters, with one paragraph per module or kind of object.
function pages.list(columns)
  local groups, outers = {[""] = {}}, {""}
  for _, name in ipairs(sorted(rows)) do
    local outer = name:match("^([^.]*)%.") or ""
    if not groups[outer] then groups[outer], outers[#outers + 1] = {}, outer end
    table.insert(groups[outer], name)
  end
  table.sort(outers)
  for k, outer in ipairs(outers) do outers[k] = paint.wrap(table.concat(groups[outer], " "), columns, "  ") end
  return table.concat(outers, "\n\n")
end

-- ---- pages of values ----

local function name_in(t, prefix, value)
  for name, v in next, t do
    if rawequal(v, value) and rows[prefix .. name] then return prefix .. name end
  end
end

-- Returns the name of the help page of one of Rille's functions, classes or modules; nil for other values.
local function page_of(value)
  local name = name_in(rille, "", value) or name_in(methods, "", value)
  for _, module in ipairs(pages.modules) do
    local t = rawget(rille, module)
    name = name or type(t) == "table" and name_in(t, module .. ".", value)
  end
  for _, outer in ipairs{"nn.init.", "nn.Module.", "sbp."} do
    local t = rille
    for part in outer:gmatch("%a+") do t = t and rawget(t, part) end
    name = name or t and name_in(t, outer, value)
  end
  return name
end

-- Returns the signature of one of Rille's functions or classes; nil for other values.
function pages.of(value)
  local name = page_of(value)
  return name and pages.signature(name)
end

-- Returns the help page of a value, or of the value's kind: a tensor, a graph, a layer.
function pages.about(value)
  local meta = debug.getmetatable(value)
  local kind = type(value) == "userdata" and tostring(meta.__name):match("^rille%.(.*)")
  local name = rows[kind] and kind or page_of(value) or type(value) == "table" and meta and page_of(meta)
  return name and whole(name)
end

-- Returns the page name nearest to a misspelt name; nil if no name is near.
function pages.nearest(name)
  return rille._nearest(rows, name) or ending[rille._nearest(ending, name:match("[^.:]*$"))] or nil
end

return pages
