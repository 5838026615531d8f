/* split_propagation.h - propagates a strategy's splits through the operators inside a composite call.
 *
 * A strategy divides dimensions of the call's operands into pieces. The dimension rule of an operator names each
 * dimension by letters, as einsum does. An operator inside the call divides each letter into as many pieces as its
 * operands have along that letter (the maximum if they differ), and divides its results in the same way. Letters, not
 * sizes, determine the split: so the split is right in attention's two products and the softmax between them, even if
 * two sizes are equal by chance. If an operator cannot compute with a split dimension, its layouts are chosen freely.
 *
 * The struct lives during the call, in the session's scratch arena, on the session's thread. */
#ifndef RILLE_SESSION_SPLIT_PROPAGATION_H
#define RILLE_SESSION_SPLIT_PROPAGATION_H

#include "runtime/graph/graph.h"
#include "sbp/strategy.h"

struct split_propagation {
    /* number of the strategy's group; the same for all operators into which the call is expanded (strategy.h) */
    int32_t group;
    int32_t nval, capacity;
    struct split_propagation_val {
        const struct val *val;
        int32_t pieces[MAX_DIM];
    } * val; /* values with a known split */
};
/* Split of an operator inside the call. */
struct split_propagation_op {
    bool known; /* the split of at least one operand is known */
    struct strategy own;
    /* by result and dimension: number of pieces into which the dimension is divided */
    int32_t result[OP_OUT][MAX_DIM];
};

/* Initialises w with the splits of the call's operands, from the call's checked strategy. */
void split_propagation_begin(struct split_propagation *w, struct arena *a, const struct strategy *s, int nin,
                             struct val *const *in);
/* Finds the split of call c, and fills in the types of c's results. */
void split_propagation_operator(const struct split_propagation *w, struct arena *a, struct call *c,
                                struct val *const *in, struct split_propagation_op *out);
/* Records the split of the operator's results. */
void split_propagation_made(struct split_propagation *w, struct arena *a, const struct split_propagation_op *o,
                            int nout, struct val *const *out);

#endif
