"""Tensors: values, layouts, gradients, indexing, NumPy and DLPack."""

import contextlib
import difflib
import operator

import numpy as np

from . import dlpack
from .layout import Placement, layout
from .library import c_text, check, ffi, integer, lib, text
from .session import Handle, current
from .words import spoken

NUMPY = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "i32": np.int32,
    "i64": np.int64,
    "u8": np.uint8,
    "bool": np.bool_,
}
DTYPES = {np.dtype(kind): name for name, kind in NUMPY.items()}
CELL = ffi.typeof("struct rille_tensor **")
# Names of methods of PyTorch's or NumPy's tensors: what to write instead in Rille.
OTHERS = {
    "view": "x.reshape(2, 3)",
    "flatten": "x.reshape(-1)",
    "t": "x.transpose(0, 1)",
    "T": "x.transpose(0, 1)",
    "mm": "x @ y",
    "bmm": "x @ y",
    "dot": "x @ y",
    "size": "x.shape",
    "dim": "x.ndim",
    "astype": 'x.cast("f16")',
    "type": 'x.cast("f16")',
    "half": 'x.cast("f16")',
    "bfloat16": 'x.cast("bf16")',
    "float": 'x.cast("f32")',
    "double": 'x.cast("f64")',
    "long": 'x.cast("i64")',
    "to": 'x.cast("f16")',
    "cuda": 'x.to_global(placement=rille.placement("cuda", [0]))',
    "cpu": 'x.to_global(placement=rille.placement("cpu", [0]))',
    "device": "x.placement",
    "contiguous": "x",
    "data": "x.detach()",
    "requires_grad_": "x.requires_grad = True",
    "pow_": "x **= 2",
    "add_": "x += y",
    "sub_": "x -= y",
    "mul_": "x *= y",
    "div_": "x /= y",
    "zero_": "x.copy_(0 * x)",
    "masked_fill": "mask.where(y, x)",
    "split": "x[:, 0:2]",
    "chunk": "x[:, 0:2]",
}


class Live(Handle):
    """A number that a Python function returns at each call of a compiled step; operators accept it as a number."""

    __slots__ = ()
    free = lib.rille_live_free


class Tensor(Handle):
    """A tensor. Its values are lazy: an operator call adds to the program, and reading a value computes it."""

    __slots__ = ()
    free = lib.rille_tensor_free
    __array_ufunc__ = None  # lets numpy_array + tensor call the tensor's method

    @classmethod
    def of(cls, session, pointer):
        """Returns the tensor of a handle of the library, which the tensor owns from then on."""
        return cls(session, ffi.new(CELL, pointer))

    def __getattr__(self, name):
        """Raises the error for a name that tensors do not have, with what to write instead."""
        near = difflib.get_close_matches(name, dir(type(self)), 1)
        hint = f"; write {OTHERS[name]}" if name in OTHERS else f"; the nearest name is {near[0]}" if near else ""
        raise AttributeError(f"tensors have no attribute {name!r}{hint}")  # Python 3.9 has no keywords name, obj

    # ---- type and layout ----

    @property
    def dtype(self):
        """Returns the dtype: f32 f64 bf16 f16 i32 i64 u8 bool."""
        return text(lib.rille_tensor_dtype(self.pointer))

    @property
    def ndim(self):
        """Returns the number of dimensions."""
        return lib.rille_tensor_ndim(self.pointer)

    @property
    def shape(self):
        """Returns the sizes of the dimensions as a tuple."""
        return tuple(lib.rille_tensor_shape(self.pointer)[0 : self.ndim])

    @property
    def numel(self):
        """Returns the number of elements."""
        return lib.rille_tensor_numel(self.pointer)

    @property
    def placement(self):
        """Returns the devices of the tensor."""
        return Placement(self.session, lib.rille_layout_place(lib.rille_tensor_layout(self.pointer)))

    @property
    def sbp(self):
        """Returns the distribution over the devices as text: "S(0)", "(S(0), B)"."""
        return text(lib.rille_layout_text(self.session.pointer, lib.rille_tensor_layout(self.pointer)))

    @property
    def name(self):
        """The name in plans and reports; None: no name."""
        return text(lib.rille_tensor_name(self.pointer))

    @name.setter
    def name(self, name):
        try:
            lib.rille_tensor_set_name(self.pointer, c_text(name))
        except (TypeError, ValueError):
            raise TypeError(f"name: expected a str, found {name!r}") from None

    @property
    def is_leaf(self):
        """Returns True if no operator computed the tensor."""
        return lib.rille_tensor_is_leaf(self.pointer)

    def to_global(self, placement=None, sbp=None):
        """Returns the tensor on other devices or in another distribution. An argument that is None stays unchanged."""
        session, cell = self.session, ffi.new(CELL)
        session.at()
        how = layout(session, placement or self.placement, sbp or self.sbp, self.ndim)
        check(lib.rille_tensor_to_global(self.pointer, how, cell))
        return Tensor(session, cell)

    def to_global_(self, placement=None, sbp=None):
        """Changes the layout of a leaf and of its gradient in place."""
        self.session.at()
        how = layout(self.session, placement or self.placement, sbp or self.sbp, self.ndim)
        check(lib.rille_tensor_relayout(self.pointer, how))
        return self

    def to_local(self, rank):
        """Returns the shard of a device as a tensor on that device."""
        return self._made(lib.rille_tensor_to_local, integer("to_local", "rank", rank, most=2**31 - 1))

    # ---- values ----

    def numpy(self):
        """Returns the global value as a NumPy array of its own; bf16 becomes float32."""
        self.session.at()
        source = self.detach().cast("f32") if self.dtype == "bf16" else self
        out = np.empty(source.shape, NUMPY[source.dtype])
        check(lib.rille_tensor_read(source.pointer, ffi.from_buffer(out)))
        return out

    def __array__(self, dtype=None, copy=None):
        if copy is False:
            raise ValueError("numpy: a tensor must be copied; numpy.from_dlpack(t) shares its memory")
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    def __dlpack_device__(self):
        return dlpack.CPU, 0

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if dl_device not in (None, (dlpack.CPU, 0)):
            raise BufferError(f"__dlpack__: expected the device cpu, which is ({dlpack.CPU}, 0), found {dl_device!r}")
        self.session.at()
        return dlpack.capsule(self.pointer, max_version, copy)

    def item(self):
        """Returns the value of a tensor with one element as a Python number."""
        self.session.at()
        f, i, is_int = ffi.new("double *"), ffi.new("int64_t *"), ffi.new("bool *")
        check(lib.rille_tensor_item(self.pointer, f, i, is_int))
        if self.dtype == "bool":
            return bool(i[0])
        return i[0] if is_int[0] else f[0]

    def tolist(self):
        """Returns the values as nested lists."""
        return self.numpy().tolist()

    def __float__(self):
        return float(self.item())

    def __int__(self):
        return int(self.item())

    def __bool__(self):
        return bool(self.item())

    def __len__(self):
        if self.ndim == 0:
            raise TypeError("len: the tensor must have at least 1 dimension, found 0")
        return self.shape[0]

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __repr__(self):
        return f"{self.dtype} {self.shape} {self.sbp} on {self.placement}"

    def __str__(self):
        return f"{self!r}\n{self.numpy()}"

    def __getitem__(self, key):
        out, axis, keys = self, 0, list(key) if isinstance(key, tuple) else [key]
        used = sum(k is not None and k is not Ellipsis for k in keys)
        if used > self.ndim:
            raise IndexError(f"index: expected at most {self.ndim} positions for {self!r}, found {used}")
        if sum(isinstance(k, Tensor) for k in keys) > 1:
            raise IndexError(
                "index: expected at most one tensor of integers, found several; x.gather(ids, axis) selects one entry of each row"
            )
        for k in keys:
            if k is Ellipsis:
                axis += self.ndim - used
            else:
                out, axis = _pick(out, axis, k)
        return out

    def __setitem__(self, key, value):
        """Raises the error for x[key] = value, with what to write instead."""
        raise TypeError("index: a part of a tensor cannot be assigned; write x.copy_(mask.where(y, x)), where mask is True in that part")

    # ---- new tensors from this one, and changes in place ----

    def _made(self, function, *args):
        """Returns the result of a function of the library that makes a tensor from this one."""
        self.session.at()
        cell = ffi.new(CELL)
        check(function(self.pointer, *args, cell))
        return Tensor(self.session, cell)

    def detach(self):
        """Returns a leaf with the same value and no gradient."""
        return self._made(lib.rille_tensor_detach)

    def clone(self):
        """Returns a copy, through which gradients flow."""
        return self._made(lib.rille_tensor_clone)

    def copy_(self, source):
        """Assigns the value of another tensor to a leaf in place."""
        self.session.at()
        check(lib.rille_tensor_assign(self.pointer, c_handle("copy_", source)))
        return self

    def prepare(self, sbp, requires_grad):
        """Applies the options of a new leaf, such as requires_grad. Returns the leaf."""
        if sbp == "auto":
            check(lib.rille_tensor_auto(self.pointer, True))
        if requires_grad:
            self.requires_grad = True
        return self

    # ---- gradients ----

    @property
    def requires_grad(self):
        """Whether backward() computes a gradient of the tensor; leaves of floats can be set."""
        return lib.rille_tensor_requires_grad(self.pointer)

    @requires_grad.setter
    def requires_grad(self, on):
        if not isinstance(on, bool):
            raise TypeError(f"requires_grad: expected True or False, found {on!r}")
        self.session.at()
        check(lib.rille_tensor_set_requires_grad(self.pointer, on))

    @property
    def grad(self):
        """The gradient that backward() added; None: no gradient."""
        found = lib.rille_tensor_grad(self.pointer)
        return Tensor.of(self.session, found) if found else None

    @grad.setter
    def grad(self, value):
        self.session.at()
        check(lib.rille_tensor_set_grad(self.pointer, ffi.NULL if value is None else c_handle("grad", value)))

    def backward(self, retain_graph=False):
        """Adds the gradients of a tensor with one element to the leaves that require a gradient."""
        self.session.at()
        run = lib.rille_tensor_backward_retained if retain_graph else lib.rille_tensor_backward
        check(run(self.pointer))


def _pick(t, axis, key):
    """Applies one entry of an index to an axis; returns the tensor and the next axis."""
    if key is None:
        return t.unsqueeze(axis), axis + 1
    size = t.shape[axis]
    if isinstance(key, slice):
        start, stop, step = key.indices(size)
        if step < 0:
            raise IndexError("index: the step of a range must be positive; x.flip(axis) reverses an axis")
        return (t if (start, stop, step) == (0, size, 1) else t.slice(axis, start, max(start, stop), step)), axis + 1
    if isinstance(key, Tensor) and key.dtype == "bool":
        raise IndexError(
            "index: a tensor of positions must be of integers, found bool; mask.where(a, b) selects by a mask"
        )
    if isinstance(key, Tensor):
        return t.index_select(key, axis), axis + key.ndim
    try:
        at = operator.index(None if isinstance(key, bool) else key)
    except TypeError:
        raise IndexError(f"index: expected an integer, a range, None, ... or a tensor of integers, found {key!r}") from None
    if not -size <= at < size:
        raise IndexError(f"index: position {at} is out of range: axis {axis} has {size} entries")
    return t.slice(axis, at % size, at % size + 1).squeeze(axis), axis


def tensor(data, dtype=None, placement=None, sbp=None, requires_grad=False):
    """Returns a new leaf with a copy of the values.

    data           number, nested lists, or an array that NumPy can read
    dtype          default: the array's; of Python numbers f32, i64 or bool
    placement      devices, default: device 0
    sbp            distribution over the devices, default "B"; "auto": a planner chooses it
    requires_grad  default False
    errors         ragged lists, a dtype that Rille lacks, a layout that the shape does not permit
    """
    if not isinstance(dtype, (str, type(None))):
        raise TypeError(f'tensor: dtype must be a dtype such as "f32", found {dtype!r}')
    if dtype is None and str(getattr(data, "dtype", None)) == "bfloat16":  # an array of JAX or ml_dtypes
        dtype = "bf16"
    host = "f32" if dtype == "bf16" else dtype
    array = np.asarray(data, NUMPY.get(host))
    if host is None:
        floats = array.dtype == np.float64 and not hasattr(data, "dtype")
        host = "f32" if floats else DTYPES.get(array.dtype)
    if host not in NUMPY:
        raise TypeError(f"tensor: expected one of the dtypes {', '.join(NUMPY)}, bf16, found {dtype or array.dtype}")
    session, cell, shape = current(), ffi.new(CELL), array.shape
    array = np.ascontiguousarray(array, NUMPY[host])
    pointer, how = session.at(), layout(session, placement, sbp, len(shape))
    values = ffi.from_buffer(array)
    check(
        lib.rille_tensor_from_host(pointer, host.encode(), len(shape), ffi.new("int64_t[]", shape), values, how, cell)
    )
    out = Tensor(session, cell)
    if dtype == "bf16":
        out = out.cast("bf16").detach()
    return out.prepare(sbp, requires_grad)


def from_dlpack(array):
    """Returns a leaf that shares the memory of an array of NumPy, PyTorch or JAX; docs/python.md says when it is copied."""
    session, cell = current(), ffi.new(CELL)
    dlpack.take(session.at(), array, cell)
    return Tensor(session, cell)


def c_handle(who, value):
    """Checks that an argument is a tensor, and returns its C handle, which lasts as long as the tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{who}: expected a tensor, found {type(value).__name__}; rille.tensor(x) makes a tensor")
    return value.pointer


def _pointers(who, tensors):
    return ffi.new("struct rille_tensor *[]", [c_handle(who, t) for t in tensors])


def eval(*tensors):
    """Computes the values of the tensors in one run."""
    check(lib.rille_eval(current().at(), len(tensors), _pointers("eval", tensors)))


def grad(y, x):
    """Returns the gradients of sum(y) by each tensor of the list x; they are differentiable again."""
    if not isinstance(x, (list, tuple)):
        raise TypeError(f"grad: expected a list of tensors, found {type(x).__name__}")
    session, out = current(), ffi.new("struct rille_tensor *[]", len(x))
    session.at()
    check(lib.rille_tensor_grad_of(c_handle("grad", y), len(x), _pointers("grad", x), out))
    return [Tensor.of(session, g) for g in out]


@contextlib.contextmanager
def _mode(function, on):
    """Sets a mode for the body of a `with` statement, and then restores the previous mode. function: sets it in the library."""
    session = current()
    before = function(session.pointer, on)
    try:
        yield
    finally:
        function(session.pointer, before)


def no_grad():
    """Switches the recording of gradients off: with rille.no_grad(): ..., or as a decorator."""
    return _mode(lib.rille_grad_mode, False)


def recompute():
    """Saves no values for backward; backward recomputes them: with rille.recompute(): ..., or as a decorator."""
    return _mode(lib.rille_recompute, True)


def _set_autocast(session, dtype):
    before = text(lib.rille_autocast_dtype(session))
    try:
        name = ffi.NULL if dtype is None else c_text(dtype)
    except (TypeError, ValueError):
        raise TypeError(f'autocast: dtype must be "bf16", "f16" or None, found {dtype!r}') from None
    check(lib.rille_autocast(session, name))
    return before


def autocast(dtype="bf16"):
    """Computes matrix products, conv2d and attention in a 16-bit dtype: with rille.autocast("bf16"): ..., or as a decorator."""
    return _mode(_set_autocast, dtype)


def explain(*tensors):
    """Returns the layouts that each operator chose, and the moves with their bytes, as text."""
    return explained(lib.rille_explain, current().at(), len(tensors), _pointers("explain", tensors))


def explained(function, *args):
    """Calls a function of the library that makes a struct rille_explain. Returns the text of the struct."""
    out = ffi.new("struct rille_explain **")
    check(function(*args, out))
    try:
        return spoken(text(out[0].text))
    finally:
        lib.rille_explain_free(out)
