/* planner.h - inside the planner: a program's values and the nodes of its cost network, while assign.c makes it.
 *
 * One thread; all arrays belong to the plan of layouts that is made (struct assigned). */
#ifndef RILLE_PLAN_PLANNER_H
#define RILLE_PLAN_PLANNER_H

#include "actors/plan/assign.h"
#include "actors/plan/candidate.h"
#include "actors/plan/pairs.h"
#include "actors/plan/rewrite.h"
#include "actors/plan/stage.h"
#include "runtime/hash.h"

/* When node i of the net has its operands moved to where it wants them, and when it runs. */
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

/* One value of the program: who makes it, and who reads it in which layouts. */
struct reader {
    int32_t node;                       /* of the net */
    const struct layout *const *layout; /* by candidate, `stride` apart */
    int32_t stride;
    int32_t begin, dies; /* what it reads, moved for it, is there at begin <= t < dies */
    struct reader *next;
};
enum holding { /* what a value holds, beside what is moved for its readers */
               HOLDS_REGISTER,
               HOLDS_PARTS, /* the bytes of an argument, a variable or a result, which a step has from beginning to end
                             */
               HOLDS_NOTHING, /* it has the bytes of what it reads: a view, a move */
               HOLDS_OVER,    /* it is written over the old version of a variable, if it lies as that one does */
               HOLDS_INNER,   /* a chain computes it and its readers at once, if it lies as they want it */
};
struct value {
    int32_t maker;
    const struct layout *const *layout; /* by the maker's candidate, `stride` apart */
    int32_t stride;
    struct type type;
    int64_t times; /* how often it is made in a step */
    struct moment at;
    int32_t nreg; /* registers: as many pieces may have it at one time */
    enum holding holds;
    int32_t born, dies;
    bool early;           /* the sum of what it owes may be made right behind it */
    bool asked;           /* as moves read it that the user wrote, which make it partial: they may */
    struct value *partly; /* as those read it; NULL: none does */
    struct reader *reader, **end;
};
struct early { /* sums made right behind their addends: what two tensors hold, the addends' and the sums' */
    bool any;  /* may be made so */
    const int64_t *bytes[2], *copy[2], *nothing;
};
struct priced {
    size_t bytes;
    const void *key;
    const int64_t *price, *moved, *copy; /* what moving costs, what it sends, and what it takes */
    const struct early *early;           /* of a value that holds a register; NULL: nobody asked yet */
};
struct planner {
    struct program *p;
    struct atlas *atlas;
    const struct assign_options *o;
    struct assigned *a;
    struct candidates cand;
    const struct candidate_list **list; /* by net node; NULL: of a leaf or a root */
    const struct layout *const **form;  /* by net node without a list: its candidates' layouts */
    int32_t *start, *whole;             /* choices: as it lies, and everything on every device */
    struct value *value;                /* results at node * OP_OUT + out, leaves after those */
    struct stages stages;               /* of a program in pieces */
    struct moment now;                  /* of the node in the making */
    uint16_t *moment;                   /* by net node: 1 + stage * NPHASE + phase; 0: it is none of a piece's */
    bool in_pieces;                     /* it is made once a piece */
    const int32_t *credit;              /* by moment, by moment: registers between them; NULL: one */
    struct hash_table kept, priced;     /* arrays by content; what moving costs */
    int32_t *listed, nlisted;           /* by number of a layout: where it stands in the list of forms at hand */
    struct pairs pairs;                 /* while the net is made */
};

static inline struct value *
value_of(struct planner *w, struct ref r)
{
    r = rewrite_source(w->p, r);
    return &w->value[r.kind == REF_LEAF ? w->p->nnode * OP_OUT + r.index : r.index * OP_OUT + r.out];
}

/* assign.c: what node i looks at. */
struct value *planner_source(struct planner *w, int32_t i);

/* lifetimes.c: says when values are there, and in how many registers, once all nodes are made. */
void planner_lifetimes(struct planner *w);

#endif
