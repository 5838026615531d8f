/* method_launch.c - computes a call or chain with a kernel that is compiled for the device (kernels/cuda). */
#include "kernels/exec/exec_inner.h"
#include "kernels/exec/method_epilogue.h"

#include "kernels/cuda/launch.h"
#include "runtime/base/error.h"
#include "runtime/device/device.h"

static int
make_compiled(struct exec *e, int device)
{
    struct cuda_launch *l = NULL;
    int nstep = e->made.nstep, lead = epilogue_by(nstep, e->made.step);
    if (!(device_kind(device)->flags & COMPILES)) return 0;
    if (!e->fused) TRY(cuda_launch_call(&e->arena, &e->k, &l));
    /* With RILLE_CHECK=ref, a chain with a producer is not compiled as one kernel: the check compares the producer's
     * result, and such a kernel does not store it. */
    else if (lead < 0 || !kernel_checks())
        TRY(cuda_launch_chain(&e->arena, lead, nstep, e->made.step, e->nin, e->in, e->nout, e->out, &l));
    return l ? exec_accept(e, &method_launch, l->source.engine, l, align_64(l->scratch_bytes)) : 0;
}

static int
run_compiled(const struct exec *e, void *const *in, void *const *out, const struct run_args *r)
{
    return cuda_launch_run(e->own, r->device, in, out, r->scratch, r->piece, r->find);
}

static bool
launch_launches(const struct exec *e, bool finds)
{
    const struct cuda_launch *l = e->own;
    return !finds || !l->finder;
}

const struct method method_launch = {.make = make_compiled, .run = run_compiled, .launches = launch_launches};
