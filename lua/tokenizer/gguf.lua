-- gguf.lua - the tokenizer of a GGUF file: converts the file's vocabulary to the JSON of a tokenizer.json.
--
-- tokenizer.ggml.model is gpt2 (byte-level BPE), gemma4 (BPE of characters), llama (SentencePiece's BPE), bert (WordPiece) or t5 (Unigram). A
-- file does not store the patterns by which a byte-level BPE splits texts: tokenizer.ggml.pre has only a name, and
-- the table `patterns` has the patterns for each name.

local rille = require "rille"
local check = require "rille.base.check"
local gguf = require "rille.models.loading.gguf"
local json = require "rille.json"

local NORMAL <const>, UNKNOWN <const>, CONTROL <const>, USER <const>, BYTE <const> = 1, 2, 3, 4, 6
local MARK <const> = "\u{2581}" -- character that stands for a space in tokens

-- ---- patterns that split texts ----

local contractions = [[(?i:'s|'t|'re|'ve|'m|'ll|'d)]]
local spaces = [[\s*[\r\n]+|\s+(?!\S)|\s+]]
local upper, lower = [=[[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]]=], [=[[\p{Ll}\p{Lm}\p{Lo}\p{M}]]=]

local function words(digits, ending)
  return [[[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}]] .. digits .. [[| ?[^\s\p{L}\p{N}]+[\r\n]*|]] .. (ending or spaces)
end
local function english(...) return contractions .. "|" .. words(...) end

local function cased(ending, digits)
  return upper .. "*" .. lower .. "+" .. ending .. "|" .. upper .. "+" .. lower .. "*" .. ending .. [[|\p{N}]] .. digits ..
    [[| ?[^\s\p{L}\p{N}]+[\r\n/]*|]] .. spaces
end

-- Regular expressions of the letters in upper-case and in lower-case words, without Chinese characters.
local upper_other = [=[(?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])]=]
local lower_other = [=[(?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])]=]
local ascii_words = [=[[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+]=]
local kanji = "[\u{4e00}-\u{9fa5}\u{3040}-\u{309f}\u{30a0}-\u{30ff}]+"
-- Regular expression for white space with line breaks, and then for runs of 512, 256, ... spaces, longest first.
local runs = [[\s*[\r\n]+]]
for _, n in ipairs{512, 256, 128, 64, 32, 16, 8, 4, "1,2"} do runs = ("%s|\\s{%s}(?!\\S)"):format(runs, n) end

local function split(pattern)
  return {type = "Split", pattern = {Regex = pattern}, behavior = "Isolated", invert = false}
end

-- Value of tokenizer.ggml.pre -> how texts are split. List entries are regular expressions, or "gpt2" for GPT-2's.
-- Each expression splits the pieces that the previous one made. Other fields:
--   gpt2   true: GPT-2's expression splits last
--   nfc    true: texts are first normalized to NFC
--   whole  true: a piece that is itself a token is not divided into smaller tokens
--   bos    true: texts begin with the token for a text's beginning, unless the file says otherwise
--   steps  pre-tokenizers of a tokenizer.json, in place of the list
--   raw    true: tokens consist of characters, with MARK for a space, as in SentencePiece's models, not of bytes
local patterns = {}
for names, how in pairs{
  ["gpt-2 phi-2 jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code roberta-bpe gigachat a.x-4.0 mellum jais trillion granite-docling exaone4"] = {gpt2 = true},
  ["mpt olmo modern-bert"] = {gpt2 = true, nfc = true},
  ["llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano"] = {english"{1,3}", whole = true, bos = true},
  ["dbrx smaug-bpe chatglm-bpe"] = {english"{1,3}"},
  ["glm4 glm5"] = {english"{1,3}", whole = true},
  ["qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2"] = {english"", nfc = true},
  ["hunyuan solar-open grok-2"] = {english""},
  ufakzeka = {words""},
  laguna = {[=[[^\n]+|[\n]+]=], english""},
  minicpm5 = {[[\p{N}{1,3}]], english"+", whole = true},
  ["jais-2"] = {english("{1,3}", runs .. [[|\s{1}]])},
  qwen35 = {contractions .. [[|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|]] .. spaces, nfc = true},
  ["starcoder refact command-r smollm codeshell exaone minerva-7b mellum2"] = {[[\p{N}]], gpt2 = true},
  falcon = {steps = {{type = "Punctuation", behavior = "Contiguous"}, {type = "ByteLevel", add_prefix_space = false, trim_offsets = true,
    use_regex = true}, {type = "Digits", individual_digits = false}, split"[0-9][0-9][0-9]"}},
  default = {[=[[\p{P}\$\+<=>\^~\|]+]=], "gpt2", [[\p{N}+]], "[0-9][0-9][0-9]"},
  ["deepseek-coder"] = {[=[[\r\n]]=], [[\s?\p{L}+]], [[\s?\p{P}+]], "[\u{4e00}-\u{9fa5}\u{800}-\u{4e00}\u{ac00}-\u{d7ff}]+", [[\p{N}]]},
  ["deepseek-llm"] = {[=[[\r\n]]=], "\\s?(?:(?![\u{560}-\u{588}\u{10c7}-\u{10ff}\u{1c80}-\u{1c88}\u{2d00}-\u{2d2d}" ..
    "\u{a790}-\u{ab68}\u{10570}-\u{105bc}\u{16e40}-\u{1df1e}])[\\p{Lu}\\p{Ll}\\p{Lt}])+",
    "\\s?[!-/:-~\u{ff01}-\u{ff0f}\u{ff1a}-\u{ff5e}\u{2018}-\u{201f}\u{3000}-\u{3002}]+", [[\s+$]],
    "[\u{4e00}-\u{9fa5}\u{800}-\u{4e00}\u{ac00}-\u{d7ff}]+", [[\p{N}+]]},
  ["deepseek-v3 hunyuan-dense joyai-llm hy_v4"] = {[[\p{N}{1,3}]], kanji, ascii_words .. [=[[\r\n]*|]=] .. spaces},
  spark2_5 = {[[\p{N}{1,3}]], kanji, ascii_words .. [=[|[\r\n]|\s+(?!\S)|\s+]=], [[\p{N}]]},
  afmoe = {[[\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))]], "[\u{4e00}-\u{9fff}\u{3400}-\u{4dbf}\u{f900}-\u{faff}\u{3040}-\u{309f}" ..
    "\u{30a0}-\u{30ff}\u{ff65}-\u{ff9f}\u{2f00}-\u{2fdf}\u{e40}-\u{e7f}\u{e80}-\u{eff}\u{1780}-\u{17ff}\u{1000}-\u{109f}" ..
    "\u{aa60}-\u{aa7f}\u{a9e0}-\u{a9ff}\u{ac00}-\u{d7af}\u{1100}-\u{11ff}]+", ascii_words .. [=[[\r\n]*|]=] .. spaces},
  tekken = {cased("", ""), whole = true, bos = true},
  ["gpt-4o llama4 kanana2 talkie minimax-m2"] = {cased(contractions .. "?", "{1,3}")},
  ["granite-embed-multi-97m"] = {cased(contractions .. "?", "{1,3}"), whole = true},
  ["tiny_aya cohere2moe"] = {[[\d{1,3}(?=(?:\d{3})*(?!\w))]], cased(contractions .. "?", "{1,3}")},
  youtu = {"[\u{ac00}-\u{d7a3}\u{3131}-\u{318e}]+|[\u{ff01}\u{2026}\u{201c}\u{201d}\u{2018}\u{2019}\u{2014}\u{ff1a}\u{ff1b}\u{ff0c}" ..
    "\u{3001}-\u{303f}\u{fe30}-\u{fe4f}]+|[\u{3105}-\u{312f}]+|" .. kanji, cased(contractions .. "?", ""), whole = true},
  ["kimi-k2"] = {[=[\p{Han}+|[^\r\n\p{L}\p{N}]?]=] .. upper_other .. "*" .. lower_other .. "+" .. contractions .. [=[?|[^\r\n\p{L}\p{N}]?]=] .. upper_other ..
    "+" .. lower_other .. "*" .. contractions .. [=[?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|]=] .. spaces},
  ["exaone-moe"] = {contractions .. [[|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+]]},
  chameleon = {"<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", "[\t\n]|    |  ", [[\p{N}]], [=[[\p{P}!-/:-@\[-`{-~]]=], gpt2 = true, bos = true},
  ["poro-chat bloom gpt3-finnish"] = {" ?[^(\\s|.,!?\u{2026}\u{3002}\u{ff0c}\u{3001}\u{964}\u{6d4}\u{60c})]+"},
  viking = {" ?[^(\\s|.,!?\u{2026}\u{3002}\u{ff0c}\u{3001}\u{964}\u{6d4}\u{60c})]+", [[\p{N}]]},
  ["bailingmoe bailingmoe2 llada-moe"] = {[['(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+]]},
  ["seed-coder"] = {contractions .. [[|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|]] .. spaces},
  ["gemma4 granite-embed-multi-311m sarvam-moe"] = {raw = true},
  superbpe = {[[\p{N}+]], [[(?=(\d{3})+(?!\d))]]},
} do
  for name in names:gmatch("%S+") do patterns[name] = how end
end

-- ---- making the parts of a tokenizer.json ----

local gpt2 = [['s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+]]

-- Returns {token = id} for the ids of the vocabulary that keeps(id) accepts. Fails if a token occurs twice.
local function vocab_of(refuse, v, keeps, spell)
  local vocab = {}
  for i, token in ipairs(v.tokens) do
    if keeps(v.types and v.types[i] or NORMAL) then
      token = spell and spell(token, i) or token
      if vocab[token] then refuse("the token %s occurs twice", check.quoted(token)) end
      vocab[token] = i - 1
    end
  end
  return vocab
end

local function added_tokens(v)
  local list = json.array{}
  for i, token in ipairs(v.tokens) do
    local kind = v.types and v.types[i]
    if (kind == CONTROL or kind == USER or kind == UNKNOWN) and token ~= "" then
      list[#list + 1] = {id = i - 1, content = token, special = kind ~= USER, normalized = false, single_word = false, lstrip = false, rstrip = false}
    end
  end
  return list
end

-- Returns the template of a tokenizer.json: the ids before and after a text.
local function template(refuse, v, bos, eos)
  local list, special = json.array{}, {}
  local function add(name, id)
    if math.type(id) ~= "integer" or not v.tokens[id + 1] then refuse("%s must be the id of a token, found %s", name, check.shown(id)) end
    list[#list + 1] = {SpecialToken = {id = name, type_id = 0}}
    special[name] = {id = name, ids = {id}, tokens = {name}}
  end
  if bos then add("tokenizer.ggml.bos_token_id", v.bos) end
  list[#list + 1] = {Sequence = {id = "A", type_id = 0}}
  if eos then add(eos, v[eos]) end
  return {type = "TemplateProcessing", single = list, pair = list, special_tokens = special}
end

local function or_else(value, default)
  if value == nil then return default end
  return value
end

-- model -> function(v, refuse), which returns the fields of tokenizer.json.
local models = {}

-- Returns the token for unknown characters, and whether the vocabulary has a token for each byte.
local function unknown_of(v, vocab)
  local unknown = v.unknown and v.tokens[v.unknown + 1]
  local fallback = v.types and vocab["<0x00>"] and v.types[vocab["<0x00>"] + 1] == BYTE or false
  return unknown and vocab[unknown] and unknown or nil, fallback
end

local mark_spaces = {type = "Replace", pattern = {String = " "}, content = MARK}
local unmark_spaces = {type = "Replace", pattern = {String = MARK}, content = " "}

-- Returns the fields of tokenizer.json for a BPE whose tokens are characters. Its merges are applied to the whole text.
local function raw_bpe(v, refuse)
  local vocab = vocab_of(refuse, v, function(kind) return kind ~= CONTROL and kind ~= USER end)
  local unknown, fallback = unknown_of(v, vocab)
  return {normalizer = mark_spaces,
    decoder = {type = "Sequence", decoders = json.array{unmark_spaces, {type = "ByteFallback"}, {type = "Fuse"}}},
    post_processor = template(refuse, v, or_else(v.add_bos, v.bos ~= nil), v.add_eos and "eos"),
    model = {type = "BPE", vocab = vocab, merges = json.array(v.merges), unk_token = unknown, fuse_unk = true, byte_fallback = fallback,
      ignore_merges = false}}
end

function models.gpt2(v, refuse)
  local how = patterns[v.pre or "default"]
  if not how then refuse("unknown tokenizer.ggml.pre %s; expected one of: %s", check.quoted(v.pre), table.concat(check.sorted_keys(patterns), ", ")) end
  if not v.merges then refuse("tokenizer.ggml.merges is missing") end
  if how.raw then return raw_bpe(v, refuse) end
  local steps = json.array(how.steps and table.move(how.steps, 1, #how.steps, 1, {}) or {})
  for i, pattern in ipairs(how) do steps[i] = split(pattern == "gpt2" and gpt2 or pattern) end
  steps[#steps + 1] = not how.steps and {type = "ByteLevel", add_prefix_space = v.add_space_prefix or false, trim_offsets = true, use_regex = how.gpt2 or false} or nil
  return {normalizer = how.nfc and {type = "NFC"} or nil, pre_tokenizer = {type = "Sequence", pretokenizers = steps},
    decoder = {type = "ByteLevel"}, post_processor = template(refuse, v, or_else(v.add_bos, how.bos and v.bos ~= nil), v.add_eos and "eos"),
    model = {type = "BPE", merges = json.array(v.merges), ignore_merges = how.whole or false, fuse_unk = false, byte_fallback = false,
      vocab = vocab_of(refuse, v, function(kind) return kind ~= CONTROL and kind ~= USER end)}}
end

function models.gemma4(v, refuse)
  v.pre = "gemma4"
  return models.gpt2(v, refuse)
end

-- Returns the merges of SentencePiece: every division of a normal token into two tokens. Merges are ordered by the
-- token's score, greatest first.
local function merges_of(v, vocab)
  local order, merges = {}, {}
  for i in ipairs(v.tokens) do
    if not v.types or v.types[i] == NORMAL then order[#order + 1] = i end
  end
  local scores, kinds = v.scores, v.types
  table.sort(order, function(a, b)
    if scores[a] ~= scores[b] then return scores[a] > scores[b] end
    return a < b
  end)
  local function is_normal(token)
    local id = vocab[token]
    return id and (not kinds or kinds[id + 1] == NORMAL)
  end
  for _, i in ipairs(order) do
    local token, found = v.tokens[i], {}
    for at in token:gmatch("()[\0-\x7f\xc2-\xfd]") do
      local left, right = token:sub(1, at - 1), token:sub(at)
      if at > 1 and is_normal(left) and is_normal(right) then found[#found + 1] = {left, right} end
    end
    table.sort(found, function(a, b)
      if a[1] ~= b[1] then return vocab[a[1]] < vocab[b[1]] end
      return vocab[a[2]] < vocab[b[2]]
    end)
    table.move(found, 1, #found, #merges + 1, merges)
  end
  return json.array(merges)
end

local function check_scores(v, refuse)
  if not v.scores or #v.scores ~= #v.tokens or math.type(v.scores[1]) == nil then
    refuse("tokenizer.ggml.scores must have a number for each of %d tokens, found %d", #v.tokens, v.scores and #v.scores or 0)
  end
end

function models.llama(v, refuse)
  check_scores(v, refuse)
  local vocab = vocab_of(refuse, v, function(kind) return kind ~= CONTROL end)
  local prefix, steps = or_else(v.add_space_prefix, true), json.array{}
  if prefix then steps[1] = {type = "Prepend", prepend = MARK} end
  steps[#steps + 1] = mark_spaces
  local decoders = json.array{unmark_spaces, {type = "ByteFallback"}, {type = "Fuse"}}
  if prefix then decoders[4] = {type = "Strip", content = " ", start = 1, stop = 0} end
  local unknown, fallback = unknown_of(v, vocab)
  return {normalizer = {type = "Sequence", normalizers = steps}, decoder = {type = "Sequence", decoders = decoders},
    post_processor = template(refuse, v, or_else(v.add_bos, v.bos ~= nil), v.add_eos and "eos"),
    model = {type = "BPE", vocab = vocab, merges = merges_of(v, vocab), unk_token = unknown, fuse_unk = true,
      byte_fallback = fallback, ignore_merges = false}}
end

-- Returns the fields of tokenizer.json for WordPiece. llama.cpp's converter has removed the "##" of tokens within a
-- word, and has put MARK before all others; reverts this change.
function models.bert(v, refuse)
  local has_capitals = false
  local vocab = vocab_of(refuse, v, function() return true end, function(token, i)
    if v.types and v.types[i] ~= NORMAL then return token end
    has_capitals = has_capitals or token:find("%u") ~= nil
    if token:sub(1, #MARK) == MARK then return token:sub(#MARK + 1) end
    return "##" .. token
  end)
  local unknown = v.unknown and v.tokens[v.unknown + 1] or "[UNK]"
  return {normalizer = {type = "BertNormalizer", clean_text = true, handle_chinese_chars = true, strip_accents = json.null, lowercase = not has_capitals},
    pre_tokenizer = {type = "BertPreTokenizer"}, decoder = {type = "WordPiece", prefix = "##", cleanup = true},
    post_processor = template(refuse, v, or_else(v.add_bos, true) and v.bos, or_else(v.add_eos, true) and v.separator and "separator"),
    model = {type = "WordPiece", vocab = vocab, unk_token = unknown, continuing_subword_prefix = "##", max_input_chars_per_word = 100}}
end

local alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

local function base64(s)
  return (s:gsub("..?.?", function(group)
    local a, b, c = group:byte(1, 3)
    local n = a << 16 | (b or 0) << 8 | (c or 0)
    local out = {}
    for i = 1, 4 do
      local at = (n >> 6 * (4 - i) & 63) + 1
      out[i] = i > #group + 1 and "=" or alphabet:sub(at, at)
    end
    return table.concat(out)
  end))
end

local function charsmap_of(v)
  local bytes = {}
  for i, b in ipairs(v.charsmap or {}) do bytes[i] = string.char(b & 255) end
  return table.concat(bytes)
end

function models.t5(v, refuse)
  check_scores(v, refuse)
  local vocab, steps, map = json.array{}, json.array{}, charsmap_of(v)
  for i, token in ipairs(v.tokens) do vocab[i] = {token, v.scores[i] + 0.0} end
  if #map > 0 then steps[1] = {type = "Precompiled", precompiled_charsmap = base64(map)} end
  if v.remove_extra_whitespaces then
    steps[#steps + 1] = {type = "Strip", strip_left = false, strip_right = true}
    steps[#steps + 1] = {type = "Replace", pattern = {Regex = " {2,}"}, content = MARK}
  end
  local space = {type = "Metaspace", replacement = MARK, prepend_scheme = or_else(v.add_space_prefix, true) and "always" or "never", split = true}
  return {normalizer = {type = "Sequence", normalizers = steps}, pre_tokenizer = space, decoder = space,
    post_processor = template(refuse, v, v.add_bos, or_else(v.add_eos, v.eos ~= nil) and "eos"),
    model = {type = "Unigram", vocab = vocab, unk_id = v.unknown}}
end

-- Returns a file's tokenizer, and its chat template as chat.lua expects: {named =, tokens =, sources =}.
return function(path)
  local v = gguf.vocabulary(path)
  local function refuse(format, ...) check.fail("tokenizer: %s: " .. format, path, ...) end
  local model = models[v.model]
  if not model then
    refuse("unknown tokenizer.ggml.model %s; expected one of: %s", check.quoted(v.model), table.concat(check.sorted_keys(models), ", "))
  end
  local root = model(v, refuse)
  root.version, root.added_tokens = "1.0", added_tokens(v)
  local found = {named = {default = v.template}, sources = {default = path .. ", tokenizer.chat_template"}, tokens = {}, path = path}
  for name, key in pairs{bos_token = "bos", eos_token = "eos", unk_token = "unknown", pad_token = "padding"} do
    found.tokens[name] = math.type(v[key]) == "integer" and v.tokens[v[key] + 1] or nil
  end
  return rille._tokenizer(path, nil, nil, nil, json.encode(root)), found
end
