/* call.h - calls of operators by public functions.
 *
 * Public functions pass operands and attributes in the types of rille.h. Owns nothing. Used only on the session's
 * thread. */
#ifndef RILLE_SESSION_CALL_H
#define RILLE_SESSION_CALL_H

#include "actors/session/core/session.h"

/* maximum number of operands of one call; a longer list is divided among several calls (op_rewrite.joins_with) */
enum { CALL_OPERANDS = 256 };

/* Returns the context of a call by the user, including the strategy that rille_strategy() set for that call. */
struct call_context call_context_of(const struct rille_session *s);
/* Calls an operator. `in`: array of CALL_OPERANDS entries that receives the operands as values. If a long list is
 * divided among several calls, receives the operands of the last call. */
int call_operator(const struct call_context *ctx, const struct op *op, int nargs, const struct rille_arg *args,
                  int nattrs, const struct rille_attr *attrs, struct val **in, int *nin, struct val **res);

#endif
