"""package.py - tests the Python package in one process: values, layouts, operators, gradients, steps, layers, errors."""

import collections
import ctypes
import gc
import inspect
import itertools
import operator as py
import sys
import threading

import numpy as np
import tap

import rille
from rille import dlpack, nn, operators, optim
from rille.library import ffi, lib
from rille.session import current
from rille.steps import _lives as live_functions
from rille.tensors import NUMPY, OTHERS


def close(found, expected, tolerance=1e-5):
    return np.allclose(np.asarray(found), expected, rtol=tolerance, atol=tolerance)


def aligned(array):
    """Returns a copy of an array at an address that is a multiple of 64."""
    room = np.zeros(array.nbytes + 64, np.uint8)
    skip = -room.ctypes.data % 64
    out = room[skip : skip + array.nbytes].view(array.dtype).reshape(array.shape)
    out[...] = array
    return out


OLD_NUMPY = tuple(map(int, np.__version__.split(".")[:2])) < (2, 1)  # lacks bools or read-only memory by DLPack
VIEWS = {"all": lambda a: a, "transposed": lambda a: a.T, "strided": lambda a: a[::2, ::-1], "empty": lambda a: a[1:1], "scalar": lambda a: a[1, 2]}


class Bf16:
    """An array of JAX or ml_dtypes with the dtype bfloat16."""

    dtype = "bfloat16"

    def __array__(self, dtype=None, copy=None):
        return np.array([1.5], dtype)


def counters():
    """Returns the counters of the session."""
    out = ffi.new("struct rille_counters *")
    lib.rille_count(current().at(), out)
    return out


def copies():
    wrong = []
    for name, kind in NUMPY.items():
        for view, of in VIEWS.items():
            array = of(np.arange(24).reshape(4, 6).astype(kind))
            t = rille.tensor(array)
            if (t.dtype != name or t.shape != array.shape or not np.array_equal(t.numpy(), array) or t.tolist() != array.tolist()):
                wrong.append((name, view))
    tap.equal("each dtype and form of an array is copied in and out", wrong, [])
    tap.equal("numbers and lists have the dtypes f32, i64 and bool", [rille.tensor(v).dtype for v in (1.5, [1, 2], [[True]])], ["f32", "i64", "bool"])
    t = rille.tensor([1.0, 2.5], dtype="bf16")
    tap.equal("an array of NumPy's bf16 is bf16", (rille.tensor(Bf16()).dtype, rille.tensor(Bf16()).tolist()), ("bf16", [1.5]))
    tap.equal(
        "bf16 is made of numbers and read as float32",
        (t.dtype, t.is_leaf, t.numpy().dtype, t.tolist()),
        ("bf16", True, np.float32, [1.0, 2.5]),
    )
    tap.equal("item has the type of the dtype", [rille.tensor(v, dtype=d).item() for v, d in ((2, "f64"), (2, "i32"), (1, "bool"))], [2.0, 2, True])


def shared_memory():
    wrong = []
    for kind in NUMPY.values():
        for view, of in VIEWS.items():
            if view == "scalar" or (kind is np.bool_ and OLD_NUMPY):
                continue
            array = of(aligned(np.arange(24).reshape(4, 6).astype(kind)))
            t = rille.from_dlpack(array)
            back = np.from_dlpack(t)
            shared = array.flags.c_contiguous and array.size > 0
            if not np.array_equal(back, array) or (back.ctypes.data == array.ctypes.data) != shared:
                wrong.append((kind.__name__, view))
    tap.equal("a dense, aligned array enters and leaves without a copy, others are copied", wrong, [])
    array = aligned(np.ones(4, np.float32))
    references = sys.getrefcount(array)
    t = rille.from_dlpack(array)
    held = sys.getrefcount(array)
    del t
    tap.ok("a tensor keeps the array, and releases it", held > references and sys.getrefcount(array) == references)
    if not OLD_NUMPY:
        array.flags.writeable = False
        t = rille.from_dlpack(array)
        copy = np.from_dlpack(t, copy=True)
        if copy.flags.writeable:  # NumPy 2.2 makes it read-only
            copy += 1
            tap.equal("a copy by DLPack can be written", (copy.tolist(), t.tolist()), ([2] * 4, [1] * 4))
        tap.ok("read-only memory is shared", np.from_dlpack(t).ctypes.data == array.ctypes.data and close(t, array))
    halves = rille.ones((1000,)).cast("bf16")
    codes = {}
    for form, version in (dlpack.PLAIN, None), (dlpack.VERSIONED, (1, 0)):
        made = halves.__dlpack__(max_version=version)
        if form.pointer(made):
            found = dlpack.layouts.cast(form.struct, form.pointer(made)).tensor
            codes[form.name] = found.code, found.bits, found.shape[0]
    tap.ok("a capsule has the dtype of the tensor", codes and set(codes.values()) == {(4, 16, 1000)}, codes)
    del made, halves
    before = counters().live_bytes
    for _ in range(10):  # NumPy lacks bf16, and drops the capsule while an exception is set
        tap.raises("the refusal of another library is its own", lambda: np.from_dlpack(rille.ones((1000,)).cast("bf16")), Exception, "Unsupported dtype")
    rille.ones((1,)).__dlpack__()
    tap.ok("capsules that a library refuses are released", counters().live_bytes - before < 1000, counters().live_bytes - before)
    ctypes.pythonapi.PyCapsule_IsValid.argtypes = [ctypes.c_int]  # another module's declaration
    tap.equal("other modules may declare the functions of capsules", rille.from_dlpack(np.ones(2)).tolist(), [1, 1])
    before = counters().live_bytes
    capsules = [rille.ones((1000,)).__dlpack__(max_version=version) for version in (None, (1, 0))]
    held = counters().live_bytes
    capsules.clear()
    rille.ones((1,)).__dlpack__()
    tap.ok("capsules that nobody takes are released", held - before >= 8000 and counters().live_bytes - before < 1000)
    sharded = rille.ones((4,), placement=rille.placement("cpu", [0, 1]), sbp="S(0)")
    tap.raises("a sharded tensor is refused by name", lambda: np.from_dlpack(sharded), rille.Error, 'call to_global(sbp="B") first')


def table():
    names, i = set(), 0
    while record := lib.rille_op_at(i):
        i += 1
        if not lib.rille_op_hidden(record):
            names.add(ffi.string(lib.rille_op_name(record)).decode())
    tap.equal(
        "each operator of the table is a function or a method",
        [n for n in sorted(names) if not hasattr(rille, n) and not hasattr(rille.Tensor, n)],
        [],
    )
    found = operators.public().values()
    tap.ok("there are at least 80 operators", len(found) >= 80, len(found))
    tap.equal("the help page of each operator is its docstring", [op.name for op in found if not op.__doc__.startswith(op.name)], [])
    tap.equal("each operator has a signature", [op.name for op in found if not inspect.signature(op)], [])
    tap.equal("a method has the page, too", rille.ones((2,)).relu.__doc__, rille.relu.__doc__)


def python_operators():
    a, b = np.float32([[1, -2, 3], [4, 5, -6]]), np.float32([[2, 2, 0.5], [1, 3, 2]])
    functions = [py.add, py.sub, py.mul, py.truediv, py.eq, py.ne, py.lt, py.le, py.gt, py.ge]
    forms = {
        "two tensors": (rille.tensor, rille.tensor),
        "a number at the right": (rille.tensor, lambda _: 2.0),
        "a number at the left": (lambda _: 2.0, rille.tensor),
    }
    wrong = [
        (f.__name__, form)
        for f, (form, (left, right)) in itertools.product(functions, forms.items())
        if not close(f(left(a), right(b)), f(a if left is rille.tensor else 2.0, b if right is rille.tensor else 2.0))
    ]
    tap.equal("each operator of Python computes what NumPy computes", wrong, [])
    t = rille.tensor(a)
    pairs = [(-t, -a), (abs(t), abs(a)), (t**2, a**2), (t @ rille.tensor(b.T), a @ b.T), (2.0**t, 2.0**a)]
    tap.ok("-, abs, ** and @ compute what NumPy computes", all(close(x, y) for x, y in pairs))
    m, n = rille.tensor([True, True, False]), rille.tensor([True, False, False])
    tap.equal(
        "&, | and ~ are logical",
        [(m & n).tolist(), (m | n).tolist(), (~m).tolist()],
        [[True, False, False], [True, True, False], [False, False, True]],
    )


KEYS = [
    0,
    -1,
    slice(1, None),
    slice(None, None, 2),
    slice(3, 1),
    (0, 1),
    (slice(None), 2),
    (..., 0),
    (None, 1),
    (1, None, 2),
    (0, ..., slice(1, 3)),
    (slice(0, 2), slice(None), -2),
    (..., None),
    (),
]


def indexing():
    array = np.arange(24).reshape(2, 3, 4)
    t = rille.tensor(array)
    tap.equal("each index selects what NumPy selects", [k for k in KEYS if not np.array_equal(t[k].numpy(), array[k])], [])
    selections = np.array([1, 0, 1]), np.array([[0, 1], [1, 0]]), np.array(1), np.zeros(0, np.int64)
    places = [lambda i: i, lambda i: (i, 0), lambda i: (slice(None), i), lambda i: (..., i), lambda i: (i, slice(1, 3), 2), lambda i: (None, i)]
    wrong = [
        (ids.tolist(), k)
        for ids, (k, place) in itertools.product(selections, enumerate(places))
        if not np.array_equal(t[place(rille.tensor(ids))].numpy(), array[place(ids)])
    ]
    tap.equal("a tensor of integers selects what an array selects in NumPy", wrong, [])
    several = "expected at most one tensor of integers, found several; x.gather(ids, axis) selects one entry of each row"
    ids = rille.tensor([0, 1])
    tap.raises("several tensors are refused", lambda: t[ids, ids], IndexError, several)
    tap.equal("gather selects one entry of each row", rille.tensor([[1, 2], [3, 4]]).gather(ids.unsqueeze(1), 1).tolist(), [[1], [4]])
    tap.equal("a loop has the rows", [r.tolist() for r in t], array.tolist())


def sources():
    made = [
        (rille.zeros((2, 3)), np.zeros((2, 3))),
        (rille.full((2,), 7), np.full(2, 7)),
        (rille.eye(2, 3), np.eye(2, 3)),
        (rille.arange(5), np.arange(5)),
        (rille.arange(1, 2, 0.25), np.arange(1, 2, 0.25)),
        (rille.arange(5, 0, -2), [5, 3, 1]),
        (rille.linspace(0, 1, 5), np.linspace(0, 1, 5)),
        (rille.ones(3), np.ones(3)),
    ]
    tap.ok("each source makes its values", all(t.shape == np.shape(a) and close(t, a) for t, a in made))
    tap.equal("arange has a step by name", rille.arange(5, step=2).tolist(), [0, 2, 4])
    tap.equal("full has arguments by name", rille.full(shape=(2,), value=3).tolist(), [3, 3])
    values = rille.randint(3, 6, (50,)).numpy()
    tap.ok("randint draws from low to high - 1", set(values) == {3, 4, 5}, values)
    rille.seed(5)
    first = rille.randn((4,)).tolist()
    rille.seed(5)
    tap.equal("equal seeds draw equal numbers", rille.randn((4,)).tolist(), first)


def layouts():
    array, wrong = np.arange(48, dtype=np.float32).reshape(4, 12), []
    line, mesh = rille.placement("cpu", [0, 1]), rille.placement("cpu", [[0, 1], [2, 3]])
    one = ["S(0)", "S(1)", "B", "P"]
    ways = [(line, s) for s in one] + [(mesh, pair) for pair in itertools.product(one, one)]
    for i, ((place, sbp), (other, to)) in enumerate(itertools.product(ways, ways)):
        if not tap.share(i):
            continue
        t = rille.tensor(array).to_global(place, sbp)
        u = t.to_global(other, to)
        if t.placement != place or not np.array_equal(u.numpy(), array):
            wrong.append((sbp, to))
    tap.equal("moves between layouts keep the values", wrong, [])
    tap.equal("a placement has kind, shape and ranks", (mesh.kind, mesh.shape, mesh.ranks, str(line)), ("cpu", (2, 2), [0, 1, 2, 3], "cpu[0, 1]"))
    split = rille.tensor(array, placement=line, sbp=rille.sbp.split(0))
    tap.equal("a split matrix has a sum of addends", (split.sbp, split.sum().sbp, split.to_local(1).tolist()), ("S(0)", "P", array[2:].tolist()))
    tap.equal("an SBP without a placement keeps the devices", split.to_global(sbp="B").placement, line)
    tap.ok("explain shows the moves", "2 operators" in rille.explain((split @ split.transpose(0, 1))))


def errors():
    a = rille.tensor([[1.0, 2.0, 3.0]])
    line = sys._getframe().f_lineno + 2
    try:
        rille.matmul(a, a)
        found = None
    except rille.Error as e:
        found = e
    expected = f"t/python/package.py:{line}"
    tap.equal("an error has kind and line", (found.kind, found.line), ("shapes do not fit", expected))
    tap.ok(
        "its text begins with the line, and has the operator's words",
        str(found).startswith(f"{expected}: matmul: dimension 1 of a is 3 but dimension 0 of b is 1"),
        found,
    )
    table = rille.zeros((4, 2))
    line = sys._getframe().f_lineno + 1
    rows = rille.embedding(rille.tensor([9]), table)
    try:
        rows.numpy()
        found = None
    except rille.Error as e:
        found = e
    expected = f"t/python/package.py:{line}"
    needed = f" (needed at t/python/package.py:{line + 2})"
    tap.ok(
        "an error of data begins with the line of the operator, and ends with the line of the read",
        found.line == expected and str(found).startswith(f"{expected}: embedding: id 9") and str(found).endswith(needed),
        (found.line, str(found)),
    )
    others = [
        (lambda: a[0, 3], IndexError, "index: position 3 is out of range: axis 0 has 3 entries"),
        (lambda: a[0, 0, 0], IndexError, "expected at most 2 positions"),
        (lambda: a[a > 3], IndexError, "mask.where(a, b) selects by a mask"),
        (lambda: a[::-1], IndexError, "x.flip(axis) reverses an axis"),
        (lambda: rille.placement("cpu", [[0, 1], [2]]), ValueError, "equal lengths"),
        (lambda: rille.zeros(2, placement=rille.placement("cpu", [0, 1]), sbp="Q"), rille.Error, "Q"),
    ]
    for call, kind, message in others:
        tap.raises(message, call, kind, message)
    calls = [
        (lambda: rille.from_dlpack([1]), "from_dlpack: expected an array with the method __dlpack__, found list"),
        (lambda: np.ones(3) + a, "add: a must be a tensor or a number, found ndarray"),
        (rille.arange, "arange: expected finite numbers stop, or start, stop and step"),
        (lambda: rille.zeros((2,), sbp="B"), "needs a placement"),
        (lambda: a.sum(axis="x"), "sum: axis must be an integer or a list of integers, found 'x'"),
        (lambda: a.sum(keepdim=2), "sum: keepdim must be True or False, found 2"),
        (lambda: a.cast(3), 'cast: dtype must be a dtype such as "f32", found 3'),
        (lambda: a.sum(colour=1), "sum: unknown argument 'colour'; expected one of: x, axis, keepdim, dtype"),
        (lambda: a.relu(1), "relu: expected at most 1 argument, (x), found 2"),
        (lambda: rille.ones(2, 3), "ones: expected the shape as one argument, such as (4, 5), found 2 arguments"),
        (lambda: rille.ones(2, device="cuda"), "ones: unknown argument 'device'; expected one of: dtype, placement, sbp, requires_grad"),
        (lambda: rille.graph(3), "graph: expected a function, found 3"),
        (lambda: rille.live(3), "live: expected a function without arguments, found 3"),
        (lambda: rille.matmul(a), "matmul: expected the argument b, found none"),
        (lambda: rille.matmul(a, b=a, a=a), "matmul: a is given twice"),
        (lambda: rille.zeros(), "zeros: expected a shape such as (4, 5), found none"),
        (lambda: rille.zeros(2, dtype=np.float32), "zeros: dtype must be a dtype such as \"f32\", found <class 'numpy.float32'>"),
        (lambda: rille.zeros(2, placement="cpu"), "placement must be made by rille.placement(kind, ranks), found 'cpu'"),
        (lambda: a.to_global(sbp=3), 'sbp must be a text such as "S(0)", or a list with one text for each mesh axis, found 3'),
        (lambda: rille.placement(0, [1]), 'placement: kind must be "cpu", "cuda" or "meta", found 0'),
        (lambda: rille.zeros("x"), "zeros: the shape must be a list of sizes such as (4, 5), found 'x'"),
        (lambda: rille.tensor(np.zeros(2, np.int16)), "expected one of the dtypes f32, f64, f16, i32, i64, u8, bool, bf16, found int16"),
        (lambda: rille.graph(abs, lags=1), "graph: unknown option 'lags'; expected one of: micro_batches, schedule"),
        (lambda: rille.graph(abs, lag="x"), "graph: lag must be an integer of at least 0, found 'x'"),
        (lambda: rille.graph(abs, schedule=2), "graph: schedule must be a string, found 2"),
        (lambda: rille.graph(abs, check_nan="x"), "graph: check_nan must be True or False, found 'x'"),
        (lambda: rille.graph(abs, memory="x"), "graph: memory must be a number, found 'x'"),
        (lambda: rille.graph(abs, offload=3), "graph: offload must be an object of this package, found 3"),
        (lambda: rille.graph(abs)(3), "graph: argument 1 must be a tensor, found int"),
        (lambda: rille.graph(lambda x: x)(x=a), "graph: arguments of a step are passed by position, found x="),
        (lambda: rille.graph(lambda x: 3)(a), "graph: the function must return tensors, or lists or dicts of tensors, found int"),
        (lambda: optim.SGD(nn.Linear(2, 2)), "SGD: expected a list of parameters, found a module; use net.parameters()"),
        (lambda: optim.SGD([a + 1]), "SGD: parameter 0 must be a leaf tensor, found f32 (1, 3) B on cpu[0]"),
    ]
    calls += [(lambda f=f: f([table], lr="x"), f"{f.__name__}: lr must be a number, found 'x'") for f in (optim.SGD, optim.Adam, optim.AdamW)]
    calls += [
        (lambda r=r: rille.placement("cpu", [0, r]), f"placement: ranks must be numbers of devices from 0, found {r!r}")
        for r in (-1, "a", 1.5, None, 2**31)
    ]
    for call, message in calls:
        tap.raises(message, call, TypeError, message)
    layers = {nn.Linear: "n_in n_out", nn.Embedding: "n d", nn.Conv2d: "n_in n_out size"}
    for (layer, names), wrong in itertools.product(layers.items(), (0, -1, 1.5, "a", None)):
        for name in names.split():
            message = f"nn.{layer.__name__}: {name} must be an integer of at least 1, found {wrong!r}"
            tap.raises(message, lambda: layer(**{**dict.fromkeys(names.split(), 2), name: wrong}), ValueError, message)
    values = [
        (lambda: optim.SGD([]), ValueError, "SGD: the list of parameters is empty; net.parameters() lists"),
        (lambda: optim.SGD([table, table]), ValueError, "SGD: the list of parameters has a parameter twice"),
        (lambda: a * 2**63, ValueError, "mul: b must have at most 64 bits, found 9223372036854775808"),
        (lambda: optim.AdamW(iter(())), ValueError, "AdamW: the list of parameters is empty"),
        (lambda: rille.placement("cpu", [9999]), rille.Error, 'open the session with devices = "cpu:10000"'),
    ]
    for call, kind, message in values:
        tap.raises(message, call, kind, message)
    tap.raises("an unknown word of an attribute is an error of the library", lambda: a.gelu(approximate="x"), rille.Error, "gelu")
    tap.raises("a second session is refused", lambda: rille.open(), rille.Error, "a session is open already")
    x = rille.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    for name, hint in OTHERS.items():
        tap.raises(f"x.{name}: the error says what to write", lambda: getattr(x, name), AttributeError, f"write {hint}")
        square = "@" in hint  # products need square matrices
        scope = {"x": x[:, 0:2] if square else x.clone().detach(), "y": x[:, 1:3] if square else x, "mask": x > 3, "rille": rille}
        if "cuda" not in hint:  # skips values on GPUs, because this machine may have none
            exec(hint, scope)
    tap.raises("a misspelt name is answered with the nearest", lambda: x.reshap, AttributeError, "nearest name is reshape")


def gradients():
    x = rille.tensor(np.float32([[1, 2], [3, 4]]), requires_grad=True)
    (x * x).sum().backward()
    tap.equal("backward sets the gradient", x.grad.tolist(), [[2, 4], [6, 8]])
    (x * 3).sum().backward()
    tap.equal("a second backward adds to it", x.grad.tolist(), [[5, 7], [9, 11]])
    x.grad = None
    tap.equal("the gradient can be removed", x.grad, None)
    with rille.no_grad():
        y = x * x
    tap.equal("no_grad records no gradient, and ends", (y.requires_grad, (x * x).requires_grad), (False, True))
    (first,) = rille.grad((x**3).sum(), [x])
    (second,) = rille.grad(first.sum(), [x])
    tap.equal("a gradient is differentiable", second.tolist(), (6 * x).tolist())
    loss = (x * x).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    tap.equal("a kept graph can be used again", x.grad.tolist(), (4 * x).tolist())
    x.copy_(rille.zeros((2, 2)))
    tap.equal("copy_ changes a leaf in place", x.tolist(), [[0, 0], [0, 0]])


def reference(kind, steps, lr):
    """Returns the weights after optimiser steps on the loss sum(w^2) / 2, by the formulas of lua/optim."""
    w, m, v = np.float64([1, -2, 3]), np.zeros(3), np.zeros(3)
    for t in range(1, steps + 1):
        rate, g = lr / t, w.copy()
        if kind in ("SGD", "momentum", "nesterov"):
            g += 0.1 * w
            m = (0 if kind == "SGD" else 0.9) * m + g
            w -= rate * (g + 0.9 * m if kind == "nesterov" else m)
            continue
        g += 0.1 * w if kind == "Adam" else 0
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        w -= rate * (0.1 * w if kind == "AdamW" else 0)
        w -= rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.99**t)) + 1e-8)
    return w


OPTIMISERS = {
    "SGD": lambda p: optim.SGD(p, weight_decay=0.1),
    "momentum": lambda p: optim.SGD(p, momentum=0.9, weight_decay=0.1),
    "nesterov": lambda p: optim.SGD(p, momentum=0.9, weight_decay=0.1, nesterov=True),
    "Adam": lambda p: optim.Adam(p, betas=(0.9, 0.99), weight_decay=0.1),
    "AdamW": lambda p: optim.AdamW(p, betas=(0.9, 0.99), weight_decay=0.1),
}


def optimisers():
    for kind, make in OPTIMISERS.items():
        values = []
        for compiled in (False, True):
            w = rille.tensor([1.0, -2.0, 3.0], requires_grad=True)
            opt = make([w])

            def step(one):
                loss = (w * w).sum() * one / 2
                loss.backward()
                opt.step()
                opt.zero_grad()
                return loss

            run = rille.graph(step) if compiled else step
            for t in range(1, 6):
                opt.lr = 0.1 / t
                run(rille.tensor(1.0))
            values.append(w.tolist())
            traces = len(run.traces) if compiled else 1
        tap.ok(
            f"{kind} computes its formula; a compiled step computes the same bits, is traced once, and counts steps",
            close(values[0], reference(kind, 5, 0.1), 1e-5)
            and values[0] == values[1]
            and traces == 1
            and opt.steps == 5,
            (values, reference(kind, 5, 0.1), traces, opt.steps),
        )


def late_parameters():
    """A parameter that gets its first gradient in step 4, or has none for a while, is updated as in its first steps."""
    for compiled, pause in itertools.product((False, True), ((1, 2, 3), (2, 3))):
        early, late = (rille.tensor([1.0, -2.0, 3.0], requires_grad=True) for _ in range(2))
        opt, found = optim.Adam([early, late], betas=(0.9, 0.99), weight_decay=0.1, lr=0.1), []

        def step(one):
            loss = (early * early).sum() + (late * late).sum() * one / 2
            loss.backward()
            opt.step()
            opt.zero_grad()

        run = rille.graph(step) if compiled else step
        for t in range(1, 6):
            late.requires_grad = t not in pause
            before = late.tolist()
            run(rille.tensor(1.0))
            if t not in pause:
                found.append(np.subtract(late.tolist(), before))
        alone = rille.tensor([1.0, -2.0, 3.0], requires_grad=True)
        other, expected = optim.Adam([alone], betas=(0.9, 0.99), weight_decay=0.1, lr=0.1), []
        for _ in found:
            before = alone.tolist()
            ((alone * alone).sum() / 2).backward()
            other.step()
            other.zero_grad()
            expected.append(np.subtract(alone.tolist(), before))
        name = f"{'compiled' if compiled else 'eager'}, without a gradient in the steps {pause}"
        tap.ok(f"{name}: the updates of a parameter are counted by itself", np.allclose(found, expected, 1e-4), (found, expected))


def assignments():
    """x += y changes a leaf, which other names see, too; for a result, it binds the name to a new tensor."""
    for name, change in {"+=": py.iadd, "-=": py.isub, "*=": py.imul, "/=": py.itruediv, "**=": py.ipow}.items():
        leaf, array = rille.tensor([1.0, -2.0, 3.0]), np.float32([1, -2, 3])
        for compiled in (False, True):
            other, result = leaf, leaf * 2
            run = rille.graph(lambda y: change(other, y)) if compiled else lambda y: change(other, y)
            run(rille.tensor([2.0, 2.0, 2.0]))
            array = change(array, np.float32(2))
            tap.ok(f"{name} changes a leaf, compiled: {compiled}", close(leaf, array), leaf)
            first = result
            result = change(result, 2)
            tap.ok(f"{name} of a result makes a new tensor", result is not first, result)
    params = [rille.tensor([1.0, 2.0], requires_grad=True), rille.tensor([3.0], requires_grad=True)]

    def descend(x):
        loss = sum((p * p).sum() for p in params) * x
        loss.backward()
        with rille.no_grad():
            for p in params:
                p -= 0.1 * p.grad
        for p in params:
            p.grad = None
        return loss

    step, one = rille.graph(descend), rille.tensor(1.0)
    found = [round(run(one).item(), 4) for run in (descend, step, step, descend)]
    tap.equal("a descent by hand over a list of parameters works, also compiled", found, [14.0, 8.96, 5.7344, 3.67])
    w = params[0]
    tap.raises("a leaf that requires a gradient is changed under no_grad", lambda: py.isub(w, w), rille.Error, "no_grad")
    tap.raises("a change of the shape is refused", lambda: py.iadd(rille.ones((2,)), rille.ones((3, 2))), rille.Error, "the variable's shape (2,)")
    tap.raises("a part cannot be assigned", lambda: py.setitem(rille.ones((2,)), 0, 1), TypeError, "write x.copy_(mask.where(y, x))")


def failed_steps():
    table = rille.ones((4, 2), requires_grad=True)
    opt = optim.Adam([table], lr=0.1)

    def step(ids):
        loss = rille.embedding(ids, table).sum()
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss

    for name, run in ("eager", step), ("compiled", rille.graph(step)):
        run(rille.tensor([1])).item()
        before = opt.steps, table.tolist()
        tap.raises(f"{name}: data out of range is an error", lambda: run(rille.tensor([9])).item(), rille.Error, "embedding: id 9")
        tap.equal(f"{name}: a step that failed changes neither the parameters nor the count", (opt.steps, table.tolist()), before)
        run(rille.tensor([2])).item()
        tap.equal(f"{name}: the next step is counted", opt.steps, before[0] + 1)


def pipelines():
    first, second = rille.placement("cpu", [0]), rille.placement("cpu", [1])
    x, y = np.float32(np.linspace(-1, 1, 128)).reshape(16, 8), np.arange(16) % 4
    losses = []
    for how in {}, {"micro_batches": 4}, {"micro_batches": 4, "schedule": "gpipe"}:
        rille.seed(0)
        a, b = nn.Linear(8, 16).to_global(first, "B"), nn.Linear(16, 4).to_global(second, "B")
        opt = optim.AdamW(a.parameters() + b.parameters(), lr=0.01)

        def step(x, y):
            loss = b(a(x).relu().to_global(second)).cross_entropy(y)
            loss.backward()
            opt.step()
            opt.zero_grad()
            return loss

        run = rille.graph(step, **how)
        losses.append([run(rille.tensor(x, placement=first), rille.tensor(y, placement=second)).item() for _ in range(4)])
    tap.ok("two stages with micro-batches compute the losses of one batch", close(losses[0], losses[1]) and close(losses[0], losses[2]), losses)
    place = rille.placement("cpu", [0, 1, 2, 3])
    w = rille.rand((64, 64), placement=place, sbp="auto", requires_grad=True)
    planned = rille.graph(lambda x: (x @ w).relu().sum(), auto_parallel="optimal")
    found = planned(rille.ones((32, 64), placement=place, sbp="auto")).item()
    tap.ok("a planner chooses the layout of an auto tensor", close(found, w.numpy().sum() * 32, 1e-3) and w.sbp != "B", (found, w.sbp))


def modes():
    x = rille.ones((2, 2), requires_grad=True)
    with rille.autocast("bf16"):
        inside = (x @ x).dtype
    tap.equal("autocast computes products in bf16, and ends", (inside, (x @ x).dtype), ("bf16", "f32"))
    with rille.recompute():
        y = x.exp().sin().sum()
    y.backward()
    tap.ok("recomputed results have the gradient", close(x.grad, np.e * np.cos(np.e)))
    decorated = rille.no_grad()(lambda: (x * x).requires_grad)
    tap.equal("a mode is a decorator, too", (decorated(), decorated(), (x * x).requires_grad), (False, False, True))


def steps():
    @rille.graph
    def pair(x, y):
        return {"sum": x + y, "rest": [x - y, None, (x * y,)]}

    a, b = rille.tensor([3.0, 4.0]), rille.tensor([1.0, 2.0])
    for _ in range(3):
        found = pair(a, b)
    tap.equal(
        "a step returns what its function returned",
        (found["sum"].tolist(), found["rest"][0].tolist(), found["rest"][1], found["rest"][2][0].tolist()),
        ([4, 6], [2, 2], None, [3, 8]),
    )
    pair(rille.ones((3,)), rille.ones((3,)))
    tap.equal("the function is recorded once for each type", len(pair.traces), 2)
    tap.ok("a step explains its layouts", "operators" in pair.explain())
    Pair = collections.namedtuple("Pair", "left right")
    tap.equal("a named tuple is returned as one", rille.graph(lambda x: Pair(x, -x))(a).right.tolist(), [-3, -4])
    state = {"n": 0}

    def ask():
        state["n"] += 1
        return state["n"]

    live = rille.graph(lambda x: x * rille.live(ask))
    tap.equal("a live number is asked for at each call", [live(a).tolist() for _ in range(3)], [[3, 4], [6, 8], [9, 12]])

    def bad(x):
        x.backward_gone()

    tap.raises("an exception of the function is passed on", lambda: rille.graph(bad)(a), AttributeError, "backward_gone")
    tap.equal("after it, no trace is open", lib.rille_tracing(current().pointer), False)
    broken = rille.graph(lambda x: x * rille.live(lambda: state["gone"]))
    try:
        broken(a)
        cause = None
    except rille.Error as e:
        cause = e.__cause__
    tap.ok("an exception of a live number is the cause of the error", isinstance(cause, KeyError), repr(cause))
    reading = rille.graph(lambda x: x * x.sum().item())
    tap.raises("a read within a trace is an error of the library", lambda: reading(a), rille.Error, "")
    rows = rille.tensor([[1.0], [3.0], [4.0], [8.0]])

    def spread(x):
        return rille.per_micro_batch(lambda: (x - x.mean(0)).square().mean())

    tap.equal("per_micro_batch combines the rows of each micro-batch", rille.graph(spread, micro_batches=2)(rows).item(), 2.5)
    tap.raises("without it, such a call is refused", lambda: rille.graph(lambda x: x.softmax(0), micro_batches=2)(rows), rille.Error, "rille.per_micro_batch")
    halves = rille.graph(lambda x: (x * x).mean(), micro_batches=2)
    tap.ok("micro-batches are an option", close(halves(rille.arange(4).cast("f32")), 3.5))
    rows = rille.arange(8).cast("f32").reshape(4, 2)
    cache = []
    for name, fn in {
        "a divisor": lambda x: x.sum() / x.shape[0],
        "an exponent": lambda x: (x ** (1 / x.shape[0])).sum(),
        "a number of columns": lambda x: x.slice(1, 0, x.shape[0] // 2).sum(),
        "a cache that the first call fills": lambda x: (cache or cache.append(rille.arange(2).exp()) or cache)[0].sum() * x.sum(),
    }.items():
        tap.ok(f"{name} from the number of rows is that of the whole batch", close(rille.graph(fn, micro_batches=2)(rows), fn(rows)))
    for name, fn, text in (
        ("a slice of rows", lambda x: x.slice(0, 0, 2), "slice: with micro_batches = 2"),
        ("a constant number of rows", lambda x: x.reshape(2, 2), "expected a shape of 8 elements"),
        ("a branch on the number of rows", lambda x: x.exp() if x.shape[0] > 2 else x.sin(), "calls 'sin' where it calls 'exp'"),
    ):
        tap.raises(f"with micro-batches, {name} is an error", lambda: rille.graph(fn, micro_batches=2)(rows), rille.Error, text)
    tap.equal("a step within a trace is part of it", rille.graph(lambda x: pair(x, x)["sum"])(a).tolist(), [6, 8])


def layers():
    x = np.float32(np.linspace(-1, 1, 24).reshape(4, 6))
    t = rille.tensor(x)
    linear, norm, rms = nn.Linear(6, 3), nn.LayerNorm(6), nn.RMSNorm(6)
    mean, var = x.mean(1, keepdims=True), x.var(1, keepdims=True)
    tap.ok("Linear computes x w^T + b", close(linear(t), x @ linear.weight.numpy().T + linear.bias.numpy()))
    tap.ok("LayerNorm normalises", close(norm(t), (x - mean) / np.sqrt(var + 1e-5)))
    tap.ok("RMSNorm divides by the root mean square", close(rms(t), x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5)))
    table = nn.Embedding(5, 2)
    tap.equal("Embedding looks up rows", table(rille.tensor([4, 0])).tolist(), table.weight.numpy()[[4, 0]].tolist())
    conv = nn.Conv2d(1, 2, 3, padding=1)
    tap.equal("Conv2d keeps the size with its padding", conv(rille.ones((2, 1, 5, 5))).shape, (2, 2, 5, 5))
    drop = nn.Dropout(0.5)
    tap.ok("Dropout drops in training alone", 0 in drop(t + 2).numpy() and np.array_equal(drop.eval()(t).numpy(), x))
    model = nn.Sequential(linear, rille.relu, nn.Sequential(nn.Linear(3, 2, bias=False)))
    names = ["layers.0.weight", "layers.0.bias", "layers.2.layers.0.weight"]
    tap.ok("a module is compiled like a function", close(rille.graph(model)(t), model(t).numpy()))
    tied = nn.Sequential(linear, linear)
    tap.equal("a parameter with two names occurs once", len(tied.parameters()), 2)
    tap.equal("parameters have names", [n for n, _ in model.named_parameters()], names)
    state = {name: p.numpy() + 1 for name, p in model.state_dict().items()}
    model.load_state_dict(state)
    tap.equal("a module shows its parameters", repr(model).splitlines()[:2], ["Sequential", f"  {names[0]}: {linear.weight!r}"])
    tap.ok("a state of arrays is loaded", all(np.array_equal(p.numpy(), state[n]) for n, p in model.named_parameters()))
    tap.raises("a missing name is reported", lambda: model.load_state_dict({}), KeyError, "is missing")
    tap.raises("a wrong shape is reported", lambda: model.load_state_dict({**state, names[1]: x}), ValueError, "must have the shape (3,)")
    nested = nn.Sequential()
    nested.parts = {"a": nn.Dropout(0.5), "b": [[nn.Linear(2, 2, bias=False)], (rille.ones((1,)), None)]}
    tap.equal("lists and dicts of modules are nested", [n for n, _ in nested.named_parameters()], ["parts.b.0.0.weight", "parts.b.1.0"])
    tap.equal("their modes are switched, too", {m.training for m in nested.eval().modules()}, {False})
    place = rille.placement("cpu", [0, 1])
    tap.equal("to_global moves the parameters", {(p.placement, p.sbp) for p in model.to_global(place, "B").parameters()}, {(place, "B")})
    single = nn.Sequential(nn.Linear(6, 4), rille.gelu, nn.LayerNorm(4))
    before = single(t).numpy()
    single.to_global(place, "B")
    tap.ok("a model on two devices computes the same", close(single(t.to_global(place, "S(0)")), before))


def lifetimes():
    def work():
        x = rille.randn((3, 3), requires_grad=True)
        rille.graph(lambda y: (x @ y).sum())(x.detach())
        (x @ x).sum().backward()

    work()
    gc.collect()
    before = counters().live_values
    for _ in range(3):
        work()
    gc.collect()
    tap.equal("handles are freed with their objects", counters().live_values, before)

    def read():
        x = rille.ones((2,))
        rille.graph(lambda y: y * rille.live(lambda: 2))(x)

    functions = len(live_functions)
    for _ in range(3):
        read()
    gc.collect()
    rille.zeros((1,))
    tap.equal("functions of live numbers are freed with the steps that read them", len(live_functions), functions)
    held = [rille.ones((2,)) for _ in range(10)]
    rille.eval(*held)
    full = counters().live_values
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    tap.equal("handles that another thread drops are freed by the session's thread", (len(held), full - counters().live_values), (0, 10))
    found = []

    ones, step = rille.ones((2,)), rille.graph(lambda x: x + 1)
    uses = [getattr(type(ones), name).__get__ for name, value in vars(type(ones)).items() if isinstance(value, property)]
    uses += [type(ones).tolist, type(ones).numpy, repr, step, lambda t: t + t, lambda t: rille.zeros((1,)), lambda t: rille.wait()]

    def other(prepare):
        prepare()
        for use in uses:
            try:
                use(ones)
                found.append("used")
            except rille.Error as e:
                found.append("refused" if "call rille.adopt() in this thread first" in str(e) else str(e))

    for prepare, expected in (lambda: None, "refused"), (rille.adopt, "used"):
        found.clear()
        thread = threading.Thread(target=other, args=(prepare,))
        thread.start()
        thread.join()
        tap.equal(f"each use of a tensor by another thread is {expected}", found, [expected] * len(uses))
    rille.adopt()


rille.open(devices="cpu:4")
tap.group(
    copies,
    shared_memory,
    table,
    python_operators,
    indexing,
    sources,
    layouts,
    errors,
    gradients,
    optimisers,
    late_parameters,
    assignments,
    failed_steps,
    pipelines,
    modes,
    steps,
    layers,
    lifetimes,
)
sys.exit(tap.finish())
