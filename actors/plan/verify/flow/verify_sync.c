/* verify_sync.c - proves for every edge that the producer's work is done before the reader's work begins, and that
 * a register is overwritten only after its readers' work.
 *
 * The other proofs treat an edge as "happens before". This file proves for each edge that the work of the producer
 * precedes the work of the reader, on whatever streams. Tasks of a device share scratch memory without edges
 * between them, so they must be on one stream. After a collective, a stream may run only the next collective, so
 * that all ranks can reach it. A stream for a library's sends or receives has no other tasks, because it waits for
 * the other end of the link. */
#include "actors/plan/verify/flow/verify_sync.h"

#include "runtime/device/device.h"
#include "runtime/device/stream.h"

static bool
sync_keeps_order(const struct plan *p, const struct task *from, const struct task *to, uint8_t token)
{
    if (token == SYNC_HOST) return true;
    if ((from->kind->flags | to->kind->flags) & KIND_P2P) return false;
    const struct plan_device *a = &p->device[from->device], *b = &p->device[to->device];
    bool streams = device_kind(a->kind)->stream_new && device_kind(b->kind)->stream_new;
    switch (token) {
    case SYNC_ENQUEUED: return streams && from->device == to->device && from->stream == to->stream;
    case SYNC_EVENT:
        return streams && a->kind == b->kind && a->thread == b->thread && !(from->kind->flags & KIND_COLLECTS);
    default: return false;
    }
}

static int
check_stream(const struct proof *v, int32_t task)
{
    const struct task *t = &v->plan->task[task];
    bool roles = device_kind(v->plan->device[t->device].kind)->flags & ROLES;
    if (t->stream >= (roles ? NSTREAM : 1))
        return proof_fail(v, task, "stream %d does not exist on its device", (int)t->stream);
    if ((t->stream == STREAM_COLLECT) != !!(t->kind->flags & KIND_COLLECTS))
        return proof_fail(v, task, "stream %d must be used for collectives, and for nothing else", (int)t->stream);
    bool sends = t->stream == STREAM_SEND, direct = sends || t->stream == STREAM_RECV;
    if (direct != !!(t->kind->flags & KIND_P2P) || (sends && !(t->kind->flags & KIND_SENDS)))
        return proof_fail(v, task, "stream %d must be used for sends or receives by a library, and for nothing else",
                          (int)t->stream);
    if (t->stream != STREAM_COMPUTE && t->exec && exec_scratch(t->exec))
        return proof_fail(v, task, "uses its device's scratch memory, but not on the compute stream");
    return 0;
}

static int
check_port(const struct proof *v, int32_t task, int32_t k)
{
    const struct plan *p = v->plan;
    const struct task *t = &p->task[task];
    const struct in_port *in = &t->in[k];
    const struct task *from = &p->task[in->task];
    if (!sync_keeps_order(p, from, t, in->token))
        return proof_fail(v, task, "in-port %d does not wait until the work of task %d is done", (int)k, (int)in->task);
    if (in->token != SYNC_HOST && (t->updates || from->out[in->out].control) && task_op(p, from) &&
        v->checks[from->node])
        return proof_fail(v, task, "does not wait until task %d has checked its data", (int)in->task);
    return 0;
}

/* Proves the order of readers in a fan (multicast list): first the readers that are notified when the work is
 * enqueued, then those that are notified when it is done. */
static int
check_fan_sync(const struct proof *v, int32_t task, const struct fan *fan)
{
    for (int32_t r = 0; r < fan->nreader; r++) {
        const struct reader *to = &fan->reader[r];
        bool early = v->inlet[v->first_in[to->task] + to->port].token != SYNC_HOST;
        if (early != (r < fan->nissued))
            return proof_fail(v, task,
                              "reader %d of an output must be notified %s the work of the task is done, found %s",
                              (int)r, early ? "before" : "after", early ? "after" : "before");
    }
    if (fan->nissued >= 0 && fan->nissued <= fan->nreader) return 0;
    return proof_fail(v, task,
                      "the number of readers of an output that are notified early must be from 0 to %d, found %d",
                      (int)fan->nreader, (int)fan->nissued);
}

int
prove_syncs(struct proof *v)
{
    const struct plan *p = v->plan;
    for (int32_t i = 0; i < p->ntask; i++) {
        TRY(check_stream(v, i));
        for (int32_t k = 0; k < p->task[i].nin; k++) TRY(check_port(v, i, k));
        for (int32_t k = 0; k < p->task[i].nout; k++)
            for (int32_t f = 0; f < p->task[i].out[k].nfan; f++) TRY(check_fan_sync(v, i, &p->task[i].out[k].fan[f]));
    }
    return 0;
}
