-- text-characters.lua - tests steps of tokenizer.json with every code point. The ids must equal those of PyPI's
-- tokenizers, whatever versions of Unicode the system's libraries have. t/golden/text/characters.py makes the digests.

local tap = dofile("t/lib/tap.lua")
local lib = dofile("t/lib/strings.lua")
local dir = tap.folder()

local vocab = {}
for i = 0, 255 do vocab[#vocab + 1] = ('"<0x%02X>":%d'):format(i, i) end
local file = '{"version":"1.0","added_tokens":[],"normalizer":%s,"pre_tokenizer":%s,"model":{"type":"BPE","byte_fallback":true,"fuse_unk":false,"merges":[],"vocab":{' ..
  table.concat(vocab, ",") .. "}}}"
local mark = '{"type":"Sequence","pretokenizers":[%s,{"type":"Metaspace","replacement":"\u{2581}","prepend_scheme":"always","split":false}]}'

-- Returns the text of 256 code points from `first` on, each between two texts; nil for code points that are left out.
local function text_of(first, before, after)
  local few = first >= 0x33000 and first < 0x10ff00 and first % 0x10000 ~= 0 and (first < 0xe0000 or first >= 0xe0200)
  if few or first >= 0xd800 and first < 0xe000 then return end
  local t = {}
  for c = first, first + 255 do t[#t + 1] = before .. utf8.char(c) .. after end
  return table.concat(t)
end

for _, case in ipairs(dofile("t/golden/text/characters.lua")) do
  if tap.share() then
    local name, step, pieces, before, after, want = table.unpack(case)
    local json = file:format(step, pieces == "null" and pieces or mark:format(pieces))
    local tok, h = rille.tokenizer(tap.write(dir .. "/tokenizer.json", json)), lib.first_digest
    for first = 0, 0x10ffff, 256 do
      local text = text_of(first, before, after)
      if text then h = lib.digest(h, tok:encode(text)) end
    end
    tap.is(h, want, name .. ": the same ids for every code point")
  end
end

tap.done()
