/* rehearse.c - virtual stages on a clock: at each moment all acts that end hand on what they made, and then each lane
 * begins the act whose turn it is. */
#include "actors/plan/rehearse.h"

#include <string.h>

enum act { FORWARD, BACKWARD, WEIGHT };

struct counts {
    int32_t begun[NACT], done[NACT];
    int32_t there[NACT]; /* done, and known to other lanes */
};

/* A lane's act ends, or (act NACT) what it made has come to another. */
struct event {
    int64_t at;
    int32_t stage;
    uint8_t act;
    bool there;
};

struct theatre {
    const struct pipeline *p;
    const struct rehearsed_rule *rule;
    const struct prog_pool *pool;
    struct counts *count;      /* by stage */
    bool *busy;                /* by lane */
    int32_t *held;             /* by lane: contexts */
    int32_t **stages, *nstage; /* by lane */
    int32_t *next, *before;    /* links by stage: first index in p->link; in `back` */
    struct link *back;         /* sorted by to */
    struct event *heap;
    int32_t nheap;
    struct rehearsed *out;
    int64_t left, now;
    int64_t *work; /* by lane: what is left of it, nanoseconds */
    bool late;
};

/* ---- events ---- */

static bool
is_before(const struct event *a, const struct event *b)
{
    return a->at != b->at ? a->at < b->at : a->stage < b->stage;
}

static void
event_push(struct theatre *t, struct event e)
{
    int32_t i = t->nheap++;
    for (; i > 0 && is_before(&e, &t->heap[(i - 1) / 2]); i = (i - 1) / 2) t->heap[i] = t->heap[(i - 1) / 2];
    t->heap[i] = e;
}

static struct event
event_pop(struct theatre *t)
{
    struct event first = t->heap[0], e = t->heap[--t->nheap];
    int32_t i = 0;
    for (int32_t k; (k = 2 * i + 1) < t->nheap; i = k) {
        if (k + 1 < t->nheap && is_before(&t->heap[k + 1], &t->heap[k])) k++;
        if (is_before(&e, &t->heap[k])) break;
        t->heap[i] = t->heap[k];
    }
    t->heap[i] = e;
    return first;
}

/* ---- may it act? ---- */

/* Has stage `from` given so many pieces of this act to stage `to`? */
static bool
has_come(const struct theatre *t, int32_t from, int32_t to, enum act act, int32_t piece)
{
    const struct counts *c = &t->count[from];
    return (t->p->lane[from] == t->p->lane[to] ? c->done[act] : c->there[act]) > piece;
}

static bool
may_forward(const struct theatre *t, int32_t q, int32_t piece)
{
    const struct counts *c = &t->count[q];
    for (int32_t k = t->before[q]; k < t->before[q + 1]; k++)
        if (!has_come(t, t->back[k].from, q, FORWARD, piece)) return false;
    if (!t->p->trained) return true;
    return piece - c->done[t->p->joint[q] ? WEIGHT : BACKWARD] < t->pool[q].backward &&
           piece - c->done[WEIGHT] < t->pool[q].weight;
}

static bool
may_backward(const struct theatre *t, int32_t q, int32_t piece)
{
    const struct counts *c = &t->count[q];
    if (c->done[FORWARD] <= piece || piece - c->done[WEIGHT] >= t->pool[q].behind) return false;
    for (int32_t k = t->next[q]; k < t->next[q + 1]; k++)
        if (!has_come(t, t->p->link[k].to, q, BACKWARD, piece)) return false;
    return true;
}

static bool
may_act(const struct theatre *t, int32_t q, enum act act)
{
    int32_t piece = t->count[q].begun[act];
    if (piece == t->p->pieces) return false;
    switch (act) {
    case FORWARD: return may_forward(t, q, piece);
    case BACKWARD: return may_backward(t, q, piece);
    default: return t->count[q].done[BACKWARD] > piece;
    }
}

static uint64_t
key_of(const struct theatre *t, int32_t q, enum act act)
{
    const struct rehearsed_rule *r = t->rule;
    struct stage_turn turn = r->turn[q][act];
    int32_t piece = t->count[q].begun[act];
    int64_t place = (int64_t)(piece / r->group) * r->round + turn.lead + piece % r->group;
    int32_t listed = act == FORWARD ? q : t->p->n - 1 - q; /* as the plan's tasks are */
    return (uint64_t)turn.first << 56 | (uint64_t)place << 26 | (uint64_t)act << 24 | (uint64_t)listed;
}

/* ---- it acts ---- */

static void
most(int32_t *peak, int32_t n)
{
    *peak = MAX(*peak, n);
}

static void
note_peaks(struct theatre *t, int32_t q)
{
    const struct counts *c = &t->count[q];
    struct prog_pool *peak = &t->out->peak[q];
    int32_t lane = t->p->lane[q];
    most(&peak->backward, c->begun[FORWARD] - c->done[t->p->joint[q] ? WEIGHT : BACKWARD]);
    most(&peak->weight, c->begun[FORWARD] - c->done[WEIGHT]);
    most(&peak->behind, c->begun[BACKWARD] - c->done[WEIGHT]);
    for (int32_t k = t->next[q]; k < t->next[q + 1]; k++) {
        int32_t to = t->p->link[k].to;
        most(&t->out->peak[to].hop, (c->begun[FORWARD] - t->count[to].begun[FORWARD]) / MAX(1, to - q) + 1);
    }
    for (int32_t k = t->before[q]; k < t->before[q + 1]; k++) {
        int32_t from = t->back[k].from;
        most(&peak->hop, (c->begun[BACKWARD] - t->count[from].begun[BACKWARD]) / MAX(1, q - from) + 1);
    }
    most(&t->out->contexts, t->held[lane]);
}

static void
begin(struct theatre *t, int32_t q, enum act act)
{
    int32_t lane = t->p->lane[q];
    t->count[q].begun[act]++;
    t->busy[lane] = true;
    if (act == FORWARD) t->held[lane]++;
    t->late = t->late || (t->out->latest && t->now + t->work[lane] > t->out->latest);
    t->work[lane] -= t->p->cost[q][act];
    note_peaks(t, q);
    event_push(t, (struct event){.at = t->now + t->p->cost[q][act], .stage = q, .act = (uint8_t)act});
}

/* The lane begins the act whose turn it is, if one may. */
static void
lane_goes_on(struct theatre *t, int32_t lane)
{
    uint64_t least = UINT64_MAX;
    int32_t stage = -1;
    enum act act = FORWARD;
    if (t->busy[lane]) return;
    for (int32_t k = 0; k < t->nstage[lane]; k++)
        for (int a = 0; a < (t->p->trained ? NACT : 1); a++) {
            int32_t q = t->stages[lane][k];
            uint64_t key = key_of(t, q, (enum act)a);
            if (key >= least || !may_act(t, q, (enum act)a)) continue;
            least = key;
            stage = q;
            act = (enum act)a;
        }
    if (stage >= 0) begin(t, stage, act);
}

/* What ended may let its own lane go on, and those that wait for it. */
static void
settle(struct theatre *t, const struct event *e, bool *stirred)
{
    struct counts *c = &t->count[e->stage];
    int32_t lane = t->p->lane[e->stage];
    if (e->there) {
        c->there[e->act]++;
    } else {
        t->busy[lane] = false;
        stirred[lane] = true;
        c->done[e->act]++;
        t->left--;
        if (e->act == WEIGHT) t->held[lane]--;
        if (t->p->hop == 0)
            c->there[e->act]++;
        else
            event_push(t, (struct event){t->now + t->p->hop, e->stage, e->act, true});
    }
    for (int32_t k = t->next[e->stage]; k < t->next[e->stage + 1]; k++) stirred[t->p->lane[t->p->link[k].to]] = true;
    for (int32_t k = t->before[e->stage]; k < t->before[e->stage + 1]; k++) stirred[t->p->lane[t->back[k].from]] = true;
}

/* ---- the whole ---- */

static void
sort_links(struct theatre *t, struct arena *a)
{
    const struct pipeline *p = t->p;
    t->next = ARENA_ARRAY(a, int32_t, p->n + 2);
    t->before = ARENA_ARRAY(a, int32_t, p->n + 2);
    t->back = ARENA_ARRAY(a, struct link, p->nlink + 1);
    for (int32_t k = 0; k < p->nlink; k++) {
        t->next[p->link[k].from + 1]++;
        t->before[p->link[k].to + 2]++;
    }
    for (int32_t q = 0; q < p->n; q++) {
        t->next[q + 1] += t->next[q];
        t->before[q + 2] += t->before[q + 1];
    }
    for (int32_t k = 0; k < p->nlink; k++) t->back[t->before[p->link[k].to + 1]++] = p->link[k];
}

static void
list_stages(struct theatre *t, struct arena *a)
{
    const struct pipeline *p = t->p;
    t->stages = ARENA_ARRAY(a, int32_t *, p->nlane);
    t->nstage = ARENA_ARRAY(a, int32_t, p->nlane);
    for (int32_t k = 0; k < p->nlane; k++) t->stages[k] = ARENA_ARRAY(a, int32_t, p->n);
    for (int32_t q = 0; q < p->n; q++) t->stages[p->lane[q]][t->nstage[p->lane[q]]++] = q;
}

static void
play(struct theatre *t, bool *stirred)
{
    const struct pipeline *p = t->p;
    memset(stirred, true, sizeof *stirred * (size_t)p->nlane);
    for (;;) {
        for (int32_t lane = 0; lane < p->nlane; lane++) {
            if (stirred[lane]) lane_goes_on(t, lane);
            stirred[lane] = false;
        }
        if (t->nheap == 0 || t->late) return;
        t->now = t->heap[0].at;
        while (t->nheap && t->heap[0].at == t->now) {
            struct event e = event_pop(t);
            settle(t, &e, stirred);
        }
        if (t->left == 0) return;
    }
}

void
rehearse(const struct pipeline *p, const struct rehearsed_rule *rule, const struct prog_pool *pool, struct arena *tmp,
         struct rehearsed *out)
{
    struct theatre t = {.p = p, .rule = rule, .pool = pool, .out = out};
    int32_t acts = p->trained ? NACT : 1;
    t.left = (int64_t)p->n * acts * p->pieces;
    t.count = ARENA_ARRAY(tmp, struct counts, p->n);
    t.busy = ARENA_ARRAY(tmp, bool, p->nlane);
    t.held = ARENA_ARRAY(tmp, int32_t, p->nlane);
    t.heap = ARENA_ARRAY(tmp, struct event, p->nlane + p->n * acts * p->pieces * (p->hop > 0));
    t.work = ARENA_ARRAY(tmp, int64_t, p->nlane);
    out->contexts = 0;
    for (int32_t q = 0; q < p->n; q++) {
        out->peak[q] = (struct prog_pool){1, 1, 1, 2};
        for (int32_t a = 0; a < acts; a++) t.work[p->lane[q]] += p->cost[q][a] * p->pieces;
    }
    sort_links(&t, tmp);
    list_stages(&t, tmp);
    play(&t, ARENA_ARRAY(tmp, bool, p->nlane));
    out->time = t.left == 0 ? t.now : 0;
    out->acts = (int64_t)p->n * acts * p->pieces - t.left;
}
