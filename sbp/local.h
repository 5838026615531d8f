/* local.h - a choice of a net, changed one node at a time (inside sbp/).
 *
 * It knows for each node the tensors that the node makes or reads, so that it asks only the neighbours what a change
 * costs. A node may be undecided: then nobody pays for conversions from or to it. One owner, one thread. */
#ifndef RILLE_SBP_LOCAL_H
#define RILLE_SBP_LOCAL_H

#include "sbp/net.h"

enum { UNDECIDED = -1 };
struct local {
    const struct net *net;
    struct arena arena;
    int32_t *choice;         /* by node: a candidate, or UNDECIDED */
    int32_t *first, *tensor; /* by node: its tensors, each once */
    int32_t *seen, mark;     /* by form: scratch */
};
void local_begin(struct local *l, const struct net *n, const int32_t *choice); /* NULL: all undecided */
void local_end(struct local *l);
/* What node costs with candidate k, with all conversions of its tensors between decided nodes. Where it is more than
 * `most` (NET_NEVER: none is), all that is known is that it is. */
int64_t local_cost(struct local *l, int32_t node, int32_t k, int64_t most);

/* Choices by rule, of all nodes; `start` decides between equals (NULL: the first). */
void choose_outward(struct local *l, const int32_t *start);   /* SOLVE_PROPAGATE */
void choose_by_levels(struct local *l, const int32_t *start); /* SOLVE_RECURSIVE */
/* Of a choice that is possible: nodes, of `some` (NULL: all), take what is best beside the others. */
void choose_beside(struct local *l, const uint8_t *some);
/* Of one that may not be: where a node and the others make it impossible it takes what is best beside them. */
void choose_possible(struct local *l);
/* As choose_beside, around a node that stays: neighbours of it, and of some of those that changed. */
void choose_around(struct local *l, int32_t node);

#endif
