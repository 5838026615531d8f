/* tensor.c - public functions of tensors: properties, creation from bytes, reading, and moves to other layouts. */
#include "actors/session/build/build.h"
#include "actors/session/core/devices.h"
#include "actors/session/core/face.h"
#include "actors/session/core/layouts.h"
#include "actors/session/core/session.h"
#include "actors/session/core/tracer.h"
#include "actors/session/run/collect.h"
#include "actors/session/run/run.h"
#include "actors/session/run/store.h"

#include "kernels/op/base/build.h"

#include <stdlib.h>
#include <string.h>

/* ---- properties of tensors ---- */

const char *
rille_tensor_dtype(const struct rille_tensor *t)
{
    if (face_tensor(t, __func__)) return NULL;
    return dtype_text(t->val->type.dtype);
}

int
rille_tensor_ndim(const struct rille_tensor *t)
{
    if (face_tensor(t, __func__)) return -1;
    return t->val->type.ndim;
}

const int64_t *
rille_tensor_shape(const struct rille_tensor *t)
{
    if (face_tensor(t, __func__)) return NULL;
    return t->val->type.dim;
}

int64_t
rille_tensor_numel(const struct rille_tensor *t)
{
    if (face_tensor(t, __func__)) return -1;
    return type_numel(&t->val->type);
}

size_t
rille_dtype_bytes(const char *dtype)
{
    if (face_given(dtype, "the dtype", __func__)) return 0;
    enum dtype d = dtype_parse(dtype);
    return d == DT_NONE ? 0 : dtype_bytes(d);
}

const struct rille_layout *
rille_tensor_layout(const struct rille_tensor *t)
{
    if (face_tensor(t, __func__)) return NULL;
    return (const struct rille_layout *)t->val->layout;
}

bool
rille_tensor_has_value(const struct rille_tensor *t)
{
    if (face_tensor(t, __func__)) return false;
    return t->val->store != NULL;
}

bool
rille_tensor_is_leaf(const struct rille_tensor *t)
{
    if (face_tensor(t, __func__)) return false;
    return t->leaf;
}

bool
rille_tensor_is_variable(const struct rille_tensor *t)
{
    if (face_tensor(t, __func__)) return false;
    return tensor_is_variable(t);
}

bool
rille_tensor_predates(const struct rille_tensor *t)
{
    if (face_tensor(t, __func__)) return false;
    const struct val *v = t->val;
    return t->journal < 0 && v->input < 0 && !(v->node && v->node->traced);
}

/* Returns true if v is `from`, or is computed from it by calls of the trace in progress. */
static bool
is_traced_from(struct rille_session *s, struct val *v, const struct val *from)
{
    int n = 1, capacity = 1;
    struct val **stack = must_copy(&v, sizeof v);
    bool found = false;
    uint64_t mark = graph_mark(s->graph);
    while (n > 0 && !found) {
        struct val *x = stack[--n];
        found = x == from;
        if (x->mark == mark || !x->node || !x->node->traced) continue;
        x->mark = mark;
        GROW(stack, n + x->node->nin, capacity);
        for (int i = 0; i < x->node->nin; i++)
            if (x->node->in[i]) stack[n++] = x->node->in[i];
    }
    free(stack);
    return found;
}

bool
rille_trace_carries(const struct rille_tensor *from, const struct rille_tensor *to)
{
    if (face_tensor(from, __func__)) return false;
    if (face_tensors(from->s, 1, (struct rille_tensor *const[]){(struct rille_tensor *)to}, __func__)) return false;
    return tracing(to->s) && (from->was_read || is_traced_from(to->s, to->val, from->val));
}

bool
rille_tensor_requires_grad(const struct rille_tensor *t)
{
    if (face_tensor(t, __func__)) return false;
    return t->leaf ? t->requires_grad : t->val->needs_grad;
}

bool
rille_tensor_frozen(const struct rille_tensor *t)
{
    return !face_tensor(t, __func__) && t->frozen;
}

int
rille_tensor_set_requires_grad(struct rille_tensor *t, bool on)
{
    TRY(face_tensor(t, __func__));
    if (!t->leaf)
        return fail(E_STATE, "requires_grad can be set on leaf tensors only, and this tensor is the result of an "
                             "operator; detach it first");
    if (on && !dtype_is_float(t->val->type.dtype))
        return fail(E_DTYPE, "a tensor that requires a gradient must have a float dtype, found %s",
                    rille_tensor_dtype(t));
    t->requires_grad = on;
    t->frozen = !on;
    t->val->needs_grad = on;
    if (on) t->val->unplaced = false; /* a parameter stays on its device */
    return 0;
}

const char *
rille_tensor_name(const struct rille_tensor *t)
{
    if (face_tensor(t, __func__)) return NULL;
    return t->name;
}

void
rille_tensor_set_name(struct rille_tensor *t, const char *name)
{
    if (face_tensor(t, __func__)) return;
    free(t->name);
    t->name = name ? strdup(name) : NULL;
}

int
rille_tensor_shard(const struct rille_tensor *t, int pos, int *rank, int64_t *shape, int64_t *offset)
{
    TRY(face_tensor(t, __func__));
    TRY(face_given(rank, "rank", __func__));
    TRY(face_given(shape, "the shape", __func__));
    TRY(face_given(offset, "the offset", __func__));
    const struct layout *l = t->val->layout;
    struct box b;
    if (pos < 0 || pos >= l->place->nrank)
        return fail(E_ARG, "shard %d is out of range: the tensor has %d shards", pos, (int)l->place->nrank);
    layout_box(l, &t->val->type, pos, &b);
    *rank = l->place->rank[pos];
    for (int i = 0; i < t->val->type.ndim; i++) {
        shape[i] = b.hi[i] - b.lo[i];
        offset[i] = b.lo[i];
    }
    return 0;
}

/* ---- creating leaves from bytes ---- */

int
rille_tensor_from_host(struct rille_session *s, const char *dtype, int ndim, const int64_t *shape, const void *data,
                       const struct rille_layout *layout, struct rille_tensor **out)
{
    TRY(face_session(s, __func__));
    TRY(face_given(data, "the data", __func__));
    TRY((layout ? face_layout(s, layout, __func__) : 0));
    TRY(face_given(out, "out", __func__));
    struct type t;
    const struct layout *l = layout ? (const struct layout *)layout : session_layout(s);
    TRY(face_type(dtype, ndim, shape, __func__, &t));
    TRY(layout_settle(s->atlas, &t, &l));
    TRY(trace_data(s, &t, &data));
    struct view whole = view_dense(&t, (void *)(uintptr_t)data);
    TRY(tensor_from_view(s, &t, l, &whole, out));
    (*out)->val->unplaced = !layout;
    return 0;
}

/* ---- reading values ---- */

int
rille_eval(struct rille_session *s, int n, struct rille_tensor *const *t)
{
    TRY(face_tensors(s, n, t, __func__));
    TRY(trace_refuses(s, "reading a value"));
    struct val **v = must_alloc(sizeof *v * (size_t)(n + 1));
    for (int i = 0; i < n; i++) v[i] = t[i]->val;
    int status = session_eval(s, n, v);
    free(v);
    return status;
}

/* Computes the value of a tensor if necessary, and reads the elements from start to stop of each axis. */
static int
read_elements(struct rille_tensor *t, const int64_t *start, const int64_t *stop, void *out)
{
    const struct type *type = &t->val->type;
    struct box part;
    for (int i = 0; i < type->ndim; i++) {
        if (start[i] < 0 || stop[i] < start[i] || stop[i] > type->dim[i])
            return fail(E_SHAPE, "read: positions %lld to %lld are out of range for axis %d, which has %lld",
                        (long long)start[i], (long long)stop[i], i, (long long)type->dim[i]);
        part.lo[i] = start[i];
        part.hi[i] = stop[i];
    }
    TRY(trace_refuses(t->s, "reading a value"));
    TRY(session_eval(t->s, 1, &t->val));
    return session_read(t->s, t->val, &part, out);
}

static int
read_all(struct rille_tensor *t, void *out)
{
    static const int64_t start[MAX_DIM];
    return read_elements(t, start, t->val->type.dim, out);
}

int
rille_tensor_read(struct rille_tensor *t, void *out)
{
    TRY(face_tensor(t, __func__));
    TRY(face_given(out, "out", __func__));
    return read_all(t, out);
}

int
rille_tensor_read_part(struct rille_tensor *t, const int64_t *start, const int64_t *stop, void *out)
{
    TRY(face_tensor(t, __func__));
    TRY(face_given(start, "start", __func__));
    TRY(face_given(stop, "stop", __func__));
    TRY(face_given(out, "out", __func__));
    return read_elements(t, start, stop, out);
}

int
rille_tensor_item(struct rille_tensor *t, double *f, int64_t *i, bool *is_int)
{
    TRY(face_tensor(t, __func__));
    TRY(face_given(f, "f", __func__));
    TRY(face_given(i, "i", __func__));
    TRY(face_given(is_int, "is_int", __func__));
    const struct type *type = &t->val->type;
    uint64_t bytes;
    if (type_numel(type) != 1)
        return fail(E_SHAPE, "item: expected a tensor of one element, found %lld elements",
                    (long long)type_numel(type));
    TRY(trace_refuses(t->s, "item()"));
    TRY(read_all(t, &bytes));
    *is_int = !dtype_is_float(type->dtype);
    if (*is_int)
        *i = elem_get_i(type->dtype, &bytes, 0);
    else
        *f = elem_get_f(type->dtype, &bytes, 0);
    return 0;
}

/* Makes the shard at mesh position `pos` by operator calls: moves the tensor to the rank and slices it. So the
 * shard has a gradient, and a compiled step records the calls. */
static int
local_by_operators(struct rille_tensor *t, const struct layout *here, int pos, struct rille_tensor **out)
{
    struct rille_session *s = t->s;
    struct builder b = builder_of(&s->context);
    struct box box;
    struct val *v;
    if (layout_has_partial(t->val->layout))
        return fail(E_SBP, "to_local: an addend of a partial tensor has no gradient; detach the tensor first");
    int status = build_to_global(&s->context, t->val, here, &v);
    layout_box(t->val->layout, &t->val->type, pos, &box);
    for (int d = 0; !status && d < t->val->type.ndim; d++)
        if (box.hi[d] - box.lo[d] < t->val->type.dim[d]) v = b_slice(&b.base, v, d, box.lo[d], box.hi[d], 1);
    if (!status && b.base.failed) status = err_last();
    if (!status) *out = tensor_new(s, v, false);
    return build_settle(s, status);
}

int
rille_tensor_to_local(struct rille_tensor *t, int rank, struct rille_tensor **out)
{
    TRY(face_tensor(t, __func__));
    TRY(face_given(out, "out", __func__));
    struct rille_session *s = t->s;
    const struct layout *l = t->val->layout, *here;
    const struct place *p;
    int32_t one = 1, r = rank;
    int pos = place_find(l->place, rank);
    if (pos < 0) {
        struct str text = {0};
        place_print(l->place, &text);
        int status = fail(E_PLACE, "to_local: rank %d is not in the tensor's placement %s", rank, str_text(&text));
        str_free(&text);
        return status;
    }
    TRY(place_new(s->atlas, l->place->kind, 1, &one, &r, &p));
    here = layout_broadcast(s->atlas, p);
    if ((t->val->needs_grad && s->context.grad) || (tracing(s) && !layout_has_partial(l)))
        return local_by_operators(t, here, pos, out);
    TRY(rille_eval(s, 1, &t));
    struct type local = layout_shard(l, &t->val->type, pos);
    struct store *store = store_new(1);
    store->part[0] = t->val->store->part[pos];
    if (store->part[0]) buffer_hold(store->part[0]);
    *out = tensor_new(s, graph_leaf(s->graph, &local, here, store), true);
    return 0;
}

/* ---- new handles and new layouts of values ---- */

/* Moves a tensor to a layout. pin: rules must not choose another layout for the result. */
static int
moved(struct rille_tensor *t, const struct rille_layout *l, bool pin, const char *who, struct rille_tensor **out)
{
    TRY(face_tensor(t, who));
    TRY(face_layout(t->s, l, who));
    TRY(face_given(out, "out", who));
    struct rille_session *s = t->s;
    struct val *v;
    TRY(place_exists(s, ((const struct layout *)l)->place));
    int status = build_to_global(&s->context, t->val, (const struct layout *)l, &v);
    if (!status) {
        v->node->asked = 1;
        v->node->pins = v->node->pins || pin;
        v->unplaced = pin && t->val->unplaced && v->layout->place == t->val->layout->place;
        *out = tensor_new(s, v, false);
    }
    return build_settle(s, status);
}

int
rille_tensor_to_global(struct rille_tensor *t, const struct rille_layout *l, struct rille_tensor **out)
{
    return moved(t, l, false, __func__, out);
}

int
rille_tensor_pin(struct rille_tensor *t, const struct rille_layout *l, struct rille_tensor **out)
{
    return moved(t, l, true, __func__, out);
}

/* Makes a new handle for the same value; computed bytes are shared. A planner that may choose t's layout may choose
 * the new handle's layout, too. */
static int
same_value(struct rille_tensor *t, bool leaf, struct rille_tensor **out)
{
    struct rille_session *s = t->s;
    struct call_context ctx = s->context;
    struct val *v = NULL;
    int status = val_readable(t->val);
    if (status) return build_settle(s, status);
    if (leaf) ctx.grad = false;
    if (t->val->store && !tracing(s))
        status = build_share(s, t->val, &v);
    else
        status = build_to_global(&ctx, t->val, t->val->layout, &v);
    if (!status) {
        v->unplaced = t->val->unplaced;
        *out = tensor_new(s, v, leaf);
        (*out)->planned = leaf && t->planned;
        (*out)->placed = leaf && t->placed;
    }
    return build_settle(s, status);
}

int
rille_tensor_detach(struct rille_tensor *t, struct rille_tensor **out)
{
    TRY(face_tensor(t, __func__));
    TRY(face_given(out, "out", __func__));
    return same_value(t, true, out);
}

int
rille_tensor_clone(struct rille_tensor *t, struct rille_tensor **out)
{
    TRY(face_tensor(t, __func__));
    TRY(face_given(out, "out", __func__));
    if (!t->s->context.grad || !t->val->needs_grad) return same_value(t, true, out);
    struct val *v;
    int status = build_to_global(&t->s->context, t->val, t->val->layout, &v);
    if (!status) v->recorded = 1, *out = tensor_new(t->s, v, true);
    return build_settle(t->s, status);
}
