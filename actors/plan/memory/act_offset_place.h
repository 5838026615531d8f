/* act_offset_place.h - offsets for the uses of a device's registers.
 *
 * act_offset_registers() (act_offset.h) owns the struct act_offsets, fills the fields below in its own arenas, and runs
 * on one thread. Deterministic. */
#ifndef RILLE_PLAN_ACT_OFFSET_PLACE_H
#define RILLE_PLAN_ACT_OFFSET_PLACE_H

#include "actors/plan/model/plan.h"
#include "runtime/base/arena.h"

enum {
    ACT_OFFSETS_GOOD = 32, /* registers, or uses, that take at most 1/32 more than the bound are good enough */
};

struct live_range {
    int32_t task, out;
    int32_t asked, nreg; /* registers requested by the readers; registers that packing allocated */
    bool again;          /* written for each micro-batch */
    int32_t first, nuse; /* index of the first use; number of uses */
};
/* Range of i - k for which use i of one live range and use k of another may be live at once. */
struct reach {
    int32_t lo, hi;
};
struct use {
    int32_t live_range, berth;
    int64_t bytes, offset;
    int64_t cost; /* cost of eviction: bytes times (1 + past evictions) */
    bool out;     /* evicted: no offset at present */
};
struct ordered {
    int64_t key, then;
    int32_t use;
};
/* An address, and the eviction cost of the use that begins or ends there. */
struct point {
    int64_t at, cost;
};

struct back;
struct waiting;
/* Predecessors that have ended before a task begins, as linked lists by task. */
struct backs {
    int32_t *first; /* by task: head of its list, -1: none */
    struct back *of;
    int32_t n;
};
struct act_offsets {
    struct plan *plan;
    const int32_t *first_out, *asked; /* arguments of act_offset_registers() */
    struct arena arena, of_device;
    int32_t nback;            /* capacity of `all` and of `local` */
    struct backs all, local;  /* lists of all tasks; of the tasks near the current device */
    bool *is_near;            /* by task: runs on the device, or reads a result stored there */
    int32_t *portal, nportal; /* tasks that are not near but directly precede a near task */
    bool *late;               /* by task: runs once, after tasks that run per micro-batch */
    int32_t *lag, *bucket;    /* by task: least lag found, FAR: none; by lag: head of its bucket, -1 */
    struct waiting *waiting;
    /* The current device. */
    struct live_range *live_range;
    int32_t nlive_range, nuse, nact_offset;
    int32_t *after;      /* [a * nlive_range + b]: use i of a has ended before use k of b begins, if i + after <= k */
    struct reach *reach; /* [a * nlive_range + b] */
    int32_t *begun, *from, *heaviest; /* by live range: number of uses begun at a moment */
    struct use *use;
    uint64_t *near;               /* bit mask by use: may be live together with the current use */
    int64_t *best, *better;       /* by use: offset in the best arena so far; in the arena under trial */
    int32_t *low, *high, nplaced; /* placed uses, sorted by lowest address; by highest */
    int32_t *queue, nqueue;       /* uses without an offset */
    int32_t *met, *ends, nmet;    /* uses that may be live with the current one, by lowest address; by highest */
    struct point *begin, *end;    /* their lowest addresses; their highest */
    struct ordered *ordered;
    int64_t looks, small; /* comparisons left in the budget; bytes below which a use is small */
};

static inline const struct out_port *
act_offset_port(const struct act_offsets *b, const struct live_range *t)
{
    return &b->plan->task[t->task].out[t->out];
}

/* Lists the uses of all live ranges, at the offsets of their registers. */
void act_offsets_list(struct act_offsets *b);
/* Assigns each use an offset, in b->best. Uses that may be live together share no bytes. Returns the bytes of the
 * arena. bound: no arena is smaller. */
int64_t act_offsets_place(struct act_offsets *b, int64_t bound);

#endif
