/* totals.c - totals over all runs of a session, for monitors. */
#include "actors/session/run/totals.h"

#include "actors/cluster/controller/watch.h"
#include "actors/cluster/controller/memories.h"
#include "actors/plan/outline/outline.h"
#include "actors/session/core/face.h"
#include "actors/session/core/session.h"
#include "actors/session/run/host_report.h"
#include "actors/session/run/remote.h"
#include "actors/session/run/runner.h"
#include "boxing/bytes.h"

#include <string.h>

/* Returns the entry with this name, or adds an entry. If the list has no room for a new entry, returns the entry
 * "other". */
static struct rille_moved *
entry_of(struct rille_moved *list, int *n, const char *name)
{
    for (int i = 0; i < *n; i++)
        if (!strcmp(list[i].name, name)) return &list[i];
    bool room = *n + 1 < RILLE_MOVES || !strcmp(name, "other");
    if (!room) return entry_of(list, n, "other");
    list[*n].name = name;
    return &list[(*n)++];
}

/* Counts the bytes of all hops (collective steps of moves) of a program. Takes the hops from the outline, the part
 * of the plan that all ranks share. If the outline cannot be made again, the program counts as moving nothing. */
static const struct moved_bytes *
moved_in_run(struct rille_session *s, struct runner *r)
{
    const struct program *p = r->plan->program;
    struct moved_bytes *m = ARENA_NEW(&r->arena, struct moved_bytes);
    struct outline *o;
    if (outline_new(p, s->atlas, &o)) return m;
    for (int32_t i = 0; i < o->nhop; i++) {
        const struct hop *h = &o->hop[i];
        if (h->number < 0) continue;
        struct type t = ref_type(p, h->value);
        int64_t times = program_move_times(p, &p->node[h->step], h->value);
        struct rille_moved *to = entry_of(m->move, &m->n, h->name);
        to->times += times;
        to->bytes += box_bytes(&t, h->from, h->to) * times;
    }
    outline_free(&o);
    return m;
}

/* Adds up the busy time of all devices that worked in the run, ns. Returns the number of these devices. */
static int64_t
busy_devices(const struct rille_session *s, const struct runner *r, int64_t *busy_ns)
{
    int64_t n = r->plan->ndevice;
    for (int d = 0; d < r->plan->ndevice; d++) *busy_ns += r->actors->busy_ns[d];
    for (int i = 0; s->cluster && i < cluster_memories(s->cluster); i++) {
        const struct host_report *h = remote_report(r, i);
        for (int64_t k = 0; k < h->nbusy; k += 2) *busy_ns += (int64_t)h->busy[k + 1];
        n += h->nbusy / 2;
    }
    return n;
}

static void
add_moved(struct rille_metrics *sum, const struct moved_bytes *m)
{
    for (int i = 0; i < m->n; i++) {
        struct rille_moved *to = entry_of(sum->move, &sum->nmove, m->move[i].name);
        to->times += m->move[i].times;
        to->bytes += m->move[i].bytes;
    }
}

void
totals_add(struct rille_session *s, struct runner *r, int status)
{
    struct rille_counters c;
    int64_t busy_ns = 0;
    if (!s->totals.on) return;
    if (!r->moved) r->moved = moved_in_run(s, r);
    int64_t devices = busy_devices(s, r, &busy_ns);
    double seconds = (double)(s->cluster ? s->remote.elapsed_ns : r->run.elapsed_ns) * 1e-9;
    rille_count(s, &c);
    pthread_mutex_lock(&s->totals.lock);
    struct rille_metrics *sum = &s->totals.sum;
    sum->runs += status == 0;
    sum->failed_runs += status != 0;
    sum->acts = c.acts;
    sum->compiles = c.compiles;
    sum->snapshots = s->snapshots.n;
    sum->tensor_bytes = c.live_bytes;
    sum->arena_bytes = c.arena_bytes;
    sum->run_seconds += seconds;
    sum->busy_seconds += (double)busy_ns * 1e-9;
    sum->device_seconds += seconds * (double)devices;
    if (!status) add_moved(sum, r->moved);
    pthread_mutex_unlock(&s->totals.lock);
}

int
rille_metrics_begin(struct rille_session *s)
{
    TRY(face_session(s, __func__));
    s->totals.on = true;
    return 0;
}

int
rille_metrics(struct rille_session *s, struct rille_metrics *out)
{
    TRY(face_own(s, __func__));
    TRY(face_given(out, "out", __func__));
    pthread_mutex_lock(&s->totals.lock);
    *out = s->totals.sum;
    pthread_mutex_unlock(&s->totals.lock);
    if (s->cluster) cluster_totals(s->cluster, &out->losses, &out->recoveries);
    return 0;
}
