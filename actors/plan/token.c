/* token.c - what each edge tells its reader: that work was enqueued, an event, or that it is done.
 *
 * On one stream order is enough: the reader is enqueued behind the producer at once,
 * and a register goes back to be written behind its reader. Another stream of the
 * same thread waits for an event. Everybody else - host code, other threads, other
 * kinds of devices - hears when the work is done. So do an update, and a gate, of
 * those who may refuse data: whether they did is known to the host alone, and only
 * then. */
#include "actors/plan/token.h"

#include "runtime/device.h"

static bool
has_streams(const struct plan_device *d)
{
    return device_kind(d->kind)->stream_new;
}

static bool
may_refuse(const struct plan *p, const struct task *t)
{
    const struct op *op = task_op(p, t);
    return op && op->say;
}

static enum token
token_of(const struct plan *p, const struct task *from, int32_t out, const struct task *to)
{
    const struct plan_device *a = &p->device[from->device], *b = &p->device[to->device];
    if (!has_streams(a) || !has_streams(b)) return TOKEN_DONE;
    if ((to->updates || from->out[out].control) && may_refuse(p, from)) return TOKEN_DONE;
    if (from->device == to->device) return TOKEN_ISSUED;
    return a->kind == b->kind && a->thread == b->thread ? TOKEN_EVENT : TOKEN_DONE;
}

void
token_choose(struct plan *p)
{
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nin; k++) {
            struct in_port *in = &p->task[i].in[k];
            in->token = (uint8_t)token_of(p, &p->task[in->task], in->out, &p->task[i]);
        }
}
