/* placing.c - decides the placement of a call whose operands are on several placements. */
#include "actors/session/core/placing.h"
#include "actors/session/core/face.h"
#include "actors/session/core/session.h"
#include "runtime/data/hash.h"

#include <stdlib.h>

static bool
on_several(int nin, struct val *const *in)
{
    const struct place *first = NULL;
    for (int i = 0; i < nin; i++) {
        if (!in[i] || !in[i]->layout) continue;
        if (first && in[i]->layout->place != first) return true;
        first = in[i]->layout->place;
    }
    return false;
}

bool
placing_unplaced(int nin, struct val *const *in)
{
    bool any = false;
    for (int i = 0; i < nin; i++) {
        if (!in[i] || !in[i]->layout) continue;
        if (!in[i]->unplaced) return false;
        any = true;
    }
    return any;
}

/* Returns the first stage, from index `from` on, whose placement is p; -1: none. */
static int
stage_from(const struct session_stages *all, const struct place *p, int from)
{
    for (int k = from; k < all->n; k++)
        if (all->place[k] == p) return k;
    return -1;
}

static int
last_stage(const struct session_stages *all, const struct place *p)
{
    int k = all->n - 1;
    while (k >= 0 && all->place[k] != p) k--;
    return k;
}

/* ---- the stage of a value ----
 *
 * A placement may have several stages, so the placement of a value does not tell its stage. A computed value is in
 * the first stage on its placement that is not before a stage of its operands. A parameter has no stage of its own:
 * a call uses it in the first stage on the parameter's placement that is not before the stages of the other
 * operands. */

struct staged {
    const struct val *v;
    int stage;
};
/* State of a search for the stages of values; stages of operands are found first. */
struct staging {
    const struct session_stages *all;
    struct staged *known;
    const struct val **open; /* stack of values whose stages are needed */
    int32_t n, capacity, nopen, open_capacity;
    struct hash_table index; /* value -> its index in `known` */
};

static bool
is_parameter(const struct val *v)
{
    return v->owner && v->owner->leaf && v->owner->requires_grad && v->owner->val == v;
}

/* Returns true for an operand that determines the stage of a call: a value with a placement that is no parameter. */
static bool
is_staged(const struct val *v)
{
    return v && v->layout && !v->unplaced && !is_parameter(v);
}

static int
known_stage(const struct staging *w, const struct val *v)
{
    uint32_t at = 0;
    for (const void *found; (found = hash_next(&w->index, hash_address(v), &at));)
        if (w->known[hash_index_of(found)].v == v) return w->known[hash_index_of(found)].stage;
    return -1;
}

/* Puts the operands of v whose stages are unknown on the stack. Returns the latest stage of the other operands. */
static int
open_operands(struct staging *w, const struct val *v)
{
    const struct node *n = v->node;
    int least = 0;
    for (int k = 0; n && k < n->nin; k++) {
        if (!is_staged(n->in[k])) continue;
        int stage = known_stage(w, n->in[k]);
        least = MAX(least, stage);
        if (stage >= 0) continue;
        GROW(w->open, w->nopen + 1, w->open_capacity);
        w->open[w->nopen++] = n->in[k];
    }
    return least;
}

static void
note_stage(struct staging *w, const struct val *v, int least)
{
    int stage = stage_from(w->all, v->layout->place, least);
    if (stage < 0) stage = MAX(0, last_stage(w->all, v->layout->place));
    GROW(w->known, w->n + 1, w->capacity);
    w->known[w->n] = (struct staged){v, stage};
    hash_add(&w->index, hash_address(v), hash_index(w->n++));
}

static int
value_stage(const struct session_stages *all, const struct val *v)
{
    struct staging w = {.all = all};
    int only = stage_from(all, v->layout->place, 0);
    if (only == last_stage(all, v->layout->place)) return only;
    GROW(w.open, 1, w.open_capacity);
    w.open[w.nopen++] = v;
    while (w.nopen > 0) {
        const struct val *x = w.open[w.nopen - 1];
        int32_t before = w.nopen;
        int least = known_stage(&w, x) < 0 ? open_operands(&w, x) : 0;
        if (w.nopen > before) continue;
        if (known_stage(&w, x) < 0) note_stage(&w, x, least);
        w.nopen--;
    }
    int stage = known_stage(&w, v);
    hash_free(&w.index);
    free(w.known);
    free(w.open);
    return stage;
}

/* Returns the stage in which a call with these operands runs; -1: some operand is in no stage. */
static int
stage_reached(const struct session_stages *all, int nin, struct val *const *in)
{
    int least = 0, most;
    for (int i = 0; i < nin; i++) {
        if (!in[i] || !in[i]->layout || in[i]->unplaced) continue;
        if (stage_from(all, in[i]->layout->place, 0) < 0) return -1;
        if (is_staged(in[i])) least = MAX(least, value_stage(all, in[i]));
    }
    most = least;
    for (int i = 0; i < nin; i++)
        if (in[i] && in[i]->layout && !in[i]->unplaced && is_parameter(in[i]))
            most = MAX(most, stage_from(all, in[i]->layout->place, least));
    return most;
}

static bool
is_operand_place(int nin, struct val *const *in, const struct place *p)
{
    for (int i = 0; i < nin; i++)
        if (in[i] && in[i]->layout && !in[i]->unplaced && in[i]->layout->place == p) return true;
    return false;
}

/* Returns the placement that all placed operands share; NULL: the operands are on several placements. */
static const struct place *
operands_place(int nin, struct val *const *in, bool unplaced)
{
    const struct place *first = NULL;
    for (int i = 0; i < nin; i++) {
        if (!in[i] || !in[i]->layout || (in[i]->unplaced && !unplaced)) continue;
        if (unplaced) return in[i]->layout->place;
        if (first && in[i]->layout->place != first) return NULL;
        first = in[i]->layout->place;
    }
    return first;
}

const struct place *
placing_target(const struct session_stages *all, int nin, struct val *const *in)
{
    if (!on_several(nin, in)) return NULL;
    const struct place *to = operands_place(nin, in, placing_unplaced(nin, in));
    if (to) return to;
    int stage = stage_reached(all, nin, in);
    if (stage < 0) return NULL;
    return is_operand_place(nin, in, all->now) ? all->now : all->place[stage];
}

int
placing_layout(struct atlas *a, const struct val *v, const struct place *to, const struct layout **out)
{
    const struct layout *from = v->layout;
    if (!v->unplaced && from->place->naxis == to->naxis) return layout_new(a, to, from->sbp, from->order, out);
    *out = layout_broadcast(a, to);
    return 0;
}

/* ---- public functions ---- */

int
rille_stages(struct rille_session *s, int n, const struct rille_place *const *place)
{
    TRY(face_session(s, __func__));
    if (n < 0) return fail(E_ARG, "stages: the number of placements must be at least 0, found %d", n);
    if (n > 0) TRY(face_given(place, "the placements", __func__));
    for (int k = 0; k < n; k++) TRY(face_place(s, place[k], __func__));
    free(s->stages.place);
    s->stages = (struct session_stages){.place = must_alloc(sizeof *s->stages.place * (size_t)(n + 1)), .n = n};
    for (int k = 0; k < n; k++) s->stages.place[k] = (const struct place *)place[k];
    return 0;
}

int
rille_stage(struct rille_session *s, const struct rille_place *now)
{
    TRY(face_session(s, __func__));
    if (now) TRY(face_place(s, now, __func__));
    s->stages.now = (const struct place *)now;
    return 0;
}
