/* table.h - every operator there is: the array that ops.def lists, and how to find one by name. Constant; any thread.
 */
#ifndef RILLE_KERNELS_OP_TABLE_H
#define RILLE_KERNELS_OP_TABLE_H

#include "runtime/op.h"

/* Sorted by name, ends with NULL. */
extern const struct op *const op_table[];
extern const int op_count;
/* NULL if there is none. */
const struct op *op_find(const char *name);

#endif
