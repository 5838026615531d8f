/* rehearse.c - virtual stages on a clock: at each moment all acts that end hand on what they made, and then each lane
 * begins the act whose turn it is.
 *
 * Each act of a stage has a key, the turn of its next piece, or NOT_READY; what ends changes the keys of the few acts
 * that wait for it, and a lane begins its least. An act takes about 45 ns. */
#include "actors/plan/rehearse.h"

#include <string.h>

enum act { FORWARD, BACKWARD, WEIGHT };

#define NOT_READY UINT64_MAX
#define NEVER     INT64_MAX

struct actor_counts {
    int32_t begun[NACT], done[NACT];
    int32_t there[NACT]; /* done, and known to other lanes */
};

struct lane {
    int64_t until; /* when its act ends; NEVER: it has none */
    int64_t work;  /* that is left of it, nanoseconds */
    int64_t bytes; /* that its stages have room for */
    int32_t held;  /* contexts */
    int32_t stage; /* of its act */
    enum act act;
    int32_t slot, nslot; /* its keys: three a stage */
    bool stirred;        /* something has become ready, or it has ended */
};

/* What an act made comes to other lanes. */
struct arrival {
    int64_t at;
    int32_t stage;
    enum act act;
};

struct theatre {
    const struct pipeline *p;
    const struct rehearsed_rule *rule;
    const struct prog_pool *pool;
    const struct rehearsed_aim *aim;
    struct actor_counts *count; /* by stage */
    struct lane *lane;
    int32_t *slot; /* by stage: of its first key */
    uint64_t *key;
    int32_t *next, *before; /* links by stage: first index in p->link; in `back` */
    struct link *back;      /* sorted by to */
    int32_t *lead, *trail;  /* by link, in p->link and `back`: how far forward, or backward, was ahead of the next */
    struct arrival *arrival;
    int32_t narrival, arrived;
    struct rehearsed *out;
    int64_t left, now;
    bool hopeless;
};

/* ---- may it act? ---- */

/* Has stage `from` given so many pieces of this act to stage `to`? */
static bool
has_come(const struct theatre *t, int32_t from, int32_t to, enum act act, int32_t piece)
{
    const struct actor_counts *c = &t->count[from];
    return (t->p->lane[from] == t->p->lane[to] ? c->done[act] : c->there[act]) > piece;
}

static bool
may_forward(const struct theatre *t, int32_t q, int32_t piece)
{
    const struct actor_counts *c = &t->count[q];
    for (int32_t k = t->before[q]; k < t->before[q + 1]; k++)
        if (!has_come(t, t->back[k].from, q, FORWARD, piece)) return false;
    if (!t->p->trained) return true;
    return piece - c->done[t->p->joint[q] ? WEIGHT : BACKWARD] < t->pool[q].backward &&
           piece - c->done[WEIGHT] < t->pool[q].weight;
}

static bool
may_backward(const struct theatre *t, int32_t q, int32_t piece)
{
    const struct actor_counts *c = &t->count[q];
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

/* Whose turn it is, then the stage as the plan's tasks are listed, and which act: a lane's keys differ. */
enum { STAGE_BITS = 24, ACT_BITS = 2, PLACE_BITS = 30 };

static uint64_t
key_of(const struct theatre *t, int32_t q, enum act act)
{
    const struct rehearsed_rule *r = t->rule;
    struct stage_turn turn = r->turn[q][act];
    int32_t piece = t->count[q].begun[act];
    int64_t round =
        r->group == 1 ? (int64_t)piece * r->round : (int64_t)(piece / r->group) * r->round + piece % r->group;
    int32_t listed = act == FORWARD ? q : t->p->n - 1 - q;
    return (uint64_t)turn.first << (PLACE_BITS + ACT_BITS + STAGE_BITS) |
           (uint64_t)(round + turn.lead) << (ACT_BITS + STAGE_BITS) | (uint64_t)act << STAGE_BITS | (uint64_t)listed;
}

static void
refresh(struct theatre *t, int32_t q, enum act act)
{
    bool ready = may_act(t, q, act);
    t->key[t->slot[q] + (int32_t)act] = ready ? key_of(t, q, act) : NOT_READY;
    if (ready) t->lane[t->p->lane[q]].stirred = true;
}

/* What stage q has done of this act came to its own lane, or to others. */
static void
refresh_along(struct theatre *t, int32_t q, enum act act, bool others)
{
    const int32_t *lane = t->p->lane;
    if (act == FORWARD)
        for (int32_t k = t->next[q]; k < t->next[q + 1]; k++) {
            int32_t to = t->p->link[k].to;
            if ((lane[to] != lane[q]) == others) refresh(t, to, FORWARD);
        }
    if (act == BACKWARD)
        for (int32_t k = t->before[q]; k < t->before[q + 1]; k++) {
            int32_t from = t->back[k].from;
            if ((lane[from] != lane[q]) == others) refresh(t, from, BACKWARD);
        }
}

/* ---- it acts ---- */

/* Notes that n of something were there at once, of which a piece has so many bytes. */
static void
most(struct theatre *t, struct lane *l, int32_t *peak, int32_t n, int64_t bytes)
{
    if (n <= *peak) return;
    l->bytes += (n - *peak) * bytes;
    *peak = n;
    t->out->bytes = MAX(t->out->bytes, l->bytes);
}

static void
note_forward(struct theatre *t, struct lane *l, int32_t q)
{
    const struct actor_counts *c = &t->count[q];
    const struct stage_bytes *bytes = &t->p->bytes[q];
    struct prog_pool *peak = &t->out->peak[q];
    most(t, l, &peak->backward, c->begun[FORWARD] - c->done[t->p->joint[q] ? WEIGHT : BACKWARD], bytes->backward);
    most(t, l, &peak->weight, c->begun[FORWARD] - c->done[WEIGHT], bytes->weight);
    for (int32_t k = t->next[q]; k < t->next[q + 1]; k++)
        t->lead[k] = MAX(t->lead[k], c->begun[FORWARD] - t->count[t->p->link[k].to].begun[FORWARD]);
    l->held++;
    t->out->contexts = MAX(t->out->contexts, l->held);
}

static void
note_backward(struct theatre *t, struct lane *l, int32_t q)
{
    const struct actor_counts *c = &t->count[q];
    most(t, l, &t->out->peak[q].behind, c->begun[BACKWARD] - c->done[WEIGHT], t->p->bytes[q].behind);
    for (int32_t k = t->before[q]; k < t->before[q + 1]; k++)
        t->trail[k] = MAX(t->trail[k], c->begun[BACKWARD] - t->count[t->back[k].from].begun[BACKWARD]);
}

/* Is nothing to be had that is aimed at, when the lane does all its work from now on? */
static bool
is_hopeless(const struct theatre *t, const struct lane *l)
{
    const struct rehearsed_aim *aim = t->aim;
    const struct rehearsed *r = t->out;
    int64_t time = MAX(aim->floor, t->now + l->work);
    return time > aim->time || (time == aim->time && r->bytes >= aim->bytes) || r->bytes > aim->most_bytes ||
           r->contexts > aim->most_contexts;
}

static void
begin(struct theatre *t, struct lane *l, int32_t q, enum act act)
{
    t->count[q].begun[act]++;
    if (act == FORWARD) note_forward(t, l, q);
    if (act == BACKWARD) note_backward(t, l, q);
    t->hopeless = t->hopeless || is_hopeless(t, l);
    l->work -= t->p->cost[q][act];
    l->until = t->now + t->p->cost[q][act];
    l->stage = q;
    l->act = act;
    refresh(t, q, act);
}

/* The lane begins the act whose turn it is, if one may. */
static void
lane_goes_on(struct theatre *t, struct lane *l)
{
    uint64_t least = NOT_READY;
    l->stirred = false;
    if (l->until != NEVER) return;
    for (int32_t k = l->slot; k < l->slot + l->nslot; k++) least = MIN(least, t->key[k]);
    if (least == NOT_READY) return;
    int32_t listed = (int32_t)(least & ((1 << STAGE_BITS) - 1));
    enum act act = (enum act)(least >> STAGE_BITS & ((1 << ACT_BITS) - 1));
    begin(t, l, act == FORWARD ? listed : t->p->n - 1 - listed, act);
}

/* ---- it ends ---- */

static void
arrive(struct theatre *t, int32_t q, enum act act)
{
    t->count[q].there[act]++;
    refresh_along(t, q, act, true);
}

static void
end(struct theatre *t, struct lane *l)
{
    int32_t q = l->stage;
    enum act act = l->act;
    l->until = NEVER;
    l->stirred = true;
    t->count[q].done[act]++;
    t->left--;
    if (act == WEIGHT) l->held--;
    if (t->p->trained)
        for (int a = 0; a < NACT; a++)
            if (a != (int)act) refresh(t, q, (enum act)a);
    refresh_along(t, q, act, false);
    if (t->p->hop == 0)
        arrive(t, q, act);
    else
        t->arrival[t->narrival++] = (struct arrival){t->now + t->p->hop, q, act};
}

/* The next moment at which something ends or arrives; NEVER: nothing does. */
static int64_t
next_moment(const struct theatre *t)
{
    int64_t at = t->arrived < t->narrival ? t->arrival[t->arrived].at : NEVER;
    for (int32_t k = 0; k < t->p->nlane; k++) at = MIN(at, t->lane[k].until);
    return at;
}

static void
play(struct theatre *t)
{
    struct lane *first = t->lane, *behind = first + t->p->nlane;
    while (t->left > 0) {
        for (struct lane *l = first; l < behind; l++)
            if (l->stirred) lane_goes_on(t, l);
        t->now = next_moment(t);
        if (t->now == NEVER || t->hopeless) return;
        for (; t->arrived < t->narrival && t->arrival[t->arrived].at == t->now; t->arrived++)
            arrive(t, t->arrival[t->arrived].stage, t->arrival[t->arrived].act);
        for (struct lane *l = first; l < behind; l++)
            if (l->until == t->now) end(t, l);
    }
}

/* ---- the whole ---- */

static void
sort_links(struct theatre *t, struct arena *a)
{
    const struct pipeline *p = t->p;
    t->next = ARENA_ARRAY(a, int32_t, p->n + 2);
    t->before = ARENA_ARRAY(a, int32_t, p->n + 2);
    t->back = ARENA_ARRAY(a, struct link, p->nlink + 1);
    t->lead = ARENA_ARRAY(a, int32_t, p->nlink + 1);
    t->trail = ARENA_ARRAY(a, int32_t, p->nlink + 1);
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
open_lanes(struct theatre *t, struct arena *a)
{
    const struct pipeline *p = t->p;
    t->lane = ARENA_ARRAY(a, struct lane, p->nlane);
    t->slot = ARENA_ARRAY(a, int32_t, p->n);
    t->key = ARENA_ARRAY(a, uint64_t, NACT * p->n);
    for (int32_t q = 0; q < p->n; q++) t->lane[p->lane[q]].nslot += NACT;
    for (int32_t k = 0, slot = 0; k < p->nlane; slot += t->lane[k++].nslot) {
        t->lane[k].slot = slot;
        t->lane[k].until = NEVER;
    }
    for (int32_t q = 0; q < p->n; q++) {
        struct lane *l = &t->lane[p->lane[q]];
        const struct stage_bytes *b = &p->bytes[q];
        t->slot[q] = l->slot;
        l->slot += NACT;
        l->bytes += b->backward + b->weight + b->behind;
        t->out->bytes = MAX(t->out->bytes, l->bytes);
        t->out->peak[q] = (struct prog_pool){1, 1, 1, 2};
        for (int32_t k = 0; k < NACT; k++) {
            t->key[t->slot[q] + k] = NOT_READY;
            if (k == FORWARD || p->trained) l->work += p->cost[q][k] * p->pieces;
        }
    }
    for (int32_t k = 0; k < p->nlane; k++) t->lane[k].slot -= t->lane[k].nslot;
    for (int32_t q = 0; q < p->n; q++) refresh(t, q, FORWARD);
}

/* How many results were on their way to a stage: what was ahead of it, over as many stages as lie between. */
static void
note_hops(struct theatre *t)
{
    for (int32_t k = 0; k < t->p->nlink; k++) {
        const struct link *on = &t->p->link[k], *back = &t->back[k];
        int32_t *to = &t->out->peak[on->to].hop, *from = &t->out->peak[back->to].hop;
        *to = MAX(*to, t->lead[k] / MAX(1, on->to - on->from) + 1);
        *from = MAX(*from, t->trail[k] / MAX(1, back->to - back->from) + 1);
    }
}

void
rehearse(const struct pipeline *p, const struct rehearsed_rule *rule, const struct prog_pool *pool,
         const struct rehearsed_aim *aim, struct arena *tmp, struct rehearsed *out)
{
    struct theatre t = {.p = p, .rule = rule, .pool = pool, .aim = aim, .out = out};
    int64_t acts = (int64_t)p->n * (p->trained ? NACT : 1) * p->pieces;
    t.left = acts;
    t.count = ARENA_ARRAY(tmp, struct actor_counts, p->n);
    if (p->hop) t.arrival = ARENA_ARRAY(tmp, struct arrival, acts);
    out->contexts = 0;
    out->bytes = 0;
    sort_links(&t, tmp);
    open_lanes(&t, tmp);
    play(&t);
    note_hops(&t);
    out->time = t.left == 0 ? t.now : 0;
    out->acts = acts - t.left;
}
