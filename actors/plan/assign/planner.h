/* planner.h - internals of the layout planner: the values of a program, and the nodes of its cost network.
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

/* Return two times of net node i, as positions in the order of the net: moving(), when its operands are converted;
 * running(), when it runs. */
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

/* One reader of a value, and the layouts in which it reads the value. */
struct reader {
    int32_t node; /* net node */
    /* by candidate of the reader, `stride` apart: the layout in which it reads the value */
    const struct layout *const *layout;
    int32_t stride;
    int32_t begin, dies; /* lifetime of the converted operand: begin <= time < dies */
    struct reader *next;
};
enum holding { /* how a value occupies memory, without its converted copies */
               HOLDS_REGISTER,
               HOLDS_PARTS,   /* shards of an argument, a variable or a result, held for the whole step */
               HOLDS_NOTHING, /* shares the bytes of its operand: a view or a move */
               HOLDS_OVER,    /* overwrites the old version of a variable, if both have the same layout */
               /* intermediate value of a chain: holds nothing if its readers request the layout in which it is made */
               HOLDS_INNER,
};
struct value {
    int32_t maker;
    const struct layout *const *layout; /* by candidate of the maker, `stride` apart: layout of the value */
    int32_t stride;
    struct type type;
    int64_t times; /* how often the value is made per step */
    struct moment at;
    int32_t nreg; /* number of registers: micro-batches for which the value may be live at once */
    enum holding holds;
    int32_t born, dies;
    bool early; /* a pending reduction of the value may be completed directly after the addends are computed */
    /* true: this entry is the `partly` of another value. Only the user may request a move that makes a value partial.
     */
    bool asked;
    /* the value as read by explicit moves that make it partial, stored separately; NULL: no such move */
    struct value *partly;
    struct reader *reader, **end;
};
struct early { /* memory of an early reduction: a pair of tensors, one for the addends and one for the sums */
    bool any;  /* at least one pair of layouts allows an early reduction */
    const int64_t *bytes[2], *copy[2], *nothing;
};
struct priced {
    size_t bytes;
    const void *key;
    const int64_t *price, *moved, *copy; /* by pair of layouts: time of the move in ns, bytes sent, bytes held */
    const struct early *early;           /* early reduction of a value in a register; NULL: not computed yet */
};
struct planner {
    struct program *p;
    struct atlas *atlas;
    const struct assign_options *o;
    struct assigned *a;
    struct candidates cand;
    const struct candidate_list **list; /* by net node; NULL for leaves and roots */
    const struct layout *const **form;  /* by net node without a candidate list: the layouts that it may choose */
    int32_t *start, *whole;             /* two choices of candidates: the layouts as traced; all layouts replicated */
    struct value *value;                /* results at index node * OP_OUT + out, followed by the leaves */
    struct stages stages;               /* stages of a program with micro-batches */
    struct moment now;                  /* stage and phase of the node under construction */
    uint16_t *moment;                   /* by net node: 1 + stage * NPHASE + phase; 0: not run per micro-batch */
    bool in_pieces;                     /* the node under construction runs per micro-batch */
    /* number of registers of a value that is made in one (stage, phase) and read in another; NULL: 1 */
    const int32_t *credit;
    struct hash_table kept, priced; /* equal arrays as one copy; move costs by type and layouts */
    int32_t *listed, nlisted;       /* by layout id: 1 + index in the current list, 0: absent */
    struct pairs pairs;             /* move costs, used while the cost network is built */
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
