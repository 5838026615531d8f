/* repeat.h - detects repetition, such as the layers of a model, in a sequence of items with neighbours (inside
 * sbp/).
 *
 * A run is a range of items in program order that repeats with a period. Runs (leaves, forward, backward, updates)
 * share one numbering of layers, so an item can be mapped to its counterpart some layers later. The caller defines
 * which items are similar, and must stay correct if similar items differ. Deterministic. One owner, one thread. */
#ifndef RILLE_SBP_REPEAT_H
#define RILLE_SBP_REPEAT_H

#include "runtime/data/arena.h"

/* A run: items begin <= i < end, which repeat with `period`. Layer numbers rise along a run, or fall along it
 * (backward pass). Items of one period may belong to different layers: for example, the update of a weight may
 * come layers after its gradient. */
struct repeat_run {
    /* way: direction of the layer numbers: 1: they rise; -1: they fall; 0: unknown, so the run has no layers */
    int32_t begin, end, period, way;
    int32_t *base; /* by position in the period: layer of the run's first item at this position */
};
struct repeat {
    int32_t n;
    const uint64_t *key; /* by item, set by the caller: equal keys mark similar items */
    /* set by the caller: neighbours of item i are near[first[i]] to near[first[i + 1] - 1] */
    const int32_t *first, *near;
    bool ordered; /* true: similar items have similar neighbours in the same order; set by the caller */
    struct arena arena;
    int32_t nrun, *run_of; /* nrun: number of runs; run_of: by item: number of the item's run; -1: none */
    struct repeat_run *run;
    int32_t nlayer, *layer; /* nlayer: number of layers; layer: by item: the item's layer; -1: none */
    /* by item: its counterpart, the similar item, in the next layer (next) and in the previous layer (last); -1:
     * none */
    int32_t *next, *last;
    int32_t *row; /* all items, ordered so that counterparts in successive layers (a chain) are adjacent */
    /* place: by item: the item's index in `row`; head: by item: first item of the item's chain */
    int32_t *place, *head;
};

/* Detects repetition. Reads the fields n, key, first, near and ordered, which the caller has set. Returns false if
 * too little repeats; then repeat_end() is not needed. */
bool repeat_begin(struct repeat *r);
void repeat_end(struct repeat *r);
/* Returns the counterpart of item i in the layer that is `by` layers later; i itself if i has no layer; -1: none. */
int32_t repeat_moved(const struct repeat *r, int32_t i, int32_t by);

#endif
