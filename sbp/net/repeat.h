/* repeat.h - detects repetition, such as the layers of a model, in a sequence of items with neighbours (inside
 * sbp/).
 *
 * A run is a range of items in program order that repeats with a period. Runs (leaves, forward, backward, updates)
 * share one numbering of layers, so an item can be mapped to its counterpart some layers later. The caller defines
 * which items are similar, and must stay correct if similar items differ. Deterministic. One owner, one thread. */
#ifndef RILLE_SBP_REPEAT_H
#define RILLE_SBP_REPEAT_H

#include "runtime/data/arena.h"

/* A run: items begin <= i < end repeat with `period`. Layer numbers rise along the run or fall (backward pass).
 * Items of one period may belong to different layers: the update of a weight may come layers after its gradient. */
struct repeat_run {
    /* way: 1: layer numbers rise; -1: they fall; 0: unknown, so the run has no layers */
    int32_t begin, end, period, way;
    int32_t *base; /* by position in the period: layer of the first item at that position */
};
struct repeat {
    int32_t n;
    const uint64_t *key; /* by item, set by the caller: equal keys mark similar items */
    /* set by the caller: neighbours of item i are near[first[i]] to near[first[i + 1] - 1] */
    const int32_t *first, *near;
    bool ordered; /* set by the caller: similar items have similar neighbours in the same order */
    struct arena arena;
    int32_t nrun, *run_of; /* by item: its run; -1: none */
    struct repeat_run *run;
    int32_t nlayer, *layer; /* by item: its layer; -1: none */
    /* by item: next: its counterpart in the next layer; last: its counterpart in the previous layer; -1: none */
    int32_t *next, *last;
    int32_t *row;          /* all items, ordered so that counterparts in successive layers (a chain) are adjacent */
    int32_t *place, *head; /* by item: its index in `row`, and the first item of its chain */
};

/* Detects repetition. Reads the fields n, key, first, near and ordered, which the caller has set. Returns false if
 * too little repeats; then repeat_end() is not needed. */
bool repeat_begin(struct repeat *r);
void repeat_end(struct repeat *r);
/* Returns the counterpart of item i `by` layers later; i itself if it has no layer; -1: none. */
int32_t repeat_moved(const struct repeat *r, int32_t i, int32_t by);

#endif
