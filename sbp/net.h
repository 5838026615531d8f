/* net.h - a cost network: operators with candidates, tensors with what each conversion costs.
 *
 * A node is an operator; its candidates are the signatures it may take, each with a cost of its own. One node makes a
 * tensor in one of several forms (layouts, for a planner), and others read it, each in the form that its own candidate
 * wants; a choice converts it at most once to each form, however many read it there. Costs are integer nanoseconds, so
 * that sums are exact and so is a certificate. Nothing here knows a layout: bench/iopddl.c reads the files of the
 * IOPDDL contest into the same struct.
 *
 * A net is read-only; whoever makes it owns it, and any thread may read it. */
#ifndef RILLE_SBP_NET_H
#define RILLE_SBP_NET_H

#include "runtime/arena.h"

/* What is not possible. Sums of as many as 2^20 possible costs stay below it. */
#define NET_NEVER (INT64_MAX / 4)

struct net_node {
    int32_t ncand;         /* at least 1, at most 65535 */
    const int64_t *cost;   /* by candidate; NET_NEVER: a hint forbids it */
    const int64_t *memory; /* by candidate: bytes on the fullest rank while it runs; NULL: none */
    int32_t time;          /* when it runs, in the order of the program */
    const uint8_t
        *part; /* [candidate * nlevel + level]: what it decides on each mesh axis (SOLVE_RECURSIVE); or NULL */
};
struct net_use {
    int32_t node;         /* who reads; one that reads twice stands twice */
    const uint16_t *form; /* its candidate -> the form that it wants */
    int32_t begin, end;   /* it wants a converted copy at times begin <= t < end */
};
struct net_tensor {
    int32_t maker;
    const uint16_t *form; /* the maker's candidate -> the form in which it comes */
    int32_t nfrom, nto;   /* forms in which it may come, and which readers may want */
    int32_t nuse;
    const struct net_use *use;
    const int64_t *price;  /* [from * nto + to]; NET_NEVER: no such conversion. NULL when nobody reads it */
    const int64_t *moved;  /* as price: bytes that all ranks send; of equal costs less is better (ties.h). NULL: none */
    const int64_t *bytes;  /* by form in which it comes, on the fullest rank; NULL: none */
    int32_t born, dies;    /* it takes memory at times born <= t < dies */
    const int64_t *copy;   /* [from * nto + to]: what a conversion takes beside it, from the first reader that wants the
                            * form to the last; NULL: nothing */
    const int32_t *credit; /* [when the first reader wants it * nmoment + when the last does]: so many such copies are
                            * there at one time, at least 1, for several rounds of the program go on at once: this one,
                            * and those of the others from round_begin to round_end; NULL: 1 */
};
struct net {
    int32_t nnode, ntensor, nlevel;
    struct net_node *node;
    struct net_tensor *tensor;
    int64_t memory_limit; /* 0: none */
    int32_t nmoment;
    const uint16_t *moment; /* by time: which row or column of credit is meant; NULL where no tensor has one */
    int32_t round_begin, round_end;
    const double *rank; /* by node: where sweeps of the search come to it; NULL: in the order of the numbers */
};

/* The definition: what a choice (a candidate for each node) costs. NET_NEVER when it is not possible. */
int64_t net_cost(const struct net *n, const int32_t *choice);
/* Fills live, the bytes that are live at each time (net_times + 1 entries); returns the most of it, the peak. */
int64_t net_live(const struct net *n, const int32_t *choice, int64_t *live);
int64_t net_peak(const struct net *n, const int32_t *choice);
/* How many times there are: all are below it. */
int32_t net_times(const struct net *n);
/* How many copies of a tensor that is wanted at times begin <= t < end other rounds have. */
int64_t net_others(const struct net *n, const struct net_tensor *t, int32_t begin, int32_t end);
/* E_PLAN when indices, sizes or costs are out of range: a negative or too large cost, a maker that is no node... */
int net_check(const struct net *n);
/* By tensor, the first whose tables of prices and of what is sent are the very same: who looks through tables looks
 * through those of that one. A tensor that nobody reads stands for itself. In a. */
const int32_t *net_same_tables(struct arena *a, const struct net *n);
/* The form of a tensor whose forms are its node's candidates: k is k. In a. */
const uint16_t *net_identity(struct arena *a);

#endif
