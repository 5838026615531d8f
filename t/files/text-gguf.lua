-- text-gguf.lua - tests the tokenizer of a GGUF file. It must return the ids of the same tokenizer in a
-- tokenizer.json. For each kind of tokenizer, the digests of ids over 2500 strings must equal those in kinds.lua,
-- gguf_tokenizers.lua and gguf_patterns.lua.

local tap = dofile("t/lib/tap.lua")
local lib = dofile("t/lib/strings.lua")
local gguf = dofile("t/lib/gguf.lua")
local golden = dofile("t/golden/text/kinds.lua")
local json = require "rille.json"
local path = os.tmpname()
os.remove(path)
path = path .. ".gguf"

local function read(name) local f <close> = assert(io.open(name, "rb")); return f:read("a") end

-- Writes a GGUF file. fields: {kind, value} by key of tokenizer.ggml.
local function write(fields)
  local list = {{"general.architecture", "s", "none"}}
  for key, value in tap.sorted(fields) do list[#list + 1] = {key == "chat_template" and "tokenizer.chat_template" or "tokenizer.ggml." .. key, value[1], value[2]} end
  gguf.write(path, list, {})
  return path
end

local tiktoken = path .. ".tiktoken"
tap.write(tiktoken, lib.tiktoken())

local function same(tok, want, name)
  local bad = lib.differ(tok, golden, want)
  tap.ok(not bad, name .. ": the same ids and texts for every string", bad)
end

local function case_of(name)
  for _, case in ipairs(golden.json) do
    if case.name == name then return case end
  end
end

-- Returns two lists by id, counted from 1: the tokens and their types. special: types by token, of control tokens and
-- of "<unk>" or "[UNK]".
local function tokens_of(vocab, special)
  local tokens, types = {}, {}
  for token, id in pairs(vocab) do tokens[id + 1] = token end
  for i, token in ipairs(tokens) do types[i] = special[token] or token:find("^<0x%x%x>$") and 6 or 1 end
  return tokens, types
end

-- The byte-level BPE model in t/golden/text/tokenizer.json.
local bytes = json.decode(read("t/golden/text/tokenizer.json")).model
local merges = tap.list(bytes.merges, function(m) return type(m) == "table" and table.concat(m, " ") or m end)
local function byte_level(pre, more)
  local tokens, types = tokens_of(bytes.vocab, {})
  local fields = tap.with({model = {"s", "gpt2"}, pre = {"s", pre}, tokens = {"s", tokens}, token_type = {"i", types}, merges = {"s", merges}}, more)
  return rille.tokenizer(write(fields))
end

-- Returns fields of the same vocabulary with the control token <s> and the user-defined token "user" at its end.
local function with_special()
  local tokens, types = tokens_of(bytes.vocab, {})
  tokens[#tokens + 1], tokens[#tokens + 2], types[#types + 1], types[#types + 2] = "<s>", "user", 3, 4
  return {tokens = {"s", tokens}, token_type = {"i", types}, bos_token_id = {"u", #tokens - 2}}
end

tap.group("gpt2", function()
  if tap.share() then same(byte_level("falcon"), case_of("falcon"), "falcon") end
  for name, want in tap.sorted(dofile("t/golden/text/gguf_patterns.lua")) do
    if tap.share() then same(byte_level(name), want, name) end
  end
  -- Tries the names of patterns that GGUF files contain. Each name stands for a pattern that a .tiktoken file can
  -- use, too. Some names also stand for a further step that splits the text.
  local texts = dofile("t/golden/text/tokenizer.lua")
  for _, pair in ipairs{{"gpt-2", "gpt2"}, {"llama-bpe", "cl100k"}, {"qwen2", "qwen"}, {"gpt-4o", "o200k"}} do
    local tok, other, wrong, count = byte_level(pair[1]), rille.tokenizer(tiktoken, {pattern = pair[2]}), 0, 0
    for seed = 0, 300 do
      local text = lib.generated(texts, seed, true)
      local a, b = tok:encode(text), other:encode(text)
      local same_text = tok:decode(a) == text -- qwen2 normalizes the text, so decoding may return another text
      if same_text and #a ~= #b then wrong = wrong + 1 end
      count = count + (same_text and 1 or 0)
    end
    tap.ok(wrong == 0 and count > 90 and (count > 300 or pair[1] == "qwen2"), pair[1] .. ": texts are divided as by the pattern " .. pair[2], wrong .. " of " .. count)
  end
  -- Makes a tokenizer by each known name. Encoding and decoding must return the original text.
  local wrong = {}
  local _, why = pcall(byte_level, "none")
  -- raw: tokenizers that are no byte-level BPE
  local count, raw = 0, {gemma4 = true, ["granite-embed-multi-311m"] = true, ["sarvam-moe"] = true}
  for name in why:match("expected one of: (.*)"):gmatch("[^%s,]+") do
    local tok, text = byte_level(name), "Hello wörld 12345  's\n\n 你好!!"
    count = count + 1
    if not raw[name] and tok:decode(tok:encode(text)) ~= text then wrong[#wrong + 1] = name end
  end
  tap.ok(count > 80 and #wrong == 0, "every name of a pattern that llama.cpp knows decodes to the text", count .. " " .. table.concat(wrong, " "))
  local special, n = byte_level("llama-bpe", with_special()), #with_special().tokens[2]
  local a, b = special:encode("a")[1], special:encode("b")[1]
  tap.is({special:encode("a<s>user"), special:encode("b", {add_special_tokens = true}), special:decode({n - 2, n - 1, a}, {skip_special_tokens = true})},
    {{a, n - 2, n - 1}, {n - 2, b}, "usera"}, "control and user-defined tokens are matched; a text of this kind begins with bos")
end)

-- Returns the pieces of a SentencePiece model: tokens, scores, types.
local function pieces_of(name)
  local data, at, tokens, scores, types = read(lib.models[name]), 1, {}, {}, {}
  local function varint(s, i)
    local value, shift = 0, 0
    while true do
      local b = s:byte(i)
      value, shift, i = value | (b & 127) << shift, shift + 7, i + 1
      if b < 128 then return value, i end
    end
  end
  while at <= #data do
    local key, n
    key, at = varint(data, at)
    n, at = varint(data, at)
    if key == 10 then
      local piece, i, kind = data:sub(at, at + n - 1), 1, 1
      while i <= #piece do
        local field, length
        field, i = varint(piece, i)
        if field == 10 then
          length, i = varint(piece, i)
          tokens[#tokens + 1] = piece:sub(i, i + length - 1)
          i = i + length
        elseif field == 21 then
          scores[#tokens] = string.unpack("<f", piece, i)
          i = i + 4
        else
          kind, i = varint(piece, i)
        end
      end
      types[#tokens] = kind
    end
    at = at + (key & 7 == 2 and n or 0)
  end
  return tokens, scores, types
end

tap.group("llama", function()
  for _, case in ipairs(dofile("t/golden/text/gguf_tokenizers.lua")) do
    if tap.share() then
      local tokens, scores, types = pieces_of(case.name)
      local tok = rille.tokenizer(write{model = {"s", "llama"}, tokens = {"s", tokens}, scores = {"f", scores}, token_type = {"i", types},
        unknown_token_id = {"u", 0}, bos_token_id = {"u", 1}, add_space_prefix = {"b", case.prefix}})
      same(tok, case, ("%s, %s prefix"):format(case.name, case.prefix and "with a" or "without a"))
      if not case.prefix then
        local file, merges_of_file = path .. ".json", {}
        tok:save(file)
        for i, m in ipairs(json.load(file).model.merges) do merges_of_file[i] = type(m) == "table" and table.concat(m, " ") or m end
        os.remove(file)
        local fields = {model = {"s", "gemma4"}, tokens = {"s", tokens}, token_type = {"i", types}, merges = {"s", merges_of_file},
          unknown_token_id = {"u", 0}, bos_token_id = {"u", 1}}
        same(rille.tokenizer(write(fields)), case, case.name .. ", with the merges in the file")
        fields.model, fields.pre = {"s", "gpt2"}, {"s", "sarvam-moe"}
        tap.is(rille.tokenizer(write(fields)):encode "the thing\n\n in", tok:encode "the thing\n\n in", case.name .. ", by the name of the pattern")
      end
    end
  end
end)

tap.group("bert", function()
  local case = case_of("bert")
  local model = json.decode(golden.models.word)
  local special = {["[UNK]"] = 3, ["[SEP]"] = 3, ["[CLS]"] = 1, ["[PAD]"] = 1}
  local tokens, types = tokens_of(model.vocab, special)
  for i, token in ipairs(tokens) do
    if not special[token] then tokens[i] = token:sub(1, 2) == "##" and token:sub(3) or "\u{2581}" .. token end
    if token == "[CLS]" or token == "[PAD]" then types[i] = 5 end
  end
  local tok = rille.tokenizer(write{model = {"s", "bert"}, tokens = {"s", tokens}, token_type = {"i", types}, unknown_token_id = {"u", 1},
    bos_token_id = {"u", 2}, seperator_token_id = {"u", 3}})
  -- The vocabulary in kinds.lua limits words to 30 characters. GGUF cannot store this limit, so a GGUF tokenizer uses
  -- transformers' default of 100. The expected ids are computed with that limit.
  local file, wrong = path .. ".json", 0
  local f = assert(io.open(file, "w"))
  f:write(('{"added_tokens":%s,"normalizer":%s,"pre_tokenizer":%s,"decoder":%s,"model":%s}'):format(case.added_tokens, case.normalizer,
    case.pre_tokenizer, case.decoder, (golden.models.word:gsub('"max_input_chars_per_word":30', '"max_input_chars_per_word":100'))))
  f:close()
  local other = rille.tokenizer(file)
  os.remove(file)
  for seed = 0, tap.share() and golden.count - 1 or 99 do
    local text = lib.generated(golden, seed, true)
    local a, b = tok:encode(text), other:encode(text)
    if table.concat(a, " ") ~= table.concat(b, " ") or tok:decode(a) ~= other:decode(b) then wrong = wrong + 1 end
  end
  tap.is(wrong, 0, "the same ids and texts for every string")
  tap.is(tok:encode("the", {add_special_tokens = true}), {2, tok:encode("the")[1], 3}, "a text is put between [CLS] and [SEP]")
end)

tap.group("t5", function()
  local case = case_of("t5")
  local model, charsmap = json.decode(golden.models.unigram), {}
  local tokens, scores, types = {}, {}, {}
  for i, entry in ipairs(model.vocab) do tokens[i], scores[i], types[i] = entry[1], entry[2], i == 1 and 2 or i <= 3 and 3 or 1 end
  local value, bits = 0, 0
  for c in case.normalizer:match('"precompiled_charsmap":"([^"=]*)'):gmatch(".") do
    local at = ("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"):find(c, 1, true) - 1
    value, bits = (value << 6 | at) & 0xffffff, bits + 6
    if bits >= 8 then
      bits = bits - 8
      charsmap[#charsmap + 1] = value >> bits & 255
    end
  end
  local tok = rille.tokenizer(write{model = {"s", "t5"}, tokens = {"s", tokens}, scores = {"f", scores}, token_type = {"i", types},
    precompiled_charsmap = {"u", charsmap}, remove_extra_whitespaces = {"b", true}, unknown_token_id = {"u", 0}, eos_token_id = {"u", 2}})
  same(tok, case, "t5")
  tap.is(tok:encode("the", {add_special_tokens = true})[#tok:encode("the") + 1], 2, "a text ends with eos")
end)

tap.group("chat templates", function()
  local messages = {{role = "user", content = "Hi"}}
  tap.fails(function() byte_level("llama-bpe", with_special()):chat(messages) end, {path, "has no chat template"}, "a file without a template")
  local fields = with_special()
  fields.chat_template = {"s", "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"}
  tap.is(byte_level("llama-bpe", fields):chat(messages), "<s>[user]Hi", "the template of the file is used")
end)

tap.group("damaged", function()
  tap.fails(function() byte_level("llama-bpe", {merges = {"s", {"a zzzz"}}}) end, {path, "zzzz"}, "a merge of unknown tokens")
  tap.fails(function() byte_level("llama-bpe", {tokens = {"s", {"a", "b"}}, token_type = {"i", {1, 1}}, merges = {"s", {}}}) end,
    {path, "no token for byte 0"}, "a vocabulary without all bytes")
  byte_level("qwen2")
  local whole, wrong = read(path), {}
  for at = 0, #whole - 1, 127 + math.random(0, 9) do
    local f = assert(io.open(path, "wb"))
    f:write(whole:sub(1, at))
    f:close()
    local good, why = pcall(rille.tokenizer, path)
    if good or not why:find(path, 1, true) then wrong[#wrong + 1] = at end
  end
  tap.is(wrong, {}, "a truncated file is refused by name")
end)

tap.group("errors", function()
  local function refused(fields, words, name)
    fields.tokens = fields.tokens or {"s", {"a", "b"}}
    tap.fails(function() rille.tokenizer(write(fields)) end, {path, table.unpack(words)}, name)
  end
  refused({}, {"unknown tokenizer.ggml.model nil; expected one of: bert, gemma4, gpt2, llama, t5"}, "no model")
  refused({model = {"s", "rwkv"}}, {'unknown tokenizer.ggml.model "rwkv"'}, "another model")
  refused({model = {"s", "gpt2"}, pre = {"s", "x"}, merges = {"s", {}}}, {'unknown tokenizer.ggml.pre "x"; expected one of: a.x-4.0, afmoe, bailingmoe'}, "another pattern")
  refused({model = {"s", "gpt2"}}, {"tokenizer.ggml.merges is missing"}, "no merges")
  refused({model = {"s", "llama"}}, {"tokenizer.ggml.scores must have a number for each of 2 tokens, found 0"}, "no scores")
  refused({model = {"s", "llama"}, scores = {"f", {1.0}}}, {"each of 2 tokens, found 1"}, "few scores")
  refused({model = {"s", "llama"}, scores = {"f", {1.0, 2.0}}, tokens = {"s", {"a", "a"}}}, {'the token "a" occurs twice'}, "a token twice")
  refused({model = {"s", "llama"}, scores = {"f", {1.0, 2.0}}, bos_token_id = {"u", 9}}, {"bos_token_id must be the id of a token, found 9"}, "another id")
  refused({model = {"s", "llama"}, scores = {"s", {"x", "y"}}}, {"scores"}, "scores that are texts")
  tap.fails(function() rille.tokenizer(path, {pattern = "gpt2"}) end, {path, "only for .tiktoken"}, "a pattern")
end)
os.remove(path)
os.remove(tiktoken)

tap.done()
