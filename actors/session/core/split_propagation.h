/* split_propagation.h - propagates a strategy's splits through the operators inside a composite call.
 *
 * A strategy splits the operands of the call into pieces. An operator inside the call splits each letter of its rule
 * into as many pieces as its operands do (the maximum if they differ), and its results likewise. Thus attention's
 * two products and the softmax between them are split as the operands say, even if sizes are equal by chance. An
 * operator that needs a split dimension unsplit chooses its layouts freely.
 *
 * The struct lives while the call is made, in the session's scratch arena, on the session's thread. */
#ifndef RILLE_SESSION_SPLIT_PROPAGATION_H
#define RILLE_SESSION_SPLIT_PROPAGATION_H

#include "runtime/graph/graph.h"
#include "sbp/strategy.h"

struct split_propagation {
    int32_t group; /* group number, as in strategy.h */
    int32_t nval, capacity;
    struct split_propagation_val {
        const struct val *val;
        int32_t pieces[MAX_DIM];
    } * val; /* values with a known split */
};
/* Split of an operator inside the call. */
struct split_propagation_op {
    bool known; /* the split of an operand is known */
    struct strategy own;
    int32_t result[OP_OUT][MAX_DIM]; /* pieces by result and dimension */
};

/* Begins with the call's operands, split as its (checked) strategy says. */
void split_propagation_begin(struct split_propagation *w, struct arena *a, const struct strategy *s, int nin,
                             struct val *const *in);
/* Finds the split of call c, and fills c's result types. */
void split_propagation_operator(const struct split_propagation *w, struct arena *a, struct call *c,
                                struct val *const *in, struct split_propagation_op *out);
/* Records the split of the operator's results. */
void split_propagation_made(struct split_propagation *w, struct arena *a, const struct split_propagation_op *o,
                            int nout, struct val *const *out);

#endif
