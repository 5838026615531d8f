/* stage.c - finds the virtual stages and phases of a program; the result depends on the program alone.
 *
 * A virtual stage is a connected piece of the forward program on one set of devices, in the order of data. A stage
 * begins each time data moves on to other devices, even if those devices had a stage before (interleaved stages).
 * A backward node belongs to the stage of the forward values that it reads, or else to the only stage that uses
 * its weights. A move that offloads, fetches or gathers again belongs to the stage of the node whose value it
 * moves. There are three phases: forward, backward, and weight gradients (W). Backward nodes whose results are
 * read only by sums over micro-batches are in phase W, because no other stage waits for them. */
#include "actors/plan/outline/estimate.h"
#include "actors/plan/outline/stage.h"

#include "runtime/base/error.h"

/* Returns true if placement b contains all devices of placement a. */
static bool
is_within(const struct place *a, const struct place *b)
{
    if (a == b) return true;
    if (a->kind != b->kind || a->nrank > b->nrank) return false;
    for (int32_t i = 0, k = 0; i < a->nrank; i++) {
        int32_t rank = a->rank[a->by_rank[i]];
        while (k < b->nrank && b->rank[b->by_rank[k]] < rank) k++;
        if (k == b->nrank || b->rank[b->by_rank[k]] != rank) return false;
    }
    return true;
}

/* Returns the number of stage boundaries that data crosses on its way from placement a to placement b: 1 or 0. It
 * is 0 if one placement contains all devices of the other. */
static int
hops(const struct place *a, const struct place *b)
{
    return a == b || is_within(a, b) || is_within(b, a) ? 0 : 1;
}

/* Returns the node whose value node i offloads, fetches or gathers again; -1: none. */
static int32_t
brought(const struct program *p, int32_t i)
{
    int32_t of = p->node[i].again - 1;
    return of == i ? -1 : of;
}

/* Returns the forward node that node i recomputes, if the stage of that node is known; -1: none. */
static int32_t
repeated(const struct program *p, const bool *loose, int32_t i)
{
    int32_t of = p->node[i].recompute - 1;
    return of < 0 || p->node[of].phase != PHASE_FORWARD || loose[of] ? -1 : of;
}

/* ---- phases ---- */

static void
find_phases(struct stages *s, const struct program *p, struct arena *a)
{
    bool *needed = ARENA_ARRAY(a, bool, p->nnode + 1);
    for (int32_t k = 0; k < p->nroot; k++)
        if (p->root[k].ref.kind == REF_NODE) needed[p->root[k].ref.index] = true;
    for (int32_t i = p->nnode - 1; i >= 0; i--) {
        const struct prog_node *n = &p->node[i];
        bool weight = n->piece && !n->accumulate && n->phase == PHASE_BACKWARD && !needed[i];
        s->phase[i] = weight ? PHASE_WEIGHT : n->phase;
        for (int32_t k = 0; k < n->nin; k++)
            if (n->in[k].kind == REF_NODE && ((!weight && !n->accumulate) || s->at[n->in[k].index] != s->at[i]))
                needed[n->in[k].index] = true;
    }
}

/* ---- results after the last micro-batch ---- */

/* Marks nodes whose results are available only after the last micro-batch: sums over micro-batches, updates
 * (because each micro-batch reads the old version), and all nodes that depend on either. */
static void
stage_find_late(struct stages *s, const struct program *p, struct arena *a)
{
    const bool *update = program_updates(p, a);
    for (int32_t i = 0; i < p->nnode; i++) {
        const struct prog_node *n = &p->node[i];
        s->late[i] = n->accumulate || update[i];
        for (int32_t k = 0; k < n->nin; k++)
            if (n->in[k].kind == REF_NODE) s->late[i] = s->late[i] || s->late[n->in[k].index];
    }
}

/* ---- stages ---- */

/* Assigns each forward node to the earliest stage that its inputs allow. Marks a node as floating if its stage is
 * still open: no input comes from other devices, directly or through other nodes. */
static void
forward_early(struct stages *s, const struct program *p, bool *floats)
{
    for (int32_t i = 0; i < p->nnode; i++) {
        floats[i] = true;
        for (int32_t k = 0; k < p->node[i].nin; k++) {
            struct ref r = p->node[i].in[k];
            if (r.kind != REF_NODE || s->phase[i] != PHASE_FORWARD) continue;
            int hop = brought(p, i) >= 0 ? 0 : hops(s->at[r.index], s->at[i]);
            s->stage[i] = MAX(s->stage[i], s->stage[r.index] + hop);
            floats[i] = floats[i] && floats[r.index] && !hop;
        }
        if (s->phase[i] == PHASE_FORWARD) s->n = MAX(s->n, s->stage[i] + 1);
    }
}

/* Assigns each floating node (floats: its inputs leave the stage open) to the first stage that reads it. For
 * example, labels are prepared where the loss is computed. Marks a floating node as loose if no forward node reads
 * it. */
static void
forward_late(struct stages *s, const struct program *p, const bool *floats, bool *loose, int32_t *first)
{
    for (int32_t i = 0; i < p->nnode; i++) first[i] = INT32_MAX;
    for (int32_t i = p->nnode - 1; i >= 0; i--) {
        if (s->phase[i] != PHASE_FORWARD) continue;
        loose[i] = floats[i] && first[i] == INT32_MAX;
        if (loose[i]) continue;
        if (floats[i]) s->stage[i] = MAX(s->stage[i], first[i]);
        for (int32_t k = 0; k < p->node[i].nin; k++) {
            struct ref r = p->node[i].in[k];
            if (r.kind != REF_NODE || brought(p, i) >= 0) continue;
            int hop = hops(s->at[r.index], s->at[i]);
            first[r.index] = MIN(first[r.index], s->stage[i] - hop);
        }
    }
}

/* Returns, by leaf, the only stage whose forward nodes read the leaf. Negative: none or several stages read the
 * leaf, or it differs per micro-batch. */
static int32_t *
stages_of_leaves(const struct stages *s, const struct program *p, const bool *loose, struct arena *a)
{
    enum { NONE = -1, SEVERAL = -2 };
    int32_t *stage = ARENA_ARRAY(a, int32_t, p->nleaf + 1);
    for (int32_t i = 0; i < p->nleaf; i++) stage[i] = p->leaf[i].piece ? SEVERAL : NONE;
    for (int32_t i = 0; i < p->nnode; i++)
        for (int32_t k = 0; k < p->node[i].nin; k++) {
            struct ref r = p->node[i].in[k];
            if (r.kind != REF_LEAF || s->phase[i] != PHASE_FORWARD || loose[i]) continue;
            stage[r.index] = stage[r.index] == NONE || stage[r.index] == s->stage[i] ? s->stage[i] : SEVERAL;
        }
    return stage;
}

/* Returns the stage of a backward node. That is the last stage among those of the forward values and weights that
 * the node reads on the devices on which they are. If the node reads none, it is the stage that the gradient has
 * reached. */
static int32_t
backward_stage(const struct stages *s, const struct program *p, const bool *loose, const int32_t *of_leaf, int32_t i)
{
    int32_t saved = -1, back = s->n - 1;
    if (brought(p, i) >= 0) return s->stage[brought(p, i)];
    if (repeated(p, loose, i) >= 0) return s->stage[repeated(p, loose, i)];
    for (int32_t k = 0; k < p->node[i].nin; k++) {
        struct ref r = p->node[i].in[k];
        if (r.kind == REF_LEAF && of_leaf[r.index] >= 0 && !hops(s->place[of_leaf[r.index]], s->at[i]))
            saved = MAX(saved, of_leaf[r.index]);
        if (r.kind != REF_NODE) continue;
        int hop = hops(s->at[r.index], s->at[i]);
        bool forward =
            s->phase[r.index] == PHASE_FORWARD || brought(p, r.index) >= 0 || repeated(p, loose, r.index) >= 0;
        if (forward && !hop && !loose[r.index]) saved = MAX(saved, s->stage[r.index]);
        if (!forward) back = MIN(back, s->stage[r.index] - hop);
    }
    return MAX(0, saved >= 0 ? saved : back);
}

/* Assigns loose nodes, which no forward node reads, to the first stage that reads them. Does the same for backward
 * nodes that depend only on loose nodes and leaves, for instance recomputed loose nodes. */
static void
backward_late(struct stages *s, const struct program *p, const bool *loose, struct arena *a)
{
    bool *floats = ARENA_ARRAY(a, bool, p->nnode + 1), *wanted = ARENA_ARRAY(a, bool, p->nnode + 1);
    for (int32_t i = 0; i < p->nnode; i++) {
        bool bound = brought(p, i) >= 0 || repeated(p, loose, i) >= 0;
        floats[i] = loose[i] || (p->node[i].piece && s->phase[i] != PHASE_FORWARD && !bound);
        for (int32_t k = 0; k < p->node[i].nin; k++)
            floats[i] = floats[i] && (p->node[i].in[k].kind != REF_NODE || floats[p->node[i].in[k].index]);
    }
    for (int32_t i = p->nnode - 1; i >= 0; i--)
        for (int32_t k = 0; k < p->node[i].nin; k++) {
            struct ref r = p->node[i].in[k];
            if (r.kind != REF_NODE || !floats[r.index]) continue;
            int32_t *stage = &s->stage[r.index];
            *stage = wanted[r.index] ? MIN(*stage, s->stage[i]) : s->stage[i];
            wanted[r.index] = true;
        }
}

/* ---- places ---- */

bool
stages_meet(const struct place *a, const struct place *b)
{
    if (!a || !b || a->kind != b->kind) return false;
    for (int32_t i = 0, k = 0; i < a->nrank && k < b->nrank;) {
        int32_t x = a->rank[a->by_rank[i]], y = b->rank[b->by_rank[k]];
        if (x == y) return true;
        i += x < y;
        k += y < x;
    }
    return false;
}

static void
find_places(struct stages *s, const struct program *p, struct arena *a)
{
    s->place = ARENA_ARRAY(a, const struct place *, s->n);
    for (int32_t i = 0; i < p->nnode; i++) {
        const struct place **place = &s->place[s->stage[i]];
        if (s->phase[i] == PHASE_FORWARD && brought(p, i) < 0 && (!*place || is_within(*place, s->at[i])))
            *place = s->at[i];
    }
}

/* ---- folds ---- */

/* State of folding a stage. If the stages before and after a stage share devices, data returns to the devices from
 * which it came. Folding divides the stage in between into two stages on the same devices, each with half of the
 * forward work: the first receives data on the way out, the second on the way back. */
struct fold {
    double work, done; /* forward work of the stage; work counted so far, ns */
    int32_t shift;     /* number of stages that folding adds before this one */
    bool folded;
};

static double
node_work(const struct stages *s, const struct program *p, int32_t node, struct arena *a)
{
    return s->phase[node] == PHASE_FORWARD ? 1 + (double)node_estimate(p, node, a) : 0;
}

/* Returns true if the node belongs to the second of the two stages into which its stage is divided, because half of
 * the forward work comes before it. Must be called for all nodes in program order. */
static bool
is_stage_late(struct fold *f, double work)
{
    f->done += work;
    return f->folded && f->done - work / 2 >= f->work / 2;
}

static void
find_folds(const struct stages *s, const struct program *p, struct fold *fold, struct arena *a)
{
    bool *late = ARENA_ARRAY(a, bool, s->n), *early = ARENA_ARRAY(a, bool, s->n);
    for (int32_t i = 0; i < p->nnode; i++) fold[s->stage[i]].work += node_work(s, p, i, a);
    for (int32_t q = 1; q < s->n - 1; q++) fold[q].folded = stages_meet(s->place[q - 1], s->place[q + 1]);
    for (int32_t i = 0; i < p->nnode; i++) {
        int32_t q = s->stage[i];
        bool second = is_stage_late(&fold[q], node_work(s, p, i, a));
        if (s->phase[i] == PHASE_FORWARD) *(second ? &late[q] : &early[q]) = true;
    }
    for (int32_t q = 0, shift = 0; q < s->n; q++) {
        fold[q].folded = fold[q].folded && late[q] && early[q];
        fold[q].shift = shift;
        fold[q].done = 0;
        shift += fold[q].folded;
    }
}

static void
fold_stages(struct stages *s, const struct program *p, struct arena *a)
{
    struct arena tmp = {0};
    struct fold *fold = ARENA_ARRAY(&tmp, struct fold, s->n);
    find_places(s, p, a);
    find_folds(s, p, fold, &tmp);
    s->n += fold[s->n - 1].shift;
    for (int32_t i = 0; i < p->nnode; i++) {
        struct fold *f = &fold[s->stage[i]];
        if (s->phase[i] == PHASE_FORWARD) s->stage[i] += f->shift + is_stage_late(f, node_work(s, p, i, &tmp));
    }
    arena_fini(&tmp);
}

/* Sets chunk[] to the number of each stage among the stages of its devices, from 0. The numbers stay 0 with
 * RULE_PIECES, which does not need them. */
static void
find_chunks(struct stages *s, const struct program *p, struct arena *a)
{
    s->nchunk = 1;
    s->chunk = ARENA_ARRAY(a, int32_t, s->n);
    for (int32_t q = 0; q < s->n && p->rule != RULE_PIECES; q++)
        for (int32_t before = q - 1; before >= 0 && s->chunk[q] == 0; before--)
            if (stages_meet(s->place[before], s->place[q])) s->chunk[q] = s->chunk[before] + 1;
    for (int32_t q = 0; q < s->n; q++) s->nchunk = MAX(s->nchunk, s->chunk[q] + 1);
}

/* ---- pools ---- */

int32_t
stage_in_flight(int32_t lag, bool split, int32_t n, int32_t s)
{
    return lag ? (int32_t)MIN((int64_t)lag * (n - 1 - (split ? 0 : s)) + 1, INT32_MAX) : INT32_MAX;
}

/* Computes the limits of each stage from the lag (lookahead per hop, in micro-batches). Split backward delays only
 * weight gradients; backward follows forward as without it. */
static const struct prog_pool *
pools_of_lag(const struct program *p, int32_t n, struct arena *a)
{
    struct prog_pool *pool = ARENA_ARRAY(a, struct prog_pool, n);
    int32_t lag = MAX(1, p->lag);
    for (int32_t s = 0; s < n; s++) {
        pool[s].backward = MIN(stage_in_flight(p->lag, false, n, s), p->pieces);
        pool[s].weight = MIN(stage_in_flight(p->lag, p->split, n, s), p->pieces);
        pool[s].behind = p->split ? (int32_t)MIN((int64_t)lag * s + 1, p->pieces) : 1;
        pool[s].hop = MIN(lag, p->pieces) + 1;
    }
    return pool;
}

int
stages_find(struct stages *s, const struct program *p, struct arena *a)
{
    int32_t n = p->nnode + 1;
    *s = (struct stages){.n = 1, .stage = ARENA_ARRAY(a, int32_t, n), .phase = ARENA_ARRAY(a, uint8_t, n)};
    s->at = ARENA_ARRAY(a, const struct place *, n);
    for (int32_t i = 0; i < p->nnode; i++) s->at[i] = p->node[i].layout[0]->place;
    find_phases(s, p, a);
    s->late = ARENA_ARRAY(a, bool, n);
    if (p->pieces > 1) {
        stage_find_late(s, p, a);
        bool *floats = ARENA_ARRAY(a, bool, n), *loose = ARENA_ARRAY(a, bool, n);
        forward_early(s, p, floats);
        forward_late(s, p, floats, loose, ARENA_ARRAY(a, int32_t, n));
        if (p->fold) fold_stages(s, p, a);
        find_places(s, p, a);
        const int32_t *of_leaf = stages_of_leaves(s, p, loose, a);
        for (int32_t i = 0; i < p->nnode; i++)
            if (s->phase[i] != PHASE_FORWARD) s->stage[i] = backward_stage(s, p, loose, of_leaf, i);
        backward_late(s, p, loose, a);
    }
    find_places(s, p, a);
    find_chunks(s, p, a);
    s->joint = ARENA_ARRAY(a, bool, s->n);
    for (int32_t q = 0; q < s->n; q++) s->joint[q] = true;
    for (int32_t i = 0; i < p->nnode; i++)
        if (s->phase[i] == PHASE_BACKWARD && p->node[i].piece && !p->node[i].accumulate) s->joint[s->stage[i]] = false;
    if (p->npool && p->npool != s->n)
        return fail(E_PLAN, "program: expected %d virtual stages, found %d", (int)p->npool, (int)s->n);
    s->pool = p->npool ? p->pool : pools_of_lag(p, s->n, a);
    return 0;
}

/* ---- credits ---- */

/* Returns the largest number of micro-batches that may be in transit between stages a and b. */
static int64_t
stage_distance(const struct stages *s, int32_t a, int32_t b)
{
    int64_t n = 0;
    for (int32_t q = MIN(a, b) + 1; q <= MAX(a, b); q++) n += s->pool[q].hop - 1;
    return n;
}

int32_t
stages_credits(const struct program *p, const struct stages *s, struct moment from, struct moment to)
{
    int64_t n, way = stage_distance(s, from.stage, to.stage);
    if (from.phase >= to.phase)
        n = way + 1;
    else if (from.phase != PHASE_FORWARD)
        n = way + s->pool[to.stage].behind;
    else if (to.phase == PHASE_BACKWARD)
        n = s->pool[MIN(from.stage, to.stage)].backward;
    else
        n = s->pool[to.stage].weight + (from.stage < to.stage ? way : 0);
    return (int32_t)MIN(p->pieces, n);
}

/* ---- turns ---- */

/* Priorities among the stages of a device that has several stages. Forward: the last stage first, because it is
 * nearest to backward. Backward: the first stage first, because it is nearest to the end. Weight gradients run when
 * nothing else is ready. Three rules differ. RULE_LEAN also delays new micro-batches until nothing else is ready.
 * RULE_EVEN ranks forward and backward together, by the distance from backward or from the end. RULE_INNER runs
 * forward and backward of the last stage first. */
static const struct rule {
    /* ranks of forward and of backward: the phase with the lower rank runs first; with equal ranks, acts of both
     * phases are compared by stage */
    uint8_t forward, backward;
    bool rising; /* weight gradients of the first stage run before those of the last stage */
    /* the first stage starts a forward act or a weight-gradient act only if no other act is ready */
    bool lean;
    bool inner; /* backward of the last stage runs first; weight gradients run in order of micro-batches */
} rules[NRULE] = {
    [RULE_DEEP] = {.backward = 1},  [RULE_RISING] = {.backward = 1, .rising = true},
    [RULE_BACK] = {.forward = 1},   [RULE_LEAN] = {.backward = 1, .lean = true},
    [RULE_EVEN] = {.rising = true}, [RULE_INNER] = {.inner = true},
};
/* largest number of stages per device for which turns fit in a byte; with more stages, all have equal turns */
enum { MOST_CHUNKS = 48 };

static int32_t
first_of(const struct rule *r, uint8_t phase, int32_t chunk, int32_t nchunk)
{
    int32_t deep = nchunk - 1 - chunk;
    bool last = r->lean && chunk == 0;
    switch (phase) {
    case PHASE_FORWARD: return last ? 1 + 3 * nchunk : 1 + r->forward * nchunk + deep;
    case PHASE_BACKWARD: return 1 + r->backward * nchunk + (r->inner ? deep : chunk);
    case PHASE_WEIGHT:
        if (last) return 2 + 3 * nchunk;
        return 1 + 2 * nchunk + (r->inner ? 0 : r->rising ? chunk : deep);
    default: return UINT8_MAX;
    }
}

/* Returns the turn (priority) of an act of a stage. Under every rule a stage that has started a phase of a
 * micro-batch completes it first, because the pipeline simulator (pipeline_sim.h) treats it as one act. With
 * RULE_ROUNDS, forward act k of a device precedes its backward act k - h, and weight gradients follow backward. h
 * is the number of micro-batches that the device holds: h = 2 (p - 1 - lane) + (v - 1) p, for p devices with v
 * stages each; lane is the device's number. */
struct stage_turn
stages_turn(const struct program *p, const struct stages *s, struct moment at, bool goes_on)
{
    int32_t chunk = s->chunk[at.stage], n = s->nchunk, group, round;
    if (n > MOST_CHUNKS) chunk = 0, n = 1;
    if (at.phase == PHASE_WEIGHT && s->joint[at.stage] && p->rule == RULE_ROUNDS) at.phase = PHASE_BACKWARD;
    stages_round(p, s, &group, &round);
    if (round > 1 && at.phase < PHASE_BATCH) {
        int32_t forward = group * chunk + 2 * (at.stage % group);
        int32_t backward = group * (n - 1 - chunk) + 2 * (group - 1) + group * (n - 1);
        uint8_t first = goes_on ? 0 : at.phase == PHASE_WEIGHT ? 1 : 2;
        return (struct stage_turn){first, at.phase == PHASE_FORWARD ? forward : backward};
    }
    if (goes_on && at.phase <= PHASE_WEIGHT) return (struct stage_turn){0, 0};
    if (p->rule == RULE_PIECES || p->rule == RULE_ROUNDS) return (struct stage_turn){(uint8_t)(1 + at.phase), 0};
    return (struct stage_turn){(uint8_t)first_of(&rules[p->rule], at.phase, chunk, n), 0};
}

void
stages_round(const struct program *p, const struct stages *s, int32_t *group, int32_t *round)
{
    bool rounds = p->rule == RULE_ROUNDS && s->nchunk > 1 && s->nchunk <= MOST_CHUNKS && s->n % s->nchunk == 0;
    *group = rounds ? s->n / s->nchunk : 1;
    *round = rounds ? s->n : 1;
}
