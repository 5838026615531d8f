/* sizes.c - computes how much memory each device needs: checks that sums of sizes do not overflow, and adds
 * scratch memory after the arena's registers. */
#include "actors/plan/memory/sizes.h"

#include "runtime/device/device.h"
#include "runtime/base/error.h"

static int
too_large(const struct plan_device *d)
{
    return fail(E_MEMORY, "%s:%d: this run needs more than 2^63 bytes", device_kind_text(d->kind), (int)d->rank);
}

/* Checks that no sum of register sizes overflows. */
int
sizes_check(struct lower *l)
{
    const int64_t most = INT64_MAX - (1 << 20);
    struct plan *p = l->plan;
    int64_t *left = ARENA_ARRAY(&l->pass, int64_t, p->ndevice);
    for (int d = 0; d < p->ndevice; d++) left[d] = most;
    for (int32_t i = 0; i < l->ndraft; i++) {
        const struct draft *draft = &l->draft[i];
        for (int k = 0; k < draft->nout; k++) {
            const struct out_port *o = &draft->out[k];
            if (o->where.kind != IN_ARENA) continue;
            int32_t d = o->where.index;
            int64_t bytes = o->bytes, nreg = MAX(o->nreg, 1);
            if (bytes > left[d] / nreg - ARENA_ALIGN) return too_large(&p->device[d]);
            left[d] -= nreg * (bytes + ARENA_ALIGN);
        }
    }
    for (int32_t i = 0; i < l->ndraft; i++) {
        const struct task *t = &l->draft[i].task;
        if (t->exec && (int64_t)exec_scratch(t->exec) > left[t->device]) return too_large(&p->device[t->device]);
    }
    return 0;
}

void
sizes_scratch(struct lower *l)
{
    struct plan *p = l->plan;
    for (int32_t i = 0; i < l->ndraft; i++) {
        const struct task *task = &l->draft[i].task;
        if (!task->exec) continue;
        struct plan_device *d = &p->device[task->device];
        d->scratch_bytes = MAX(d->scratch_bytes, (int64_t)exec_scratch(task->exec));
    }
    for (int d = 0; d < p->ndevice; d++) {
        struct plan_device *dev = &p->device[d];
        dev->scratch = (dev->arena_bytes + ARENA_ALIGN - 1) & ~(int64_t)(ARENA_ALIGN - 1);
        dev->arena_bytes = dev->scratch + dev->scratch_bytes;
    }
}
