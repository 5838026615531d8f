/* strategy.h - strategies: the user's request of how many pieces each dimension of each operand is split into.
 *
 * MindSpore specifies sharding in this way. A strategy names no mesh axes. It allows every signature in which the
 * sizes of the mesh axes that split a dimension multiply to the requested number. Pure, any thread. */
#ifndef RILLE_SBP_STRATEGY_H
#define RILLE_SBP_STRATEGY_H

#include "sbp/sig.h"

enum { STRATEGY_OPERAND = 8 };
struct strategy {
    int32_t group;    /* number shared by the operators of one call; 0: the call has a single operator */
    int32_t noperand; /* number of the call's operands that are tensors, in order */
    int32_t naxis[STRATEGY_OPERAND];
    int32_t pieces[STRATEGY_OPERAND][MAX_DIM];
};

/* Returns true if both strategies request the same numbers of pieces. NULL: a strategy that requests nothing. */
bool strategy_same(const struct strategy *x, const struct strategy *y);
/* Checks a strategy. E_SBP: the strategy lacks a list for some tensor, or a number for some dimension, or has too
 * many. */
int strategy_check(const struct strategy *s, const struct call *c);
/* Returns true if operands with these layouts (NULL: a number, or absent) have the requested pieces. */
bool strategy_fits(const struct strategy *s, const struct call *c, const struct layout *const *layout);
/* Finds the layout with these pieces, on the placement of `from`, that is cheapest to reach; NULL: there is none. */
int strategy_layout(struct atlas *at, const struct type *t, const struct layout *from, const int32_t *pieces,
                    sig_price_fn *price, const struct layout **out);
/* Fails with E_SBP because no signature on this placement fits the strategy. */
int strategy_fail(const struct strategy *s, const struct call *c, const struct place *p);

#endif
