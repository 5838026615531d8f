/* token.c - streams of tasks, and what each edge tells its reader: that work was enqueued, an event, or that it is
 * done.
 *
 * Moves have streams of their own, so that bytes travel while kernels compute; what
 * brings values in does not wait behind what takes others out, nor either behind
 * moves among devices that need all of these at the same time. Collectives of a library
 * wait for other devices: nothing that these may wait for is behind them.
 *
 * On one stream order is enough: the reader is enqueued behind the producer at once,
 * and a register goes back to be written behind its reader. Another stream of the
 * same thread, of that device or another, waits for an event. Everybody else - host
 * code, other threads, other kinds of devices - hears when the work is done. So do an
 * update, and a gate, of those who may refuse data: whether they did is known to the
 * host alone, and only then. And so do all who wait for a collective, but the next
 * one: the stream on which they stood could hold up what its other seats wait for. What
 * a library brings from device to device has streams of its own, one an edge; it begins
 * when all that it waits for is done, but for the other end, and all wait until it is.
 *
 * From stage to stage of a step in pieces edges say done as well: a stage takes what
 * comes to it from both sides in the order in which it comes, and a move that waited
 * for its stage's turn would hold up those behind it on its stream. */
#include "actors/plan/token.h"

#include "runtime/device.h"
#include "runtime/stream.h"

#include <string.h>

/* What a transfer, or a move of what lies aside, fills lies at its own device, or at that of who reads it. */
static enum stream_role
role_of(const struct plan *p, const struct task *t)
{
    if (!(t->kind->flags & KIND_MOVE) || !(device_kind(p->device[t->device].kind)->flags & ROLES))
        return STREAM_COMPUTE;
    if (t->kind->flags & KIND_COLLECTS) return STREAM_COLLECT;
    if (t->kind->flags & KIND_DIRECT) return t->kind->flags & KIND_SENDS ? STREAM_SEND : STREAM_RECV;
    if (!(t->kind->flags & KIND_CARRIES) && !task_brings(p, t)) return STREAM_MOVE;
    return task_holder(t) == t->device ? STREAM_IN : STREAM_OUT;
}

static bool
has_streams(const struct plan_device *d)
{
    return device_kind(d->kind)->stream_new;
}

/* checks: by node, program_checks. */
static enum token
token_of(const struct plan *p, const bool *checks, const struct task *from, int32_t out, const struct task *to)
{
    const struct plan_device *a = &p->device[from->device], *b = &p->device[to->device];
    if (!has_streams(a) || !has_streams(b)) return TOKEN_DONE;
    if ((to->updates || from->out[out].control) && task_op(p, from) && checks[from->node]) return TOKEN_DONE;
    if ((from->kind->flags | to->kind->flags) & KIND_DIRECT) return TOKEN_DONE;
    if (from->device == to->device && from->stream == to->stream) return TOKEN_ISSUED;
    if (from->kind->flags & KIND_COLLECTS) return TOKEN_DONE;
    if (p->pieces > 1 && from->stage != to->stage) return TOKEN_DONE;
    return a->kind == b->kind && a->thread == b->thread ? TOKEN_EVENT : TOKEN_DONE;
}

void
token_choose(struct plan *p)
{
    struct arena a = {0};
    const bool *checks = program_checks(p->program, &a);
    for (int32_t i = 0; i < p->ntask; i++) p->task[i].stream = (uint8_t)role_of(p, &p->task[i]);
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nin; k++) {
            struct in_port *in = &p->task[i].in[k];
            in->token = (uint8_t)token_of(p, checks, &p->task[in->task], in->out, &p->task[i]);
            if (in->token != TOKEN_ISSUED)
                p->task[in->task].shown = p->task[i].shown = true; /* what is read goes back */
        }
    arena_fini(&a);
}

void
token_roles(const struct plan *p, uint8_t *roles)
{
    memset(roles, 0, (size_t)p->ndevice);
    for (int32_t i = 0; i < p->ntask; i++) roles[p->task[i].device] |= (uint8_t)(1 << p->task[i].stream);
}
