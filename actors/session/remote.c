/* remote.c - a session whose devices are workers': programs are shipped, runs are asked for, failures get their lines.
 *
 * The session compiles and proves every plan as it does alone, and binds what exists and what will outlive the run to
 * buffers of the cluster's segment; a worker makes the same plan of the same program (their digests are compared) and
 * is told by number where those lie. What a worker says of a failure names a node; its line is known here. */
#include "actors/session/session.h"

#include "actors/act/actor.h"
#include "actors/cluster/controller.h"
#include "actors/cluster/plan_digest.h"
#include "runtime/clock.h"

#include <stdlib.h>
#include <string.h>

/* What a runner has of the cluster. */
struct remote {
    uint64_t id;
    struct str bytes;
    unsigned char digest[CLUSTER_ID];
    uint64_t *place; /* leaf parts, root parts, arenas */
    int nplace;
};

static struct remote *
remote_of(struct rille_session *s, struct runner *r)
{
    const struct plan *p = r->plan;
    if (r->remote) return r->remote;
    struct remote *m = must_alloc(sizeof *m);
    m->id = ++s->programs;
    program_write(p->program, &m->bytes);
    plan_digest(p, m->digest);
    m->nplace = p->nleaf_part + p->nroot_part + p->ndevice;
    m->place = must_alloc(sizeof *m->place * (size_t)(m->nplace + 1));
    r->remote = m;
    return m;
}

void
remote_free(struct rille_session *s, struct runner *r)
{
    struct remote *m = r->remote;
    r->remote = NULL;
    if (!m) return;
    if (s->cluster) cluster_forget(s->cluster, m->id);
    str_free(&m->bytes);
    free(m->place);
    free(m);
}

/* ---- where things lie ---- */

static int
put_place(struct segment *seg, const void *p, int64_t bytes, uint64_t *out)
{
    uint64_t base = (uint64_t)(uintptr_t)segment_base(seg), at = (uint64_t)(uintptr_t)p;
    *out = UINT64_MAX;
    if (!p || bytes == 0) return 0;
    if (at < base || at - base >= segment_bytes(seg))
        return fail(E_STATE, "a value lies where workers do not reach it; clone() it before it is used with them");
    *out = at - base;
    return 0;
}

static int
put_places(struct rille_session *s, const struct runner *r, struct remote *m)
{
    const struct plan *p = r->plan;
    struct segment *seg = cluster_segment(s->cluster);
    int k = 0;
    for (int32_t i = 0; i < p->nleaf_part; i++)
        TRY(put_place(seg, r->run.leaf[i], p->leaf_part[i].bytes, &m->place[k++]));
    for (int32_t i = 0; i < p->nroot_part; i++)
        TRY(put_place(seg, r->run.root[i], p->root_part[i].bytes, &m->place[k++]));
    for (int32_t i = 0; i < p->ndevice; i++)
        TRY(put_place(seg, r->run.arena[i], p->device[i].arena_bytes, &m->place[k++]));
    return 0;
}

/* ---- what comes back ---- */

struct reply {
    struct rille_session *s;
    struct runner *r;
};

static void
on_acts(void *arg, const void *times, size_t n)
{
    struct reply *reply = arg;
    struct rille_session *s = reply->s;
    int64_t more = (int64_t)(n / sizeof *s->act);
    GROW(s->act, s->nact + more, s->act_capacity);
    memcpy(s->act + s->nact, times, sizeof *s->act * (size_t)more);
    for (int64_t i = s->nact; i < s->nact + more; i++)
        if (s->act[i].task < 0 || s->act[i].task >= reply->r->plan->ntask) return; /* a worker's tale: not believed */
    s->nact += more;
}

static void
on_begun(void *arg, int32_t task, int32_t acts)
{
    struct reply *reply = arg;
    if (task >= 0 && task < reply->r->plan->ntask) actors_mark(reply->r->actors, task, acts);
}

static void
on_busy(void *arg, uint64_t device, uint64_t ns)
{
    struct reply *reply = arg;
    if (device < (uint64_t)reply->r->plan->ndevice) reply->r->actors->busy_ns[device] = (int64_t)ns;
}

/* Nobody knows what a lost worker wrote: every update of the run counts as begun. */
static void
mark_updates(struct runner *r)
{
    for (int32_t i = 0; i < r->plan->ntask; i++)
        if (r->plan->task[i].updates) actors_mark(r->actors, i, 1);
}

static struct line
line_of(const struct runner *r, int32_t node)
{
    bool known = node >= 0 && node < r->plan->program->nnode;
    return known ? r->run.line[node] : (struct line){0};
}

/* "worker 2 (b, pid 4711) was killed by signal 9 while it ran matmul (train.lua:14)" */
static int
tell_loss(struct rille_session *s, const struct runner *r)
{
    struct cluster_loss l;
    if (!cluster_lost(s->cluster, 0, &l)) return E_LOST;
    const struct plan *p = r->plan;
    bool known = l.task >= 0 && l.task < p->ntask;
    struct line at = known ? line_of(r, p->task[l.task].blame_node) : (struct line){0};
    struct str where = {0};
    if (at.file) str_addf(&where, " (%s:%d)", at.file, (int)at.line);
    int status = fail(E_LOST, "worker %d (%s, pid %d) %s%s%s%s", l.rank, l.host, l.pid, l.how,
                      known ? " while it ran " : "", known ? p->task[l.task].name : "", str_text(&where));
    str_free(&where);
    return status;
}

static int
tell_failure(const struct runner *r, const struct cluster_job *job, int status)
{
    struct line at = line_of(r, job->node);
    if (at.file) err_note("%s:%d", at.file, (int)at.line);
    return status;
}

int
remote_run(struct rille_session *s, struct runner *r)
{
    struct remote *m = remote_of(s, r);
    struct reply reply = {s, r};
    struct cluster_job job = {.start = {.program = m->id,
                                        .bytes = m->bytes.text,
                                        .nbyte = m->bytes.len,
                                        .flags = r->run.timed ? START_TIMED : 0,
                                        .places = m->place,
                                        .nplace = m->nplace,
                                        .numbers = r->run.number,
                                        .nnumber = r->plan->program->nnumber},
                              .arg = &reply,
                              .acts = on_acts,
                              .begun = on_begun,
                              .busy = on_busy};
    memcpy(job.start.digest, m->digest, CLUSTER_ID);
    TRY(put_places(s, r, m));
    actors_clear(r->actors);
    s->nact = 0;
    s->run_begin_ns = now_ns();
    int status = cluster_run(s->cluster, &job);
    s->run_elapsed_ns = now_ns() - s->run_begin_ns;
    s->remote_runs++;
    s->remote_acts += job.nact;
    for (int32_t i = 0; !status && i < r->plan->ntask; i++) actors_mark(r->actors, i, r->plan->task[i].nact);
    if (!status) return 0;
    if (status != E_LOST) return tell_failure(r, &job, status);
    mark_updates(r);
    return tell_loss(s, r);
}

/* ---- memory ---- */

static void *
take(void *of, size_t bytes)
{
    return segment_take(of, bytes);
}

static void
give(void *of, void *p)
{
    segment_give(of, p);
}

void
remote_pool(struct rille_session *s, struct pool *p)
{
    struct pool_source source = {take, give, cluster_segment(s->cluster)};
    pool_from(p, &source);
}
