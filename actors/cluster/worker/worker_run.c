/* worker_run.c - a run: binds addresses, runs the engine, reports the outcome. */
#include "actors/cluster/worker/worker_run.h"

#include "actors/cluster/worker/worker_job.h"
#include "actors/cluster/worker/worker_unite.h"
#include "actors/cluster/worker/worker_values.h"
#include "actors/act/run/address.h"
#include "actors/act/run/engine.h"
#include "actors/act/run/inspect.h"
#include "actors/cluster/wire/position.h"

#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "actors/cluster/transport/carrier_channels.h"
#include "actors/cluster/coordinator/coordinator_run.h"

#include <stdlib.h>
#include <string.h>

/* Sets *out to the address of buffer i, which must have `bytes` bytes; NULL if the buffer has no bytes. */
static int
address(const struct worker_process *w, struct span places, size_t i, int64_t bytes, void **out)
{
    struct spot spot;
    uint64_t at;
    memcpy(&at, places.bytes + 8 * i, 8);
    *out = NULL;
    if (at == POSITION_NONE && bytes == 0) return 0;
    if (bytes < 0 || at % 64)
        return fail(
            E_BUS,
            "packet START: buffer %zu must have a size of at least 0 and a position that is a multiple of 64, found "
            "%lld bytes at %llu",
            i, (long long)bytes, (unsigned long long)at);
    int status = worker_find(w, at, (size_t)bytes, &spot);
    if (status) err_note("packet START: buffer %zu", i);
    *out = status ? NULL : spot.data;
    return status;
}

/* Sets the addresses of buffers and the live numbers (scalars of the user's program) of a run, from its START
 * packet. The caller holds the lock. */
static int
bind_run(const struct worker_process *w, struct job *j, const struct packet *p)
{
    const struct plan *plan = j->plan;
    size_t want = (size_t)plan->nleaf_part + (size_t)plan->nroot_part + (size_t)plan->ndevice, k = 0;
    size_t numbers = (size_t)plan->program->nnumber;
    if (p->places.n != 8 * want || p->numbers.n != 8 * numbers)
        return fail(E_BUS, "packet START: found %u buffers and %u numbers, expected %zu and %zu", p->places.n / 8,
                    p->numbers.n / 8, want, numbers);
    for (int32_t i = 0; i < plan->nleaf_part; i++)
        TRY(address(w, p->places, k++, plan->leaf_part[i].bytes, &j->run.leaf[i]));
    for (int32_t i = 0; i < plan->nroot_part; i++)
        TRY(address(w, p->places, k++, plan->root_part[i].bytes, &j->run.root[i]));
    for (int32_t i = 0; i < plan->ndevice; i++)
        TRY(address(w, p->places, k++, run_arena_bytes(plan, i), &j->run.arena[i]));
    if (numbers) memcpy(j->run.number, p->numbers.bytes, 8 * numbers);
    return 0;
}

static bool
updates(const struct program *p)
{
    for (int32_t k = 0; k < p->nroot; k++)
        if (p->root[k].overwrites_leaf >= 0) return true;
    return false;
}

/* Runs the program. Sets *ran to false if no act began: the worker leaves, the run was stopped before it began, or
 * communicators could not be created. */
static int
run_job(struct worker_process *w, struct job *j, const struct packet *p, bool *ran)
{
    const struct plan *plan = j->plan;
    j->run.timed = p->flags & START_TIMED;
    j->run.id = p->run;
    if (j->carrying) carrier_begin(w->shared.carrier, j->carrying, p->run);
    pthread_mutex_lock(&w->lock);
    bool late = w->shared.leave.asked || (w->shared.run.stop == p->run && w->shared.run.stop_why >= STOP_FAILED);
    w->shared.run.id = p->run;
    w->shared.run.plan = plan;
    w->shared.run.meets = true;
    atomic_store(&w->shared.run.parts, false);
    w->shared.run.decides = plan->nmemory == 0 || plan->memories[0] == plan->memory;
    w->shared.run.yields = w->shared.run.decides || !updates(plan->program);
    pthread_mutex_unlock(&w->lock);
    int status = late ? fail(E_CANCEL, "interrupted") : worker_unite_meet(w, j, p);
    *ran = !status;
    if (*ran) status = engine_run(w->shared.engine, &j->run);
    if (j->carrying) carrier_end(w->shared.carrier);
    return status;
}

/* Returns the roots (output shards) that updates had begun to overwrite in a failed run; such shards are half
 * written. The caller frees the array. */
static int32_t *
list_begun(const struct job *j, int *n)
{
    const struct plan *p = j->plan;
    bool *begun = must_alloc((size_t)p->program->nroot + 1);
    int32_t *list = must_alloc(sizeof *list * (size_t)(p->program->nroot + 1));
    *n = 0;
    for (int32_t i = 0; i < p->ntask; i++)
        for (int k = 0; p->task[i].updates && actors_acted(j->actors, i) && k < p->task[i].nout; k++) {
            const struct where *w = &p->task[i].out[k].where;
            if (w->kind == IN_ROOT) begun[p->root_part[w->index].index] = true;
        }
    for (int32_t k = 0; k < p->program->nroot && *n < WIRE_PIECE / 4; k++)
        if (begun[k]) list[(*n)++] = k;
    free(begun);
    return list;
}

/* Returns pairs for the tasks that acted: index of the task, number of its acts. The caller frees the array. */
static int32_t *
list_acted(const struct job *j, int *n)
{
    int32_t *list = must_alloc(sizeof *list * (size_t)(2 * j->plan->ntask + 1));
    *n = 0;
    for (int32_t i = 0; i < j->plan->ntask && *n < WIRE_PIECE / 4; i++) {
        if (!actors_acted(j->actors, i)) continue;
        list[(*n)++] = i;
        list[(*n)++] = inspect_begun(j->actors, i);
    }
    return list;
}

/* Returns pairs for the devices of this worker's threads: device number, busy time in ns. The caller frees the
 * array. */
static uint64_t *
list_busy(const struct worker_process *w, const struct job *j, int *n)
{
    const struct plan *p = j->plan;
    uint64_t *list = must_alloc(sizeof *list * (size_t)(2 * p->ndevice + 1));
    *n = 0;
    for (int32_t d = 0; d < p->ndevice && *n < WIRE_PIECE / 8; d++) {
        if (addr_process(w->main.route[p->device[d].thread]) != member_rank(w->member)) continue;
        list[(*n)++] = device_number(p->device[d].kind, p->device[d].rank);
        list[(*n)++] = (uint64_t)j->actors->busy_ns[d];
    }
    return list;
}

static struct act_time *
list_times(const struct worker_process *w, size_t *n)
{
    struct act_time *list = NULL;
    *n = 0;
    for (int t = 0; t < w->main.nlocal; t++) {
        const struct act_time *acts;
        size_t more = (size_t)engine_acts(w->shared.engine, t, &acts);
        if (more == 0) continue;
        list = must_realloc(list, sizeof *list * (*n + more));
        memcpy(list + *n, acts, sizeof *list * more);
        *n += more;
    }
    *n *= sizeof *list;
    return list;
}

void
worker_run_start(struct worker_process *w, const struct order *o)
{
    struct job *j = worker_job_find(w, o->work.program);
    struct run_end e = {.epoch = o->work.epoch, .run = o->packet.run, .node = -1, .began = now_ns()};
    int64_t before = w->shared.engine ? engine_count(w->shared.engine).acts : 0;
    bool ran = false;
    bool there = j && j->plan && j->had && w->shared.engine;
    e.status = there ? 0 : fail(E_BUS, "packet START: the program is not compiled");
    if (there && j->carrying && j->epoch != w->main.epoch) e.status = worker_job_connect(w, j);
    if (!e.status) {
        pthread_mutex_lock(&w->lock);
        e.status = bind_run(w, j, &o->packet);
        pthread_mutex_unlock(&w->lock);
    }
    if (!e.status) e.status = run_job(w, j, &o->packet, &ran);
    e.text = e.status ? err_text() : "";
    if (ran && e.status) e.node = engine_blame(w->shared.engine);
    int32_t *begun = ran && e.status ? list_begun(j, &e.nbegun) : NULL;
    int32_t *acted = ran && e.status ? list_acted(j, &e.nacted) : NULL;
    struct act_time *times = ran && !e.status && j->run.timed ? list_times(w, &e.ntime) : NULL;
    uint64_t *busy = ran ? list_busy(w, j, &e.nbusy) : NULL;
    e.begun = begun;
    e.acted = acted;
    e.busy = busy;
    e.times = times;
    e.acts = w->shared.engine ? (uint64_t)(engine_count(w->shared.engine).acts - before) : 0;
    pthread_mutex_lock(&w->lock);
    w->shared.run.id = 0;
    w->shared.run.plan = NULL;
    w->shared.run.meets = false;
    member_ended(w->member, &e);
    worker_take_control(w); /* receives packets, because the send may have consumed their edge-triggered event */
    pthread_mutex_unlock(&w->lock);
    free(begun);
    free(acted);
    free(busy);
    free(times);
}
