-- text-kinds.lua - tests every kind of tokenizer. Ids and decoded texts must equal those of PyPI's tokenizers and
-- sentencepiece, and damaged files must be rejected. t/golden/text/kinds.py makes the vocabularies, the cases and the
-- digests.

local tap = dofile("t/lib/tap.lua")
local lib = dofile("t/lib/strings.lua")
local golden = dofile("t/golden/text/kinds.lua")
local dir = tap.folder()
local function write(name, s) return tap.write(dir .. "/" .. name, s) end

local tiktoken = write("tokenizer.tiktoken", lib.tiktoken())

-- Returns the JSON text of a model. Some models are described as changes of another model's fields.
local function model_of(name)
  if name == "bytes" then return tap.read("t/golden/text/tokenizer.json"):match('"model":(%b{})') end
  local model = golden.models[name]
  if type(model) == "string" then return model end
  local text = golden.models[model.of]
  for field, value in pairs(model) do
    if field ~= "of" then
      local n
      text, n = text:gsub(('"%s":[^,}]+'):format(field), function() return ('"%s":%s'):format(field, value) end, 1)
      assert(n == 1, field)
    end
  end
  return text
end
local function file_of(case)
  return ('{"version":"1.0","truncation":null,"padding":null,"added_tokens":%s,"normalizer":%s,"pre_tokenizer":%s,"post_processor":null,"decoder":%s,"model":%s}')
    :format(case.added_tokens, case.normalizer, case.pre_tokenizer, case.decoder, model_of(case.model))
end

local function same(tok, case)
  local bad = lib.differ(tok, golden, case)
  tap.ok(not bad, case.name .. ": the same ids and texts for every string", bad)
end

tap.group("tokenizer.json", function()
  for _, case in ipairs(golden.json) do
    if tap.share() then
      local path = write("kind.json", file_of(case))
      same(rille.tokenizer(path), case)
    end
  end
end)

tap.group("SentencePiece", function()
  for _, case in ipairs(golden.sentencepiece) do
    if tap.share() then same(rille.tokenizer(lib.models[case.name]), case) end
  end
end)

tap.group("SentencePiece, special tokens", function()
  local path = lib.models.suffix
  local plain, listed = rille.tokenizer(path), rille.tokenizer(path, {special = {"<mask>", "</s>"}})
  local ids = listed:encode("the<mask>thing</s>")
  tap.is({#plain:encode("<mask>") > 1, listed:decode(ids), listed:encode("<s>")}, {true, "the thing ", plain:encode("<s>")},
    "control pieces are matched in text if they are listed, and decode to nothing")
  tap.is(listed:encode("<mask>")[1] ~= listed:encode("</s>")[1] and #listed:encode("<mask></s>"), 2, "each has its id")
  tap.is(plain:decode(ids, {skip_special_tokens = true}), "the thing ", "control pieces are special tokens")
  tap.fails(function() rille.tokenizer(path, {special = {"<x>"}}) end, {"kinds-suffix.model", "no control token '<x>'"}, "an unknown piece is refused")
  tap.fails(function() rille.tokenizer(path, {special = {["<mask>"] = 5}}) end, {".tiktoken"}, "ids of special tokens are refused")
  plain:save(dir .. "/copy.model")
  tap.is(tap.read(dir .. "/copy.model"), tap.read(path), "a model is saved as it was read")
  tap.fails(function() plain:save(dir .. "/copy.json") end, {"copy.json", ".model"}, "a model is not saved under another ending")
  tap.fails(function() rille.tokenizer(tiktoken):encode("a") end, {"pattern must be given", '"cl100k"', '"qwen"'},
    "a .tiktoken file without a pattern is refused")
end)

-- Compares tekken.json with tiktoken. The file has the ranks of tokenizer.tiktoken, so its ids are those of tiktoken,
-- shifted by the number of special tokens.
tap.group("tekken.json", function()
  local pattern = "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
  local entries, special = {}, {"<unk>", "<s>", "</s>", "[INST]", "[/INST]"}
  for bytes, rank in tap.read(tiktoken):gmatch("(%S+) (%d+)") do
    entries[#entries + 1] = ('{"rank":%s,"token_bytes":"%s","token_str":"\\u0000"}'):format(rank, bytes)
  end
  local function file(head, list)
    return ('{"config":{"pattern":"%s",%s},"vocab":[%s]%s}'):format(pattern:gsub("\\", "\\\\"), head, table.concat(entries, ","), list or "")
  end
  local names = tap.list(special, function(text, i) return ('{"rank":%d,"token_str":"%s","is_control":true}'):format(i - 1, text) end)
  local sizes = ('"default_vocab_size":%d,"default_num_special_tokens":5'):format(#entries + 5)
  local list = ',"special_tokens":[' .. table.concat(names, ",") .. "]"
  local tok = rille.tokenizer(write("tekken.json", file(sizes, list)))
  local other, wrong = rille.tokenizer(tiktoken, {pattern = pattern}), 0
  for seed = 0, 300 do
    local text = lib.generated(golden, seed):gsub("<", "x")
    local a, b = tok:encode(text), other:encode(text)
    local good = #a == #b and tok:decode(a) == text
    for i = 1, #a do good = good and a[i] == b[i] + 5 end
    wrong = wrong + (good and 0 or 1)
  end
  tap.is({wrong, tok.size, tok:encode("[INST]a</s>")}, {0, #entries + 5, {3, tok:encode("a")[1], 2}}, "ids follow the special tokens")
  tap.is(rille.tokenizer(write("old.json", file(sizes))):encode("<s><SPECIAL_4>"), {1, 4}, "a file without a list of special tokens has the usual ones")
  for what, head in pairs{["default_vocab_size"] = sizes:gsub("%d+", "99999999", 1), ["default_num_special_tokens"] = sizes:gsub(":5", ":-1"),
    ["found -1"] = '"a":1'} do
    tap.fails(function() rille.tokenizer(write("bad.json", file(head))) end, {"bad.json", what}, "wrong sizes are refused: " .. head)
  end
  tap.fails(function() rille.tokenizer(write("bad.json", (file(sizes):gsub('"rank":7,', '"rank":8,')))) end, {"bad.json", "token 7", "rank 7"}, "ranks out of order are refused")
  tap.fails(function() rille.tokenizer(write("bad.json", (file(sizes):gsub('"token_bytes":"', '"token_bytes":"?', 1)))) end, {"token 0", "base64"}, "invalid base64 is refused")
end)

tap.group(".tiktoken", function()
  local ranks = tap.read(tiktoken)
  local texts = dofile("t/golden/text/tokenizer.lua")
  for _, name in ipairs{"gpt2", "cl100k", "o200k", "llama3", "qwen"} do
    local named, full = rille.tokenizer(tiktoken, {pattern = name}), nil
    for _, case in ipairs(texts.tiktoken) do
      if case.name == ({llama3 = "cl100k", qwen = "qwen2"})[name] or case.name == name then full = rille.tokenizer(tiktoken, {pattern = case.pattern}) end
    end
    local wrong = 0
    for seed = 0, 500 do
      local text = lib.generated(texts, seed)
      if table.concat(named:encode(text), " ") ~= table.concat(full:encode(text), " ") then wrong = wrong + 1 end
    end
    tap.is(wrong, 0, name .. " is the name of its pattern")
  end
  local whisper = rille.tokenizer(write("w.tiktoken", ranks .. "= 600\n"), {pattern = "gpt2"})
  tap.is({whisper.size, whisper:decode{72, 600}}, {601, whisper:decode{72}}, "a token without bytes, as Whisper's file has, is read")
end)

-- Tests added tokens that are spelled like a byte. Byte-level vocabularies write each byte as a letter. An added
-- token that consists of such a letter must have the id of the byte.
tap.group("added tokens spelled like bytes", function()
  local text = tap.read("t/golden/text/tokenizer.json")
  local id = math.tointeger(text:match('"ä":(%d+)'))
  local tok = rille.tokenizer(write("added.json", (text:gsub('"added_tokens":%[', function(s)
    return s .. ('{"id":%d,"content":"ä","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":false},'):format(id)
  end))))
  tap.is({tok:encode("ä"), tok:decode{id}}, {{id}, "ä"}, "the token has its id and its text")
  for _, s in ipairs{"aäb", "中", "ä中ä", "中ä\xe4", "\u{e4}\u{4e2d}"} do
    local back = tok:decode(tok:encode(s))
    tap.ok(back == s or back == s:gsub("\xe4$", "ä"), ("%q is decoded"):format(s))
  end
  tok:save(dir .. "/added2.json")
  tap.is(rille.tokenizer(dir .. "/added2.json"):encode("aäb中"), tok:encode("aäb中"), "the file is saved and read again")
end)

tap.group("zero bytes in JSON", function()
  local text = file_of(golden.json[1]):gsub('"added_tokens":%[', function(s)
    return s .. '{"id":5000,"content":"<\\u0000>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},'
  end)
  local tok = rille.tokenizer(write("zero.json", text))
  tap.is({tok:encode("<\0>"), tok:decode{5000}}, {{5000}, "<\0>"}, "an added token may have a zero byte")
  local head = '{"__metadata__":{"note":"a\\u0000b"},"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
  tap.is(rille.load(write("zero.safetensors", ("<s8"):pack(head) .. ("<f"):pack(2.5))).x:totable(), {2.5}, "so may metadata of safetensors")
end)

-- Truncates every kind of file and changes bytes. Each file must be rejected with an error that names it, or be a
-- tokenizer that works.
tap.group("damage", function()
  local draw, wrong, tried = lib.generator(tonumber(os.getenv("SEED")) or 5), {}, 0
  local function try(name, bytes)
    tried = tried + 1
    local good, tok = pcall(rille.tokenizer, write(name, bytes))
    if not good then
      if not tok:find(name, 1, true) then wrong[#wrong + 1] = tok end
      return
    end
    local encoded, ids = pcall(tok.encode, tok, "the thing <s> 12\xff\u{fb01}\u{3000} user ")
    if encoded then tok:decode(ids) elseif not ids:find("encode:", 1, true) then wrong[#wrong + 1] = ids end
  end
  local files = tap.list(golden.json, function(case) return {"d.json", file_of(case)} end)
  for _, case in ipairs(golden.sentencepiece) do files[#files + 1] = {"d.model", tap.read(lib.models[case.name])} end
  for _, file in ipairs(files) do
    if tap.share() then
      local name, s = file[1], file[2]
      for _ = 1, os.getenv("RILLE_LONG") and 5000 or 60 do
        local t = s
        if draw(3) == 0 then t = t:sub(1, draw(#t)) end
        for _ = 1, draw(4) do
          local at = 1 + draw(#t)
          t = t:sub(1, at - 1) .. string.char(draw(256)) .. t:sub(at + 1 + draw(2))
        end
        try(name, t)
      end
    end
  end
  local model = tap.read(lib.models.suffix)
  for cut = 0, #model - 1, 7 do try("cut.model", model:sub(1, cut)) end
  tap.is(wrong, {}, ("%d damaged files are refused with their names, or work"):format(tried))
end)

-- The numbers are those of PyPI's tokenizers 0.23: pre_tokenizers.Punctuation() divides "acb" for these characters c.
tap.group("punctuation", function()
  tap.write(dir .. "/p.json", [[{"pre_tokenizer": {"type": "Punctuation", "behavior": "Isolated"},
    "model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1, "u": 2}, "unk_token": "u"}}]])
  local tok, count, digest = rille.tokenizer(dir .. "/p.json"), 0, 0
  for c = 1, 0x1ffff do
    if (c < 0xd800 or c > 0xdfff) and #tok:encode("a" .. utf8.char(c) .. "b") == 3 then
      count, digest = count + 1, digest + c * 2654435761 & 0xffffffff
    end
  end
  tap.is({count, digest}, {726, 4156846973}, "characters of Unicode that are punctuation")
end)

tap.done()
