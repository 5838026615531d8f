/* meet.h - where layouts that go outward from different hints meet, in a step that is planned by "propagate".
 *
 * A hint is what has one layout: an argument or a variable that lies where it was put, a to_global or a strategy that
 * was written, an operator that leaves no choice, a result that must lie as it does. What else there is has its layouts
 * from one of them, by way of others (net_follows). A value whose layout comes from one hint and that is moved for
 * a reader whose layouts come from another is where they meet; the move is what that costs. One owner, one thread. */
#ifndef RILLE_SESSION_MEET_H
#define RILLE_SESSION_MEET_H

#include "actors/plan/assign.h"
#include "actors/session/compiled.h"

struct meet {
    const struct program *p;
    const struct assigned *a; /* NULL: of another mode, and nothing is told */
    int32_t *follows;         /* by node of the net: whose layouts it has, its own in the end */
    const struct origin *origin;
    struct arena *arena;                  /* what is told lies there */
    int32_t *of_node, *of_leaf, *of_root; /* by node of the net: what it stands for in the program; -1 */
    int32_t *reader;                      /* by leaf: the first node that reads it; -1 */
};
/* origin: by leaf. All of it outlives m. */
void meet_begin(struct meet *m, const struct program *p, const struct assigned *a, const struct origin *origin,
                struct arena *arena);
/* Does a move of r for node i join what two hints decided? Then *out says which, and what the move takes once; the
 * caller knows its layouts. */
bool meet_at(const struct meet *m, struct ref r, int32_t i, struct rille_explain_meeting *out);

#endif
