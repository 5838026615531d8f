"""Layers: modules with parameters, over the operators of the library.

Layers without parameters need no class: nn.Sequential(nn.Linear(64, 10), rille.relu) accepts operators and functions.
"""

import math
import numbers

from . import operators
from .library import check, ffi, lib
from .session import current
from .tensors import Tensor, no_grad, tensor


def sizes(who, **given):
    """Checks that the sizes of a layer are integers of at least 1."""
    for name, size in given.items():
        if not isinstance(size, numbers.Integral) or size < 1:
            raise ValueError(f"nn.{who}: {name} must be an integer of at least 1, found {size!r}")


def Parameter(t):
    """Returns a leaf with the value of a tensor that requires a gradient."""
    if not isinstance(t, Tensor):
        raise TypeError(f"nn.Parameter: expected a tensor, found {type(t).__name__}; rille.tensor(x) makes a tensor")
    leaf = t.detach()
    leaf.requires_grad = True
    return leaf


def uniform(shape, bound):
    """Returns a parameter with uniform values in [-bound, bound)."""
    return Parameter(operators.find("rand")(shape) * (2 * bound) - bound)


def full(shape, value):
    """Returns a parameter with equal values."""
    return operators.find("full")(shape, float(value), requires_grad=True)


class Module:
    """A layer. Tensors that are its attributes are parameters. Attributes may be modules, and lists and dicts of these.

    A class of its own sets attributes in __init__, and defines forward(self, ...), which a call of the module calls.
    """

    training = True

    def forward(self, *inputs):
        raise NotImplementedError(f"{type(self).__name__}: expected a method forward, found none")

    def __call__(self, *inputs, **named):
        return self.forward(*inputs, **named)

    def __repr__(self):
        lines = [f"  {name}: {p!r}" for name, p in self.named_parameters()]
        return "\n".join([type(self).__name__, *lines])

    def named_parameters(self, prefix=""):
        """Yields names such as "layers.0.weight", and the parameters."""
        for name, part in _members(prefix, vars(self)):
            if isinstance(part, Tensor):
                yield name, part
            else:
                yield from part.named_parameters(name + ".")

    def parameters(self):
        """Returns the list of parameters. A parameter with several names occurs once."""
        return list({id(p): p for _, p in self.named_parameters()}.values())

    def modules(self):
        """Yields the module, then the modules that it contains."""
        yield self
        for _, part in _members("", vars(self)):
            if isinstance(part, Module):
                yield from part.modules()

    def train(self, on=True):
        """Switches the module to training mode (Dropout is active), or to evaluation mode."""
        for module in self.modules():
            module.training = on
        return self

    def eval(self):
        """Switches the module to evaluation mode."""
        return self.train(False)

    def to_global(self, placement=None, sbp=None):
        """Changes the layout of all parameters in place, and returns the module."""
        for p in self.parameters():
            p.to_global_(placement, sbp)
        return self

    def state_dict(self):
        """Returns the parameters by name, detached."""
        return {name: p.detach() for name, p in self.named_parameters()}

    def load_state_dict(self, state):
        """Assigns tensors or arrays by name. After an error, the module is unchanged."""
        if not isinstance(state, dict):
            raise TypeError(f"load_state_dict: expected a dict of tensors or arrays, found {type(state).__name__}")
        own = dict(self.named_parameters())
        if wrong := sorted(own.keys() ^ state.keys()):
            fault = "is missing" if wrong[0] in own else "is not a parameter of the module"
            raise KeyError(f"load_state_dict: '{wrong[0]}' {fault}")
        for name, p in own.items():
            if tuple(state[name].shape) != p.shape:
                raise ValueError(
                    f"load_state_dict: '{name}' must have the shape {p.shape}, found {tuple(state[name].shape)}"
                )
        with no_grad():
            values = [t if isinstance(t, Tensor) else tensor(t) for t in (state[name] for name in own)]
            leaves, sources = [p.pointer for p in own.values()], [t.pointer for t in values]
            check(lib.rille_tensors_assign(current().at(), len(leaves), leaves, sources, ffi.NULL))


def _members(prefix, parts):
    """Yields the tensors and modules among the values of a dict, and in the lists and dicts among these, with their names."""
    for key, part in parts.items():
        if isinstance(part, (Tensor, Module)):
            yield f"{prefix}{key}", part
        elif isinstance(part, (list, tuple, dict)):
            yield from _members(f"{prefix}{key}.", part if isinstance(part, dict) else dict(enumerate(part)))


class Linear(Module):
    """y = x w^T + b; weight: (n_out, n_in), bias: (n_out)."""

    def __init__(self, n_in, n_out, bias=True):
        sizes("Linear", n_in=n_in, n_out=n_out)
        bound = 1 / math.sqrt(n_in)
        self.weight = uniform((n_out, n_in), bound)
        self.bias = uniform((n_out,), bound) if bias else None

    def forward(self, x):
        y = x @ self.weight.transpose(0, 1)
        return y if self.bias is None else y + self.bias


class LayerNorm(Module):
    """Normalises the last axes. Ba, Kiros & Hinton 2016."""

    def __init__(self, shape, eps=1e-5, bias=True):
        self.weight, self.bias, self.eps = full(shape, 1), full(shape, 0) if bias else None, eps

    def forward(self, x):
        return x.layer_norm(self.weight, self.bias, eps=self.eps)


class RMSNorm(Module):
    """Divides the last axes by their root mean square. Zhang & Sennrich 2019."""

    def __init__(self, shape, eps=1e-5):
        self.weight, self.eps = full(shape, 1), eps

    def forward(self, x):
        return x.rms_norm(self.weight, eps=self.eps)


class Embedding(Module):
    """A table of vectors that are looked up by ids; weight: (n, d)."""

    def __init__(self, n, d):
        sizes("Embedding", n=n, d=d)
        self.weight = Parameter(operators.find("randn")((n, d)))

    def forward(self, ids):
        return ids.embedding(self.weight)


class Conv2d(Module):
    """Convolution of (batch, n_in, height, width); weight: (n_out, n_in, size, size)."""

    def __init__(self, n_in, n_out, size, stride=1, padding=0, bias=True):
        sizes("Conv2d", n_in=n_in, n_out=n_out, size=size)
        bound = 1 / math.sqrt(n_in * size * size)
        self.weight = uniform((n_out, n_in, size, size), bound)
        self.bias = uniform((n_out,), bound) if bias else None
        self.stride, self.padding = stride, padding

    def forward(self, x):
        return x.conv2d(self.weight, self.bias, stride=self.stride, padding=self.padding)


class Dropout(Module):
    """Sets elements to 0 with probability p in training."""

    def __init__(self, p=0.5):
        self.p = p

    def forward(self, x):
        return x.dropout(p=float(self.p), training=self.training)


class Sequential(Module):
    """Calls layers, operators or functions in order."""

    def __init__(self, *layers):
        self.layers = list(layers)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
