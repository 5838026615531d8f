/* table.h - the table of all operators, made from ops.def, and a lookup by name. Constant; any thread. */
#ifndef RILLE_KERNELS_OP_TABLE_H
#define RILLE_KERNELS_OP_TABLE_H

#include "runtime/graph/op.h"

/* Sorted by name, ends with NULL. */
extern const struct op *const op_table[];
extern const int op_count;
/* Returns NULL if no operator has this name. */
const struct op *op_find(const char *name);

#endif
