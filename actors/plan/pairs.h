/* pairs.h - what moves from one layout to another cost, each reckoned once for all tensors of a type.
 *
 * A planner asks for tables of all layouts in which somebody gives a tensor by all in which others want it. Tables
 * differ while most of their pairs are the same. A value of one planner and its thread. */
#ifndef RILLE_PLAN_PAIRS_H
#define RILLE_PLAN_PAIRS_H

#include "actors/plan/assign.h"

struct pair { /* costs + 1; 0: nobody asked yet */
    int64_t costs, sends;
};
struct pair_row { /* from one layout, by the number of the other */
    const struct pair_type *type;
    const struct layout *from;
    struct pair *pair;
    int32_t n;
};
struct pairs {
    struct arena *arena;
    const struct assign_prices *prices;
    struct pair_type *type;
    int32_t *number; /* by a layout's number in the atlas: from 1, in the order in which they were asked for */
    int32_t nnumber, n;
};

/* What prices says, which p borrows; memory comes from a. */
void pairs_begin(struct pairs *p, struct arena *a, const struct assign_prices *prices);
/* Moves of type t from a layout; asked: as assign_price() has it. */
struct pair_row *pairs_from(struct pairs *p, const struct type *t, bool asked, const struct layout *from);
/* As assign_price_part() says. */
int64_t pairs_price(struct pairs *p, struct pair_row *r, const struct layout *to, int64_t part, int64_t *bytes);

#endif
