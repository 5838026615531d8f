/* dlpack.h - tensors that are shared with other libraries, in the structs of the DLPack specification (versions 0 and
 * 1, https://dmlc.github.io/dlpack).
 *
 * An import is a leaf whose buffer wraps the other library's memory (buffer_wrap). An export holds a buffer of a value
 * until the other library calls the deleter, on any thread and at any time. While the session is open, the deleter only
 * marks the export, and the session's thread drops the buffer later. When the session closes, its pools stay until the
 * last deleter. One lock of the process guards exports. An export may hold imported memory, whose release function may
 * be the deleter of another export. */
#ifndef RILLE_SESSION_DLPACK_H
#define RILLE_SESSION_DLPACK_H

#include <stdbool.h>
#include <stdint.h>

enum { DLPACK_MAJOR = 1, DLPACK_CPU = 1 };
enum { DLPACK_INT = 0, DLPACK_UINT = 1, DLPACK_FLOAT = 2, DLPACK_BFLOAT = 4, DLPACK_BOOL = 6 };
enum { DLPACK_READ_ONLY = 1, DLPACK_IS_COPIED = 2 };
struct dlpack_tensor {
    void *data;
    int32_t device_type, device;
    int32_t ndim;
    uint8_t code, bits; /* dtype: kind and bits of a number */
    uint16_t lanes;
    int64_t *shape, *strides; /* strides: in elements; NULL: dense and row-major */
    uint64_t byte_offset;
};
struct DLManagedTensor {
    struct dlpack_tensor tensor;
    void *manager;
    void (*deleter)(struct DLManagedTensor *self);
};
struct DLManagedTensorVersioned {
    uint32_t major, minor;
    void *manager;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags;
    struct dlpack_tensor tensor;
};

struct rille_session;
/* Returns true if exports hold buffers of the session: its pools must then stay (pool_leave). */
bool dlpack_holds(struct rille_session *s);
/* Keeps the session's exports until other libraries call their deleters. Call it when the session has left its pools,
 * because from then on any thread may free their last buffers. */
void dlpack_close(struct rille_session *s);

#endif
