/* method_ref.c - computes a call with the reference: converts operands to dense f64 or i64, and results back to
 * their dtypes. */
#include "kernels/exec/stage.h"

#include "kernels/cpu/eltwise/eltwise.h"
#include "runtime/base/error.h"

/* Returns true if the reference can access the view without conversion. */
static bool
suits_ref(const struct view *v)
{
    return v->dtype == stage_ref_dtype(v->dtype) && view_is_dense(v);
}

static int
make_ref(struct exec *e, int device)
{
    const struct op *op = e->call->op;
    if (!exec_by_host(device) || e->fused) return 0;
    if (!op->host.ref && !(op->flags & OP_ELTWISE))
        return fail(E_KERNEL, "%s has no kernel and no reference", op->name);
    for (int i = 0; i < e->nin; i++)
        if (stage_has_operand(e, i) && !suits_ref(&e->in[i])) stage_operand(e, i, stage_ref_dtype(e->in[i].dtype));
    for (int i = 0; i < e->nout; i++) stage_result(e, i, stage_ref_dtype(e->out[i].dtype));
    return exec_accept(e, &method_ref, "ref", NULL, e->scratch_bytes);
}

static int
run_ref(const struct exec *e, void *const *in, void *const *out, const struct run_args *r)
{
    struct stage_views v;
    stage_in(e, &v, in, r->scratch);
    stage_aim_out(e, &v, out, r->scratch);
    struct kcall k = stage_call(e, &v, r);
    TRY(k.call->op->host.ref ? k.call->op->host.ref(&k) : elt_ref(&k));
    stage_out(e, &v, out);
    return 0;
}

const struct method method_ref = {.make = make_ref, .run = run_ref, .waits = true, .reference = true};
