/* kind_transfer.c - a task that brings a window of what lies in another space of devices here, dense; or on its way to
 * another memory, or from there, takes a row to host memory or from it (send.c).
 *
 * It is a task of the device whose stream reaches both sides (device_carrier); its register lies where it is read. */
#include "actors/plan/kind_move.h"
#include "actors/plan/verify_value.h"
#include "runtime/device.h"

static struct type
result(const struct plan *p, int32_t task, int32_t out)
{
    const struct task *t = &p->task[task];
    return move_row(t, (enum dtype)t->move.step[0].view->dtype, out);
}

/* What came from another memory lies with the task that received it. Also of a plan that is not proved. */
static int
kind_from(const struct plan *p, const struct task *t)
{
    int32_t from = t->nin > 0 ? t->in[0].task : -1;
    const struct task *by = from >= 0 && from < p->ntask ? &p->task[from] : NULL;
    bool came = by && by->kind->flags & KIND_FAR && by->device >= 0 && by->device < p->ndevice;
    return came ? p->device[by->device].kind : t->move.of->from->place->kind;
}

static void
print(const struct plan *p, int32_t task, struct str *s)
{
    const struct task *t = &p->task[task];
    int32_t to = task_holder(t);
    str_add(s, t->name);
    if (!t->move.of || to < 0 || to >= p->ndevice) return;
    str_addf(s, " %s -> %s", device_kind_text(kind_from(p, t)), device_kind_text(p->device[to].kind));
}

const struct task_kind kind_transfer = {
    .name = "transfer",
    .flags = KIND_MOVE | KIND_WRITES | KIND_CARRIES,
    .begin = move_begin,
    .check = value_transfer,
    .result = result,
    .print = print,
};
