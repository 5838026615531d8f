#!/usr/bin/env python3
"""Makes kinds.lua and kinds-*.model: results of PyPI's tokenizers and sentencepiece for every kind of tokenizer.

  python3.11 -m venv v && v/bin/pip install tokenizers sentencepiece tiktoken && v/bin/python t/golden/text/kinds.py

A few small vocabularies are trained. CASES combines them with normalizers, pre-tokenizers and decoders of every kind. For each case, the
ids and the decoded texts of string(0) .. string(2499) of tokenizer.py are hashed, with a digest per 500 strings.
t/files/text-kinds.lua generates the same strings, and compares the digests.
"""
import base64, io, json, os, struct, sys, unicodedata
import sentencepiece, tokenizers
from tokenizers import Tokenizer, Regex, models as M, normalizers as N, pre_tokenizers as P, decoders as D, trainers as T

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import tokenizer as base

COUNT, EACH = 2500, 500
BITS = [*base.BITS, "<s>", "</s>", "<unk>", "[UNK]", "[SEP]", "the ", "in", "ing", "thing", " a", "\u2581", " \u2581", "\u2581\u2581", "##ing", "Hello World",
        "\ufb01", "\ufb01\u0301", "\u2460", "\ufdfa", "<0x0A>", "e\u0301", "\u00c9", "today", "kinds", "  ", "\u200d", "\U0001f468\u200d\U0001f469", "user", "\u0130"]
BYTES = [f"<0x{i:02X}>" for i in range(256)]
SPECIAL = ["<unk>", "<s>", "</s>"]
TSV = "".join(f"{' '.join(f'{ord(c):X}' for c in a)}\t{' '.join(f'{ord(c):X}' for c in b)}\n" for a, b in
              [("\u2460", "1"), ("\ufb01", "fi"), ("\u3000", " "), ("\t", " "), ("\u00a0", " "), ("\u00c9", "e\u0301"), ("e\u0301", "\u00e9"), ("\u200d", ""),
               ("\ufdfa", "a b c"), ("\u1e9e", "ss"), ("\u00bd", "1 2"), ("\u0130", "i\u0307"), ("\u2581", " "), ("A", "a"), ("!!", "!")])


def strange():
    """Returns ranges of code points to skip, because the peers have a newer Unicode than Rille. Checks case, accents, scripts and
    BERT's cleaning; newer_characters() of tokenizer.py checks the other functions."""
    odd, lower, marks, clean = set(), N.Lowercase(), N.StripAccents(), N.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    scripts = P.UnicodeScripts()
    for c in range(0x110000):
        s = chr(c)
        k = unicodedata.category(s)
        if 0xD800 <= c < 0xE000:
            continue
        cleaned = "" if c in (0, 0xFFFD) or (k in ("Cc", "Cf", "Co") and s not in "\t\n\r") else " " if s.isspace() and not 0x1c <= c <= 0x1f else s
        old = k not in ("Cn", "Co") and s != " " and len(scripts.pre_tokenize_str("a" + s + "a")) == 1 and len(scripts.pre_tokenize_str("\u03b1" + s + "\u03b1")) == 1
        if k == "Cn" or old or lower.normalize_str(s) != s.lower() or (marks.normalize_str(s) == "") != (k[0] == "M") or clean.normalize_str(s) != cleaned:
            odd.add(c)
    ranges = []
    for c in sorted(odd):
        if ranges and c <= ranges[-1][0] + ranges[-1][1] + 8:
            ranges[-1][1] = c + 1 - ranges[-1][0]
        else:
            ranges.append([c, 1])
    return ranges


def corpus(ascii):
    with open(os.path.join(HERE, "../../../README.md")) as f:
        lines = f.read().split("\n") * 3
    lines += ["the thing in the hello world user", "don't 12345 today", "Hello World kinds <s>"] * 20
    lines += [base.string(i, True).decode() for i in range(100000, 100400)]
    return [x for x in lines if (x.isascii() or not ascii) and "\0" not in x]


def trained(model, trainer, pre, normalizer=None, ascii=True):
    t = Tokenizer(model)
    t.pre_tokenizer = pre
    if normalizer:
        t.normalizer = normalizer
    t.train_from_iterator(corpus(ascii), trainer)
    return json.loads(t.to_str())["model"]


def part(x):
    return json.loads(x.__getstate__()) if x is not None else None


def vocabularies():
    meta = P.Metaspace()
    bpe = trained(M.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True), T.BpeTrainer(vocab_size=480, special_tokens=SPECIAL + BYTES, show_progress=False), meta)
    no = {"byte_fallback": False}
    suffix = trained(M.BPE(unk_token="<unk>", end_of_word_suffix="</w>"), T.BpeTrainer(vocab_size=260, special_tokens=SPECIAL, end_of_word_suffix="</w>", limit_alphabet=70, show_progress=False), P.WhitespaceSplit())
    clip = trained(M.BPE(unk_token="<s>", end_of_word_suffix="</w>"), T.BpeTrainer(vocab_size=700, special_tokens=SPECIAL[1:], end_of_word_suffix="</w>", initial_alphabet=P.ByteLevel.alphabet(), show_progress=False), P.ByteLevel(add_prefix_space=False))
    clip["vocab"].update({c + "</w>": len(clip["vocab"]) + i for i, c in enumerate(sorted(c for c in base.SPELLED.values() if c + "</w>" not in clip["vocab"]))})
    prefix = trained(M.BPE(unk_token="<unk>", continuing_subword_prefix="##"), T.BpeTrainer(vocab_size=300, special_tokens=SPECIAL, continuing_subword_prefix="##", limit_alphabet=70, show_progress=False), P.Whitespace())
    word = trained(M.WordPiece(unk_token="[UNK]", max_input_chars_per_word=30), T.WordPieceTrainer(vocab_size=300, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"], limit_alphabet=90, show_progress=False), P.BertPreTokenizer(), N.BertNormalizer())
    level = trained(M.WordLevel(unk_token="<unk>"), T.WordLevelTrainer(vocab_size=160, special_tokens=SPECIAL, show_progress=False), P.Whitespace())
    letters = trained(M.WordLevel(unk_token="<unk>"), T.WordLevelTrainer(vocab_size=90, special_tokens=SPECIAL, show_progress=False), P.FixedLength(1))
    unigram = trained(M.Unigram(), T.UnigramTrainer(vocab_size=220, unk_token="<unk>", special_tokens=SPECIAL, show_progress=False), meta)
    unigram["vocab"] = [[t, round(s, 4)] for t, s in unigram["vocab"]]
    fallback = {**unigram, "byte_fallback": True, "vocab": unigram["vocab"] + [[b, -50.0] for b in BYTES]}
    with open(os.path.join(HERE, "tokenizer.json")) as f:
        level_bytes = json.load(f)["model"]
    return {"bpe": bpe, "bpe-unknown": {**bpe, **no}, "bpe-each": {**bpe, **no, "fuse_unk": False}, "bpe-drop": {**bpe, **no, "unk_token": None}, "bpe-whole": {**bpe, "ignore_merges": True},
            "suffix": suffix, "clip": clip, "prefix": prefix, "word": word, "level": level, "letters": letters, "unigram": unigram, "fallback": fallback, "bytes": level_bytes}


def message(bytes):
    """Yields the fields of a protocol buffer."""
    at = 0
    def varint():
        nonlocal at
        value = shift = 0
        while True:
            b = bytes[at]
            at, value, shift = at + 1, value | (b & 127) << shift, shift + 7
            if b < 128:
                return value
    while at < len(bytes):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            n = 4 if key & 7 == 5 else 8 if key & 7 == 1 else varint()
            yield key >> 3, bytes[at:at + n]
            at += n


SENTENCEPIECE = {
    "unigram": dict(model_type="unigram", vocab_size=180),
    "bpe": dict(model_type="bpe", vocab_size=240, remove_extra_whitespaces=False, user_defined_symbols=["user", "<sep>", "in", "  "]),
    "bytes": dict(model_type="bpe", vocab_size=420, byte_fallback=True, add_dummy_prefix=False),
    "suffix": dict(model_type="unigram", vocab_size=170, treat_whitespace_as_suffix=True, user_defined_symbols=["user", "ing", "\ufb01"], control_symbols=["<mask>"]),
}


def sentencepieces():
    tsv, text = "/tmp/kinds.tsv", "/tmp/kinds.txt"
    with open(tsv, "w") as f:
        f.write(TSV)
    with open(text, "w") as f:
        f.write("\n".join(corpus(True)))
    for name, kw in SENTENCEPIECE.items():
        out = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(input=text, model_writer=out, normalization_rule_tsv=tsv, minloglevel=2, character_coverage=0.995, self_test_sample_size=0, hard_vocab_limit=False, **kw)
        with open(os.path.join(HERE, f"kinds-{name}.model"), "wb") as f:
            f.write(out.getvalue())
        yield name, out.getvalue()


def cases(charsmap):
    def meta(scheme="always", split=True): return P.Metaspace(prepend_scheme=scheme, split=split)
    llama = D.Sequence([D.Replace("\u2581", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)])
    byte = P.ByteLevel(add_prefix_space=False)
    prepend = N.Sequence([N.Prepend("\u2581"), N.Replace(" ", "\u2581")])
    yield "llama-2", "bpe", prepend, None, llama
    yield "llama-2, whole pieces", "bpe-whole", prepend, None, llama
    yield "gemma", "bpe", N.Replace(" ", "\u2581"), P.Split(" ", "merged_with_previous"), D.Sequence([D.Replace("\u2581", " "), D.ByteFallback(), D.Fuse()])
    for scheme in ("always", "never", "first"):
        for split in (True, False):
            yield f"metaspace {scheme} {split}", "bpe", N.Strip(left=True, right=False) if split else None, meta(scheme, split), D.Metaspace(prepend_scheme=scheme)
    yield "unknown characters, fused", "bpe-unknown", prepend, None, llama
    yield "unknown characters", "bpe-each", None, meta(), D.Metaspace()
    yield "unknown characters, dropped", "bpe-drop", N.Nmt(), meta(), D.Metaspace()
    yield "suffixes", "suffix", N.NFKD(), P.WhitespaceSplit(), D.BPEDecoder(suffix="</w>")
    yield "clip", "clip", N.Sequence([N.NFC(), N.Replace(Regex(r"\s+"), " "), N.Lowercase()]), P.Sequence([P.Split(Regex(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", True), byte]), D.ByteLevel()
    yield "prefixes", "prefix", N.StripAccents(), P.Whitespace(), D.WordPiece(prefix="##")
    yield "falcon", "bytes", None, P.Sequence([P.Punctuation("contiguous"), byte, P.Digits(False), P.Split(Regex("[0-9][0-9][0-9]"), "isolated")]), D.ByteLevel()
    yield "bytes by the normalizer", "bytes", N.ByteLevel(), None, D.ByteLevel()
    yield "bytes with other decoders", "bytes", None, P.ByteLevel(add_prefix_space=True), D.Sequence([D.ByteLevel(), D.Strip(" ", 1, 0)])
    for name, kw in {"bert": {}, "bert cased": {"lowercase": False}, "bert accents": {"lowercase": False, "strip_accents": True}, "bert raw": {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False}}.items():
        yield name, "word", N.BertNormalizer(**kw), P.BertPreTokenizer(), D.WordPiece(prefix="##", cleanup=name != "bert cased")
    yield "words", "level", None, P.Whitespace(), None
    yield "words between spaces", "level", N.Sequence([N.NFD(), N.StripAccents(), N.Lowercase()]), P.Sequence([P.WhitespaceSplit(), P.Digits(True), P.Punctuation()]), None
    yield "words between letters", "level", None, P.CharDelimiterSplit("e"), D.Fuse()
    yield "scripts", "level", None, P.UnicodeScripts(), D.Fuse()
    yield "ctc", "letters", N.Replace(" ", "|"), P.FixedLength(1), D.CTC(pad_token="<s>", word_delimiter_token="|")
    yield "pairs", "letters", None, P.FixedLength(2), None
    yield "unigram", "unigram", N.Sequence([N.Nmt(), N.NFKC(), N.Replace(Regex(" {2,}"), " ")]), meta(), D.Metaspace()
    yield "t5", "unigram", N.Sequence([N.Precompiled(charsmap), N.Strip(left=False, right=True), N.Replace(Regex(" {2,}"), "\u2581")]), meta(), D.Metaspace()
    yield "xlm-r", "unigram", N.Precompiled(charsmap), P.Sequence([P.WhitespaceSplit(), meta("first")]), D.Metaspace(prepend_scheme="first")
    yield "unigram, bytes", "fallback", None, meta(), D.Sequence([D.ByteFallback(), D.Metaspace()])


def digest_text(text, h):
    for b in text.encode() + b"\xff":
        h = ((h ^ b) * 1099511628211) & base.M
    return h


def digests(encode, decode):
    ids, texts, h, g = [], [], 1469598103934665603, 1469598103934665603
    for seed in range(COUNT):
        got = encode(base.string(seed, True).decode())
        h, g = base.digest(got, h), digest_text(decode(got), g)
        if (seed + 1) % EACH == 0:
            ids.append(h)
            texts.append(g)
    def number(list): return "{" + ", ".join(f"0x{x:016x}" for x in list) + "}"
    return f"ids = {number(ids)}, texts = {number(texts)}"


def text_of(value):
    return "[===[" + json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "]===]"


def main():
    base.BITS[:] = BITS
    base.SKIPPED[:] = strange()
    vocabulary, pieces = vocabularies(), dict(sentencepieces())
    charsmap = next(dict(message(v))[2] for k, v in message(pieces["unigram"]) if k == 3)
    lines = [f"-- Made by kinds.py with tokenizers {tokenizers.__version__} and sentencepiece {sentencepiece.__version__}.", "return {", f"  count = {COUNT}, each = {EACH},"]
    lines.append("  blocks = {" + ", ".join(f"{{{a}, {n}}}" for a, n in base.BLOCKS) + "},")
    lines.append("  stray = {" + ", ".join(f"0x{b:x}" for b in base.STRAY) + "},")
    lines.append("  skipped = {" + ", ".join(f"{{{a}, {n}}}" for a, n in base.SKIPPED) + "},")
    lines.append("  bits = {" + ", ".join('"' + "".join(f"\\x{b:02x}" if b > 126 or b < 32 else chr(b) for b in s.encode()) + '"' for s in BITS) + "},")
    lines.append("  models = {")
    changed = {"bpe-unknown": "bpe", "bpe-each": "bpe", "bpe-drop": "bpe", "bpe-whole": "bpe"}
    for name, model in vocabulary.items():
        if name in changed:
            own = {k: v for k, v in model.items() if v != vocabulary[changed[name]][k]}
            lines.append(f"    [{json.dumps(name)}] = {{of = {json.dumps(changed[name])}, {', '.join(f'{k} = {json.dumps(json.dumps(v))}' for k, v in own.items())}}},")
        elif name != "bytes":
            lines.append(f"    [{json.dumps(name)}] = {text_of(model)},")
    lines += ["  },", "  json = {"]
    for name, model, normalizer, pre, decoder in cases(charsmap):
        vocab = vocabulary[model]["vocab"]
        vocab = vocab if isinstance(vocab, dict) else {t: i for i, (t, _) in enumerate(vocab)}
        added = [{"id": vocab[s], "content": s, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
                 for s in [*SPECIAL, "[UNK]", "[SEP]"] if s in vocab]
        parts = {"normalizer": part(normalizer), "pre_tokenizer": part(pre), "decoder": part(decoder), "added_tokens": added}
        t = Tokenizer.from_str(json.dumps({"version": "1.0", "truncation": None, "padding": None, "post_processor": None, **parts, "model": vocabulary[model]}))
        found = digests(lambda s: t.encode(s, add_special_tokens=False).ids, lambda i: t.decode(i, skip_special_tokens=False))
        lines.append(f"    {{name = {json.dumps(name)}, model = {json.dumps(model)}, {', '.join(f'{k} = {text_of(v)}' for k, v in parts.items())},\n     {found}}},")
    lines += ["  },", "  sentencepiece = {"]
    for name, model in pieces.items():
        p = sentencepiece.SentencePieceProcessor(model_proto=model)
        lines.append(f"    {{name = {json.dumps(name)}, {digests(p.encode, p.decode)}}},")
    with open(os.path.join(HERE, "kinds.lua"), "w") as f:
        f.write("\n".join(lines + ["  },", "}"]) + "\n")


if __name__ == "__main__":
    main()
