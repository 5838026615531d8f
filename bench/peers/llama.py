"""llama.py - how fast llama.cpp generates text with a GPT-2 of random weights: the peer's part of bench/generate.sh.

    python bench/peers/llama.py make FOLDER              GPT-2 124M as GGUF: f32, bf16, q8_0 and q4_k.gguf
    python bench/peers/llama.py run FOLDER [threads] [ids]

Prints lines "row, seconds per id, bytes of weights read per id". The time is the least of all ids: processor time with one
thread, wall-clock time with more. Only ids matter, not text, so the vocabulary is the 256 bytes, one merge, and placeholders.

Each row runs in a process of its own. llama.cpp can repack weights for the processor, and that crashed for q8_0 with AMX. If a
row's process crashes, the row runs again without repacking, and its name says so.
"""
import os
import sys
import time

VOCAB, WIDTH, HEADS, LAYERS, LENGTH = 50257, 768, 12, 12, 1024


def make(path, kind):
    import gguf
    import numpy as np

    if kind == "q4_k":
        return quantize(path)
    quant = {"f32": gguf.GGMLQuantizationType.F32, "bf16": gguf.GGMLQuantizationType.BF16, "q8_0": gguf.GGMLQuantizationType.Q8_0}[kind]
    rng = np.random.default_rng(1)
    w = gguf.GGUFWriter(path, "gpt2")
    w.add_context_length(LENGTH)
    w.add_embedding_length(WIDTH)
    w.add_block_count(LAYERS)
    w.add_feed_forward_length(4 * WIDTH)
    w.add_head_count(HEADS)
    w.add_layer_norm_eps(1e-5)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    # Maps bytes to the printable characters that GPT-2's vocabulary uses for them.
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in keep]
    tokens = [chr(b) for b in keep] + [chr(256 + i) for i in range(len(rest))] + ["ab"]
    tokens += [f"<{i}>" for i in range(len(tokens), VOCAB)]
    w.add_token_list(tokens)
    w.add_token_types([1] * VOCAB)
    w.add_token_merges(["a b"])
    w.add_bos_token_id(VOCAB - 1)
    w.add_eos_token_id(VOCAB - 1)

    def vector(name, n, value):
        w.add_tensor(name, np.full(n, value, dtype=np.float32))

    def matrix(name, out, into):
        x = rng.standard_normal((out, into), dtype=np.float32) * 0.02
        w.add_tensor(name, gguf.quants.quantize(x, quant), raw_dtype=quant)

    matrix("token_embd.weight", VOCAB, WIDTH)
    w.add_tensor("position_embd.weight", rng.standard_normal((LENGTH, WIDTH), dtype=np.float32) * 0.02)
    for i in range(LAYERS):
        for norm in ("attn_norm", "ffn_norm"):
            vector(f"blk.{i}.{norm}.weight", WIDTH, 1)
            vector(f"blk.{i}.{norm}.bias", WIDTH, 0)
        for name, out, into in (("attn_qkv", 3, 1), ("attn_output", 1, 1), ("ffn_up", 4, 1), ("ffn_down", 1, 4)):
            matrix(f"blk.{i}.{name}.weight", out * WIDTH, into * WIDTH)
            vector(f"blk.{i}.{name}.bias", out * WIDTH, 0)
    vector("output_norm.weight", WIDTH, 1)
    vector("output_norm.bias", WIDTH, 0)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def quantize(path):
    """Makes q4_k.gguf from f32.gguf, by llama.cpp's quantiser: all matrices are stored in blocks of type Q4_K."""
    import llama_cpp

    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype, params.pure = llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_S, True
    source = os.path.join(os.path.dirname(path), "f32.gguf")
    if llama_cpp.llama_model_quantize(source.encode(), path.encode(), params):
        sys.exit(f"llama.cpp cannot make {path}")


def run(path, row, threads, ids, laid_anew):
    from llama_cpp import Llama, llama_cpp

    if not laid_anew:
        defaults = llama_cpp.llama_model_default_params

        def as_they_lie():
            params = defaults()
            params.use_extra_bufts = False
            return params

        llama_cpp.llama_model_default_params = as_they_lie
        row += ", as it lies"
    clock = time.process_time if threads == 1 else time.perf_counter
    model = Llama(path, n_ctx=512, n_threads=threads, n_threads_batch=threads, verbose=False)
    least = float("inf")
    for _ in range(4):
        model.reset()
        model.eval(list(range(1, 33)))
        for i in range(ids):
            start = clock()
            model.eval([model.sample(temp=0)])
            least = min(least, clock() - start)
    per = {"f32": 4, "bf16": 2, "q8_0": 34 / 32, "q4_k": 144 / 256}[row.split(",")[0]]
    read = int((LAYERS * 12 * WIDTH * WIDTH + VOCAB * WIDTH) * per)
    print(f"llama.cpp, {row}\t{least:.6f}\t{read}", flush=True)


def lives(*arguments):
    child = os.fork()
    if child == 0:
        run(*arguments)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


if __name__ == "__main__":
    folder = sys.argv[2]
    for kind in ("f32", "bf16", "q8_0", "q4_k"):
        path = os.path.join(folder, kind + ".gguf")
        if sys.argv[1] == "make":
            make(path, kind)
        else:
            threads, ids = int(sys.argv[3]) if len(sys.argv) > 3 else 1, int(sys.argv[4]) if len(sys.argv) > 4 else 64
            if not lives(path, kind, threads, ids, True) and not lives(path, kind, threads, ids, False):
                print(f"llama.cpp has no row {kind}", file=sys.stderr)
