/* method_epilogue.c - computes a chain of element-wise calls after a product or row kernel, the producer.
 *
 * The epilogue (bias, activation, residual) is computed on the producer's first result within one task, so that
 * result has no register. Alternatively, a single call follows a product and overwrites its result (OP_FOLLOWS).
 *
 * The whole product is written into the chain's last output, which the element-wise engine then overwrites. So the
 * result has the same bits as with two separate tasks. Computing the product in panels of columns would keep each
 * panel in nearer caches, but each panel repacks the second factor. Times of product + bias + gelu on one core, us:
 *
 *                       two tasks     one   one in panels of 512 columns
 *       256 x 3072 x 768    5,540   5,490   5,870
 *       4096 x 512 x 512    9,930   9,590   9,850
 *       64 x 256 x 256       39.1    38.6 */
#include "kernels/exec/method_epilogue.h"
#include "kernels/exec/exec_inner.h"

#include "runtime/base/error.h"

#include <string.h>

enum { PRODUCER, EPILOGUE, NPART }; /* parts of the exec */

struct epilogue {
    int nfrom;
    int from[OP_OPERAND]; /* index of each operand of the producer among the chain's operands; -1: absent */
    int to;     /* index of the chain's output that stores the producer's first result; -1: the result is in scratch */
    int nmade;  /* number of the producer's results */
    int others; /* index of the chain's output for the producer's second result; further results use the next outputs */
    size_t at;  /* offset in scratch of the producer's first result, bytes */
    /* number of the epilogue's operands: operand 0 is the producer's result, operand i > 0 is operand in[i] of
     * the chain */
    int nin;
    int in[EXEC_IN];
    /* number of the epilogue's outputs; output k is output out[k] of the chain */
    int nout;
    int out[EXEC_IN];
};

int
epilogue_by(int nstep, const struct fuse_step *step)
{
    int i = nstep - 1;
    while (i >= 0 && !(step[i].call->op->flags & OP_LEADS)) i--;
    return i;
}

/* Returns the index of the chain's operand i among the epilogue's operands; adds the operand if necessary. */
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

/* Translates a step's argument to the numbering of the epilogue, which leaves out the producer. */
static struct fuse_arg
epilogue_arg(struct epilogue *l, int lead, struct fuse_arg a)
{
    if (a.step)
        return a.index == lead ? (struct fuse_arg){false, 0} : (struct fuse_arg){true, a.index - (a.index > lead)};
    return (struct fuse_arg){false, a.index < 0 ? a.index : operand_of(l, a.index)};
}

/* Adds output i of the chain to the epilogue's outputs and returns its index there. Returns i itself if i < 0 (no
 * output). */
static int
output_from(struct epilogue *l, int i)
{
    if (i < 0) return i;
    assert(l->nout < EXEC_IN);
    l->out[l->nout] = i;
    return l->nout++;
}

/* Returns the chain's steps except the producer, renumbered for the epilogue. */
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

/* Returns a dense view for the producer's first result. The view has the shape of the chain's outputs. */
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

/* Returns the index of the chain's output in which the product is stored; -1: scratch. Prefers the producer's own
 * output. If the producer has none, returns the last step's output if its dtype and strides fit. No earlier step
 * writes that output, so the product stays there until the last step. */
static int
output_of(int lead, int nstep, const struct fuse_step *step, const struct view *out, const struct view *result)
{
    int last = step[nstep - 1].out;
    if (step[lead].out >= 0) return step[lead].out;
    return last >= 0 && out[last].dtype == result->dtype && view_is_dense(&out[last]) ? last : -1;
}

/* Makes the exec of the call that follows the product and overwrites it (OP_FOLLOWS). Operand 0 of this call is the
 * product; the other operands keep their order. */
static int
make_follower(struct exec *e, struct epilogue *l, const struct fuse_step *s, const struct view *result, int device)
{
    struct view seen[OP_OPERAND] = {{0}};
    l->nin = s->call->nin;
    seen[0] = *result;
    for (int k = 1; k < l->nin; k++) {
        l->in[k] = s->call->in[k].dtype == DT_NONE ? -1 : s->arg[k].index;
        if (l->in[k] >= 0) seen[k] = e->in[l->in[k]];
    }
    l->out[l->nout++] = s->out;
    struct kcall k = {.call = s->call, .in = seen, .out = &e->out[s->out], .threads = e->k.threads};
    return exec_new(&k, device, &e->part[EPILOGUE]);
}

/* Makes the exec of the epilogue, that is, of all steps except the producer. */
static int
make_others(struct exec *e, struct epilogue *l, int lead, const struct view *result, int device)
{
    int nstep = e->made.nstep;
    const struct fuse_step *other = other_steps(&e->arena, l, lead, nstep, e->made.step);
    struct view seen[EXEC_IN] = {*result}, made[EXEC_IN];
    for (int i = 1; i < l->nin; i++) seen[i] = e->in[l->in[i]];
    for (int k = 0; k < l->nout; k++) made[k] = e->out[l->out[k]];
    return exec_fused(nstep - 1, other, l->nin, seen, l->nout, made, device, e->k.threads, &e->part[EPILOGUE]);
}

/* Makes the exec of the producer. Sets *result to the view of the producer's first result. */
static int
make_producer(struct exec *e, struct epilogue *l, int lead, struct view *result, int device)
{
    int nstep = e->made.nstep;
    const struct fuse_step *step = e->made.step, *s = &step[lead];
    struct view seen[EXEC_IN] = {{0}}, made[OP_OUT] = {dense_result(s->call, nstep, step, e->out)};
    for (int k = 0; k < s->call->nin; k++) {
        l->from[l->nfrom++] = s->call->in[k].dtype == DT_NONE ? -1 : s->arg[k].index;
        if (l->from[k] >= 0) seen[k] = e->in[l->from[k]];
    }
    l->to = output_of(lead, nstep, step, e->out, made);
    l->nmade = s->call->nout;
    l->others = s->others;
    if (l->to >= 0) *made = e->out[l->to];
    for (int k = 1; k < s->call->nout; k++) made[k] = e->out[l->others + k - 1];
    *result = *made;
    struct kcall k = {.call = s->call, .in = seen, .out = made, .threads = e->k.threads};
    return exec_new(&k, device, &e->part[PRODUCER]);
}

static int
make_epilogue(struct exec *e, int device)
{
    int lead = epilogue_by(e->made.nstep, e->made.step);
    const struct fuse_step *last = &e->made.step[e->made.nstep - 1];
    struct view result;
    if (!e->fused || lead < 0) return 0;
    struct epilogue *l = ARENA_NEW(&e->arena, struct epilogue);
    e->part = ARENA_ARRAY(&e->arena, struct exec *, NPART);
    e->npart = NPART;
    TRY(make_producer(e, l, lead, &result, device));
    TRY(last->call->op->flags & OP_FOLLOWS ? make_follower(e, l, last, &result, device)
                                           : make_others(e, l, lead, &result, device));
    l->at = align_64(MAX(exec_scratch(e->part[EPILOGUE]), exec_scratch(e->part[PRODUCER])));
    size_t bytes = l->to < 0 ? (size_t)view_numel(&result) * dtype_bytes(result.dtype) : 0;
    return exec_accept(e, &method_epilogue, exec_variant(e->part[PRODUCER]), l, l->at + bytes);
}

static int
run_epilogue(const struct exec *e, void *const *in, void *const *out, const struct run_args *r)
{
    const struct epilogue *l = e->own;
    void *first[OP_OPERAND] = {NULL}, *made[OP_OUT], *then[EXEC_IN], *last[EXEC_IN];
    for (int k = 0; k < l->nfrom; k++)
        if (l->from[k] >= 0) first[k] = in[l->from[k]];
    made[0] = then[0] = l->to < 0 ? r->scratch + l->at : out[l->to];
    for (int k = 1; k < l->nmade; k++) made[k] = out[l->others + k - 1];
    for (int i = 1; i < l->nin; i++) then[i] = l->in[i] < 0 ? NULL : in[l->in[i]];
    for (int k = 0; k < l->nout; k++) last[k] = out[l->out[k]];
    TRY(exec_on(e->part[PRODUCER], first, made, r->scratch, r->device, r->piece, r->find));
    return exec_on(e->part[EPILOGUE], then, last, r->scratch, r->device, r->piece, r->find);
}

const struct method method_epilogue = {.make = make_epilogue, .run = run_epilogue, .launches = exec_parts_launch};
