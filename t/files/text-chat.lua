-- text-chat.lua - tests chat templates: texts must equal those of transformers; errors must be clear, and limits
-- hold. t/golden/text/chat.py makes the templates, conversations and digests.

local tap = dofile("t/lib/tap.lua")
local golden = dofile("t/golden/text/chat.lua")
local json = require "rille.json"
local templates, conversations = dofile("t/golden/text/chat-templates.lua"), {}
for _, case in ipairs(golden.templates) do case.text = templates[case.name] end
for _, c in ipairs(golden.conversations) do conversations[c.name] = c.text end
local dir = tap.folder()
local function write(name, s) return tap.write(dir .. "/" .. name, s) end

local tok = rille.tokenizer.train({"abab"}, {size = 258})
local tokens = json.decode(golden.tokens)

local function digest(text)
  local h = 1469598103934665603
  for i = 1, #text do h = (h ~ text:byte(i)) * 1099511628211 end
  return h
end

-- Returns the options of a row. Tools and documents are JSON texts, because a Lua table does not keep the order of
-- names.
local function options_of(text, template)
  local o = json.decode(text)
  local parts = {add_generation_prompt = o.add_generation_prompt, template = template, variables = o.variables or {}}
  for name, value in pairs(tokens) do parts.variables[name] = value end
  if o.tools then parts.tools = text:match('"tools": (%b[])') end
  if o.documents then parts.documents = text:match('"documents": (%b[])') end
  return parts
end

tap.group("the texts of transformers", function()
  for _, case in ipairs(golden.templates) do
    local wrong = {}
    for i, want in ipairs(case.texts) do
      local c, o = golden.conversations[(i - 1) // #golden.options + 1], (i - 1) % #golden.options + 1
      local good, text = pcall(tok.chat, tok, c.text, options_of(golden.options[o], case.text))
      local same = good and digest(text) == want or not good and (want == false or type(want) == "string" and text:find(want, 1, true))
      if not same then wrong[#wrong + 1] = ("%s, options %d: %s"):format(c.name, o, text) end
    end
    tap.is(#case.texts, #golden.conversations * #golden.options, case.name .. ": every conversation and options")
    tap.is(wrong, {}, case.name .. ": every text and every error")
  end
end)

local hello = {{role = "user", content = "Hi"}}
local function render(template, messages, o)
  o = o or {}
  o.template = template
  return tok:chat(messages or hello, o)
end

tap.group("messages and options", function()
  local list = "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}"
  tap.is(render(list, {{role = "user", content = "a"}, {role = "assistant", content = "b"}}), "user:a;assistant:b;", "messages are a list of tables")
  tap.is(render(list, '[{"role": "user", "content": "\\u00e9"}]'), "user:é;", "messages are JSON text")
  local tools = {{type = "function", ["function"] = {parameters = {properties = {b = {type = "string"}, a = {type = "integer"}}, type = "object", required = {"a"}},
    description = "D", name = "f"}}}
  local json_text = '[{"type": "function", "function": {"name": "f", "description": "D", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a"]}}}]'
  tap.is(render("{{ tools|tojson }}", hello, {tools = tools}), json_text, "names of tools that are Lua tables have the usual order")
  tap.is(render("{{ tools|tojson }}", hello, {tools = '[{"z": 1, "a": {}, "l": []}]'}), '[{"z": 1, "a": {}, "l": []}]', "names of JSON text keep their order")
  tap.is(render("{{ tools is none }} {{ documents is none }} {{ add_generation_prompt }} {{ x.y }}", hello, {variables = {x = {y = 5}}}), "True True False 5", "variables are seen")
  tap.is(render("{{ n is none }}", hello, {variables = {n = json.null}}), "True", "json.null is none")
  local itself = {}
  itself[1] = itself
  for what, o in pairs{["variables must be a table"] = {variables = 5}, ["must be true or false"] = {add_generation_prompt = 1}, ["unknown option 'tool'"] = {tool = {}},
    ["tools: "] = {tools = "[}"}, ["nested more than"] = {variables = {x = itself}}, ["must not be a function"] = {variables = {x = print}}} do
    tap.fails(function() render("", hello, o) end, {what}, "refused: " .. what)
  end
  tap.fails(function() tok:chat(5) end, {"messages must be a list", "5"}, "messages of another type are refused")
  tap.fails(function() tok:chat(hello) end, {"no chat template", "chat_template.jinja", "{template = text}"}, "a tokenizer without a template says so")
  tap.fails(function() rille.tokenizer.train({"a b"}, {size = 258}).chat(5, hello) end, {"expected a tokenizer", "5"}, "another object is refused")
end)

tap.group("files", function()
  tok:save(dir .. "/tokenizer.json")
  local read = rille.tokenizer(dir .. "/tokenizer.json")
  tap.fails(function() read:chat(hello) end, {dir, "no chat template"}, "a folder without a template says so")
  write("tokenizer_config.json", '{"bos_token": {"content": "<b>"}, "eos_token": "<e>", "pad_token": null, "chat_template": "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ pad_token }}"}')
  tap.is(read:chat(hello), "<b>Hi<e>", "tokenizer_config.json has the template and the special tokens")
  write("tokenizer_config.json", '{"chat_template": [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T"}, {"name": "rag", "template": "R{{ documents|length }}"}]}')
  tap.is({read:chat(hello), read:chat(hello, {tools = {}}), read:chat(hello, {template = "rag", documents = {{text = "x"}}})}, {"D", "T", "R1"}, "templates have names")
  write("chat_template.jinja", "line\n{{ 1 / 0 }}")
  tap.fails(function() read:chat(hello) end, {dir .. "/chat_template.jinja: line 2: division by zero"}, "chat_template.jinja is preferred, and named in errors")
  write("tokenizer_config.json", "{")
  tap.fails(function() read:chat(hello) end, {"tokenizer_config.json", "JSON"}, "a damaged file is refused")
end)

tap.group("errors name the line", function()
  for _, case in ipairs{{"a\n{{ x", "line 2: a tag has no end"}, {"{% if x %}\n", "line 1: the block that begins here has no endif"}, {"{% for x %}", "line 1: expected 'in'"},
    {"\n\n{% foo %}", "line 3: unknown statement 'foo'"}, {"{{ 1 + }}", "expected an expression, found the end of the tag"}, {"{{ 'a }}", "string that begins with ' has no end"},
    {"{{ x|nofilter }}", "unknown filter 'nofilter'"}, {"{{ x is notest }}", "unknown test 'notest'"}, {"{{ a.b }}", "'a' is undefined"}, {"{{ messages[9].x }}", "is undefined"},
    {"{# x", "comment has no end"}, {"{{ 1 2 }}", "unexpected '2'"}, {"{{ @ }}", "unexpected character '@'"}, {"{{ messages.append(1) }}", "is undefined"},
    {"{{ raise_exception('No.') }}", "line 1: No."}, {"{{ 'a' + 1 }}", "cannot join values of kinds str and int"}, {"{% set x.y = 1 %}", "must be a namespace"},
    {"{{ 1() }}", "cannot be called"}, {"{{ range(1000000) }}", "at most 100000 numbers"}, {"{% endif %}", "unknown statement 'endif'"}, {"{{ {[1]: 2} }}", "a key must be a string"},
    {"{{ ", "a tag has no end"}, {"{{}}", "empty tag"}, {"{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "at most 1 arguments"}, {"{{ 1 < 'a' }}", "cannot be compared"}} do
    tap.fails(function() render(case[1]) end, {"chat: template: line ", case[2]}, case[1])
  end
end)

-- Checks two limits of templates: a template cannot access Lua's globals, and it always ends.
tap.group("limits", function()
  for _, name in ipairs{"os", "io", "print", "rille", "require", "_G", "_ENV", "string", "load", "debug"} do
    tap.is(render("{{ " .. name .. " is defined }} {{ ''." .. name .. " is defined }} {{ messages." .. name .. " is defined }}"), "False False False", name .. " is not seen")
  end
  tap.is(render("{{ ''.__index is defined }} {{ messages.__name is defined }} {{ ({})['of'] is defined }} {{ ({}).keys is callable }}"), "False False False True", "parts of values are not seen")
  local loop = "{% for a in range(90000) %}"
  for what, template in tap.sorted{["steps"] = loop .. loop .. loop .. "{% endfor %}{% endfor %}{% endfor %}", ["runs more than"] = "{% set s = 'a' * 9000000 %}" .. loop .. "{% if 'b' in s %}{% endif %}{% endfor %}",
    ["compares more than"] = "{% set l = range(90000)|list %}" .. loop .. "{% set k = l|sort %}{% endfor %}",
    ["calls of macros are nested"] = "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    ["bytes"] = "{% set ns = namespace(x='aaaaaaaaaa') %}" .. loop .. "{% set ns.x = ns.x ~ ns.x %}{% endfor %}", ["more than 67108864 bytes"] = "{{ 'ab' * 99999999999 }}",
    ["values"] = "{% set ns = namespace(x=[1]) %}{% for a in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
    ["recursive loops"] = "{% set l = [1] %}{% for a in l recursive %}{{ loop(l) }}{% endfor %}", ["blocks are nested"] = "{{ " .. ("("):rep(5000) .. "1" .. (")"):rep(5000) .. " }}"} do
    if tap.share() then tap.fails(function() render(template) end, {"chat: template: line 1", what}, "a limit of " .. what) end
  end
end)

-- Calls every filter, test and method on each kind of value, with each kind of value as each argument, by position and by
-- name. A call must return a value, or fail with an error that names the line.
tap.group("arguments", function()
  local library = require "rille.chat.library"
  local kinds, wrong, tried = {"none", "nothing", "true", "-1", "9223372036854775807", "1.5", "''", "'a b'", "[]", "['b', 'a']", "[1, none]", "[2, 1]", "{}", "{'a': 1}", "('a', 1)", "range(2)", "m.upper"}, {}, 0
  local names = {"sep", "maxsplit", "chars", "default_value", "boolean", "attribute", "d", "old", "new", "count", "indent", "separators", "sort_keys", "width",
    "first", "blank", "default", "precision", "start", "case_sensitive", "by", "reverse", "linecount", "fill_with"}
  local function try(text)
    tried = tried + 1
    local good, why = pcall(render, "{% set m = 'x' %}{{ " .. text .. " }}")
    if not good and not why:find("chat: template: line %d+: ") then wrong[#wrong + 1] = text .. ": " .. why end
  end
  local forms = {}
  for name in tap.sorted(library.filters) do forms[#forms + 1] = "(%s)|" .. name .. "(%s)" end
  for name in tap.sorted(library.tests) do
    if name:find("^%a") then forms[#forms + 1] = "(%s) is " .. name .. "(%s)" end
  end
  for _, methods in tap.sorted(library.methods) do
    for name in tap.sorted(methods) do forms[#forms + 1] = "(%s)." .. name .. "(%s)" end
  end
  for name in tap.sorted(library.functions) do forms[#forms + 1] = "[%s, " .. name .. "(%s)]" end
  for i, form in ipairs(forms) do
    for k, one in ipairs(kinds) do
      if tap.share() then
        for _, value in ipairs(kinds) do
          for _, list in ipairs{"%s", "'a', %s", "'a', 'b', %s"} do try(form:format(value, list:format(one))) end
        end
        for j, name in ipairs(names) do try(form:format(kinds[(i + j + k) % #kinds + 1], name .. "=" .. one)) end
      end
    end
  end
  tap.is(wrong, {}, ("%d calls return a value, or are errors with a line"):format(tried))
end)

-- Truncates the templates and changes single bytes. A damaged template must render, or fail with an error that names
-- its line.
tap.group("damage", function()
  local lib = dofile("t/lib/strings.lua")
  local draw, wrong, tried = lib.generator(tonumber(os.getenv("SEED")) or 3), {}, 0
  local function try(text)
    tried = tried + 1
    local good, why = pcall(render, text, conversations.tools)
    if not good and not why:find("chat: template: line %d+: ") then wrong[#wrong + 1] = why end
  end
  for _, case in ipairs(golden.templates) do
    if tap.share() then
      local s = case.text
      for _ = 1, os.getenv("RILLE_LONG") and 5000 or 40 do
        local t = draw(3) == 0 and s:sub(1, draw(#s + 1)) or s
        for _ = 1, 1 + draw(3) do
          local at = 1 + draw(#t + 1)
          t = t:sub(1, at - 1) .. ("{}%#-|.()[]'\"\n,:+ ax1"):sub(1 + draw(22), -1):sub(1, 1) .. t:sub(at + draw(3))
        end
        try(t)
      end
    end
  end
  local short = golden.templates[2].text
  for cut = 0, #short do try(short:sub(1, cut)) end
  tap.is(wrong, {}, ("%d damaged templates render, or are errors with a line"):format(tried))
end)

tap.done()
