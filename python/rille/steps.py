"""Compiled steps: rille.graph records the calls of a Python function once, and then runs them as one program."""

import functools

from . import reads
from .library import Error, check, ffi, lib, options, raised
from .session import Handle, current
from .tensors import Live, Tensor, explained

# ---- live numbers ----

_known = []  # what the traces in progress know of their steps (reads.Known)
_lives = {}  # functions that compute live numbers and that the library still needs, by handle


class _Numbers:
    """The functions of a live number: fn returns its value; undo is called if the run that read the value fails."""

    def __init__(self, session, fn, undo):
        self.session, self.fn, self.undo, self.handle = session, fn, undo, ffi.new_handle(self)
        _lives[self.handle] = self

    def call(self, fn, *args):
        """Calls fn, for the library. Returns 0. After an exception, stores it in `raised` for check() to raise, and returns 1."""
        self.session.inside += 1
        try:
            fn(*args)
            return 0
        except BaseException as e:
            raised[:] = [e]
            return 1
        finally:
            self.session.inside -= 1


@ffi.callback("rille_live_fn")
def _ask(handle, out):
    live = ffi.from_handle(handle)
    return live.call(lambda: out.__setitem__(0, live.fn()))


@ffi.callback("void(void *)")
def _undo(handle):
    live = ffi.from_handle(handle)
    live.call(live.undo)


@ffi.callback("void(void *)")
def _drop(handle):
    _lives.pop(handle, None)


def live(fn, undo=None, integer=False):
    """Returns a live number: a compiled step calls fn at each of its calls to get the number's value.

    fn         function without arguments that returns a number
    undo       function that the session calls if the run that read the number fails
    integer    True: operators see an integer
    """
    if not callable(fn):
        raise TypeError(f"live: expected a function without arguments, found {fn!r}")
    session, cell = current(), ffi.new("struct rille_live **")
    if _known:
        _known[-1].calls_live(fn)
    numbers = _Numbers(session, fn, undo)
    check(lib.rille_live_new(session.at(), _ask, _drop, numbers.handle, cell))
    out = Live(session, cell)
    if undo:
        lib.rille_live_undo(out.pointer, _undo)
    if integer:
        lib.rille_live_whole(out.pointer)
    return out


# ---- nested results: tuples, lists and dictionaries of tensors ----


def flatten(who, value, tensors):
    """Appends the tensors of a result to a list. Returns a function that makes the result from an iterator of tensors."""
    if isinstance(value, Tensor):
        tensors.append(value)
        return next
    if value is None:
        return lambda it: None
    if isinstance(value, (tuple, list)):
        kind = getattr(value, "_make", type(value))  # constructor of a named tuple, tuple or list
        parts = [flatten(who, v, tensors) for v in value]
        return lambda it: kind([part(it) for part in parts])
    if isinstance(value, dict):
        parts = {name: flatten(who, v, tensors) for name, v in value.items()}
        return lambda it: {name: part(it) for name, part in parts.items()}
    raise TypeError(
        f"{who}: the function must return tensors, or lists or dicts of tensors, found {type(value).__name__}"
    )


def per_micro_batch(fn, *inputs):
    """Calls a function of a step whose operators may combine the rows of one micro-batch, such as a mean over rows.

    Other operators of a step with micro_batches cannot combine rows, because their results would differ from those
    of the batch. Results with as many rows as the micro-batch are concatenated; the mean is taken of others.

    fn        function of tensors that returns tensors, or lists or dicts of tensors
    inputs    arguments of fn
    returns   the result of fn
    """
    if not callable(fn):
        raise TypeError(f"per_micro_batch: expected a function, found {fn!r}")
    session, tensors = current().at(), []
    before = lib.rille_micro_batch_alone(session, True)
    try:
        out = fn(*inputs)
    finally:
        lib.rille_micro_batch_alone(session, before)
    flatten("per_micro_batch", out, tensors)
    for t in tensors:
        check(lib.rille_micro_batch_result(t.pointer))
    return out


# ---- steps ----

MOST = 64  # maximum number of traces of a step


class _Trace(Handle):
    """A trace of a step, for inputs of one type and layout. build: function that makes the step's result of tensors; places: the
    values besides the inputs for which the trace was made."""

    __slots__ = ("build", "places")
    free = lib.rille_graph_free


class Step:
    """A compiled step. Its calls accept tensors, and return what the function returned in the trace."""

    step_reads = ("fn",)

    def __init__(self, fn, given):
        self.fn, self.given, self.traces, self.known = fn, given, [], reads.Known()
        functools.update_wrapper(self, fn, updated=())
        o, _kept = options("graph", "rille_graph_options", given)
        check(lib.rille_graph_check(o))

    def __call__(self, *inputs, **named):
        if named:
            raise TypeError(f"graph: arguments of a step are passed by position, found {next(iter(named))}=")
        for k, x in enumerate(inputs, 1):
            if not isinstance(x, Tensor):
                raise TypeError(
                    f"graph: argument {k} must be a tensor, found {type(x).__name__}; other values are read by the function itself"
                )
        session, handles = current(), ffi.new("struct rille_tensor *[]", [x.pointer for x in inputs])
        session.at()
        if lib.rille_tracing(session.pointer):
            return self.fn(*inputs)
        trace = self.fitting(handles) or self.trace(session, handles)
        out = ffi.new("struct rille_tensor *[]", lib.rille_graph_results(trace.pointer))
        check(lib.rille_graph_run(trace.pointer, len(handles), handles, out))
        return trace.build(iter([Tensor.of(session, t) for t in out]))

    def fitting(self, handles):
        """Returns a trace that can be called with these inputs, or None. Forgets traces that can never be called again. The
        trace that was called last is the last one in self.traces."""
        self.traces = [t for t in self.traces if not t.session.closed and not lib.rille_graph_is_stale(t.pointer)]
        first = None
        for i in range(len(self.traces) - 1, -1, -1):
            trace = self.traces[i]
            if lib.rille_graph_fits(trace.pointer, len(handles), handles):
                change = trace.places.changed()
                if not change:
                    self.traces.append(self.traces.pop(i))
                    return trace
                first = first or change
        if first:
            self.known.count(*first)
        return None

    def trace(self, session, handles):
        """Returns a new trace. With micro-batches, calls the function with the whole batch first. Traces again if the first
        call of the function differs from the second, because it filled a cache."""
        for again in False, True:
            places = reads.Places(self.fn, self.known)
            failure = self.learn(session, handles, places)
            if failure and again:
                raise failure
            try:
                trace = self.record(session, handles, places)
            except Error:
                if again or not lib.rille_trace_differs(session.pointer):
                    raise
                continue
            if not failure:
                break
        self.traces.append(trace)
        del self.traces[:-MOST]
        return trace

    def call(self, session, pieces, places):
        """Calls the function in a trace."""
        _known.append(self.known)
        try:
            out = self.fn(*(Tensor.of(session, p) for p in pieces))
        finally:
            _known.pop()
        replaced = places.replaced()
        for _, _, old, name, new in replaced:
            if lib.rille_trace_carries(old.pointer, new.pointer):
                for holder, key, value, _, _ in replaced:
                    holder[key] = value
                session.at()
                raise Error(
                    f"graph: the step's function replaces the tensor '{name}', which it reads, by another one, and a compiled step "
                    f"does not repeat assignments of Python; write {name}.copy_(y), or return y and pass it as an argument",
                    line=session.shown(),
                )
        return out

    def learn(self, session, handles, places):
        """Calls the function with the whole batch, in a trace that is aborted, so that the library learns the numbers that depend
        on the number of rows. Puts back the values that the function changes. Returns the exception of the function, or None."""
        if (self.given.get("micro_batches") or 1) < 2:
            return None
        o, _kept = options("graph", "rille_graph_options", {})
        o.whole, pieces = True, ffi.new("struct rille_tensor *[]", len(handles))
        check(lib.rille_trace_begin(session.pointer, o, len(handles), handles, pieces))
        try:
            self.call(session, pieces, places)
            lib.rille_trace_returned(session.pointer)
        except Exception as e:
            return e
        finally:
            lib.rille_trace_abort(session.pointer)
            places.restore()

    def record(self, session, handles, places):
        """Calls the function once while the library records its calls."""
        o, _kept = options("graph", "rille_graph_options", self.given)
        pieces, tensors, cell = ffi.new("struct rille_tensor *[]", len(handles)), [], ffi.new("struct rille_graph **")
        check(lib.rille_trace_begin(session.pointer, o, len(handles), handles, pieces))
        try:
            build = flatten("graph", self.call(session, pieces, places), tensors)
            session.at()
            check(lib.rille_trace_end(session.pointer, len(tensors), [t.pointer for t in tensors], cell))
        except BaseException:
            lib.rille_trace_abort(session.pointer)
            raise
        trace = _Trace(session, cell)
        trace.build, trace.places = build, places
        places.settle(self.fn)
        for t in *self.traces, trace:
            t.places.keep(self.known.follows)
        return trace

    def explain(self):
        """Returns the layouts and the moves of the trace that was called last, as text."""
        if not self.traces:
            raise ValueError("explain: the step must have been called once")
        return explained(lib.rille_graph_explain, self.traces[-1].pointer)


def graph(fn=None, **given):
    """Returns a compiled step of a function of tensors, also as a decorator.

    The first call records the function's calls, gradients and updates; later calls with inputs of the same type and
    layout run the record. If a value that the function read has changed, such as a global, a variable of an outer function
    or an attribute, the call records again; rille.live(fn) is a number that each call asks for. A function that replaces a
    tensor that it reads is an error: t.copy_(y) changes the tensor in each call.

    fn             function of tensors that returns tensors, or lists or dicts of tensors
    micro_batches  number of micro-batches that the inputs are split into, default 1; numbers computed from x.shape[0] get
                   their values for the whole batch, for which fn is called once more
    schedule       "1f1b", "gpipe", "zb-v" or "auto", default "1f1b"
    auto_parallel  planner of layouts: "optimal", "propagate", "recursive" or "greedy"; default: no planner
    ...            other fields of struct rille_graph_options in rille.h
    """
    if fn is None:
        return lambda fn: Step(fn, given)
    if not callable(fn):
        raise TypeError(f"graph: expected a function, found {fn!r}")
    return Step(fn, given)
