/* strategy.h - how often a layout cuts each axis of each operand of a call: a constraint on its signature.
 *
 * It is MindSpore's way to say how to split an operator. It names no mesh axes: it allows every signature whose axes
 * multiply to these numbers. Pure, any thread. */
#ifndef RILLE_SBP_STRATEGY_H
#define RILLE_SBP_STRATEGY_H

#include "sbp/sig.h"

enum { STRATEGY_OPERAND = 8 };
struct strategy {
    int32_t group;    /* operators of which one call is made have one number; 0: it is its call's only one */
    int32_t noperand; /* tensors among the operands, in order */
    int32_t naxis[STRATEGY_OPERAND];
    int32_t pieces[STRATEGY_OPERAND][MAX_DIM];
};

/* Do both ask for the same pieces? NULL asks for none. */
bool strategy_same(const struct strategy *x, const struct strategy *y);
/* E_SBP: not one list for each tensor, or not one number for each of its axes. */
int strategy_check(const struct strategy *s, const struct call *c);
/* Do operands that lie so (NULL: numbers, absent) have this many pieces? */
bool strategy_fits(const struct strategy *s, const struct call *c, const struct layout *const *layout);
/* The layout on the placement of `from` that cuts a tensor into these pieces and takes the least to come to; NULL:
 * there is none. */
int strategy_layout(struct atlas *at, const struct type *t, const struct layout *from, const int32_t *pieces,
                    sig_price_fn *price, const struct layout **out);
/* E_SBP: no signature on this placement fits. */
int strategy_fail(const struct strategy *s, const struct call *c, const struct place *p);

#endif
