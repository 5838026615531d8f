/* repeat.h - detects repetition, such as the layers of a model, in a sequence of items with neighbours (inside
 * sbp/).
 *
 * In program order, similar items recur: a run. Runs (leaves, forward, backward, updates) share one layer numbering,
 * so an item can be mapped to its counterpart some layers later. The caller defines similarity, and must stay
 * correct if similar items differ. Deterministic. One owner, one thread. */
#ifndef RILLE_SBP_REPEAT_H
#define RILLE_SBP_REPEAT_H

#include "runtime/base/arena.h"

/* A run: items begin <= i < end repeat with `period`. Layer numbers rise, or fall (backward pass). Items of one
 * period may belong to different layers: an update follows its gradient, possibly layers later. */
struct repeat_run {
    int32_t begin, end, period, way; /* way: 1, -1; 0: unknown, the run has no layers */
    int32_t *base;                   /* by position in the period: layer of the first item there */
};
struct repeat {
    int32_t n;
    const uint64_t *key;         /* caller's, by item: equal for similar items */
    const int32_t *first, *near; /* caller's: neighbours of item i are near[first[i]] to near[first[i + 1] - 1] */
    bool ordered;                /* similar items have similar neighbours in the same order */
    struct arena arena;
    int32_t nrun, *run_of; /* by item: its run; -1: none */
    struct repeat_run *run;
    int32_t nlayer, *layer; /* by item: its layer; -1: none */
    int32_t *next, *last;   /* by item: counterpart in the next layer, in the previous layer; -1: none */
    int32_t *row;           /* all items; counterparts in successive layers (a chain) are adjacent */
    int32_t *place, *head;  /* by item: index in `row`; first item of its chain */
};

/* Starts from n, key, first and near. Returns false if too little repeats; repeat_end is not needed then. */
bool repeat_begin(struct repeat *r);
void repeat_end(struct repeat *r);
/* Returns the counterpart `by` layers up; i itself if it has no layer; -1: none. */
int32_t repeat_moved(const struct repeat *r, int32_t i, int32_t by);

#endif
