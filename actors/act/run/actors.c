/* actors.c - the state of a plan's actors: created once, reset by each run. */
#include "actors/act/run/actors.h"

#include "actors/act/run/actor.h"
#include "actors/plan/model/sync.h"
#include "actors/plan/outline/comm_ranks.h"

#include "runtime/device/device.h"
#include "runtime/data/sorted.h"

#include <stdlib.h>

/* Allocates the fill records (struct fill) of a task whose work is on a stream, by result, then register. */
static void
make_fills(struct actors *a, int task)
{
    const struct task *t = &a->plan->task[task];
    if (!device_kind(a->plan->device[t->device].kind)->stream_new) return;
    for (int k = 0; k < t->nout; k++)
        a->fill[a->first_out[task] + k] = ARENA_ARRAY(&a->arena, struct fill, t->out[k].nreg);
}

/* Allocates the counts of readers that still use a register (actors.left) as one array: the counts of the first
 * result by [fan][register], then those of the second result, and so on. A fan is the readers of a result on one
 * thread. */
static void
count_left(struct actors *a)
{
    const struct plan *p = a->plan;
    size_t nout = 0, nleft = 0;
    a->first_out = ARENA_ARRAY(&a->arena, int32_t, p->ntask + 1);
    for (int i = 0; i < p->ntask; i++) {
        a->first_out[i] = (int32_t)nout;
        nout += (size_t)p->task[i].nout;
        for (int k = 0; k < p->task[i].nout; k++)
            nleft += (size_t)p->task[i].out[k].nfan * (size_t)p->task[i].out[k].nreg;
    }
    a->left = ARENA_ARRAY(&a->arena, int32_t *, nout + 1);
    a->fill = ARENA_ARRAY(&a->arena, struct fill *, nout + 1);
    int32_t *left = ARENA_ARRAY(&a->arena, int32_t, nleft + 1), **each = a->left;
    for (int i = 0; i < p->ntask; i++)
        for (int k = 0; k < p->task[i].nout; k++) {
            *each++ = left;
            left += p->task[i].out[k].nfan * p->task[i].out[k].nreg;
        }
}

/* Lists one channel per other host: the first channel to that host, in the order of host numbers. STOP messages are
 * sent to other hosts on these channels. */
static void
list_peers(struct actors *a)
{
    const struct plan *p = a->plan;
    int32_t *memory = must_alloc(sizeof *memory * (size_t)(p->nchannel + 1)), n;
    for (int32_t c = 0; c < p->nchannel; c++) memory[c] = p->channel[c].peer;
    n = sorted_once(memory, p->nchannel);
    a->peer = ARENA_ARRAY(&a->arena, int32_t, n + 1);
    a->npeer = n;
    for (int32_t c = p->nchannel - 1; c >= 0; c--) a->peer[sorted_find(memory, n, p->channel[c].peer)] = c;
    free(memory);
}

struct actors *
actors_new(const struct plan *p)
{
    struct actors *a = must_alloc(sizeof *a);
    a->plan = p;
    a->actor = ARENA_ARRAY(&a->arena, struct actor, p->ntask);
    a->busy_ns = ARENA_ARRAY(&a->arena, int64_t, p->ndevice);
    a->roles = ARENA_ARRAY(&a->arena, uint8_t, p->ndevice);
    a->channel = ARENA_ARRAY(&a->arena, int32_t, p->nchannel);
    sync_roles(p, a->roles);
    count_left(a);
    list_peers(a);
    a->ncommunicator = comm_ranks_communicators(p, &a->arena, &a->communicator);
    for (int i = 0; i < p->ntask; i++) {
        const struct task *t = &p->task[i];
        a->naddress = MAX(a->naddress, t->narg + t->nresult);
        make_fills(a, i);
        a->actor[i].in = ARENA_ARRAY(&a->arena, struct in_state, t->nin);
        a->actor[i].out = ARENA_ARRAY(&a->arena, struct out_state, t->nout);
        for (int k = 0; k < t->nin; k++) {
            const struct in_port *in = &t->in[k];
            int32_t nreg = p->task[in->task].out[in->out].nreg;
            a->actor[i].in[k].left = a->left[a->first_out[in->task] + in->out] + in->fan * nreg;
        }
        for (int k = 0; k < t->nout; k++) a->actor[i].out[k].readers = ARENA_ARRAY(&a->arena, int32_t, t->out[k].nreg);
    }
    return a;
}

void
actors_free(struct actors **ap)
{
    struct actors *a = *ap;
    if (!a) return;
    arena_fini(&a->arena);
    free(a);
    *ap = NULL;
}

size_t
actors_bytes(const struct actors *a)
{
    return sizeof *a + a->arena.used_bytes;
}

bool
actors_acted(const struct actors *a, int task)
{
    return a->actor[task].begun > 0;
}

void
actors_clear(struct actors *a)
{
    for (int i = 0; i < a->plan->ntask; i++) a->actor[i].begun = 0;
}

void
actors_mark(struct actors *a, int task, int32_t acts)
{
    a->actor[task].begun = MAX(a->actor[task].begun, acts);
}

struct run
run_of(struct arena *a, const struct plan *p, struct actors *actors)
{
    const struct program *g = p->program;
    return (struct run){.plan = p,
                        .actors = actors,
                        .leaf = ARENA_ARRAY(a, void *, p->nleaf_part + 1),
                        .root = ARENA_ARRAY(a, void *, p->nroot_part + 1),
                        .number = ARENA_ARRAY(a, uint64_t, g->nnumber + 1),
                        .line = ARENA_ARRAY(a, struct line, g->nnode + 1),
                        .arena = ARENA_ARRAY(a, void *, p->ndevice + 1)};
}
