/* pipeline_sim.c - pipeline simulator: event-driven. When acts end, they deliver their results. Then each idle lane
 * begins its ready act with the highest priority.
 *
 * Each kind of act of a stage has a slot. A slot has a list of needs: the results, and the free places in pools,
 * that its act for the next micro-batch requires. The end of an act wakes the few slots that depend on it. A lane
 * begins the ready slot with the least key (turn and micro-batch).
 *
 * With a pool of A micro-batches, micro-batch i enters a stage only when micro-batch i - A has travelled to the last
 * stage and back (a round trip). So the remaining time is at least the time of a round trip, times the number of
 * remaining micro-batches divided by A. Most simulations stop early, because this bound, or the bytes in use,
 * already exceed the aim. */
#include "actors/plan/sim/pipeline_sim.h"

#include <stdlib.h>
#include <string.h>

enum act { FORWARD, BACKWARD, WEIGHT };

#define NEVER INT64_MAX

struct lane {
    int64_t work;  /* remaining work of the lane, ns */
    int64_t bytes; /* sum of the largest numbers of bytes used so far in the pools of the lane's stages */
    /* number of contexts of the lane's stages. A context is a micro-batch between forward and the end of weight
     * gradients */
    int32_t held;
    struct slot *busy;    /* slot of the running act; NULL: idle */
    struct slot *slot;    /* slots of the lane, NACT per stage */
    uint64_t *ready;      /* bit mask of the lane's ready slots */
    uint32_t nready;      /* number of 64-bit words in `ready` */
    struct slot *opening; /* dummy act whose end starts the lane; NULL: the lane starts at time 0 */
    int64_t end;          /* end of the lane's latest act, ns */
};

/* Condition for an act on micro-batch k, satisfied if *come > k - room. Data: micro-batch k has arrived. Pool:
 * micro-batch k - room has left the pool, which limits the micro-batches in a stage. */
struct need {
    /* counter of slot `from`: number of micro-batches that are done or, for data from another lane, have arrived */
    const int32_t *come;
    struct slot *from;
    int32_t room; /* for a pool: number of micro-batches that it may hold; for data: 0 */
    /* pool: largest number of micro-batches that it has held so far. Data: largest number of micro-batches by which
     * slot `from` has been ahead so far */
    int32_t used;
    int64_t bytes;
};

/* All acts of one kind (forward, backward or weight gradients) of one stage. */
struct slot {
    /* numbers of micro-batches. begun: the act has begun; done: the act has ended; there: the act's result has
     * arrived on other lanes */
    int32_t begun, done, there;
    int32_t stage;
    enum act act;
    int64_t wire, sent;   /* time for which a result occupies links, ns; time at which the links are free again, ns */
    uint32_t lane, index; /* lane: index of the slot's lane; index: index of the slot on that lane */
    /* priority, least first. turn: the part of the key that is the same for all micro-batches; key: key of the next
     * micro-batch */
    uint64_t turn, key;
    /* conditions of the next act: pools from `need` to `gift`, data from `gift` to `need_end` */
    struct need *need, *gift, *need_end;
    /* slots to check: those from `wakes` to `wakes_far` when the act ends, those from `wakes_far` on when the act's
     * result arrives on other lanes */
    struct slot **wakes, **wakes_far, **wakes_end;
};

/* The end of an act, or the arrival of an act's result on other lanes. */
struct event {
    int64_t at;
    struct slot *slot;
};

/* Lower bounds of three times, ns, counted from the entry of a micro-batch into a stage. backward: to the end of
 * its backward on this stage; weight: to the end of its weight gradients; end: to the end of all work that depends
 * on it. */
struct circle {
    int64_t backward, weight, end;
};

struct simulator {
    const struct pipeline *p;
    struct slot *slot; /* all slots, ordered by lane */
    struct slot **of;  /* by stage: its first slot */
    struct lane *lane;
    uint64_t *stirred;     /* bit mask of lanes that have a newly ready slot, or whose act has ended */
    uint32_t nstirred;     /* number of 64-bit words in `stirred` */
    struct circle *circle; /* by stage: lower bounds of round trip times */
    struct event *end;     /* ends of running acts: ring buffer, sorted by time */
    uint32_t end_mask;     /* capacity of the ring - 1; the capacity is a power of two */
    struct event *arrival; /* arrivals of results, sorted by time */
    /* state of one simulation: */
    const struct prog_pool *pool;
    const struct pipeline_sim_aim *aim;
    const struct pipeline_sim_rule *rule;
    struct pipeline_sim_result *out;
    uint32_t nend, ended;
    int64_t narrival, arrived;
    int64_t left, now;
    int64_t least; /* lower bound of the simulated time, ns */
    bool hopeless;
};

/* ---- readiness ---- */

static bool
may_act(const struct slot *s, int32_t pieces)
{
    for (const struct need *n = s->need; n < s->need_end; n++)
        if (*n->come <= s->begun - n->room) return false;
    return s->begun < pieces;
}

/* Sizes of the fields of a key, bits. From the highest bit down, a key consists of the turn, the place of the
 * micro-batch in its round, the kind of act, and the stage in the order of the task list. All keys on a lane are
 * different. */
enum { STAGE_BITS = 24, ACT_BITS = 2, PLACE_BITS = 30 };

static uint64_t
slot_turn(const struct simulator *t, const struct slot *s)
{
    struct stage_turn turn = t->rule->turn[s->stage][s->act];
    int32_t listed = s->act == FORWARD ? s->stage : t->p->n - 1 - s->stage;
    return (uint64_t)turn.first << (PLACE_BITS + ACT_BITS + STAGE_BITS) |
           (uint64_t)turn.lead << (ACT_BITS + STAGE_BITS) | (uint64_t)s->act << STAGE_BITS | (uint64_t)listed;
}

static uint64_t
round_of(const struct pipeline_sim_rule *r, int32_t piece)
{
    int64_t round = r->group == 1 ? piece : (int64_t)(piece / r->group) * r->round + piece % r->group;
    return (uint64_t)round << (ACT_BITS + STAGE_BITS);
}

static void
stir(struct simulator *t, uint32_t lane)
{
    t->stirred[lane / 64] |= 1ull << lane % 64;
}

/* Marks the slot as ready if its next micro-batch may run. The slot stays marked until the act begins. */
static void
wake_slot(struct simulator *t, struct slot *s)
{
    uint64_t *word = &t->lane[s->lane].ready[s->index / 64], bit = 1ull << s->index % 64;
    if (*word & bit || !may_act(s, t->p->pieces)) return;
    s->key = s->turn + round_of(t->rule, s->begun);
    *word |= bit;
    stir(t, s->lane);
}

/* ---- begin of an act ---- */

/* Updates statistics when an act begins: the largest number of micro-batches in each pool, and the largest number
 * by which the producers of its data are ahead. */
static void
note_needs(struct simulator *t, struct lane *l, struct slot *s)
{
    for (struct need *n = s->need; n < s->gift; n++) {
        int32_t used = s->begun + 1 - *n->come;
        if (used <= n->used) continue;
        l->bytes += (used - n->used) * n->bytes;
        n->used = used;
        t->out->bytes = MAX(t->out->bytes, l->bytes);
    }
    for (struct need *n = s->gift; n < s->need_end; n++) n->used = MAX(n->used, n->from->begun - s->begun);
}

/* Returns a lower bound of the time that remains when a micro-batch enters the slot's stage, ns. The pool admits
 * the remaining micro-batches in groups, and each group needs a round trip to the last stage and back. */
static int64_t
circles(const struct simulator *t, const struct slot *s)
{
    const struct circle *c = &t->circle[s->stage];
    const struct prog_pool *pool = &t->pool[s->stage];
    int32_t come = t->p->pieces - 1 - s->begun;
    return MAX(come / pool->backward * c->backward, come / pool->weight * c->weight) + c->end;
}

/* Returns true if the simulation can no longer reach the aim, even if the lane has no more idle time. rest: lower
 * bound of the remaining time, ns. */
static bool
is_hopeless(struct simulator *t, const struct lane *l, int64_t rest)
{
    const struct pipeline_sim_aim *aim = t->aim;
    const struct pipeline_sim_result *r = t->out;
    t->least = MAX(t->least, t->now + MAX(l->work, rest));
    int64_t time = MAX(aim->floor, t->least);
    return time > aim->time || (time == aim->time && r->bytes >= aim->bytes) || r->bytes > aim->most_bytes ||
           r->contexts > aim->most_contexts;
}

/* Inserts the end of an act in time order. Searches from the back, because most new ends are later than all
 * others. */
static void
will_end(struct simulator *t, struct event e)
{
    uint32_t at = t->nend++;
    for (; at != t->ended && t->end[(at - 1) & t->end_mask].at > e.at; at--)
        t->end[at & t->end_mask] = t->end[(at - 1) & t->end_mask];
    t->end[at & t->end_mask] = e;
}

static void
begin_slot(struct simulator *t, struct lane *l, struct slot *s)
{
    int64_t cost = t->p->cost[s->stage][s->act], rest = 0;
    if (t->p->trained && s->act == FORWARD) {
        rest = circles(t, s);
        l->held++;
        t->out->contexts = MAX(t->out->contexts, l->held);
    }
    note_needs(t, l, s);
    t->hopeless = t->hopeless || is_hopeless(t, l, rest);
    l->ready[s->index / 64] &= ~(1ull << s->index % 64);
    l->work -= cost;
    l->busy = s;
    s->begun++;
    will_end(t, (struct event){t->now + cost, s});
    wake_slot(t, s);
}

/* Begins the ready act with the least key on a lane, if the lane is idle. */
static void
lane_goes_on(struct simulator *t, struct lane *l)
{
    struct slot *best = NULL;
    if (l->busy) return;
    for (uint32_t w = 0; w < l->nready; w++)
        for (uint64_t word = l->ready[w]; word; word &= word - 1) {
            struct slot *s = &l->slot[64 * w + (uint32_t)__builtin_ctzll(word)];
            if (!best || s->key < best->key) best = s;
        }
    if (best) begin_slot(t, l, best);
}

static void
lanes_go_on(struct simulator *t)
{
    for (uint32_t w = 0; w < t->nstirred; w++) {
        uint64_t word = t->stirred[w];
        t->stirred[w] = 0;
        for (; word; word &= word - 1) lane_goes_on(t, &t->lane[64 * w + (uint32_t)__builtin_ctzll(word)]);
    }
}

/* ---- end of an act ---- */

static void
arrive_slot(struct simulator *t, struct slot *s)
{
    s->there++;
    for (struct slot **w = s->wakes_far; w < s->wakes_end; w++) wake_slot(t, *w);
}

/* Inserts the arrival of a result on other lanes in time order; searches from the back. */
static void
will_arrive(struct simulator *t, struct slot *s)
{
    s->sent = MAX(s->sent, t->now) + s->wire;
    int64_t at = t->narrival++, due = s->sent + t->p->hop;
    for (; at > t->arrived && t->arrival[at - 1].at > due; at--) t->arrival[at] = t->arrival[at - 1];
    t->arrival[at] = (struct event){due, s};
}

static void
end_slot(struct simulator *t, struct slot *s)
{
    struct lane *l = &t->lane[s->lane];
    l->busy = NULL;
    l->end = t->now;
    stir(t, s->lane);
    s->done++;
    t->left--;
    if (s->act == WEIGHT) l->held--;
    for (struct slot **w = s->wakes; w < s->wakes_far; w++) wake_slot(t, *w);
    if (s->wakes_far < s->wakes_end) will_arrive(t, s);
}

/* Returns the time of the next end of an act or arrival of a result; NEVER: none. */
static int64_t
next_moment(const struct simulator *t)
{
    int64_t at = t->ended != t->nend ? t->end[t->ended & t->end_mask].at : NEVER;
    return t->arrived < t->narrival ? MIN(at, t->arrival[t->arrived].at) : at;
}

static void
play_pipeline(struct simulator *t)
{
    while (t->left > 0) {
        lanes_go_on(t);
        t->now = next_moment(t);
        if (t->now == NEVER || t->hopeless) return;
        while (t->arrived < t->narrival && t->arrival[t->arrived].at == t->now)
            arrive_slot(t, t->arrival[t->arrived++].slot);
        while (t->ended != t->nend && t->end[t->ended & t->end_mask].at == t->now)
            end_slot(t, t->end[t->ended++ & t->end_mask].slot);
    }
}

/* ---- setup ---- */

/* Numbers the slots lane by lane; the slots of a stage are adjacent. */
static void
number_slots(struct simulator *t, struct arena *a)
{
    const struct pipeline *p = t->p;
    uint32_t *n = ARENA_ARRAY(a, uint32_t, p->nlane);
    struct slot *free = t->slot;
    for (int32_t q = 0; q < p->n; q++) n[p->lane[q]] += NACT;
    for (int32_t k = 0; k < p->nlane; free += n[k++]) {
        t->lane[k].slot = free;
        t->lane[k].nready = (n[k] + 63) / 64;
        t->lane[k].ready = ARENA_ARRAY(a, uint64_t, t->lane[k].nready);
    }
    memset(n, 0, sizeof *n * (size_t)p->nlane);
    for (int32_t q = 0; q < p->n; q++) {
        uint32_t lane = (uint32_t)p->lane[q];
        t->of[q] = &t->lane[lane].slot[n[lane]];
        for (int k = 0; k < NACT; k++)
            t->of[q][k] = (struct slot){.stage = q, .act = (enum act)k, .lane = lane, .index = n[lane]++};
    }
}

static bool
is_far_slot(const struct simulator *t, const struct slot *a, const struct slot *b)
{
    return a->lane != b->lane && (t->p->hop > 0 || t->p->wire);
}

static struct need
gift_of(const struct simulator *t, struct slot *from, const struct slot *to)
{
    return (struct need){.come = is_far_slot(t, from, to) ? &from->there : &from->done, .from = from};
}

static struct need
stage_need(struct slot *from, int64_t bytes)
{
    return (struct need){.come = &from->done, .from = from, .bytes = bytes};
}

/* Writes the conditions of a stage's acts to the list `need`: for each act, first those of pools, then those of
 * data. Returns the end of the list. */
static struct need *
find_needs(struct simulator *t, int32_t q, struct need *need)
{
    const struct pipeline *p = t->p;
    const struct stage_bytes *b = &p->bytes[q];
    struct slot *f = &t->of[q][FORWARD], *back = &t->of[q][BACKWARD], *w = &t->of[q][WEIGHT];
    f->need = need;
    if (p->trained) *need++ = stage_need(p->joint[q] ? w : back, b->backward);
    if (p->trained) *need++ = stage_need(w, b->weight);
    f->gift = need;
    for (int32_t k = 0; k < p->nlink; k++)
        if (p->link[k].to == q) *need++ = gift_of(t, &t->of[p->link[k].from][FORWARD], f);
    f->need_end = back->need = need;
    if (!p->trained) return need;
    *need++ = stage_need(w, b->behind);
    back->gift = need;
    *need++ = gift_of(t, f, back);
    for (int32_t k = 0; k < p->nlink; k++)
        if (p->link[k].from == q) *need++ = gift_of(t, &t->of[p->link[k].to][BACKWARD], back);
    back->need_end = w->need = w->gift = need;
    *need++ = gift_of(t, back, w);
    return w->need_end = need;
}

/* Lists the slots that each slot wakes: first slots on its own lane, then slots on other lanes. */
static void
find_wakes(struct simulator *t, struct arena *a)
{
    int32_t nslot = NACT * t->p->n;
    int32_t *n = ARENA_ARRAY(a, int32_t, nslot);
    for (struct slot *s = t->slot; s < t->slot + nslot; s++)
        for (struct need *k = s->need; k < s->need_end; k++) n[k->from - t->slot]++;
    for (int32_t i = 0; i < nslot; i++) {
        struct slot *s = &t->slot[i];
        s->wakes = s->wakes_far = s->wakes_end = ARENA_ARRAY(a, struct slot *, n[i]);
    }
    for (int far = 0; far < 2; far++)
        for (struct slot *s = t->slot; s < t->slot + nslot; s++)
            for (struct need *k = s->need; k < s->need_end; k++) {
                if (is_far_slot(t, k->from, s) != far) continue;
                *k->from->wakes_end++ = s;
                if (!far) k->from->wakes_far++;
            }
}

/* Computes lower bounds of the round trip times of micro-batches. The pipeline's links must be sorted by source and
 * point to later stages. */
static void
find_circles(struct simulator *t)
{
    const struct pipeline *p = t->p;
    struct circle *c = t->circle;
    for (int32_t q = 0; q < p->n; q++) c[q].end = p->cost[q][WEIGHT];
    /* the micro-batch leaves only after backward of the later stage has ended */
    for (const struct link *k = p->link; k < p->link + p->nlink; k++) {
        int64_t hop = p->lane[k->from] == p->lane[k->to] ? 0 : p->hop;
        c[k->to].end = MAX(c[k->to].end, hop + p->cost[k->from][BACKWARD] + c[k->from].end);
    }
    for (int32_t q = p->n - 1, k = p->nlink; q >= 0; q--) {
        int64_t rest = 0;
        for (; k > 0 && p->link[k - 1].from == q; k--) {
            int32_t to = p->link[k - 1].to;
            rest = MAX(rest, (p->lane[q] == p->lane[to] ? 0 : 2 * p->hop) + c[to].backward);
        }
        c[q].backward = p->cost[q][FORWARD] + rest + p->cost[q][BACKWARD];
        c[q].weight = c[q].backward + p->cost[q][WEIGHT];
        c[q].end += c[q].backward;
    }
}

struct simulator *
simulator_open(const struct pipeline *p, struct arena *a)
{
    struct simulator *t = ARENA_NEW(a, struct simulator);
    t->p = p;
    t->slot = ARENA_ARRAY(a, struct slot, NACT * p->n);
    t->of = ARENA_ARRAY(a, struct slot *, p->n);
    t->lane = ARENA_ARRAY(a, struct lane, p->nlane);
    t->nstirred = ((uint32_t)p->nlane + 63) / 64;
    t->stirred = ARENA_ARRAY(a, uint64_t, t->nstirred);
    t->circle = ARENA_ARRAY(a, struct circle, p->n);
    while (t->end_mask < (uint32_t)p->nlane) t->end_mask = 2 * t->end_mask + 1;
    t->end = ARENA_ARRAY(a, struct event, t->end_mask + 1);
    t->arrival = ARENA_ARRAY(a, struct event, p->hop || p->wire ? (int64_t)NACT * p->n * p->pieces : 1);
    struct slot *opening = p->begin ? ARENA_ARRAY(a, struct slot, p->nlane) : NULL;
    for (int32_t k = 0; k < p->nlane && opening; k++) {
        opening[k].lane = (uint32_t)k;
        t->lane[k].opening = &opening[k];
    }
    number_slots(t, a);
    struct need *need = ARENA_ARRAY(a, struct need, 5 * p->n + 2 * p->nlink);
    for (int32_t q = 0; q < p->n; q++) need = find_needs(t, q, need);
    find_wakes(t, a);
    find_circles(t);
    return t;
}

/* ---- one simulation ---- */

static void
open_lanes(struct simulator *t)
{
    memset(t->stirred, 0, sizeof *t->stirred * t->nstirred);
    for (int32_t k = 0; k < t->p->nlane; k++) {
        struct lane *l = &t->lane[k];
        *l = (struct lane){.slot = l->slot, .ready = l->ready, .nready = l->nready, .opening = l->opening};
        memset(l->ready, 0, sizeof *l->ready * l->nready);
        if (!l->opening) continue;
        l->busy = l->opening;
        t->left++;
        will_end(t, (struct event){t->p->begin[k], l->busy});
    }
}

static void
open_stage(struct simulator *t, int32_t q)
{
    const struct pipeline *p = t->p;
    const struct stage_bytes *b = &p->bytes[q];
    struct lane *l = &t->lane[p->lane[q]];
    l->bytes += b->backward + b->weight + b->behind;
    t->out->bytes = MAX(t->out->bytes, l->bytes);
    for (struct slot *s = t->of[q]; s < t->of[q] + NACT; s++) {
        s->begun = s->done = s->there = 0;
        s->sent = 0;
        s->wire = p->wire ? p->wire[q][s->act] : 0;
        s->turn = slot_turn(t, s);
        for (struct need *n = s->need; n < s->need_end; n++) n->used = n < s->gift;
        if (s->act == FORWARD || p->trained) l->work += p->cost[q][s->act] * p->pieces;
    }
    if (!p->trained) return;
    t->of[q][FORWARD].need[0].room = t->pool[q].backward;
    t->of[q][FORWARD].need[1].room = t->pool[q].weight;
    t->of[q][BACKWARD].need[0].room = t->pool[q].behind;
}

/* Stores the largest use of each pool in peak[]. Computes peak[].hop: number of micro-batches by which a producer
 * was ahead of its reader, divided by the number of stages between them, plus 1. */
static void
tell_peaks(const struct simulator *t, struct prog_pool *peak)
{
    for (int32_t q = 0; q < t->p->n; q++) peak[q] = (struct prog_pool){1, 1, 1, 2};
    for (int32_t q = 0; q < t->p->n; q++) {
        const struct slot *f = &t->of[q][FORWARD], *b = &t->of[q][BACKWARD];
        if (t->p->trained) peak[q] = (struct prog_pool){f->need[0].used, f->need[1].used, b->need[0].used, peak[q].hop};
        for (const struct slot *s = f; s <= b; s++)
            for (const struct need *n = s->gift; n < s->need_end; n++) {
                int32_t other = n->from->stage, *hop = &peak[MAX(q, other)].hop;
                if (other != q) *hop = MAX(*hop, n->used / abs(q - other) + 1);
            }
    }
}

void
pipeline_sim_run(struct simulator *t, const struct pipeline_sim_rule *rule, const struct prog_pool *pool,
                 const struct pipeline_sim_aim *aim, struct pipeline_sim_result *out)
{
    int64_t acts = (int64_t)t->p->n * (t->p->trained ? NACT : 1) * t->p->pieces;
    t->rule = rule;
    t->pool = pool;
    t->aim = aim;
    t->out = out;
    t->nend = t->ended = 0;
    t->narrival = t->arrived = 0;
    t->left = acts;
    t->now = t->least = 0;
    t->hopeless = false;
    out->contexts = 0;
    out->bytes = 0;
    open_lanes(t);
    for (int32_t q = 0; q < t->p->n; q++) open_stage(t, q);
    for (int32_t q = 0; q < t->p->n; q++) wake_slot(t, &t->of[q][FORWARD]);
    play_pipeline(t);
    out->time = t->left == 0 ? t->now : 0;
    for (int32_t k = 0; k < t->p->nlane && out->end; k++) out->end[k] = t->lane[k].end;
    assert(t->left > 0 || t->now >= t->least);
    if (out->time) tell_peaks(t, out->peak);
    out->acts = acts - MIN(acts, t->left);
}
