/* hint_conflict.h - finds conflicts of hints in a step planned by "propagate": moves between layouts that stem from
 * different hints.
 *
 * A hint is a node with a single layout: a placed argument or variable, an explicit to_global or strategy, an
 * operator with one candidate, a result with a fixed layout. All other nodes get their layouts from a hint, directly
 * or through other nodes (net_follows). Two hints conflict at a move if the value's layout stems from one hint and
 * the reader's layout from the other. The cost of the conflict is the cost of that move. One owner, one thread. */
#ifndef RILLE_SESSION_HINT_CONFLICT_H
#define RILLE_SESSION_HINT_CONFLICT_H

#include "actors/plan/assign/assign.h"
#include "actors/session/step/compiled.h"

struct hint_conflicts {
    const struct program *p;
    /* result of the planner; NULL: the step was planned in another mode, so no conflicts are reported */
    const struct assigned *a;
    /* by net node (node of the planner's search): the net node that determines its layouts; a hint determines its
     * own */
    int32_t *follows;
    const struct origin *origin;
    struct arena *arena; /* memory for reported texts */
    /* of_node, of_leaf, of_root: by net node, the node, leaf or root of the program for which it stands; -1: none */
    int32_t *of_node, *of_leaf, *of_root;
    int32_t *reader; /* by leaf: its first reader; -1: none */
};
/* Initialises m. origin: source of each leaf of the program (compiled.h). All arguments must outlive m. */
void hint_conflict_begin(struct hint_conflicts *m, const struct program *p, const struct assigned *a,
                         const struct origin *origin, struct arena *arena);
/* Returns true if operand r of program node i is moved between layouts of two hints. Fills *out with the hints,
 * the move and the move's source line. The caller adds the layouts. */
bool hint_conflict_at(const struct hint_conflicts *m, struct ref r, int32_t i, struct rille_explain_meeting *out);

#endif
