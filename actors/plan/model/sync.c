/* sync.c - chooses the streams of tasks, and the synchronisation of each edge (enum sync): enqueued, event, or
 * host.
 *
 * Moves have streams of their own, so that bytes travel while kernels compute. Transfers into a device do not
 * wait behind transfers out of it. Neither kind of transfer waits behind moves among devices, because a move
 * among devices needs all these devices at the same time. A library collective waits for other devices. So work
 * for which other devices may wait is never enqueued behind a collective.
 *
 * On one stream the order of enqueueing suffices: the reader is enqueued after the producer, and the next writer
 * of the register after the reader. A reader on another stream of the same thread, of the same device or another,
 * waits for an event. All other readers (host code, other threads, other kinds of devices) are notified when the
 * work is done. Updates and gates after tasks that may reject data are also notified when the work is done,
 * because only then the host knows whether data was rejected. All readers of a collective except the next
 * collective are notified when its work is done, too: a reader that waits on its stream could block work for
 * which other ranks wait. A library's transfers between devices have one stream per link. Such a transfer begins
 * when its inputs are done, even if the other end is not ready. Its readers are notified when it is done.
 *
 * Edges between pipeline stages also use host synchronisation. A stage processes forward and backward inputs in
 * the order of their arrival. If a move waited on a stream for its stage's turn, it would block the moves after
 * it. */
#include "actors/plan/model/sync.h"

#include "runtime/device/device.h"
#include "runtime/device/stream.h"

#include <string.h>

/* Returns the role of the stream that runs a task. A transfer, or a move of an offloaded value, has role IN if it
 * writes to the memory of its own device, and role OUT if it writes to the memory of the reader's device. */
static enum stream_role
role_of(const struct plan *p, const struct task *t)
{
    if (!(t->kind->flags & KIND_MOVE) || !(device_kind(p->device[t->device].kind)->flags & ROLES))
        return STREAM_COMPUTE;
    if (t->kind->flags & KIND_COLLECTS) return STREAM_COLLECT;
    if (t->kind->flags & KIND_P2P) return t->kind->flags & KIND_SENDS ? STREAM_SEND : STREAM_RECV;
    if (!(t->kind->flags & KIND_CARRIES) && !task_fetches(p, t)) return STREAM_MOVE;
    return task_holder(t) == t->device ? STREAM_IN : STREAM_OUT;
}

bool
sync_has_streams(const struct plan_device *d)
{
    return device_kind(d->kind)->stream_new;
}

/* Returns the synchronisation of an edge. checks: by node, whether the node validates data (program_checks). */
static enum sync
token_of(const struct plan *p, const bool *checks, const struct task *from, int32_t out, const struct task *to)
{
    const struct plan_device *a = &p->device[from->device], *b = &p->device[to->device];
    if (!sync_has_streams(a) || !sync_has_streams(b)) return SYNC_HOST;
    if ((to->updates || from->out[out].control) && task_op(p, from) && checks[from->node]) return SYNC_HOST;
    if ((from->kind->flags | to->kind->flags) & KIND_P2P) return SYNC_HOST;
    if (from->device == to->device && from->stream == to->stream) return SYNC_ENQUEUED;
    if (from->kind->flags & KIND_COLLECTS) return SYNC_HOST;
    if (p->pieces > 1 && from->stage != to->stage) return SYNC_HOST;
    return a->kind == b->kind && a->thread == b->thread ? SYNC_EVENT : SYNC_HOST;
}

void
sync_choose(struct plan *p)
{
    struct arena a = {0};
    const bool *checks = program_checks(p->program, &a);
    for (int32_t i = 0; i < p->ntask; i++) p->task[i].stream = (uint8_t)role_of(p, &p->task[i]);
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nin; k++) {
            struct in_port *in = &p->task[i].in[k];
            in->token = (uint8_t)token_of(p, checks, &p->task[in->task], in->out, &p->task[i]);
            /* the reader returns the register only when its work is done, so the completion of the reader's work
             * must be observed, too */
            if (in->token != SYNC_ENQUEUED) p->task[in->task].shown = p->task[i].shown = true;
        }
    arena_fini(&a);
}

void
sync_roles(const struct plan *p, uint8_t *roles)
{
    memset(roles, 0, (size_t)p->ndevice);
    for (int32_t i = 0; i < p->ntask; i++) roles[p->task[i].device] |= (uint8_t)(1 << p->task[i].stream);
}
