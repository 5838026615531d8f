-- tokenizer.lua - converts text to ids and back.
--
--   local tok = rille.tokenizer("tokenizer.json")                 also tekken.json, *.model (SentencePiece), *.gguf
--   rille.tokenizer("x.tiktoken", {pattern = "cl100k", special = {texts}})     or with given ids,
--                                                                 special = {["<|endoftext|>"] = 100257}
--   tok:encode("any bytes")  tok:decode{1, 2}  tok.size  tok:save("tokenizer.json")
--   tok:encode(text, {add_special_tokens = true})                adds the special tokens of the file's template
--   tok:decode(ids, {skip_special_tokens = true})
--   tok:chat({{role = "user", content = "Hello"}}, {add_generation_prompt = true})        a text, by the chat template
--   rille.tokenizer.train(texts, {size = 8192, special = {"<|endoftext|>"}})
--
-- In train, a string of the list is a text, and {file = path} is a file. pattern: the regular expression that splits words;
-- default: GPT-2's.

local rille = require "rille"
local check = require "rille.base.check"

local tokenizer = {}

local MOST <const> = 1 << 31 -- maximum bytes of a file

local function text_of(who, from)
  if type(from) == "string" then return from end
  check.that(type(from) == "table" and type(from.file) == "string", "%s: expected a string or {file = path}, found %s", who,
    check.shown(from))
  return rille._read(check.path(who, "the name of a file", from.file), MOST, who)
end

-- Checks the option special. Returns a list of texts unchanged; their ids will follow the last ordinary id. Returns a
-- table from text to id as two lists, texts and ids.
local function specials(who, special)
  if special == nil then return end
  check.that(type(special) == "table", "%s: special must be a list of strings or a map from strings to ids, found %s", who,
    check.shown(special))
  local texts = {}
  for text, id in pairs(special) do
    if type(text) == "string" then
      check.whole(who, ("the id of the special token '%s'"):format(text), id, 0)
      texts[#texts + 1] = text
    else
      check.that(math.type(text) == "integer" and text >= 1 and text <= #special,
        "%s: special must be a list of strings or a map from strings to ids, found the key %s", who, check.shown(text))
    end
  end
  if #texts == 0 then return special end
  check.that(#special == 0, "%s: special must be a list of strings or a map from strings to ids, found both", who)
  table.sort(texts)
  local ids = {}
  for i, text in ipairs(texts) do ids[i] = special[text] end
  return texts, ids
end

-- Returns a value as text for a message; a long string is shortened.
local function shortened(value)
  if type(value) ~= "string" or #value <= 60 then return check.shown(value) end
  return ("a string of %d bytes"):format(#value)
end

function tokenizer.train(texts, given)
  local who = "tokenizer.train"
  local o = check.options(who, given, {size = check.none, special = {}, pattern = check.none})
  check.count(who, "size", o.size)
  local special, ids = specials(who, o.special)
  check.that(not ids, "%s: special must be a list of strings: a trained tokenizer gives special tokens its last ids", who)
  if type(texts) == "table" and texts.file then texts = {texts} end
  check.that(type(texts) == "table", "%s: expected a list of strings or files, found %s%s", who, shortened(texts),
    type(texts) == "string" and "; write {file = path} for a file, or {string} to train on the string itself" or "")
  check.list(who, "the list of strings or files", texts)
  check.that(#texts > 0, "%s: expected a list of strings or files, found an empty one", who)
  local trainer = rille._trainer(o.pattern, special)
  for i = 1, #texts do trainer:add(text_of(who, texts[i])) end
  return trainer:finish(o.size)
end

-- Tokenizer -> folder of its file, which also contains the chat template. For a tokenizer of a GGUF file: the chat
-- templates themselves.
local folders = setmetatable({}, {__mode = "k"})

-- Converts messages to text by the chat template in the tokenizer's folder (chat.lua).
local function chat(tok, messages, given)
  local meta = debug.getmetatable(tok)
  check.that(meta and meta.__name == "rille.tokenizer", "chat: expected a tokenizer, found %s", check.shown(tok))
  return require("rille.chat.chat").apply(folders[tok], messages, given)
end

rille._tokenizer_methods.chat = check.limited("chat", chat)

return setmetatable(check.strict("tokenizer", tokenizer), {
  __call = check.limited_call("tokenizer", function(_, path, given)
    local o = check.options("tokenizer", given, {pattern = check.none, special = check.none})
    path = check.path("tokenizer", "the name of a file", path)
    if path:find("%.gguf$") then
      check.that(o.pattern == nil and o.special == nil, "tokenizer: %s: the options pattern and special are only for .tiktoken and .model files", path)
      local tok, templates = require "rille.tokenizer.gguf"(path)
      folders[tok] = templates
      return tok
    end
    local tok = rille._tokenizer(path, o.pattern, specials("tokenizer", o.special))
    folders[tok] = path:match("^(.*/)") or "./"
    return tok
  end),
  __index = function(_, name) check.fail("rille.tokenizer has no '%s'; it has train, and can be called", check.named(name)) end,
})
