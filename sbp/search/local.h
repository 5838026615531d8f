/* local.h - a choice of a net that changes one node at a time (inside sbp/).
 *
 * Each node has a list of its tensors, so the cost of a change depends only on the node's neighbours. A node may be
 * undecided; conversions from or to it then cost nothing. One owner, one thread. */
#ifndef RILLE_SBP_LOCAL_H
#define RILLE_SBP_LOCAL_H

#include "sbp/net/net.h"

enum { UNDECIDED = -1 };
struct local {
    const struct net *net;
    struct arena arena;
    int32_t *choice;         /* by node: a candidate, or UNDECIDED */
    int32_t *first, *tensor; /* by node: the tensors that it makes or reads, without duplicates */
    /* work space. seen: by form (a layout that a tensor may have): equal to `mark` if the form was seen in this call */
    int32_t *seen, mark;
};
/* Begins with a choice; NULL: all nodes are undecided. */
void local_begin(struct local *l, const struct net *n, const int32_t *choice);
void local_end(struct local *l);
/* Returns the cost of a node with candidate k, including all conversions of its tensors between decided nodes. The
 * result is exact up to `most`; a larger result only means that the cost exceeds `most`. most NET_NEVER: always
 * exact. */
int64_t local_cost(struct local *l, int32_t node, int32_t k, int64_t most);

/* Choose candidates for all nodes of the net: choose_outward by the rule of SOLVE_PROPAGATE, choose_by_levels by the
 * rule of SOLVE_RECURSIVE. start: candidates that are preferred among equally cheap ones; NULL: the first ones are. */
void choose_outward(struct local *l, const int32_t *start);
void choose_by_levels(struct local *l, const int32_t *start);
/* Improves a feasible choice: each node of `some` (NULL: all) takes its best candidate while its neighbours stay as
 * they are. */
void choose_beside(struct local *l, const uint8_t *some);
/* Repairs a choice: each node that makes the choice impossible takes its best candidate given its neighbours. */
void choose_possible(struct local *l);
/* Improves the choice around a fixed node: first the neighbours of the node, then the neighbours of changed nodes.
 * Ends after a fixed number of changes. */
void choose_around(struct local *l, int32_t node);

/* Explains a choice that SOLVE_PROPAGATE made. follows[i]: the neighbour of node i that determined the candidate
 * of i; the neighbour was decided before i. If several neighbours were, these criteria decide in turn: no
 * conversion between neighbour and i; the conversion that would become most expensive if i took another candidate;
 * the neighbour decided first. follows[i] is i if no neighbour was decided before i, or if i has only one possible
 * candidate. */
void net_follows(const struct net *n, const int32_t *choice, int32_t *follows);

#endif
