/* debt.h - pending reductions: the future cost of a call's partial results. Belongs to the search and its thread. */
#ifndef RILLE_SBP_DEBT_H
#define RILLE_SBP_DEBT_H

#include "sbp/search.h"

enum { NDEBT = 64 };
/* A pending reduction: the price of converting a partial layout to B or S on these axes (as bits). */
struct debt {
    const struct type *type;
    const struct layout *layout;
    uint32_t axes;
    int64_t bytes;
};

/* Fills in the fields `may`, `forced` and `debt` of s. Call after the rest of search_init(). */
void debt_init(struct search *s);
/* Returns the bytes of pending reductions that the call adds at a point. INT64_MAX: no move can reduce a result. */
int64_t point_owes(const struct search *s, const struct point *p);

#endif
