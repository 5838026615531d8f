/* strategy.h - how often a layout cuts each axis of each operand of a call: a constraint on its signature.
 *
 * It is MindSpore's way to say how to split an operator. It names no mesh axes: it allows every signature whose axes
 * multiply to these numbers. Pure, any thread. */
#ifndef RILLE_SBP_STRATEGY_H
#define RILLE_SBP_STRATEGY_H

#include "runtime/op.h"

enum { STRATEGY_OPERAND = 8 };
struct strategy {
    int32_t noperand; /* tensors among the operands, in order */
    int32_t naxis[STRATEGY_OPERAND];
    int32_t pieces[STRATEGY_OPERAND][MAX_DIM];
};

/* E_SBP: not one list for each tensor, or not one number for each of its axes. */
int strategy_check(const struct strategy *s, const struct call *c);
/* Do operands that lie so (NULL: numbers, absent) have this many pieces? */
bool strategy_fits(const struct strategy *s, const struct call *c, const struct layout *const *layout);
/* E_SBP: no signature on this placement fits. */
int strategy_fail(const struct strategy *s, const struct call *c, const struct place *p);

#endif
