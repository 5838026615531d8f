/* inside.h - how the operators are cut of which a call with a strategy is made.
 *
 * A strategy cuts the operands of its call. An operator that takes part in it cuts each letter of its rule into as many
 * pieces as its operands cut it, the most if they differ, and its results so. Thus two products and a softmax between
 * them are cut as attention's operands say, whatever shapes are equal by chance. One that needs whole what its operands
 * cut chooses for itself.
 *
 * It lives while the call is made, in the session's scratch arena; on its thread. */
#ifndef RILLE_SESSION_INSIDE_H
#define RILLE_SESSION_INSIDE_H

#include "runtime/graph.h"
#include "sbp/strategy.h"

struct inside {
    int32_t group; /* as strategy.h has it */
    int32_t nval, capacity;
    struct inside_val {
        const struct val *val;
        int32_t pieces[MAX_DIM];
    } * val; /* of which it is known how they are cut */
};
/* An operator inside. */
struct inside_op {
    bool known; /* some operand is */
    struct strategy own;
    int32_t result[OP_OUT][MAX_DIM]; /* pieces */
};

/* The call's operands are cut as its strategy says, which was checked. */
void inside_begin(struct inside *w, struct arena *a, const struct strategy *s, int nin, struct val *const *in);
/* How call c is cut, whose types of results it fills. */
void inside_operator(const struct inside *w, struct arena *a, struct call *c, struct val *const *in,
                     struct inside_op *out);
/* What it gave is cut so. */
void inside_made(struct inside *w, struct arena *a, const struct inside_op *o, int nout, struct val *const *out);

#endif
