"""Rille: tensor programs on many devices as if they were one.

Each operator of the library is a function of this module and, if its first operand is a tensor, a method of tensors;
help(rille.matmul) shows its page. docs/python.md describes the package.
"""

from . import nn, operators, optim
from .steps import graph, live, per_micro_batch
from .layout import Placement, placement, sbp
from .library import Error, lib, text
from .session import adopt, close, open, seed, wait
from .tensors import Tensor, autocast, eval, explain, from_dlpack, grad, no_grad, recompute, tensor

__version__ = text(lib.rille_version())


def load_operators(path):
    """Loads the operators of a shared library (rille_operator.h), as functions of this module and methods of tensors."""
    _add(operators.load(path))


def _add(found):
    """Adds operators to this module and to tensors."""
    operators.add_methods(found)
    for name, op in found.items():
        globals().setdefault(name, op)


_found = operators.public()
operators.add_python_operators(_found)
_found.pop("to_global")  # to_global is a method of tensors only
_add(_found)
