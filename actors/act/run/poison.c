/* poison.c - fills free registers with NaN.
 *
 * The micro-batch of an act determines which registers the act reads and writes. After each read a counter of the
 * register is decremented, on the thread of the reader's stream. The last reader fills the register and resets the
 * counter for the register's next content. */
#include "actors/act/run/poison.h"

#include "actors/act/run/actor.h"
#include "actors/act/run/address.h"

#include "runtime/data/arena.h"

#include <string.h>

/* Returns the result that owns the registers in which result (task, out) is stored, and sets *result to its index.
 * If the place is IN_TASK, that is a result of another task; otherwise it is (task, out) itself. */
static const struct out_port *
holder_port(const struct actors *a, int task, int out, int32_t *result)
{
    const struct out_port *o = &a->plan->task[task].out[out];
    bool lodges = o->where.kind == IN_TASK;
    *result = lodges ? a->first_out[o->where.index] : a->first_out[task] + out;
    return lodges ? &a->plan->task[o->where.index].out[0] : o;
}

static void
make_poison(struct actors *a)
{
    const struct plan *p = a->plan;
    int32_t nresult = 0, nreg = 0, result;
    for (int i = 0; i < p->ntask; i++) nresult += p->task[i].nout;
    struct poison *x = arena_alloc(&a->arena, sizeof *x);
    x->first = ARENA_ARRAY(&a->arena, int32_t, nresult + 1);
    x->readers = ARENA_ARRAY(&a->arena, int32_t, nresult + 1);
    for (int i = 0; i < p->ntask; i++)
        for (int k = 0; k < p->task[i].nout; k++) {
            const struct out_port *o = &p->task[i].out[k];
            x->first[a->first_out[i] + k] = nreg;
            nreg += o->nreg;
            if (o->control) continue;
            holder_port(a, i, k, &result);
            for (int f = 0; f < o->nfan; f++) x->readers[result] += o->fan[f].nreader;
        }
    x->left = ARENA_ARRAY(&a->arena, _Atomic int32_t, nreg + 1);
    a->poison = x;
}

void
poison_begin(const struct run *r)
{
    struct actors *a = r->actors;
    if (!a->poison) make_poison(a);
    for (int i = 0; i < a->plan->ntask; i++)
        for (int k = 0; k < a->plan->task[i].nout; k++) {
            int32_t result = a->first_out[i] + k, first = a->poison->first[result];
            for (int reg = 0; reg < a->plan->task[i].out[k].nreg; reg++)
                atomic_store(&a->poison->left[first + reg], a->poison->readers[result]);
        }
}

static void
fill_register(const struct run *r, const struct out_port *o, int reg, int piece, const struct stream *s)
{
    if (o->where.kind != IN_ARENA || o->bytes == 0) return;
    memset(stream_reach(s, reg_address(r, &o->where, reg, piece)), 0xff, (size_t)o->bytes);
}

/* Encodes the task and micro-batch of an act as the argument of stream work. */
static struct stream_work
work_of_fill(const struct run *r, int task, int piece)
{
    return (struct stream_work){.of = r, .piece = (uint64_t)task << 32 | (uint32_t)piece};
}

static int
fill_outputs(const struct stream_work *work, const struct stream *s)
{
    const struct run *r = work->of;
    const struct task *t = &r->plan->task[work->piece >> 32];
    int piece = (int)(work->piece & UINT32_MAX);
    for (int k = 0; k < t->nresult; k++) {
        const struct out_port *o = &t->out[k];
        /* skips a register that other tasks write, too, or that was written by an earlier act and keeps its
         * content */
        if (o->control || o->shared || piece % o->every) continue;
        fill_register(r, o, piece / o->every % o->nreg, piece, s);
    }
    return 0;
}

static int
leave_inputs(const struct stream_work *work, const struct stream *s)
{
    const struct run *r = work->of;
    const struct task *t = &r->plan->task[work->piece >> 32];
    const struct poison *x = r->actors->poison;
    int piece = (int)(work->piece & UINT32_MAX);
    for (int k = 0; k < t->nin; k++) {
        const struct in_port *in = &t->in[k];
        int32_t result;
        if (r->plan->task[in->task].out[in->out].control || (piece + 1) % in->hold) continue;
        const struct out_port *o = holder_port(r->actors, in->task, in->out, &result);
        int reg = piece / in->hold % o->nreg;
        _Atomic int32_t *left = &x->left[x->first[result] + reg];
        if (atomic_fetch_sub(left, 1) > 1) continue;
        fill_register(r, o, reg, piece, s);
        atomic_store(left, x->readers[result]);
    }
    return 0;
}

void
poison_outputs(const struct run *r, int task, int piece, struct stream *s)
{
    struct stream_work work = work_of_fill(r, task, piece);
    work.run = fill_outputs;
    if (r->poison) stream_enqueue(s, &work);
}

void
poison_inputs(const struct run *r, int task, int piece, struct stream *s)
{
    struct stream_work work = work_of_fill(r, task, piece);
    work.run = leave_inputs;
    if (r->poison) stream_enqueue(s, &work);
}
