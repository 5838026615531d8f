#!/usr/bin/env python3
"""make.py - makes values.lua: PyTorch's (CPU) results for every operator, forward and backward.

    python3 -m venv venv && venv/bin/pip install torch && venv/bin/python t/golden/make.py > t/golden/values.lua

Each case is written in both languages. Operands are not stored: both sides compute them
from a formula (numbers() here and in t/op/golden.lua) in double precision, rounded to the
operand's dtype. The gradient is that of sum(result * weights), with weights from the same
formula. A case tests options, not shapes: t/op compares other shapes with the reference kernels.
"""
import math

import torch
import torch.nn.functional as F

torch.set_num_threads(1)
cases = []
FLOAT = {"f32", "f64"}
DTYPE = {"f32": torch.float32, "f64": torch.float64, "i64": torch.int64, "i32": torch.int32, "bool": torch.bool}


def numbers(n, seed, low, high):
    return [low + (high - low) * ((i * 7919 + seed * 104729 + 3571) % 9973) / 9973 for i in range(n)]


class In:
    """An operand: shape, range of values, dtype. Integers are rounded down. A bool is true in the upper half of the range."""

    def __init__(self, *shape, low=-2.0, high=2.0, dtype="f32"):
        self.shape, self.low, self.high, self.dtype = shape, low, high, dtype

    def tensor(self, seed):
        v = numbers(math.prod(self.shape), seed, self.low, self.high)
        if self.dtype == "bool":
            v = [x > (self.low + self.high) / 2 for x in v]
        elif self.dtype not in FLOAT:
            v = [math.floor(x) for x in v]
        t = torch.tensor(v, dtype=DTYPE[self.dtype]).reshape(self.shape)
        return t.requires_grad_() if self.dtype in FLOAT else t

    def lua(self):
        shape = ", ".join(str(s) for s in self.shape)
        return '{{%s}, %.17g, %.17g, "%s"}' % (shape, self.low, self.high, self.dtype)


def ids(*shape, below, dtype="i64"):
    return In(*shape, low=0, high=below, dtype=dtype)


def truth(*shape):
    return In(*shape, low=0, high=1, dtype="bool")


def flat(t):
    return ", ".join("%.9g" % x if math.isfinite(x) else {math.inf: "math.huge", -math.inf: "-math.huge"}.get(x, "0/0")
                     for x in t.detach().to(torch.float64).flatten().tolist())


def case(op, lua, f, *operands):
    tensors = [o.tensor(k + 1) for k, o in enumerate(operands)]
    y = f(*tensors)
    first = y[0] if isinstance(y, (tuple, list)) else y
    text = '{op = "%s", call = %r, operands = {%s},\n  shape = {%s}, value = {%s}' % (
        op, lua, ", ".join(o.lua() for o in operands), ", ".join(map(str, first.shape)), flat(first))
    if first.requires_grad:
        w = torch.tensor(numbers(first.numel(), 99, -1, 1), dtype=first.dtype).reshape(first.shape)
        (first * w).sum().backward()
        grads = ["{%s}" % flat(t.grad if t.grad is not None else torch.zeros_like(t)) if t.requires_grad else "false"
                 for t in tensors]
        text += ",\n  grad = {%s}" % ", ".join(grads)
    cases.append(text + "}")


# ---- element by element ----

UNARY = {
    "neg": (torch.neg, -2, 2), "abs": (torch.abs, -2, 2), "exp": (torch.exp, -3, 3), "log": (torch.log, 0.1, 5),
    "sqrt": (torch.sqrt, 0.1, 5), "rsqrt": (torch.rsqrt, 0.1, 5), "square": (torch.square, -3, 3),
    "reciprocal": (torch.reciprocal, 0.3, 4), "sin": (torch.sin, -7, 7), "cos": (torch.cos, -7, 7),
    "tanh": (torch.tanh, -4, 4), "sigmoid": (torch.sigmoid, -8, 8), "relu": (torch.relu, -2, 2), "gelu": (F.gelu, -4, 4),
    "silu": (F.silu, -6, 6), "softplus": (F.softplus, -6, 6), "erf": (torch.erf, -3, 3), "sign": (torch.sign, -2, 2), "floor": (torch.floor, -3, 3),
    "ceil": (torch.ceil, -3, 3), "round": (torch.round, -3, 3),
}
for op, (f, low, high) in UNARY.items():
    case(op, "a:%s()" % op, f, In(3, 5, low=low, high=high))
case("gelu", 'a:gelu{approximate = "tanh"}', lambda a: F.gelu(a, approximate="tanh"), In(3, 5, low=-4, high=4))
case("clamp", "a:clamp(-1, 0.5)", lambda a: a.clamp(-1, 0.5), In(3, 5))
case("logical_not", "a:logical_not()", torch.logical_not, truth(3, 5))
case("cast", 'a:cast("i32")', lambda a: a.to(torch.int32), In(3, 5, low=-4, high=4))
case("cast", 'a:to("bf16")', lambda a: a.to(torch.bfloat16), In(7))
case("cast", 'a:to("f16")', lambda a: a.to(torch.float16), In(7))
case("cast", 'a:to("f64")', lambda a: a.to(torch.float64), In(2, 3))

PAIRS = [((3, 5), (5,)), ((4, 1, 3), (2, 1))]
BINARY = {
    "add": (torch.add, -2, 2), "sub": (torch.sub, -2, 2), "mul": (torch.mul, -2, 2), "div": (torch.div, 0.4, 3),
    "pow": (torch.pow, 0.3, 3), "maximum": (torch.maximum, -2, 2), "minimum": (torch.minimum, -2, 2),
    "eq": (torch.eq, -2, 2), "ne": (torch.ne, -2, 2), "lt": (torch.lt, -2, 2), "le": (torch.le, -2, 2),
    "gt": (torch.gt, -2, 2), "ge": (torch.ge, -2, 2),
}
for op, (f, low, high) in BINARY.items():
    for one, two in PAIRS:
        case(op, "a:%s(b)" % op, f, In(*one, low=low, high=high), In(*two, low=low, high=high))
for one, two in PAIRS:
    case("logical_and", "a:logical_and(b)", torch.logical_and, truth(*one), truth(*two))
    case("logical_or", "a:logical_or(b)", torch.logical_or, truth(*one), truth(*two))
    case("where", "c:where(a, b)", lambda a, b, c: torch.where(c, a, b), In(*one), In(*two), truth(*one))
    case("floor_divide", "a // b", lambda a, b: torch.floor_divide(a, b), In(*one, low=-9, high=9, dtype="i64"),
         In(*two, low=1, high=4, dtype="i64"))
    case("remainder", "a % b", lambda a, b: torch.remainder(a, b), In(*one, low=-9, high=9, dtype="i64"),
         In(*two, low=1, high=4, dtype="i64"))

# ---- products ----

for one, two in [((3, 5), (5, 7)), ((2, 3, 5), (5, 1)), ((2, 1, 3, 4), (3, 4, 2)), ((5,), (5,)), ((4,), (2, 4, 3)),
                 ((2, 3, 4), (4,)), ((1, 1), (1, 9))]:
    case("matmul", "a:matmul(b)", torch.matmul, In(*one), In(*two))
case("matmul", "a:transpose(0, 1):matmul(b:transpose(0, 1))", lambda a, b: a.t() @ b.t(), In(5, 3), In(7, 5))

# ---- reductions ----

REDUCE = {"sum": torch.sum, "mean": torch.mean, "var": torch.var, "logsumexp": torch.logsumexp}
for op, f in REDUCE.items():
    if op != "logsumexp":
        case(op, "a:%s()" % op, f, In(3, 5))
    case(op, "a:%s{axis = 0}" % op, lambda a: f(a, dim=0), In(3, 5))
    case(op, "a:%s{axis = {0, 2}, keepdim = true}" % op, lambda a: f(a, dim=(0, 2), keepdim=True), In(2, 3, 5))
    case(op, "a:%s{axis = -1}" % op, lambda a: f(a, dim=-1), In(2, 1, 7))
case("var", "a:var{axis = 1, correction = 0}", lambda a: a.var(dim=1, correction=0), In(3, 5))
for op, f in {"max": torch.amax, "min": torch.amin}.items():
    case(op, "a:%s{axis = 0}" % op, lambda a: f(a, dim=0), In(3, 5))
    case(op, "a:%s{axis = -1, keepdim = true}" % op, lambda a: f(a, dim=-1, keepdim=True), In(2, 3, 4))
    case(op, "a:%s()" % op, lambda a: f(a), In(7))
    case(op, "a:%s{axis = {0, 2}}" % op, lambda a: f(a, dim=(0, 2)), In(2, 3, 5))
case("prod", "a:prod()", torch.prod, In(5))
for shape, axis in [((3, 5), 0), ((2, 3, 4), 1)]:
    case("prod", "a:prod{axis = %d}" % axis, lambda a: a.prod(dim=axis), In(*shape))
for op, f in {"argmax": torch.argmax, "argmin": torch.argmin}.items():
    for shape, axis in [((3, 5), 0), ((2, 3, 4), 1)]:
        case(op, "a:%s{axis = %d}" % (op, axis), lambda a: f(a, dim=axis), In(*shape))
for op, f in {"any": torch.any, "all": torch.all}.items():
    for shape, axis in [((3, 5), 0), ((2, 3, 4), 1)]:
        case(op, "a:%s{axis = %d}" % (op, axis), lambda a: f(a, dim=axis), truth(*shape))
for shape, axis in [((3, 5), 0), ((2, 3, 4), 1)]:
    case("cumsum", "a:cumsum(%d)" % axis, lambda a: a.cumsum(axis), In(*shape))
for shape, k, axis in [((2, 7, 3), 3, 1), ((4, 3), 1, 0)]:
    case("topk", "a:topk(%d, %d)" % (k, axis), lambda a: a.topk(k, dim=axis), In(*shape))
    case("topk", "select(2, a:topk(%d, %d))" % (k, axis), lambda a: a.detach().topk(k, dim=axis)[1], In(*shape))

# ---- shapes ----

for shape, to in [((2, 3, 5), (30,)), ((6,), (3, 1, 2))]:
    case("reshape", "a:reshape{%s}" % ", ".join(map(str, to)), lambda a: a.reshape(to), In(*shape))
for shape, i, j in [((2, 3, 4), 0, 2), ((2, 3, 4), 1, 2)]:
    case("transpose", "a:transpose(%d, %d)" % (i, j), lambda a: a.transpose(i, j), In(*shape))
for shape, order in [((2, 3, 4), (2, 0, 1)), ((2, 1, 3, 2), (3, 1, 0, 2))]:
    case("permute", "a:permute{%s}" % ", ".join(map(str, order)), lambda a: a.permute(order), In(*shape))
for shape, axis in [((2, 1, 3), 1), ((3, 1), -1)]:
    case("squeeze", "a:squeeze(%d)" % axis, lambda a: a.squeeze(axis), In(*shape))
for shape, axis in [((2, 3), 1), ((3,), -1)]:
    case("unsqueeze", "a:unsqueeze(%d)" % axis, lambda a: a.unsqueeze(axis), In(*shape))
for shape, to in [((3, 1), (-1, 4)), ((2,), (3, 2))]:
    case("expand", "a:expand{%s}" % ", ".join(map(str, to)), lambda a: a.expand(to), In(*shape))
for axis, start, stop, step in [(0, 1, 3, 1), (1, 3, 7, 3)]:
    def cut(a):
        index = [slice(None)] * 2
        index[axis] = slice(start, stop, step)
        return a[tuple(index)]
    case("slice", "a:slice(%d, %d, %d, %d)" % (axis, start, stop, step), cut, In(4, 7))
for one, two, axis in [((3, 5), (2, 5), 0), ((2, 1, 3), (2, 2, 3), 1)]:
    case("concat", "rille.concat({a, b}, %d)" % axis, lambda a, b: torch.cat([a, b], axis), In(*one), In(*two))
for shape, axis in [((2, 3), 1), ((2, 3), 2)]:
    case("stack", "rille.stack({a, b}, %d)" % axis, lambda a, b: torch.stack([a, b], axis), In(*shape), In(*shape))
for shape, pad, value in [((2, 3), (0, 1, 2, 0), 1.5), ((2, 3, 4), (1, 0, 0, 1, 2, 1), 0), ((5, 4), (-1, 2), 0)]:
    case("pad", "a:pad({%s}, %g)" % (", ".join(map(str, pad)), value), lambda a: F.pad(a, pad, value=value), In(*shape))
for shape, axes in [((2, 3, 4), (0, 2)), ((2, 5), (1,))]:
    case("flip", "a:flip{%s}" % ", ".join(map(str, axes)), lambda a: a.flip(axes), In(*shape))
for op, f in {"tril": torch.tril, "triu": torch.triu}.items():
    for shape, k in [((3, 5), 1), ((2, 5, 3), -1)]:
        case(op, "a:%s(%d)" % (op, k), lambda a: f(a, k), In(*shape))
case("split", "a:split({2, 3}, 1)[1]", lambda a: a.split((2, 3), 1)[0], In(3, 5))
for n, axis, piece in [(2, 1, 2), (4, 0, 3), (9, 0, 1)]:
    case("chunk", "a:chunk(%d, %d)[%d]" % (n, axis, piece), lambda a: a.chunk(n, axis)[piece - 1], In(5, 7))

# ---- creation ----

for lua, f in {"5": lambda: torch.arange(5), "2, 9, 3": lambda: torch.arange(2, 9, 3), "7, -2, -2": lambda: torch.arange(7, -2, -2),
               "0.5, 2.0, 0.25": lambda: torch.arange(0.5, 2.0, 0.25)}.items():
    case("arange", "rille.arange(%s)" % lua, f)
for a, b, n in [(0, 1, 5), (-2, 3, 7), (4, 1, 4), (2, 9, 1)]:
    case("linspace", "rille.linspace(%d, %d, %d)" % (a, b, n), lambda: torch.linspace(a, b, n))
for n, m in [(2, 5), (5, 2)]:
    case("eye", "rille.eye(%d, %d)" % (n, m), lambda: torch.eye(n, m))
for shape in [(2, 5), ()]:
    text = ", ".join(map(str, shape))
    case("zeros", "rille.zeros{%s}" % text, lambda: torch.zeros(shape))
    case("ones", "rille.ones{%s}" % text, lambda: torch.ones(shape))
    case("full", "rille.full({%s}, -2.5)" % text, lambda: torch.full(shape, -2.5))
    case("dropout", "a:dropout(0.5, false)", lambda a: F.dropout(a, 0.5, False), In(*shape))
    case("dropout", "a:dropout(0)", lambda a: F.dropout(a, 0.0), In(*shape))

# ---- lookups ----

for shape, rows, width in [((2, 3), 4, 5), ((9,), 2, 4)]:
    case("embedding", "rille.embedding(b, a)", lambda a, b: F.embedding(b, a), In(rows, width), ids(*shape, below=rows))
for shape, index, axis in [((3, 5), (3, 2), 1), ((2, 3, 4), (2, 5, 4), 1), ((5, 4), (3, 2), 0)]:
    case("gather", "a:gather(%d, b)" % axis, lambda a, b: a.gather(axis, b), In(*shape), ids(*index, below=shape[axis]))
for shape, n, axis in [((5, 3), 4, 0), ((2, 3, 4), 5, 2)]:
    case("index_select", "a:index_select(%d, b)" % axis, lambda a, b: a.index_select(axis, b), In(*shape),
         ids(n, below=shape[axis]))
for shape, index, axis in [((4, 3), (2, 3), 0), ((2, 3, 4), (2, 5, 4), 1)]:
    case("scatter_add", "a:scatter_add(%d, b, c)" % axis, lambda a, b, c: a.scatter_add(axis, b, c), In(*shape),
         ids(*index, below=shape[axis]), In(*index))
for shape, n in [((2, 3), 7), ((7,), 3)]:
    case("one_hot", "a:one_hot(%d)" % n, lambda a: F.one_hot(a, n), ids(*shape, below=n))

# ---- softmax, norms, losses ----

for op, f in {"softmax": F.softmax, "log_softmax": F.log_softmax}.items():
    for shape, axis in [((4, 3), 0), ((2, 7, 3), 1), ((2, 67), -1)]:
        case(op, "a:%s(%d)" % (op, axis), lambda a: f(a, dim=axis), In(*shape, low=-4, high=4))
for shape, dims in [((2, 3, 4), 2), ((4, 33), 1)]:
    last = shape[-dims:]
    case("layer_norm", "rille.layer_norm(a, b, c)", lambda a, b, c: F.layer_norm(a, last, b, c), In(*shape), In(*last), In(*last))
    case("rms_norm", "rille.rms_norm(a, b)", lambda a, b: F.rms_norm(a, last, b), In(*shape), In(*last))
case("layer_norm", "rille.layer_norm(a)", lambda a: F.layer_norm(a, (5,)), In(3, 5))
case("layer_norm", "rille.layer_norm(a, nil, b, {eps = 0.1})", lambda a, b: F.layer_norm(a, (5,), None, b, 0.1), In(3, 5), In(5))
case("rms_norm", "rille.rms_norm(a, {eps = 0.1})", lambda a: F.rms_norm(a, (7,), eps=0.1), In(2, 7))
for shape, labels in [((2, 5, 3), (2, 3)), ((7,), ()), ((3, 70), (3,))]:
    n = shape[1] if len(shape) > 1 else shape[0]
    both = In(*shape), ids(*labels, below=n)
    case("cross_entropy", "a:cross_entropy(b)", F.cross_entropy, *both)
    case("cross_entropy", 'a:cross_entropy(b, {reduction = "sum", label_smoothing = 0.1})',
         lambda a, b: F.cross_entropy(a, b, reduction="sum", label_smoothing=0.1), *both)
    case("cross_entropy", 'a:cross_entropy(b, {reduction = "none"})', lambda a, b: F.cross_entropy(a, b, reduction="none"), *both)
case("cross_entropy", "a:cross_entropy(b, {ignore_index = 1, label_smoothing = 0.2})",
     lambda a, b: F.cross_entropy(a, b, ignore_index=1, label_smoothing=0.2), In(9, 4), ids(9, below=4))
case("mse_loss", "a:mse_loss(b)", F.mse_loss, In(3, 5), In(3, 5))
case("mse_loss", 'a:mse_loss(b, "sum")', lambda a, b: F.mse_loss(a, b, reduction="sum"), In(3, 5), In(3, 5))

# ---- attention ----

SDPA = F.scaled_dot_product_attention
for q, k, v in [((2, 3, 5, 4), (2, 3, 5, 4), (2, 3, 5, 4)), ((1, 2, 3, 4), (1, 2, 7, 4), (1, 2, 7, 5))]:
    three = In(*q), In(*k), In(*v)
    case("scaled_dot_product_attention", "rille.scaled_dot_product_attention(a, b, c)", SDPA, *three)
    case("scaled_dot_product_attention", "rille.scaled_dot_product_attention(a, b, c, {is_causal = true, scale = 0.3})",
         lambda a, b, c: SDPA(a, b, c, is_causal=True, scale=0.3), *three)
    case("scaled_dot_product_attention", "rille.scaled_dot_product_attention(a, b, c, d)",
         lambda a, b, c, d: SDPA(a, b, c, attn_mask=d), *three, In(q[2], k[2]))

# Lengths from which Rille computes attention by one operator, instead of products and a softmax.
for q, k, v in [((1, 1, 130, 4), (1, 1, 130, 4), (1, 1, 130, 4)), ((1, 1, 129, 4), (1, 1, 197, 4), (1, 1, 197, 3))]:
    three = In(*q), In(*k), In(*v)
    case("scaled_dot_product_attention", "rille.scaled_dot_product_attention(a, b, c, {is_causal = true})",
         lambda a, b, c: SDPA(a, b, c, is_causal=True), *three)
    case("scaled_dot_product_attention", "rille.scaled_dot_product_attention(a, b, c, d)",
         lambda a, b, c, d: SDPA(a, b, c, attn_mask=d), *three, truth(q[2], k[2]))


def rotary(x, cos, sin, interleaved):
    """Computes rotary embedding (Su et al. 2021): rotates each pair of elements by an angle. A pair is two neighbours (interleaved, as
    in GPT-J), or an element of the first half and one of the second half (as in GPT-NeoX)."""
    half = x.shape[-1] // 2
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
    turned = a * cos - b * sin, b * cos + a * sin
    return torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)


for shape in [(2, 5, 6), (2, 2, 7, 8)]:
    table = In(shape[-2], shape[-1] // 2, low=-1, high=1)
    case("rotary", "a:rotary(b, c)", lambda a, b, c: rotary(a, b, c, False), In(*shape), table, table)
    case("rotary", "a:rotary(b, c, {interleaved = true})", lambda a, b, c: rotary(a, b, c, True), In(*shape), table, table)

# ---- images ----

for x, w, lua, how in [
        ((2, 3, 5, 6), (4, 3, 3, 2), "", {}),
        ((1, 2, 7, 7), (3, 2, 3, 3), ", {stride = 2, padding = 1}", {"stride": 2, "padding": 1}),
        ((2, 4, 6, 5), (6, 2, 3, 3), ", {groups = 2, padding = {1, 2}}", {"groups": 2, "padding": (1, 2)}),
        ((1, 2, 9, 8), (2, 2, 3, 3), ", {dilation = {2, 1}, stride = {1, 2}}", {"dilation": (2, 1), "stride": (1, 2)})]:
    case("conv2d", "rille.conv2d(a, b%s)" % lua, lambda a, b: F.conv2d(a, b, **how), In(*x), In(*w))
    case("conv2d", "rille.conv2d(a, b, c%s)" % lua, lambda a, b, c: F.conv2d(a, b, c, **how), In(*x), In(*w), In(w[0]))
for x, lua, how in [
        ((2, 3, 4, 6), "2", {"kernel_size": 2}),
        ((1, 2, 5, 7), "{3, 2}, {stride = {2, 1}, padding = 1}", {"kernel_size": (3, 2), "stride": (2, 1), "padding": 1}),
        ((1, 1, 7, 7), "3, {stride = 2, ceil_mode = true}", {"kernel_size": 3, "stride": 2, "ceil_mode": True}),
        ((2, 1, 5, 5), "3, {stride = 1}", {"kernel_size": 3, "stride": 1})]:
    case("max_pool2d", "a:max_pool2d(%s)" % lua, lambda a: F.max_pool2d(a, **how), In(*x))
    case("avg_pool2d", "a:avg_pool2d(%s)" % lua, lambda a: F.avg_pool2d(a, **how), In(*x))
case("max_pool2d", "a:max_pool2d(2, {stride = 1, dilation = 2})", lambda a: F.max_pool2d(a, 2, stride=1, dilation=2), In(1, 2, 5, 6))
case("avg_pool2d", "a:avg_pool2d(3, {padding = 1, count_include_pad = false})",
     lambda a: F.avg_pool2d(a, 3, padding=1, count_include_pad=False), In(1, 2, 5, 6))

print("-- Made by make.py with PyTorch %s; not edited by hand." % torch.__version__.split("+")[0])
print("return {\n" + ",\n".join(cases) + "\n}")
