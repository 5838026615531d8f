"""What a compiled step reads besides its arguments: globals, variables of outer functions, attributes, and entries of lists and dicts.

Before a step is traced, a walk over the code of its function lists the places that the function may read, with their
values. A place is a holder and a key: a dict and a key, a list and an index, an object and an attribute. The walk
continues in the functions, objects, classes and modules of the user that it finds there, and in the layers of this package.
Attributes count if the code names them, or if the code computes names. The walk does not enter the code of other packages;
of their objects, numbers, texts and named attributes count. The trace fits a call if each place has the listed value: numbers
and texts are compared by value, other objects by identity. Long lists and arrays of numbers are compared by their contents.
"""

import builtins
import collections
import collections.abc
import contextvars
import dis
import functools
import marshal
import operator
import os
import random
import sys
import time
import types
import warnings
import weakref

import numpy as np

from .tensors import Tensor

MOST = 1 << 14  # maximum number of places of a walk
LARGE = 256  # maximum length of a list or dict whose entries are compared one by one
LARGEST = 1 << 20  # maximum size of contents that are compared, bytes
OFTEN = 8  # number of traces after changes of one place that cause a warning
PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...))
LISTS = (list, tuple, collections.deque)
DICTS = (dict, types.MappingProxyType)
COMPUTES = {"getattr", "hasattr", "vars", "eval", "exec", "globals", "attrgetter", "__dict__", "__getattribute__"}
OTHERS = {"__init__", "__repr__", "__str__", "__init_subclass__"}  # methods that a step does not call for an object
MISSING = object()

_lib = os.path.dirname(os.__file__) + os.sep  # folder of Python's library
_layers = "rille.nn"

# functions and modules whose results change although no place changes
_outer = {id(builtins.open): "open()", id(builtins.input): "input()", id(os.environ): "os.environ", id(os.getenv): "os.getenv()"}
for _module, _names in (time, ["time", "perf_counter", "monotonic", "process_time"]), (random, random.__all__), (np.random, np.random.__all__):
    _outer.update({id(getattr(_module, name)): f"{_module.__name__}.{name}()" for name in _names})


def is_a(value, kinds):
    """Returns isinstance(value, kinds) without asking the object for its __class__."""
    return issubclass(type(value), kinds)


@functools.lru_cache(maxsize=None)
def is_users(name):
    """Returns True for the name of a module whose code the walk enters: a module of the user, also of an installed package if it
    imports rille, or the layers of this package."""
    if str(name).split(".")[0] == "rille":
        return name == _layers
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None) or ""
    if not file.startswith(_lib) and not {"site-packages", "dist-packages"} & set(file.split(os.sep)):
        return name not in sys.builtin_module_names
    return any(str(getattr(v, "__module__", None) or getattr(v, "__name__", None)).split(".")[0] == "rille" for v in list(vars(module).values()))


# the attributes in which objects of Python's library have their contents
WRAPPED = {collections.UserDict: ("data",), collections.UserList: ("data",), collections.ChainMap: ("maps",)}
# how a context variable and a weak reference are read and written
HIDDEN = (lambda of, _: of.get(MISSING), lambda of, _, value: of.set(value)), (lambda of, _: of(), lambda of, _, value: None)


def is_implicit(of, key, space):
    """Returns True for a method that Python calls without its name, such as __call__ or __getitem__."""
    return is_a(space[key], (types.FunctionType, classmethod)) and (key == "__call__" if of.__module__ == _layers else key[:2] == "__" and key not in OTHERS)


class Entry:
    """A holder like a dict, with the functions that read and write a key."""

    __slots__ = ("of", "reads", "writes")

    def __init__(self, of, reads, writes):
        self.of, self.reads, self.writes = of, reads, writes

    def get(self, key, default):
        try:
            return self.reads(self.of, key)
        except (AttributeError, KeyError, IndexError, ValueError):
            return default

    def __setitem__(self, key, value):
        self.writes(self.of, key, value)


def _cell(cell):
    return Entry(cell, lambda cell, _: cell.cell_contents, lambda cell, _, value: setattr(cell, "cell_contents", value))


def _list(values):
    return Entry(values, lambda values, i: values[i], lambda values, i, value: values.__setitem__(i, value))


def _view(values):
    return Entry(values, lambda values, key: values[key], lambda values, key, value: None)


def _slots(value):
    return Entry(value, getattr, setattr)


def _class(kind):
    return Entry(kind, lambda kind, key: vars(kind).get(key, MISSING), setattr)


def same(a, b):
    """Returns True if a step computes the same with either value: 2 and 2.0 differ, as do 0.0 and -0.0; NaN equals NaN."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if type(a) in PLAIN:
        return marshal.dumps(a, 2) == marshal.dumps(b, 2)
    if is_a(a, np.generic):
        return a.tobytes() == b.tobytes()
    return is_a(a, types.MethodType) and a == b


def other_keys(value, keys):
    """Returns True if a dict or set has other keys than these, or in another order, or a list has another length."""
    return len(value) != len(keys) or not is_a(value, LISTS) and not all(map(operator.is_, value, keys))


def contents(value):
    """Returns the contents of a list, dict, set, or an array of NumPy or PyTorch, as bytes; None: it is large, or has other
    entries than numbers, texts and lists of them."""
    try:
        if hasattr(type(value), "__array__"):
            value = np.asarray(value)
            return value.tobytes() + f"{value.dtype}{value.shape}".encode() if value.nbytes <= LARGEST else None
        if is_a(value, collections.deque):
            value = list(value)
        return marshal.dumps(value, 2) if type(value) in (list, tuple, dict, set, frozenset, bytearray) else None
    except Exception:  # of marshal, or of an array that NumPy cannot read
        return None


class Places:
    """The places that a step may read, and their values before its trace. known: what the step's traces have in common."""

    def __init__(self, fn, known):
        self.known, self.fields, self.data, self.keyed = known, [], [], []
        self.seen, self.taken, self.names, self.spaces = {}, set(), {"forward"}, []
        self.computed, self.outer, self.cut, self.live = False, None, None, set(known.live)
        self.visit(fn, "self")
        self.visit_spaces()

    # ---- the walk ----

    def add(self, holder, of, key, value, name):
        """Adds the place `key` of the holder, which reads the object `of`, and continues with the value."""
        place = id(of), key
        if place in self.taken:
            return
        self.taken.add(place)
        if len(self.taken) > MOST:
            self.cut = self.cut or name
        elif place not in self.known.ignored:
            self.fields.append((holder, key, value, name, of))
            self.visit(value, name)

    def visit(self, value, name):
        if is_a(value, PLAIN) or id(value) in self.seen:
            return
        self.seen[id(value)] = value
        self.outer = self.outer or _outer.get(id(value))
        if is_a(value, types.FunctionType):
            self.visit_function(value)
        elif is_a(value, types.MethodType):
            self.visit(value.__func__, name)
            self.visit(value.__self__, name)
        elif is_a(value, functools.partial):
            for part in value.func, value.args, value.keywords:
                self.visit(part, name)
        elif is_a(value, (staticmethod, classmethod, functools._lru_cache_wrapper)):
            self.visit(value.__wrapped__ if hasattr(value, "__wrapped__") else value.__func__, name)
        elif is_a(value, (contextvars.ContextVar, weakref.ref)):
            holder = Entry(value, *HIDDEN[is_a(value, weakref.ref)])
            self.add(holder, value, None, holder.get(None, MISSING), name)
        elif is_a(value, (operator.attrgetter, operator.methodcaller)):
            self.computed = True
        elif is_a(value, (property, functools.cached_property)):
            self.visit(value.fget if is_a(value, property) else value.func, name)
        elif is_a(value, types.ModuleType):
            self.visit_module(value, name)
        elif is_a(value, type):
            self.visit_class(value, name, makes=True)
        elif is_a(value, Tensor):
            pass
        elif is_a(value, (*LISTS, *DICTS, set, frozenset, bytearray)) or hasattr(type(value), "__array__"):
            self.visit_contents(value, name)
        elif is_a(value, (types.GeneratorType, collections.abc.Iterator)):
            self.outer = self.outer or f"the iterator '{name}'"
        else:
            self.visit_object(value, name)

    def visit_function(self, fn):
        if not is_users(fn.__module__):
            return
        read = self.visit_code(fn.__code__, fn.__globals__)
        for free, cell in zip(fn.__code__.co_freevars, fn.__closure__ or ()):
            if free in read:
                holder = _cell(cell)
                self.add(holder, cell, None, holder.get(None, MISSING), free)
        for part in (fn.__defaults__, fn.__kwdefaults__, getattr(fn, "__wrapped__", None)):
            self.visit(part, f"a default of {fn.__name__}")
        self.visit_attributes(fn, vars(fn), fn.__name__)

    def visit_code(self, code, space):
        """Adds the globals that the code reads, and the names of attributes. Returns the variables of outer functions that it reads."""
        codes, free = [code], set()
        while codes:
            code = codes.pop()
            if code in self.known.live:
                continue
            codes += [part for part in code.co_consts if is_a(part, types.CodeType)]
            for at in dis.get_instructions(code):
                if at.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                    self.visit_global(space, at.argval)
                elif at.opname == "IMPORT_NAME":
                    self.visit(sys.modules.get(at.argval), at.argval)
                elif at.opname in ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"):
                    free.add(at.argval)
                elif at.opname.startswith(("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER", "IMPORT_FROM")):
                    self.names.add(at.argval)
                    self.computed = self.computed or at.argval in COMPUTES
        return free

    def visit_global(self, space, name):
        self.computed = self.computed or name in COMPUTES
        if name == "globals":
            self.spaces.append((space, space, space, "globals()"))
        value = space.get(name, MISSING)
        if value is MISSING and hasattr(builtins, name):
            self.visit(getattr(builtins, name), name)
        else:
            self.add(space, space, name, value, name)

    def visit_module(self, module, name):
        space = vars(module)
        users = is_users(module.__name__) and module.__name__ != _layers
        self.spaces.append((space if users else None, space, space, name))

    def visit_class(self, kind, name, makes=False):
        """Visits a class. makes: the code may make objects of the class."""
        for part in (*kind.__mro__, *type(kind).__mro__):
            if makes and is_users(part.__module__) and part.__module__ != _layers:
                self.visit(vars(part).get("__init__"), f"{name}.__init__")
            if is_users(part.__module__) and (part, "class") not in self.taken:
                self.taken.add((part, "class"))
                self.spaces.append((_class(part), part, vars(part), name if part is kind else part.__name__))

    def visit_contents(self, value, name):
        of = id(value), "contents"
        if of in self.known.ignored:
            return
        self.taken.add(of)
        indexed = is_a(value, (*DICTS, *LISTS))
        found = None if indexed and len(value) <= LARGE else contents(value)
        if found is not None and len(found) <= LARGEST:
            self.data.append((value, found, name))
        elif hasattr(type(value), "__array__") or len(value) > MOST:
            self.cut = self.cut or name
        else:
            self.keyed.append((value, tuple(value), name, False))
            named = is_a(value, DICTS)
            holder = value if is_a(value, dict) else _view(value) if named else _list(value) if indexed else None
            for key, part in list(value.items() if named else enumerate(value)):
                if holder is None or is_a(value, tuple):
                    self.visit(part, f"{name}[{key!r}]")
                else:
                    self.add(holder, value, key, part, f"{name}[{key!r}]")

    def visit_object(self, value, name):
        """Visits the class, the attributes and the slots of an object."""
        kind = type(value)
        try:
            space = value.__dict__
        except Exception:  # the object may refuse
            space = None
        for key in getattr(kind, "step_reads", WRAPPED.get(kind, ())):
            self.add(space, value, key, space[key], f"{name}.{key}")
        self.visit_class(kind, f"type({name})")
        if is_a(space, dict):
            self.visit_attributes(value, space, name)
        for part in kind.__mro__:
            slots = {key: v for key, v in vars(part).items() if is_a(v, types.MemberDescriptorType)}
            if slots and is_users(part.__module__):
                self.spaces.append((_slots(value), value, slots, name))

    def visit_attributes(self, value, space, name):
        self.spaces.append((space, value, space, name))
        self.keyed.append((space, tuple(space), name, True))
        self.taken.add((id(space), "contents"))

    def visit_spaces(self):
        """Adds the attributes of the objects, classes and modules found so far, until a round finds no new ones."""
        done = None
        while done != (len(self.taken), len(self.names), len(self.spaces), self.computed):
            done = len(self.taken), len(self.names), len(self.spaces), self.computed
            for holder, of, space, name in list(self.spaces):
                for key in self.keys(holder, of, space):
                    if holder is None:
                        self.visit_library(space[key], space["__name__"])
                    else:
                        self.add(holder, of, key, holder.get(key, MISSING), f"{name}.{key}")

    def keys(self, holder, of, space):
        """Returns the attributes that the code may read. If the code computes names, these are all attributes of objects and
        modules of the user."""
        if of is space:  # a module
            every = self.computed and holder is not None
            return [key for key in (list(space) if every else self.names & space.keys()) if key[:2] != "__"]
        if is_a(of, type):
            return [key for key in space if self.computed or key in self.names or is_implicit(of, key, space)]
        users = is_users(type(of).__module__)
        if users and self.computed:
            return list(space)
        if users or hasattr(type(of), "step_reads"):
            return list(self.names & space.keys())
        return [key for key, value in list(space.items()) if key in self.names or type(value) in PLAIN]  # methods may read each

    def visit_library(self, value, library):
        """Notes a function of another library whose results change, and visits the modules of the library, such as numpy.random."""
        if is_a(value, types.ModuleType) and value.__name__.startswith(library + "."):
            self.visit(value, value.__name__)
        self.outer = self.outer or _outer.get(id(value))

    # ---- comparing ----

    def changed(self):
        """Returns the first place that has changed as (name, whether its value is a number); None: none has changed."""
        for holder, key, value, name, _ in self.fields:
            now = holder.get(key, MISSING)
            if now is not value and not same(now, value):
                return name, is_a(now, (int, float))
        for value, keys, name, _ in self.keyed:
            if other_keys(value, keys):
                return name, False
        for value, found, name in self.data:
            if contents(value) != found:
                return name, False
        return None

    # ---- changes by the function itself ----

    def replaced(self):
        """Returns the places where the function has replaced a tensor by another one: (holder, key, tensor, name, new tensor)."""
        found = [(holder, key, value, name, holder.get(key, None)) for holder, key, value, name, _ in self.fields]
        return [row for row in found if is_a(row[2], Tensor) and is_a(row[4], Tensor) and row[4] is not row[2]]

    def restore(self):
        """Puts the values back that the function has changed, as far as they are values of variables, attributes and entries."""
        for holder, key, value, _, _ in self.fields:
            if value is not MISSING and holder.get(key, MISSING) is not value:
                holder[key] = value

    def settle(self, fn):
        """Ends the trace of fn: notes the places that the function has changed itself, and removes those that are not followed."""
        known = self.known
        if known.live != self.live:  # new: the places that the rest of the code reads
            read = Places(fn, known)
            self.keep(lambda of, key: (id(of), key) in read.taken)
            self.outer, self.cut = read.outer, read.cut
        for holder, of, space, name in self.spaces:
            for key in self.keys(holder, of, space) if holder is space else ():
                if (id(of), key) not in self.taken:  # an attribute that the function has added
                    self.fields.append((holder, key, MISSING, f"{name}.{key}", of))
        self.keyed = [(value, tuple(value) if own else keys, name, own) for value, keys, name, own in self.keyed]
        for holder, key, value, name, of in self.fields:
            if not same(holder.get(key, MISSING), value):
                known.note(of, key, name)
        for value, keys, name, own in self.keyed:
            if not own and other_keys(value, keys):
                known.note(value, "contents", name)
        for value, found, name in self.data:
            if contents(value) != found:
                known.note(value, "contents", name)
        if self.outer:
            known.warn(
                f"the step's function can read {self.outer}, whose value stays that of the trace; pass it as an argument, or use "
                "rille.live, or rille.rand for random numbers"
            )
        if self.cut:
            known.warn(
                f"the step's function can read too many values to follow, such as '{self.cut}'; changes of these are not noticed: "
                "pass values that change as arguments"
            )
        del self.seen, self.spaces, self.names

    def keep(self, is_kept):
        """Removes the places for which is_kept(object, key) is false."""
        self.fields = [row for row in self.fields if is_kept(row[4], row[1])]
        self.keyed = [row for row in self.keyed if is_kept(row[0], "contents")]
        self.data = [row for row in self.data if is_kept(row[0], "contents")]


class Known:
    """What the traces of a step share.

    changed    places that the function itself has changed: (id of the object, key) -> the object, the number of traces
    ignored    places that are not followed any more: (id of the object, key) -> the object
    counts     number of traces that a change of the place with this name has caused
    live       codes of functions that rille.live calls in each run
    """

    def __init__(self):
        self.changed, self.ignored, self.counts, self.live, self.told = {}, {}, collections.Counter(), set(), set()

    def follows(self, of, key):
        return (id(of), key) not in self.ignored

    def calls_live(self, fn):
        """Notes that each run of the step calls fn for a live number, so that no trace depends on what fn reads."""
        self.live.add(getattr(getattr(fn, "__func__", fn), "__code__", None))

    def note(self, of, key, name):
        place = id(of), key
        traces = self.changed.setdefault(place, [of, 0])  # keeps the object, so that no other one gets its id
        traces[1] += 1
        if traces[1] > 1:
            self.ignored[place] = of
            self.warn(f"the step's function changes '{name}', which happens once, when it is traced, and not at each call")

    def count(self, name, number):
        """Counts a trace that a change of this place causes."""
        self.counts[name] += 1
        if self.counts[name] == OFTEN:
            remedy = f"rille.live(lambda: {name})" if number else "an argument"
            self.warn(f"the step was traced {OFTEN + 1} times because '{name}' changes from call to call, which is slow; pass it as {remedy}")

    def warn(self, text):
        if text in self.told:
            return
        self.told.add(text)
        level, frame = 1, sys._getframe(1)
        while frame and frame.f_code.co_filename.startswith(os.path.dirname(__file__)):
            level, frame = level + 1, frame.f_back
        warnings.warn(f"graph: {text}", stacklevel=level)
