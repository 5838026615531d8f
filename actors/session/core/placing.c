/* placing.c - decides the placement of a call whose operands are on several placements. */
#include "actors/session/core/placing.h"
#include "actors/session/core/face.h"
#include "actors/session/core/session.h"

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

/* Returns the index of the placement's last stage; -1: the placement is no stage. */
static int
last_stage(const struct session_stages *all, const struct place *p)
{
    int k = all->n - 1;
    while (k >= 0 && all->place[k] != p) k--;
    return k;
}

/* Returns which of two placements values of both are moved to; NULL: neither. */
static const struct place *
later_place(const struct session_stages *all, const struct place *a, const struct place *b)
{
    if (a == b) return a;
    int of_a = last_stage(all, a), of_b = last_stage(all, b);
    if (of_a < 0 || of_b < 0) return NULL;
    if (all->now == a || all->now == b) return all->now;
    return of_a > of_b ? a : b;
}

const struct place *
placing_target(const struct session_stages *all, int nin, struct val *const *in)
{
    const struct place *to = NULL;
    if (!on_several(nin, in)) return NULL;
    bool only_unplaced = placing_unplaced(nin, in);
    for (int i = 0; i < nin; i++) {
        if (!in[i] || !in[i]->layout || (in[i]->unplaced && !only_unplaced)) continue;
        const struct place *p = in[i]->layout->place;
        if (to && only_unplaced) return to;
        to = to ? later_place(all, to, p) : p;
        if (!to) return NULL;
    }
    return to;
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
