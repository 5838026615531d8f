/* worker_unite.c - creates the communicators of a run whose ranks are in several workers.
 *
 * The worker of a communicator's first rank creates its id, and the workers of the other ranks wait for the id. The
 * workers create communicators in the same order, before the run, and keep them until the epoch ends or a run fails.
 * If a worker fails meanwhile, STOP ends the creation in the other workers, as it ends a run. */
#include "actors/cluster/worker/worker_unite.h"

#include "actors/cluster/worker/worker_job.h"
#include "actors/act/run/flow.h"
#include "actors/plan/model/local_set.h"
#include "runtime/device/device.h"
#include "runtime/base/error.h"
#include "runtime/data/sorted.h"

#include <stdlib.h>
#include <string.h>

struct meeting_of { /* a run whose communicators are being created */
    struct worker_process *w;
    uint32_t epoch, run;
};

/* Returns the other memories in which the communicator has ranks; the caller frees the array. */
static uint32_t *
memories_of(const struct worker_process *w, const struct communicator *c, int *n)
{
    struct arena a = {0};
    struct local_set m;
    int32_t *memory = must_alloc(sizeof *memory * (size_t)c->n);
    local_set_init(&m, &w->shared.map, &a);
    *n = 0;
    for (int32_t i = 0; i < c->n; i++) {
        int32_t at = local_set_memory(&m, c->kind, c->device[i]);
        if (at >= 0 && at != w->shared.map.memory) memory[(*n)++] = at;
    }
    *n = sorted_once(memory, *n);
    arena_fini(&a);
    return (uint32_t *)memory;
}

static int
tell_unite_id(void *of, const struct communicator *c, const unsigned char id[COMMUNICATOR_ID])
{
    const struct meeting_of *m = of;
    struct unite u = {.run = m->run, .name = c->name, .id = id};
    uint32_t *memory = memories_of(m->w, c, &u.nmemory);
    u.memory = memory;
    pthread_mutex_lock(&m->w->lock);
    member_unite(m->w->member, m->epoch, &u);
    /* Handles packets that have arrived: member_unite() sends a packet, and a send can consume their edge-triggered
     * event. */
    worker_take_control(m->w);
    pthread_mutex_unlock(&m->w->lock);
    free(memory);
    return 0;
}

static const struct united *
find_united(const struct worker_process *w, uint32_t run, uint64_t name)
{
    for (int i = 0; i < w->shared.ids.n; i++)
        if (w->shared.ids.id[i].run == run && w->shared.ids.id[i].name == name) return &w->shared.ids.id[i];
    return NULL;
}

static int
hear_unite_id(void *of, const struct communicator *c, unsigned char id[COMMUNICATOR_ID])
{
    const struct meeting_of *m = of;
    struct worker_process *w = m->w;
    const struct united *u;
    pthread_mutex_lock(&w->lock);
    while (!(u = find_united(w, m->run, c->name)) && !atomic_load(&w->shared.run.parts))
        pthread_cond_wait(&w->shared.ids.changed, &w->lock);
    if (u) memcpy(id, u->id, COMMUNICATOR_ID);
    pthread_mutex_unlock(&w->lock);
    return u ? 0 : fail(E_CANCEL, "interrupted");
}

static bool
meeting_left(void *of)
{
    const struct meeting_of *m = of;
    return atomic_load(&m->w->shared.run.parts);
}

void
worker_unite_store(struct worker_process *w, const struct packet *p)
{
    GROW(w->shared.ids.id, w->shared.ids.n + 1, w->shared.ids.capacity);
    struct united *u = &w->shared.ids.id[w->shared.ids.n++];
    *u = (struct united){.run = p->run, .name = p->count};
    memcpy(u->id, p->bytes.bytes, COMMUNICATOR_ID);
    pthread_cond_broadcast(&w->shared.ids.changed);
}

void
worker_unite_part(struct worker_process *w)
{
    atomic_store(&w->shared.run.parts, true);
    pthread_cond_broadcast(&w->shared.ids.changed);
}

void
worker_unite_cut(void)
{
    for (int k = 0; k < NDEVICE_KIND; k++)
        if (device_kind(k)->flags & COLLECTS) device_kind(k)->cut();
}

/* Removes the ids of this run and of earlier runs. */
static void
forget_united(struct worker_process *w, uint32_t run)
{
    int n = 0;
    for (int i = 0; i < w->shared.ids.n; i++)
        if ((int32_t)(w->shared.ids.id[i].run - run) > 0) w->shared.ids.id[n++] = w->shared.ids.id[i];
    w->shared.ids.n = n;
}

int
worker_unite_meet(struct worker_process *w, struct job *j, const struct packet *start)
{
    struct meeting_of of = {w, w->main.epoch, start->run};
    struct communicator_post post = {&of, tell_unite_id, hear_unite_id, meeting_left};
    if (w->main.anew != start->anew) worker_unite_cut();
    w->main.anew = start->anew;
    int status = run_connect(&j->run, &post);
    pthread_mutex_lock(&w->lock);
    w->shared.run.meets = false;
    forget_united(w, start->run);
    pthread_mutex_unlock(&w->lock);
    return status;
}
