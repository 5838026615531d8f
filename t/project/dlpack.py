"""dlpack.py path/to/librille.so - tests that NumPy and Rille share tensors by DLPack, without a copy in both directions."""

import ctypes
import sys

import numpy as np

P = ctypes.c_void_p
lib = ctypes.CDLL(sys.argv[1])
lib.rille_error.restype = ctypes.c_char_p
py = ctypes.pythonapi
py.PyCapsule_GetPointer.restype = P
py.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
py.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
py.PyCapsule_New.restype = ctypes.py_object
py.PyCapsule_New.argtypes = [P, ctypes.c_char_p, P]


def check(status):
    if status:
        sys.exit(lib.rille_error().decode())


def from_numpy(session, array):
    """Returns a tensor that owns the capsule of the array."""
    capsule, tensor = array.__dlpack__(), P()
    check(lib.rille_from_dlpack(session, P(py.PyCapsule_GetPointer(capsule, b"dltensor")), ctypes.byref(tensor)))
    py.PyCapsule_SetName(capsule, b"used_dltensor")
    return tensor


class Exported:
    """A tensor of Rille, as numpy.from_dlpack expects it."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **_):
        m = P()
        check(lib.rille_to_dlpack(self.tensor, ctypes.byref(m)))
        return py.PyCapsule_New(m, b"dltensor", None)


def aligned(shape, dtype):
    """Returns an array of zeros at an address that is a multiple of 64."""
    count = int(np.prod(shape))
    room = np.zeros(count * np.dtype(dtype).itemsize + 64, dtype=np.uint8)
    skip = -room.ctypes.data % 64
    return room[skip : skip + count * np.dtype(dtype).itemsize].view(dtype).reshape(shape)


session = P()
check(lib.rille_open(None, ctypes.byref(session)))
kept = []
for dtype in (np.float32, np.float64, np.float16, np.int32, np.int64, np.uint8):
    for view in (lambda a: a, lambda a: a.T, lambda a: a[::2, ::-1], lambda a: a[1:1]):
        whole = aligned((4, 6), dtype)
        whole[...] = np.arange(24).reshape(4, 6)
        array = view(whole)
        tensor = from_numpy(session, array)
        back = np.from_dlpack(Exported(tensor))
        assert back.dtype == array.dtype and np.array_equal(back, array), (dtype, array, back)
        shared = array.flags.c_contiguous and array.size > 0
        assert (back.ctypes.data == array.ctypes.data) == shared, (dtype, array.strides)
        lib.rille_tensor_free(ctypes.byref(tensor))
        kept.append((back, array.copy()))
        del back
check(lib.rille_close(ctypes.byref(session)))
assert all(np.array_equal(back, want) for back, want in kept), "an export is valid after the session has closed"
