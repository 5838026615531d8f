/* fold.h - a net reduced once for many searches that differ in unary costs (inside sbp/).
 *
 * Memory prices change only the unary costs of candidates. Folding applies once the reductions that do not depend on
 * unary costs: it drops values without support, substitutes decided variables, and removes edges with separable
 * costs. The folded network has fewer variables, each of which decides a few nodes of the net. The search owns it;
 * any thread may read it. */
#ifndef RILLE_SBP_FOLD_H
#define RILLE_SBP_FOLD_H

#include "sbp/net/trail.h"

struct fold_node {
    int32_t node;
    const uint16_t *to; /* by candidate of the variable: the node's candidate; NULL: the same number */
};
struct fold_sure {
    int32_t node, candidate;
};
struct folded {
    const struct net *net;
    struct cfn *c;          /* the folded network, without memory prices */
    int32_t *first;         /* by variable, with an end mark: index of its first entry in `node` */
    struct fold_node *node; /* the nodes that each variable decides */
    struct fold_sure *sure; /* nodes with one candidate left */
    int32_t nsure;
    struct arena arena;
};
/* Returns false if no choice is possible. */
bool fold_begin(struct folded *f, const struct net *n, int64_t scale);
void fold_end(struct folded *f);
/* Sets the costs of c, a copy of the folded network, to its own plus scaled extra costs, by node and candidate.
 * Messages stay. */
void fold_reprice(const struct folded *f, int64_t *const *extra, struct cfn *c);
/* Translates candidates of the variables into a candidate for each node of the net. */
void fold_choice(const struct folded *f, const int32_t *candidate, int32_t *choice);

#endif
