"""The session: devices and threads of this process, handles of the library, and the Python line of a call.

A process has one session at a time. The session belongs to the thread that called open() or, later, adopt().
"""

import atexit
import collections
import os
import sys
import threading

from .library import Error, check, ffi, files, integer, lib, options, raised

_home = os.path.dirname(os.path.abspath(__file__)) + os.sep


class Session:
    """A session of the library. dead: handles that wait until the session's thread frees them."""

    def __init__(self, **given):
        out = ffi.new("struct rille_session **")
        o, self.kept = options("open", "rille_options", given)
        check(lib.rille_open(o, out))
        self.cell, self.thread = out, threading.get_ident()
        self.closed = self.forked = False
        self.inside = 0  # number of nested Python functions that the library is calling at present
        self.dead, self.line = collections.deque(), None

    @property
    def pointer(self):
        """Returns the C session. Raises an error if the session is closed, was opened before a fork, or is another thread's."""
        if self.usable:
            return self.cell[0]
        if self.closed:
            raise Error("rille: the session is closed; tensors and steps of a closed session cannot be used")
        if self.forked:
            check(lib.rille_wait(self.cell[0]))
        raise Error("rille: the session belongs to another thread; call rille.adopt() in this thread first")

    @property
    def usable(self):
        """Returns True if the calling thread may use the session."""
        return self.thread == threading.get_ident() and not self.closed and not self.forked

    def release(self, free, cell):
        """Frees a handle: now on the session's thread, else in a later call of that thread."""
        if self.closed or self.forked:
            return
        self.dead.append((free, cell))
        if threading.get_ident() == self.thread and not self.inside:
            self.sweep()

    def sweep(self):
        """Frees the handles in the queue."""
        while self.dead:
            free, cell = self.dead.popleft()
            free(cell)

    def at(self):
        """Reports to the library the line of the user's program that makes the next call; returns the C session."""
        pointer = self.pointer
        if not self.inside:
            raised.clear()
            self.sweep()
        frame = sys._getframe(1)
        while frame.f_back and frame.f_code.co_filename.startswith(_home):
            frame = frame.f_back
        line = (frame.f_code.co_filename, frame.f_lineno)
        if line != self.line:
            self.line = line
            lib.rille_at(pointer, _shown(line[0]), line[1], ffi.NULL, 0)
        return pointer

    def shown(self):
        """Returns the line of the call in progress as errors show it."""
        return f"{_shown(self.line[0]).decode()}:{self.line[1]}"

    def close(self):
        """Closes the session. The library frees the handles that are left."""
        if self.closed or self.forked:
            return
        if threading.get_ident() != self.thread:
            lib.rille_adopt(self.cell[0])
        self.sweep()
        lib.rille_close(self.cell)
        self.closed = True


_names = {}  # file names as errors show them


def _shown(file):
    """Returns the file name for errors: relative to the current folder if the file is below it; "In[3]" for a notebook's cell."""
    if file not in _names:
        here, cells = os.getcwd() + os.sep, getattr(getattr(_notebook(), "compile", None), "_filename_map", {})
        name = f"In[{cells[file]}]" if file in cells else file[len(here) :] if file.startswith(here) else file
        files.add(name)
        _names[file] = name.encode(errors="replace")
    return _names[file]


def _notebook():
    """Returns the shell of IPython that runs the program, or None."""
    ipython = sys.modules.get("IPython")
    return ipython and ipython.get_ipython()


class Handle:
    """A handle of the library, which is freed with the Python object. free: the function of rille.h that frees it."""

    __slots__ = ("session", "cell", "__weakref__")
    free = None

    def __init__(self, session, cell):
        self.session, self.cell = session, cell

    @property
    def pointer(self):
        """Returns the C handle. Raises an error if its session cannot be used."""
        if not self.session.usable:
            self.session.pointer  # raises
        return self.cell[0]

    def __reduce__(self):
        raise TypeError(f"a {type(self).__name__} cannot be copied or pickled; t.numpy() is the value of a tensor")

    def __del__(self):
        if hasattr(self, "cell"):
            self.session.release(self.free, self.cell)


_session = None


def current():
    """Returns the session; if necessary, opens a session with the devices that RILLE_DEVICES lists."""
    if _session is None or _session.closed:
        open(devices=os.environ.get("RILLE_DEVICES"))
    return _session


def open(**given):
    """Opens the session. Without a call of open(), the first call of another function opens the session.

    devices    devices such as "cpu:8", "cpu:2,cuda:2"; default: cpu:8, or one per core if there are more cores
    seed       seed of random values, default 0
    ...        other fields of struct rille_options in rille.h
    returns    None
    errors     a session is open already; an invalid option
    """
    global _session
    if _session is not None and not _session.closed and not _session.forked:
        raise Error("open: a session is open already; call rille.close() first, or open before the first tensor")
    _session = Session(**given)


def close():
    """Closes the session. Its tensors and steps cannot be used after that. The end of Python closes the session, too."""
    if _session is not None:
        _session.close()


def adopt():
    """Hands the session over to the calling thread. The previous thread must have left its last call."""
    session = current()
    check(lib.rille_adopt(session.cell[0]))
    session.thread = threading.get_ident()


def seed(number):
    """Sets the seed of random values, and begins their sequence again."""
    lib.rille_seed(current().pointer, integer("seed", "number", number, most=2**64 - 1))


def wait():
    """Waits until the work of all runs is complete, and raises its error, if any."""
    check(lib.rille_wait(current().at()))


def _mark_forked():
    if _session is not None:
        _session.forked = True


os.register_at_fork(after_in_child=_mark_forked)
atexit.register(close)
