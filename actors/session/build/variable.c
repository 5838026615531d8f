/* variable.c - changes values, layouts and dtypes of variables in place. */
#include "actors/session/build/variable.h"
#include "actors/session/build/build.h"
#include "actors/session/build/grad.h"
#include "actors/session/core/devices.h"
#include "actors/session/core/face.h"
#include "actors/session/core/session.h"
#include "actors/session/core/tracer.h"
#include "actors/session/run/collect.h"
#include "actors/session/run/run.h"

#include "kernels/op/base/table.h"

#include <stdlib.h>
#include <string.h>

static int
must_be_leaf(const struct rille_tensor *t)
{
    if (t->leaf) return 0;
    if (tensor_is_variable(t))
        return fail(E_STATE,
                    "the variable was assigned a result whose gradient is recorded; write x:copy_(x:detach()) first");
    return fail(E_STATE, "expected a variable, found the result of an operator; clone or detach it first, or write "
                         "x[0] = y to change a part of x");
}

/* Returns true if a value of type t broadcasts to the shape `to`. */
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
    shape_print(from, &a);
    shape_print(to, &b);
    int status = fail(E_SHAPE, "the value must have the variable's shape %s or broadcast to it, found %s", str_text(&b),
                      str_text(&a));
    str_free(&a);
    str_free(&b);
    return status;
}

/* Returns the layout for v, the next version of t. An unplaced variable gets v's placement if v has one. In a
 * trace, a variable that was made outside the trace keeps its placement. */
static const struct layout *
next_layout(struct rille_tensor *t, const struct val *v)
{
    const struct val *is = t->val;
    bool free = is->unplaced && !v->unplaced && v->layout && v->layout->place != is->layout->place;
    if (!free || (tracing(t->s) && !(is->node && is->node->traced))) return is->layout;
    return layout_broadcast(t->s->atlas, v->layout->place);
}

/* Makes v the next version of t: broadcasts v to t's shape, converts it to t's dtype and layout, and makes the
 * result dense. A view is not enough, because kernels may sum in another order if strides differ; results could
 * then depend on whether the value was read before. If v needs a gradient but the assignment is not recorded, v
 * is copied, so that v keeps its gradient. */
static int
version_of(const struct call_context *ctx, struct rille_tensor *t, struct val *v, struct val **out)
{
    struct val *res[OP_OUT];
    const struct layout *to = next_layout(t, v);
    bool unplaced = t->val->unplaced && to == t->val->layout;
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
    bool keeps_gradient = v->needs_grad && !ctx->grad;
    if (v->layout != to || v->owner || !v->node || keeps_gradient || v->unplaced != unplaced)
        TRY(build_to_global(ctx, v, to, &v));
    *out = v;
    if (v->node && v->node->op->flags & OP_VIEW) TRY(build_call(ctx, op_find("contiguous"), 1, &v, NULL, NULL, out));
    (*out)->unplaced = unplaced;
    return 0;
}

/* Computes the next value of a leaf. Gradient mode is off (ctx->grad is false). */
typedef int next_fn(const struct call_context *ctx, struct rille_tensor *leaf, const void *of, struct val **out);

static bool
is_meta(const struct val *v)
{
    return v->layout->place->kind == DEV_META;
}

/* Sets *out to true if an assignment of v to t is recorded for differentiation. */
static int
records(const struct rille_tensor *t, const struct val *v, bool *out)
{
    *out = t->s->context.grad && v->needs_grad;
    if (!*out || !t->requires_grad) return 0;
    return fail(E_STATE, "the variable requires a gradient itself, so the gradient of the assigned value cannot be "
                         "recorded; assign the detached value, or assign under rille.no_grad");
}

/* Returns true if t can share the bytes of v: v is computed, has t's type and layout, and Rille owns its memory. An
 * update of either variable then writes to a new buffer. */
static bool
may_take_over(const struct rille_tensor *t, const struct val *v)
{
    if (!v->store || tracing(t->s) || !type_equal(&v->type, &t->val->type)) return false;
    if (v->layout != t->val->layout || v->type.weak != t->val->type.weak) return false;
    for (int32_t i = 0; i < v->store->n; i++)
        if (v->store->part[i] && buffer_is_wrapped(v->store->part[i])) return false;
    return true;
}

/* *v becomes the next version of a variable that was made outside the trace. Replaces *v by its value for the
 * whole batch. */
static int
once_per_batch(const struct call_context *ctx, const struct rille_tensor *t, struct val **v)
{
    bool unplaced = (*v)->unplaced;
    if (!tracing(t->s) || !trace_per_microbatch(*v) || trace_made(t)) return 0;
    if (!(*v)->recorded) TRY(trace_batch(ctx, *v, v));
    (*v)->unplaced = unplaced;
    if (!trace_per_microbatch(*v)) return 0;
    return fail(E_PLAN,
                "a value of one micro-batch cannot be assigned to a variable, which is updated once per batch; assign "
                "a sum or a mean over the rows, without its gradient, or use micro_batches = 1");
}

static int
next_version(const struct call_context *ctx, struct rille_tensor *t, const void *of, struct val **out)
{
    const struct rille_tensor *src = of;
    if (!tensor_is_variable(t)) TRY(must_be_leaf(t));
    if (is_meta(src->val) && !is_meta(t->val))
        return fail(E_PLACE,
                    "a tensor on meta devices has no values, so it cannot be assigned to a tensor that has values");
    struct call_context assigning = *ctx;
    TRY(records(t, src->val, &assigning.grad));
    if (!assigning.grad && may_take_over(t, src->val)) {
        TRY(build_share(t->s, src->val, out));
        (*out)->unplaced = t->val->unplaced;
        return 0;
    }
    TRY(version_of(&assigning, t, src->val, out));
    (*out)->recorded = (*out)->needs_grad;
    return once_per_batch(ctx, t, out);
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

/* Computes the next values of n leaves into `out`, before any leaf changes. *wrong: index of the leaf that failed. */
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

/* Replaces the variable's value. */
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
    TRY(trace_scan_refuses(s, "a variable cannot be assigned"));
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

enum { MOST_UNCOMPUTED = 1000 };

/* Sets *out to true if an uncomputed value must be computed before it is assigned. One reason is a check of data, which
 * can fail. The other is a long chain of calls: otherwise each later assignment would look at the whole chain. */
static int
is_doubtful(struct rille_session *s, struct val *v, bool *out)
{
    const struct collection *c = &s->collection;
    TRY(collect(s, 1, &v, COLLECT_RUN));
    *out = c->nnode > MOST_UNCOMPUTED;
    for (int32_t i = 0; i < c->nnode; i++) *out = *out || c->node[i]->op->host.say;
    return 0;
}

/* Computes the doubtful ones of the values. *wrong: index of the first value that failed. */
static int
compute_doubtful(struct rille_session *s, int n, struct rille_tensor *const *src, int *wrong)
{
    for (int i = 0; i < n; i++) {
        bool doubtful = false;
        int status = is_pending(src[i]->val) ? is_doubtful(s, src[i]->val, &doubtful) : 0;
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
    bool grad = rille_grad_mode(s, false);
    int status = assign_all(s, n, leaf, src, wrong);
    rille_grad_mode(s, grad);
    return status;
}

int
rille_tensor_assign(struct rille_tensor *t, struct rille_tensor *src)
{
    TRY(face_tensor(t, __func__));
    TRY(face_tensors(t->s, 1, &src, __func__));
    return assign_all(t->s, 1, &t, &src, NULL);
}

/* Moves the gradient of a leaf to the leaf's new layout l. Result NULL: the leaf has no gradient, or the gradient
 * needs no move. */
static int
next_gradient_place(const struct call_context *ctx, struct rille_tensor *t, const void *of, struct val **out)
{
    const struct layout *l = of, *to;
    if (!t->grad || l == t->val->layout) return 0;
    TRY(grad_suiting(t->s, l, t->grad->val->layout, &to));
    return to == t->grad->val->layout ? 0 : build_to_global(ctx, t->grad->val, to, out);
}

/* Returns v cast to another dtype, always as a new value. */
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
        return fail(E_DTYPE, "a variable that requires a gradient must have a float dtype, found %s", dtype_text(*d));
    return *d == t->val->type.dtype ? 0 : cast_of(ctx, t->val, *d, out);
}

static int
next_gradient_type(const struct call_context *ctx, struct rille_tensor *t, const void *of, struct val **out)
{
    const enum dtype *d = of;
    if (!t->grad || *d == t->val->type.dtype || *d == t->grad->val->type.dtype) return 0;
    return cast_of(ctx, t->grad->val, *d, out);
}

/* Sets the next value and gradient of all leaves; after an error, of no leaf. *wrong: index of the leaf that
 * failed; *changed: number of leaves changed. Resets grad_layout, which applied to the old layout. */
static int
change_all(struct rille_session *s, int n, struct rille_tensor *const *leaf, const void *const *of, next_fn *next,
           next_fn *next_gradient, int *wrong, int *changed)
{
    *changed = 0;
    TRY(trace_scan_refuses(s, "a variable cannot be changed"));
    struct val **v = must_alloc(sizeof *v * (size_t)(2 * n + 1)), **g = v + n;
    int status = next_of_all(s, n, leaf, of, next, wrong, v);
    if (!status) status = next_of_all(s, n, leaf, of, next_gradient, wrong, g);
    for (int i = 0; !status && i < n; i++) {
        if (g[i]) tensor_rebind_grad(leaf[i], g[i]);
        if (!v[i]) continue; /* the leaf is unchanged */
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
    if (on && t->nref > 1) t->s->generation++; /* compiled steps with the old layout become invalid */
    return 0;
}
