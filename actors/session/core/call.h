/* call.h - calls of operators by public functions.
 *
 * A public function passes operands and attributes as they are in rille.h. Session's thread; nothing is owned. */
#ifndef RILLE_SESSION_CALL_H
#define RILLE_SESSION_CALL_H

#include "actors/session/core/session.h"

enum { CALL_OPERANDS = 256 }; /* limit for a list operand; longer lists are joined in parts */

/* Returns the context of a call by the user, with the strategy that rille_strategy() set for the call. */
struct call_context call_context_of(const struct rille_session *s);
/* Calls an operator. Collects the operands in `in`, which has room for CALL_OPERANDS. */
int call_operator(const struct call_context *ctx, const struct op *op, int nargs, const struct rille_arg *args,
                  int nattrs, const struct rille_attr *attrs, struct val **in, int *nin, struct val **res);

#endif
