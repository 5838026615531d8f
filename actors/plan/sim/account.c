/* account.c - finds out what each act of a run waited for.
 *
 * The plan determines the tokens and registers that an act used. Act n of a reader uses token n / hold of an edge
 * (integer division). The producer publishes token t at the end of its act (t + 1) * every - 1. On a control edge,
 * an act uses `need` tokens, and the last of them counts. Use r of a register begins after all readers of use r -
 * nreg have returned it. So the time at which each condition of an act became true is known. The condition that
 * became true last is the cause of the act's delay, unless the act's device was still busy then. */
#include "actors/plan/sim/account.h"
#include "runtime/device/device.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct books {
    const struct plan *plan;
    int64_t *first;       /* by task: number of its first act in the arrays below */
    int64_t *begin, *end; /* by number of an act: begin and end of the act, ns; -1: unknown */
};

static struct books
books_open(const struct plan *p, const struct act_time *act, int64_t nact, struct arena *a)
{
    struct books b = {.plan = p, .first = ARENA_ARRAY(a, int64_t, p->ntask + 1)};
    for (int32_t i = 0; i < p->ntask; i++) b.first[i + 1] = b.first[i] + p->task[i].nact;
    b.begin = ARENA_ARRAY(a, int64_t, b.first[p->ntask] + 1);
    b.end = ARENA_ARRAY(a, int64_t, b.first[p->ntask] + 1);
    for (int64_t i = 0; i < b.first[p->ntask]; i++) b.begin[i] = b.end[i] = -1;
    for (int64_t i = 0; i < nact; i++) {
        b.begin[b.first[act[i].task] + act[i].piece] = act[i].begin;
        b.end[b.first[act[i].task] + act[i].piece] = act[i].end;
    }
    return b;
}

static int64_t
act_end(const struct books *b, int32_t task, int64_t n)
{
    return n < b->plan->task[task].nact ? b->end[b->first[task] + n] : -1;
}

/* ---- finding the cause of an act's delay ---- */

struct cause {
    enum stall_kind kind;
    int32_t on;
    int64_t at; /* time at which the awaited condition became true, ns */
};

static void
later(struct cause *c, enum stall_kind kind, int32_t on, int64_t at)
{
    if (at > c->at) *c = (struct cause){kind, on, at};
}

static void
cause_of_input(const struct books *b, const struct in_port *in, int64_t n, struct cause *c)
{
    const struct out_port *out = &b->plan->task[in->task].out[in->out];
    int64_t token = in->need * (n / in->hold + 1), every = out->control ? 1 : out->every;
    later(c, STALL_INPUT, in->task, act_end(b, in->task, token * every - 1));
}

/* Looks at the times at which readers returned register r of an output. If one of them is later than the time in c,
 * it becomes the cause. */
static void
cause_of_register(const struct books *b, const struct out_port *out, int64_t r, struct cause *c)
{
    for (int32_t f = 0; f < out->nfan; f++)
        for (int32_t k = 0; k < out->fan[f].nreader; k++) {
            const struct reader *to = &out->fan[f].reader[k];
            int64_t hold = b->plan->task[to->task].in[to->port].hold;
            later(c, STALL_REGISTER, to->task, act_end(b, to->task, (r + 1) * hold - 1));
        }
}

static struct cause
cause_of(const struct books *b, int32_t task, int64_t n)
{
    const struct task *t = &b->plan->task[task];
    struct cause c = {STALL_TURN, -1, -1};
    for (int32_t k = 0; k < t->nin; k++) cause_of_input(b, &t->in[k], n, &c);
    for (int32_t k = 0; k < t->nout; k++) {
        const struct out_port *out = &t->out[k];
        if (!out->control && n / out->every >= out->nreg) cause_of_register(b, out, n / out->every - out->nreg, &c);
    }
    return c;
}

/* ---- idle time ---- */

struct stalls {
    struct stall *list;
    int32_t n, capacity;
    struct arena *arena;
};

/* Returns true if two waits are reported as one stall: they have the same kind, the same stage, and wait for tasks
 * of the same node. */
static bool
stalls_alike(const struct plan *p, const struct stall *s, const struct stall *t)
{
    if (s->kind != t->kind || s->stage != t->stage || (s->on < 0) != (t->on < 0)) return false;
    if (s->kind == STALL_TURN || s->kind == STALL_END) return true;
    const struct task *x = &p->task[s->on], *y = &p->task[t->on], *v = &p->task[s->task], *w = &p->task[t->task];
    if (s->kind == STALL_REGISTER && (v->node != w->node || v->kind != w->kind)) return false;
    return x->node == y->node && x->stage == y->stage && x->phase == y->phase && x->kind == y->kind;
}

static void
stall_add(const struct plan *p, struct stalls *l, struct stall s)
{
    int32_t i = 0;
    if (s.ns <= 0) return;
    s.longest = s.ns;
    while (i < l->n && !stalls_alike(p, &l->list[i], &s)) i++;
    if (i < l->n) {
        struct stall *t = &l->list[i];
        t->ns += s.ns;
        if (s.ns > t->longest) t->task = s.task, t->on = s.on, t->longest = s.ns;
        return;
    }
    ARENA_GROW(l->arena, l->list, l->n + 1, l->capacity);
    l->list[l->n++] = s;
}

static int
compare_stall_begin(const void *a, const void *b)
{
    const struct act_time *x = a, *y = b;
    return x->begin != y->begin ? (x->begin > y->begin) - (x->begin < y->begin) : (x->end > y->end) - (x->end < y->end);
}

/* Returns the lowest virtual stage of the device's tasks; -1: the device has no tasks. */
static int32_t
stage_of(const struct plan *p, int32_t device)
{
    int32_t stage = -1;
    for (int32_t i = 0; i < p->ntask; i++)
        if (p->task[i].device == device && p->task[i].phase != PHASE_BATCH && (stage < 0 || p->task[i].stage < stage))
            stage = p->task[i].stage;
    return stage;
}

/* Adds the idle times between the acts of one device to the stalls. act[]: the device's acts, sorted by time.
 * Returns the time spent in acts, ns. */
static int64_t
device_stalls(const struct books *b, const struct act_time *act, int64_t nact, int32_t stage, const struct account *o,
              struct stalls *l)
{
    int64_t free = o->begin, busy = 0;
    for (int64_t i = 0; i < nact; i++) {
        struct cause c = cause_of(b, act[i].task, act[i].piece);
        int64_t there = MIN(MAX(c.at, free), MAX(act[i].begin, free));
        stall_add(b->plan, l, (struct stall){c.kind, stage, act[i].task, c.on, .ns = there - free});
        stall_add(b->plan, l, (struct stall){STALL_TURN, stage, act[i].task, -1, .ns = act[i].begin - there});
        busy += MAX(0, act[i].end - MAX(free, act[i].begin));
        free = MAX(free, act[i].end);
    }
    stall_add(b->plan, l, (struct stall){STALL_END, stage, -1, -1, .ns = o->end - free});
    return busy;
}

static int
compare_stall_lengths(const void *a, const void *b)
{
    const struct stall *x = a, *y = b;
    return x->ns != y->ns ? (x->ns < y->ns) - (x->ns > y->ns) : (x->stage > y->stage) - (x->stage < y->stage);
}

static void
find_stalls(const struct books *b, const struct act_time *act, int64_t nact, struct arena *a, struct account *o)
{
    const struct plan *p = b->plan;
    struct stalls l = {.arena = a};
    int64_t *first = ARENA_ARRAY(a, int64_t, p->ndevice + 2);
    struct act_time *sorted = ARENA_ARRAY(a, struct act_time, nact + 1);
    int32_t *stage = ARENA_ARRAY(a, int32_t, p->ndevice + 1);
    for (int64_t i = 0; i < nact; i++) first[p->task[act[i].task].device + 2]++;
    for (int32_t d = 1; d <= p->ndevice; d++) first[d + 1] += first[d];
    for (int64_t i = 0; i < nact; i++) sorted[first[p->task[act[i].task].device + 1]++] = act[i];
    for (int32_t d = 0; d < p->ndevice; d++) {
        stage[d] = stage_of(p, d);
        qsort(sorted + first[d], (size_t)(first[d + 1] - first[d]), sizeof *sorted, compare_stall_begin);
        o->busy[d] = device_stalls(b, sorted + first[d], first[d + 1] - first[d], stage[d], o, &l);
    }
    for (int32_t i = 0; i < l.n; i++)
        for (int32_t d = 0; d < p->ndevice; d++) l.list[i].ndevice += stage[d] == l.list[i].stage;
    if (l.n) qsort(l.list, (size_t)l.n, sizeof *l.list, compare_stall_lengths);
    o->stall = l.list;
    o->nstall = l.n;
}

/* ---- memory ---- */

static int
compare_change_times(const void *a, const void *b)
{
    const struct reg_change *x = a, *y = b;
    if (x->at != y->at) return (x->at > y->at) - (x->at < y->at);
    /* at equal times, a returned register sorts before a register that is first written, so that the sum does not
     * overshoot */
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Returns the time at which use r of result k ended: the last reader has returned the register. Counts the readers
 * of other tasks' results in the same register (IN_TASK), too. */
static int64_t
until(const struct books *b, int32_t task, int32_t k, int64_t r)
{
    const struct out_port *out = &b->plan->task[task].out[k];
    struct cause c = {STALL_TURN, -1, act_end(b, task, (r + 1) * out->every - 1)};
    cause_of_register(b, out, r, &c);
    for (int32_t f = 0; f < out->nfan; f++)
        for (int32_t i = 0; i < out->fan[f].nreader; i++) {
            int32_t reader = out->fan[f].reader[i].task;
            const struct task *t = &b->plan->task[reader];
            for (int32_t o = 0; o < t->nresult; o++)
                if (t->out[o].where.kind == IN_TASK && t->out[o].where.index == task &&
                    t->nact == b->plan->task[task].nact)
                    cause_of_register(b, &t->out[o], r, &c);
        }
    return c.at;
}

static void
list_changes(const struct books *b, struct arena *a, struct reg_change **list, int64_t *n)
{
    const struct plan *p = b->plan;
    int64_t capacity = 0;
    for (int32_t i = 0; i < p->ntask; i++) capacity += 2 * (int64_t)p->task[i].nact * p->task[i].nout;
    *list = ARENA_ARRAY(a, struct reg_change, capacity + 1);
    *n = 0;
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nout; k++) {
            const struct out_port *out = &p->task[i].out[k];
            for (int64_t r = 0; out->where.kind == IN_ARENA && r < p->task[i].nact / out->every; r++) {
                int64_t from = b->begin[b->first[i] + r * out->every], to = until(b, i, k, r);
                if (from < 0 || to < 0 || !out->bytes) continue;
                (*list)[(*n)++] = (struct reg_change){from, out->bytes, out->where.index};
                (*list)[(*n)++] = (struct reg_change){to, -out->bytes, out->where.index};
            }
        }
    qsort(*list, (size_t)*n, sizeof **list, compare_change_times);
}

static void
find_memory(const struct books *b, struct arena *a, struct account *o)
{
    const struct plan *p = b->plan;
    struct reg_change *list;
    int64_t n, span = MAX(1, o->end - o->begin), *now = ARENA_ARRAY(a, int64_t, p->ndevice + 1);
    int32_t point = 0;
    list_changes(b, a, &list, &n);
    for (int64_t i = 0; i < n; i++) {
        int32_t at = (int32_t)MIN(o->npoint - 1, (list[i].at - o->begin) * o->npoint / span);
        for (; point < at; point++)
            for (int32_t d = 0; d < p->ndevice; d++) o->memory[(int64_t)d * o->npoint + point + 1] = now[d];
        int64_t *most = &o->memory[(int64_t)list[i].device * o->npoint + point];
        now[list[i].device] += list[i].bytes;
        *most = MAX(*most, now[list[i].device]);
    }
}

void
plan_changes(const struct plan *p, const struct act_time *act, int64_t nact, struct arena *a, struct reg_change **list,
             int64_t *n)
{
    struct books b = books_open(p, act, nact, a);
    list_changes(&b, a, list, n);
}

void
plan_crossings(const struct plan *p, const struct act_time *act, int64_t nact, struct arena *a, struct crossing **list,
               int64_t *n)
{
    struct books b = books_open(p, act, nact, a);
    int64_t capacity = 1;
    for (int64_t i = 0; i < nact; i++) capacity += p->task[act[i].task].nin;
    *list = ARENA_ARRAY(a, struct crossing, capacity);
    *n = 0;
    for (int64_t i = 0; i < nact; i++)
        for (int32_t k = 0; k < p->task[act[i].task].nin; k++) {
            const struct in_port *in = &p->task[act[i].task].in[k];
            const struct out_port *out = &p->task[in->task].out[in->out];
            if (out->control || act[i].piece % in->hold || p->task[in->task].device == p->task[act[i].task].device)
                continue;
            int64_t sent = act_end(&b, in->task, (act[i].piece / in->hold + 1) * (int64_t)out->every - 1);
            if (sent >= 0) (*list)[(*n)++] = (struct crossing){in->task, act[i].task, sent, act[i].begin};
        }
}

void
plan_account(const struct plan *p, const struct act_time *act, int64_t nact, int32_t npoint, struct arena *a,
             struct account *out)
{
    *out = (struct account){.npoint = npoint, .begin = nact ? INT64_MAX : 0};
    for (int64_t i = 0; i < nact; i++) {
        out->begin = MIN(out->begin, act[i].begin);
        out->end = MAX(out->end, act[i].end);
    }
    out->busy = ARENA_ARRAY(a, int64_t, p->ndevice + 1);
    out->memory = ARENA_ARRAY(a, int64_t, (int64_t)p->ndevice * npoint + 1);
    struct books b = books_open(p, act, nact, a);
    find_stalls(&b, act, nact, a, out);
    find_memory(&b, a, out);
}

int32_t
plan_at_once(const struct plan *p)
{
    /* by thread: true if its devices without streams have been counted. Together they count as one device */
    bool *shared = must_alloc(sizeof *shared * (size_t)(p->nthread + 1));
    int32_t n = 0;
    for (int32_t d = 0; d < p->ndevice; d++) {
        bool *own = &shared[p->device[d].thread];
        if (device_kind(p->device[d].kind)->stream_new)
            n++;
        else if (!*own)
            n += *own = true;
    }
    free(shared);
    return n;
}

/* ---- durations of acts ---- */

static int
compare_stall_numbers(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Sets the cost of each task to the median duration of its acts, because disturbances by the machine affect few
 * acts. */
bool
account_costs(const struct plan *p, const struct act_time *act, int64_t nact, int64_t *cost)
{
    struct arena tmp = {0};
    int64_t *first = ARENA_ARRAY(&tmp, int64_t, p->ntask + 2), *ns = ARENA_ARRAY(&tmp, int64_t, nact + 1);
    for (int64_t i = 0; i < nact; i++) first[act[i].task + 2]++;
    for (int32_t i = 1; i <= p->ntask; i++) first[i + 1] += first[i];
    for (int64_t i = 0; i < nact; i++) ns[first[act[i].task + 1]++] = act[i].end - act[i].begin;
    for (int32_t i = 0; i < p->ntask; i++) {
        int64_t n = first[i + 1] - first[i];
        if (n) qsort(ns + first[i], (size_t)n, sizeof *ns, compare_stall_numbers);
        if (n) cost[i] = ns[first[i] + n / 2];
    }
    arena_fini(&tmp);
    return nact > 0;
}

double
account_jitter(const struct act_time *act, int64_t nact, const int64_t *cost)
{
    double all = 0, off = 0;
    for (int64_t i = 0; i < nact; i++) {
        all += (double)cost[act[i].task];
        off += fabs((double)(act[i].end - act[i].begin - cost[act[i].task]));
    }
    return all > 0 ? MIN(1, 2 * off / all) : 0;
}
