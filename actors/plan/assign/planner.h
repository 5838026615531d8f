/* planner.h - internals of the layout planner: values of a program and nodes of its cost network.
 *
 * One thread; all arrays belong to the struct assigned under construction. */
#ifndef RILLE_PLAN_PLANNER_H
#define RILLE_PLAN_PLANNER_H

#include "actors/plan/assign/assign.h"
#include "actors/plan/assign/candidate.h"
#include "actors/plan/assign/move_table.h"
#include "actors/plan/rewrite/rewrite.h"
#include "actors/plan/outline/stage.h"
#include "runtime/base/hash.h"

/* Times of net node i: conversion of the operands, and run. */
static inline int32_t
moving(int32_t i)
{
    return 2 * i;
}

static inline int32_t
running(int32_t i)
{
    return 2 * i + 1;
}

enum { NPHASE = PHASE_BATCH + 1 };

/* A value of the program, with its maker and the layouts of its readers. */
struct reader {
    int32_t node;                       /* net node */
    const struct layout *const *layout; /* by candidate, `stride` apart: layout requested */
    int32_t stride;
    int32_t begin, dies; /* the converted operand is held at begin <= t < dies */
    struct reader *next;
};
enum holding { /* memory of a value, without converted copies */
               HOLDS_REGISTER,
               HOLDS_PARTS,   /* shards of an argument, a variable or a result, held for the whole step */
               HOLDS_NOTHING, /* shares the bytes of its operand: a view or a move */
               HOLDS_OVER,    /* overwrites the old version of a variable, if layouts are equal */
               HOLDS_INNER,   /* intermediate value of a chain, if its layout is what its readers request */
};
struct value {
    int32_t maker;
    const struct layout *const *layout; /* by the maker's candidate, `stride` apart */
    int32_t stride;
    struct type type;
    int64_t times; /* number of times it is made per step */
    struct moment at;
    int32_t nreg; /* registers: micro-batches that may hold it at once */
    enum holding holds;
    int32_t born, dies;
    bool early;           /* a pending reduction of the value may complete directly behind it */
    bool asked;           /* the value as read by explicit moves that make it partial, as only the user may */
    struct value *partly; /* the value as read by such moves; NULL: none */
    struct reader *reader, **end;
};
struct early { /* early reduction: a pair of tensors, addends and sums */
    bool any;  /* some form allows it */
    const int64_t *bytes[2], *copy[2], *nothing;
};
struct priced {
    size_t bytes;
    const void *key;
    const int64_t *price, *moved, *copy; /* time, bytes sent and bytes held, per pair of layouts */
    const struct early *early;           /* of a value in a register; NULL: not computed yet */
};
struct planner {
    struct program *p;
    struct atlas *atlas;
    const struct assign_options *o;
    struct assigned *a;
    struct candidates cand;
    const struct candidate_list **list; /* by net node; NULL for leaves and roots */
    const struct layout *const **form;  /* by net node without a list: layouts of its candidates */
    int32_t *start, *whole;             /* choices: layouts as traced; all replicated */
    struct value *value;                /* results at node * OP_OUT + out, then leaves */
    struct stages stages;               /* of a program with micro-batches */
    struct moment now;                  /* of the node under construction */
    uint16_t *moment;                   /* by net node: 1 + stage * NPHASE + phase; 0: not run per micro-batch */
    bool in_pieces;                     /* the node under construction runs per micro-batch */
    const int32_t *credit;              /* by moment, by moment: registers between; NULL: 1 */
    struct hash_table kept, priced;     /* arrays by content; costs of moves */
    int32_t *listed, nlisted;           /* by layout id: 1 + index in the current list, 0: absent */
    struct pairs pairs;                 /* used while the net is built */
};

static inline struct value *
value_of(struct planner *w, struct ref r)
{
    r = program_source(w->p, r);
    return &w->value[r.kind == REF_LEAF ? w->p->nnode * OP_OUT + r.index : r.index * OP_OUT + r.out];
}

/* Returns the value that node i reads (assign.c). */
struct value *planner_source(struct planner *w, int32_t i);

/* Computes lifetimes and register counts of all values, after all nodes are built (lifetimes.c). */
void planner_lifetimes(struct planner *w);

#endif
