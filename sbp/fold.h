/* fold.h - a net made smaller once, for searches that differ in what its candidates cost (inside sbp/).
 *
 * Prices of memory change what candidates cost by themselves and nothing else. So folding does once what does not
 * depend on that: it drops values without support, makes a variable that another one decides part of it, cuts edges
 * that are sums. It leaves a network of fewer variables, each of which decides a few nodes of the net. The search owns
 * it; any thread may read it. */
#ifndef RILLE_SBP_FOLD_H
#define RILLE_SBP_FOLD_H

#include "sbp/trail.h"

struct fold_node {
    int32_t node;
    const uint16_t *to; /* by the variable's candidate: the node's; NULL: the same */
};
struct fold_sure {
    int32_t node, candidate;
};
struct folded {
    const struct net *net;
    struct cfn *c;          /* costs without prices */
    int32_t *first;         /* by variable, one more than there are: */
    struct fold_node *node; /* the nodes that it decides */
    struct fold_sure *sure; /* nodes with one candidate left */
    int32_t nsure;
    struct arena arena;
};
/* False: no choice is possible. */
bool fold_begin(struct folded *f, const struct net *n, int64_t scale);
void fold_end(struct folded *f);
/* The network with these costs, scaled, beside its own: by node, by candidate. The caller's to free. */
struct cfn *fold_priced(const struct folded *f, int64_t *const *extra);
/* Gives c, which fold_priced made, other costs. Its messages stay. */
void fold_reprice(const struct folded *f, int64_t *const *extra, struct cfn *c);
/* What candidates of the variables mean for the net: a candidate for each node. */
void fold_choice(const struct folded *f, const int32_t *candidate, int32_t *choice);
/* And back, from a possible choice of the net. False: what it has was folded away. */
bool fold_find(const struct folded *f, const int32_t *choice, int32_t *candidate);

#endif
