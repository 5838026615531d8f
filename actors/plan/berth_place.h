/* berth_place.h - uses of the registers of a device, and where each of them lies.
 *
 * A struct berths belongs to one berth_registers() (berth.h), which fills all that is said here, and its thread; tables
 * are in arenas of that. Deterministic. */
#ifndef RILLE_PLAN_BERTH_PLACE_H
#define RILLE_PLAN_BERTH_PLACE_H

#include "actors/plan/plan.h"
#include "runtime/arena.h"

enum {
    BERTHS_GOOD = 32, /* by which part of the bound registers, or berths, may take more, and are good enough */
};

struct tenant {
    int32_t task, out;
    int32_t asked, nreg; /* registers that its readers ask for, and those that packing gave it */
    bool again;          /* it is written for each piece */
    int32_t first, nuse; /* its uses */
};
/* Use i of one tenant and use k of another may be live at once if i - k is one of these. */
struct reach {
    int32_t lo, hi;
};
struct use {
    int32_t tenant, berth;
    int64_t bytes, offset;
    int64_t cost; /* of taking it away: its bytes, and as many more each time */
    bool out;     /* it has no place */
};
struct ordered {
    int64_t key, then;
    int32_t use;
};
/* An address, and what the uses that begin or end up to there would cost. */
struct point {
    int64_t at, cost;
};

struct back;
struct waiting;
/* What has ended before tasks begin, as lists by task. */
struct backs {
    int32_t *first; /* by task, -1 */
    struct back *of;
    int32_t n;
};
struct berths {
    struct plan *plan;
    const int32_t *first_out, *asked; /* as berth_registers() is told */
    struct arena arena, of_device;
    int32_t nback;            /* at most, in each of: */
    struct backs all, local;  /* of all tasks; of those near the device at hand */
    bool *is_near;            /* by task: it is of the device, or reads what lies there */
    int32_t *portal, nportal; /* others that come right before one of those */
    bool *late;               /* by task: it acts once, behind some that act for each piece */
    int32_t *lag, *bucket;    /* by task: the least, FAR; by lag: the first that waits, -1 */
    struct waiting *waiting;
    /* Of the device at hand. */
    struct tenant *tenant;
    int32_t ntenant, nuse, nberth;
    int32_t *after;      /* [a * ntenant + b]: use i of a has ended before use k of b begins, if i + this <= k */
    struct reach *reach; /* [a * ntenant + b] */
    int32_t *begun, *from, *heaviest; /* by tenant: how many uses have begun at a moment */
    struct use *use;
    uint64_t *near;               /* a bit by use: the one at hand meets it */
    int64_t *best, *better;       /* by use: where it lies in the best arena so far; in one that may be better */
    int32_t *low, *high, nplaced; /* uses that have a place, by where they begin, and by where they end */
    int32_t *queue, nqueue;       /* those that have none */
    int32_t *met, *ends, nmet;    /* those that the use at hand meets, by where they begin, and end */
    struct point *begin, *end;    /* where they do, and where they end */
    struct ordered *ordered;
    int64_t looks, small; /* looks that are left; fewer bytes are small */
};

static inline const struct out_port *
berth_port(const struct berths *b, const struct tenant *t)
{
    return &b->plan->task[t->task].out[t->out];
}

/* Lists the uses of all tenants; they lie where their registers do. */
void berths_list(struct berths *b);
/* Gives each a place, in b->best, so that those that reach each other share no bytes. Returns what they take, bytes; no
 * arena is smaller than `bound`. */
int64_t berths_place(struct berths *b, int64_t bound);

#endif
