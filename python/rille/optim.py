"""Optimisers: they update parameters by the operators sgd and adamw of the library."""

import numbers

from . import operators
from .steps import live
from .library import check, lib
from .nn import Module
from .session import current
from .tensors import Tensor


class Count:
    """A number of updates: of all steps, or of one parameter."""

    def __init__(self):
        self.steps = 0

    def add(self):
        """Counts an update; returns its number from 1."""
        self.steps += 1
        return self.steps

    def take_back(self):
        """Subtracts an update that failed."""
        self.steps -= 1

    def next(self, tracing):
        """Returns the number of the next update as an operand; in a trace, a live number."""
        return live(self.add, self.take_back, integer=True) if tracing else self.steps + 1


class Optimizer:
    """Updates parameters that have a gradient. lr can be set between steps, also for a compiled step.

    Set the layouts of the parameters first, because the state of the optimiser gets the same layouts.
    """

    op, slots = None, ()
    step_reads = "params", "state", "attributes"  # what a compiled step follows; lr and steps are live numbers

    def __init__(self, params, lr, **attributes):
        if isinstance(params, (Module, Tensor)) or not hasattr(params, "__iter__"):
            found = "a module; use net.parameters()" if isinstance(params, Module) else repr(params)
            raise TypeError(f"{type(self).__name__}: expected a list of parameters, found {found}")
        self.params, self.lr, self.attributes, self.count = list(params), lr, attributes, Count()
        if not self.params:
            raise ValueError(f"{type(self).__name__}: the list of parameters is empty; net.parameters() lists those of a module")
        for k, p in enumerate(self.params):
            if not isinstance(p, Tensor) or not p.is_leaf:
                raise TypeError(f"{type(self).__name__}: parameter {k} must be a leaf tensor, found {p!r}")
        if len(set(map(id, self.params))) < len(self.params):
            raise ValueError(f"{type(self).__name__}: the list of parameters has a parameter twice")
        if not isinstance(lr, numbers.Real):
            raise TypeError(f"{type(self).__name__}: lr must be a number, found {lr!r}; it can be set between steps")
        self.state = [[self.zeros(p) for _ in self.slots] for p in self.params]
        self.counts = [Count() for _ in self.params]

    @staticmethod
    def zeros(p):
        """Returns a state tensor of a parameter, of at least 32 bits."""
        dtype = "f32" if p.dtype in ("bf16", "f16") else p.dtype
        return operators.find("zeros")(p.shape, dtype=dtype, placement=p.placement, sbp=p.sbp)

    @property
    def steps(self):
        """The number of steps."""
        return self.count.steps

    def operands(self, p, state, lr, step):
        """Returns the operands of the update of a parameter. step: the number of this update of the parameter, from 1."""
        raise NotImplementedError

    def step(self):
        """Updates the parameters. Computes their gradients first, if they are not computed yet."""
        session = current()
        tracing = lib.rille_tracing(session.pointer)
        lr, counts = live(lambda: self.lr) if tracing else self.lr, [self.count]
        number = self.count.next(tracing)
        if tracing:
            check(lib.rille_live_ask(number.pointer))
        try:
            for p, state, count in zip(self.params, self.state, self.counts):
                if p.grad is not None:
                    operands = self.operands(p, state, lr, count.next(tracing))
                    operators.find(self.op).update(operands, self.attributes)
                    counts.append(count)
            check(lib.rille_step(session.at()))
        except BaseException:
            lib.rille_step_undo(session.pointer)
            raise
        for count in counts if not tracing else ():
            count.add()

    def zero_grad(self):
        """Removes the gradients."""
        for p in self.params:
            p.grad = None


class SGD(Optimizer):
    """Gradient descent, with momentum as in PyTorch."""

    op = "sgd"

    def __init__(self, params, lr=1e-3, momentum=0.0, weight_decay=0.0, nesterov=False):
        self.slots = ("m",) if momentum else ()
        super().__init__(params, lr, momentum=momentum, weight_decay=weight_decay, nesterov=nesterov)

    def operands(self, p, state, lr, step):
        return [p, state[0] if state else None, p.grad, lr]


class Adam(Optimizer):
    """Adam (Kingma & Ba 2015): weight_decay is added to the gradient."""

    op, slots, decoupled = "adamw", ("m", "v"), False

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
        super().__init__(
            params, lr, beta1=betas[0], beta2=betas[1], eps=eps, weight_decay=weight_decay, decoupled=self.decoupled
        )

    def operands(self, p, state, lr, step):
        return [p, *state, p.grad, lr, step]


class AdamW(Adam):
    """AdamW (Loshchilov & Hutter 2019): weight_decay is applied apart from the gradient."""

    decoupled = True

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(params, lr, betas, eps, weight_decay)
