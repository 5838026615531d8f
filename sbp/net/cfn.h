/* cfn.h - a cost function network (weighted CSP): variables with unary and binary costs (inside sbp/).
 *
 * The search of a plan works on a cost function network. Each node of the net is a variable, whose values are the
 * node's candidates. A tensor with one reader is an edge. If a tensor has several readers, they share one conversion
 * to each form. Binary costs alone cannot express that, so each form gets a variable with the values "made" and "not
 * made". The maker pays for "made", and a reader that needs the form forbids "not made".
 *
 * The search shrinks a network by removing values and variables. Shrinking always keeps a solution that is better
 * than the best known one, if there is any. A trail (trail.h) records every step, so that the search can recover the
 * values of eliminated variables and print a certificate.
 *
 * Costs are the net's costs times `scale`, a power of two, so that the dual can divide a cost of 1 among edges. One
 * owner, one thread. */
#ifndef RILLE_SBP_CFN_H
#define RILLE_SBP_CFN_H

#include "sbp/net/net.h"

enum cfn_known { CFN_UNKNOWN, CFN_NO, CFN_YES };
struct cfn_table { /* table of costs [value of u][value of v]; shared, reference-counted */
    int32_t nref;
    /* cached answers (enum cfn_known) of cfn_all_possible() and of cfn_is_sum() */
    uint8_t possible, sum;
    /* transposed table [value of v][value of u], made by cfn_transposed(); NULL: not made yet */
    int64_t *turned;
    int64_t cost[];
};
struct cfn_edge {
    int32_t u, v;
    struct cfn_table *table; /* NULL: the edge was removed */
    int64_t *to_u, *to_v;    /* dual messages: cost that the edge moves to each value of u, and of v */
};
struct cfn_var {
    int32_t n;       /* number of remaining values; 0: the variable was eliminated */
    int64_t *cost;   /* cost of each value, without edges */
    uint16_t *value; /* by value: candidate of the node */
    int32_t nedge, capacity;
    int32_t *edge;
};
struct trail;
struct cfn_fate { /* record of a variable that another variable has replaced */
    int32_t into, n;
    /* by candidate i of the replacing variable `into`, n entries: candidate of this variable that i implies; NULL:
     * no variable replaced this one */
    uint16_t *to;
};
struct cfn {
    int32_t nvar, nedge, capacity;
    int32_t nnode; /* number of variables that are nodes; the "made" variables follow */
    struct cfn_var *var;
    struct cfn_edge *edge;
    double *rank; /* by variable: sort key for the order of dual sweeps */
    int64_t constant, scale;
    int64_t work;         /* counted work of reductions: approximate number of costs read */
    struct trail *trail;  /* record of all steps; NULL: none is kept */
    bool (*stop)(void *); /* ends the reductions early when it returns true; NULL: never */
    void *arg;
    struct cfn_fate *fate; /* by variable, set by cfn_fold(); NULL: not recorded */
};

/* Makes a network from a checked net; the caller frees it. extra: scaled costs, added to the candidates by node;
 * NULL: none. */
struct cfn *cfn_new(const struct net *n, int64_t scale, const int64_t *const *extra);
/* Returns a copy of a block of memory, which the caller frees. */
void *cfn_dup(const void *p, size_t bytes);
/* Copies a network. The copy records its steps in the trail of c. */
struct cfn *cfn_copy(const struct cfn *c);
void cfn_free(struct cfn **c);
/* Lets edges with equal costs share one table. */
void cfn_share(struct cfn *c);
/* Returns the number of costs in all tables and variables. */
int64_t cfn_entries(const struct cfn *c);
/* Returns the largest power of two, at most 2^16, by which the net's costs can be scaled so that no sum overflows. */
int64_t cfn_scale(const struct net *n);

static inline int32_t
edge_other(const struct cfn_edge *e, int32_t v)
{
    return e->u == v ? e->v : e->u;
}
/* Returns the cost on the edge of value i of v together with value j of the variable at the other end. */
static inline int64_t
edge_cost(const struct cfn *c, const struct cfn_edge *e, int32_t v, int32_t i, int32_t j)
{
    return e->u == v ? e->table->cost[(int64_t)i * c->var[e->v].n + j]
                     : e->table->cost[(int64_t)j * c->var[e->v].n + i];
}
/* Adds two costs; an impossible cost stays impossible. */
static inline int64_t
cost_add(int64_t a, int64_t b)
{
    return a >= NET_NEVER || b >= NET_NEVER ? NET_NEVER : a + b;
}

/* Adds binary costs [value of u][value of v] to the edge between u and v. A new edge shares the table. */
void cfn_join(struct cfn *c, int32_t u, int32_t v, struct cfn_table *t);
/* Returns the edge between u and v; -1: none. */
int32_t cfn_edge_between(const struct cfn *c, int32_t u, int32_t v);
struct cfn_table *cfn_table_new(int64_t n);
void cfn_table_drop(struct cfn_table **t);
/* Returns the transpose of an edge's table. The transpose is valid as long as the table is. */
const int64_t *cfn_transposed(const struct cfn *c, const struct cfn_edge *e);
/* Returns true if every pair of values is possible. The table caches the answer. */
bool cfn_all_possible(const struct cfn *c, const struct cfn_edge *e);
/* Returns true if the edge's cost is the sum of a cost of u's value and a cost of v's value: T(i, j) = T(i, 0) +
 * T(0, j) - T(0, 0) for all entries of the edge's table T, and all pairs of values are possible. */
bool cfn_is_sum(const struct cfn *c, const struct cfn_edge *e);
/* Removes an edge. */
void cfn_cut(struct cfn *c, int32_t edge);
/* Keeps only the values of v whose keep[] is set. */
void cfn_keep(struct cfn *c, int32_t v, const uint8_t *keep);

#endif
