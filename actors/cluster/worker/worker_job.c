/* worker_job.c - compiles programs to plans, and connects their channels to the plans of other hosts. */
#include "actors/cluster/worker/worker_job.h"
#include "actors/plan/compile.h"
#include "actors/plan/verify/verify_program.h"

#include "actors/cluster/worker/worker_epoch.h"
#include "actors/cluster/worker/worker_values.h"
#include "actors/act/run/address.h"
#include "actors/cluster/wire/plan_digest.h"
#include "actors/plan/outline/comm_ranks.h"
#include "runtime/base/error.h"
#include "actors/cluster/transport/carrier_channels.h"

#include <stdlib.h>
#include <string.h>

enum { PLANS = 1 << 16 };

/* ---- programs ---- */

void
worker_job_free(struct job *j)
{
    carrier_channels_free(&j->carrying);
    actors_free(&j->actors);
    plan_free(&j->plan);
    arena_fini(&j->arena);
    arena_fini(&j->of_rows);
    free(j);
}

static struct job **
job_find(struct worker_process *w, uint64_t id)
{
    for (int i = 0; i < w->main.njob; i++)
        if (w->main.job[i]->id == id) return &w->main.job[i];
    return NULL;
}

struct job *
worker_job_find(struct worker_process *w, uint64_t id)
{
    struct job **j = job_find(w, id);
    return j ? *j : NULL;
}

void
worker_job_forget(struct worker_process *w, const struct order *o)
{
    struct job **j = job_find(w, o->work.program);
    if (!j) return;
    worker_job_free(*j);
    *j = w->main.job[--w->main.njob];
}

/* Stores the schedule rows (planned order of acts) of a program. If the rows are invalid, acts run in the order in
 * which they become ready. */
void
worker_job_rows(struct worker_process *w, const struct order *o)
{
    struct job *j = worker_job_find(w, o->work.program);
    if (!j || !j->plan) return;
    j->run.rows = NULL;
    arena_reset(&j->of_rows);
    if (plan_sim_rows_read(j->plan, o->work.bytes, o->work.n, &j->of_rows, &j->rows))
        err_clear();
    else
        j->run.rows = &j->rows;
}

/* Checks that the plan's list of collectives fits into a packet. */
static int
check_plan_ranks(const struct plan *p)
{
    struct str comm_ranks = {0};
    comm_ranks_write(p, &comm_ranks);
    bool fits = comm_ranks.len <= WIRE_PIECE;
    str_free(&comm_ranks);
    return fits ? 0 : fail(E_PLAN, "a program has too many NCCL collectives for its workers to compare");
}

static int
make_ordered_plan(struct worker_process *w, const struct order *o, struct plan **out)
{
    struct program *g;
    if (program_name(o->work.bytes, o->work.n) != o->work.program)
        return fail(E_BUS, "received a program whose bytes do not match its name");
    TRY(program_read(o->work.bytes, o->work.n, w->main.atlas, &g));
    g->map = &w->shared.map;
    TRY(plan_compile(g, w->main.atlas, out));
    int status = check_plan_ranks(*out);
    if (status) plan_free(out);
    return status;
}

static struct job *
new_job(struct worker_process *w, uint64_t id, struct plan *p)
{
    struct job *j = must_alloc(sizeof *j);
    *j = (struct job){.id = id, .plan = p};
    GROW(w->main.job, w->main.njob + 1, w->main.job_capacity);
    w->main.job[w->main.njob++] = j;
    if (!p) return j;
    j->actors = actors_new(p);
    j->far = ARENA_ARRAY(&j->arena, struct channel_far, p->nchannel + 1);
    j->listed = ARENA_ARRAY(&j->arena, bool, w->shared.nmemory);
    j->run = run_of(&j->arena, p, j->actors);
    j->run.far = j->far;
    return j;
}

/* Reports the outcome of compiling to the coordinator: the plan's properties, or the error. */
static void
tell_have(struct worker_process *w, struct job *j, int status)
{
    unsigned char digest[CLUSTER_ID];
    struct have h = {.program = j->id, .status = status, .text = status ? err_text() : ""};
    const struct plan *p = status ? NULL : j->plan;
    uint64_t *arena = p ? must_alloc(sizeof *arena * (size_t)(2 * p->ndevice + 1)) : NULL;
    unsigned char *replaces = p ? must_alloc((size_t)p->program->nroot + 1) : NULL;
    for (int32_t d = 0; p && d < p->ndevice; d++) {
        arena[h.narena++] = device_number(p->device[d].kind, p->device[d].rank);
        arena[h.narena++] = (uint64_t)run_arena_bytes(p, d);
    }
    struct str comm_ranks = {0};
    if (p) comm_ranks_write(p, &comm_ranks);
    h.comm_ranks = str_text(&comm_ranks);
    h.ncomm_ranks = comm_ranks.len;
    for (int32_t k = 0; p && k < p->program->nroot; k++) replaces[h.nreplace++] = (unsigned char)root_fate(p, k);
    if (p) {
        plan_digest(p, digest);
        h.digest = digest;
        h.outline = p->digest;
    }
    h.arenas = arena;
    h.replaces = replaces;
    j->had = true;
    pthread_mutex_lock(&w->lock);
    member_have(w->member, w->main.epoch, &h);
    pthread_mutex_unlock(&w->lock);
    free(arena);
    free(replaces);
    str_free(&comm_ranks);
}

/* ---- connecting partitions ---- */

/* Returns the i-th worker of a memory, in order of rank. i < 0: returns the number of workers of the memory. */
static int
workers_of(const struct worker_process *w, int memory, int i)
{
    int n = 0, last = -1;
    for (int r = 0; r < w->main.world; r++)
        for (int k = 0; k < w->shared.nall; k++) {
            if ((int)w->shared.slot[k].memory != memory || (int)w->shared.slot[k].owner != r) continue;
            last = r;
            if (n++ == i) return r;
            break;
        }
    return i < 0 ? n : last;
}

/* Returns the worker on another host from which this worker requests the host's list of channels. This is the worker
 * there with the same index as this worker on its own host, modulo the number of workers there. So the requests of a
 * host's workers are spread over the workers of the other host. memory: index of the other host. */
static int
partner_rank(const struct worker_process *w, int memory)
{
    int own = 0;
    while (workers_of(w, w->shared.map.memory, own) != member_rank(w->member)) own++;
    return workers_of(w, memory, own % workers_of(w, memory, -1));
}

static int
memory_of_rank(const struct worker_process *w, int rank)
{
    for (int i = 0; i < w->shared.nall; i++)
        if ((int)w->shared.slot[i].owner == rank) return (int)w->shared.slot[i].memory;
    return -1;
}

/* ---- ports of other workers ---- */

void
worker_job_met(struct worker_process *w, const char *ports)
{
    while (*ports) {
        int memory = memory_of_rank(w, atoi(ports));
        if (memory >= 0) w->main.met[memory] = MEET_DONE;
        ports += strcspn(ports, "\n");
        ports += *ports == '\n';
    }
}

/* Returns true if the ports of a memory's workers are known. If they are not, requests them, unless they were
 * requested before. */
static bool
ask_to_meet(struct worker_process *w, int memory)
{
    if (w->main.met[memory] == MEET_NOT) {
        w->main.met[memory] = MEET_ASKED;
        pthread_mutex_lock(&w->lock);
        member_meet(w->member, w->main.epoch, (uint32_t)memory);
        pthread_mutex_unlock(&w->lock);
    }
    return w->main.met[memory] == MEET_DONE;
}

static bool
meet_all(struct worker_process *w, const struct job *j)
{
    bool all = true;
    for (int32_t i = 0; i < j->actors->npeer; i++)
        if (!ask_to_meet(w, j->plan->channel[j->actors->peer[i]].peer)) all = false;
    return all;
}

/* Requests the lists of channels from the other memories, if all ports are known. */
static void
ask_for_lists(struct worker_process *w, struct job *j)
{
    const struct actors *a = j->actors;
    j->waits = !meet_all(w, j);
    if (j->waits) return;
    memset(j->listed, true, sizeof *j->listed * (size_t)w->shared.nmemory);
    j->nwanted = a->npeer;
    for (int32_t i = 0; i < a->npeer; i++) {
        int memory = j->plan->channel[a->peer[i]].peer;
        j->listed[memory] = false;
        carrier_ask(w->shared.carrier, partner_rank(w, memory), j->id);
    }
}

int
worker_job_connect(struct worker_process *w, struct job *j)
{
    for (int32_t c = 0; c < j->plan->nchannel; c++) {
        int64_t addr = worker_epoch_address(w, j->plan->channel[c].peer, j->far[c].thread);
        if (addr < 0)
            return fail(E_PLAN, "channels: channel %d needs thread %d of host %d, which has no such thread", (int)c,
                        (int)j->far[c].thread, (int)j->plan->channel[c].peer);
        j->far[c].addr = (uint32_t)addr;
    }
    carrier_channels_free(&j->carrying);
    if (j->plan->nchannel) j->carrying = carrier_channels_new(w->shared.carrier, j->plan, j->far);
    j->run.transport = j->carrying ? carrier_channels_transport(j->carrying) : NULL;
    j->epoch = w->main.epoch;
    return 0;
}

/* Sends this worker's list of channels. If the program failed to compile, the list is empty, so that it differs from
 * every valid list. */
static void
answer_ask(struct worker_process *w, const struct job *j, int rank)
{
    struct str list = {0};
    if (j->plan) channels_write(j->plan, memory_of_rank(w, rank), &list);
    carrier_list(w->shared.carrier, rank, j->id, str_text(&list), list.len);
    str_free(&list);
}

void
worker_job_asked(struct worker_process *w, const struct order *o)
{
    struct job **j = job_find(w, o->work.program);
    int memory = memory_of_rank(w, o->work.from);
    if (o->work.epoch != w->main.epoch || memory < 0) return;
    bool met = ask_to_meet(w, memory);
    if (!o->work.program) return;
    if (met && j) {
        answer_ask(w, *j, o->work.from);
        return;
    }
    GROW(w->main.asker, w->main.nasker + 1, w->main.asker_capacity);
    w->main.asker[w->main.nasker++] = (struct asker){o->work.from, o->work.program};
}

static void
answer_askers(struct worker_process *w)
{
    int n = 0;
    for (int i = 0; i < w->main.nasker; i++) {
        struct job **j = job_find(w, w->main.asker[i].program);
        if (j && ask_to_meet(w, memory_of_rank(w, w->main.asker[i].rank)))
            answer_ask(w, *j, w->main.asker[i].rank);
        else
            w->main.asker[n++] = w->main.asker[i];
    }
    w->main.nasker = n;
}

void
worker_job_ports(struct worker_process *w, const struct order *o)
{
    struct str ports = {0};
    if (o->work.epoch != w->main.epoch || !w->shared.carrier) return;
    str_addn(&ports, o->packet.ports.bytes, o->packet.ports.n);
    carrier_meet(w->shared.carrier, str_text(&ports));
    worker_job_met(w, str_text(&ports));
    for (int i = 0; i < w->main.njob; i++)
        if (w->main.job[i]->waits) ask_for_lists(w, w->main.job[i]);
    answer_askers(w);
    worker_fetch_again(w);
    str_free(&ports);
}

void
worker_job_listed(struct worker_process *w, const struct order *o)
{
    struct job **found = job_find(w, o->work.program), *j = found ? *found : NULL;
    int memory = memory_of_rank(w, o->work.from);
    if (!j || j->had || o->work.epoch != w->main.epoch || memory < 0 || j->listed[memory]) return;
    int status = channels_match(j->plan, memory, o->work.bytes, o->work.n, j->far);
    j->listed[memory] = true;
    if (!status && --j->nwanted > 0) return;
    if (!status) status = worker_job_connect(w, j);
    tell_have(w, j, status);
}

void
worker_job_make(struct worker_process *w, const struct order *o)
{
    struct plan *p = NULL;
    worker_job_forget(w, o);
    int status = w->main.njob < PLANS ? make_ordered_plan(w, o, &p)
                                      : fail(E_MEMORY, "a worker can keep at most %d plans", PLANS);
    struct job *j = new_job(w, o->work.program, status ? NULL : p);
    if (w->shared.carrier) answer_askers(w);
    if (!status && j->actors->npeer && !w->shared.carrier)
        status = fail(E_PLAN, "a program uses several hosts, but the job has one");
    if (!status && j->actors->npeer)
        ask_for_lists(w, j);
    else
        tell_have(w, j, status);
}
