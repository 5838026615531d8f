/* explain_move.h - describes moves: their paths, bytes, costs and lower bounds. The caller of explain_program() owns
 * the description. Used only on the session's thread. */
#ifndef RILLE_SESSION_EXPLAIN_MOVE_H
#define RILLE_SESSION_EXPLAIN_MOVE_H

#include "actors/plan/model/local_set.h"
#include "actors/session/planner/candidates.h"
#include "actors/session/planner/hint_conflict.h"
#include "runtime/data/hash.h"

/* The description of a move, kept for moves with equal type and layouts. */
struct explained_move {
    struct type type;
    const struct layout *from, *to;
    const struct rille_explain_boxing *found;
};
/* A description in progress. */
struct explainer {
    struct rille_session *s;
    const struct program *p;
    struct rille_explain *e;
    struct arena *a;
    struct str text;
    /* moves that were described, by value and target layout */
    struct ref *moved;
    const struct layout **moved_to;
    struct hash_table explained;
    struct explain_candidates alternatives;
    struct assigned *planned; /* result of the planner, for a planned step; else NULL */
    struct hint_conflicts conflicts;
    struct local_set mines; /* mesh positions on the session's host; only if there are several hosts */
};

/* Returns a line of the user's program as "file:line", in the arena; "?" if the line is unknown. */
char *explain_line(struct explainer *t, const struct line *l);
/* Adds the description of a move to t->e->boxing. forced: the pin or hint that causes the move; NULL: none. times:
 * number of moves per step. */
int explain_move(struct explainer *t, const struct type *type, const struct layout *from, const struct layout *to,
                 const char *forced, int64_t times);
/* Describes the moves of a node's operands. */
int explain_moves(struct explainer *t, const struct prog_node *n);

#endif
