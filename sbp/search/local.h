/* local.h - a choice of a net that changes one node at a time (inside sbp/).
 *
 * Lists the tensors of each node, so that the cost of a change is computed from the neighbours only. A node may be
 * undecided: conversions from or to it then cost nothing. One owner, one thread. */
#ifndef RILLE_SBP_LOCAL_H
#define RILLE_SBP_LOCAL_H

#include "sbp/net/net.h"

enum { UNDECIDED = -1 };
struct local {
    const struct net *net;
    struct arena arena;
    int32_t *choice;         /* by node: a candidate, or UNDECIDED */
    int32_t *first, *tensor; /* by node: tensors made or read, without duplicates */
    int32_t *seen, mark;     /* by form: scratch */
};
void local_begin(struct local *l, const struct net *n, const int32_t *choice); /* choice NULL: all undecided */
void local_end(struct local *l);
/* Returns the cost of a node with candidate k, including all conversions of its tensors between decided nodes. The
 * result is exact up to `most`; above, only that the cost exceeds `most` is known. most NET_NEVER: always exact. */
int64_t local_cost(struct local *l, int32_t node, int32_t k, int64_t most);

/* Apply a rule to the whole net; `start` breaks ties (NULL: the first candidate). */
void choose_outward(struct local *l, const int32_t *start);   /* SOLVE_PROPAGATE */
void choose_by_levels(struct local *l, const int32_t *start); /* SOLVE_RECURSIVE */
/* Improves a possible choice: nodes of `some` (NULL: all) take the best candidate beside unchanged neighbours. */
void choose_beside(struct local *l, const uint8_t *some);
/* Repairs a choice: nodes that make the choice impossible take the best candidate given their neighbours. */
void choose_possible(struct local *l);
/* Improves the choice around a fixed node: first neighbours of the node, then neighbours of changed nodes, up to a
 * limit. */
void choose_around(struct local *l, int32_t node);

/* Explains a choice by SOLVE_PROPAGATE. follows[i]: the earlier decided neighbour with which node i agrees without
 * conversion, preferably the neighbour with most to pay otherwise; i itself: none. */
void net_follows(const struct net *n, const int32_t *choice, int32_t *follows);

#endif
