/* npy.h - NumPy's .npy, versions 1 to 3: one unnamed tensor.
 *
 * The reader rejects a header that does not parse, that needs more bytes than the file has, or whose dtype Rille
 * lacks. Reading swaps big-endian values and transposes Fortran order. The caller owns the result; one thread at a
 * time. */
#ifndef RILLE_RUNTIME_FILE_NPY_H
#define RILLE_RUNTIME_FILE_NPY_H

#include "runtime/file/disk/save.h"
#include "runtime/file/tensors.h"

enum { NPY_HEAD = (1 << 16) + 12 }; /* maximum number of bytes of a header */

/* Parses the header from the first n bytes of an .npy file. Sets type, swap and fortran of e, and *head_bytes. If
 * Rille lacks the dtype, sets the dtype DT_NONE, and stores the dtype's name from the file in arena a. */
int npy_head(const char *name, const void *bytes, size_t n, struct arena *a, struct entry *e, size_t *head_bytes);
int npy_save(const char *path, const struct save_item *item);

#endif
