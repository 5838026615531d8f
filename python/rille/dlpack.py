"""DLPack: memory shared with other libraries, by Python capsules."""

import ctypes

import cffi
import numpy as np

from .library import check, ffi, lib

CPU = 1  # device type kDLCPU
_py = ctypes.PyDLL(None)  # not ctypes.pythonapi, where other modules set the types of the same functions
for _function in (_py.PyCapsule_GetPointer, _py.PyCapsule_IsValid, _py.PyCapsule_SetName):
    _function.argtypes = [ctypes.py_object, ctypes.c_char_p]
_py.PyCapsule_GetPointer.restype = ctypes.c_void_p

# The structs of dlpack.h (version 1).
layouts = cffi.FFI()
layouts.cdef("""
struct tensor { void *data; int32_t device_type, device_id, ndim; uint8_t code, bits; uint16_t lanes; int64_t *shape, *strides;
    uint64_t byte_offset; };
struct plain { struct tensor tensor; void *context; void (*deleter)(void *); };
struct versioned { uint32_t major, minor; void *context; void (*deleter)(void *); uint64_t flags; struct tensor tensor; };
""")


class Form:
    """A struct of DLPack, with the names of its capsules and the function of the library that reads it."""

    def __init__(self, name, struct, take):
        self.name, self.used, self.struct, self.take = name, b"used_" + name, struct, take

    def pointer(self, capsule):
        """Returns the address in a capsule; 0 if another library has taken the memory."""
        return _py.PyCapsule_GetPointer(capsule, self.name) if _py.PyCapsule_IsValid(capsule, self.name) else 0


PLAIN = Form(b"dltensor", "struct plain *", lib.rille_from_dlpack)
VERSIONED = Form(b"dltensor_versioned", "struct versioned *", lib.rille_from_dlpack_versioned)
_versions = tuple(map(int, np.__version__.split(".")[:2])) >= (2, 1)  # NumPy makes versioned capsules


class Memory:
    """Memory that the library shares, as integers for numpy.asarray. Calls the library's deleter with its own end."""

    def __init__(self, shared, read_only):
        self.shared = layouts.gc(shared, shared.deleter)
        t = shared.tensor
        data = t.data or shared  # NumPy 1 refuses NULL, which an empty tensor has
        self.__array_interface__ = {
            "version": 3,
            "typestr": np.dtype(f"u{t.bits // 8}").str,
            "shape": tuple(t.shape[0 : t.ndim]),
            "data": (int(layouts.cast("intptr_t", data)), read_only),
        }


def capsule(tensor, max_version, copy):
    """Returns a capsule with the memory of a tensor, in the newest struct that the other library reads.

    NumPy makes the capsule of an array of integers, because the destructor of a capsule must be a C function. The capsule
    then gets the tensor's dtype, because NumPy lacks bf16.
    """
    out = ffi.new("struct DLManagedTensor **")
    check(lib.rille_to_dlpack(tensor, out))
    shared = layouts.cast("struct plain *", int(ffi.cast("intptr_t", out[0])))
    versioned = _versions and max_version is not None and max_version[0] >= 1
    array = np.asarray(Memory(shared, versioned))
    array = array.copy() if copy else array
    form, how = (VERSIONED, {"max_version": (1, 0)}) if versioned else (PLAIN, {})
    made = array.__dlpack__(**how)
    layouts.cast(form.struct, form.pointer(made)).tensor.code = shared.tensor.code
    return made


def take(session, array, cell):
    """Makes a leaf of an array that has the method __dlpack__."""
    if not hasattr(array, "__dlpack__"):
        raise TypeError(f"from_dlpack: expected an array with the method __dlpack__, found {type(array).__name__}")
    try:
        held = array.__dlpack__(max_version=(1, 0))
    except TypeError:  # a library that implements DLPack before version 1
        held = array.__dlpack__()
    form = next((f for f in (PLAIN, VERSIONED) if f.pointer(held)), None)
    if form is None:
        raise TypeError("from_dlpack: expected a new capsule of DLPack, found one that was used already")
    check(form.take(session, ffi.cast(ffi.typeof(form.take).args[1], form.pointer(held)), cell))
    _py.PyCapsule_SetName(held, form.used)
