/* scan.c - public functions: records the function of rille.scan, and adds the scan.
 *
 * The user's function is called once, with stand-ins: nodes that stand for the states and slices at one position, and
 * are never run. The nodes between stand-ins and results become the body, which runs at each position. Values that do
 * not depend on a stand-in, such as transposed weights, are computed once outside the body, which captures these
 * values. */
#include "actors/session/build/build.h"
#include "actors/session/build/call.h"
#include "actors/session/scan/scan_body.h"
#include "actors/session/core/face.h"

#include "kernels/op/base/table.h"

#include <stdlib.h>

/* A function that is being recorded. Owns its handles. */
struct rille_scan {
    struct rille_session *s;
    struct scan scan;
    /* ordinal, nrandom: numbers of random calls when the recording began, outside of a trace and in the trace */
    uint64_t ordinal;
    int64_t nrandom;
    bool grad;
    int nhandle;
    struct rille_tensor *handle[4 * SCAN_INPUTS]; /* the operands and stand-ins */
};

static void
keep_value(struct rille_scan *c, struct val *v)
{
    c->handle[c->nhandle++] = tensor_new(c->s, v, false);
}

static int
add_stand_ins(struct rille_scan *c, const struct call_context *ctx, int n, struct rille_tensor *const *t, bool slices,
              struct rille_tensor **out)
{
    struct scan_inputs *list = slices ? &c->scan.slice : &c->scan.state;
    for (int i = 0; i < n; i++) {
        struct val *v = t[i]->val, *stand_in;
        TRY(slices ? scan_slice(ctx, v, c->scan.axis, &stand_in) : scan_stand_in(ctx, v, &stand_in));
        if (i == 0 && !c->scan.first) c->scan.first = stand_in->node->serial;
        scan_input(list, stand_in, v);
        keep_value(c, v);
        keep_value(c, stand_in);
        *out++ = tensor_new(c->s, stand_in, false);
    }
    return 0;
}

static int
check_begin(int nstate, int nslice, struct rille_tensor *const *slice, int axis)
{
    if (nstate + nslice == 0) return fail(E_ARG, "the state and xs have no tensors");
    if (nstate + nslice > SCAN_INPUTS)
        return fail(E_ARG, "the state and xs have %d tensors, more than %d", nstate + nslice, SCAN_INPUTS);
    for (int i = 0; i < nslice; i++)
        if (axis < 0 || axis >= slice[i]->val->type.ndim) return fail(E_ARG, "axis %d must exist", axis);
    return 0;
}

/* Ends the recording, frees the scan, and sets *scan to NULL. */
static void
scan_drop(struct rille_scan **scan)
{
    struct rille_scan *c = *scan;
    c->s->calls.nscan--;
    /* restores the counters of random calls, so that later calls draw the same numbers as without the recording */
    c->s->random.ordinal = c->ordinal;
    c->s->trace.nrandom = c->nrandom;
    for (int i = 0; i < c->nhandle; i++) rille_tensor_free(&c->handle[i]);
    free(c);
    *scan = NULL;
}

int
rille_scan_begin(struct rille_session *s, int axis, int nstate, struct rille_tensor *const *state, int nslice,
                 struct rille_tensor *const *slice, struct rille_tensor **out, struct rille_scan **scan)
{
    TRY(face_session(s, __func__));
    TRY(face_tensors(s, nstate, state, __func__));
    TRY(face_tensors(s, nslice, slice, __func__));
    TRY(face_given(out, "the list of stand-ins", __func__));
    TRY(face_given(scan, "the pointer to the scan", __func__));
    TRY(check_begin(nstate, nslice, slice, axis));
    struct call_context ctx = call_context_of(s);
    struct rille_scan *c = must_alloc(sizeof *c);
    *c = (struct rille_scan){.s = s, .ordinal = s->random.ordinal, .nrandom = s->trace.nrandom, .grad = ctx.grad};
    c->scan.axis = axis;
    s->calls.nscan++;
    trace_user_call(s, op_find("scan"), 0, NULL, NULL);
    for (int i = 0; i < nstate + nslice; i++) out[i] = NULL;
    int status = add_stand_ins(c, &ctx, nstate, state, false, out);
    if (!status) status = add_stand_ins(c, &ctx, nslice, slice, true, out + nstate);
    for (int i = 0; status && i < nstate + nslice; i++) rille_tensor_free(&out[i]);
    if (status) scan_drop(&c);
    *scan = c;
    return build_settle(s, status);
}

static int
face_scan(struct rille_scan *const *scan, const char *who)
{
    TRY(face_given(scan, "the pointer to the scan", who));
    TRY(face_given(*scan, "the scan", who));
    return face_session((*scan)->s, who);
}

void
rille_scan_cancel(struct rille_scan **scan)
{
    if (scan && !*scan) return;
    if (!face_scan(scan, __func__)) scan_drop(scan);
}

static bool
some_need_grad(int n, struct val *const *v)
{
    for (int i = 0; i < n; i++)
        if (v[i]->needs_grad) return true;
    return false;
}

static int
check_results(const struct rille_scan *c, int64_t length, int noutput, struct rille_tensor *const *output)
{
    if (length < 1) return fail(E_ARG, "the length must be at least 1");
    if (c->s->random.ordinal != c->ordinal || c->s->trace.nrandom != c->nrandom)
        return fail(E_STATE, "the function draws random numbers");
    for (int k = 0; k < noutput; k++)
        if (output[k]->val->type.ndim < c->scan.axis) return fail(E_ARG, "an output does not have the axis");
    if (noutput > SCAN_INPUTS - c->scan.state.n) return fail(E_ARG, "the function has more than %d outputs", OP_OUT);
    return 0;
}

static int
end(struct rille_scan *c, int64_t length, struct rille_tensor *const *next, int noutput,
    struct rille_tensor *const *output, struct val **res)
{
    struct call_context ctx = call_context_of(c->s);
    TRY(check_results(c, length, noutput, output));
    c->scan.length = length;
    for (int i = 0; i < c->scan.state.n; i++) c->scan.next[i] = next[i]->val;
    for (int k = 0; k < noutput; k++) c->scan.output[k] = output[k]->val;
    c->scan.noutput = noutput;
    bool grad = ctx.grad && (some_need_grad(c->scan.state.n, c->scan.next) || some_need_grad(noutput, c->scan.output));
    /* a recomputed scan keeps no values for its gradient: it is run again */
    c->scan.differs = grad && !c->s->calls.region;
    return scan_add(&ctx, &c->scan, res);
}

int
rille_scan_end(struct rille_scan **scan, int64_t length, struct rille_tensor *const *next, int noutput,
               struct rille_tensor *const *output, struct rille_tensor **out, bool *final)
{
    TRY(face_scan(scan, __func__));
    TRY(face_given(out, "the list of results", __func__));
    TRY(face_given(final, "the pointer to final", __func__));
    struct rille_scan *c = *scan;
    struct rille_session *s = c->s;
    struct val *res[OP_OUT];
    int nstate = c->scan.state.n;
    int status = face_tensors(s, nstate, next, __func__);
    if (!status) status = face_tensors(s, noutput, output, __func__);
    if (!status) status = end(c, length, next, noutput, output, res);
    for (int k = 0; !status && k < nstate + noutput; k++) out[k] = tensor_new(s, res[k], false);
    *final = status == E_PLAN;
    scan_drop(scan);
    return build_settle(s, status);
}
