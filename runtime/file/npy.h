/* npy.h - NumPy's .npy, versions 1 to 3: one tensor, without a name.
 *
 * A reader refuses a head that does not parse, that promises more than the file holds, or that names a dtype Rille
 * lacks. It swaps big-endian values and transposes Fortran order when it reads them. The caller owns what it reads; one
 * thread at a time. */
#ifndef RILLE_RUNTIME_FILE_NPY_H
#define RILLE_RUNTIME_FILE_NPY_H

#include "runtime/file/save.h"
#include "runtime/file/tensors.h"

enum { NPY_HEAD = (1 << 16) + 12 }; /* no head is longer */

/* The head of an .npy file in the first n bytes of it: type and order of e, and how long it is. A dtype that Rille
 * lacks is DT_NONE; what it is called is kept in a. */
int npy_head(const char *name, const void *bytes, size_t n, struct arena *a, struct entry *e, size_t *head_bytes);
int npy_save(const char *path, const struct save_item *item);

#endif
