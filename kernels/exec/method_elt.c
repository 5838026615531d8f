/* method_elt.c - computes element-wise calls, and chains of them, with the host's element-wise engine. */
#include "kernels/exec/exec_inner.h"

#include "kernels/cpu/eltwise/eltwise.h"
#include "kernels/cpu/eltwise/chain.h"
#include "runtime/base/error.h"

static int
make_elt(struct exec *e, int device)
{
    struct elt *elt;
    if (!exec_by_host(device) || (!e->fused && !(e->call->op->flags & OP_ELTWISE))) return 0;
    TRY(elt_new(&e->arena, e->made.nstep, e->made.step, e->nin, e->in, e->nout, e->out, e->k.threads, e->k.unread,
                &elt));
    return exec_accept(e, &method_elt, "eltwise", elt, align_64(elt_scratch(elt)));
}

static int
run_elt(const struct exec *e, void *const *in, void *const *out, const struct run_args *r)
{
    elt_run(e->own, in, out, r->scratch);
    return 0;
}

const struct method method_elt = {.make = make_elt, .run = run_elt, .waits = true};
