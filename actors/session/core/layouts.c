/* layouts.c - public functions for placements, layouts and their texts. */
#include "actors/session/core/layouts.h"
#include "actors/session/core/devices.h"
#include "actors/session/core/face.h"
#include "actors/session/core/session.h"

#include <stdlib.h>
#include <string.h>

int
rille_place(struct rille_session *s, const char *kind, int naxis, const int32_t *sizes, const int32_t *ranks,
            const struct rille_place **out)
{
    TRY(face_session(s, __func__));
    TRY(face_given(kind, "the kind", __func__));
    TRY(face_given(sizes, "the list of sizes", __func__));
    TRY(face_given(ranks, "the list of ranks", __func__));
    TRY(face_given(out, "out", __func__));
    const struct place *p;
    int k = device_kind_parse(kind);
    if (k < 0) return err_last();
    TRY(place_new(s->atlas, k, naxis, sizes, ranks, &p));
    TRY(place_exists(s, p));
    *out = (const struct rille_place *)p;
    return 0;
}

const char *
rille_place_kind(const struct rille_place *p)
{
    if (face_given(p, "the placement", __func__)) return NULL;
    return device_kind_text(((const struct place *)p)->kind);
}

int
rille_place_axes(const struct rille_place *rp, int32_t sizes[RILLE_AXES])
{
    if (face_given(rp, "the placement", __func__) || face_given(sizes, "the list of sizes", __func__)) return 0;
    const struct place *p = (const struct place *)rp;
    for (int a = 0; a < p->naxis; a++) sizes[a] = p->axis[a];
    return p->naxis;
}

int
rille_place_ranks(const struct rille_place *rp, const int32_t **ranks)
{
    if (face_given(rp, "the placement", __func__) || face_given(ranks, "ranks", __func__)) return 0;
    const struct place *p = (const struct place *)rp;
    *ranks = p->rank;
    return p->nrank;
}

char *
rille_place_text(const struct rille_place *p)
{
    if (face_given(p, "the placement", __func__)) return NULL;
    struct str s = {0};
    place_print((const struct place *)p, &s);
    return s.text;
}

const struct layout *
session_layout(struct rille_session *s)
{
    const struct place *p;
    int32_t one = 1, zero = 0;
    int status = place_new(s->atlas, s->devices.default_kind, 1, &one, &zero, &p);
    assert(!status);
    UNUSED(status);
    return layout_broadcast(s->atlas, p);
}

int
layout_summed(struct atlas *a, const struct layout *l, const struct layout **out)
{
    struct sbp whole[MAX_AXIS];
    for (int i = 0; i < l->place->naxis; i++)
        whole[i] = l->sbp[i].kind == SBP_P ? (struct sbp){.kind = SBP_B} : l->sbp[i];
    return layout_new(a, l->place, whole, l->order, out);
}

static int
face_texts(int n, const char *const *text, const char *who)
{
    if (n < 1 || !text) return fail(E_ARG, "%s: sbp is missing", who);
    for (int i = 0; i < n; i++) TRY(face_given(text[i], "an sbp", who));
    return 0;
}

int
rille_layout(struct rille_session *s, const struct rille_place *rp, int n, const char *const *sbp, const int *order,
             int ndim, const struct rille_layout **out)
{
    TRY(face_session(s, __func__));
    TRY(face_place(s, rp, __func__));
    TRY(face_texts(n, sbp, __func__));
    TRY(face_given(out, "out", __func__));
    const struct place *p = (const struct place *)rp;
    const struct layout *l;
    if (n == 1 && !order && (p->naxis > 1 || strchr(sbp[0], '('))) {
        TRY(layout_parse(s->atlas, p, sbp[0], ndim, &l));
        *out = (const struct rille_layout *)l;
        return 0;
    }
    struct sbp entry[MAX_AXIS];
    uint8_t cut[MAX_AXIS];
    if (n != p->naxis)
        return fail(E_SBP, "expected one entry for each mesh axis, found %d entr%s for a mesh of %d ax%s", n,
                    n == 1 ? "y" : "ies", p->naxis, p->naxis == 1 ? "is" : "es");
    for (int a = 0; a < n; a++) {
        TRY(sbp_parse(sbp[a], ndim, &entry[a]));
        if (!order) continue;
        if (order[a] < 0 || order[a] >= n)
            return fail(E_SBP, "order names mesh axis %d, but the mesh has %d axes", order[a], n);
        cut[a] = (uint8_t)order[a];
    }
    TRY(layout_new(s->atlas, p, entry, order ? cut : NULL, &l));
    *out = (const struct rille_layout *)l;
    return 0;
}

const struct rille_place *
rille_layout_place(const struct rille_layout *l)
{
    if (face_given(l, "the layout", __func__)) return NULL;
    return (const struct rille_place *)((const struct layout *)l)->place;
}

const char *
rille_layout_text(struct rille_session *s, const struct rille_layout *rl)
{
    if (face_session(s, __func__) || face_layout(s, rl, __func__)) return NULL;
    struct layout_texts *texts = &s->texts;
    const struct layout *l = (const struct layout *)rl;
    if (l->id >= texts->n) {
        GROW(texts->text, l->id + 1, texts->capacity);
        memset(texts->text + texts->n, 0, sizeof *texts->text * (size_t)(l->id + 1 - texts->n));
        texts->n = l->id + 1;
    }
    if (texts->text[l->id]) return texts->text[l->id];
    struct str text = {0};
    layout_print(l, &text);
    return texts->text[l->id] = text.text;
}
