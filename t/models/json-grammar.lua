-- json-grammar.lua - tests the option response_format = {type = "json_object"}: the automaton accepts the texts that jansson parses as
-- an object, and generated texts are such texts, or beginnings of them.
local tap = dofile("t/lib/tap.lua")
local rille = require "rille"
local automaton = require "rille.models.generation.json_automaton"
local json = require "rille.json"
local values = require "rille.chat.values"
local new_grammar = require "rille.models.generation.json_grammar"

local tokenizer = rille.tokenizer("t/golden/text/tokenizer.json")
local vocab = tokenizer.size + 5
local grammar = new_grammar(tokenizer, vocab)

local where = {placement = rille.placement("cpu", {0})}

-- Returns true if the grammar permits the id after the first n ids of the text.
local function permits(text, n, id)
  local set = grammar:allowed(text, n)
  if not set or set.mask and set.mask(where):totable()[1][id + 1] == 1 then return true end
  for _, one in ipairs(set.ids) do
    if one == id then return true end
  end
  return false
end

-- Returns "complete", "open" (a beginning of an object) or "refused" for a text, which is read token by token.
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
        if tap.share() then
          tried = tried + 1
          if (verdict(other) == "complete") ~= is_object(other) then odd[#odd + 1] = other end
        end
      end
    end
  end
  tap.ok(#odd == 0 and tried > 20, ("%d changed texts are complete if and only if they are JSON objects"):format(tried), table.concat(odd, " | "))
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

-- ---- masks of permitted ids, for a vocabulary with more ids than a list of permitted ids may have ----

tap.group("masks", function()
  local texts, pieces = {}, {'"', '",', '":', '": "', '"}', "a", "é", "\xc3", "\xa9", "\\", "\\n", "\\u", "00e9", "]", "{", " ", "1", "e5", "true", "x", "\n"}
  for byte = 0, 255 do texts[byte] = string.char(byte) end
  math.randomseed(7)
  while #texts < 1500 do
    local t = {}
    for i = 1, math.random(2, 4) do t[i] = math.random(3) == 1 and pieces[math.random(#pieces)] or string.char(math.random(97, 122)) end
    texts[#texts + 1] = table.concat(t)
  end
  local wide = {}
  function wide.encode(_, text) return {text:byte(1, -1)} end
  function wide.decode(_, ids)
    local t = {}
    for i, id in ipairs(ids) do t[i] = texts[id] end
    return table.concat(t)
  end
  local n, schema = #texts + 1, values.from_json('{"type": "object", "properties": {"s": {"type": "string"}, "l": {"type": "array", "items": {"enum": ["x", "é", 1]}}}}', "")
  local wrong, states, masks = {}, 0, 0
  for _, s in ipairs{false, schema} do
    local g = new_grammar(wide, n, s or nil)
    for _, doc in ipairs{'{"s": "a\\u00e9é b\\\\", "l": ["x", 1, "é"]}', '{"s":"","l":[]}'} do
      local state = g.automaton.start
      for i = 0, #doc - 1 do
        if i > 0 then state = automaton.step(g.automaton, state, doc:byte(i)) end
        local set = g:allowed({ids = {doc:byte(1, i)}, prompt = 0}, i)
        local row, permitted = set.mask and set.mask(where):totable()[1] or {}, {}
        states, masks = states + 1, masks + (set.mask and 1 or 0)
        for _, id in ipairs(set.ids) do permitted[id] = true end
        for id = 0, n - 1 do
          local after = state
          for k = 1, #texts[id] do after = after and automaton.step(g.automaton, after, texts[id]:byte(k)) end
          if (after and true or false) ~= (permitted[id] or row[id + 1] == 1) then wrong[#wrong + 1] = ("%s %q"):format(doc:sub(1, i), texts[id]) end
        end
      end
    end
  end
  tap.ok(#wrong == 0 and masks > 9 and masks < states, ("the ids of %d states, of which %d have masks, are those that the automaton permits"):format(states, masks), wrong[1])
  rille.manual_seed(5)
  local big = rille.models.llama.new{vocab = n, length = 64, layers = 1, heads = 2, width = 16, hidden = 24}
  for _, p in ipairs(big:parameters()) do rille.no_grad(function() p:mul_(6) end) end
  local how = {max_new_tokens = 30, response_format = format, tokenizer = wide, seed = 4, logit_bias = {[34] = 7}}
  local prompts, bad = {{1}, {2, 3}, {4}}, {}
  local rows = big:generate(prompts, how)
  local open = new_grammar(wide, n)
  for r, row in ipairs(rows) do
    local state = open.automaton.start
    for _, byte in ipairs{wide:decode(table.move(row, #prompts[r] + 1, #row, 1, {})):byte(1, -1)} do state = state and automaton.step(open.automaton, state, byte) end
    if not state then bad[#bad + 1] = wide:decode(row) end
  end
  tap.ok(#bad == 0, "texts of a batch begin JSON objects", bad[1])
  local alone = {}
  for r, prompt in ipairs(prompts) do alone[r] = big:generate({prompt}, tap.with(how, {temperature = 0}))[1] end
  tap.is(big:generate(prompts, tap.with(how, {temperature = 0})), alone, "and equal the text of each prompt alone")
end)

tap.group("messages", function()
  local function refuses(given, text, what) tap.fails(function() model:generate({{1}}, given) end, {text}, what) end
  refuses({response_format = format}, "the option response_format needs the option tokenizer", "no tokenizer")
  refuses({response_format = {type = "xml"}, tokenizer = tokenizer}, 'response_format must be {type = "json_object"} or {type = "json_schema", json_schema = {schema =}}, found "xml"', "another format")
  refuses({response_format = 3, tokenizer = tokenizer}, 'response_format must be {type = "json_object"} or {type = "json_schema", json_schema = {schema =}}, found 3', "a number")
  refuses({response_format = format, tokenizer = tokenizer, beams = 2}, "response_format cannot be combined with the options allowed, beams and min_new_tokens", "beams")
end)
tap.done()
