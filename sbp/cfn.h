/* cfn.h - a cost function network: variables, and costs of each alone and of two together (inside sbp/).
 *
 * The search works on it. It comes from a net: a node is a variable, its candidates are the values. A tensor with one
 * reader is an edge. Several readers share one conversion to each form, which two variables alone cannot say: each form
 * gets a variable of two values ("made", "not made"); its maker pays for "made", and a reader that wants the form
 * forbids "not made".
 *
 * The search shrinks a network: it drops values and eliminates variables, always so that some solution better than the
 * best known one stays if there is any. A trail (trail.h) keeps every step: by it the search finds the values of
 * eliminated variables again and prints a certificate.
 *
 * Costs are those of the net times `scale`, a power of two, so that the dual can
 * share a unit among edges. One owner, one thread. */
#ifndef RILLE_SBP_CFN_H
#define RILLE_SBP_CFN_H

#include "sbp/net.h"

enum cfn_known { CFN_UNKNOWN, CFN_NO, CFN_YES };
struct cfn_table { /* [value of u][value of v]; shared, counted */
    int32_t nref;
    uint8_t possible, sum; /* enum cfn_known: whether nothing in it is impossible; cfn_is_sum's */
    int64_t *turned;       /* [value of v][value of u], cfn_turned's; NULL: nobody asked for it */
    int64_t cost[];
};
struct cfn_edge {
    int32_t u, v;
    struct cfn_table *table; /* NULL: the edge is gone */
    int64_t *to_u, *to_v;    /* messages of the dual: cost that the edge hands to a value of either end */
};
struct cfn_var {
    int32_t n;       /* values left; 0: eliminated */
    int64_t *cost;   /* by value */
    uint16_t *value; /* which of the node's candidates they are */
    int32_t nedge, capacity;
    int32_t *edge;
};
struct trail;
struct cfn_fate { /* of a variable that became part of another one; to NULL: of no other */
    int32_t into, n;
    uint16_t *to; /* n: by candidate of that one, its own */
};
struct cfn {
    int32_t nvar, nedge, capacity;
    int32_t nnode; /* the first are the net's nodes, the others "made" variables */
    struct cfn_var *var;
    struct cfn_edge *edge;
    double *rank; /* by variable: where it stands in the sweeps of the dual */
    int64_t constant, scale;
    int64_t work;         /* how many costs making it smaller looked at, about */
    struct trail *trail;  /* NULL: nobody wants to know */
    bool (*stop)(void *); /* ends making it smaller; NULL: nobody does */
    void *arg;
    struct cfn_fate *fate; /* by variable; cfn_fold fills it; NULL: nobody wants to know */
};

/* Makes one from a checked net; the caller frees it. extra: costs to add to each node's candidates (already scaled), or
 * NULL. */
struct cfn *cfn_new(const struct net *n, int64_t scale, const int64_t *const *extra);
struct cfn *cfn_copy(const struct cfn *c); /* with the same trail */
void cfn_free(struct cfn **c);
/* Lets edges of equal costs share their tables. */
void cfn_share(struct cfn *c);
/* How many costs its tables and variables have. */
int64_t cfn_entries(const struct cfn *c);
/* The scale that a net allows: the largest power of two, up to 2^16, by which no sum overflows. */
int64_t cfn_scale(const struct net *n);

static inline int32_t
edge_other(const struct cfn_edge *e, int32_t v)
{
    return e->u == v ? e->v : e->u;
}
/* The cost of value i of variable v with value j of the other end. */
static inline int64_t
edge_cost(const struct cfn *c, const struct cfn_edge *e, int32_t v, int32_t i, int32_t j)
{
    return e->u == v ? e->table->cost[(int64_t)i * c->var[e->v].n + j]
                     : e->table->cost[(int64_t)j * c->var[e->v].n + i];
}
/* Adds so that an impossible cost stays impossible. */
static inline int64_t
cost_add(int64_t a, int64_t b)
{
    return a >= NET_NEVER || b >= NET_NEVER ? NET_NEVER : a + b;
}

/* Adds costs of u and v together ([value of u][value of v]; where there was no edge yet it shares the table). */
void cfn_join(struct cfn *c, int32_t u, int32_t v, struct cfn_table *t);
/* The edge of u and v; -1: there is none. */
int32_t cfn_edge_between(const struct cfn *c, int32_t u, int32_t v);
struct cfn_table *cfn_table_new(int64_t n);
void cfn_table_drop(struct cfn_table **t);
/* The transpose of an edge's table, as long as that is. */
const int64_t *cfn_turned(const struct cfn *c, const struct cfn_edge *e);
/* Is every pair of values possible? Tables remember it, and the next one too. */
bool cfn_all_possible(const struct cfn *c, const struct cfn_edge *e);
/* Is it what u's value costs and what v's value costs: T(i, j) = T(i, 0) + T(0, j) - T(0, 0), all possible? */
bool cfn_is_sum(const struct cfn *c, const struct cfn_edge *e);
/* Takes an edge, or a variable without edges, out. */
void cfn_cut(struct cfn *c, int32_t edge);
/* Keeps the values of v for which keep[] says so. */
void cfn_keep(struct cfn *c, int32_t v, const uint8_t *keep);

#endif
