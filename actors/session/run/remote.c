/* remote.c - runs on workers: sends programs, starts runs, and adds source lines to errors.
 *
 * The session compiles and verifies the plan partition of its own host, as it does without workers, and binds
 * leaves and roots to buffers on all hosts. Workers compile the partitions of their hosts and report the arena
 * sizes that they need; digests of the partitions are compared. The session sends the workers the positions of
 * all buffers as numbers. A worker's report of a failure names a node of the program, and the session adds the
 * node's source line. */
#include "actors/session/run/remote.h"
#include "actors/session/core/devices.h"
#include "actors/session/run/cluster_view.h"
#include "actors/session/run/host_report.h"
#include "actors/session/run/runner.h"

#include "actors/act/run/activity.h"
#include "actors/cluster/controller/recovery.h"
#include "actors/cluster/controller/memories.h"
#include "actors/cluster/wire/plan_digest.h"
#include "actors/plan/model/local_set.h"
#include "actors/plan/model/program_bytes.h"
#include "runtime/base/clock.h"
#include "actors/cluster/coordinator/coordinator_run.h"

#include <stdlib.h>
#include <string.h>

/* The plan partition of one host. */
struct remote_part {
    struct local_set mines;
    bool known;      /* a worker has reported the partition */
    uint64_t *arena; /* pairs: device, and bytes of the arena that the partition needs on this device */
    int narena;      /* number of pairs */
    void **base;     /* base addresses of the arenas */
    /* addresses of leaf shards, root shards and arenas on the host, as numbers, in this order */
    uint64_t *place;
    int nplace;
    struct host_report report; /* reports of the host's workers on the last run; unused for the session's host */
};

/* State of a runner whose plan runs on the workers of a cluster. */
struct remote {
    uint64_t id;
    struct str bytes;
    unsigned char digest[CLUSTER_ID];
    /* true: partitions of other hosts use GPU libraries, so the session does not compare digests of partitions */
    bool alone;
    int npart;
    struct remote_part *part; /* by host: the plan partition of the host */
    struct places *places;
    /* by host: schedule (order of tasks by thread or stream) to send to the host's workers */
    struct str *rows;
    uint32_t rows_number;
    /* by root (result of the program): true if an update of a failed run had begun to overwrite the variable's old
     * bytes */
    bool *begun;
    struct arena arena;
};

/* ---- writing the addresses of buffers ---- */

/* Writes the positions of a value's shards on one host, in mesh order. */
static int
put_store(const struct cluster *c, struct remote_part *part, const struct layout *l, const struct store *store)
{
    const struct local_positions *mine = local_positions_of(&part->mines, l->place);
    for (int32_t i = 0; i < mine->n; i++) {
        const struct buffer *b = store->part[mine->pos[i]];
        if (b && buffer_is_lost(b)) return fail(E_LOST, "a value that the run reads was on a host that was lost");
        uint64_t *place = &part->place[part->nplace++];
        TRY(cluster_position(c, l->place->kind, l->place->rank[mine->pos[i]], b ? b->data : NULL, place));
    }
    return 0;
}

static int
put_places(struct rille_session *s, const struct runner *r, struct remote_part *part)
{
    const struct program *g = r->plan->program;
    const struct cluster *c = s->cluster;
    part->nplace = 0;
    for (int32_t i = 0; i < g->nleaf; i++) TRY(put_store(c, part, g->leaf[i].layout, r->leaf[i]));
    for (int32_t k = 0; k < g->nroot; k++) TRY(put_store(c, part, ref_layout(g, g->root[k].ref), r->root[k]));
    for (int d = 0; d < part->narena; d++) {
        uint64_t device = part->arena[2 * d], *place = &part->place[part->nplace++];
        void *base = part->arena[2 * d + 1] ? part->base[d] : NULL;
        TRY(cluster_position(c, (int)(device >> 32), (int)(device & UINT32_MAX), base, place));
    }
    return 0;
}

/* ---- reading the workers' reports ---- */

struct reply {
    struct rille_session *s;
    struct runner *r;
};

static void
on_acts(void *arg, int memory, int64_t began, const void *times, size_t n)
{
    struct reply *reply = arg;
    struct session_remote *own = &reply->s->remote;
    int64_t more = (int64_t)(n / sizeof *own->act);
    if (memory != cluster_home(reply->s->cluster)) {
        host_report_acts(&reply->r->remote->part[memory].report, times, n, began, own->begin_ns);
        return;
    }
    GROW(own->act, own->nact + more, own->act_capacity);
    memcpy(own->act + own->nact, times, sizeof *own->act * (size_t)more);
    for (int64_t i = own->nact; i < own->nact + more; i++) /* ignores invalid reports */
        if (own->act[i].task < 0 || own->act[i].task >= reply->r->plan->ntask) return;
    own->nact += more;
}

static void
on_begun(void *arg, int32_t root)
{
    struct reply *reply = arg;
    if (root >= 0 && root < reply->r->plan->program->nroot) reply->r->remote->begun[root] = true;
}

static void
on_acted(void *arg, int memory, int32_t task, int32_t acts)
{
    struct reply *reply = arg;
    const struct runner *r = reply->r;
    if (memory != r->plan->memory)
        host_report_acted(&r->remote->part[memory].report, task, acts);
    else if (task >= 0 && task < r->plan->ntask)
        actors_mark(r->actors, task, acts);
}

static void
on_busy(void *arg, int memory, uint64_t device, uint64_t ns)
{
    struct reply *reply = arg;
    const struct plan *p = reply->r->plan;
    if (memory != p->memory) host_report_busy(&reply->r->remote->part[memory].report, device, ns);
    for (int32_t d = 0; d < p->ndevice; d++)
        if (device_number(p->device[d].kind, p->device[d].rank) == device) reply->r->actors->busy_ns[d] = (int64_t)ns;
}

static struct line
runner_line(const struct runner *r, int32_t node)
{
    bool known = node >= 0 && node < r->plan->program->nnode;
    return known ? r->run.line[node] : (struct line){0};
}

static void
on_node_text(void *arg, int32_t node, bool name, struct str *out)
{
    const struct reply *reply = arg;
    const struct program *g = reply->r->plan->program;
    struct line at = runner_line(reply->r, node);
    if (name && node >= 0 && node < g->nnode)
        str_add(out, g->node[node].op->name);
    else if (!name && at.file)
        str_addf(out, " (%s:%d)", at.file, (int)at.line);
}

/* Checks a worker's report. All its devices must be on the worker's host, and the report must have an entry for
 * every root (result of the program). */
static bool
is_part(const struct reply *reply, int memory, const struct cluster_part *part)
{
    const struct rille_session *s = reply->s;
    for (int i = 0; i < part->narena; i += 2) {
        uint64_t kind = part->arena[i] >> 32, rank = part->arena[i] & UINT32_MAX;
        if (kind >= NDEVICE_KIND || rank >= (uint64_t)s->devices.ndevice[kind] || part->arena[i + 1] > SIZE_MAX / 4 ||
            cluster_memory_of(s->cluster, (int)kind, (int)rank) != memory)
            return false;
    }
    return part->narena % 2 == 0 && part->nreplace == reply->r->plan->program->nroot;
}

static void
on_have(void *arg, int memory, const struct cluster_part *made)
{
    struct reply *reply = arg;
    struct remote *m = reply->r->remote;
    struct remote_part *part = &m->part[memory];
    const struct program *g = reply->r->plan->program;
    int32_t nplace = made->narena / 2;
    if (part->known || !is_part(reply, memory, made)) return;
    part->known = true;
    part->narena = made->narena / 2;
    part->arena = arena_dup(&m->arena, made->arena, sizeof *made->arena * (size_t)made->narena);
    part->base = ARENA_ARRAY(&m->arena, void *, part->narena + 1);
    for (int32_t i = 0; i < g->nleaf; i++) nplace += local_positions_of(&part->mines, g->leaf[i].layout->place)->n;
    for (int32_t k = 0; k < g->nroot; k++)
        nplace += local_positions_of(&part->mines, ref_layout(g, g->root[k].ref)->place)->n;
    part->place = ARENA_ARRAY(&m->arena, uint64_t, nplace + 1);
    for (int32_t k = 0; k < g->nroot; k++)
        if (made->replaces[k] == ROOT_NEW) reply->r->overwrites[k] = false;
}

/* Marks every update of the run as begun, because it is unknown which bytes a lost worker wrote. */
static void
mark_updates(struct runner *r)
{
    memset(r->remote->begun, true, sizeof *r->remote->begun * (size_t)r->plan->program->nroot);
}

bool
remote_begun(const struct runner *r, int32_t root)
{
    return r->remote->begun[root];
}

bool
remote_doing(const struct rille_session *s, int thread, char *text, size_t size)
{
    const struct runner *r = s->runs.last;
    int32_t task;
    *text = '\0';
    if (!cluster_doing(s->cluster, thread, &task)) return false;
    if (r && task >= 0 && task < r->plan->ntask) activity_print(r->plan, &r->run, task, text, size);
    return true;
}

/* Fails with a description of the lost worker: "worker 2 (b, pid 4711) was killed by signal 9 while it ran matmul
 * (train.lua:14)". */
static int
tell_loss(struct rille_session *s, const struct runner *r)
{
    struct cluster_loss l;
    if (!cluster_lost(s->cluster, 0, &l)) return E_LOST;
    const struct plan *p = r->plan;
    bool known = l.task >= 0 && l.task < p->ntask;
    struct line at = runner_line(r, known ? p->task[l.task].blame_node : l.node);
    bool node = !known && l.node >= 0 && l.node < p->program->nnode;
    const char *ran = known ? p->task[l.task].name : node ? p->program->node[l.node].op->name : NULL;
    struct str where = {0};
    if (at.file) str_addf(&where, " (%s:%d)", at.file, (int)at.line);
    str_clear(&s->remote.place);
    if (ran) str_addf(&s->remote.place, "worker %d (%s) while it ran %s%s", l.rank, l.host, ran, str_text(&where));
    int status = fail(E_LOST, "worker %d (%s, pid %d) %s%s%s%s", l.rank, l.host, l.pid, l.how,
                      ran ? " while it ran " : "", ran ? ran : "", str_text(&where));
    str_free(&where);
    return status;
}

static int
tell_failure(const struct runner *r, const struct cluster_job *job, int status)
{
    struct line at = runner_line(r, job->node);
    line_blame(&at, status);
    return status;
}

struct host_report *
remote_report(const struct runner *r, int memory)
{
    return &r->remote->part[memory].report;
}

const struct str *
remote_program(const struct runner *r)
{
    return &r->remote->bytes;
}

struct str *
remote_rows(struct rille_session *s, struct runner *r)
{
    struct remote *m = r->remote;
    for (int i = 0; i < m->npart; i++) str_clear(&m->rows[i]);
    m->rows_number = ++s->remote.nrows;
    return m->rows;
}

/* ---- sending programs to workers ---- */

/* Returns true if compiling the program asks a GPU library which products or convolutions the library supports, and
 * how much scratch memory these need. */
static bool
asks_a_library(const struct plan *p)
{
    for (int32_t d = 0; d < p->ndevice; d++)
        if (device_kind(p->device[d].kind)->flags & (MULTIPLIES | CONVOLVES)) return true;
    return false;
}

static struct remote *
remote_new(struct rille_session *s, const struct runner *r)
{
    const struct plan *p = r->plan;
    struct remote *m = must_alloc(sizeof *m);
    program_write(p->program, &m->bytes);
    m->id = program_name(m->bytes.text, m->bytes.len);
    m->alone = asks_a_library(p);
    plan_digest(p, m->digest);
    m->npart = cluster_memories(s->cluster);
    m->part = ARENA_ARRAY(&m->arena, struct remote_part, m->npart);
    m->places = ARENA_ARRAY(&m->arena, struct places, m->npart);
    m->rows = ARENA_ARRAY(&m->arena, struct str, m->npart);
    m->begun = ARENA_ARRAY(&m->arena, bool, p->program->nroot + 1);
    for (int i = 0; i < m->npart; i++) local_set_init(&m->part[i].mines, cluster_map(s->cluster, i), &m->arena);
    return m;
}

void
remote_free(struct rille_session *s, struct runner *r)
{
    struct remote *m = r->remote;
    r->remote = NULL;
    if (!m) return;
    if (s->cluster) cluster_forget(s->cluster, m->id);
    for (int i = 0; i < m->npart; i++) {
        host_report_free(&m->part[i].report);
        str_free(&m->rows[i]);
    }
    str_free(&m->bytes);
    arena_fini(&m->arena);
    free(m);
}

static struct cluster_job
job_of(struct reply *reply)
{
    const struct remote *m = reply->r->remote;
    const struct plan *p = reply->r->plan;
    struct cluster_job job = {.start = {.program = m->id,
                                        .bytes = m->bytes.text,
                                        .nbyte = m->bytes.len,
                                        .memory = m->alone ? -1 : p->memory,
                                        .places = m->places,
                                        .numbers = reply->r->run.number,
                                        .nnumber = p->program->nnumber,
                                        .rows = m->rows_number ? m->rows : NULL,
                                        .rows_number = m->rows_number},
                              .arg = reply,
                              .acts = on_acts,
                              .begun = on_begun,
                              .acted = on_acted,
                              .busy = on_busy,
                              .node_text = on_node_text,
                              .have = on_have};
    memcpy(job.start.digest, m->digest, CLUSTER_ID);
    memcpy(job.start.outline, p->digest, CLUSTER_ID);
    return job;
}

static int
check_parts(const struct rille_session *s, const struct remote *m)
{
    for (int i = 0; i < m->npart; i++) /* skips a host without workers: it has no threads, and reports nothing */
        if (!m->part[i].known && cluster_map(s->cluster, i)->nslot > 0)
            return fail(E_BUS, "the workers of a host did not report their partition of the plan");
    return 0;
}

int
remote_ready(struct rille_session *s, struct runner *r)
{
    if (r->remote) return 0;
    r->remote = remote_new(s, r);
    struct reply reply = {s, r};
    struct cluster_job job = job_of(&reply);
    job.start.flags = START_SHIPS;
    int status = cluster_run(s->cluster, &job);
    if (!status) status = check_parts(s, r->remote);
    if (!status) return 0;
    status = status == E_LOST ? tell_loss(s, r) : tell_failure(r, &job, status);
    remote_free(s, r);
    return status;
}

int
remote_arenas(struct rille_session *s, struct runner *r)
{
    for (int i = 0; i < r->remote->npart; i++) {
        struct remote_part *part = &r->remote->part[i];
        for (int d = 0; d < part->narena; d++) {
            struct pool *pool;
            TRY(session_pool(s, (int)(part->arena[2 * d] >> 32), (int)(part->arena[2 * d] & UINT32_MAX), &pool));
            TRY(pool_arena(pool, (size_t)part->arena[2 * d + 1], &part->base[d]));
        }
    }
    return 0;
}

int
remote_run(struct rille_session *s, struct runner *r)
{
    struct remote *m = r->remote;
    struct reply reply = {s, r};
    for (int i = 0; i < m->npart; i++) {
        TRY(put_places(s, r, &m->part[i]));
        m->places[i] = (struct places){m->part[i].place, m->part[i].nplace};
    }
    struct cluster_job job = job_of(&reply);
    job.start.flags = r->run.timed ? START_TIMED : 0;
    memset(m->begun, 0, sizeof *m->begun * (size_t)r->plan->program->nroot);
    actors_clear(r->actors);
    for (int i = 0; i < m->npart; i++) host_report_begin(&m->part[i].report, r->run.timed);
    s->remote.nact = 0;
    s->remote.begin_ns = now_ns();
    int status = cluster_run(s->cluster, &job);
    s->remote.elapsed_ns = now_ns() - s->remote.begin_ns;
    s->remote.runs++;
    s->remote.acts += job.nact;
    for (int32_t i = 0; !status && i < r->plan->ntask; i++) actors_mark(r->actors, i, r->plan->task[i].nact);
    for (int i = 0; i < m->npart; i++) m->part[i].report.good = !status;
    if (!status && s->remote.after_run) s->remote.after_run(s);
    if (!status) return 0;
    if (status != E_LOST) return tell_failure(r, &job, status);
    mark_updates(r);
    return tell_loss(s, r);
}
