/* fold.h - a net reduced once for many searches that differ in unary costs (inside sbp/).
 *
 * Prices of memory change only the unary costs of candidates. So folding applies the reductions that do not depend
 * on unary costs: it removes values without support, replaces variables that another variable decides, and removes
 * edges with separable costs. Each variable of the folded network decides one or several nodes of the net. The
 * search owns the folded network; any thread may read it. */
#ifndef RILLE_SBP_FOLD_H
#define RILLE_SBP_FOLD_H

#include "sbp/net/trail.h"

struct fold_node {
    int32_t node;
    /* by candidate of the folded variable: candidate of the node; NULL: candidates have the same numbers */
    const uint16_t *to;
};
struct fold_sure {
    int32_t node, candidate;
};
struct folded {
    const struct net *net;
    struct cfn *c; /* folded network, without prices of memory */
    /* by folded variable: index of the variable's first entry in `node`. One more entry marks the end */
    int32_t *first;
    struct fold_node *node; /* the nodes that each folded variable decides */
    struct fold_sure *sure; /* nodes with one remaining candidate */
    int32_t nsure;
    struct arena arena;
};
/* Folds net n; scale: factor by which costs are multiplied. Returns false if the net has no solution. */
bool fold_begin(struct folded *f, const struct net *n, int64_t scale);
void fold_end(struct folded *f);
/* Sets the costs of c, a copy of the folded network: the network's own costs plus scaled extra costs by node and
 * candidate. Keeps c's messages. */
void fold_reprice(const struct folded *f, int64_t *const *extra, struct cfn *c);
/* Converts candidates of the folded variables into a candidate for each node of the net. */
void fold_choice(const struct folded *f, const int32_t *candidate, int32_t *choice);

#endif
