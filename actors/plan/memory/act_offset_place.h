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
    int32_t asked, nreg; /* number of registers that the readers request; number that packing allocated */
    bool again;          /* written for each micro-batch */
    int32_t first, nuse; /* index of its first use; number of its uses */
};
/* Two uses, i of one live range and k of another, may be live at the same time if i - k is in this range. */
struct reach {
    int32_t lo, hi;
};
/* The use of a register of a live range by one act. berth: number of the use, and of its per-act offset. */
struct use {
    int32_t live_range, berth;
    int64_t bytes, offset;
    int64_t cost; /* cost of evicting the use: bytes times (1 + number of past evictions) */
    bool out;     /* evicted: the use has no offset at present */
};
struct ordered {
    int64_t key, then;
    int32_t use;
};
/* An address at which a use begins or ends, and the cost of evicting the use. */
struct point {
    int64_t at, cost;
};

struct back;
struct waiting;
/* Lists of predecessors, by task. An entry tells which acts of a predecessor have ended before an act of the task
 * begins. */
struct backs {
    int32_t *first; /* by task: head of its list; -1: empty */
    struct back *of;
    int32_t n;
};
struct act_offsets {
    struct plan *plan;
    const int32_t *first_out, *asked; /* arguments of act_offset_registers() */
    struct arena arena, of_device;
    int32_t nback;            /* number of entries allocated in `all`, and in `local` */
    struct backs all, local;  /* lists of all tasks; lists that contain only tasks near the current device */
    bool *is_near;            /* by task: true if it runs on the current device, or reads a result stored there */
    int32_t *portal, nportal; /* tasks that are not near the device but are direct predecessors of a near task */
    bool *late;               /* by task: true if it runs once, after tasks that run per micro-batch */
    /* lag[task]: least lag found, FAR: none; bucket[lag]: first task in the lag's bucket, -1: none */
    int32_t *lag, *bucket;
    struct waiting *waiting;
    /* data of the current device: */
    struct live_range *live_range;
    int32_t nlive_range, nuse, nact_offset;
    /* [a * nlive_range + b]: use i of live range a has ended before use k of b begins if i + after <= k */
    int32_t *after;
    struct reach *reach; /* [a * nlive_range + b]: which uses of live ranges a and b may be live at the same time */
    /* number of uses begun, by live range. begun: at the moment under trial; from: at the start of the trial;
     * heaviest: at the best moment */
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
