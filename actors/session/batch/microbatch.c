/* microbatch.c - sums values over micro-batches. */
#include "actors/session/batch/microbatch.h"
#include "actors/session/build/build.h"
#include "actors/session/core/face.h"
#include "actors/session/core/tracer.h"
#include "actors/session/batch/share.h"

#include "kernels/op/base/table.h"

/* Sums v over the micro-batches. A half-precision value is summed in f32 and rounded after the last micro-batch.
 * A partial sum is f32 by its layout. */
static int
sum_up(const struct call_context *ctx, struct val *v, struct val **out)
{
    TRY(build_to_global(ctx, v, v->layout, out));
    (*out)->node->accumulate = 1;
    if (dtype_is_half((enum dtype)v->type.dtype) && !layout_partial(v->layout)) (*out)->type.dtype = DT_F32;
    return 0;
}

/* Returns true if the operand is a tensor of one micro-batch, not partial, and read without a move. */
static bool
lies_so(const struct node *n, int k)
{
    const struct val *x = k < n->nin ? n->in[k] : NULL;
    return x && !x->is_number && trace_per_microbatch(x) && x->layout == n->want[k] && !layout_partial(x->layout);
}

static bool
alike(const struct val *x, const struct val *y)
{
    return x->layout == y->layout && x->type.dtype == y->type.dtype && shape_equal(&x->type, &y->type);
}

/* Returns true if operand k of a product is the same for all micro-batches. */
static bool
is_fixed(const struct node *n, int k, const struct val *v)
{
    const struct val *x = n->in[k];
    return x->is_number || (!trace_per_microbatch(x) && alike(x, v) && x->layout == n->want[k]);
}

/* Returns a bit mask of the operands of n that can be summed in place of n's result v; 0: none. */
static unsigned
sums_of(const struct node *n, const struct val *v)
{
    if (n->op->flags & OP_VIEW)
        return n->nin == 1 && lies_so(n, 0) && type_numel(&n->in[0]->type) == type_numel(&v->type);
    if (n->nin != 2) return 0;
    unsigned both = (lies_so(n, 0) && alike(n->in[0], v) ? 1 : 0) | (lies_so(n, 1) && alike(n->in[1], v) ? 2 : 0);
    if (n->op == op_find("add")) return both == 3 ? both : 0;
    if (n->op == op_find("mul")) return (both == 1 || both == 2) && is_fixed(n, both == 1, v) ? both : 0;
    return 0;
}

/* Sums half-precision values in f32, so that the values of single micro-batches are not rounded. If v results from a
 * cast to half precision, a reshape or a product with a constant, sums the operand instead. If v is an addition,
 * sums its two addends separately. */
static int
sum_up_wide(const struct call_context *ctx, struct val *v, struct val **out)
{
    const struct node *n = v->node;
    struct val *res[OP_OUT], *in[2];
    if (!n || n->state != NODE_NEW) return sum_up(ctx, v, out);
    bool rounds = n->op == op_find("cast") && lies_so(n, 0) && n->in[0]->type.dtype == DT_F32;
    if (rounds) return sum_up(ctx, n->in[0], out);
    unsigned sums = sums_of(n, v);
    if (!sums) return sum_up(ctx, v, out);
    for (int k = 0; k < n->nin; k++)
        if (sums >> k & 1)
            TRY(sum_up_wide(ctx, n->in[k], &in[k]));
        else
            in[k] = n->in[k];
    TRY(build_call(ctx, n->op, n->nin, in, n->op->flags & OP_VIEW ? n->attr : NULL, NULL, res));
    return *out = res[0], 0;
}

int
microbatch_sum(const struct call_context *ctx, struct val *v, struct val **out)
{
    *out = v;
    if (trace_microbatches(ctx->s) == 1 || !trace_per_microbatch(v)) return 0;
    enum dtype d = (enum dtype)v->type.dtype;
    if (!dtype_is_half(d) || layout_partial(v->layout)) return sum_up(ctx, v, out);
    TRY(sum_up_wide(ctx, v, out));
    return build_cast(ctx, *out, d, out);
}

int
microbatch_scaled(const struct call_context *ctx, struct val *v, double f, struct val **out)
{
    struct val *in[2] = {v, build_number(ctx->s, false, f, 0)}, *res[OP_OUT];
    TRY(build_call(ctx, op_find("mul"), 2, in, NULL, NULL, res));
    *out = res[0];
    return 0;
}

int
microbatch_mean(const struct call_context *ctx, struct val *v, struct val **out)
{
    *out = v;
    if (trace_microbatches(ctx->s) == 1 || !trace_per_microbatch(v)) return 0;
    TRY(microbatch_scaled(ctx, v, 1.0 / trace_microbatches(ctx->s), out));
    return microbatch_sum(ctx, *out, out);
}

int
rille_trace_mean(struct rille_tensor *t, struct rille_tensor **out)
{
    TRY(face_tensor(t, __func__));
    TRY(face_given(out, "out", __func__));
    struct rille_session *s = t->s;
    struct val *v;
    int status = microbatch_mean(&s->context, t->val, &v);
    if (!status) *out = tensor_new(s, v, false);
    return build_settle(s, status);
}

int
rille_micro_batch_result(struct rille_tensor *t)
{
    TRY(face_tensor(t, __func__));
    struct val *v = t->val;
    if (trace_microbatches(t->s) == 1) return 0;
    enum batch_share share = batch_share_of(v);
    if (share != SHARE_OTHER && share != SHARE_MAX && share != SHARE_MIN && share != SHARE_FROM_MEANS) return 0;
    bool rows = share == SHARE_OTHER && v->type.ndim && v->type.dim[0] == t->s->trace.rows;
    v->share = rows ? SHARE_ROWS : SHARE_MEAN;
    v->rows = 0;
    v->blocks = 1;
    return 0;
}

const char *
microbatch_ungraded(const struct node *n)
{
    const char *mean = "is not linear in a mean over the rows of the whole batch that depends on parameters; use "
                       "micro_batches = 1; detach() the mean if no gradient shall flow through it; or compute the loss "
                       "in rille.per_micro_batch(fn) for the mean of the losses of the micro-batches";
    const char *rows =
        "selects values among the rows of the whole batch; use micro_batches = 1; reduce over axis 1; or "
        "compute the loss in rille.per_micro_batch(fn) for the mean of the losses of the "
        "micro-batches";
    int share = n->traced && n->per_piece && n->phase == PHASE_FORWARD ? n->out[0]->share : SHARE_WHOLE;
    return share == SHARE_FROM_MEANS ? mean : share == SHARE_MAX || share == SHARE_MIN ? rows : NULL;
}

/* Returns the variable that holds v, or of which v is a view or a move, if the step has changed it; NULL: none. */
static const struct rille_tensor *
changed_variable(const struct val *v)
{
    while (v && !(v->owner && v->owner->journal >= 0))
        v = v->node && v->node->op->flags & (OP_VIEW | OP_MOVE) ? v->node->in[0] : NULL;
    return v ? v->owner : NULL;
}

int
microbatch_refuse_late(const struct node *n)
{
    for (int i = 0; i < n->nin; i++) {
        const struct rille_tensor *t = n->in[i] && trace_per_microbatch(n->in[i]) ? NULL : changed_variable(n->in[i]);
        if (!t) continue;
        return fail(E_PLAN,
                    "%s: %s%s was changed earlier in this step, after the last micro-batch, so no micro-batch can read "
                    "its new value; make a compiled step of each part, or use micro_batches = 1",
                    n->name, t->name ? "variable " : "a variable", t->name ? t->name : "");
    }
    return fail(E_PLAN,
                "%s: one operand is a value of one micro-batch, but another is known only after the last micro-batch; "
                "make a compiled step of each part, or use micro_batches = 1",
                n->name);
}
