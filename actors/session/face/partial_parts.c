/* partial_parts.c - converts a partial tensor into a tensor of its addends, and back.
 *
 * A partial sum over n ranks becomes a tensor with one more dimension of size n, split along that dimension: the
 * addend of a rank is a row. The partial tensor and the tensor of addends have the same bytes on the same devices,
 * so the conversion moves nothing. A checkpoint stores pending gradients as addends: reducing them early would round
 * differently than reducing them together with later addends. */
#include "actors/session/core/face.h"

#include <string.h>

/* Makes the type and layout of the tensor of addends. Returns false if the tensor already has MAX_DIM dimensions. */
static bool
parts_layout(struct rille_session *s, const struct type *t, const struct layout *l, struct type *type,
             const struct layout **layout)
{
    struct sbp sbp[MAX_AXIS];
    if (t->ndim == MAX_DIM) return false;
    *type = *t;
    type->dtype = (uint8_t)layout_dtype(l, (enum dtype)t->dtype);
    type->ndim++;
    type->dim[0] = 1;
    memcpy(type->dim + 1, t->dim, sizeof *t->dim * t->ndim);
    for (int a = 0; a < l->place->naxis; a++) {
        sbp[a] = l->sbp[a];
        if (sbp[a].kind == SBP_S) sbp[a].axis++;
        if (sbp[a].kind != SBP_P) continue;
        type->dim[0] *= l->place->axis[a];
        sbp[a] = (struct sbp){.kind = SBP_S, .axis = 0};
    }
    return layout_new(s->atlas, l->place, sbp, l->order, layout) == 0;
}

static void
share_store(struct rille_session *s, const struct store *store, const struct type *t, const struct layout *l,
            struct rille_tensor **out)
{
    struct store *same = (struct store *)(uintptr_t)store;
    store_hold(same);
    *out = tensor_new(s, graph_leaf(s->graph, t, l, same), true);
}

int
rille_tensor_parts(struct rille_tensor *t, struct rille_tensor **out)
{
    struct type type;
    const struct layout *l;
    TRY(face_tensor(t, __func__));
    TRY(face_given(out, "out", __func__));
    if (!layout_has_partial(t->val->layout) || !parts_layout(t->s, &t->val->type, t->val->layout, &type, &l))
        return fail(E_SBP, "parts: expected a partial tensor with fewer than %d dimensions", MAX_DIM);
    TRY(rille_eval(t->s, 1, &t));
    share_store(t->s, t->val->store, &type, l, out);
    return 0;
}

int
rille_tensor_of_parts(struct rille_tensor *parts, const struct rille_layout *layout, const char *dtype,
                      struct rille_tensor **out)
{
    struct type type = {0}, twin;
    const struct layout *l = (const struct layout *)layout, *there;
    struct rille_tensor *moved;
    TRY(face_tensor(parts, __func__));
    TRY(face_layout(parts->s, layout, __func__));
    TRY(face_given(out, "out", __func__));
    const struct type *have = &parts->val->type;
    type.dtype = (uint8_t)(dtype ? dtype_parse(dtype) : have->dtype);
    if (type.dtype == DT_NONE) return E_DTYPE;
    type.ndim = (uint8_t)MAX(have->ndim - 1, 0);
    memcpy(type.dim, have->dim + 1, sizeof *type.dim * type.ndim);
    TRY(layout_fits(l, &type));
    if (!layout_has_partial(l) || !parts_layout(parts->s, &type, l, &twin, &there) || !type_equal(&twin, have))
        return fail(E_SBP, "parts: the layout must be that of a partial tensor with %lld addends of this shape",
                    have->ndim ? (long long)have->dim[0] : 0);
    TRY(rille_tensor_to_global(parts, (const struct rille_layout *)there, &moved));
    int status = rille_eval(parts->s, 1, &moved);
    if (!status) share_store(parts->s, moved->val->store, &type, l, out);
    rille_tensor_free(&moved);
    return status;
}
