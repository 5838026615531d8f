-- text-chat.lua - tests chat templates against the texts that transformers makes, and their errors and limits.
-- t/golden/chat.py makes the templates, conversations and digests.

local tap = dofile("t/lib/tap.lua")
local golden = dofile("t/golden/chat.lua")
local json = require "rille.json"
local dir = os.tmpname()
os.remove(dir)
os.execute("mkdir '" .. dir .. "'")
local function write(name, s) local f = assert(io.open(dir .. "/" .. name, "wb")); f:write(s); f:close(); return dir .. "/" .. name end

local tok = rille.tokenizer.train({"abab"}, {size = 258})
local tokens = json.decode(golden.tokens)

local function digest(text)
  local h = 1469598103934665603
  for i = 1, #text do h = (h ~ text:byte(i)) * 1099511628211 end
  return h
end

-- Returns the options of a row: tools and documents are JSON text, which keeps the order of names.
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
    for name, row in pairs(case.rows) do
      for i, want in ipairs(row) do
        local good, text = pcall(tok.chat, tok, golden.conversations[name], options_of(golden.options[i], case.text))
        local same = good and digest(text) == want or not good and (want == false or type(want) == "string" and text:find(want, 1, true))
        if not same then wrong[#wrong + 1] = ("%s, options %d: %s"):format(name, i, text) end
      end
    end
    tap.is(wrong, {}, case.name .. ": every text and every error")
  end
end)

os.execute("rm -rf '" .. dir .. "'")
tap.done()
