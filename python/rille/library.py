"""The C library: reads rille.h, loads librille.so, and turns error codes into exceptions.

rille.h next to this file is the header of the library. In the source tree it is a link, in a wheel a copy. So Python sees
every function and struct of the header, without a list of its own.
"""

import numbers
import os
import pathlib
import re

import cffi

from .words import spoken

ffi = cffi.FFI()
_memory = cffi.FFI()
_memory.cdef("void free(void *);")
_libc = _memory.dlopen(None)


def declarations(header):
    """Returns the declarations of the header, without the lines for the preprocessor."""
    header = re.sub(r"#ifdef __cplusplus\n.*?#endif", "", header, flags=re.S)
    return re.sub(r"^#.*$", "", header, flags=re.M)


def dlopen(path):
    """Loads the library so that idle threads of oneDNN sleep. OpenMP reads the environment when it is loaded."""
    quiet = not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys()
    if quiet:
        os.environ["OMP_WAIT_POLICY"] = "passive"
    try:
        return ffi.dlopen(path)
    finally:
        if quiet:
            del os.environ["OMP_WAIT_POLICY"]


def load(path):
    """Loads the library, and checks that it has the version of the header."""
    header = pathlib.Path(__file__).with_name("rille.h").read_text()
    expected = re.search(r'#define RILLE_VERSION "(.*)"', header)[1]
    ffi.cdef(declarations(header))
    try:
        library = dlopen(path)
    except OSError as e:
        raise ImportError(f"{e}; set RILLE_LIBRARY to the path of librille.so") from None
    found = text(library.rille_version())
    if found.split(".")[:2] != expected.split(".")[:2] or library.rille_version_number() < number(expected):
        raise ImportError(f"{path} must have the package's version {expected} or a later patch of it, found {found}")
    return library


def number(version):
    """Returns the number of a version, as RILLE_VERSION_NUMBER."""
    major, minor, patch = map(int, version.split("."))
    return 1000000 * major + 1000 * minor + patch


def text(chars):
    """Returns a C string as str; None for NULL."""
    return ffi.string(chars).decode(errors="replace") if chars else None


def owned_text(chars):
    """Returns a C string as str, and frees the C string."""
    try:
        return text(chars)
    finally:
        _libc.free(chars)


lib = load(os.environ.get("RILLE_LIBRARY") or "librille.so.0")


files = set()  # names of the files whose lines the library knows (rille_at)


class Error(Exception):
    """An error of the library. kind: the error in words ("shapes do not fit"); line: "file:line" of the operator's call, or ""."""

    def __init__(self, message, kind="", line=""):
        # The text of an error of data begins with the line of the operator; `line` is that of the call that computed it.
        own = re.match(r"((.+?):\d+): ", message)
        own = own if own and own[2] in files else None
        if own and line:
            message += "" if own[1] == line else f" (needed at {line})"
        elif line:
            message = f"{line}: {message}"
        super().__init__(message)
        self.kind, self.line = kind, own[1] if own else line


raised = []  # exception of a Python function that the library called, if any


def error():
    """Returns the library's last error as an exception."""
    e = Error(spoken(text(lib.rille_error())), text(lib.rille_error_kind()), text(lib.rille_error_line()))
    if raised:
        e.__cause__ = raised.pop()
    return e


def check(status):
    """Raises the library's last error if the status is not 0."""
    if status:
        raise error()


def c_text(value):
    """Returns a str as a C string. Raises a TypeError or ValueError if no C string has this value."""
    if not isinstance(value, str):
        raise TypeError(f"expected a str, found {value!r}")
    if "\0" in value:
        raise ValueError(f"a text must not have a character of value 0, found {value!r}")
    return ffi.new("char[]", value.encode())


def integer(who, name, value, least=0, most=2**63 - 1):
    """Checks that an argument is an integer within limits, and returns it."""
    if isinstance(value, numbers.Integral) and least <= value <= most:
        return int(value)
    raise TypeError(f"{who}: {name} must be an integer from {least} to {most}, found {value!r}")


def expected(kind):
    """Describes the values that an option of this C type accepts, for messages."""
    words = {"char *": "a string", "double": "a number", "_Bool": "True or False"}
    return words.get(kind.cname, "an object of this package" if kind.kind == "pointer" else "an integer of at least 0")


def options(who, struct, values):
    """Makes a struct of options from a dict: name of a field -> value. Also returns a list to keep as long as the struct is used."""
    fields = {
        name: field.type for name, field in ffi.typeof(f"struct {struct}").fields if name not in ("size", "whole")
    }
    out, kept = ffi.new(f"struct {struct} *"), []
    out.size = ffi.sizeof(out[0])
    for name, value in values.items():
        if name not in fields:
            raise TypeError(f"{who}: unknown option '{name}'; expected one of: {', '.join(fields)}")
        if value is None:
            continue
        kind, value = fields[name], getattr(value, "c_pointer", value)
        try:
            if kind.cname == "char *":
                kept.append(c_text(value))
                value = kept[-1]
            elif kind.kind == "pointer" and (not isinstance(value, ffi.CData) or ffi.typeof(value) is not kind):
                raise TypeError
            setattr(out, name, value)
        except (TypeError, ValueError, OverflowError):
            raise TypeError(f"{who}: {name} must be {expected(kind)}, found {values[name]!r}") from None
    return out, kept
