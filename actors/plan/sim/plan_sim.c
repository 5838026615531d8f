/* plan_sim.c - plan simulator: event-driven; events are the ends of acts.
 *
 * A lane runs one act at a time. A lane is a stream of a device, or a thread for all its devices without streams.
 * At each event time, all acts that end publish their results and return registers. Then each idle lane begins its
 * first ready task. Simultaneous events are processed in the order of lanes, so a plan and its costs have exactly
 * one outcome. */
#include "actors/plan/sim/plan_sim.h"

#include "actors/plan/model/sync.h"
#include "runtime/device/device.h"
#include "runtime/base/error.h"
#include "runtime/data/hash.h"
#include "runtime/data/heap.h"
#include "runtime/device/stream.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- ports ---- */

struct lane {
    struct heap ready; /* ready tasks, least key first */
    int32_t task;      /* running task; -1: idle */
    int64_t begin, end;
    /* remaining acts of the lane's row, which is the expected order of its acts (plan_sim.h) */
    const struct row_act *row, *row_end;
    int64_t until; /* time at which the lane stops waiting for the next act of its row, ns */
};

struct player {
    const struct plan *plan;
    const int64_t *cost;
    const struct plan_sim_options *how;
    const struct lane_rows *rows; /* rows of the lanes; NULL: lanes never wait for the next act of a row */
    const int32_t *lane_of;       /* by task: its lane */
    struct lane *lane;
    int32_t nlane;
    int64_t *first_in, *first_out;
    /* token[in-port]: number of tokens that the in-port holds; used[in-port]: number of acts that have used the
     * current register; give[in-port]: index of the register to return next */
    int32_t *token, *used, *give;
    /* write[out-port]: index of the register to fill next; left[out-port][register]: number of readers that have
     * not returned the register */
    int32_t *write, **left;
    /* by task: begun: number of acts begun; waits: number of in-ports and out-ports that block it */
    int32_t *begun, *waits;
    struct heap ends; /* lanes, sorted by the time at which their act ends or their wait ends */
    struct act_time *act;
    int64_t nact;
};

static void
make_ports(struct player *g, struct arena *a)
{
    const struct plan *p = g->plan;
    int64_t nin = 0, nout = 0, nreg = 0;
    g->first_in = ARENA_ARRAY(a, int64_t, p->ntask + 1);
    g->first_out = ARENA_ARRAY(a, int64_t, p->ntask + 1);
    for (int32_t i = 0; i < p->ntask; i++) {
        g->first_in[i] = nin;
        g->first_out[i] = nout;
        nin += p->task[i].nin;
        nout += p->task[i].nout;
        for (int32_t k = 0; k < p->task[i].nout; k++) nreg += p->task[i].out[k].nreg;
    }
    g->token = ARENA_ARRAY(a, int32_t, nin + 1);
    g->used = ARENA_ARRAY(a, int32_t, nin + 1);
    g->give = ARENA_ARRAY(a, int32_t, nin + 1);
    g->write = ARENA_ARRAY(a, int32_t, nout + 1);
    g->left = ARENA_ARRAY(a, int32_t *, nout + 1);
    int32_t *left = ARENA_ARRAY(a, int32_t, nreg + 1);
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nout; left += p->task[i].out[k++].nreg) g->left[g->first_out[i] + k] = left;
}

/* Numbers the lanes of a device, one per stream role of its tasks. own >= 0: the device has a single lane, with this
 * number. */
static void
number_roles(struct plan_sim_lanes *l, uint8_t roles, int32_t own, int32_t *lane)
{
    for (int role = 0; role < NSTREAM; role++)
        if (roles >> role & 1) lane[role] = own >= 0 ? own : l->n++;
}

/* Returns the lanes of all devices, numbered device by device. With PLAN_SIM_THREADS the lanes are numbered thread
 * by thread, and the devices without streams of a thread share one lane. */
struct plan_sim_lanes
plan_sim_lanes(const struct plan *p, enum plan_sim_share share, struct arena *a)
{
    struct plan_sim_lanes l = {.of = ARENA_ARRAY(a, int32_t, p->ntask + 1),
                               .first = ARENA_ARRAY(a, int32_t, p->nthread + 1)};
    int32_t *lane = ARENA_ARRAY(a, int32_t, p->ndevice * NSTREAM + 1);
    uint8_t *roles = ARENA_ARRAY(a, uint8_t, p->ndevice + 1);
    sync_roles(p, roles);
    for (int32_t d = 0; share == PLAN_SIM_DEVICES && d < p->ndevice; d++)
        number_roles(&l, roles[d], -1, lane + d * NSTREAM);
    for (int32_t t = 0; share == PLAN_SIM_THREADS && t < p->nthread; t++) {
        l.first[t] = l.n++;
        for (int32_t d = 0; d < p->ndevice; d++)
            if (p->device[d].thread == t)
                number_roles(&l, roles[d], sync_has_streams(&p->device[d]) ? -1 : l.first[t], lane + d * NSTREAM);
    }
    l.first[p->nthread] = l.n;
    for (int32_t i = 0; i < p->ntask; i++) l.of[i] = lane[p->task[i].device * NSTREAM + p->task[i].stream];
    return l;
}

/* Allocates each lane's heap of ready tasks, with space for all tasks of the lane. */
static void
make_lanes(struct player *g, int64_t nact, struct arena *a)
{
    const struct plan *p = g->plan;
    const struct lane_rows *rows = g->rows;
    struct plan_sim_lanes l = plan_sim_lanes(p, g->how->share, a);
    g->lane_of = l.of;
    g->nlane = l.n;
    assert(!rows || rows->nlane == g->nlane);
    g->lane = ARENA_ARRAY(a, struct lane, g->nlane + 1);
    for (int32_t i = 0; i < p->ntask; i++) g->lane[g->lane_of[i]].ready.n++;
    for (int32_t k = 0; k < g->nlane; k++) {
        g->lane[k].ready = heap_for(g->lane[k].ready.n, a);
        g->lane[k].task = -1;
        if (!rows) continue;
        g->lane[k].row = rows->act + rows->first[k];
        g->lane[k].row_end = rows->act + rows->first[k + 1];
    }
    int64_t nevent =
        /* a waiting lane adds an event each time `until` changes: at most once per end of an act and once per task
         * that becomes ready */
        g->nlane + (rows ? 2 * nact : 0);
    g->ends = heap_for(nevent, a);
}

/* ---- firing rule ---- */

static void
make_ready(struct player *g, int32_t task)
{
    const struct task *t = &g->plan->task[task];
    if (g->waits[task] || g->begun[task] == t->nact) return;
    uint64_t key = g->rows ? row_key(g->rows, task, g->begun[task]) : task_key(g->plan, t, g->begun[task]);
    heap_push(&g->lane[g->lane_of[task]].ready, key, task);
}

/* Decrements the number of ports that block a task. At 0, adds the task to the ready tasks of its lane. */
static void
sim_wait_less(struct player *g, int32_t task)
{
    assert(g->waits[task] > 0);
    if (--g->waits[task] == 0) make_ready(g, task);
}

static void
publish_result(struct player *g, int32_t task, int32_t k)
{
    const struct out_port *out = &g->plan->task[task].out[k];
    int64_t o = g->first_out[task] + k;
    for (int32_t f = 0; f < out->nfan; f++)
        for (int32_t r = 0; r < out->fan[f].nreader; r++) {
            const struct reader *to = &out->fan[f].reader[r];
            if (!out->control) g->left[o][g->write[o]]++;
            if (++g->token[g->first_in[to->task] + to->port] == g->plan->task[to->task].in[to->port].need)
                sim_wait_less(g, to->task);
        }
    if (out->control) return;
    g->write[o] = (g->write[o] + 1) % out->nreg;
    if (g->left[o][g->write[o]] > 0) g->waits[task]++;
}

static void
free_register(struct player *g, int32_t task, int32_t k)
{
    const struct in_port *in = &g->plan->task[task].in[k];
    const struct out_port *out = &g->plan->task[in->task].out[in->out];
    int64_t i = g->first_in[task] + k, o = g->first_out[in->task] + in->out;
    if (++g->used[i] < in->hold) return;
    g->used[i] = 0;
    g->token[i] -= in->need;
    if (g->token[i] < in->need) g->waits[task]++;
    if (out->control) return;
    if (--g->left[o][g->give[i]] == 0 && g->give[i] == g->write[o]) sim_wait_less(g, in->task);
    g->give[i] = (g->give[i] + 1) % out->nreg;
}

/* Ends the lane's act: publishes its results and returns the registers that it has read. */
static void
end_task(struct player *g, struct lane *l)
{
    int32_t task = l->task;
    const struct task *t = &g->plan->task[task];
    g->act[g->nact++] = (struct act_time){task, g->begun[task] - 1, l->begin, l->end};
    l->task = -1;
    g->waits[task]++; /* keeps the task blocked until all of its ports are updated */
    for (int32_t k = 0; k < t->nout; k++)
        if (t->out[k].control || g->begun[task] % t->out[k].every == 0) publish_result(g, task, k);
    for (int32_t k = 0; k < t->nin; k++) free_register(g, task, k);
    sim_wait_less(g, task);
}

/* Returns the duration of the task's next act, with jitter; ns. */
static int64_t
sim_task_cost(const struct player *g, int32_t task)
{
    const struct plan_sim_jitter *j = &g->how->jitter;
    if (j->share == 0) return g->cost[task];
    uint64_t bits = hash_number(hash_number(j->seed, (uint64_t)task), (uint64_t)g->begun[task]) >> 11;
    return (int64_t)((double)g->cost[task] * (1 + j->share * ((double)bits * 0x1p-52 - 1)));
}

/* Returns true if lane k waits for the next act of its row instead of beginning another ready act. Adds an event
 * at the time at which the lane stops waiting. */
static bool
player_holds_back(struct player *g, int32_t k, int64_t now)
{
    struct lane *l = &g->lane[k];
    for (; l->row < l->row_end && l->row->piece < g->begun[l->row->task]; l->row++) continue;
    if (l->row == l->row_end || g->waits[l->row->task] == 0) return false;
    int64_t until = l->end + g->rows->patience[l->ready.value[0]];
    if (now >= until) return false;
    if (l->until != until) heap_push(&g->ends, (uint64_t)until, k);
    l->until = until;
    return true;
}

/* Begins the next act of each idle lane. free: begins only acts with duration 0. Returns true if any act began. */
static bool
begin_next_task(struct player *g, int64_t now, bool free)
{
    bool any = false;
    for (int32_t k = 0; k < g->nlane; k++) {
        struct lane *l = &g->lane[k];
        if (l->task >= 0 || l->ready.n == 0 || (free && g->cost[l->ready.value[0]] > 0) || player_holds_back(g, k, now))
            continue;
        l->task = heap_take(&l->ready, 0);
        l->begin = now;
        l->end = now + sim_task_cost(g, l->task);
        g->begun[l->task]++;
        heap_push(&g->ends, (uint64_t)l->end, k);
        any = true;
    }
    return any;
}

/* Begins acts on all idle lanes. Acts that take no time (moves on streams of their own) end before lanes choose
 * among the other acts. */
static void
begin_acts(struct player *g, int64_t now)
{
    if (!begin_next_task(g, now, true)) begin_next_task(g, now, false);
}

static int
check_sim_finished(const struct player *g)
{
    for (int32_t i = 0; i < g->plan->ntask; i++)
        if (g->begun[i] < g->plan->task[i].nact)
            return fail(E_PLAN, "internal error: task %d of a simulated plan never runs", (int)i);
    return 0;
}

static void
next_event(struct player *g, int64_t now)
{
    struct lane *l = &g->lane[heap_take(&g->ends, 0)];
    /* if no act of the lane ends now, the event is the end of a wait, which may be outdated */
    if (l->task >= 0 && l->end == now) end_task(g, l);
}

int
plan_sim_run(const struct plan *p, const int64_t *cost, const struct plan_sim_options *how, struct arena *a,
             struct act_time **act, int64_t *nact)
{
    struct player g = {.plan = p, .cost = cost, .how = how};
    g.rows = how->rows && how->rows->nlane ? how->rows : NULL;
    struct arena tmp = {0};
    int64_t n = 0, now = 0;
    for (int32_t i = 0; i < p->ntask; i++) n += p->task[i].nact;
    g.act = ARENA_ARRAY(a, struct act_time, n + 1);
    g.begun = ARENA_ARRAY(&tmp, int32_t, p->ntask + 1);
    g.waits = ARENA_ARRAY(&tmp, int32_t, p->ntask + 1);
    make_ports(&g, &tmp);
    make_lanes(&g, n, &tmp);
    for (int32_t i = 0; i < p->ntask; i++) {
        g.waits[i] = p->task[i].nin; /* at the start all in-ports lack tokens, and all registers are free */
        make_ready(&g, i);
    }
    for (begin_acts(&g, now); g.ends.n > 0; begin_acts(&g, now))
        for (now = (int64_t)g.ends.key[0]; g.ends.n > 0 && (int64_t)g.ends.key[0] == now;) next_event(&g, now);
    int status = check_sim_finished(&g);
    arena_fini(&tmp);
    *act = g.act;
    *nact = g.nact;
    return status;
}

/* ---- rows ---- */

/* LITTLE: work is short if it takes less than 1/LITTLE of the longest moment; a moment is a stage and phase of a
 * device. DRAWS: number of simulations with random jitter by which a choice is judged. ACTS: largest number of acts
 * for which a plan gets rows */
enum { LITTLE = 20, DRAWS = 8, ACTS = 1 << 18 };

static int64_t
longest_ns(const int64_t *ns, int64_t n)
{
    int64_t most = 0;
    for (int64_t k = 0; k < n; k++) most = MAX(most, ns[k]);
    return most;
}

/* Returns the unit, ns, to which even_costs() rounds work: 1/parts of the shortest moment's work. A moment is one
 * device, stage and phase; ns[k]: work of moment k per micro-batch. Ignores moments below 1/LITTLE of the longest
 * moment. */
static int64_t
even_unit(const int64_t *ns, int64_t n, int parts)
{
    int64_t most = longest_ns(ns, n), least = most;
    for (int64_t k = 0; k < n; k++)
        if (ns[k] >= most / LITTLE) least = MIN(least, ns[k]);
    return MAX(1, least / parts);
}

/* Returns idealised durations of acts, by task. A moment is one device, stage and phase. The work of each moment is
 * rounded to a multiple of the unit, so that nearly equal moments become equal. Short moves, and short tasks that
 * run once per batch, have duration 0. Without this, a device that is late by a short move would start another act
 * first, and would then be late by the duration of that act. */
static int64_t *
even_costs(const struct plan *p, const int64_t *cost, int parts, struct arena *a)
{
    int32_t nstage = 1;
    for (int32_t i = 0; i < p->ntask; i++) nstage = MAX(nstage, p->task[i].stage + 1);
    int64_t n = (int64_t)p->ndevice * nstage * (PHASE_BATCH + 1), *even = ARENA_ARRAY(a, int64_t, p->ntask + 1);
    int64_t *work = ARENA_ARRAY(a, int64_t, n + 1), *before = ARENA_ARRAY(a, int64_t, n + 1);
    for (int32_t i = 0; i < p->ntask; i++) work[task_moment(&p->task[i], nstage)] += cost[i];
    int64_t little = longest_ns(work, n) / LITTLE;
    memset(work, 0, sizeof *work * (size_t)n);
    for (int32_t i = 0; i < p->ntask; i++) {
        const struct task *t = &p->task[i];
        bool counts = t->nact == p->pieces && !(t->kind->flags & KIND_MOVE);
        even[i] = counts || cost[i] > little ? cost[i] : 0;
        if (t->nact == p->pieces) work[task_moment(t, nstage)] += even[i];
    }
    int64_t unit = even_unit(work, n, parts);
    for (int32_t i = 0; i < p->ntask; i++) {
        int64_t k = task_moment(&p->task[i], nstage), until = before[k] + even[i];
        if (p->task[i].nact < p->pieces || work[k] == 0) continue;
        double scale = (double)((work[k] + unit / 2) / unit * unit) / (double)work[k];
        even[i] = llround(scale * (double)until) - llround(scale * (double)before[k]);
        before[k] = until;
    }
    return even;
}

/* Returns the total time of ndraw simulations, each with different random jitter, ns. */
static int64_t
time_of_draws(const struct plan *p, const int64_t *cost, struct plan_sim_options how, int64_t ndraw)
{
    int64_t sum = 0, n;
    for (int64_t i = 0; i < ndraw; i++, how.jitter.seed++) {
        struct arena tmp = {0};
        struct act_time *act;
        if (!plan_sim_run(p, cost, &how, &tmp, &act, &n) && n) sum += act[n - 1].end;
        arena_fini(&tmp);
    }
    return sum;
}

/* Lists the acts of each lane's row. Acts with duration 0 are in no row and run before all others. */
static void
fill_rows(struct lane_rows *r, const struct plan *p, const int64_t *even, const struct act_time *act, int64_t n,
          struct arena *a)
{
    const int32_t *lane = r->lane_of;
    r->max_ready = ARENA_ARRAY(a, int32_t, r->nlane + 1);
    r->first = ARENA_ARRAY(a, int64_t, r->nlane + 2);
    r->act = ARENA_ARRAY(a, struct row_act, n + 1);
    r->patience = ARENA_ARRAY(a, int64_t, p->ntask + 1);
    r->first_act = ARENA_ARRAY(a, int64_t, p->ntask + 1);
    r->place = ARENA_ARRAY(a, int32_t, n + 1);
    for (int32_t i = 0; i < p->ntask; i++) {
        r->max_ready[lane[i]]++;
        r->first_act[i + 1] = r->first_act[i] + p->task[i].nact;
        if (even[i]) r->first[lane[i] + 2] += p->task[i].nact;
    }
    for (int32_t k = 0; k < r->nlane; k++) r->first[k + 1] += r->first[k];
    r->nact = (int32_t)n;
    for (int64_t i = 0; i < n; i++) {
        struct row_act x = {act[i].task, act[i].piece};
        if (even[x.task]) r->act[r->first[lane[x.task] + 1]++] = x;
        r->place[r->first_act[x.task] + x.piece] = (int32_t)(even[x.task] ? n + i : i);
    }
}

static void
set_patience(struct lane_rows *r, const struct plan *p, const int64_t *even, double share)
{
    for (int32_t i = 0; i < p->ntask; i++) r->patience[i] = (int64_t)(share * (double)even[i]);
}

/* Returns true if threads enqueue work on streams in advance. In this case there are always rows, because without
 * rows the simulator cannot predict the order in which threads enqueue. */
static bool
enqueues(const struct plan *p, enum plan_sim_share share)
{
    bool any = false;
    for (int32_t d = 0; d < p->ndevice; d++) any = any || sync_has_streams(&p->device[d]);
    return any && share == PLAN_SIM_THREADS;
}

/* Sets the patience: the time that a lane waits for the next act of its row, as a fraction of the act that it could
 * begin instead. Chooses the patience with which simulations with random jitter take the least time. Of equally
 * good values, chooses the longest, which tolerates acts that occasionally take twice as long. Returns the total
 * time of these simulations, ns. */
static int64_t
choose_patience(struct lane_rows *r, const struct plan *p, const int64_t *cost, const int64_t *even,
                struct plan_sim_options how, int64_t ndraw)
{
    static const double share[] = {4, 1, 0.2};
    int64_t least = INT64_MAX;
    size_t best = 0;
    how.rows = r;
    for (size_t i = 0; i < countof(share); i++) {
        set_patience(r, p, even, share[i]);
        int64_t time = time_of_draws(p, cost, how, ndraw);
        if (time < least) best = i;
        least = MIN(least, time);
    }
    set_patience(r, p, even, share[best]);
    return least;
}

/* Computes rows (expected orders of acts) from the work of moments, after rounding the work to 1/parts of the
 * shortest moment. Returns in *time the total time of simulations with random jitter and these rows, ns. */
static int
simulate_rows(const struct plan *p, const int64_t *cost, const struct plan_sim_options *how, int parts, struct arena *a,
              struct lane_rows *r, int64_t *time)
{
    struct arena tmp = {0};
    struct act_time *act;
    int64_t n = 0, *even = even_costs(p, cost, parts, &tmp);
    *r = (struct lane_rows){0};
    *time = INT64_MAX;
    int status = plan_sim_run(p, even, &(struct plan_sim_options){.share = how->share}, &tmp, &act, &n);
    int64_t ndraw = status || n == 0 ? 0 : MIN(DRAWS, ACTS / n);
    if (ndraw) {
        struct plan_sim_lanes l = plan_sim_lanes(p, how->share, a);
        r->nlane = l.n;
        r->lane_of = l.of;
        r->first_lane = l.first;
        fill_rows(r, p, even, act, n, a);
        *time = choose_patience(r, p, cost, even, *how, ndraw);
        if (!enqueues(p, how->share) && *time >= time_of_draws(p, cost, *how, ndraw)) r->nlane = 0;
    }
    arena_fini(&tmp);
    return status;
}

/* Computes rows (expected orders of acts) with a fine and with a coarse unit of work, and keeps the better ones.
 * Measured costs are inexact, so a fine unit may make acts different that are in fact equal. Then the coarse unit
 * is better. */
int
plan_sim_rows(const struct plan *p, const int64_t *cost, const struct plan_sim_options *how, struct arena *a,
              struct lane_rows *out)
{
    static const int parts[] = {20, 5};
    struct lane_rows r;
    int64_t time, least = INT64_MAX;
    *out = (struct lane_rows){0};
    for (size_t i = 0; i < countof(parts); i++) {
        TRY(simulate_rows(p, cost, how, parts[i], a, &r, &time));
        if (time < least) *out = r;
        least = MIN(least, time);
    }
    return 0;
}

/* ---- serialisation ---- */

/* Header of serialised rows, 64-bit numbers. Each task's patience and each act's place follow the header. */
enum { NTASK, NACT, NHEAD };

void
plan_sim_rows_write(const struct lane_rows *r, const struct plan *part, int32_t first, struct str *out)
{
    int64_t act = r->first_act[first], head[NHEAD] = {part->ntask, r->nact};
    str_addn(out, head, sizeof head);
    str_addn(out, r->patience + first, sizeof *r->patience * (size_t)part->ntask);
    str_addn(out, r->place + act, sizeof *r->place * (size_t)(r->first_act[first + part->ntask] - act));
}

/* Returns true if all numbers are in range, so that no time overflows. */
static bool
makes_sense(const struct plan *p, const struct lane_rows *r)
{
    bool good = true;
    for (int32_t i = 0; i < p->ntask; i++) {
        good = good && r->patience[i] >= 0 && r->patience[i] <= INT64_MAX / 4;
        for (int64_t k = r->first_act[i]; k < r->first_act[i + 1]; k++) good = good && r->place[k] >= 0;
    }
    return good && r->nact >= 0;
}

struct placed {
    int32_t lane, place;
    struct row_act act;
};

static int
by_lane(const void *x, const void *y)
{
    const struct placed *a = x, *b = y;
    if (a->lane != b->lane) return a->lane < b->lane ? -1 : 1;
    if (a->place != b->place) return a->place < b->place ? -1 : 1;
    return (a->act.task > b->act.task) - (a->act.task < b->act.task);
}

/* Rebuilds the rows, lane by lane, from the places of acts. */
static void
list_lane_rows(const struct plan *p, struct lane_rows *r, struct arena *a)
{
    struct arena tmp = {0};
    int64_t n = 0;
    struct placed *in = ARENA_ARRAY(&tmp, struct placed, r->first_act[p->ntask] + 1);
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nact; k++) {
            int32_t place = r->place[r->first_act[i] + k];
            if (place >= r->nact) in[n++] = (struct placed){r->lane_of[i], place, {i, k}};
        }
    qsort(in, (size_t)n, sizeof *in, by_lane);
    r->act = ARENA_ARRAY(a, struct row_act, n + 1);
    for (int64_t i = 0; i < n; i++) {
        r->act[i] = in[i].act;
        r->first[in[i].lane + 1]++;
    }
    for (int32_t k = 0; k < r->nlane; k++) r->first[k + 1] += r->first[k];
    arena_fini(&tmp);
}

int
plan_sim_rows_read(const struct plan *p, const void *bytes, size_t n, struct arena *a, struct lane_rows *out)
{
    struct plan_sim_lanes l = plan_sim_lanes(p, PLAN_SIM_THREADS, a);
    struct lane_rows r = {.nlane = l.n, .lane_of = l.of, .first_lane = l.first};
    int64_t head[NHEAD];
    r.first_act = ARENA_ARRAY(a, int64_t, p->ntask + 1);
    r.max_ready = ARENA_ARRAY(a, int32_t, r.nlane + 1);
    r.first = ARENA_ARRAY(a, int64_t, r.nlane + 1);
    for (int32_t i = 0; i < p->ntask; i++) {
        r.first_act[i + 1] = r.first_act[i] + p->task[i].nact;
        r.max_ready[l.of[i]]++;
    }
    size_t patience = sizeof *r.patience * (size_t)p->ntask, place = sizeof *r.place * (size_t)r.first_act[p->ntask];
    if (n != sizeof head + patience + place) return fail(E_BUS, "received a schedule of another plan");
    memcpy(head, bytes, sizeof head);
    r.nact = (int32_t)MIN(MAX(head[NACT], -1), INT32_MAX);
    r.patience = arena_dup(a, (const char *)bytes + sizeof head, patience);
    r.place = arena_dup(a, (const char *)bytes + sizeof head + patience, place);
    if (head[NTASK] != p->ntask || !makes_sense(p, &r)) return fail(E_BUS, "received a malformed schedule");
    list_lane_rows(p, &r, a);
    *out = r;
    return 0;
}
