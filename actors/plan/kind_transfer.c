/* kind_transfer.c - a task that brings a window of what lies in another space of devices here, dense.
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

/* Also of a plan that is not proved. */
static void
print(const struct plan *p, int32_t task, struct str *s)
{
    const struct task *t = &p->task[task];
    int32_t to = task_holder(t);
    str_add(s, t->name);
    if (!t->move.of || to < 0 || to >= p->ndevice) return;
    str_addf(s, " %s -> %s", device_kind_text(t->move.of->from->place->kind), device_kind_text(p->device[to].kind));
}

const struct task_kind kind_transfer = {
    .name = "transfer",
    .flags = KIND_MOVE | KIND_WRITES | KIND_CARRIES,
    .begin = move_begin,
    .check = value_transfer,
    .result = result,
    .print = print,
};
