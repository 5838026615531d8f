-- Made by tokenizer.py with tokenizers 0.23.3 and tiktoken 0.14.0: digests of the ids of
-- string(0) .. string(1999).
return {
  count = 2000,
  patterns = {
    ["gpt2"] = [==['s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+]==],
    ["cl100k"] = [==[(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+]==],
    ["o200k"] = [==[[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+]==],
    ["cl100k-possessive"] = [==['(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s]==],
  },
  blocks = {{32, 95}, {9, 5}, {48, 10}, {97, 26}, {65, 26}, {160, 96}, {256, 128}, {913, 17}, {1040, 64}, {1488, 27}, {1575, 20}, {2309, 50}, {3585, 50}, {7936, 8}, {8192, 11}, {8232, 2}, {8544, 32}, {8704, 128}, {12353, 80}, {19968, 2000}, {44032, 2000}, {57344, 100}, {65024, 16}, {65296, 10}, {66560, 80}, {120782, 50}, {127744, 300}, {128512, 80}, {131072, 500}, {917760, 16}, {1114096, 8}, {6158, 1}, {133, 1}, {383, 1}, {8490, 1}},
  bits = {"'s", "'LL", "'ve", "'re ", "<|endoftext|>", "\r\n", "   ", "\n\n\n", " the", "hello", "12345", "don't", "_", "=", " \t ", "!!!", "\u{3000}"},
  ["json gpt2"] = 0xd5709225bf6fd105,
  ["tiktoken gpt2"] = 0xd5709225bf6fd105,
  ["json cl100k"] = 0xed75e8a18e8137fc,
  ["tiktoken cl100k"] = 0xed75e8a18e8137fc,
  ["json o200k"] = 0xeb218c60ab836355,
  ["tiktoken o200k"] = 0xeb218c60ab836355,
  ["tiktoken cl100k-possessive"] = 0xed75e8a18e8137fc,
}
