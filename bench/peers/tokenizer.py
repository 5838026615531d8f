# tokenizer.py - PyPI's tokenizers and tiktoken: the peers' part of bench/tokenizer.sh.
#
#   tokenizer.py make TEXT DIR     trains a vocabulary: DIR/PATTERN.json, DIR/ranks.tiktoken; prints the training time
#   tokenizer.py run TEXT DIR      prints "what, who, MB/s" and "ids, what, who, digest"
import base64, json, os, sys, time, zlib
import tiktoken
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

SIZE = 32000
PATTERNS = {
    "gpt2": r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""",
    "cl100k": r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
}
mode, path, made = sys.argv[1:4]
with open(path, encoding="utf-8", errors="replace", newline="") as f:
    text = f.read()
nbytes = len(text.encode())


def ids_of(tokens):
    return zlib.crc32(b"".join(i.to_bytes(4, "little") for i in tokens))


def alphabet():
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [b for b in range(256) if b not in visible]
    return {**{chr(b): b for b in visible}, **{chr(256 + i): b for i, b in enumerate(hidden)}}


def cutter(name):
    if name == "gpt2":
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(PATTERNS[name]), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def best(f, what, who, times=3):
    least = min(timed(f) for _ in range(times))
    print(f"{what}\t{who}\t{nbytes / least / 1e6:.3f}")


def timed(f):
    start = time.process_time()
    f()
    return time.process_time() - start


def make():
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = cutter("gpt2")
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=SIZE, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    took = timed(lambda: tok.train([path], trainer))
    print(f"training, {SIZE} ids\ttokenizers\t{nbytes / took / 1e6:.3f}")
    for name in PATTERNS:
        tok.pre_tokenizer = cutter(name)
        for normal in (False, True):
            tok.normalizer = normalizers.NFC() if normal else None
            tok.save(os.path.join(made, name + ("-nfc" if normal else "") + ".json"))
    byte_of = alphabet()
    vocab = sorted(tok.get_vocab().items(), key=lambda e: e[1])
    with open(os.path.join(made, "ranks.tiktoken"), "w") as f:
        for token, i in vocab:
            f.write(f"{base64.b64encode(bytes(byte_of[c] for c in token)).decode()} {i}\n")


def run():
    ranks = {}
    for line in open(os.path.join(made, "ranks.tiktoken")):
        token, rank = line.split()
        ranks[base64.b64decode(token)] = int(rank)
    for name, pattern in PATTERNS.items():
        fast = Tokenizer.from_file(os.path.join(made, name + ".json"))
        ids = fast.encode(text).ids
        best(lambda: fast.encode(text), "encode, " + name, "tokenizers")
        print(f"ids\t{name}\ttokenizers\t{ids_of(ids)}")
        best(lambda: fast.decode(ids), "decode, " + name, "tokenizers")
        enc = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
        ids = enc.encode_ordinary(text)
        best(lambda: enc.encode_ordinary(text), "encode, " + name, "tiktoken")
        print(f"ids\t{name} by ranks\ttiktoken\t{ids_of(ids)}")
        best(lambda: enc.decode_bytes(ids), "decode, " + name, "tiktoken")
    fast = Tokenizer.from_file(os.path.join(made, "cl100k-nfc.json"))
    best(lambda: fast.encode(text), "encode, cl100k, NFC", "tokenizers")
    fast = Tokenizer.from_file(os.path.join(made, "gpt2.json"))
    lines = text.splitlines(keepends=True)
    best(lambda: [fast.encode(s) for s in lines], "encode, gpt2, line by line", "tokenizers", 1)


{"make": make, "run": run}[mode]()
