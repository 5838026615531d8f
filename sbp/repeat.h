/* repeat.h - what repeats in a sequence whose items have neighbours: the layers of a model (inside sbp/).
 *
 * In the order of the program alike items follow each other again and again: a run. Runs (leaves, forward, backward,
 * updates) count their layers alike, so that an item can be moved to its place some layers on. Likeness is the caller's
 * to say; who relies on it must lose no truth where it errs. Deterministic. One owner, one thread. */
#ifndef RILLE_SBP_REPEAT_H
#define RILLE_SBP_REPEAT_H

#include "runtime/arena.h"

/* Items begin <= i < end repeat after `period`. Layers of this run go up, or down (the backward pass). What one period
 * has need not be of one layer: updates come when gradients do, some of them layers later. */
struct repeat_run {
    int32_t begin, end, period, way; /* way: 1, -1; 0: it was not told, and has no layers */
    int32_t *base;                   /* by place in the period: the layer of the first item there */
};
struct repeat {
    int32_t n;
    const uint64_t *key;         /* the caller's, by item: equal where items are alike */
    const int32_t *first, *near; /* the caller's: item i's neighbours are near[first[i]] up to near[first[i + 1]] */
    bool ordered;                /* alike items have alike neighbours in the same order */
    struct arena arena;
    int32_t nrun, *run_of; /* by item; -1: of none */
    struct repeat_run *run;
    int32_t nlayer, *layer; /* by item; -1: of none */
    int32_t *next, *last;   /* by item: what is alike one layer on, and one back; -1: nothing */
    int32_t *row;           /* all items; those that go on as each other stand one after the other */
    int32_t *place, *head;  /* by item: where in the row it is, and the first that goes on as it */
};

/* Begins with n, key, first and near. False: too little repeats, and there is nothing to end. */
bool repeat_begin(struct repeat *r);
void repeat_end(struct repeat *r);
/* What is alike `by` layers on; i itself where it has no layer; -1: nothing. */
int32_t repeat_moved(const struct repeat *r, int32_t i, int32_t by);

#endif
