/* epilogue.c - a chain of element-wise calls after a product or row kernel, its producer.
 *
 * The whole product is written into the chain's last output, which the element-wise engine then overwrites. So the
 * bits are those of two separate tasks. Computing column panels one after the other would use nearer caches, but
 * each panel repacks b. One core, us, product + bias + gelu:
 *
 *                     two tasks     one   one in panels of 512 columns
 *     256 x 3072 x 768    5,540   5,490   5,870
 *     4096 x 512 x 512    9,930   9,590   9,850
 *     64 x 256 x 256       39.1    38.6 */
#include "kernels/exec/epilogue.h"

#include "runtime/device/device.h"
#include "runtime/base/error.h"

#include <string.h>

int
epilogue_by(int nstep, const struct fuse_step *step)
{
    int i = nstep - 1;
    while (i >= 0 && !(step[i].call->op->flags & OP_LEADS)) i--;
    return i;
}

/* Returns the epilogue's operand for operand i of the chain; adds a new operand if necessary. */
static int
operand_of(struct epilogue *l, int i)
{
    int k = 1;
    while (k < l->nin && l->in[k] != i) k++;
    assert(k < EXEC_IN);
    l->in[k] = i;
    l->nin = MAX(l->nin, k + 1);
    return k;
}

/* Translates an argument of a step to the epilogue's numbering, which omits the producer. */
static struct fuse_arg
epilogue_arg(struct epilogue *l, int lead, struct fuse_arg a)
{
    if (a.step)
        return a.index == lead ? (struct fuse_arg){false, 0} : (struct fuse_arg){true, a.index - (a.index > lead)};
    return (struct fuse_arg){false, a.index < 0 ? a.index : operand_of(l, a.index)};
}

/* Adds output i of the chain to the epilogue's outputs. Returns its index there; i itself if i is below 0. */
static int
output_from(struct epilogue *l, int i)
{
    if (i < 0) return i;
    assert(l->nout < EXEC_IN);
    l->out[l->nout] = i;
    return l->nout++;
}

/* Returns the steps of the epilogue. */
static const struct fuse_step *
other_steps(struct arena *arena, struct epilogue *l, int lead, int nstep, const struct fuse_step *step)
{
    struct fuse_step *other = ARENA_ARRAY(arena, struct fuse_step, nstep), *s = other;
    l->nin = 1;
    for (int i = 0; i < nstep; i++) {
        if (i == lead) continue;
        *s = step[i];
        s->out = output_from(l, step[i].out);
        for (int k = 0; k < s->call->nin; k++)
            if (s->call->in[k].dtype != DT_NONE) s->arg[k] = epilogue_arg(l, lead, s->arg[k]);
        s++;
    }
    return other;
}

/* Returns a dense view for the producer's first result, with the chain's shape, which any output of the epilogue
 * has. */
static struct view
dense_result(const struct call *c, int nstep, const struct fuse_step *step, const struct view *out)
{
    int i = nstep - 1;
    while (step[i].out < 0) i--;
    const struct view *like = &out[step[i].out];
    struct type t = type_of((enum dtype)c->out[0].dtype, like->ndim, like->dim);
    struct view v = view_dense(&t, NULL);
    memcpy(v.global, like->global, sizeof v.global);
    memcpy(v.offset, like->offset, sizeof v.offset);
    return v;
}

/* Returns the output that holds the product: the producer's own output, if any; else the last step's, which every
 * earlier step precedes, if its dtype and strides fit; else -1. */
static int
output_of(int lead, int nstep, const struct fuse_step *step, const struct view *out, const struct view *result)
{
    int last = step[nstep - 1].out;
    if (step[lead].out >= 0) return step[lead].out;
    return last >= 0 && out[last].dtype == result->dtype && view_is_dense(&out[last]) ? last : -1;
}

/* Makes the single step that overwrites the product, its operand 0. Operands keep the order of the call. */
static int
follow_new(struct epilogue *l, const struct fuse_step *s, const struct view *result, const struct view *in,
           const struct view *out, int device, int threads)
{
    struct view seen[OP_OPERAND] = {{0}};
    l->nin = s->call->nin;
    seen[0] = *result;
    for (int k = 1; k < l->nin; k++) {
        l->in[k] = s->call->in[k].dtype == DT_NONE ? -1 : s->arg[k].index;
        if (l->in[k] >= 0) seen[k] = in[l->in[k]];
    }
    l->out[l->nout++] = s->out;
    return exec_new(&(struct kcall){.call = s->call, .in = seen, .out = &out[s->out], .threads = threads}, device,
                    &l->then);
}

/* Makes the epilogue, the steps after the producer. */
static int
others_new(struct arena *a, struct epilogue *l, int lead, int nstep, const struct fuse_step *step,
           const struct view *result, const struct view *in, const struct view *out, int device, int threads)
{
    const struct fuse_step *other = other_steps(a, l, lead, nstep, step);
    struct view seen[EXEC_IN] = {*result}, made[EXEC_IN];
    for (int i = 1; i < l->nin; i++) seen[i] = in[l->in[i]];
    for (int k = 0; k < l->nout; k++) made[k] = out[l->out[k]];
    return exec_fused(nstep - 1, other, l->nin, seen, l->nout, made, device, threads, &l->then);
}

int
epilogue_new(struct arena *a, int lead, int nstep, const struct fuse_step *step, const struct view *in,
             const struct view *out, int device, int threads, struct epilogue **made)
{
    struct epilogue *l = *made = ARENA_NEW(a, struct epilogue);
    const struct fuse_step *s = &step[lead];
    struct view seen[EXEC_IN] = {{0}}, result[OP_OUT] = {dense_result(s->call, nstep, step, out)};
    for (int k = 0; k < s->call->nin; k++) {
        l->from[l->nfrom++] = s->call->in[k].dtype == DT_NONE ? -1 : s->arg[k].index;
        if (l->from[k] >= 0) seen[k] = in[l->from[k]];
    }
    l->to = output_of(lead, nstep, step, out, result);
    l->nmade = s->call->nout;
    l->others = s->others;
    if (l->to >= 0) *result = out[l->to];
    for (int k = 1; k < s->call->nout; k++) result[k] = out[l->others + k - 1];
    TRY(exec_new(&(struct kcall){.call = s->call, .in = seen, .out = result, .threads = threads}, device, &l->exec));

    l->follows = step[nstep - 1].call->op->flags & OP_FOLLOWS;
    if (l->follows)
        TRY(follow_new(l, &step[nstep - 1], result, in, out, device, threads));
    else
        TRY(others_new(a, l, lead, nstep, step, result, in, out, device, threads));
    l->at = (MAX(exec_scratch(l->then), exec_scratch(l->exec)) + 63) / 64 * 64;
    l->scratch_bytes = l->at + (l->to < 0 ? (size_t)view_numel(result) * dtype_bytes(result->dtype) : 0);
    return 0;
}

int
epilogue_run(const struct epilogue *l, void *const *in, void *const *out, void *scratch, int device, uint64_t piece,
             struct finding *find)
{
    void *first[OP_OPERAND] = {NULL}, *made[OP_OUT], *then[EXEC_IN], *last[EXEC_IN];
    for (int k = 0; k < l->nfrom; k++)
        if (l->from[k] >= 0) first[k] = in[l->from[k]];
    made[0] = then[0] = l->to < 0 ? (char *)scratch + l->at : out[l->to];
    for (int k = 1; k < l->nmade; k++) made[k] = out[l->others + k - 1];
    for (int i = 1; i < l->nin; i++) then[i] = l->in[i] < 0 ? NULL : in[l->in[i]];
    for (int k = 0; k < l->nout; k++) last[k] = out[l->out[k]];
    TRY(exec_on(l->exec, first, made, scratch, device, piece, find));
    return exec_on(l->then, then, last, scratch, device, piece, find);
}
