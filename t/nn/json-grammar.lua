-- json-grammar.lua - tests the option response_format = {type = "json_object"}: the automaton accepts the texts that jansson parses as
-- an object, and generated texts are such texts, or beginnings of them.
local tap = dofile("t/lib/tap.lua")
local rille = require "rille"
local json = require "rille.json"
local new_grammar = require "rille.models.json_grammar"

local tokenizer = rille.tokenizer("t/golden/tokenizer.json")
local vocab = tokenizer.size + 5
local grammar = new_grammar(tokenizer, vocab)

-- Returns true if the grammar permits the id after the first n ids of the text.
local function permits(text, n, id)
  local adds = {}
  local set = grammar:edit(text, n, adds)
  if set then return set[id] ~= nil end
  return adds[id] == nil
end

-- Returns "complete", "open" or "refused" for a text, token by token.
local function verdict(s)
  local ids = tokenizer:encode(s)
  local text = {ids = ids, prompt = 0}
  for n = 0, #ids - 1 do
    local before = {ids = table.move(ids, 1, n, 1, {}), prompt = 0, grammar_states = text.grammar_states}
    if n > 0 and grammar:is_complete(before) or not permits(text, n, ids[n + 1]) then return "refused" end
  end
  return grammar:is_complete(text) and "complete" or "open"
end

local function is_object(s)
  local good, value = pcall(json.decode, s)
  return good and type(value) == "table" and s:find "^%s*{" ~= nil
end

tap.group("the automaton", function()
  local texts = {'{}', ' {"a": 1}', '{"a":[true,false,null,[],{}],"bc":-0.5e+2}', '{"k\\u00e9y": "v\\"\\n", "n": 10.25}', '{"x": {"y": [1, 2E3, "é"]}}'}
  local odd, tried = {}, 0
  for _, s in ipairs(texts) do
    tap.is({verdict(s), is_object(s)}, {"complete", true}, s .. " is complete")
    for i = 1, #s do
      local head, tail = s:sub(1, i - 1), s:sub(i + 1)
      if i > 1 and verdict(head) ~= "open" then odd[#odd + 1] = head end
      for c in ('{}[]:,"\\0 5.e-tu\1\n'):gmatch "." do
        local other = head .. c .. tail
        if tap.share(i) then
          tried = tried + 1
          if (verdict(other) == "complete") ~= is_object(other) then odd[#odd + 1] = other end
        end
      end
    end
  end
  tap.ok(#odd == 0 and tried > 50, ("%d changed texts are complete if and only if they are JSON objects"):format(tried), table.concat(odd, " | "))
  tap.is({verdict('{"a":' .. (" "):rep(40)), verdict '{}x', verdict "[1]"}, {"refused", "refused", "refused"}, "many spaces, a text after the object, and an array are refused")
end)

-- ---- generation ----

rille.manual_seed(3)
local function new_model(width)
  local m = rille.models.llama.new{vocab = vocab, length = 96, layers = 1, heads = 2, width = width, hidden = 24}
  for _, p in ipairs(m:parameters()) do rille.no_grad(function() p:mul_(6) end) end
  return m
end
local model, draft = new_model(16), new_model(8)
local format = {type = "json_object"}

tap.group("generation", function()
  local prompts, wrong, complete = {}, {}, 0
  for i = 1, 6 do prompts[i] = tokenizer:encode("text " .. i) end
  local how = {max_new_tokens = 40, response_format = format, tokenizer = tokenizer, seed = 4, logprobs = 0}
  for _, byte in ipairs{"}", "]", '"'} do how.logit_bias = how.logit_bias or {}; how.logit_bias[tokenizer:encode(byte)[1]] = 8 end
  local rows, more = model:generate(prompts, how)
  for r, row in ipairs(rows) do
    local s = tokenizer:decode(table.move(row, #prompts[r] + 1, #row, 1, {}))
    local ended = more[r].ended == "stop"
    complete = complete + (ended and 1 or 0)
    if ended ~= is_object(s) or not ended and verdict(s) ~= "open" then wrong[#wrong + 1] = s end
  end
  tap.ok(#wrong == 0 and complete > 0, ("%d of %d texts end as JSON objects, and all others begin one"):format(complete, #rows), table.concat(wrong, " | "))
  how.draft = draft
  tap.is((model:generate(prompts, how)), rows, "a draft model changes no text")
end)

tap.group("messages", function()
  local function refuses(given, text, what) tap.fails(function() model:generate({{1}}, given) end, {text}, what) end
  refuses({response_format = format}, "the option response_format needs the option tokenizer", "no tokenizer")
  refuses({response_format = {type = "xml"}, tokenizer = tokenizer}, 'response_format must be {type = "json_object"} or {type = "json_schema", json_schema = {schema =}}, found "xml"', "another format")
  refuses({response_format = 3, tokenizer = tokenizer}, 'response_format must be {type = "json_object"} or {type = "json_schema", json_schema = {schema =}}, found 3', "a number")
  refuses({response_format = format, tokenizer = tokenizer, beams = 2}, "response_format cannot be combined with the options allowed, beams and min_new_tokens", "beams")
end)
tap.done()
