/* net.h - a cost network: operators with candidates, and tensors with the cost of each conversion.
 *
 * A node is an operator; its candidates are the possible signatures, which have costs of their own. A node makes a
 * tensor in one of several forms (layouts, for the planner). Reading nodes need the tensor in the form given by
 * their candidate. A choice converts a tensor at most once to each form, for any number of readers. Costs are
 * integer nanoseconds, so sums and certificates are exact. The net is independent of layouts: bench/iopddl.c reads
 * the files of the IOPDDL contest into the same struct.
 *
 * A net is read-only. Its maker owns it; any thread may read it. */
#ifndef RILLE_SBP_NET_H
#define RILLE_SBP_NET_H

#include "runtime/base/arena.h"

/* Cost of the impossible. Sums of up to 2^20 possible costs stay below it. */
#define NET_NEVER (INT64_MAX / 4)

struct net_node {
    int32_t ncand;         /* at least 1, at most 65535 */
    const int64_t *cost;   /* by candidate; NET_NEVER: a hint forbids it */
    const int64_t *memory; /* by candidate: bytes on the fullest rank while it runs; NULL: none */
    int32_t time;          /* execution time: position in program order */
    const uint8_t
        *part; /* [candidate * nlevel + level]: decision on each mesh axis (for SOLVE_RECURSIVE); NULL: none */
};
struct net_use {
    int32_t node;         /* reading node; a node that reads twice has two uses */
    const uint16_t *form; /* by candidate of the node: the form it needs */
    int32_t begin, end;   /* times begin <= t < end at which a converted copy is needed */
};
struct net_tensor {
    int32_t maker;
    const uint16_t *form; /* by candidate of the maker: the form it makes */
    int32_t nfrom, nto;   /* number of forms made, and of forms needed by readers */
    int32_t nuse;
    const struct net_use *use;
    const int64_t *price; /* [from * nto + to]; NET_NEVER: conversion impossible. NULL if nobody reads the tensor */
    const int64_t *moved; /* bytes sent by all ranks, indexed like price; breaks ties of cost (ties.h). NULL: none */
    const int64_t *bytes; /* by form made: bytes on the fullest rank; NULL: none */
    int32_t born, dies;   /* live range: born <= t < dies */
    const int64_t *copy;  /* [from * nto + to]: extra bytes from the first to the last reader of the form; NULL: none */
    const int32_t *credit; /* number of such copies live at once, >= 1, at [moment of the first reader * nmoment +
                            * moment of the last]. Several rounds of the program overlap: copies of other rounds are
                            * live from round_begin to round_end. NULL: 1 */
};
struct net {
    int32_t nnode, ntensor, nlevel;
    struct net_node *node;
    struct net_tensor *tensor;
    int64_t memory_limit; /* 0: none */
    int32_t nmoment;
    const uint16_t *moment; /* by time: row or column of credit; NULL if no tensor has credit */
    int32_t round_begin, round_end;
    const double *rank; /* by node: its position in the search's sweeps; NULL: by node number */
};

/* Returns the cost of a choice (a candidate for each node): the definition. NET_NEVER if the choice is impossible. */
int64_t net_cost(const struct net *n, const int32_t *choice);
/* Fills live, the live bytes at each time (net_times + 1 entries); returns the maximum, the peak. */
int64_t net_live(const struct net *n, const int32_t *choice, int64_t *live);
int64_t net_peak(const struct net *n, const int32_t *choice);
/* Returns the number of times; times are 0 to net_times - 1. */
int32_t net_times(const struct net *n);
/* Returns the number of copies, held by other rounds, of a tensor that is needed at times begin <= t < end. */
int64_t net_others(const struct net *n, const struct net_tensor *t, int32_t begin, int32_t end);
/* Checks a net. E_PLAN: an index, size or cost is out of range (negative or too large cost, maker that is not a
 * node...). */
int net_check(const struct net *n);
/* Returns, by tensor, the first tensor with the identical price and moved tables, so that a table is read only once.
 * A tensor without readers maps to itself. Allocated in a. */
const int32_t *net_same_tables(struct arena *a, const struct net *n);

#endif
