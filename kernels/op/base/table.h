/* table.h - the table of all operators: the built-in ones, made from ops.def, and those that a program loads.
 *
 * A loaded operator stays for the life of the process. Any thread may look operators up; one thread at a time adds
 * operators. */
#ifndef RILLE_KERNELS_OP_BASE_TABLE_H
#define RILLE_KERNELS_OP_BASE_TABLE_H

#include "runtime/graph/op.h"

/* Records of all built-in operators, sorted by name; the last entry is NULL. */
extern const struct op *const op_table[];
extern const int op_count;
/* Returns the record of an operator; NULL: no operator has this name. */
const struct op *op_find(const char *name);
/* Returns the i-th operator: built-in ones by name, then loaded ones in the order of loading; NULL: there are at most
 * i operators. */
const struct op *op_at(int i);
/* Adds a record that lives as long as the process and has a new name. At most OP_LOADED records. */
enum { OP_LOADED = 256 };
void op_register(const struct op *op);

#endif
