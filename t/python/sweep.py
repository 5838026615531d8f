"""sweep.py - calls each function, method, layer and optimiser of the Python package with each value of a pool of wrong arguments.

A call may succeed or raise an exception in the words of Python. No call may end Python, or raise the errors of other layers: of
ctypes or cffi, of a missing attribute within the package, or of the library with functions of rille.h or Lua's syntax.
"""

import inspect
import pathlib
import re
import subprocess
import sys

import numpy as np
import tap

import rille
from rille import nn, optim
from rille.library import ffi
from rille.words import spoken

LUA = re.compile(r"rille_\w+(?=:|\(\))|\w\{|\b[a-z]\w*:[a-z_]+[({]|\{[^}]*=|\b(nil|true|false)\b")
FOREIGN = re.compile(r"cdata|ctype|initializer|object has no attribute|NoneType' object|is not iterable|codec|too (big|large) to convert|unhashable|only .* arrays can be")
KINDS = (rille.Error, TypeError, ValueError, IndexError, AttributeError, KeyError, BufferError, NotImplementedError)


def pool():
    """Returns wrong and right values by name."""
    line = rille.placement("cpu", [0, 1])
    split, leaf = rille.ones((4, 4), placement=line, sbp="S(0)"), rille.ones((2, 2), requires_grad=True)
    values = [0, -1, 2, 10**9, 2**63, 2**70, 1.5, float("nan"), float("inf"), None, True, "x", "B", "S(9)", "f16", "", "a\0b", "\ud800"]
    values += [[], (2,), (2, -1), (2, 2**70), [1.5], ["x"], {}, object(), b"B", np.ones(2, np.float32), np.int64(1), [0, 0], list(range(20))]
    values += [line, line.__class__, nn.Linear(2, 2), len, lambda *a: a[0] if a else None, rille.relu]
    tensors = rille.ones((2, 3)), rille.arange(3), rille.ones((2, 3)) > 0, rille.tensor(1), split, split.sum(0), leaf, leaf * 2
    meta = rille.ones((2, 2), placement=rille.placement("meta", [0]))
    return {str(v)[:40] if i < len(values) else repr(v): v for i, v in enumerate([*values, *tensors, meta, [leaf], [leaf, 1]])}


def fault(call, *args):
    """Calls a function. Returns the exception's text if the exception is not in the words of Python, else None."""
    try:
        call(*args)
    except Exception as e:
        said = str(e).replace("rille_operator", "")
        if not isinstance(e, KINDS) or LUA.search(said) or FOREIGN.search(said) or len(said) < 5:
            return f"{type(e).__name__}: {e!s:.150}"
    return None


def sweep(name, call):
    """Checks the calls with no argument, with each value of the pool, and with each value and a tensor."""
    wrong = [("", found) for found in [fault(call)] if found]
    for key in VALUES:
        arguments = (VALUES[key],), (VALUES[key], 0), (FIRST, VALUES[key])
        wrong += [(key, found) for found in [fault(call, *a) for a in arguments] if found]
    tap.equal(f"{name} refuses what is wrong in the words of Python", wrong[:5], [])


def texts():
    """Checks the messages of the library's sources, and the names of the functions of rille.h that the package calls."""
    wrong = []
    messages = subprocess.run(["bash", "t/project/messages.sh", "list"], capture_output=True, check=True, text=True).stdout
    for line in messages.splitlines():
        file, said = line.replace('\\"', '"').split(": ", 1)
        if re.match("(actors|runtime|sbp|boxing|kernels/(op|exec|cpu))/", file) and not re.search("svg|/codec/|/file/|verify", file):
            wrong += [spoken(said)] if LUA.search(spoken(said)) else []
    tap.equal("messages of the library have Python's syntax", wrong, [])
    sources = " ".join(p.read_text() for p in pathlib.Path("python/rille").glob("*.py"))
    homes = rille, rille.Tensor, rille.steps.Step, rille.Placement, optim.Optimizer, nn.Module, rille.operators.Operator, rille.session.Session
    names = {spoken(f"{c}: x").split(":")[0] for c in re.findall(r"check\(\s*lib\.(rille_\w+)", sources) + re.findall(r"_made\(lib\.(rille_\w+)", sources)}
    inner = {"auto", "call", "create", "error", "tensor_grad", "trace_begin", "trace_end", "graph_check", "graph_run", "live_new", "live_ask"}
    tap.equal("functions of rille.h have the names of Python's functions", sorted(n for n in names - inner if not any(hasattr(h, n) for h in homes)), [])
    tap.equal("help pages have Python's syntax", [n for n, op in rille.operators.public().items() if LUA.search(op.__doc__)], [])


def options():
    step = {name: v for name, v in ffi.typeof("struct rille_graph_options").fields}
    for name in step:
        sweep(f"graph({name}=)", lambda *v: rille.graph(lambda t: t * 2, **({name: v[0]} if len(v) == 1 else {}))(FIRST))
    for source, args in {"zeros": [(2, 2)], "full": [(2, 2), 1], "randint": [0, 3, (2,)], "arange": [3], "linspace": [0, 1, 3], "tensor": [[1.0]]}.items():
        for name in ("dtype", "placement", "sbp", "requires_grad"):
            place = {} if name == "placement" else {"placement": rille.placement("cpu", [0, 1])}
            sweep(f"{source}({name}=)", lambda *v: getattr(rille, source)(*args, **place, **({name: v[0]} if len(v) == 1 else {})))
    for name in ("requires_grad", "grad", "name"):
        sweep(f"t.{name} =", lambda *v: len(v) == 1 and setattr(FIRST, name, v[0]))


def public():
    """Yields names and functions: of the module, of the layers and optimisers, and of tensors on one and on two devices."""
    skipped = {"open", "close", "adopt", "load_operators", "Error", "Tensor", "Placement", "text"}
    for name, call in vars(rille).items():
        if callable(call) and not name.startswith("_") and name not in skipped:
            yield f"rille.{name}", call
    layers = [c for c in vars(nn).values() if inspect.isclass(c) and issubclass(c, nn.Module)] + [nn.Parameter, optim.SGD, optim.Adam, optim.AdamW]
    yield from ((f"{c.__module__}.{c.__name__}", c) for c in layers)
    yield from ((f"Linear.{name}", getattr(nn.Linear(3, 2), name)) for name in ("__call__", "to_global", "load_state_dict", "eval"))
    own = "copy_ to_global to_global_ to_local numpy item tolist detach clone backward __getitem__ __dlpack__ __add__ __rsub__ __eq__ __matmul__"
    for t in FIRST, VALUES["f32 (4,) P on cpu[0, 1]"]:
        yield from ((f"{t!r}.{name}", getattr(t, name)) for name in own.split())


rille.open(devices="cpu:4")
VALUES, FIRST = pool(), rille.ones((2, 3))
texts()
for i, case in enumerate([("options", options), *public()]):
    if tap.share(i):
        case[1]() if case[0] == "options" else sweep(*case)
sys.exit(tap.finish())
