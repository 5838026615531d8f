/* planner.h - internals of the layout planner: the values of a program, and the nodes of its cost network.
 *
 * One thread; all arrays belong to the struct assigned under construction. */
#ifndef RILLE_PLAN_PLANNER_H
#define RILLE_PLAN_PLANNER_H

#include "actors/plan/assign/candidate.h"
#include "actors/plan/assign/move_table.h"
#include "actors/plan/rewrite/rewrite.h"
#include "actors/plan/outline/stage.h"
#include "runtime/data/hash.h"

/* Return points in time of net node i, in the order in which the nodes run. moving(): the operands of node i are
 * converted; running(): the node runs. */
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
    /* layout in which the reader reads the value: entry [candidate * stride], by candidate of the reader */
    const struct layout *const *layout;
    int32_t stride;
    int32_t begin, dies; /* lifetime of the operand's converted copy: begin <= time < dies */
    struct reader *next;
};
enum holding { /* How a value occupies memory, apart from its converted copies. */
               HOLDS_REGISTER,
               HOLDS_PARTS,   /* holds the value's shards for the whole step: an argument, a variable or a result */
               HOLDS_NOTHING, /* holds no bytes, because a view or a move shares the bytes of its operand */
               HOLDS_OVER,    /* overwrites the old version of a variable, if both versions have the same layout */
               /* intermediate value of a chain: holds nothing unless a reader needs the value in another layout */
               HOLDS_INNER,
};
struct value {
    int32_t maker;
    /* layout of the value: entry [candidate * stride], by candidate of the maker */
    const struct layout *const *layout;
    int32_t stride;
    struct type type;
    int64_t times; /* number of times that the value is made per step */
    struct moment at;
    int32_t nreg; /* number of registers: micro-batches whose values may be live at the same time */
    enum holding holds;
    int32_t born, dies;
    /* true: if the value is a pending reduction, it may be reduced right after its addends are computed */
    bool early;
    /* true: this struct is the copy of a value that only explicit moves to partial layouts read (`partly`) */
    bool asked;
    /* copy of this value for explicit moves to partial layouts; NULL: none. The copy is separate because only the
     * user may request such a move */
    struct value *partly;
    struct reader *reader, **end;
};
struct early { /* Memory of a value that is reduced early, as two tensors: the addends, and the sum. */
    bool any;  /* at least one pair of layouts allows an early reduction */
    const int64_t *bytes[2], *copy[2], *nothing;
};
struct priced {
    size_t bytes;
    const void *key;
    /* by pair of layouts: time of the move, ns; bytes that it sends; bytes of the copy */
    const int64_t *price, *moved, *copy;
    /* early reduction of a value that is stored in a register; NULL: not computed yet */
    const struct early *early;
};
struct planner {
    struct program *p;
    struct atlas *atlas;
    const struct assign_options *o;
    struct assigned *a;
    struct candidates cand;
    const struct candidate_list **list; /* by net node: its candidate list; NULL for leaves and roots */
    /* by net node without a candidate list: the layouts among which the node chooses */
    const struct layout *const **form;
    /* start[net node]: candidate with the traced layouts; whole[net node]: candidate with all layouts replicated */
    int32_t *start, *whole;
    /* values: result `out` of node `node` at index node * OP_OUT + out; leaves after all results */
    struct value *value;
    struct stages stages; /* stages of a program with micro-batches */
    struct moment now;    /* stage and phase of the node under construction */
    /* by net node: its moment, as 1 + stage * NPHASE + phase; 0: the node does not run per micro-batch */
    uint16_t *moment;
    bool in_pieces; /* the node under construction runs per micro-batch */
    /* number of registers of a value, by the moments (stage and phase) of its maker and of its reader; NULL: always
     * 1 */
    const int32_t *credit;
    struct hash_table kept, priced; /* kept: interned arrays; priced: move costs by type and layouts */
    /* listed: by layout id, 1 + index of the layout in the current list; 0: absent. nlisted: length of the list */
    int32_t *listed, nlisted;
    struct pairs pairs; /* move costs, used while the cost network is built */
};

static inline struct value *
value_of(struct planner *w, struct ref r)
{
    r = program_source(w->p, r);
    return &w->value[r.kind == REF_LEAF ? w->p->nnode * OP_OUT + r.index : r.index * OP_OUT + r.out];
}

#endif
