-- text-tokenizer.lua - tests tokenizers. For ten thousand generated strings, ids must equal those of PyPI's
-- tokenizers and tiktoken. Encoding and decoding must return any bytes unchanged. Also tests errors. The strings
-- depend only on a seed; t/golden/text/tokenizer.py generates the same ones and documents the digests.

local tap = dofile("t/lib/tap.lua")
local golden = dofile("t/golden/text/tokenizer.lua")
local dir = tap.folder()
local function write(name, s) return tap.write(dir .. "/" .. name, s) end

local lib = dofile("t/lib/strings.lua")
local generator, digest = lib.generator, lib.digest
local function generated(seed) return lib.generated(golden, seed) end
local tiktoken = write("tokenizer.tiktoken", lib.tiktoken())

local json = tap.read("t/golden/text/tokenizer.json")
local function quote(s) return '"' .. s:gsub('[\\"]', "\\%0") .. '"' end
-- Returns tokenizer.json with some parts replaced: {name = new JSON}.
local function with(parts)
  local text = json
  for name, part in pairs(parts) do
    local key, n = ('"%s":'):format(name), 0
    for _, kind in ipairs{"%b{}", "%b[]", "null", "false"} do
      if n == 0 then text, n = text:gsub(key .. kind, function() return key .. part end, 1) end
    end
    assert(n == 1, name)
  end
  return text
end
local function with_cutter(part) return with{pre_tokenizer = part} end
local function split_by(pattern)
  return '{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":' .. quote(pattern)
    .. '},"behavior":"Isolated","invert":false},{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]}'
end
local patterns = {}
for _, case in ipairs(golden.tiktoken) do patterns[case.name] = case.pattern end

local strings = {}
for seed = 0, golden.count - 1 do strings[seed + 1] = generated(seed) end

-- Compares the tokenizer's ids of all strings with the reference digests.
local function same_ids(tok, want, name)
  local h, bad = 1469598103934665603, nil
  for i, text in ipairs(strings) do
    h = digest(h, tok:encode(text))
    if i % golden.each == 0 and h ~= want[i // golden.each] then bad = i; break end
  end
  tap.ok(not bad, name .. ": the same ids for every string", bad and ("ids differ before string %d"):format(bad))
end
local function all_round(tok, name)
  local wrong = 0
  for _, text in ipairs(strings) do
    if tok:decode(tok:encode(text)) ~= text then wrong = wrong + 1 end
  end
  tap.is(wrong, 0, name .. ": every string is decoded unchanged")
end

tap.group("the ids of tiktoken", function()
  for _, case in ipairs(golden.tiktoken) do
    if not tap.share() then goto next end
    local tok = rille.tokenizer(tiktoken, {pattern = case.pattern, special = {"<|endoftext|>"}})
    same_ids(tok, case.ids, case.name)
    all_round(tok, case.name)
    ::next::
  end
end)

tap.group("the ids of tokenizers", function()
  for _, case in ipairs(golden.json) do
    if not tap.share() then goto next end
    local tok = rille.tokenizer(write("a.json", with{normalizer = case.normalizer, pre_tokenizer = case.pre_tokenizer,
      post_processor = case.post_processor, added_tokens = case.added_tokens, ignore_merges = tostring(case.whole)}))
    same_ids(tok, case.ids, case.name)
    if case.name == "gpt2" or case.name == "llama3" then all_round(tok, case.name) end
    tap.is(tok:encode("", {add_special_tokens = true}), case.template, "the template adds the same special tokens")
    tok:save(dir .. "/b.json")
    same_ids(rille.tokenizer(dir .. "/b.json"), case.ids, case.name .. ", saved and read again")
    ::next::
  end
end)

-- Tries added tokens with every combination of flags. In case k, token i has the flags (k + 11 i) % 32. The highest
-- flag, "special", changes no id. Skips strings for which PyPI's tokenizers returns no ids.
tap.group("added tokens with every combination of flags", function()
  local added = golden.added
  local function tokens(k)
    local list = {}
    for i, text in ipairs(added.texts) do
      local fields = {('"id":%d,"content":"%s"'):format(added.ids[i], text:gsub("\n", "\\n"))}
      for bit, manner in ipairs(added.manners) do
        fields[#fields + 1] = ('"%s":%s'):format(manner, (k + 11 * (i - 1)) % 32 >> (bit - 1) & 1 == 1)
      end
      list[i] = "{" .. table.concat(fields, ",") .. "}"
    end
    return "[" .. table.concat(list, ",") .. "]"
  end
  local function text_of(seed)
    local draw, out = generator(seed), {}
    for i = 1, draw(12) do out[i] = added.bits[draw(#added.bits) + 1] end
    return table.concat(out)
  end
  local function digest_of(tok, without)
    local h, skip = 1469598103934665603, {}
    for _, seed in ipairs(without) do skip[seed] = true end
    for seed = 0, added.count - 1 do
      if not skip[seed] then h = digest(h, tok:encode(text_of(seed))) end
    end
    return h
  end
  for _, cases in ipairs(added) do
    for k = 1, 1 << #added.manners do
      local case = cases[(k - 1) % #cases + 1]
      local name = ("case %d, %s"):format(k - 1, cases.form or "no normalizer")
      local path = write("added.json", with{added_tokens = tokens(k - 1),
        normalizer = cases.form and ('{"type":"%s"}'):format(cases.form) or "null"})
      local tok = rille.tokenizer(path)
      tap.is(digest_of(tok, case.without), case.ids, name)
      tok:save(path)
      tap.is(digest_of(rille.tokenizer(path), case.without), case.ids, name .. ", saved and read again")
    end
  end
end)

tap.group("any bytes", function()
  local tok, draw, wrong = rille.tokenizer("t/golden/text/tokenizer.json"), generator(tonumber(os.getenv("SEED")) or 17), 0
  for _ = 1, 2000 do
    local bytes = tap.list(draw(60), function() return string.char(draw(3) == 0 and draw(256) or 32 + draw(90)) end)
    local s = table.concat(bytes)
    if tok:decode(tok:encode(s)) ~= s then wrong = wrong + 1 end
  end
  tap.is(wrong, 0, "bytes that are not UTF-8 are decoded unchanged")
  for _, s in ipairs{"\xc3", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc0\x80", "a\xff\xfeb", "\xe2\x82", "\0\0", ("\xff"):rep(100)} do
    if tok:decode(tok:encode(s)) ~= s then wrong = wrong + 1 end
  end
  tap.is(wrong, 0, "truncated, surrogate, overlong and too large sequences are decoded unchanged")
  for _, s in ipairs{("a"):rep(200000), (" "):rep(200000), ("ab "):rep(50000), ("日"):rep(50000), ("\n "):rep(50000)} do
    if tok:decode(tok:encode(s)) ~= s then wrong = wrong + 1 end
  end
  tap.is(wrong, 0, "long runs are decoded unchanged")
end)

tap.group("files", function()
  local tok = rille.tokenizer("t/golden/text/tokenizer.json")
  tap.is({tok.size, #tok:encode("<|endoftext|>"), tostring(tok)}, {601, 1, "tokenizer of 601 ids"}, "size counts special tokens")
  for name, t in pairs{json = tok, tiktoken = rille.tokenizer(tiktoken, {pattern = "cl100k", special = {"<|endoftext|>"}}),
    split = rille.tokenizer(write("s.json", with_cutter(split_by(patterns.o200k))))} do
    t:save(dir .. "/saved.json")
    local back, same = rille.tokenizer(dir .. "/saved.json"), t.size == tok.size
    for seed = 0, 300 do
      local a, b = t:encode(generated(seed)), back:encode(generated(seed))
      same = same and table.concat(a, " ") == table.concat(b, " ")
    end
    tap.ok(same, name .. ": saved and read again, the tokenizer gives the same ids")
  end
  local pairs_json = json:gsub('"merges":%b[]', function(list) return (list:gsub('"([^" ]+) ([^" ]+)"', '["%1","%2"]')) end)
  local strings_json = json:gsub('%["([^"]+)","([^"]+)"%]', '"%1 %2"')
  for name, text in pairs{["pairs"] = pairs_json, ["texts"] = strings_json} do
    tap.is(rille.tokenizer(write("m.json", text)):encode("hello the"), tok:encode("hello the"), "merges as " .. name)
  end
  local function refused(text, words, name)
    tap.fails(function() rille.tokenizer(write("bad.json", text)) end, {"bad.json", table.unpack(words)}, name)
  end
  local function changed(from, to) local s, n = json:gsub(from, function() return to end, 1); assert(n == 1, from); return s end
  local level = '{"type":"ByteLevel"}'
  local function sequence(...) return '{"type":"Sequence","pretokenizers":[' .. table.concat({...}, ",") .. "]}" end
  refused(with{normalizer = '{"type":"Uppercase"}'}, {"unknown normalizer 'Uppercase'", "Lowercase"}, "an unknown normalizer is refused by name")
  refused(changed('"version":"1.0"', '"version":"2.0"'), {"version", "2.0", "1.0"}, "a future version of the format is refused")
  tap.is(rille.tokenizer(write("m.json", changed('"version":"1.0",', ""))).size, tok.size, "a file without a version is read")
  refused(with{normalizer = '5'}, {"the normalizer must have a type; supported"}, "a normalizer that is not an object is refused")
  refused(with{normalizer = '{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Other"}]}'}, {"'Other'"}, "a normalizer within a sequence is refused")
  refused(with{post_processor = '{"type":"Other"}'}, {"post_processor", "Other"}, "an unknown post-processor is refused")
  refused(with{post_processor = '{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}}]}'}, {"special_tokens must list the ids of 'x', which \"single\" uses"}, "a template with an unknown token is refused")
  local template = '{"type":"TemplateProcessing","single":[{"Sequence":{"id":"A"}}],"special_tokens":{}}'
  for _, second in ipairs{template, '{"type":"RobertaProcessing","cls":["a",5],"sep":["b",1]}'} do
    local both = '{"type":"Sequence","processors":[{"type":"ByteLevel"},' .. template .. "," .. second .. "]}"
    refused(with{post_processor = both}, {"post_processor: expected one template, found two"}, "a second template, which other readers use for pairs, is refused")
  end
  refused(with{post_processor = '{"type":"BertProcessing","cls":["a",5000],"sep":["b",1]}'}, {"5000"}, "a post-processor with an unknown id is refused")
  refused(with_cutter(sequence(level, level)), {"pre_tokenizer: ByteLevel must occur only once"}, "a second ByteLevel is refused")
  refused(with_cutter(sequence(level, '{"type":"Metaspace","replacement":"_"}')), {"pre_tokenizer: Metaspace must not follow ByteLevel"}, "Metaspace after ByteLevel is refused")
  refused(with_cutter(sequence('{"type":"Split","pattern":{"Regex":"a"},"behavior":"Sideways"}', level)), {"behavior must be Removed", "found Sideways"}, "an unknown split behavior is refused")
  for _, case in ipairs{
    {with{decoder = '{"type":"Strip","content":"","start":1,"stop":0}'}, "decoder Strip: content must not be empty"},
    {with_cutter('{"type":"Split","pattern":{"String":""},"behavior":"Isolated"}'), "Split: pattern must be"},
    {with_cutter('{"type":"Split","pattern":{"Regex":"a"}}'), "behavior must be Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous, found none"},
    {with_cutter('{"type":"CharDelimiterSplit","delimiter":""}'), "CharDelimiterSplit: delimiter must not be empty"},
    {with_cutter('{"type":"Metaspace","replacement":""}'), "Metaspace: replacement must not be empty"},
    {with_cutter('{"type":"Metaspace","replacement":"_","prepend_scheme":"often"}'), "prepend_scheme must be always, first or never, found 'often'"},
    {with_cutter('{"type":"Sequence"}'), "pre_tokenizer: Sequence must have a list of parts"},
    {with{post_processor = '{"type":"TemplateProcessing","single":[]}'}, 'post_processor: "single" must have one Sequence, found none'},
    {with{post_processor = '{"type":"TemplateProcessing","single":[{"Sequence":{"id":"A"}},{"Sequence":{"id":"A"}}]}'}, '"single" must have one Sequence, found two'},
  } do refused(case[1], {case[2]}, case[2]) end
  -- Columns: a pattern; the part of the pattern that tokenizer.json rejects; the part that a .tiktoken file rejects
  -- (nil: none).
  local others = {
    {"[\\p{L}&&[^a]]", "intersection", "intersection"}, {"[a[b]]", "set within a set", "set within a set"},
    {"[a\\W]", "within a set", "within a set"}, {"[\\h]", "within a set", "within a set"},
    {"[\\v]", "within a set", "within a set"}, {"a{,3}", "{,n}", "{,n}"}, {"\\v", "\\v", "\\v"}, {"\\h+", "\\h", "\\h"},
    {"\\Qa.\\E", "\\Q", "\\Q"}, {"a\\K", "\\K", "\\K"},
    {"[a-z--b]", nil, "difference"}, {"[\\p{L}~~a]", nil, "difference"}, {"(?i:x\\p{Lu})", nil, "property"},
    {"a(?i)b[\\p{L}]", nil, "property"}, {"(?i:[x\\p{Lu}])", "property Lu", "property"}, {"(?i)[\\P{^Lt}]", "property Lu", "property"},
    {"(?i:a)\\p{Lu}"}, {"((?i)a)\\p{Lu}"}, {"(?i:'s|'t|'re)"}, {"(?-i:ss)"}, {"\\{,3}"}, {"a{2}|a{1,2}?"}, {"\\(?ms"},
    {"\\p{N}{1,3}+", "possessive"}, {"a{2}?", "{n}?"}, {"(?m:.)", "(?m"}, {"(?is)a", "(?m"}, {"\\pL", "\\p without"},
    {"[\\PL]", "\\p without"}, {"(a)\\g{1}", "\\g without"}, {"(?i:ss)", "(?i"}, {"a(?i)xSt", "(?i"},
    {"(?i:\u{df})", "(?i"}, {"(?i:\u{fb01})", "(?i"}, {"(?i:\u{2019}s)"}}
  for _, case in ipairs(others) do
    local pattern, of_json, of_tiktoken = case[1], case[2], case[3]
    local function opened(make, part, where)
      if part then
        tap.fails(make, {"pattern has", part}, ("%s, %s: refused, because other readers interpret it differently"):format(where, pattern))
      else
        tap.ok(pcall(make), ("%s: %s is read"):format(where, pattern))
      end
    end
    opened(function() return rille.tokenizer(write("bad.json", with_cutter(split_by(pattern)))) end, of_json, "tokenizer.json")
    opened(function() return rille.tokenizer(tiktoken, {pattern = pattern}) end, of_tiktoken, "tiktoken")
  end
  refused(with_cutter('{"type":"Other"}'), {"unknown pre_tokenizer 'Other'", "Metaspace"}, "an unknown pre-tokenizer is refused")
  refused(with_cutter('{"type":"Metaspace"}'), {"replacement of Metaspace"}, "a pre-tokenizer without its settings is refused")
  refused(with_cutter(split_by("(")), {"pattern"}, "a pattern that does not compile is refused")
  refused(changed('"type":"BPE"', '"type":"Unigram"'), {"no vocab"}, "a model without the vocabulary of its type is refused")
  refused('{"pre_tokenizer":{"type":"Other"},"model":{"type":"Neural","vocab":{}}}', {"unknown model 'Neural'", "WordPiece"},
    "an unknown model type is reported before its parts")
  refused(changed('"dropout":null', '"dropout":0.5'), {"model: dropout must be 0"}, "dropout")
  refused(changed('"!":%d+,', ""), {"'!'"}, "a merge of an unknown token is refused")
  refused(changed('"ÿ":%d+,', ""), {"byte 255"}, "a vocabulary without a byte is refused")
  refused(changed('"!":(%d+)', '"!":99999999'), {"99999999"}, "a huge id is refused")
  refused(json:sub(1, -10), {"JSON"}, "a truncated file is refused")
  refused("[]", {"object"}, "a file that is not an object is refused")
  tap.fails(function() rille.tokenizer(write("bad.tiktoken", "IQ== 0\nIQ== 1\n"), {pattern = "gpt2"}) end, {"bad.tiktoken:2", "twice"}, "a duplicate token is refused")
  tap.fails(function() rille.tokenizer(write("bad.tiktoken", "I= 0\n"), {pattern = "gpt2"}) end, {"bad.tiktoken:1", "base64"}, "invalid base64 is refused")
  tap.fails(function() rille.tokenizer(write("bad.tiktoken", "IQ== 0\n"), {pattern = "gpt2"}) end, {"byte 0"}, "a file without all bytes is refused")
  tap.fails(function() rille.tokenizer("t/lib/tap.lua") end, {"t/lib/tap.lua", ".json"}, "a file of another format is refused")
  tap.fails(function() tok:decode{5, -1} end, {"-1"}, "a negative id is refused")
  tap.fails(function() tok:decode{5, 601} end, {"601"}, "an id beyond the vocabulary is refused")
  local possessive = rille.tokenizer(tiktoken, {pattern = patterns["cl100k-possessive"]})
  local words = rille.tokenizer(tiktoken, {pattern = "[\\w]+|\\W"})
  tap.fails(function() words:save(dir .. "/p.json") end, {"p.json", "\\w"}, "a pattern whose \\w differs in other readers is not saved")
  tap.fails(function() possessive:save(dir .. "/p.json") end, {"p.json", "possessive"}, "a pattern that other readers interpret differently is not saved")
  tap.is(tok:decode({600, 72, 600}, {skip_special_tokens = true}), tok:decode{72}, "skip_special_tokens leaves out special tokens")
  tap.is(tok:encode("", {}), {}, "empty options are accepted")
  tap.fails(function() tok:encode("a", {special = true}) end, {"special", "add_special_tokens"}, "an unknown option is refused")
  tap.fails(function() tok:encode("a", {add_special_tokens = 1}) end, {"true or false", "1"}, "an option of a wrong type is refused")
  tap.fails(function() tok:decode({5}, {1}) end, {"skip_special_tokens"}, "an option without a name is refused")
  tap.fails(function() tok:encode(5) end, {"text", "5"}, "a number instead of a text is refused")
  tap.fails(function() return tok.vocab end, {"vocab", "encode"}, "an unknown field is refused")
  tap.is(tok:decode(rille.tensor({72, 72}, {dtype = "i64"})), tok:decode{72, 72}, "a tensor of ids is decoded")
end)

tap.group("special tokens", function()
  local path, a, b = tiktoken, "<|a|>", "<|b|>"
  local ranks = rille.tokenizer(path, {pattern = "gpt2"}).size
  local tok = rille.tokenizer(path, {pattern = "gpt2", special = {[b] = ranks + 1, [a] = ranks + 100}})
  tap.is({tok.size, tok:encode(a .. b)}, {ranks + 2, {ranks + 100, ranks + 1}}, "a map sets the ids of special tokens")
  tap.is(tok:decode{ranks + 100, ranks + 1}, a .. b, "ids of special tokens are decoded")
  tap.fails(function() tok:decode{ranks} end, {tostring(ranks)}, "an unused id between special tokens is refused")
  local root = require("rille.json").load("t/golden/text/tokenizer.json")
  root.model.merges = require("rille.json").array{}
  local file <close> = assert(io.open(dir .. "/no-merges.json", "w"))
  file:write(require("rille.json").encode(root))
  file:close()
  local bytes = rille.tokenizer(dir .. "/no-merges.json")
  bytes:save(dir .. "/again.json")
  tap.is({#bytes:encode("the thing"), #rille.tokenizer(dir .. "/again.json"):encode("the thing")}, {9, 9}, "a tokenizer without merges is saved without merges")
  tok:save(dir .. "/gaps.json")
  tap.is(rille.tokenizer(dir .. "/gaps.json"):encode(a .. "x" .. b), tok:encode(a .. "x" .. b), "special tokens are saved and read again")
  for _, case in ipairs{{{[a] = 5}, {a, "5", "another token"}}, {{[a] = ranks, [b] = ranks}, {tostring(ranks), "another token"}},
    {{[a] = -1}, {a, "-1"}}, {{[a] = 1 << 40}, {tostring(1 << 40)}}, {{[a] = 1.5}, {a, "1.5"}}, {{[a] = "7"}, {a, "7"}},
    {{a, [b] = ranks}, {"found both"}}, {{[true] = 1}, {"key", "true"}}, {{[3] = a}, {"key", "3"}}, {"a", {"list of strings"}},
    {{[""] = ranks}, {"empty"}}} do
    tap.fails(function() rille.tokenizer(path, {pattern = "gpt2", special = case[1]}) end, case[2], "refused: " .. table.concat(case[2], ", "))
  end
  -- Tests added tokens that the vocabulary does not contain. As in Hugging Face's reader, their ids follow the last
  -- id of the vocabulary.
  local function vocabulary(special, pattern_of)
    local t = rille.tokenizer(path, {pattern = "gpt2", special = special})
    local at = dir .. "/ids.json"
    t:save(at)
    local back, texts = rille.tokenizer(at), {}
    for text in pairs(special) do texts[#texts + 1] = type(text) == "string" and text or special[text] end
    table.sort(texts)
    local all = table.concat(texts, "x")
    tap.is(back:encode(all), t:encode(all), table.concat(texts, " ") .. ": the same ids when read again")
    back:save(at)
    tap.is(rille.tokenizer(at):encode(all), t:encode(all), "the same ids when saved and read once more")
    return require("rille.json").load(at).model.vocab
  end
  tap.is(vocabulary{a, b}[a], nil, "ids that follow the vocabulary need no entry in it")
  local far, odd = vocabulary{[a] = ranks, [b] = ranks + 100}, vocabulary{["<é ü>"] = ranks + 9, ["<ß>"] = ranks + 7}
  tap.is({far[a], far[b], odd["<é ü>"], odd["<ß>"]}, {ranks, ranks + 100, ranks + 9, ranks + 7}, "other ids have an entry with their own text")
  for text, byte in pairs{a = 97, ["Ġ"] = 32, ["é"] = 233} do
    tap.fails(function() rille.tokenizer.train({"abc"}, {size = 300, special = {text}}) end, {"'" .. text .. "'", "byte " .. byte, "<|" .. text .. "|>"},
      "training: a special token that is the file's spelling of a byte is refused")
    tap.fails(function() rille.tokenizer(path, {pattern = "gpt2", special = {text}}):save(dir .. "/byte.json") end, {"byte.json", "'" .. text .. "'", tostring(ranks)},
      "such a special token is not saved")
  end
  for name, made in pairs{train = function(special) return rille.tokenizer.train({"abc"}, {size = 300, special = special}) end,
    [".tiktoken"] = function(special) return rille.tokenizer(path, {pattern = "gpt2", special = special}) end} do
    tap.fails(function() made{""} end, {"a special token is empty"}, name .. ": an empty special token is refused")
    tap.fails(function() made{"x", "y", "x"} end, {"'x'", "twice"}, name .. ": a duplicate special token is refused")
  end
  tap.fails(function() rille.tokenizer.train({"abc"}, {size = 300, special = {[a] = 299}}) end, {"list of strings", "last ids"},
    "training refuses ids for special tokens")
end)

-- Tries every truncation of small files of both formats, then changed bytes and truncations of larger files. Each file
-- must be rejected, or be another valid tokenizer.
tap.group("damage", function()
  local ranks, taken, wrong_cuts = {}, {}, {}
  for line in io.lines(tiktoken) do
    if #ranks < 260 then ranks[#ranks + 1] = line .. "\n" end
  end
  rille.tokenizer.train({"abab"}, {size = 258, special = {"<|end|>"}}):save(dir .. "/small.json")
  for name, text in pairs{["c.json"] = tap.read(dir .. "/small.json"):gsub("%s+$", ""), ["c.tiktoken"] = table.concat(ranks)} do
    taken[name] = 0
    for cut = 0, #text - 1 do
      local good, tok = pcall(rille.tokenizer, write(name, text:sub(1, cut)), name:find("tiktoken$") and {pattern = "gpt2"} or nil)
      if good then taken[name] = taken[name] + (tok:decode(tok:encode("a\xff")) == "a\xff" and 1 or 0)
      elseif not tok:find(name, 1, true) then wrong_cuts[#wrong_cuts + 1] = ("%s, %d bytes: %s"):format(name, cut, tok) end
    end
  end
  tap.is({wrong_cuts, taken["c.json"], taken["c.tiktoken"] <= 16}, {{}, 0, true}, "every truncation is refused with the file's name, or has all bytes")
  local draw, wrong, times = generator(tonumber(os.getenv("SEED")) or 5), 0, os.getenv("RILLE_LONG") and 20000 or 300
  for name, text in pairs{["d.json"] = json, ["d.tiktoken"] = tap.read(tiktoken)} do
    for _ = 1, times do
      local at, s = 1 + draw(#text), text
      if draw(3) == 0 then s = s:sub(1, at)
      else for _ = 1, 1 + draw(3) do at = 1 + draw(#s); s = s:sub(1, at - 1) .. string.char(draw(256)) .. s:sub(at + 1 + draw(2)) end end
      local good, tok = pcall(rille.tokenizer, write(name, s), name:find("tiktoken$") and {pattern = "gpt2"} or nil)
      if good then good, tok = pcall(function() return tok:decode(tok:encode("the hello 123 \xff")) == "the hello 123 \xff" end)
      elseif not tok:find(name, 1, true) then wrong = wrong + 1; tap.diag(tok) end
      if good and tok ~= true then wrong = wrong + 1 end
    end
  end
  tap.is(wrong, 0, ("%d damaged files are refused with their names, or work"):format(2 * times))
end)

-- Tests a file that sets truncation and padding of batches. Both must be kept in the file but not be applied, and a
-- warning must say so.
tap.group("truncation and padding", function()
  local truncation = '{"direction":"Right","max_length":2,"strategy":"LongestFirst","stride":0}'
  local padding = '{"strategy":{"Fixed":5},"direction":"Right","pad_to_multiple_of":null,"pad_id":0,"pad_type_id":0,"pad_token":"!"}'
  for i, row in ipairs{{{}}, {{truncation = truncation}, "truncation"}, {{padding = padding}, "padding"},
    {{truncation = truncation, padding = padding}, "truncation and padding"}} do
    local path = write("batch" .. i .. ".json", with(row[1]))
    local p = io.popen(("'%s' -d cpu:1 --no-init -e 'local t = rille.tokenizer(\"%s\"); print(#t:encode(\"the the the the the the the\")); t:save(\"%s\")' 2>&1")
      :format(tap.program(), path, path))
    local said = p:read("a")
    p:close()
    local warning, reported = row[2] and ("%s: encode ignores the %s of this file"):format(path, row[2]), select(2, said:gsub("warning", ""))
    tap.ok(said:find("^8\n") or reported == 1 and said:find(warning, 1, true) and said:find("\n8\n$"), "all ids: " .. said)
    tap.is(reported, row[2] and 1 or 0, "one warning, if the file has truncation or padding")
    local kept = require("rille.json").decode(tap.read(path))
    for _, name in ipairs{"truncation", "padding"} do
      local want = row[1][name] and require("rille.json").decode(row[1][name]) or require("rille.json").null
      tap.is(kept[name], want, ("%s is saved unchanged"):format(name))
    end
  end
end)

tap.group("training", function()
  local corpus = {("low lower lowest new newer newest "):rep(20), "wide wider widest", {file = "README.md"}}
  local tok = rille.tokenizer.train(corpus, {size = 700, special = {"<|endoftext|>", "<|pad|>"}})
  tap.is(tok.size, 700, "a trained tokenizer has the requested size")
  tap.is({tok:encode("<|endoftext|>"), tok:encode("<|pad|>")}, {{698}, {699}}, "special tokens have the last ids")
  local text = tap.read("README.md")
  tap.ok(#tok:encode(text) < #text / 2 and tok:decode(tok:encode(text)) == text, "a text of the corpus is compressed, and decoded unchanged")
  tok:save(dir .. "/t.json")
  tap.is(rille.tokenizer(dir .. "/t.json"):encode(text), tok:encode(text), "a trained tokenizer is saved and read again")
  -- The expected merges for "aaab aaab ab", found by hand. The pair aa occurs 4 times and ab 3 times, so aa is merged
  -- first. The next merges are aa with a, and the result with b.
  local small = rille.tokenizer.train({"aaab", "aaab", "ab"}, {size = 258})
  tap.is(small:encode("aaab"), {256, 257}, "training merges the most frequent pair first, then pairs of the result")
  local poor = rille.tokenizer.train({"aaaaaaaa"}, {size = 300})
  tap.is({poor.size, poor:decode{299}, poor:encode("aaaaaaaa")}, {300, "<|reserved_40|>", {258}}, "if the text has no more pairs, the remaining ids are reserved")
  tap.fails(function() rille.tokenizer.train(corpus, {size = 100}) end, {"256"}, "a size below 256 is refused")
  tap.fails(function() rille.tokenizer.train({{file = dir .. "/none"}}, {size = 300}) end, {"none"}, "a missing corpus file is refused")
  for what, path in pairs{["a folder"] = dir, ["a file without an end"] = "/dev/zero"} do
    tap.fails(function() rille.tokenizer.train({{file = path}}, {size = 300}) end, {("tokenizer.train: %s: not a regular file"):format(path)}, what)
  end
  tap.fails(function() rille.tokenizer.train({5}, {size = 300}) end, {"5"}, "a number instead of a text is refused")
end)

tap.done()
