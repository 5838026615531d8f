/* kind_transfer.c - a task that makes a dense copy of a window from another memory space. For a channel between
 * hosts, the task copies a dense vector from a device to host memory or back (send.c).
 *
 * The task runs on the device whose stream can access both memories (device_carrier). Its register is in the
 * reader's memory. */
#include "actors/plan/kinds/kind_move.h"
#include "actors/plan/verify/value/verify_send.h"
#include "runtime/device/device.h"

static struct type
transfer_result(const struct plan *p, int32_t task, int32_t out)
{
    const struct task *t = &p->task[task];
    return move_row(t, (enum dtype)t->move.step[0].view->dtype, out);
}

/* Returns the kind of the device whose memory holds the source. For data received from another host, returns the
 * kind of the receiving task's device. Also works for a plan that was not verified. */
static int
kind_from(const struct plan *p, const struct task *t)
{
    int32_t from = t->nin > 0 ? t->in[0].task : -1;
    const struct task *by = from >= 0 && from < p->ntask ? &p->task[from] : NULL;
    bool came = by && by->kind->flags & KIND_FAR && by->device >= 0 && by->device < p->ndevice;
    return came ? p->device[by->device].kind : t->move.of->from->place->kind;
}

static void
print_transfer_task(const struct plan *p, int32_t task, struct str *s)
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
    .result = transfer_result,
    .print = print_transfer_task,
};
