-- strings.lua - generates strings that are hard for tokenizers, like t/golden/text/tokenizer.py: all planes of Unicode,
-- long runs, invalid UTF-8. A string depends only on its seed.

local strings = {}

-- SentencePiece models by name. The paths are written out, because a stored pass of a test depends on the files that are
-- named in texts (.ci/prove).
strings.models = {
  bpe = "t/golden/text/kinds-bpe.model",
  bytes = "t/golden/text/kinds-bytes.model",
  suffix = "t/golden/text/kinds-suffix.model",
  unigram = "t/golden/text/kinds-unigram.model",
}

-- Returns a splitmix64 generator: a function draw(n) that returns a number from 0 to n - 1.
function strings.generator(seed)
  local state = seed
  return function(n)
    state = state + 0x9e3779b97f4a7c15
    local z = state
    z = (z ~ (z >> 30)) * 0xbf58476d1ce4e5b9
    z = (z ~ (z >> 27)) * 0x94d049bb133111eb
    return ((z ~ (z >> 31)) >> 1) % n
  end
end

local function character(golden, block, draw)
  local c = block[1] + draw(block[2])
  if c >= 0xd800 and c < 0xe000 then return "" end
  for _, range in ipairs(golden.skipped) do
    if c < range[1] then break end
    if c < range[1] + range[2] then return "" end
  end
  return utf8.char(c)
end

-- Returns the string that a seed determines. golden: table of golden cases with the fields blocks, bits, stray
-- and skipped. valid: true: the string is valid UTF-8.
function strings.generated(golden, seed, valid)
  local draw, out = strings.generator(seed), {}
  local function some(n, f) for _ = 1, n do out[#out + 1] = f() end end
  local function stray()
    local byte = golden.stray[draw(#golden.stray) + 1]
    local other = 128 + draw(64)
    return string.char(draw(2) == 0 and byte or other)
  end
  for _ = 1, draw(24) do
    local kind = draw(10)
    if kind < 3 then
      out[#out + 1] = golden.bits[draw(#golden.bits) + 1]
    elseif kind == 3 then
      out[#out + 1] = character(golden, golden.blocks[draw(#golden.blocks) + 1], draw):rep(1 + draw(40))
    elseif kind == 4 then
      some(1 + draw(3), function() return character(golden, {0x10000 * draw(17), 0x10000}, draw) end)
    elseif kind == 5 then
      some(draw(4), function() return valid and stray():sub(1, 0) or stray() end)
    else
      local block = golden.blocks[draw(#golden.blocks) + 1]
      some(1 + draw(6), function() return character(golden, block, draw) end)
    end
  end
  return table.concat(out)
end

local function base64(bytes)
  local letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
  local text = (bytes .. ("\0"):rep(-#bytes % 3)):gsub("...", function(three)
    local bits, out = (">I3"):unpack(three), ""
    for shift = 18, 0, -6 do
      local digit = (bits >> shift & 63) + 1
      out = out .. letters:sub(digit, digit)
    end
    return out
  end)
  return text:sub(1, #text - -#bytes % 3) .. ("="):rep(-#bytes % 3)
end

-- Returns the vocabulary of t/golden/text/tokenizer.json as a .tiktoken file: lines of base64 and rank. The vocabulary
-- writes a byte that is not printable in Latin-1 as a character from U+0100 on.
function strings.tiktoken()
  local byte_of, spelled = {}, 0
  for byte = 0, 255 do
    local visible = byte > 32 and byte < 127 or byte > 160 and byte ~= 173
    byte_of[visible and byte or 256 + spelled] = string.char(byte)
    spelled = spelled + (visible and 0 or 1)
  end
  local lines = {}
  for text, rank in pairs(require "rille.json".load("t/golden/text/tokenizer.json").model.vocab) do
    local bytes = {}
    for _, c in utf8.codes(text) do bytes[#bytes + 1] = byte_of[c] end
    lines[rank + 1] = ("%s %d\n"):format(base64(table.concat(bytes)), rank)
  end
  return table.concat(lines)
end

-- Returns the digest h, extended by a list of ids. digest_text extends it by the bytes of a text.
function strings.digest(h, ids)
  for i = 1, #ids do h = (h ~ ids[i]) * 1099511628211 end
  return (h ~ 0xffffffff) * 1099511628211
end
function strings.digest_text(h, text)
  for i = 1, #text do h = (h ~ text:byte(i)) * 1099511628211 end
  return (h ~ 0xff) * 1099511628211
end
strings.first_digest = 1469598103934665603

-- Compares the ids and decoded texts of all strings of `golden` with the digests in `want`. Returns nil if they are
-- equal; otherwise a text that describes the difference.
local made = {}
function strings.differ(tok, golden, want)
  local h, g = strings.first_digest, strings.first_digest
  for i = 1, golden.count do
    made[i] = made[i] or strings.generated(golden, i - 1, true)
    local ids = tok:encode(made[i])
    h, g = strings.digest(h, ids), strings.digest_text(g, tok:decode(ids))
    if i % golden.each == 0 and (h ~= want.ids[i // golden.each] or g ~= want.texts[i // golden.each]) then
      return ("%s differ before string %d"):format(h ~= want.ids[i // golden.each] and "ids" or "texts", i)
    end
  end
end

return strings
