"""reads.py - tests that a compiled step follows, or refuses, each kind of value that its function reads besides its arguments.

Each row has a function and changes of what the function reads. After each change, the compiled step must compute the same
as the plain function.
"""

import collections
import contextvars
import dataclasses
import enum
import fractions
import functools
import operator
import random
import sys
import threading
import time
import types
import warnings
import weakref

import numpy as np
import tap

import rille
from rille import nn, optim

X = rille.tensor([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]])
scale, use, text, names, table, w = 2.0, True, "relu", ["relu", "neg"], {"a": {"b": 3.0}}, rille.tensor([1.0, 2.0, 3.0])
own = types.ModuleType("own_module")
own.factor = 2.0
sys.modules["own_module"] = own


class Mode(enum.Enum):
    PLUS = 1
    MINUS = 2


mode = Mode.PLUS


@dataclasses.dataclass
class Settings:
    factor: float = 2.0
    inner: object = None


class Slotted:
    __slots__ = ("factor", "unset")

    def __init__(self, factor):
        self.factor = factor


class Base:
    shared = 2.0


class Own(Base):
    def __init__(self):
        self.factor, self.flag, self.w, self.children, self._hidden = 2.0, True, w, [Settings(1.0), Settings(2.0)], 2.0

    @property
    def hidden(self):
        return self._hidden

    @staticmethod
    def fixed(x):
        return x * scale

    @classmethod
    def of_class(cls, x):
        return x * cls.shared

    def __call__(self, x):
        return x * self.factor

    def __getitem__(self, i):
        return self.children[i].factor


class Net(nn.Module):
    def __init__(self):
        self.fc, self.scale, self.parts, self.drop = nn.Linear(3, 3), 2.0, {"a": nn.Linear(3, 3)}, nn.Dropout(0.5)

    def forward(self, x):
        for name in self.parts:
            x = self.parts[name](x)
        x = self.fc(x) * self.scale
        return x * 3 if self.training else x


def double(x):
    return x * 2


def helper(x):
    return double(x) * scale


def assign(**values):
    """Returns a function that sets globals of this file."""
    return lambda: globals().update(values)


def bound(holder, name, value):
    return lambda: setattr(holder, name, value)


def closures():
    """Returns rows whose function reads variables of this function."""
    number, flag, tensor, function = 2.0, True, w, double

    def number_is(value):
        def change():
            nonlocal number
            number = value

        return change

    def all_change():
        nonlocal flag, tensor, function
        flag, tensor, function = not flag, tensor + 1, (lambda x: x * 5)

    return [
        ("a number of the outer function", lambda x: x * number, [number_is(3.0), number_is(2), number_is(2.0), number_is(-0.0), number_is(float("nan"))]),
        ("a flag of the outer function", lambda x: x if flag else -x, [all_change, all_change]),
        ("a tensor of the outer function", lambda x: x * tensor, [all_change]),
        ("a function of the outer function", lambda x: function(x), [all_change]),
        ("a variable that a nested function reads", lambda x: (lambda y: y * number)(x), [number_is(7.0)]),
        ("a variable in a comprehension", lambda x: sum([x * number * k for k in (1, 2)]), [number_is(8.0)]),
    ]


def rows():
    settings, slotted, mine, net, listed, tensors = Settings(), Slotted(2.0), Own(), Net(), [1.0, 2.0], [w, w * 2]
    array, long, numbers, chain = np.float32([1, 2, 3]), list(range(5000)), {2.0}, nn.Sequential(nn.Linear(3, 3), rille.relu)
    partial, norm, inner = functools.partial(lambda k, x: x * k["k"], {"k": 2.0}), nn.LayerNorm(3), Settings(inner=Settings(inner=Settings()))
    other = Net()
    return closures() + [
        ("a global number", lambda x: x * scale, [assign(scale=3.0), assign(scale=2.0)]),
        ("a global that another function reads", helper, [assign(scale=5.0)]),
        ("a global function", helper, [assign(double=lambda x: x * 7)]),
        ("a flag in a condition", lambda x: x if use else -x, [assign(use=False), assign(use=True)]),
        ("a text", lambda x: getattr(x, text)(), [assign(text="neg")]),
        ("a member of an enumeration", lambda x: x if mode is Mode.PLUS else -x, [assign(mode=Mode.MINUS)]),
        ("a global tensor bound anew", lambda x: x * w, [assign(w=rille.tensor([4.0, 5.0, 6.0]))]),
        ("a list of texts", lambda x: [getattr(x, n)() for n in names], [lambda: names.reverse(), lambda: names.append("exp")]),
        ("a nested table", lambda x: x * table["a"]["b"], [lambda: table["a"].update(b=4.0), lambda: table.update(a={"b": 5.0})]),
        ("a list of numbers", lambda x: x * listed[1], [lambda: listed.__setitem__(1, 5.0)]),
        ("a long list of numbers", lambda x: x * long[4000], [lambda: long.__setitem__(4000, 5)]),
        ("a set", lambda x: x if 2.0 in numbers else -x, [numbers.clear]),
        ("a list of tensors", lambda x: [x * t for t in tensors], [lambda: tensors.__setitem__(1, w * 3), lambda: tensors.append(w)]),
        ("an array of NumPy", lambda x: x * rille.tensor(array), [lambda: array.__setitem__(0, 9), lambda: array.__imul__(2)]),
        ("a number of NumPy", lambda x: x * float(settings.factor), [bound(settings, "factor", np.float64(3)), bound(settings, "factor", np.float64(4))]),
        ("an attribute", lambda x: x * settings.factor, [bound(settings, "factor", 5.0)]),
        ("attributes of attributes", lambda x: x * inner.inner.inner.factor, [bound(inner.inner.inner, "factor", 3.0), bound(inner, "inner", Settings(inner=Settings(9.0)))]),
        ("an attribute in a slot", lambda x: x * slotted.factor, [bound(slotted, "factor", 5.0)]),
        ("an attribute whose name is computed", lambda x: x * getattr(settings, "fac" + "tor"), [bound(settings, "factor", 6.0)]),
        ("an attribute that is added", lambda x: x * getattr(settings, "extra", 1.0), [bound(settings, "extra", 6.0), lambda: delattr(settings, "extra")]),
        ("an attribute of a class", lambda x: x * mine.shared, [bound(Base, "shared", 5.0), bound(mine, "shared", 6.0)]),
        ("a class", lambda x: x * Base.shared, [bound(Base, "shared", 7.0)]),
        ("a property", lambda x: x * mine.hidden, [bound(mine, "_hidden", 5.0)]),
        ("a static method", lambda x: Own.fixed(x), [assign(scale=1.5)]),
        ("a method of a class", lambda x: Own.of_class(x), [bound(Base, "shared", 8.0)]),
        ("a method that is replaced", lambda x: mine.fixed(x), [bound(Own, "fixed", staticmethod(lambda x: x * 9))]),
        ("an object that is called", lambda x: mine(x), [bound(mine, "factor", 3.0)]),
        ("an object that is indexed", lambda x: x * mine[1], [bound(mine.children[1], "factor", 3.0)]),
        ("a compiled method of an object", mine.__call__, [bound(mine, "factor", 4.0)]),
        ("a partial function", partial, [lambda: partial.args[0].update(k=3.0)]),
        ("a module of the user", lambda x: x * own.factor, [bound(own, "factor", 3.0)]),
        ("a module that is imported within", imports, [bound(own, "factor", 4.0)]),
        ("a default of a parameter", lambda x, k=listed: x * k[0], [lambda: listed.__setitem__(0, 8.0)]),
        ("a step within a step", lambda x: nested(x), [assign(scale=2.5)]),
        ("a number of a layer of the user", lambda x: net(x), [bound(net, "scale", 3.0), bound(net, "parts", {"a": nn.Linear(3, 3)})]),
        ("a layer of the user", net, [bound(net, "fc", nn.Linear(3, 3)), bound(net, "scale", 7.0)]),
        ("the mode of a layer", other, [other.eval, other.train]),
        ("a layer of a sequence", chain, [lambda: chain.layers.append(rille.exp), lambda: chain.layers.__setitem__(1, rille.neg)]),
        ("a number of a layer", norm, [bound(norm, "eps", 0.5)]),
    ]


def more_rows():
    """Returns rows for the kinds of objects of Python's library that hold values."""
    bare, context, kept, by_default = types.SimpleNamespace(factor=2.0), contextvars.ContextVar("factor", default=2.0), Settings(), collections.defaultdict(float, factor=2.0)
    wrapped, ordered, queue, weak = collections.UserDict(factor=2.0), collections.OrderedDict(factor=2.0), collections.deque([w]), weakref.ref(kept)
    local, half, reader, view = threading.local(), [fractions.Fraction(1, 2)], operator.attrgetter("factor"), types.MappingProxyType(table)
    local.factor = 2.0

    @functools.lru_cache
    def cached(x):
        return x * scale

    def changes():
        scaled.factor = 3.0

    class Barred:
        def __getattribute__(self, name):
            raise RuntimeError(name)

    class Arrays:
        def __init__(self):
            self.values = np.float32([2, 3, 4])

        def __array__(self, dtype=None, copy=None):
            return self.values

    class Indexed:
        factor = 2.0

        def __class_getitem__(cls, key):
            return cls.factor

    barred, foreign = Barred(), Arrays()
    return [
        ("an object that refuses to be read", lambda x: x if barred is None else -x, []),
        ("an array of another library", lambda x: x * rille.tensor(np.asarray(foreign)), [lambda: foreign.values.__setitem__(0, 5)]),
        ("a class that is indexed", lambda x: x * Indexed["factor"], [bound(Indexed, "factor", 5.0)]),
        ("a table of globals", lambda x: x * globals()["scale"], [assign(scale=9.0)]),
        ("a bare object", lambda x: x * bare.factor, [bound(bare, "factor", 3.0)]),
        ("a context variable", lambda x: x * context.get(), [lambda: context.set(3.0)]),
        ("a weak reference", lambda x: x * weak().factor, [bound(kept, "factor", 3.0)]),
        ("a dict with defaults", lambda x: x * by_default["factor"], [lambda: by_default.update(factor=3.0)]),
        ("a dict of a class", lambda x: x * wrapped["factor"], [lambda: wrapped.update(factor=3.0)]),
        ("the order of a dict", lambda x: [x * v for v in ordered.values()], [lambda: ordered.update(more=3.0), lambda: ordered.move_to_end("factor")]),
        ("the keys of a dict", lambda x: x if "factor" in by_default else -x, [lambda: (by_default.pop("factor"), by_default.update(other=1.0))]),
        ("a queue", lambda x: x * queue[0], [lambda: queue.appendleft(w * 2)]),
        ("a variable of a thread", lambda x: x * local.factor, [bound(local, "factor", 3.0)]),
        ("a fraction", lambda x: x * float(half[0]), [lambda: half.__setitem__(0, fractions.Fraction(3, 2))]),
        ("a reader of attributes", lambda x: x * reader(kept), [bound(kept, "factor", 5.0)]),
        ("a view of a dict", lambda x: x * view["a"]["b"], [lambda: table["a"].update(b=7.0)]),
        ("a function with a cache of its own", lambda x: cached(x), [lambda: (assign(scale=6.0)(), cached.cache_clear())]),
        ("an attribute of a function", scaled, [changes]),
    ]


def scaled(x):
    return x * scaled.factor


scaled.factor = 2.0


def imports(x):
    import own_module

    return x * own_module.factor


nested = rille.graph(lambda x: x * scale)


def values(found):
    return [t.tolist() for t in found] if isinstance(found, list) else found.tolist()


def followed():
    for name, fn, changes in rows() + more_rows():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            step, wrong = rille.graph(fn), []
            for k, change in enumerate([lambda: None, *changes]):
                change()
                for _ in range(2):
                    if not np.array_equal(np.array(values(step(X))), np.array(values(fn(X))), equal_nan=True):
                        wrong.append(k)
        tap.equal(f"{name}: the step follows its changes", wrong, [])
        tap.ok(f"{name}: a change causes one trace", len(step.traces) <= 1 + len(changes), len(step.traces))


def replaced():
    """Each kind of place in which a step replaces a tensor that it reads."""
    mine, listed, by_name, variable = Own(), [w.clone()], {"w": w.clone()}, w.clone()
    mine.mean = rille.zeros((3,))

    def attribute(x):
        mine.mean = mine.mean * 0.9 + x.mean(0) * 0.1
        return mine.mean

    def entry(x):
        listed[0] = listed[0] + x.mean(0)
        return listed[0]

    def named(x):
        by_name["w"] = by_name["w"] + x.mean(0)
        return by_name["w"]

    def outer(x):
        nonlocal variable
        variable = variable + x.mean(0)
        return variable

    def global_tensor(x):
        global w
        w = w + x.mean(0)
        return w

    for name, fn in (("mine.mean", attribute), ("listed[0]", entry), ("by_name['w']", named), ("variable", outer), ("w", global_tensor)):
        for batches in 1, 2:
            before = mine.mean, listed[0], by_name["w"], variable, w
            step = rille.graph(fn, micro_batches=batches)
            tap.raises(f"{name}, replaced in a step of {batches} micro-batches, is refused with the remedy", lambda: step(X), rille.Error, f": graph: the step's function replaces the tensor '{name}'")
            tap.ok("the tensor is as before", all(a is b for a, b in zip(before, (mine.mean, listed[0], by_name["w"], variable, w))))

    def copies(x):
        mine.mean.copy_(mine.mean * 0.9 + x.mean(0) * 0.1)
        return mine.mean * 1

    expected, step, wrong = np.zeros(3), rille.graph(copies), []
    for k in range(4):
        expected = expected * 0.9 + (X.numpy() * k).mean(0) * 0.1
        if not np.allclose(step(X * k).tolist(), expected):
            wrong.append(k)
    tap.equal("the remedy computes the running mean", wrong, [])


def told(call):
    """Returns the texts of the warnings of a call."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    return [str(w.message) for w in found]


def changed_by_the_step():
    mine, losses, state = Own(), [], {"calls": 0}

    def counts(x):
        state["calls"] += 1
        mine.last = x * 2
        return x * 2

    for batches in 1, 2:
        state["calls"], step = 0, rille.graph(counts, micro_batches=batches)
        texts = told(lambda: [step(X) for _ in range(6)])
        tap.equal(f"with {batches} micro-batches, a counter causes one more trace, and a warning", (len(step.traces), state["calls"], len(texts)), (2, 2, 1))
        tap.ok("the warning names the place, and the line of the call", "changes 'state['calls']', which happens once" in texts[0], texts)

    def appends(x):
        losses.append(x.sum())
        return losses[-1] * 1

    step = rille.graph(appends)
    texts = told(lambda: [step(X) for _ in range(6)])
    tap.equal("a list of results causes one more trace, and a warning", (len(step.traces), len(texts)), (2, 1))

    def attribute(x):
        attribute.calls = getattr(attribute, "calls", 0) + 1
        return x * attribute.calls

    step = rille.graph(attribute)
    found = []
    texts = told(lambda: found.extend(step(X).tolist()[0][0] for _ in range(4)))
    tap.ok("an attribute that the step adds and changes is warned of", len(texts) == 1 and "changes 'attribute.calls'" in texts[0], (texts, found))

    def caches(x):
        if not hasattr(mine, "table"):
            mine.table = rille.arange(3).exp()
        return x * mine.table

    for batches in 1, 2:
        mine.__dict__.pop("table", None)
        step = rille.graph(caches, micro_batches=batches)
        found = [step(X).tolist() for _ in range(3)]
        tap.ok(f"a cache that the first call fills works with {batches} micro-batches", all(np.allclose(f, X.numpy() * np.exp(range(3))) for f in found), found)


def numbers_that_change():
    rate = {"value": 1.0, "live": 1.0}
    step = rille.graph(lambda x: x * rate["value"])

    def anneals():
        for k in range(100):
            rate["value"] = k / 100
            if not np.allclose(step(X).numpy(), X.numpy() * (k / 100)):
                raise AssertionError(k)

    texts = told(anneals)
    tap.equal("a number that changes in each call is warned of once", len(texts), 1)
    tap.ok("the warning names it, and the remedy", "'rate['value']' changes" in texts[0] and "rille.live(lambda: rate['value'])" in texts[0], texts)
    tap.equal("a step keeps at most 64 traces", len(step.traces), 64)

    def outer():
        return rate["live"]

    for name, fn in (("a nested function", lambda x: x * rille.live(lambda: rate["live"])), ("another function", lambda x: x * rille.live(outer))):
        step, found = rille.graph(fn), []
        for rate["live"] in 1.0, 2.0, 3.0:
            found.append(step(X).tolist() == (X.numpy() * rate["live"]).tolist())
        tap.equal(f"a live number of {name} is read without another trace", (found, len(step.traces)), ([True] * 3, 1))
    for name, fn in (("random.random()", lambda x: x * random.random()), ("time.time()", lambda x: x * time.time()), ("numpy.random.rand()", lambda x: x * np.random.rand())):
        texts = told(lambda: rille.graph(fn)(X))
        tap.ok(f"a step that reads {name} is warned of", len(texts) == 1 and "rille.live" in texts[0], texts)
    texts = told(lambda: rille.graph(lambda x: x * rille.live(lambda: random.random()))(X))
    tap.equal("a live number may read random.random()", texts, [])
    items = iter([1.0, 2.0])
    texts = told(lambda: rille.graph(lambda x: x * next(items))(X))
    tap.ok("a step that reads an iterator is warned of", len(texts) == 1 and "the iterator 'items'" in texts[0], texts)


def optimisers():
    """Settings of optimisers, gradients and flags of parameters: the compiled step computes as the plain function."""
    changes = {
        "the learning rate": (lambda o, p: setattr(o, "lr", 0.5), 1),
        "a setting": (lambda o, p: o.attributes.update(momentum=0.5), 2),
        "a frozen parameter": (lambda o, p: setattr(p[0], "requires_grad", False), 2),
        "a gradient that is left": (lambda o, p: (p[0] * p[0]).sum().backward(), 2),
        "other parameters": (lambda o, p: o.params.pop(), 3),
    }
    for name, (change, most) in changes.items():
        seen, steps = [], []
        for compiled in False, True:
            p = [rille.tensor([1.0, 2.0], requires_grad=True), rille.tensor([3.0, 4.0], requires_grad=True)]
            opt = optim.SGD(p, lr=0.1, momentum=0.9)

            def run(x):
                loss = ((p[0] * x - 1).square() + (p[1] * x).square()).sum()
                loss.backward()
                opt.step()
                opt.zero_grad()
                return loss

            step = rille.graph(run) if compiled else run
            found = [step(rille.tensor([0.5, 0.25])).item() for _ in range(3)]
            change(opt, p)
            found += [step(rille.tensor([0.5, 0.25])).item() for _ in range(3)]
            seen.append(found)
            steps.append(step)
        tap.ok(f"{name}: a compiled training computes as the plain one", np.allclose(*seen, rtol=1e-5), seen)
        tap.ok(f"{name}: at most {most} traces", len(steps[1].traces) <= most, len(steps[1].traces))


if __name__ == "__main__":
    tap.group(followed, replaced, changed_by_the_step, numbers_that_change, optimisers)
    raise SystemExit(tap.finish())
