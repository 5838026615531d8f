/* batch_result.c - makes results of a step from the values of its micro-batches. */
#include "actors/session/batch/batch_result.h"
#include "actors/session/build/build.h"
#include "actors/session/core/session.h"
#include "actors/session/core/tracer.h"
#include "actors/session/batch/batch_share.h"
#include "actors/session/batch/segments.h"

/* Checks that a result can be joined from micro-batches (micro-batch k: the k-th part of every segment). A result
 * with the rows of an argument must consist of complete segments; otherwise the rows of the joined result would
 * be in another order. */
static int
can_join(const struct segments *all, const struct val *v)
{
    if (segments_fit(all, v->layout, v->type.dim[0])) return 0;
    struct str text = {0};
    layout_print(v->layout, &text);
    int status =
        fail(E_SBP,
             "graph: a result is %s, which separates rows that are adjacent in the arguments, so micro-batches would "
             "be joined in another order; redistribute it with to_global before returning it",
             str_text(&text));
    str_free(&text);
    return status;
}

int
batch_result(const struct call_context *ctx, const struct segments *segments, struct val *v, struct val **out,
             bool *join, const struct op **reduce)
{
    *out = v;
    *join = false;
    *reduce = NULL;
    if (v->input >= 0) TRY(build_to_global(ctx, v, v->layout, out));
    if (!trace_per_microbatch(*out) || ctx->s->trace.pieces == 1) return 0;
    enum batch_share share = batch_share_of(*out);
    if (share == SHARE_POSITIONS)
        return fail(
            E_PLAN,
            "graph: a result counts the rows of one of %d micro-batches, as rille.arange(n) does; count outside "
            "of the step",
            ctx->s->trace.pieces);
    if (share == SHARE_OTHER && (*out)->node->phase == PHASE_BACKWARD)
        return fail(E_PLAN,
                    "graph: the gradient that %s computes is known for each of %d micro-batches, but not for the "
                    "batch; use micro_batches = 1",
                    (*out)->node->name, ctx->s->trace.pieces);
    bool rows = share == SHARE_ROWS || share == SHARE_DRAWN || share == SHARE_OTHER;
    if (v->type.ndim == 0 || !rows) {
        TRY(batch_share_join(ctx, *out, out, reduce));
        *join = *reduce != NULL;
        return 0;
    }
    if (share == SHARE_ROWS && (*out)->blocks > 1)
        return fail(E_PLAN,
                    "graph: a result has rows of %d tensors one below the other, as concat makes them; with %d "
                    "micro-batches these rows cannot be joined in order; return each of the tensors as a result of "
                    "its own",
                    (*out)->blocks, ctx->s->trace.pieces);
    if (share == SHARE_ROWS && (*out)->rows > 0)
        return fail(E_PLAN,
                    "graph: the rows of the arguments are dimension %d of a result, and results are joined from %d "
                    "micro-batches along dimension 0; permute it before it is returned",
                    (*out)->rows, ctx->s->trace.pieces);
    *join = true;
    return can_join(segments, v);
}
