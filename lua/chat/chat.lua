-- chat.lua - chat templates: turns messages into the text that a model expects.
--
--   text = tok:chat({{role = "user", content = "Hello"}}, {add_generation_prompt = true})
--
-- The template is Jinja (Python's template language, as transformers uses it). The template is read from the
-- tokenizer's folder: chat_template.jinja, or chat_template in tokenizer_config.json. lexer.lua and parser.lua read a
-- template, evaluate.lua runs it with the functions of library.lua.

local rille = require "rille"
local check = require "rille.base.check"
local evaluate = require "rille.chat.evaluate"
local json = require "rille.json"
local parser = require "rille.chat.parser"
local values = require "rille.chat.values"

local chat = {}

local LARGEST <const> = 1 << 22 -- maximum bytes of a template file

-- Returns the content of a file in the tokenizer's folder; nil: the file does not exist.
local function beside(folder, name, who)
  return rille._kind(folder .. name) and rille._read(folder .. name, LARGEST, who)
end

-- Returns the text of a special token in tokenizer_config.json. v: a string, or an object with the field `content`.
local function token_text(v)
  if type(v) == "table" and v ~= json.null then v = v.content end
  return type(v) == "string" and v or nil
end

-- Reads the templates and special tokens of a tokenizer's folder: {named = {[name] = text}, tokens = {bos_token =
-- text, ...}}.
local function read_folder(folder, who)
  local found = {named = {}, tokens = {}, sources = {}}
  local text = beside(folder, "tokenizer_config.json", who)
  local config = text and json.decode(text, folder .. "tokenizer_config.json") or {}
  check.that(type(config) == "table", "%s: %stokenizer_config.json must be a JSON object", who, folder)
  for name, v in pairs(config) do
    if type(name) == "string" and name:find("_token$") then found.tokens[name] = token_text(v) end
  end
  local own = config.chat_template
  for _, one in ipairs(type(own) == "table" and own or {{name = "default", template = own}}) do
    if type(one) == "table" and type(one.name) == "string" and type(one.template) == "string" then
      found.named[one.name], found.sources[one.name] = one.template, folder .. "tokenizer_config.json"
    end
  end
  local file = beside(folder, "chat_template.jinja", who)
  if file then found.named.default, found.sources.default = file, folder .. "chat_template.jinja" end
  return found
end

-- Chooses a template. Returns its text, and a name for error messages.
local function choose(found, folder, o, who)
  local name = o.template or (o.tools ~= nil and found.named.tool_use and "tool_use") or "default"
  check.that(type(name) == "string", "%s: template must be a string, found %s", who, check.shown(name))
  if found.named[name] then return found.named[name], found.sources[name] end
  if o.template then return o.template, "template" end
  check.fail("%s: %s has no chat template: expected chat_template.jinja, or chat_template in tokenizer_config.json; pass {template = text}",
    who, type(folder) == "string" and folder or found.path or "the tokenizer")
end

-- Converts an argument to a template value. The argument is a Lua value or a JSON text.
local function converted(who, name, v)
  local good, result = check.try(function()
    if type(v) == "string" then return values.from_json(v, name) end
    return values.from_lua(v)
  end)
  if good then return result end
  check.fail("%s: %s: %s", who, name, type(result) == "table" and result.text or tostring(result))
end

-- Calls fn. If fn raises a template error, raises an error with the template's file name and line instead.
local function guarded(who, source, fn, ...)
  local results = table.pack(check.try(fn, ...))
  if results[1] then return results[2] end
  local why = results[2]
  if type(why) ~= "table" then
    check.fail("%s: %s: %s", who, source, tostring(why):gsub("^.-:%d+: ", ""))
  end
  check.fail("%s: %s: line %d: %s", who, source, why.line or 1, why.text)
end

local parsed = setmetatable({}, {__mode = "v"}) -- text of a template -> its parsed tree

local options = {add_generation_prompt = false, answers = false, tools = check.none, documents = check.none, template = check.none, variables = {}}

-- Returns the variables that the template can read.
local function names_of(who, found, messages, o)
  local names = {}
  for name, text in pairs(found.tokens) do names[name] = text end
  check.that(type(o.variables) == "table", "%s: variables must be a table from names to values, found %s", who, check.shown(o.variables))
  for name, v in pairs(o.variables) do
    check.that(type(name) == "string", "%s: variables must be a table from names to values, found the key %s", who, check.shown(name))
    names[name] = type(v) == "string" and v or converted(who, name, v)
  end
  names.messages = converted(who, "messages", messages)
  check.that(values.kind(names.messages) == "list", "%s: messages must be a list such as {{role = \"user\", content = \"Hello\"}}", who)
  names.tools = o.tools == nil and values.none or converted(who, "tools", o.tools)
  names.documents = o.documents == nil and values.none or converted(who, "documents", o.documents)
  names.add_generation_prompt = o.add_generation_prompt
  return names
end

-- Converts messages to text. With the option `answers`, also returns the positions of the assistant's text, for a template
-- with generation blocks. folder: path of the tokenizer's folder, with a slash at its end, or a result of
-- read_folder; nil: none.
function chat.apply(folder, messages, given)
  local who = "chat"
  local o = check.options(who, given, options)
  check.that(type(messages) == "table" or type(messages) == "string",
    "%s: messages must be a list such as {{role = \"user\", content = \"Hello\"}}, or JSON text; found %s", who, check.shown(messages))
  local found = folder or {named = {}, tokens = {}}
  if type(folder) == "string" then found = read_folder(folder, who) end
  local text, source = choose(found, folder, o, who)
  local tree = parsed[text] or guarded(who, source, parser.parse, text)
  parsed[text] = tree
  local result = guarded(who, source, evaluate, tree, names_of(who, found, messages, o))
  if o.answers then return result.text, result.answers end
  return result.text
end

return chat
