/* act_offset_place.h - chooses offsets for the uses of a device's registers.
 *
 * act_offset_registers() (act_offset.h) owns the struct act_offsets, fills the fields below in its own arenas, and
 * runs on one thread. Deterministic. */
#ifndef RILLE_PLAN_ACT_OFFSET_PLACE_H
#define RILLE_PLAN_ACT_OFFSET_PLACE_H

#include "actors/plan/model/plan.h"
#include "runtime/data/arena.h"

enum {
    /* an arena is good enough if it exceeds the lower bound by at most 1/ACT_OFFSETS_GOOD of the bound */
    ACT_OFFSETS_GOOD = 32,
};

struct live_range {
    int32_t task, out;
    /* asked: number of registers that the readers request; nreg: number that packing allocated */
    int32_t asked, nreg;
    bool again;          /* written for each micro-batch */
    int32_t first, nuse; /* index of the live range's first use; number of its uses */
};
/* Two uses, i of one live range and k of another, may be live at the same time if lo <= i - k <= hi. */
struct reach {
    int32_t lo, hi;
};
/* A use: an act's register of a live range, from the act until the last reader is done. berth: number of the use
 * within its live range, and index of its per-act offset. */
struct use {
    int32_t live_range, berth;
    int64_t bytes, offset;
    int64_t cost; /* cost of evicting the use: bytes times (1 + number of past evictions) */
    bool out;     /* true: the use was evicted and has no offset at present */
};
struct ordered {
    int64_t key, then;
    int32_t use;
};
/* An address at which a use in the arena begins or ends, and the cost of evicting this use. */
struct point {
    int64_t at, cost;
};

struct back;
struct waiting;
/* Lists of predecessors, by task. An entry (struct back) tells which act of the predecessor has ended before an act
 * of the task begins. */
struct backs {
    int32_t *first; /* by task: head of its list; -1: empty */
    struct back *of;
    int32_t n;
};
struct act_offsets {
    struct plan *plan;
    const int32_t *first_out, *asked; /* arguments of act_offset_registers() */
    struct arena arena, of_device;
    int32_t nback; /* number of entries that each of `all` and `local` can hold */
    /* all: predecessors of all tasks; local: only tasks near the current device, and portals */
    struct backs all, local;
    bool *is_near; /* by task: true if it runs on the current device, or reads a result stored there */
    /* portals: tasks that are not near the device, but are direct predecessors of a near task */
    int32_t *portal, nportal;
    bool *late; /* by task: true if it runs once, after tasks that run per micro-batch */
    /* lag[task]: fewest micro-batches to go back from the search's first task; FAR: task not reached. bucket[lag]:
     * first task with this lag that is still to be visited; -1: none */
    int32_t *lag, *bucket;
    struct waiting *waiting;
    /* data of the current device: */
    struct live_range *live_range;
    int32_t nlive_range, nuse, nact_offset;
    /* [a * nlive_range + b]: use i of live range a has certainly ended before use k of b begins if i + after <= k */
    int32_t *after;
    struct reach *reach; /* [a * nlive_range + b]: which uses of live ranges a and b may be live together */
    /* moments, as the number of uses begun by live range. begun: the moment under trial; from: the start of the
     * current search; heaviest: the moment found with the most bytes */
    int32_t *begun, *from, *heaviest;
    struct use *use;
    uint64_t *near; /* bit mask by use: true if it may be live at the same time as the current use */
    /* best[use]: offset in the best arena so far; better[use]: offset in the arena under trial */
    int64_t *best, *better;
    int32_t *low, *high, nplaced; /* placed uses, sorted by lowest address, and by highest address */
    int32_t *queue, nqueue;       /* uses without an offset: evicted, or not yet placed */
    /* uses that may be live at the same time as the current use. met: sorted by lowest address; ends: sorted by
     * highest address */
    int32_t *met, *ends, nmet;
    struct point *begin, *end; /* lowest addresses of the uses in met[]; highest addresses of the uses in ends[] */
    struct ordered *ordered;
    int64_t looks, small; /* comparisons left in the budget; size limit of small uses, bytes */
};

static inline const struct out_port *
act_offset_port(const struct act_offsets *b, const struct live_range *t)
{
    return &b->plan->task[t->task].out[t->out];
}

/* Lists the uses of all live ranges, each at the offset of its register. */
void act_offsets_list(struct act_offsets *b);
/* Sets b->best, the offset of each use, so that uses that may be live at the same time share no bytes. Returns
 * the bytes of the arena. bound: lower bound of any arena. */
int64_t act_offsets_place(struct act_offsets *b, int64_t bound);

#endif
