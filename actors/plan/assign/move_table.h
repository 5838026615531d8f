/* move_table.h - memoised costs of moves between two layouts, by tensor type.
 *
 * For each tensor, a planner needs the cost of a move from every layout of the maker to every layout of a reader.
 * Most pairs of layouts occur for many tensors, so each pair is computed once per tensor type. A planner owns its
 * struct pairs; one thread. */
#ifndef RILLE_PLAN_MOVE_TABLE_H
#define RILLE_PLAN_MOVE_TABLE_H

#include "actors/plan/assign/assign.h"

struct pair { /* Cost (ns) and bytes of a move, each stored as 1 + its value; 0: not computed yet. */
    int64_t costs, sends;
};
struct pair_row { /* Moves from one source layout, by number of the destination layout. */
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

/* Starts an empty table in arena a. prices: cost model, which must outlive the table. */
void move_table_begin(struct pairs *p, struct arena *a, const struct assign_prices *prices);
/* Returns the row for moves of a tensor type from one layout. asked: as in assign_price(). */
struct pair_row *move_table_from(struct pairs *p, const struct type *t, bool asked, const struct layout *from);
/* Returns the cost of a move, as assign_price_part() does. */
int64_t move_table_price(struct pairs *p, struct pair_row *r, const struct layout *to, int64_t part, int64_t *bytes);

#endif
