/* tensor.c - tensor handles, and the variables among them. */
#include "actors/session/core/session.h"
#include "actors/session/core/tracer.h"
#include "actors/session/core/face.h"

#include "boxing/box.h"
#include "kernels/op/lib/table.h"

#include <stdlib.h>
#include <string.h>

/* ---- handles and versions ---- */

static void
own(struct rille_tensor *t, struct val *v)
{
    if (v->owner == t) return;
    if (v->owner) tensor_orphan(v->owner);
    v->owner = t;
    tensor_refer(t);
}

struct rille_tensor *
tensor_new(struct rille_session *s, struct val *v, bool leaf)
{
    struct rille_tensor *t = must_alloc(sizeof *t);
    t->s = s;
    t->nref = 1;
    t->leaf = leaf;
    t->journal = -1;
    t->val = v;
    val_hold(v);
    if (leaf) own(t, v);
    s->ntensor++;
    LIST_PUSH(s->tensors, t);
    return t;
}

struct rille_tensor *
tensor_refer(struct rille_tensor *t)
{
    t->nref_weak++;
    return t;
}

void
tensor_orphan(struct rille_tensor *t)
{
    if (--t->nref_weak == 0 && t->nref == 0) free(t);
}

bool
tensor_is_present(const struct rille_tensor *t, const struct val *v)
{
    return t->nref > 0 && t->val == v;
}

void
tensor_rebind(struct rille_tensor *t, struct val *v)
{
    struct val *old = t->val;
    val_hold(v);
    t->val = v;
    if (t->leaf) {
        own(t, v);
        v->needs_grad = t->requires_grad;
    }
    val_drop(t->s->graph, &old);
}

void
tensor_rebind_grad(struct rille_tensor *t, struct val *g)
{
    if (t->grad && t->grad->nref == 1) {
        tensor_rebind(t->grad, g);
        return;
    }
    struct rille_tensor *fresh = tensor_new(t->s, g, true);
    rille_tensor_free(&t->grad);
    t->grad = fresh;
}

struct rille_tensor *
rille_tensor_hold(struct rille_tensor *t)
{
    if (face_tensor(t, __func__)) return NULL;
    t->nref++;
    return t;
}

static void
unwatch(struct rille_session *s, struct rille_tensor *t)
{
    for (int32_t i = 0; i < s->nwatch; i++)
        if (s->watch[i] == t) s->watch[i--] = s->watch[--s->nwatch];
    for (int32_t i = 0; i < s->nupdate; i++)
        if (s->update[i].t == t) {
            val_drop(s->graph, &s->update[i].before);
            s->update[i--] = s->update[--s->nupdate];
        }
}

void
rille_tensor_free(struct rille_tensor **tp)
{
    if (face_given(tp, "the pointer to the tensor", __func__) || (*tp ? face_tensor(*tp, __func__) : 0)) return;
    struct rille_tensor *t = *tp;
    *tp = NULL;
    if (!t || --t->nref > 0) return;
    struct rille_session *s = t->s;
    LIST_TAKE(s->tensors, t);
    tensor_refer(t); /* keeps the struct meanwhile */
    unwatch(s, t);
    rille_tensor_free(&t->grad);
    val_drop(s->graph, &t->val);
    free(t->name);
    t->name = NULL;
    s->ntensor--;
    tensor_orphan(t);
}

/* ---- properties ---- */

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
    for (int d = 1; d < NDTYPE; d++)
        if (!strcmp(dtype_text((enum dtype)d), dtype)) return dtype_bytes((enum dtype)d);
    return 0;
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
rille_tensor_requires_grad(const struct rille_tensor *t)
{
    if (face_tensor(t, __func__)) return false;
    return t->leaf ? t->requires_grad : t->val->needs_grad;
}

int
rille_tensor_set_requires_grad(struct rille_tensor *t, bool on)
{
    TRY(face_tensor(t, __func__));
    if (!t->leaf)
        return fail(E_STATE, "requires_grad can be set on leaf tensors only; this one is a result: detach it");
    if (on && !dtype_is_float(t->val->type.dtype))
        return fail(E_DTYPE, "only tensors of a float dtype have gradients, this one is %s", rille_tensor_dtype(t));
    t->requires_grad = on;
    t->val->needs_grad = on;
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
        return fail(E_ARG, "shard %d: the tensor has %d shards", pos, (int)l->place->nrank);
    layout_box(l, &t->val->type, pos, &b);
    *rank = l->place->rank[pos];
    for (int i = 0; i < t->val->type.ndim; i++) {
        shape[i] = b.hi[i] - b.lo[i];
        offset[i] = b.lo[i];
    }
    return 0;
}

/* ---- leaves from bytes ---- */

/* Fills shard pos of a global value. A partial layout has the value on the first rank and the identity of the
 * reduction on all others. */
static int
fill_part(const struct view *whole, const struct layout *l, const struct type *t, int pos, void *data)
{
    struct type local = layout_shard(l, t, pos);
    struct box box;
    layout_box(l, t, pos, &box);
    struct view dst = view_dense(&local, data), src = *whole;
    int64_t skip = 0;
    if (layout_is_later_part(l, pos)) {
        box_fill(layout_partial(l), &dst);
        return 0;
    }
    for (int i = 0; i < src.ndim; i++) {
        skip += box.lo[i] * src.stride[i];
        src.dim[i] = local.dim[i];
    }
    src.data = (char *)whole->data + skip * (int64_t)dtype_bytes(t->dtype);
    view_copy(&dst, &src);
    return 0;
}

/* Fills the shard in place or, if the host cannot write the device, in a host copy that is then written. */
static int
write_shard(const struct view *whole, const struct layout *l, const struct type *t, int pos, const struct buffer *b)
{
    if (buffer_host_reads(b)) {
        fill_part(whole, l, t, pos, b->data);
        return 0;
    }
    void *copy = must_alloc(b->bytes);
    fill_part(whole, l, t, pos, copy);
    int status = buffer_write(b, copy);
    free(copy);
    return status;
}

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
    TRY(layout_fits(l, &t));
    struct store *store = NULL;
    if (!(device_kind(l->place->kind)->flags & NO_BYTES)) {
        TRY(store_make(s, &t, l, &store));
        struct view whole = view_dense(&t, (void *)(uintptr_t)data);
        int status = 0;
        for (int pos = 0; pos < l->place->nrank && !status; pos++)
            if (store->part[pos]) status = write_shard(&whole, l, &t, pos, store->part[pos]);
        if (status) {
            store_drop(&store);
            return status;
        }
    }
    *out = tensor_new(s, graph_leaf(s->graph, &t, l, store), true);
    return 0;
}

/* ---- reading ---- */

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

int
rille_tensor_read(struct rille_tensor *t, void *out)
{
    TRY(face_tensor(t, __func__));
    TRY(face_given(out, "out", __func__));
    int64_t start[MAX_DIM] = {0};
    return rille_tensor_read_part(t, start, t->val->type.dim, out);
}

int
rille_tensor_read_part(struct rille_tensor *t, const int64_t *start, const int64_t *stop, void *out)
{
    TRY(face_tensor(t, __func__));
    TRY(face_given(start, "start", __func__));
    TRY(face_given(stop, "stop", __func__));
    TRY(face_given(out, "out", __func__));
    const struct type *type = &t->val->type;
    struct box part = {{0}, {0}};
    for (int i = 0; i < type->ndim; i++) {
        if (start[i] < 0 || stop[i] < start[i] || stop[i] > type->dim[i])
            return fail(E_SHAPE, "read: positions %lld to %lld of axis %d, which has %lld", (long long)start[i],
                        (long long)stop[i], i, (long long)type->dim[i]);
        part.lo[i] = start[i];
        part.hi[i] = stop[i];
    }
    TRY(rille_eval(t->s, 1, &t));
    return session_read(t->s, t->val, &part, out);
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
        return fail(E_SHAPE, "item: a tensor of one element is wanted, this one has %lld", (long long)type_numel(type));
    TRY(trace_refuses(t->s, "item()"));
    TRY(rille_tensor_read(t, &bytes));
    *is_int = !dtype_is_float(type->dtype);
    if (*is_int)
        *i = elem_get_i(type->dtype, &bytes, 0);
    else
        *f = elem_get_f(type->dtype, &bytes, 0);
    return 0;
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
    TRY(rille_eval(s, 1, &t));
    TRY(place_new(s->atlas, l->place->kind, 1, &one, &r, &p));
    here = layout_broadcast(s->atlas, p);
    struct type local = layout_shard(l, &t->val->type, pos);
    struct store *store = store_new(1);
    store->part[0] = t->val->store->part[pos];
    if (store->part[0]) buffer_hold(store->part[0]);
    *out = tensor_new(s, graph_leaf(s->graph, &local, here, store), true);
    return 0;
}

/* ---- new names, new layouts ---- */

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

/* Makes a new handle on the same value. The bytes are shared if they exist. The layout stays the planner's to choose
 * if t's is. */
static int
same_value(struct rille_tensor *t, bool leaf, struct rille_tensor **out)
{
    struct rille_session *s = t->s;
    struct call_context ctx = s->context;
    struct val *v = NULL;
    int status = val_readable(t->val);
    if (status) return build_settle(s, status);
    if (t->val->store && !tracing(s)) {
        store_hold(t->val->store);
        v = build_fresh(s, graph_leaf(s->graph, &t->val->type, t->val->layout, t->val->store));
    } else {
        if (leaf) ctx.grad = false;
        status = build_to_global(&ctx, t->val, t->val->layout, &v);
    }
    if (!status) {
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
    if (!status) *out = tensor_new(t->s, v, false);
    return build_settle(t->s, status);
}

/* ---- in place ---- */

static int
must_be_leaf(const struct rille_tensor *t)
{
    if (t->leaf) return 0;
    return fail(E_STATE, "in place: this tensor is a result, not a variable; clone or detach it first");
}

/* Returns true if a value of this type broadcasts to the shape `to`. */
static bool
fits_in(const struct type *from, const struct type *to)
{
    for (int d = 1; d <= from->ndim; d++) {
        int64_t n = from->dim[from->ndim - d];
        if (d > to->ndim || (n != 1 && n != to->dim[to->ndim - d])) return false;
    }
    return true;
}

static int
does_not_fit(const struct type *from, const struct type *to)
{
    struct str a = {0}, b = {0};
    type_print(from, &a);
    type_print(to, &b);
    int status =
        fail(E_SHAPE, "in place: the variable is %s and stays so, the new value is %s", str_text(&b), str_text(&a));
    str_free(&a);
    str_free(&b);
    return status;
}

/* Makes v the next version of t: broadcasts to t's shape, converts to t's dtype and layout, and makes the result
 * dense. Kernels may add in another order for other strides, so a view could give its first reader other bits than
 * later readers. */
static int
version_of(const struct call_context *ctx, struct rille_tensor *t, struct val *v, struct val **out)
{
    struct val *res[OP_OUT];
    if (!shape_equal(&v->type, &t->val->type)) {
        if (!fits_in(&v->type, &t->val->type)) return does_not_fit(&v->type, &t->val->type);
        const struct op *expand = op_find("expand");
        struct attr attr[OP_ATTR];
        op_attr_defaults(expand, attr);
        attr[0].set = true;
        attr[0].n = t->val->type.ndim;
        memcpy(attr[0].list, t->val->type.dim, sizeof(int64_t) * t->val->type.ndim);
        TRY(build_call(ctx, expand, 1, &v, attr, NULL, res));
        v = res[0];
    }
    TRY(build_cast(ctx, v, t->val->type.dtype, &v));
    if (v->layout != t->val->layout || v->owner || !v->node) TRY(build_to_global(ctx, v, t->val->layout, &v));
    *out = v;
    return v->node && v->node->op->flags & OP_VIEW ? build_call(ctx, op_find("contiguous"), 1, &v, NULL, NULL, out) : 0;
}

/* Makes the next value of a leaf, without gradients. */
typedef int next_fn(const struct call_context *ctx, struct rille_tensor *leaf, const void *of, struct val **out);

static bool
is_meta(const struct val *v)
{
    return v->layout->place->kind == DEV_META;
}

static int
next_version(const struct call_context *ctx, struct rille_tensor *t, const void *of, struct val **out)
{
    const struct rille_tensor *src = of;
    TRY(must_be_leaf(t));
    if (is_meta(src->val) && !is_meta(t->val))
        return fail(E_PLACE, "in place: a tensor on meta devices has a layout and no values: it cannot be put into one "
                             "that has them");
    TRY(version_of(ctx, t, src->val, out));
    if (!tracing(t->s) || !trace_per_microbatch(*out)) return 0;
    return fail(E_PLAN, "in place: a value that differs from micro-batch to micro-batch cannot be put into a "
                        "variable, which changes once a batch");
}

static int
next_move(const struct call_context *ctx, struct rille_tensor *t, const void *of, struct val **out)
{
    return build_to_global(ctx, t->val, of, out);
}

static int
next_place(const struct call_context *ctx, struct rille_tensor *t, const void *of, struct val **out)
{
    const struct layout *l = of;
    TRY(must_be_leaf(t));
    TRY(trace_refuses(t->s, "to_global_"));
    TRY(place_exists(t->s, l->place));
    return l == t->val->layout ? 0 : next_move(ctx, t, of, out);
}

/* Makes the next values of n leaves, in out, before any leaf changes. *wrong: index of the leaf that failed. */
static int
next_of_all(struct rille_session *s, int n, struct rille_tensor *const *leaf, const void *const *of, next_fn *next,
            int *wrong, struct val **out)
{
    struct call_context ctx = s->context;
    int status = 0;
    ctx.grad = false;
    for (int i = 0; !status && i < n; i++) {
        status = next(&ctx, leaf[i], of[i], &out[i]);
        if (status && wrong) *wrong = i;
    }
    return status;
}

/* Replaces the leaf's value with v, which was made without gradients. */
static void
assign(struct rille_tensor *t, struct val *v)
{
    trace_journal(t->s, t);
    tensor_rebind(t, v);
}

static int
assign_all(struct rille_session *s, int n, struct rille_tensor *const *leaf, struct rille_tensor *const *src,
           int *wrong)
{
    struct val **v = must_alloc(sizeof *v * (size_t)(n + 1));
    int status = next_of_all(s, n, leaf, (const void *const *)src, next_version, wrong, v);
    for (int i = 0; !status && i < n; i++) assign(leaf[i], v[i]);
    free(v);
    return build_settle(s, status);
}

static bool
is_pending(const struct val *v)
{
    return !v->store && !is_meta(v);
}

/* Finds whether pending v checks data, which may be invalid. */
static int
may_fail(struct rille_session *s, struct val *v, bool *out)
{
    const struct collection *c = &s->collection;
    TRY(collect(s, 1, &v, COLLECT_RUN));
    *out = false;
    for (int32_t i = 0; i < c->nnode; i++) *out = *out || c->node[i]->op->host.say;
    return 0;
}

/* Computes the pending values that may fail. *wrong: index of the first that fails. */
static int
compute_doubtful(struct rille_session *s, int n, struct rille_tensor *const *src, int *wrong)
{
    for (int i = 0; i < n; i++) {
        bool doubtful = false;
        int status = is_pending(src[i]->val) ? may_fail(s, src[i]->val, &doubtful) : 0;
        if (!status && doubtful) status = session_eval(s, 1, &src[i]->val);
        if (!status) continue;
        if (wrong) *wrong = i;
        return status;
    }
    return 0;
}

int
rille_tensors_assign(struct rille_session *s, int n, struct rille_tensor *const *leaf, struct rille_tensor *const *src,
                     int *wrong)
{
    TRY(face_tensors(s, n, leaf, __func__));
    TRY(face_tensors(s, n, src, __func__));
    if (!tracing(s)) TRY(compute_doubtful(s, n, src, wrong));
    return assign_all(s, n, leaf, src, wrong);
}

int
rille_tensor_assign(struct rille_tensor *t, struct rille_tensor *src)
{
    TRY(face_tensor(t, __func__));
    TRY(face_tensors(t->s, 1, &src, __func__));
    return assign_all(t->s, 1, &t, &src, NULL);
}

/* Moves the gradient of a leaf along to the leaf's new layout l; NULL: no gradient, or no move needed. */
static int
next_gradient_place(const struct call_context *ctx, struct rille_tensor *t, const void *of, struct val **out)
{
    const struct layout *l = of, *to;
    if (!t->grad || l == t->val->layout) return 0;
    TRY(grad_suiting(t->s, l, t->grad->val->layout, &to));
    return to == t->grad->val->layout ? 0 : build_to_global(ctx, t->grad->val, to, out);
}

/* Returns v in another dtype, always as a new value. */
static int
cast_of(const struct call_context *ctx, struct val *v, enum dtype d, struct val **out)
{
    TRY(val_readable(v));
    TRY(build_cast(ctx, v, d, &v));
    *out = v;
    return v->owner || !v->node ? build_to_global(ctx, v, v->layout, out) : 0;
}

static int
next_type(const struct call_context *ctx, struct rille_tensor *t, const void *of, struct val **out)
{
    const enum dtype *d = of;
    TRY(must_be_leaf(t));
    TRY(trace_refuses(t->s, "to(dtype) of variables"));
    if (t->requires_grad && !dtype_is_float(*d))
        return fail(E_DTYPE, "in place: a variable that requires a gradient is of a float dtype, not %s",
                    dtype_text(*d));
    return *d == t->val->type.dtype ? 0 : cast_of(ctx, t->val, *d, out);
}

static int
next_gradient_type(const struct call_context *ctx, struct rille_tensor *t, const void *of, struct val **out)
{
    const enum dtype *d = of;
    if (!t->grad || *d == t->val->type.dtype || *d == t->grad->val->type.dtype) return 0;
    return cast_of(ctx, t->grad->val, *d, out);
}

/* Gives each leaf its next value and its next gradient; all or none. *wrong: index of the leaf that failed;
 * *changed: number of leaves changed. Resets grad_layout, which belongs to the old layout. */
static int
change_all(struct rille_session *s, int n, struct rille_tensor *const *leaf, const void *const *of, next_fn *next,
           next_fn *next_gradient, int *wrong, int *changed)
{
    *changed = 0;
    struct val **v = must_alloc(sizeof *v * (size_t)(2 * n + 1)), **g = v + n;
    int status = next_of_all(s, n, leaf, of, next, wrong, v);
    if (!status) status = next_of_all(s, n, leaf, of, next_gradient, wrong, g);
    for (int i = 0; !status && i < n; i++) {
        if (g[i]) tensor_rebind_grad(leaf[i], g[i]);
        if (!v[i]) continue; /* unchanged */
        if (v[i]->layout != leaf[i]->val->layout) leaf[i]->grad_layout = NULL;
        tensor_rebind(leaf[i], v[i]);
        ++*changed;
    }
    free(v);
    return build_settle(s, status);
}

int
rille_tensors_relayout(struct rille_session *s, int n, struct rille_tensor *const *leaf,
                       const struct rille_layout *const *l, int *wrong)
{
    TRY(face_tensors(s, n, leaf, __func__));
    if (n) TRY(face_given(l, "list of layouts", __func__));
    for (int i = 0; i < n; i++) TRY(face_layout(s, l[i], __func__));
    int changed;
    TRY(change_all(s, n, leaf, (const void *const *)l, next_place, next_gradient_place, wrong, &changed));
    for (int i = 0; i < n; i++) leaf[i]->planned = leaf[i]->placed = false;
    s->generation += changed;
    return 0;
}

int
rille_tensor_relayout(struct rille_tensor *t, const struct rille_layout *layout)
{
    TRY(face_tensor(t, __func__));
    return rille_tensors_relayout(t->s, 1, &t, &layout, NULL);
}

int
rille_tensors_retype(struct rille_session *s, int n, struct rille_tensor *const *leaf, const char *dtype, int *wrong)
{
    TRY(face_tensors(s, n, leaf, __func__));
    TRY(face_given(dtype, "the dtype", __func__));
    const enum dtype d = dtype_parse(dtype);
    if (d == DT_NONE) return err_last();
    const void **of = must_alloc(sizeof(*of) * (size_t)(n + 1));
    for (int i = 0; i < n; i++) of[i] = &d;
    int changed, status = change_all(s, n, leaf, of, next_type, next_gradient_type, wrong, &changed);
    free(of);
    s->generation += changed;
    return status;
}

int
tensor_place(struct rille_tensor *t, const struct layout *l)
{
    const void *of = l;
    int changed;
    TRY(change_all(t->s, 1, &t, &of, next_move, next_gradient_place, NULL, &changed));
    t->planned = false;
    t->placed = true;
    return 0;
}

int
rille_tensor_auto(struct rille_tensor *t, bool on)
{
    TRY(face_tensor(t, __func__));
    TRY(must_be_leaf(t));
    t->planned = on;
    t->placed = false;
    if (on && t->nref > 1) t->s->generation++; /* plans with the old layout are invalid */
    return 0;
}
