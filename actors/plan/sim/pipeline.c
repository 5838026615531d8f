/* pipeline.c - computes the costs of a program's virtual stages and the bytes that they hold. */
#include "actors/plan/outline/estimate.h"
#include "actors/plan/sim/pipeline.h"

#include "actors/plan/sim/account.h"
#include "actors/plan/sim/lower_bound.h"

#include <math.h>
#include <stdlib.h>

struct describing {
    struct pipeline *l;
    const struct program *p;
    const struct stages *s;
    struct arena *a;
};

/* ---- lanes, links, costs ---- */

int32_t *
pipeline_lanes(const struct stages *s, int32_t *nlane, struct arena *a)
{
    int32_t *lane = ARENA_ARRAY(a, int32_t, s->n);
    *nlane = 0;
    for (int32_t q = 0; q < s->n; q++) {
        lane[q] = -1;
        for (int32_t b = 0; b < q && lane[q] < 0; b++)
            if (stages_meet(s->place[b], s->place[q])) lane[q] = lane[b];
        if (lane[q] < 0) lane[q] = (*nlane)++;
    }
    return lane;
}

static int
by_link(const void *x, const void *y)
{
    const struct link *a = x, *b = y;
    return a->from != b->from ? (a->from > b->from) - (a->from < b->from) : (a->to > b->to) - (a->to < b->to);
}

static void
find_links(const struct describing *f)
{
    const struct program *p = f->p;
    const struct stages *st = f->s;
    int32_t n = 0, capacity = 0;
    struct link *link = NULL;
    for (int32_t i = 0; i < p->nnode; i++)
        for (int32_t k = 0; k < p->node[i].nin && st->phase[i] == PHASE_FORWARD; k++) {
            struct ref r = p->node[i].in[k];
            if (r.kind != REF_NODE || st->stage[r.index] >= st->stage[i]) continue;
            ARENA_GROW(f->a, link, n + 1, capacity);
            link[n++] = (struct link){st->stage[r.index], st->stage[i]};
        }
    if (n) qsort(link, (size_t)n, sizeof *link, by_link);
    for (int32_t i = 0; i < n; i++)
        if (i == 0 || by_link(&link[i], &link[i - 1])) link[f->l->nlink++] = link[i];
    f->l->link = link;
}

/* Computes two times per micro-batch by stage, ns: the time of all forward nodes, and the time of those forward
 * nodes that backward recomputes. */
static void
find_recomputed(const struct describing *f)
{
    const struct program *p = f->p;
    struct arena tmp = {0};
    f->l->once = ARENA_ARRAY(f->a, double, f->l->n);
    f->l->again = ARENA_ARRAY(f->a, double, f->l->n);
    for (int32_t i = 0; i < p->nnode; i++) {
        const struct prog_node *n = &p->node[i];
        if (!n->piece || n->op->flags & OP_VIEW || !(n->recompute || n->phase == PHASE_FORWARD)) continue;
        (n->recompute ? f->l->again : f->l->once)[f->s->stage[i]] += (double)node_estimate(p, i, &tmp);
    }
    arena_fini(&tmp);
}

/* Sets the stages' costs and the latency of a hop to the caller's values. If the gradient of a stage's input is not
 * needed, the backward pass of the stage consists of weight gradients, so its time is added to theirs. */
static void
give_costs(const struct describing *f, const struct schedule_search_costs *c)
{
    struct pipeline *l = f->l;
    for (int32_t q = 0; q < l->n; q++) {
        double more = c->kept ? l->again[q] / MAX(1, l->once[q]) * c->forward : 0;
        l->cost[q][PHASE_FORWARD] = llround(c->forward);
        l->cost[q][l->joint[q] ? PHASE_WEIGHT : PHASE_BACKWARD] = llround(c->backward + more);
        l->cost[q][PHASE_WEIGHT] += llround(c->weight);
    }
    l->hop = llround(c->move);
}

/* Estimates the costs of stages. If all estimates are below 1 ns (a micro-batch of a few numbers), sets all costs
 * to 1 ns, because the simulator reports time 0 for a deadlock. */
static void
reckon_costs(const struct describing *f)
{
    const struct program *p = f->p;
    struct pipeline *l = f->l;
    struct arena tmp = {0};
    int64_t all = 0;
    for (int32_t i = 0; i < p->nnode; i++) {
        if (f->s->phase[i] >= NACT || !p->node[i].piece) continue;
        int64_t ns = node_estimate(p, i, &tmp);
        l->cost[f->s->stage[i]][f->s->phase[i]] += ns;
        all += ns;
    }
    for (int32_t q = 0; q < l->n && all == 0; q++) l->cost[q][PHASE_FORWARD] = 1;
    arena_fini(&tmp);
}

/* ---- bytes held ---- */

/* A value that a stage holds per micro-batch, from the phase that makes or receives the value to phase `until`, the
 * last that reads it. */
struct kept {
    int32_t node, out, stage;
    uint8_t until;
    int64_t bytes;
};

static int
by_value(const void *x, const void *y)
{
    const struct kept *a = x, *b = y;
    if (a->node != b->node) return (a->node > b->node) - (a->node < b->node);
    if (a->out != b->out) return (a->out > b->out) - (a->out < b->out);
    if (a->stage != b->stage) return (a->stage > b->stage) - (a->stage < b->stage);
    return (a->until < b->until) - (a->until > b->until);
}

/* Returns the bytes of an operand on one rank, in the layout in which its reader needs it. For a view, returns the
 * bytes of the complete value of which it shows a part. */
static int64_t
kept_bytes(const struct program *p, const struct prog_node *n, int32_t k, const struct type *whole)
{
    struct type type = ref_type(p, n->in[k]), local = layout_shard(n->want[k], &type, 0);
    double views = (double)type_numel(whole) / (double)MAX(1, type_numel(&type));
    return (int64_t)((double)type_bytes(&local) * views);
}

static int32_t
list_kept(const struct describing *f, struct kept **list)
{
    const struct program *p = f->p;
    const struct stages *st = f->s;
    int32_t n = 0, capacity = 0;
    *list = NULL;
    for (int32_t i = 0; i < p->nnode; i++)
        for (int32_t k = 0; k < p->node[i].nin; k++) {
            struct ref r = program_whole(p, p->node[i].in[k]);
            if (r.kind != REF_NODE || !p->node[r.index].piece || !p->node[i].want[k]) continue;
            if (st->phase[i] >= NACT || st->phase[r.index] >= st->phase[i]) continue;
            int64_t bytes = kept_bytes(p, &p->node[i], k, &p->node[r.index].type[r.out]);
            GROW(*list, n + 1, capacity);
            (*list)[n++] = (struct kept){r.index, r.out, st->stage[i], st->phase[i], bytes};
        }
    return n;
}

/* Counts the bytes that each stage holds per micro-batch. A value counts once per stage, until the last phase that
 * reads it on this stage. */
static void
find_bytes(const struct describing *f)
{
    struct kept *kept;
    int32_t n = list_kept(f, &kept);
    f->l->bytes = ARENA_ARRAY(f->a, struct stage_bytes, f->l->n);
    if (n) qsort(kept, (size_t)n, sizeof *kept, by_value);
    for (int32_t i = 0; i < n; i++) {
        const struct kept *k = &kept[i];
        if (i > 0 && k->node == k[-1].node && k->out == k[-1].out && k->stage == k[-1].stage) continue;
        struct stage_bytes *b = &f->l->bytes[k->stage];
        bool forward = f->s->phase[k->node] == PHASE_FORWARD;
        *(forward ? k->until == PHASE_WEIGHT ? &b->weight : &b->backward : &b->behind) += k->bytes;
    }
    free(kept);
}

void
pipeline_find(struct pipeline *l, const struct program *p, const struct stages *s,
              const struct schedule_search_costs *costs, struct arena *a)
{
    const struct describing f = {l, p, s, a};
    *l = (struct pipeline){.n = s->n, .pieces = p->pieces, .joint = s->joint};
    l->cost = arena_alloc(a, sizeof *l->cost * (size_t)l->n);
    for (int32_t i = 0; i < p->nnode; i++) l->trained = l->trained || s->phase[i] == PHASE_WEIGHT;
    l->lane = pipeline_lanes(s, &l->nlane, a);
    find_links(&f);
    find_recomputed(&f);
    if (costs)
        give_costs(&f, costs);
    else
        reckon_costs(&f);
    for (int32_t q = 0; q < l->n && !l->trained; q++) l->cost[q][PHASE_BACKWARD] = l->cost[q][PHASE_WEIGHT] = 0;
    find_bytes(&f);
}

struct pipeline_sim_rule
pipeline_rule(const struct program *p, const struct stages *s, struct arena *a)
{
    struct pipeline_sim_rule rule;
    rule.turn = arena_alloc(a, sizeof *rule.turn * (size_t)s->n);
    stages_round(p, s, &rule.group, &rule.round);
    for (int32_t q = 0; q < s->n; q++)
        for (uint8_t act = 0; act < NACT; act++) rule.turn[q][act] = stages_turn(p, s, (struct moment){q, act}, false);
    return rule;
}

/* ---- lower bound ---- */

struct stage_acts {
    struct lower_bound_acts of[NACT]; /* by phase: the stage's acts */
};

static int64_t
hop_of(const struct pipeline *l, const struct link *k)
{
    return l->lane[k->from] == l->lane[k->to] ? 0 : l->hop;
}

static int64_t
next_end(const struct pipeline *l, struct stage_acts *acts, int32_t stage, enum node_phase phase)
{
    return acts[stage].of[phase].head + l->cost[stage][phase];
}

static int64_t
contexts_left(const struct pipeline *l, struct stage_acts *acts, int32_t stage, enum node_phase phase)
{
    return l->cost[stage][phase] + acts[stage].of[phase].tail;
}

/* Computes the heads of all acts, that is, the least times before them: of forward acts in the order of links, of
 * backward acts in reverse order. */
static void
find_heads(const struct pipeline *l, struct stage_acts *acts)
{
    for (const struct link *k = l->link; k < l->link + l->nlink; k++) {
        int64_t *head = &acts[k->to].of[PHASE_FORWARD].head;
        *head = MAX(*head, next_end(l, acts, k->from, PHASE_FORWARD) + hop_of(l, k));
    }
    for (int32_t q = 0; q < l->n; q++) acts[q].of[PHASE_BACKWARD].head = next_end(l, acts, q, PHASE_FORWARD);
    for (int32_t i = l->nlink; i-- > 0;) {
        const struct link *k = &l->link[i];
        int64_t *head = &acts[k->from].of[PHASE_BACKWARD].head;
        *head = MAX(*head, next_end(l, acts, k->to, PHASE_BACKWARD) + hop_of(l, k));
    }
    for (int32_t q = 0; q < l->n; q++) acts[q].of[PHASE_WEIGHT].head = next_end(l, acts, q, PHASE_BACKWARD);
}

static void
find_tails(const struct pipeline *l, struct stage_acts *acts)
{
    const struct link *end = l->link + l->nlink;
    for (int32_t q = 0; q < l->n; q++) acts[q].of[PHASE_BACKWARD].tail = contexts_left(l, acts, q, PHASE_WEIGHT);
    for (const struct link *k = l->link; k < end; k++) {
        int64_t *tail = &acts[k->to].of[PHASE_BACKWARD].tail;
        *tail = MAX(*tail, contexts_left(l, acts, k->from, PHASE_BACKWARD) + hop_of(l, k));
    }
    for (int32_t q = 0; q < l->n; q++) acts[q].of[PHASE_FORWARD].tail = contexts_left(l, acts, q, PHASE_BACKWARD);
    for (int32_t i = l->nlink; i-- > 0;) {
        const struct link *k = &l->link[i];
        int64_t *tail = &acts[k->from].of[PHASE_FORWARD].tail;
        *tail = MAX(*tail, contexts_left(l, acts, k->to, PHASE_FORWARD) + hop_of(l, k));
    }
}

int64_t
pipeline_lower_bound(const struct pipeline *l)
{
    struct arena tmp = {0};
    struct stage_acts *acts = arena_alloc(&tmp, sizeof *acts * (size_t)l->n);
    struct lower_bound_acts *own = ARENA_ARRAY(&tmp, struct lower_bound_acts, NACT * l->n);
    int64_t floor = 0;
    find_heads(l, acts);
    find_tails(l, acts);
    for (int32_t lane = 0; lane < l->nlane; lane++) {
        int32_t n = 0;
        for (int32_t q = 0; q < l->n; q++)
            for (int a = 0; a < NACT && l->lane[q] == lane; a++) {
                own[n] = acts[q].of[a];
                own[n++].work = l->cost[q][a] * l->pieces;
            }
        int64_t least = lower_bound_of_lane(own, n);
        floor = MAX(floor, least);
    }
    arena_fini(&tmp);
    return floor;
}
