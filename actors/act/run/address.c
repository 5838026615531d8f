/* address.c - computes the addresses of an act's arguments and results: a plan's offsets plus a run's base
 * addresses. */
#include "actors/act/run/address.h"

#include "actors/act/run/actor.h"

#include "runtime/device/device.h"

/* The address that kernels receive for tensors without elements, which have no memory. */
static _Alignas(64) char nothing[64];

char *
reg_address(const struct run *r, const struct where *w, int reg, int piece)
{
    if (w->kind == IN_TASK) w = &r->plan->task[w->index].out[0].where;
    if (w->stride == 0) return nothing;
    char *base = w->kind == IN_ROOT ? r->root[w->index] : r->arena[w->index];
    return base + (w->nact_offset ? w->berth[piece % w->nact_offset] : w->offset + reg * w->stride);
}

/* Returns the size, bytes, of the live numbers (scalars of the user's program) stored after the device's arena. 0:
 * the device reads the live numbers in host memory. */
static int64_t
numbers_behind(const struct plan *p, int device)
{
    return device_kind(p->device[device].kind)->flags & HOST_READS ? 0 : 8 * (int64_t)p->program->nnumber;
}

int64_t
run_arena_bytes(const struct plan *p, int device)
{
    int64_t arena = p->device[device].arena_bytes, numbers = numbers_behind(p, device);
    return numbers ? where_stride(arena) + numbers : arena;
}

static char *
behind_arena(const struct run *r, int device)
{
    return (char *)r->arena[device] + where_stride(r->plan->device[device].arena_bytes);
}

size_t
run_numbers(const struct run *r, int device, void **at)
{
    int64_t n = numbers_behind(r->plan, device);
    if (n) *at = behind_arena(r, device);
    return (size_t)n;
}

static void *
number_address(const struct run *r, int device, int32_t i)
{
    return numbers_behind(r->plan, device) ? (uint64_t *)behind_arena(r, device) + i : &r->number[i];
}

static void *
arg_address(const struct worker *w, const struct act *a, const struct arg *arg)
{
    switch (arg->kind) {
    case ARG_REG: {
        const struct in_port *p = &a->task->in[arg->index];
        int reg = w->actors->actor[a->task - w->plan->task].in[arg->index].read;
        return reg_address(w->run, &w->plan->task[p->task].out[p->out].where, reg, a->piece) + arg->skip;
    }
    case ARG_LEAF: {
        char *base = w->run->leaf[arg->index];
        return base ? base + arg->skip + a->piece * arg->piece_stride : nothing;
    }
    case ARG_NUMBER: return number_address(w->run, a->task->device, arg->index);
    default: return NULL;
    }
}

void
act_address(const struct worker *w, struct act *a, void **address)
{
    const struct task *t = a->task;
    const struct actor *actor = &w->actors->actor[t - w->plan->task];
    void **in = address, **out = in + t->narg;
    for (int i = 0; i < t->narg; i++) in[i] = arg_address(w, a, &t->arg[i]);
    /* the RECV of a point-to-point link claims its register before its work is enqueued */
    bool direct = t->kind->flags & KIND_P2P;
    for (int k = 0; k < t->nresult; k++)
        out[k] =
            reg_address(w->run, &t->out[k].where, direct ? a->piece % t->out[k].nreg : actor->out[k].write, a->piece);
    a->in = in;
    a->out = out;
    a->scratch = (char *)w->run->arena[t->device] + w->plan->device[t->device].scratch;
}
