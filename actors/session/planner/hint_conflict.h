/* hint_conflict.h - finds conflicts of hints in a step planned by "propagate": moves between layouts that stem from
 * different hints.
 *
 * A hint is a node with a single layout: a placed argument or variable, an explicit to_global or strategy, an
 * operator with one candidate, a result with a fixed layout. All other nodes get their layouts from a hint, by way
 * of other nodes (net_follows). Two hints meet at a move if the value's layout stems from one hint and the reader's
 * from the other; the cost of the conflict is that move. One owner, one thread. */
#ifndef RILLE_SESSION_HINT_CONFLICT_H
#define RILLE_SESSION_HINT_CONFLICT_H

#include "actors/plan/assign/assign.h"
#include "actors/session/step/compiled.h"

struct hint_conflicts {
    const struct program *p;
    const struct assigned *a; /* NULL: planned in another mode; no meetings are reported */
    int32_t *follows;         /* by net node: the node whose layouts the node follows; itself: a hint */
    const struct origin *origin;
    struct arena *arena;                  /* for reported texts */
    int32_t *of_node, *of_leaf, *of_root; /* by net node: index in the program; -1: none */
    int32_t *reader;                      /* by leaf: the first node that reads the leaf; -1: none */
};
/* origin: by leaf. All arguments must outlive m. */
void hint_conflict_begin(struct hint_conflicts *m, const struct program *p, const struct assigned *a,
                         const struct origin *origin, struct arena *arena);
/* Returns true if a move of r for node i joins layouts of two hints. Fills *out with the hints, the move and its
 * line; the caller adds the layouts. */
bool hint_conflict_at(const struct hint_conflicts *m, struct ref r, int32_t i, struct rille_explain_meeting *out);

#endif
