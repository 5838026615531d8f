/* move_table.h - memoised costs of moves between two layouts, by tensor type.
 *
 * For each tensor, a planner needs a table of costs from all its source layouts to all layouts that its readers
 * request. The tables of two tensors differ, but most layout pairs occur in both. A planner owns its struct pairs;
 * one thread. */
#ifndef RILLE_PLAN_MOVE_TABLE_H
#define RILLE_PLAN_MOVE_TABLE_H

#include "actors/plan/assign/assign.h"

struct pair { /* cost and bytes of a move, stored as 1 + value; 0: not computed yet */
    int64_t costs, sends;
};
struct pair_row { /* moves from one source layout, indexed by number of the destination layout */
    const struct pair_type *type;
    const struct layout *from;
    struct pair *pair;
    int32_t n;
};
struct pairs {
    struct arena *arena;
    const struct assign_prices *prices;
    struct pair_type *type;
    int32_t *number; /* by atlas id of a layout: its number in the tables, from 1, in order of first use */
    int32_t nnumber, n;
};

/* Starts an empty table with costs from `prices`, which must outlive it; memory comes from a. */
void move_table_begin(struct pairs *p, struct arena *a, const struct assign_prices *prices);
/* Returns the table row of moves that a tensor of type t makes from a layout. asked: as in assign_price(). */
struct pair_row *move_table_from(struct pairs *p, const struct type *t, bool asked, const struct layout *from);
/* Returns the cost of a move, as assign_price_part() does. */
int64_t move_table_price(struct pairs *p, struct pair_row *r, const struct layout *to, int64_t part, int64_t *bytes);

#endif
