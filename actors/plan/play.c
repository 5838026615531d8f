/* play.c - a plan on a virtual clock: events are ends of acts.
 *
 * A lane is what does one act at a time: a device, or a thread. At each moment all
 * acts that end then hand on their registers, and then each idle lane begins the
 * first of its ready tasks. Whoever ends at the same moment goes by the number of
 * the lane, so that a plan and its costs have one outcome. */
#include "actors/plan/play.h"

#include "runtime/error.h"
#include "runtime/hash.h"

/* ---- a heap of numbers by key ---- */

struct heap {
    uint64_t *key;
    int32_t *value, n;
};

static void
swap(struct heap *h, int32_t i, int32_t k)
{
    uint64_t key = h->key[i];
    int32_t value = h->value[i];
    h->key[i] = h->key[k];
    h->value[i] = h->value[k];
    h->key[k] = key;
    h->value[k] = value;
}

static void
heap_push(struct heap *h, uint64_t key, int32_t value)
{
    int32_t i = h->n++;
    h->key[i] = key;
    h->value[i] = value;
    for (; i > 0 && h->key[i] < h->key[(i - 1) / 2]; i = (i - 1) / 2) swap(h, i, (i - 1) / 2);
}

static int32_t
heap_pop(struct heap *h)
{
    int32_t value = h->value[0];
    swap(h, 0, --h->n);
    for (int32_t i = 0;;) {
        int32_t least = i, left = 2 * i + 1;
        for (int32_t k = left; k <= left + 1 && k < h->n; k++)
            if (h->key[k] < h->key[least]) least = k;
        if (least == i) return value;
        swap(h, i, least);
        i = least;
    }
}

/* ---- what ports hold ---- */

struct lane {
    struct heap ready; /* tasks that may act, by key */
    int32_t task;      /* under way; -1: idle */
    int64_t begin, end;
};

struct player {
    const struct plan *plan;
    const int64_t *cost;
    const struct play_jitter *jitter;
    int32_t *lane_of; /* by task */
    struct lane *lane;
    int32_t nlane;
    int64_t *first_in, *first_out;
    int32_t *token, *used, *give; /* by in-port: tokens, acts with the present register, which is given back next */
    int32_t *write, **left;       /* by out-port: the next register; by register: who still reads it */
    int32_t *begun, *waits;       /* by task: acts; ports that hold it up */
    struct heap ends;             /* lanes at work, by when their act ends */
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

/* Room for each lane's tasks, which are ready at most once each. */
static void
make_lanes(struct player *g, enum play_share share, struct arena *a)
{
    const struct plan *p = g->plan;
    g->nlane = share == PLAY_DEVICES ? p->ndevice : p->nthread;
    g->lane = ARENA_ARRAY(a, struct lane, g->nlane + 1);
    g->lane_of = ARENA_ARRAY(a, int32_t, p->ntask + 1);
    for (int32_t i = 0; i < p->ntask; i++) {
        g->lane_of[i] = share == PLAY_DEVICES ? p->task[i].device : p->task[i].thread;
        g->lane[g->lane_of[i]].ready.n++;
    }
    for (int32_t k = 0; k < g->nlane; k++) {
        struct heap *h = &g->lane[k].ready;
        h->key = ARENA_ARRAY(a, uint64_t, h->n + 1);
        h->value = ARENA_ARRAY(a, int32_t, h->n + 1);
        h->n = 0;
        g->lane[k].task = -1;
    }
    g->ends.key = ARENA_ARRAY(a, uint64_t, g->nlane + 1);
    g->ends.value = ARENA_ARRAY(a, int32_t, g->nlane + 1);
}

/* ---- the rule ---- */

static void
make_ready(struct player *g, int32_t task)
{
    const struct task *t = &g->plan->task[task];
    if (g->waits[task] || g->begun[task] == t->nact) return;
    heap_push(&g->lane[g->lane_of[task]].ready, task_key(g->plan, t, g->begun[task]), task);
}

/* One port less holds it up. */
static void
wait_less(struct player *g, int32_t task)
{
    assert(g->waits[task] > 0);
    if (--g->waits[task] == 0) make_ready(g, task);
}

static void
publish(struct player *g, int32_t task, int32_t k)
{
    const struct out_port *out = &g->plan->task[task].out[k];
    int64_t o = g->first_out[task] + k;
    for (int32_t f = 0; f < out->nfan; f++)
        for (int32_t r = 0; r < out->fan[f].nreader; r++) {
            const struct reader *to = &out->fan[f].reader[r];
            if (!out->control) g->left[o][g->write[o]]++;
            if (++g->token[g->first_in[to->task] + to->port] == g->plan->task[to->task].in[to->port].need)
                wait_less(g, to->task);
        }
    if (out->control) return;
    g->write[o] = (g->write[o] + 1) % out->nreg;
    if (g->left[o][g->write[o]] > 0) g->waits[task]++;
}

static void
give_back(struct player *g, int32_t task, int32_t k)
{
    const struct in_port *in = &g->plan->task[task].in[k];
    const struct out_port *out = &g->plan->task[in->task].out[in->out];
    int64_t i = g->first_in[task] + k, o = g->first_out[in->task] + in->out;
    if (++g->used[i] < in->hold) return;
    g->used[i] = 0;
    g->token[i] -= in->need;
    if (g->token[i] < in->need) g->waits[task]++;
    if (out->control) return;
    if (--g->left[o][g->give[i]] == 0 && g->give[i] == g->write[o]) wait_less(g, in->task);
    g->give[i] = (g->give[i] + 1) % out->nreg;
}

/* The act of the lane is done: its results are full, its inputs go back. */
static void
settle(struct player *g, struct lane *l)
{
    int32_t task = l->task;
    const struct task *t = &g->plan->task[task];
    g->act[g->nact++] = (struct act_time){task, g->begun[task] - 1, l->begin, l->end};
    l->task = -1;
    g->waits[task]++; /* not ready before all ports were seen to */
    for (int32_t k = 0; k < t->nout; k++)
        if (t->out[k].control || g->begun[task] % t->out[k].every == 0) publish(g, task, k);
    for (int32_t k = 0; k < t->nin; k++) give_back(g, task, k);
    wait_less(g, task);
}

/* Of the task's next act. */
static int64_t
cost_of(const struct player *g, int32_t task)
{
    const struct play_jitter *j = g->jitter;
    if (!j || j->share == 0) return g->cost[task];
    uint64_t bits = hash_number(hash_number(j->seed, (uint64_t)task), (uint64_t)g->begun[task]) >> 11;
    return (int64_t)((double)g->cost[task] * (1 + j->share * ((double)bits * 0x1p-52 - 1)));
}

static void
begin_acts(struct player *g, int64_t now)
{
    for (int32_t k = 0; k < g->nlane; k++) {
        struct lane *l = &g->lane[k];
        if (l->task >= 0 || l->ready.n == 0) continue;
        l->task = heap_pop(&l->ready);
        l->begin = now;
        l->end = now + cost_of(g, l->task);
        g->begun[l->task]++;
        heap_push(&g->ends, (uint64_t)l->end, k);
    }
}

static int
check_finished(const struct player *g)
{
    for (int32_t i = 0; i < g->plan->ntask; i++)
        if (g->begun[i] < g->plan->task[i].nact)
            return fail(E_PLAN, "task %d of a plan that is played waits for ever", (int)i);
    return 0;
}

int
plan_play(const struct plan *p, const int64_t *cost, const struct play_jitter *jitter, enum play_share share,
          struct arena *a, struct act_time **act, int64_t *nact)
{
    struct player g = {.plan = p, .cost = cost, .jitter = jitter};
    struct arena tmp = {0};
    int64_t n = 0, now = 0;
    for (int32_t i = 0; i < p->ntask; i++) n += p->task[i].nact;
    g.act = ARENA_ARRAY(a, struct act_time, n + 1);
    g.begun = ARENA_ARRAY(&tmp, int32_t, p->ntask + 1);
    g.waits = ARENA_ARRAY(&tmp, int32_t, p->ntask + 1);
    make_ports(&g, &tmp);
    make_lanes(&g, share, &tmp);
    for (int32_t i = 0; i < p->ntask; i++) {
        g.waits[i] = p->task[i].nin; /* each wants its tokens; all registers are free */
        make_ready(&g, i);
    }
    for (begin_acts(&g, now); g.ends.n > 0; begin_acts(&g, now))
        for (now = (int64_t)g.ends.key[0]; g.ends.n > 0 && (int64_t)g.ends.key[0] == now;)
            settle(&g, &g.lane[heap_pop(&g.ends)]);
    int status = check_finished(&g);
    arena_fini(&tmp);
    *act = g.act;
    *nact = g.nact;
    return status;
}
