/* from_local.c - makes a tensor from one shard per rank. A shard that is on the rank's device already is not moved:
 * the tensor shares its buffer. If a shard requires a gradient, or in a compiled step, the tensor is the result of
 * operators. */
#include "actors/session/build/build.h"
#include "actors/session/build/build_node.h"
#include "actors/session/core/face.h"
#include "actors/session/core/layouts.h"
#include "actors/session/core/tracer.h"

#include "kernels/op/lib/join.h"

#include <stdlib.h>

/* Sets *type to the type of the tensor with these shards. The size of a dimension is the sum of the shards' sizes
 * along the mesh axes that split the dimension. */
static void
joined_type(const struct layout *l, struct rille_tensor *const *shard, struct type *type)
{
    *type = shard[0]->val->type;
    for (int d = 0; d < type->ndim; d++) type->dim[d] = 0;
    for (int pos = 0; pos < l->place->nrank; pos++) {
        int32_t coord[MAX_AXIS];
        place_coord(l->place, pos, coord);
        for (int d = 0; d < type->ndim; d++) {
            bool counts = true;
            for (int a = 0; a < l->place->naxis; a++) counts = counts && (coord[a] == 0 || l->sbp[a].axis == d);
            if (counts) type->dim[d] += shard[pos]->val->type.dim[d];
        }
    }
}

/* Checks that a tensor of this type has shards of these types. */
static int
check_shards(const struct layout *l, struct rille_tensor *const *shard, const struct type *type)
{
    for (int pos = 0; pos < l->place->nrank; pos++) {
        struct type want = layout_shard(l, type, pos);
        if (type_equal(&want, &shard[pos]->val->type)) continue;
        struct str a = {0}, b = {0};
        type_print(&want, &a);
        type_print(&shard[pos]->val->type, &b);
        int status = fail(E_SHAPE, "from_local: the shard of rank %d must be %s, found %s", l->place->rank[pos],
                          str_text(&a), str_text(&b));
        str_free(&a);
        str_free(&b);
        return status;
    }
    return 0;
}

static int
check_call(const struct layout *l, int n, struct rille_tensor *const *shard)
{
    if (n != l->place->nrank)
        return fail(E_ARG, "from_local: expected %d tensors, one per rank, found %d", l->place->nrank, n);
    for (int a = 0; a < l->place->naxis; a++)
        if (l->sbp[a].kind != SBP_S)
            return fail(E_SBP,
                        "from_local: the layout must be S on each mesh axis, found another one on mesh axis %d; "
                        "to_global converts the result",
                        a);
    for (int i = 1; i < n; i++)
        if (shard[i]->val->type.ndim != shard[0]->val->type.ndim)
            return fail(E_SHAPE, "from_local: all tensors must have %d dimensions, like the first, found %d",
                        shard[0]->val->type.ndim, shard[i]->val->type.ndim);
    return 0;
}

/* Moves each shard to its rank and computes it. moved: receives the shards. */
static int
move_shards(struct rille_session *s, const struct layout *l, struct rille_tensor *const *shard,
            struct rille_tensor **moved)
{
    for (int pos = 0; pos < l->place->nrank; pos++) {
        const struct place *p;
        int32_t one = 1;
        TRY(place_new(s->atlas, l->place->kind, 1, &one, &l->place->rank[pos], &p));
        TRY(rille_tensor_to_global(shard[pos], (const struct rille_layout *)layout_broadcast(s->atlas, p),
                                   &moved[pos]));
    }
    return rille_eval(s, l->place->nrank, moved);
}

/* Joins the values of the mesh positions that differ on mesh axis a, for all axes; the axis that splits a dimension
 * last is joined first. x: value by mesh position; receives the result at position 0. */
static void
join_axes(struct build *b, const struct layout *l, struct val **x, struct val **group)
{
    const struct place *p = l->place;
    for (int k = p->naxis - 1; k >= 0; k--) {
        int a = l->order[k], stride = 1;
        for (int other = a + 1; other < p->naxis; other++) stride *= p->axis[other];
        for (int pos = 0; pos < p->nrank; pos++) {
            if (pos / stride % p->axis[a] || !x[pos]) continue;
            for (int i = 0; i < p->axis[a]; i++) {
                group[i] = x[pos + i * stride];
                x[pos + i * stride] = NULL;
            }
            x[pos] = b_join(b, l->sbp[a].axis, p->axis[a], group);
        }
    }
}

/* Makes the tensor by operator calls: moves each shard to all ranks and joins the shards. So the shards have
 * gradients, and a compiled step records the calls. */
static int
join_by_operators(struct rille_session *s, const struct layout *l, struct rille_tensor *const *shard,
                  struct rille_tensor **out)
{
    struct builder b = builder_of(&s->context);
    int n = l->place->nrank, status = 0;
    struct val **x = must_alloc(2 * sizeof *x * (size_t)n), *v;
    const struct layout *everywhere = layout_broadcast(s->atlas, l->place);
    for (int pos = 0; !status && pos < n; pos++)
        status = build_to_global(&s->context, shard[pos]->val, everywhere, &x[pos]);
    if (!status) join_axes(&b.base, l, x, x + n);
    if (!status && b.base.failed) status = err_last();
    if (!status) status = build_to_global(&s->context, x[0], l, &v);
    if (!status) *out = tensor_new(s, v, false);
    free(x);
    return build_settle(s, status);
}

static bool
shards_need_grad(int n, struct rille_tensor *const *shard)
{
    for (int i = 0; i < n; i++)
        if (shard[i]->val->needs_grad) return true;
    return false;
}

int
rille_tensor_from_local(int n, struct rille_tensor *const *shard, const struct rille_layout *layout,
                        struct rille_tensor **out)
{
    if (n < 1) return fail(E_ARG, "from_local: expected at least 1 tensor");
    TRY(face_given(shard, "the list of shards", __func__));
    TRY(face_tensor(shard[0], __func__));
    struct rille_session *s = shard[0]->s;
    TRY(face_tensors(s, n, shard, __func__));
    TRY(face_layout(s, layout, __func__));
    TRY(face_given(out, "out", __func__));
    const struct layout *l = (const struct layout *)layout;
    struct type type;
    TRY(check_call(l, n, shard));
    joined_type(l, shard, &type);
    TRY(layout_settle(s->atlas, &type, &l));
    TRY(check_shards(l, shard, &type));
    if (tracing(s) || (s->context.grad && shards_need_grad(n, shard))) return join_by_operators(s, l, shard, out);
    struct rille_tensor **moved = must_alloc(sizeof *moved * (size_t)n);
    for (int i = 0; i < n; i++) moved[i] = NULL;
    int status = move_shards(s, l, shard, moved);
    if (!status) {
        struct store *store = store_new(n);
        for (int i = 0; i < n; i++) {
            store->part[i] = moved[i]->val->store->part[0];
            if (store->part[i]) buffer_hold(store->part[i]);
        }
        *out = tensor_new(s, graph_leaf(s->graph, &type, l, store), true);
    }
    for (int i = 0; i < n; i++) rille_tensor_free(&moved[i]);
    free(moved);
    return status;
}
