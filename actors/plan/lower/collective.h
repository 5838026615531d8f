/* collective.h - lowers a move to a library collective. Thread of plan_compile(). */
#ifndef RILLE_ACTORS_PLAN_LOWER_COLLECTIVE_H
#define RILLE_ACTORS_PLAN_LOWER_COLLECTIVE_H

#include "actors/plan/lower/lower.h"

/* Makes the local tasks of a library collective. *done: false if the device kind's library has no
 * collective that performs the move. */
int collective_parts(struct lower *l, struct plan_move *move, const struct redistribution *x, struct pval *from,
                     struct pval *to, bool *done);

#endif
