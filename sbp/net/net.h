/* net.h - a cost network: operators with candidates, and tensors with the cost of each conversion.
 *
 * A node is an operator. The candidates of a node are its possible signatures; each has a cost. A node makes a
 * tensor in one of several forms (for the planner: layouts). The candidate of each reading node determines the form
 * that it needs. A choice converts a tensor at most once to each form, whatever the number of readers. Costs are
 * integer nanoseconds, so sums and certificates are exact. The net is independent of layouts: bench/iopddl.c reads
 * the files of the IOPDDL contest into the same struct.
 *
 * A net is read-only. The code that makes a net owns it; any thread may read it. */
#ifndef RILLE_SBP_NET_H
#define RILLE_SBP_NET_H

#include "runtime/data/arena.h"

/* Cost of an impossible candidate or conversion. The sum of up to 2^20 possible costs is less. */
#define NET_NEVER (INT64_MAX / 4)

struct net_node {
    int32_t ncand;         /* number of candidates, 1 to 65535 */
    const int64_t *cost;   /* by candidate: cost, ns; NET_NEVER: a hint forbids the candidate */
    const int64_t *memory; /* by candidate: bytes on the fullest rank while the node runs; NULL: none */
    int32_t time;          /* execution time: the node's position in program order */
    const uint8_t
        /* part: by candidate and mesh axis, [candidate * nlevel + level]: the candidate's decision on this axis,
         * for SOLVE_RECURSIVE; NULL: none */
        *part;
};
struct net_use {
    int32_t node; /* index of the reading node; a node that reads a tensor twice has two uses */
    /* by candidate of the reading node: the form (layout) in which the node needs the tensor */
    const uint16_t *form;
    int32_t begin, end; /* the reader needs a converted copy at times begin <= t < end */
};
struct net_tensor {
    int32_t maker;
    /* by candidate of the maker: the form (layout) in which the maker makes the tensor */
    const uint16_t *form;
    /* A form is a layout of the tensor, as a number. nfrom: number of forms in which the maker can make the tensor;
     * nto: number of forms that its readers can need */
    int32_t nfrom, nto;
    int32_t nuse;
    const struct net_use *use;
    /* by form that is made and form that is needed, [from * nto + to]: conversion cost, ns; NET_NEVER: impossible.
     * NULL: the tensor has no readers */
    const int64_t *price;
    /* [from * nto + to]: bytes that all ranks send for the conversion; breaks ties of cost (ties.h). NULL: none */
    const int64_t *moved;
    /* by form in which the maker makes the tensor: bytes of the tensor on the fullest rank; NULL: the tensor needs
     * no memory */
    const int64_t *bytes;
    int32_t born, dies; /* live range of the tensor: born <= t < dies */
    /* [from * nto + to]: bytes of a converted copy, which is live from the first to the last reader of form `to`;
     * NULL: none */
    const int64_t *copy;
    /* number of copies of one conversion that are live at once, >= 1, because micro-batches overlap. Index:
     * [moment[t1] * nmoment + moment[t2]], where t1 and t2 are the times of the copy's first and last reader. The
     * copies of other micro-batches are live from round_begin to round_end. NULL: 1 at all times */
    const int32_t *credit;
};
struct net {
    int32_t nnode, ntensor, nlevel;
    struct net_node *node;
    struct net_tensor *tensor;
    int64_t memory_limit; /* memory limit, bytes per rank; 0: none */
    int32_t nmoment;
    /* by time: index of the time's row and column in the credit tables; NULL: no tensor has such a table */
    const uint16_t *moment;
    int32_t round_begin, round_end;
    /* by node: position in the order of dual sweeps; NULL: nodes are swept in order of their numbers */
    const double *rank;
};

/* Returns the cost of a choice (a candidate for each node); NET_NEVER: the choice is impossible. This defines the
 * cost. */
int64_t net_cost(const struct net *n, const int32_t *choice);
/* Fills in the live bytes at each time (net_times + 1 entries); returns their maximum, the peak. */
int64_t net_live(const struct net *n, const int32_t *choice, int64_t *live);
int64_t net_peak(const struct net *n, const int32_t *choice);
/* Returns the number of times; times are numbered from 0. */
int32_t net_times(const struct net *n);
/* Returns how many converted copies of tensor t other micro-batches hold, if readers need the copies at times
 * begin <= t < end. */
int64_t net_others(const struct net *n, const struct net_tensor *t, int32_t begin, int32_t end);
/* Checks a net. E_PLAN: an index, size or cost is out of range; for example, a cost is negative, or a maker is not a
 * node. */
int net_check(const struct net *n);
/* Returns, by tensor, the first tensor with the same price and moved tables, so that each table is read only once. A
 * tensor without readers maps to itself. The array is allocated in a. */
const int32_t *net_same_tables(struct arena *a, const struct net *n);

#endif
