"""families.py - Hugging Face's decoders beside Rille's: the peer's part of bench/families.sh.

    python bench/peers/families.py make FOLDER [entry...]     models of t/golden/models/families.py, and their results
    python bench/peers/families.py compare FOLDER             prints the largest differences, after bench/families.lua

A difference is divided by the largest absolute value of the tensor, except for the loss. For bf16 and f16, the row "transformers"
is the difference of transformers' own results from its f32 results.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../t/golden/models"))
import families as F
import torch
from safetensors.torch import load_file, save_file

T, HALVES = F.T, {"bf16": torch.bfloat16, "f16": torch.float16}


def loss_of(model, ids):
    return torch.nn.functional.cross_entropy(model(ids[:, :-1]).logits.float().reshape(-1, F.VOCAB), ids[:, 1:].reshape(-1))


def load(at, dtype=torch.float32):
    return T.AutoModelForCausalLM.from_pretrained(at, attn_implementation="eager", dtype=dtype).eval()


def make(at, config, ids):
    os.makedirs(at)
    T.AutoModelForCausalLM.from_config(config).save_pretrained(at + "/f32")
    path = at + "/f32/model.safetensors"
    save_file({n: F.weight(n, t.shape) for n, t in load_file(path).items()}, path, metadata={"format": "pt"})
    model, result = load(at + "/f32"), {"ids": ids}
    model.save_pretrained(at + "/shards", max_shard_size="20KB")
    with torch.no_grad():
        result["logits"] = model(ids).logits.contiguous()
        greedy = model.generate(ids[:, :F.PROMPT], attention_mask=torch.ones_like(ids[:, :F.PROMPT]), max_new_tokens=F.NEW, do_sample=False,
                                eos_token_id=None, pad_token_id=0)
        result["greedy"] = greedy.contiguous()
        for name, dtype in HALVES.items():
            half = load(at + "/f32", dtype)
            half.save_pretrained(f"{at}/{name}")
            result[name] = half(ids).logits.float().contiguous()
    loss = loss_of(model, ids)
    loss.backward()
    result["loss"] = loss.detach().reshape(1)
    torch.optim.SGD(model.parameters(), lr=0.01).step()
    grads = {p: torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()}
    model.save_pretrained(at + "/step")
    with torch.no_grad():
        for b in model.buffers():
            b.zero_()
        for p, g in grads.items():
            p.copy_(g)
            p.grad = None
    model.save_pretrained(at + "/gradients")
    save_file(result, at + "/result.safetensors")


def tensors(at):
    return load_file(at + "/model.safetensors")


def far(a, b):
    return float((a.double() - b.double()).abs().max() / b.double().abs().max().clamp(min=1e-30))


def farthest(a, b):
    """Returns the largest difference of two folders' tensors, relative to the largest value of all of them."""
    most = max(float(t.double().abs().max()) for t in b.values())
    return max(float((a[n].double() - t.double()).abs().max()) for n, t in b.items()) / most if a.keys() == b.keys() else float("inf")


def compare(at):
    """Returns the differences of one entry, by column."""
    theirs, ours = load_file(at + "/result.safetensors"), load_file(at + "/rille.safetensors")
    d = {"logits": far(ours["logits"], theirs["logits"]), "sharded file": far(ours["shards"], ours["logits"]),
         "other text": float((ours["greedy"] != theirs["greedy"]).any(1).sum()),
         "loss": abs(float(ours["loss"] - theirs["loss"]))}
    d["gradients"] = farthest(tensors(at + "/rille-gradients"), tensors(at + "/gradients"))
    d["one step"] = farthest(tensors(at + "/rille-step"), tensors(at + "/step"))
    for name in HALVES:
        d[name], d[name + ", transformers"] = far(ours[name], theirs["logits"]), far(theirs[name], theirs["logits"])
    for name, t in ours.items():
        if name.startswith("recipe"):
            d[name[7:]] = far(t, ours["logits"])
    back = load(at + "/rille-saved")
    with torch.no_grad():
        d["round trip"] = far(back(theirs["ids"]).logits, theirs["logits"])
    return d


if __name__ == "__main__":
    what, root = sys.argv[1:3]
    if what == "make":
        ids = ((F.spread("ids", F.ROWS * F.LENGTH) + 1) / 2 * (F.VOCAB - 3) + 3).astype("int64")
        for name, config in F.ENTRIES.items():
            if len(sys.argv) == 3 or name in sys.argv[3:]:
                make(f"{root}/{name.replace(' ', '-')}", config(), torch.tensor(ids).reshape(F.ROWS, F.LENGTH))
    else:
        worst, types, at = {}, set(), sorted(os.listdir(root))
        for name in at:
            if not os.path.exists(f"{root}/{name}/rille-gradients"):
                print(f"{name}: Rille failed")
                continue
            types.add(name.split("-")[0])
            for column, value in compare(f"{root}/{name}").items():
                worst.setdefault(column, []).append((value, name))
        print(f"{len(types)} model types, {len(at)} models; transformers {T.__version__}, torch {torch.__version__}\n")
        print(f"{'':24} {'models':>6} {'largest':>9} {'median':>9}   largest in")
        for column, values in worst.items():
            values.sort()
            print(f"{column:24} {len(values):6} {values[-1][0]:9.1e} {values[len(values) // 2][0]:9.1e}   {values[-1][1]}")
