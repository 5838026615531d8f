/* explain_op.h - prints the record of one operator. Pure. */
#ifndef RILLE_SESSION_EXPLAIN_OP_H
#define RILLE_SESSION_EXPLAIN_OP_H

#include "rille.h"
#include "runtime/data/str.h"

/* Prints the record of one operator in a few lines. */
void explain_op_print(struct str *s, const struct rille_explain_op *op);

#endif
