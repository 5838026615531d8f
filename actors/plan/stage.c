/* stage.c - the virtual stages and the phases of a program, from the program alone.
 *
 * A virtual stage is a connected piece of the forward program on one set of
 * devices, in the order of data: each time that data goes on to other devices a
 * stage begins, also when those had one before (interleaved stages). Backward
 * nodes belong to the stage whose forward values they read. Phases are three: of
 * the backward nodes those that only sums over the pieces read (the gradients of
 * weights) are phase W: nothing downstream waits for them. */
#include "actors/plan/stage.h"

static const struct place *
place_of(const struct prog_node *n)
{
    return n->layout[0]->place;
}

/* Has b all devices of a? */
static bool
is_within(const struct place *a, const struct place *b)
{
    if (a->kind != b->kind || a->nrank > b->nrank) return false;
    for (int32_t i = 0, k = 0; i < a->nrank; i++) {
        int32_t rank = a->rank[a->by_rank[i]];
        while (k < b->nrank && b->rank[b->by_rank[k]] < rank) k++;
        if (k == b->nrank || b->rank[b->by_rank[k]] != rank) return false;
    }
    return true;
}

/* Does data from a to b go on to other devices? Where one has all that the other has, it stays. */
static int
hops(const struct place *a, const struct place *b)
{
    return a == b || is_within(a, b) || is_within(b, a) ? 0 : 1;
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
            if (n->in[k].kind == REF_NODE &&
                ((!weight && !n->accumulate) || place_of(&p->node[n->in[k].index]) != place_of(n)))
                needed[n->in[k].index] = true;
    }
}

/* ---- stages ---- */

/* As early as data allows. A node floats when nothing that it needs was on other devices before. */
static void
forward_early(struct stages *s, const struct program *p, bool *floats)
{
    for (int32_t i = 0; i < p->nnode; i++) {
        floats[i] = true;
        for (int32_t k = 0; k < p->node[i].nin; k++) {
            struct ref r = p->node[i].in[k];
            if (r.kind != REF_NODE || s->phase[i] != PHASE_FORWARD) continue;
            int hop = hops(place_of(&p->node[r.index]), place_of(&p->node[i]));
            s->stage[i] = MAX(s->stage[i], s->stage[r.index] + hop);
            floats[i] = floats[i] && floats[r.index] && !hop;
        }
        if (s->phase[i] == PHASE_FORWARD) s->n = MAX(s->n, s->stage[i] + 1);
    }
}

/* Those that float belong to the first stage that wants them: labels are made ready where the loss is. */
static void
forward_late(struct stages *s, const struct program *p, const bool *floats, int32_t *first)
{
    for (int32_t i = 0; i < p->nnode; i++) first[i] = INT32_MAX;
    for (int32_t i = p->nnode - 1; i >= 0; i--) {
        if (s->phase[i] != PHASE_FORWARD) continue;
        if (floats[i] && first[i] != INT32_MAX) s->stage[i] = MAX(s->stage[i], first[i]);
        for (int32_t k = 0; k < p->node[i].nin; k++) {
            struct ref r = p->node[i].in[k];
            if (r.kind != REF_NODE) continue;
            int hop = hops(place_of(&p->node[r.index]), place_of(&p->node[i]));
            first[r.index] = MIN(first[r.index], s->stage[i] - hop);
        }
    }
}

/* The stage whose forward values it reads where they were computed, else the one to which gradients come back. */
static int32_t
backward_stage(const struct stages *s, const struct program *p, int32_t i)
{
    int32_t saved = -1, back = s->n - 1;
    for (int32_t k = 0; k < p->node[i].nin; k++) {
        struct ref r = p->node[i].in[k];
        if (r.kind != REF_NODE) continue;
        int hop = hops(place_of(&p->node[r.index]), place_of(&p->node[i]));
        if (s->phase[r.index] == PHASE_FORWARD && !hop) saved = MAX(saved, s->stage[r.index]);
        if (s->phase[r.index] != PHASE_FORWARD) back = MIN(back, s->stage[r.index] - hop);
    }
    return MAX(0, saved >= 0 ? saved : back);
}

void
stages_find(struct stages *s, const struct program *p, struct arena *a)
{
    int32_t n = p->nnode + 1;
    *s = (struct stages){.n = 1, .stage = ARENA_ARRAY(a, int32_t, n), .phase = ARENA_ARRAY(a, uint8_t, n)};
    find_phases(s, p, a);
    if (p->pieces == 1) return;
    bool *floats = ARENA_ARRAY(a, bool, n);
    forward_early(s, p, floats);
    forward_late(s, p, floats, ARENA_ARRAY(a, int32_t, n));
    for (int32_t i = 0; i < p->nnode; i++)
        if (s->phase[i] != PHASE_FORWARD) s->stage[i] = backward_stage(s, p, i);
}

/* ---- credits ---- */

/* How many pieces a task is behind another, at most, while the schedule runs at full rate. Forward, each hop is at most
 * `lag` behind the one before; backward follows forward by lag (p - 1 - s) on stage s; weight gradients follow at once,
 * or with a split backward by lag (p - 1) on every stage. */
static int32_t
behind(const struct program *p, const struct stages *s, struct moment from, struct moment to, int32_t lag)
{
    int32_t last = s->n - 1, apart = to.stage > from.stage ? to.stage - from.stage : from.stage - to.stage;
    if (from.phase == to.phase || from.phase > to.phase) return lag * apart;
    bool split = p->split && to.phase == PHASE_WEIGHT;
    if (from.phase == PHASE_FORWARD && split) return lag * (last + MAX(0, to.stage - from.stage));
    if (from.phase == PHASE_FORWARD) return lag * (last - MIN(from.stage, to.stage));
    return split ? lag * (to.stage + apart) : lag * apart;
}

int32_t
stages_credits(const struct program *p, const struct stages *s, struct moment from, struct moment to)
{
    bool turns = from.phase == PHASE_FORWARD && to.phase != PHASE_FORWARD;
    if (p->lag == 0 && turns) return p->pieces;
    return MIN(p->pieces, behind(p, s, from, to, MAX(1, p->lag)) + 1);
}
