"""The operators of the library as Python functions and methods, generated from the library's table."""

import functools
import inspect
import math
import numbers
import os

from . import layout
from .library import c_text, check, ffi, integer, lib, owned_text, text
from .session import current
from .tensors import CELL, Live, Tensor
from .words import spoken

_MOST = 16  # maximum number of operands, and of attributes, of an operator
ARGUMENTS, ATTRIBUTES = ffi.typeof("struct rille_arg[]"), ffi.typeof("struct rille_attr[]")


class Attribute:
    """An attribute of an operator: its name, and how a Python value becomes a field of struct rille_attr."""

    def __init__(self, info):
        self.name, self.kind, self.required = text(info.name), info.kind, info.required
        self.key = ffi.new("char[]", self.name.encode())
        self.words = text(info.words)

    def expected(self):
        """Returns the expected value in words, for messages."""
        return {
            lib.RILLE_INT: "an integer",
            lib.RILLE_FLOAT: "a number",
            lib.RILLE_BOOL: "True or False",
            lib.RILLE_TEXT: '"' + (self.words or "").replace("|", '" or "') + '"',
            lib.RILLE_INTS: "an integer or a list of integers",
            lib.RILLE_DTYPE: 'a dtype such as "f32"',
        }[self.kind]

    def fill(self, who, out, value, kept):
        """Writes a value to a struct rille_attr. Appends the C memory that the struct points to to `kept`."""
        out.name, out.kind = self.key, self.kind
        try:
            if self.kind == lib.RILLE_INTS:
                kept.append(ffi.new("int64_t[]", [value] if isinstance(value, numbers.Integral) else list(value)))
                out.n, out.list = len(kept[-1]), kept[-1]
            elif self.kind in (lib.RILLE_TEXT, lib.RILLE_DTYPE):
                kept.append(c_text(value))
                out.text = kept[-1]
            elif self.kind == lib.RILLE_FLOAT:
                out.f = value
            elif self.kind == lib.RILLE_BOOL and not isinstance(value, bool):
                raise TypeError
            else:
                out.i = value
        except (TypeError, ValueError, OverflowError):
            raise TypeError(f"{who}: {self.name} must be {self.expected()}, found {value!r}") from None


def fill_argument(who, name, out, value):
    """Writes an operand to a struct rille_arg."""
    if isinstance(value, Tensor):
        out.kind, out.tensor = lib.RILLE_ARG_TENSOR, value.pointer
    elif isinstance(value, numbers.Integral):
        if not -(2**63) <= value < 2**63:
            raise ValueError(f"{who}: {name} must have at most 64 bits, found {value}")
        out.kind, out.i = lib.RILLE_ARG_INT, int(value)
    elif isinstance(value, numbers.Real):
        out.kind, out.f = lib.RILLE_ARG_FLOAT, float(value)
    elif isinstance(value, Live):
        out.kind, out.live = lib.RILLE_ARG_LIVE, value.pointer
    elif value is not None:
        raise TypeError(
            f"{who}: {name} must be a tensor or a number, found {type(value).__name__}; rille.tensor(x) makes a tensor"
        )


class Operator:
    """An operator of the library. A call accepts operands, then attributes, by position or by name."""

    options = ()  # names of arguments besides operands and attributes, such as dtype

    def __init__(self, record):
        self.record, self.name = record, text(lib.rille_op_name(record))
        operands, attributes = ffi.new("struct rille_operand_info[]", _MOST), ffi.new("struct rille_attr_info[]", _MOST)
        n, m = lib.rille_op_operands(record, operands), lib.rille_op_attrs(record, attributes)
        given = [o for o in operands[0:n] if not o.hidden]
        self.operands = [text(o.name) for o in given]
        self.optional = [o.optional for o in given]
        self.list = bool(given) and given[-1].list
        self.attributes = [Attribute(a) for a in attributes[0:m]]
        self.names = self.operands + [a.name for a in self.attributes]
        self.nresult = lib.rille_op_results(record)
        self.__name__ = self.name

    @property
    def __doc__(self):
        """Returns the help page of the operator."""
        return spoken(owned_text(lib.rille_op_help(current().pointer, self.record)))

    @property
    def __signature__(self):
        kind, empty = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
        needed = [not o for o in self.optional] + [a.required for a in self.attributes]
        return inspect.Signature(
            [inspect.Parameter(n, kind, default=empty if need else None) for n, need in zip(self.names, needed)]
        )

    def __repr__(self):
        return f"<operator {self.name}({', '.join(self.names)})>"

    def __get__(self, tensor, owner=None):
        return self if tensor is None else Method(self, tensor)

    def sort(self, args, named):
        """Returns the values of all operands and attributes in order; None: not given."""
        n, spread = len(self.operands), len(self.attributes) == 1 and self.attributes[0].kind == lib.RILLE_INTS
        if spread and len(args) > n + 1:  # the list is given as separate arguments: x.reshape(4, 5)
            args = (*args[:n], args[n:])
        if args and not self.names:
            raise TypeError(f"{self.name}: expected the shape as one argument, such as (4, 5), found {len(args) + 1} arguments")
        if len(args) > len(self.names):
            raise TypeError(
                f"{self.name}: expected at most {len(self.names)} argument{'s' * (len(self.names) != 1)}, "
                f"({', '.join(self.names)}), found {len(args)}"
            )
        values = list(args) + [None] * (len(self.names) - len(args))
        for name, value in named.items():
            if name not in self.names:
                raise TypeError(
                    f"{self.name}: unknown argument '{name}'; expected one of: {', '.join((*self.names, *self.options))}"
                )
            if self.names.index(name) < len(args):
                raise TypeError(f"{self.name}: {name} is given twice")
            values[self.names.index(name)] = value
        return values

    def operand_array(self, values):
        """Returns the C array of the operands. A list of tensors is the last operand's tensors."""
        values, names = list(values), self.operands
        for name, optional, value in zip(names, self.optional, values):
            if value is None and not optional:
                raise TypeError(f"{self.name}: expected the argument {name}, found none")
        if self.list:
            last = values.pop()
            values += last if isinstance(last, (list, tuple)) else [last]
        while values and values[-1] is None:
            values.pop()
        out = ffi.new(ARGUMENTS, len(values))
        for k, value in enumerate(values):
            fill_argument(self.name, names[min(k, len(names) - 1)], out[k], value)
        return out

    def attribute_array(self, values):
        """Returns the C array of the attributes that are given, and what must be kept while it is used."""
        given, kept = [(a, v) for a, v in zip(self.attributes, values) if v is not None], []
        out = ffi.new(ATTRIBUTES, len(given))
        for k, (attribute, value) in enumerate(given):
            attribute.fill(self.name, out[k], value, kept)
        return out, kept

    def __call__(self, *args, **named):
        session = current()
        pointer, values, n = session.at(), self.sort(args, named), len(self.operands)
        operands = self.operand_array(values[:n])
        attributes, _kept = self.attribute_array(values[n:])
        call = pointer, self.record, len(operands), operands, len(attributes), attributes
        if self.nresult == 1:
            cell = ffi.new(CELL)
            check(lib.rille_call(*call, cell))
            return Tensor(session, cell)
        out = ffi.new("struct rille_tensor *[]", self.nresult)
        check(lib.rille_call(*call, out))
        return tuple(Tensor.of(session, t) for t in out)

    def update(self, operands, attributes):
        """Adds an update of an optimiser: overwrites the first operands with the results at the next step."""
        args = self.operand_array(operands)
        attrs, _kept = self.attribute_array([attributes.get(a.name) for a in self.attributes])
        check(lib.rille_update(current().at(), self.record, len(args), args, len(attrs), attrs))


class Method:
    """An operator with its first operand: x.matmul."""

    def __init__(self, operator, tensor):
        self.operator, self.tensor, self.__name__ = operator, tensor, operator.name

    def __repr__(self):
        return f"<method {self.operator.name} of {self.tensor!r}>"

    @property
    def __doc__(self):
        return self.operator.__doc__

    def __call__(self, *args, **named):
        return self.operator(self.tensor, *args, **named)


class Source(Operator):
    # A function for an operator that creates a tensor: zeros(shape, dtype="f32", placement=P, sbp="S(0)",
    # requires_grad=False).
    options = ("dtype", "placement", "sbp", "requires_grad")

    @property
    def __doc__(self):
        """Returns the operator's page with the form of a call in Python, and the options of all sources."""
        arguments, result = super().__doc__.split("\n", 1)[1].split("  returns", 1)
        return f"{self.name}{SHAPES.get(self.name, BY_SHAPE)[1]}\n{arguments}{OPTIONS}\n  returns{result}"

    def __call__(self, *args, **named):
        named = dict(named)
        how = {k: named.pop(k, None) for k in self.options}
        shape, values = SHAPES.get(self.name, BY_SHAPE)[0](self, args, named)
        session, dims = current(), ffi.new("int64_t[]", shape)
        pointer, operands = session.at(), self.operand_array(values)
        dtype = how["dtype"] or default_dtype(self.name, values)
        try:
            dtype = c_text(dtype)
        except (TypeError, ValueError):
            raise TypeError(f'{self.name}: dtype must be a dtype such as "f32", found {dtype!r}') from None
        place = layout.layout(session, how["placement"], how["sbp"], len(shape))
        cell = ffi.new(CELL)
        check(
            lib.rille_create(
                pointer, self.record, len(operands), operands, len(shape), dims, dtype, place, cell
            )
        )
        return Tensor(session, cell).prepare(how["sbp"], how["requires_grad"])

    @property
    def __signature__(self):
        kind = inspect.Parameter.KEYWORD_ONLY
        how = [inspect.Parameter(n, kind, default=None) for n in self.options]
        names = [inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)]
        return inspect.Signature(names + how)


def default_dtype(name, values):
    """Returns the dtype of a source that is given none: i64 for integers of arange and randint, else f32."""
    integers = all(isinstance(v, numbers.Integral) for v in values)
    return "i64" if name in ("arange", "randint") and integers else "f32"


def shape_of(who, shape):
    """Returns a shape as a list: of a list, or of one size."""
    shape = [shape] if isinstance(shape, numbers.Integral) else shape
    if not isinstance(shape, (list, tuple)) or not all(isinstance(n, numbers.Integral) and 0 <= n < 2**63 for n in shape):
        raise TypeError(f"{who}: the shape must be a list of sizes such as (4, 5), found {shape!r}")
    return [int(n) for n in shape]


def leading_shape(op, args, named):
    """Returns shape and operands of zeros(shape), full(shape, value)."""
    if not args and "shape" not in named:
        raise TypeError(f"{op.name}: expected a shape such as (4, 5), found none")
    shape, args = (named.pop("shape"), args) if "shape" in named else (args[0], args[1:])
    return shape_of(op.name, shape), op.sort(args, named)


def trailing_shape(op, args, named):
    """Returns shape and operands of randint(lo, hi, shape)."""
    if len(args) != 3 or named:
        raise TypeError(f"{op.name}: expected low, high and a shape, found {len(args)} arguments")
    return shape_of(op.name, args[2]), list(args[:2])


def range_shape(op, args, named):
    """Returns shape and operands of arange(stop), arange(start, stop, step)."""
    start, stop, step = values = op.sort(
        (0, *args) if len(args) == 1 else args, {"step": 1, **named} if len(args) < 3 else named
    )
    if not all(isinstance(v, numbers.Real) and math.isfinite(v) for v in values):
        raise TypeError(f"arange: expected finite numbers stop, or start, stop and step, found {args!r}")
    if step == 0:
        raise ValueError("arange: step must not be 0")
    if all(isinstance(v, numbers.Integral) for v in values):
        size = -(int(start - stop) // int(step))
    else:
        size = math.ceil((stop - start) / step)
    return [integer("arange", "the number of elements", max(0, size))], values


def line_shape(op, args, named):
    """Returns shape and operands of linspace(start, stop, n)."""
    if len(args) != 3 or named:
        raise TypeError(f"{op.name}: expected start, stop and the number of elements, found {len(args)} arguments")
    return shape_of(op.name, args[2]), list(args[:2])


def square_shape(op, args, named):
    """Returns the shape of eye(n), eye(n, m)."""
    if len(args) not in (1, 2) or named:
        raise TypeError(f"{op.name}: expected the number of rows and of columns, found {len(args)} arguments")
    return shape_of(op.name, [args[0], args[-1]]), []


# For each operator that creates a tensor from no other (source operator): the function that reads its arguments, and
# the form of its call, for messages. Source operators without an entry are called in the form BY_SHAPE.
BY_SHAPE = leading_shape, "(shape)"
SHAPES = {
    "arange": (range_shape, "(stop) or arange(start, stop, step = 1)"),
    "eye": (square_shape, "(rows, columns = rows)"),
    "full": (leading_shape, "(shape, value)"),
    "linspace": (line_shape, "(start, stop, n)"),
    "randint": (trailing_shape, "(low, high, shape)"),
}
OPTIONS = """  dtype          default "f32"; "i64" for integers of arange and randint
  placement      devices, default: device 0
  sbp            distribution over the devices, default "B"; "auto": a planner chooses it
  requires_grad  default False"""


def of_record(record):
    """Returns the operator of a record of the library."""
    return (Source if lib.rille_op_source(record) else Operator)(record)


@functools.lru_cache(maxsize=None)
def find(name):
    """Returns the operator of this name, also if the operator is internal."""
    return of_record(lib.rille_op_find(name.encode()))


def public():
    """Returns the library's operators for users, by name."""
    found, i = {}, 0
    while record := lib.rille_op_at(i):
        i += 1
        if not lib.rille_op_hidden(record):
            op = of_record(record)
            found[op.name] = op
    return found


def add_methods(found):
    """Makes operators whose first operand is a tensor methods of Tensor."""
    for name, op in found.items():
        if op.operands and not op.list and not isinstance(op, Source) and name not in Tensor.__dict__:
            setattr(Tensor, name, op)


# Python's operators -> the operators of the library that they call.
BINARY = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "truediv": "div",
    "pow": "pow",
    "matmul": "matmul",
    "and": "logical_and",
    "or": "logical_or",
}
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
UNARY = {"neg": "neg", "abs": "abs", "invert": "logical_not"}


def add_python_operators(found):
    """Sets +, +=, @, == and the others of Tensor."""

    def set_method(name, op, swapped=False):
        method = (lambda a, b: op(b, a)) if swapped else (lambda *operands: op(*operands))
        setattr(Tensor, f"__{name}__", method)

    def set_comparison(name, op):
        def method(a, b):
            # values of other types are not comparable: t == None is False
            return op(a, b) if isinstance(b, (Tensor, numbers.Real, Live)) else NotImplemented

        setattr(Tensor, f"__{name}__", method)

    def set_assignment(name, op):
        def method(a, b):
            # changes a leaf in place, as NumPy and PyTorch do; for results, Python binds the name to the new tensor
            return a.copy_(op(a, b)) if lib.rille_tensor_is_variable(a.pointer) else NotImplemented

        setattr(Tensor, f"__i{name}__", method)

    for name, own in BINARY.items():
        set_method(name, found[own])
        if name != "matmul":
            set_assignment(name, found[own])
        set_method("r" + name, found[own], swapped=True)
    for name in COMPARISONS:
        set_comparison(name, found[name])
    for name, own in UNARY.items():
        set_method(name, found[own])
    Tensor.__hash__ = object.__hash__


def load(path):
    """Loads the operators of a shared library; returns all operators for users."""
    path = os.fsencode(path)
    if b"\0" in path:
        raise ValueError(f"load_operators: a path must not have a character of value 0, found {path!r}")
    check(lib.rille_load_operators(current().at(), path))
    return public()
