/* collect.h - makes the program (a list of operator calls in order) that computes requested values. The session owns
 * the collection of the last walk. Session's thread. */
#ifndef RILLE_SESSION_COLLECT_H
#define RILLE_SESSION_COLLECT_H

#include "runtime/base/str.h"
#include "runtime/graph/graph.h"

struct program;
struct rille_session;
/* Result of a walk from the requested values. The next walk reuses the arrays (collect.c). */
struct collection {
    struct node **node;
    struct val **leaf, **number, **root;
    int32_t nnode, nleaf, nnumber, nroot;
    int32_t node_capacity, leaf_capacity, number_capacity, root_capacity, stack_capacity, use_capacity;
    struct frame *stack;
    /* number of reads of each value that this run completes; index: node * OP_OUT + output, then leaves */
    int32_t *use;
    /* by node: a later run must compute the node again, because a result that this run drops is still needed */
    bool *unfinished;
    int32_t unfinished_capacity;
    uint64_t root_mark;
    struct str key;
};

enum collect_mode {
    COLLECT_RUN,     /* requested values that are not computed, and values that their gradients will read */
    COLLECT_TRACE,   /* nodes that the trace added */
    COLLECT_EXPLAIN, /* all nodes down to variables and discarded values, whether computed or not */
};
int collect(struct rille_session *s, int n, struct val *const *root, enum collect_mode mode);
void collection_key(struct rille_session *s, struct collection *c);
struct program *collection_program(struct rille_session *s, struct collection *c);

int32_t *collection_uses(struct collection *c);
void collection_unfinished(struct collection *c);
int32_t collection_slot(const struct collection *c, const struct val *v);
void collection_free(struct collection *c);

/* Checks that v can be read. E_STATE: a failed run has left v half written; the text names the variable. */
int val_readable(const struct val *v);

#endif
