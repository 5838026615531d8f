/* table.h - the table of all operators, made from ops.def, and a lookup by name. Constant; any thread. */
#ifndef RILLE_KERNELS_OP_TABLE_H
#define RILLE_KERNELS_OP_TABLE_H

#include "runtime/graph/op.h"

/* Records of all operators, sorted by name; the last entry is NULL. */
extern const struct op *const op_table[];
extern const int op_count;
/* Returns the record of an operator; NULL: no operator has this name. */
const struct op *op_find(const char *name);

#endif
