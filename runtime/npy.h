/* npy.h - tensors in files: NumPy's .npy, versions 1 to 3.
 *
 * What is read is checked before it is believed: a header that does not parse,
 * that promises more than the file holds, or that names a dtype Rille lacks is
 * E_IO (E_DTYPE for the dtype), naming the path. Big-endian files are swapped,
 * Fortran order is transposed. Files are written beside their name and renamed,
 * so that a reader sees the old file or the new one. */
#ifndef RILLE_RUNTIME_NPY_H
#define RILLE_RUNTIME_NPY_H

#include "runtime/type.h"

/* The dense row-major value; *data is the caller's to free(). */
int npy_read(const char *path, struct type *t, void **data);
/* The same from bytes in memory; name is for messages. */
int npy_parse(const char *name, const void *bytes, size_t nbytes, struct type *t, void **data);
/* bf16, which NumPy lacks, is written as f32. */
int npy_write(const char *path, const struct type *t, const void *data);

#endif
