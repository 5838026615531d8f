/* worker_unite.c - makes the communicators of a run with ranks in several workers.
 *
 * The worker of the first rank makes the id; the workers of the other ranks wait for the id. All workers make
 * communicators in the same order, before the run, and keep them until the epoch ends or a run fails. If a worker
 * fails meanwhile, STOP reports the failure, as during a run. */
#include "actors/cluster/worker/worker_inner.h"

#include "actors/plan/model/local_set.h"
#include "runtime/device/device.h"
#include "runtime/base/error.h"
#include "runtime/base/sorted.h"

#include <stdlib.h>
#include <string.h>

struct meeting_of { /* a run that makes communicators */
    struct server *s;
    uint32_t epoch, run;
};

/* Returns the other memories with ranks of the communicator; the caller frees the array. */
static uint32_t *
memories_of(const struct server *s, const struct communicator *c, int *n)
{
    struct arena a = {0};
    struct local_set m;
    int32_t *memory = must_alloc(sizeof *memory * (size_t)c->n);
    local_set_init(&m, &s->map, &a);
    *n = 0;
    for (int32_t i = 0; i < c->n; i++) {
        int32_t at = local_set_memory(&m, c->kind, c->device[i]);
        if (at >= 0 && at != s->map.memory) memory[(*n)++] = at;
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
    uint32_t *memory = memories_of(m->s, c, &u.nmemory);
    u.memory = memory;
    pthread_mutex_lock(&m->s->lock);
    member_unite(m->s->member, m->epoch, &u);
    server_take_control(m->s); /* a send may consume the readiness event of arrivals */
    pthread_mutex_unlock(&m->s->lock);
    free(memory);
    return 0;
}

static const struct united *
find_united(const struct server *s, uint32_t run, uint64_t name)
{
    for (int i = 0; i < s->nunited; i++)
        if (s->united[i].run == run && s->united[i].name == name) return &s->united[i];
    return NULL;
}

static int
hear_unite_id(void *of, const struct communicator *c, unsigned char id[COMMUNICATOR_ID])
{
    const struct meeting_of *m = of;
    struct server *s = m->s;
    const struct united *u;
    pthread_mutex_lock(&s->lock);
    while (!(u = find_united(s, m->run, c->name)) && !atomic_load(&s->parts)) pthread_cond_wait(&s->unites, &s->lock);
    if (u) memcpy(id, u->id, COMMUNICATOR_ID);
    pthread_mutex_unlock(&s->lock);
    return u ? 0 : fail(E_CANCEL, "interrupted");
}

static bool
meeting_left(void *of)
{
    const struct meeting_of *m = of;
    return atomic_load(&m->s->parts);
}

void
server_unite(struct server *s, const struct packet *p)
{
    GROW(s->united, s->nunited + 1, s->united_capacity);
    struct united *u = &s->united[s->nunited++];
    *u = (struct united){.run = p->run, .name = p->count};
    memcpy(u->id, p->bytes.bytes, COMMUNICATOR_ID);
    pthread_cond_broadcast(&s->unites);
}

void
server_part(struct server *s)
{
    atomic_store(&s->parts, true);
    pthread_cond_broadcast(&s->unites);
}

void
server_cut(void)
{
    for (int k = 0; k < NDEVICE_KIND; k++)
        if (device_kind(k)->flags & COLLECTS) device_kind(k)->cut();
}

/* Forgets the ids of this run and of earlier runs. */
static void
forget_united(struct server *s, uint32_t run)
{
    int n = 0;
    for (int i = 0; i < s->nunited; i++)
        if ((int32_t)(s->united[i].run - run) > 0) s->united[n++] = s->united[i];
    s->nunited = n;
}

int
server_meet(struct server *s, struct job *j, const struct packet *start)
{
    struct meeting_of of = {s, s->epoch, start->run};
    struct communicator_post post = {&of, tell_unite_id, hear_unite_id, meeting_left};
    if (s->anew != start->anew) server_cut();
    s->anew = start->anew;
    int status = run_meet(&j->run, &post);
    pthread_mutex_lock(&s->lock);
    s->meets = false;
    forget_united(s, start->run);
    pthread_mutex_unlock(&s->lock);
    return status;
}
