"""DLPack: memory shared with other libraries, by Python capsules."""

import ctypes

import cffi

from .library import check, ffi, lib

CPU = 1  # device type kDLCPU
_py = ctypes.pythonapi
_py.PyCapsule_GetPointer.restype = ctypes.c_void_p
_py.PyCapsule_GetPointer.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
_py.PyCapsule_IsValid.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
_py.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
_py.PyCapsule_New.restype = ctypes.py_object
_Destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_py.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, _Destructor]

# The structs of dlpack.h (version 1), up to and including the deleter.
layouts = cffi.FFI()
layouts.cdef("""
struct plain { void *data; int32_t device_type, device_id, ndim; uint8_t code, bits; uint16_t lanes; int64_t *shape, *strides;
    uint64_t byte_offset; void *context; void (*deleter)(void *); };
struct versioned { uint32_t major, minor; void *context; void (*deleter)(void *); };
""")


class Form:
    """A struct of DLPack, with the names of its capsules and the functions of the library."""

    def __init__(self, name, struct, take, give):
        self.name, self.used = name, b"used_" + name
        self.struct, self.take, self.give = struct, take, give
        self.destructor = _Destructor(self.drop)

    def pointer(self, capsule):
        """Returns the address in a capsule; 0 if another library has taken the memory."""
        return _py.PyCapsule_GetPointer(capsule, self.name) if _py.PyCapsule_IsValid(capsule, self.name) else 0

    def drop(self, capsule):
        """Releases the memory of a capsule that no library has taken."""
        address = self.pointer(capsule)
        if address:
            m = layouts.cast(self.struct, address)
            m.deleter(m)


PLAIN = Form(b"dltensor", "struct plain *", lib.rille_from_dlpack, lib.rille_to_dlpack)
VERSIONED = Form(
    b"dltensor_versioned", "struct versioned *", lib.rille_from_dlpack_versioned, lib.rille_to_dlpack_versioned
)


def capsule(tensor, max_version):
    """Returns a capsule with the memory of a tensor, in the newest struct that the other library reads."""
    form = VERSIONED if max_version and max_version[0] >= 1 else PLAIN
    out = ffi.new(ffi.typeof(form.give).args[1])
    check(form.give(tensor, out))
    return _py.PyCapsule_New(int(ffi.cast("intptr_t", out[0])), form.name, form.destructor)


def take(session, array, cell):
    """Makes a leaf of an array that has the method __dlpack__."""
    if not hasattr(array, "__dlpack__"):
        raise TypeError(f"from_dlpack: expected an array with the method __dlpack__, found {type(array).__name__}")
    try:
        held = array.__dlpack__(max_version=(1, 0))
    except TypeError:  # a library that implements DLPack before version 1
        held = array.__dlpack__()
    form = next((f for f in (PLAIN, VERSIONED) if f.pointer(id(held))), None)
    if form is None:
        raise TypeError("from_dlpack: expected a new capsule of DLPack, found one that was used already")
    check(form.take(session, ffi.cast(ffi.typeof(form.take).args[1], form.pointer(id(held))), cell))
    _py.PyCapsule_SetName(held, form.used)
