/* derive.h - the types and layouts of a call's results.
 *
 * The session owns the memo of derivations: (operator, attributes, operand types and layouts) -> results. Used
 * only on the session's thread. */
#ifndef RILLE_SESSION_DERIVE_H
#define RILLE_SESSION_DERIVE_H

#include "actors/session/core/call_context.h"

struct memo;
void memo_free(struct memo *m);

struct derived {
    size_t nkey;
    unsigned char *key;
    int32_t nin, nout;
    int64_t bytes; /* bytes that ranks receive to move the operands */
    int64_t price; /* price that the choice minimises: `bytes`, or for a planner the predicted time in ns */
    struct type type[OP_OUT];
    const struct layout *layout[OP_OUT];
    const struct layout **want; /* [nin] layouts in which the operator reads its operands */
};

/* Finds the types and layouts of a call's results (its derivation): returns those in the memo, or makes new ones
 * in `made`. made->want has room for nin layouts. */
int derive_call(const struct call_context *ctx, const struct op *op, int nin, struct val *const *in,
                const struct attr *attr, struct derived *made, const struct derived **out);
/* Returns the bytes that all ranks together receive for a move. arg: unused. */
int64_t price_move(void *arg, const struct type *t, const struct layout *from, const struct layout *to);

#endif
