/* move_table.h - memoised costs of moves between two layouts, by tensor type.
 *
 * A planner needs tables of all source layouts of a tensor by all layouts that its readers request. Tables differ,
 * but most of their pairs recur. A planner owns its struct pairs; one thread. */
#ifndef RILLE_PLAN_MOVE_TABLE_H
#define RILLE_PLAN_MOVE_TABLE_H

#include "actors/plan/assign/assign.h"

struct pair { /* costs: 1 + cost; 0: not computed yet */
    int64_t costs, sends;
};
struct pair_row { /* one source layout; pairs by number of the destination */
    const struct pair_type *type;
    const struct layout *from;
    struct pair *pair;
    int32_t n;
};
struct pairs {
    struct arena *arena;
    const struct assign_prices *prices;
    struct pair_type *type;
    int32_t *number; /* by atlas id of a layout: its number, from 1, in the order of first use */
    int32_t nnumber, n;
};

/* Starts an empty table with costs from `prices`, which must outlive it; memory comes from a. */
void move_table_begin(struct pairs *p, struct arena *a, const struct assign_prices *prices);
/* Returns the row of moves of type t from a layout. asked: as in assign_price(). */
struct pair_row *move_table_from(struct pairs *p, const struct type *t, bool asked, const struct layout *from);
/* Returns the cost of a move, as assign_price_part() does. */
int64_t move_table_price(struct pairs *p, struct pair_row *r, const struct layout *to, int64_t part, int64_t *bytes);

#endif
