/* scan_grad.c - the gradient of a scan: another scan in the opposite direction.
 *
 * The inputs and outputs of the gradient's scan are:
 *
 *   states   gradients of the states, and of the sums
 *   sums     gradients of the captured values, summed over the positions
 *   slices   states before each position, slices of the scan, gradients of its outputs
 *   outputs  gradients of the slices
 *
 * The body recomputes the values of a position, except those that are outputs of the scan. A scan that needs a
 * gradient returns the states before each position as outputs. If a scan has no such outputs, it is run again with
 * them; an example is a gradient that is differentiated again. */
#include "actors/session/build/build.h"
#include "actors/session/build/grad.h"
#include "actors/session/scan/scan_grad.h"
#include "actors/session/scan/scan_body.h"
#include "actors/session/core/layouts.h"
#include "actors/session/core/session.h"

#include "kernels/op/base/build.h"
#include "kernels/op/base/table.h"

#include <stdlib.h>
#include <string.h>

enum { BODY, AXIS, LENGTH, REVERSE };

/* State while the gradient of a scan is made. */
struct backward {
    /* ctx: context of the nodes of the body; outer: context of the scan that is added */
    const struct call_context *ctx, *outer;
    const struct node *n;
    const struct body *body;
    /* by value of the original body: its stand-in (placeholder), or the result of a copy of its operator */
    struct val **value;
    struct scan scan;
    /* y: results of one position that have a gradient; dy: placeholders (stand-ins) for their gradients */
    int ny;
    struct val *y[OP_OUT], *dy[OP_OUT];
};

static int
nstate_or_sum(const struct body *b)
{
    return b->nstate + b->nsum;
}

static int
zeros_as(const struct call_context *ctx, const struct val *like, enum dtype d, struct val **out)
{
    struct val *res[OP_OUT];
    struct type t = like->type;
    struct build_source source = {.type = &t};
    t.dtype = (uint8_t)d;
    TRY(layout_summed(ctx->s->atlas, like->layout, &source.layout));
    TRY(build_call(ctx, op_find("zeros"), 0, NULL, NULL, &source, res));
    *out = res[0];
    return 0;
}

static bool
is_float(const struct val *v)
{
    return !v->is_number && dtype_is_float((enum dtype)v->type.dtype);
}

/* ---- finding the states before each position ---- */

/* Runs the scan again. Its outputs are the states before each position. */
static int
run_again(const struct backward *w, struct val **stack)
{
    const struct body *b = w->body;
    const struct attr *was = w->n->attr;
    struct attr attr[OP_ATTR];
    struct val *res[OP_OUT];
    struct str text = {0};
    int64_t number;
    if (nstate_or_sum(b) + b->nstate > OP_OUT) return fail(E_STATE, "the function of rille.scan has too many states");
    str_addn(&text, b->text, (size_t)(strrchr(b->text, '>') - b->text)); /* earlier '>' belong to nested bodies */
    for (int k = 0; k < nstate_or_sum(b); k++) str_addf(&text, "%s%d", k ? "," : ">", b->result[k]);
    for (int k = 0; k < b->nstate; k++) str_addf(&text, ",%d", k);
    int status = body_number(str_text(&text), &number);
    str_free(&text);
    if (status) return status;
    scan_attrs(number, (int)was[AXIS].i, was[LENGTH].i, was[REVERSE].i, attr);
    TRY(build_call(w->ctx, op_find("scan"), w->n->nin, w->n->in, attr, NULL, res));
    for (int k = 0; k < b->nstate; k++) stack[k] = res[nstate_or_sum(b) + k];
    return 0;
}

static int
states_before(const struct backward *w, struct val **stack)
{
    const struct body *b = w->body;
    int found = 0;
    for (int k = nstate_or_sum(b); k < body_nresult(b); k++)
        if (b->result[k] < b->nstate && !stack[b->result[k]]) stack[b->result[k]] = w->n->out[k], found++;
    return found == b->nstate ? 0 : run_again(w, stack);
}

/* ---- inputs of the body of the gradient ---- */

static int
add_slice(struct backward *w, struct val *stack, struct val **stand_in)
{
    TRY(scan_slice(w->ctx, stack, (int)w->n->attr[AXIS].i, stand_in));
    scan_input(&w->scan.slice, *stand_in, stack);
    return 0;
}

/* Makes a stand-in (placeholder) for a sum. No gradient reads the value of a sum, so the stand-in is zero. */
static int
stand_in_sum(struct backward *w, const struct val *sum, struct val **out)
{
    TRY(zeros_as(w->ctx, sum, (enum dtype)sum->type.dtype, out));
    (*out)->input = STAND_IN;
    (*out)->needs_grad = 1;
    return 0;
}

/* Makes stand-ins for the inputs of the original body at one position. */
static int
add_inputs(struct backward *w)
{
    const struct body *b = w->body;
    struct val *stack[OP_OUT] = {0};
    int slices = nstate_or_sum(b), captures = slices + b->nslice;
    TRY(states_before(w, stack));
    for (int i = 0; i < b->ninput; i++) {
        int from = body_operand(b, i);
        struct val *v = from < 0 ? NULL : w->n->in[from];
        if (i < b->nstate)
            TRY(add_slice(w, stack[i], &w->value[i]));
        else if (i < slices)
            TRY(stand_in_sum(w, w->n->out[i], &w->value[i]));
        else if (i < captures)
            TRY(add_slice(w, v, &w->value[i]));
        else if (v->is_number)
            w->value[i] = v;
        else
            TRY(scan_stand_in(w->ctx, v, &w->value[i]));
        if (i >= captures && !v->is_number) scan_input(&w->scan.capture, w->value[i], v);
    }
    return 0;
}

/* Adds copies of the original body's operators, which recompute the values of a position. */
static int
copy_body(struct backward *w)
{
    struct val *in[BUILD_OPERANDS];
    for (int i = 0; i < w->body->nnode; i++) {
        const struct body_node *n = &w->body->node[i];
        for (int k = 0; k < n->nin; k++) in[k] = n->in[k] < 0 ? NULL : w->value[n->in[k]];
        TRY(build_call(w->ctx, n->op, n->nin, in, n->attr, NULL, &w->value[n->first]));
    }
    /* a value that is an output of the scan is read from the output instead of recomputed */
    for (int k = nstate_or_sum(w->body); k < body_nresult(w->body); k++)
        if (w->body->result[k] >= w->body->ninput)
            scan_input(&w->scan.slice, w->value[w->body->result[k]], w->n->out[k]);
    return 0;
}

static void
add_seed(struct backward *w, int result, struct val *dy)
{
    struct val *y = w->value[w->body->result[result]];
    if (!y->needs_grad) return;
    w->y[w->ny] = y;
    w->dy[w->ny++] = dy;
}

/* Makes placeholders (stand-ins) for the gradients of next states, of sums and of outputs. */
static int
add_gradients(struct backward *w, struct val *const *dout)
{
    struct val *dy;
    for (int k = 0; k < body_nresult(w->body); k++) {
        struct val *whole = dout[k];
        if (!is_float(w->n->out[k])) continue;
        if (k < nstate_or_sum(w->body)) {
            if (!whole) TRY(zeros_as(w->ctx, w->n->out[k], (enum dtype)w->n->out[k]->type.dtype, &whole));
            TRY(scan_stand_in(w->ctx, whole, &dy));
            scan_input(&w->scan.state, dy, whole);
            add_seed(w, k, dy);
        } else if (whole) {
            TRY(add_slice(w, whole, &dy));
            add_seed(w, k, dy);
        }
    }
    return 0;
}

/* ---- results of the body of the gradient ---- */

static int
add_total(struct backward *w, int capture, struct val *dx)
{
    struct scan *c = &w->scan;
    struct val *sum;
    struct builder b = builder_of(w->ctx);
    enum dtype d = (enum dtype)dx->type.dtype;
    TRY(zeros_as(w->ctx, dx, dtype_is_half(d) ? DT_F32 : d, &sum));
    sum->input = STAND_IN;
    c->like[c->sum.n] = capture;
    c->total[c->sum.n] = b_add(&b.base, sum, b_cast(&b.base, dx, (enum dtype)sum->type.dtype));
    scan_input(&c->sum, sum, NULL);
    return b.base.failed ? (int)err_last() : 0;
}

static int
add_next(struct backward *w, const struct val *state, struct val *dx)
{
    struct scan *c = &w->scan;
    int k = 0;
    while (c->next[k]) k++;
    if (!dx) TRY(zeros_as(w->ctx, state, (enum dtype)state->type.dtype, &dx));
    return build_cast(w->ctx, dx, (enum dtype)state->type.dtype, &c->next[k]);
}

/* Sets the results of the scan. dx: gradients of the inputs of one position. to: by input, where the gradient of its
 * operand is found: 1 + index among the states, sums or outputs of the scan; 0: none. */
static int
add_results(struct backward *w, struct val *const *dx, int *to)
{
    const struct body *b = w->body;
    struct scan *c = &w->scan;
    int slices = nstate_or_sum(b), captures = slices + b->nslice, state = 0, captured = 0;
    for (int i = 0; i < b->ninput; i++) {
        struct val *v = w->value[i];
        int operand = body_operand(b, i), capture = i >= captures && !v->is_number ? captured++ : -1;
        bool wanted = operand >= 0 && b_wants(w->n, operand);
        if (i < slices) {
            if (!is_float(v)) continue;
            TRY(add_next(w, v, dx[i]));
            to[i] = ++state;
        } else if (!dx[i] || !wanted) {
            continue;
        } else if (i < captures) {
            TRY(build_cast(w->ctx, dx[i], (enum dtype)v->type.dtype, &c->output[c->noutput]));
            to[i] = ++c->noutput;
        } else {
            TRY(add_total(w, capture, dx[i]));
            to[i] = c->sum.n;
        }
    }
    return 0;
}

static void
give_gradients(const struct backward *w, const int *to, struct val *const *res, struct val **din)
{
    const struct body *b = w->body;
    int slices = nstate_or_sum(b), captures = slices + b->nslice;
    for (int i = 0; i < b->ninput; i++) {
        int at = body_operand(b, i), first = w->scan.state.n;
        if (at < 0 || !to[i]) continue;
        if (i < slices)
            din[at] = res[to[i] - 1];
        else
            din[at] = res[first + (i < captures ? w->scan.sum.n : 0) + to[i] - 1];
    }
}

/* ---- adding the scan that computes the gradient ---- */

/* Copies up to n results of the gradient's scan, sums before outputs, from result number `first` on, into a scan that
 * has all states. */
static void
take_results(const struct scan *all, int first, int n, struct scan *some)
{
    *some = *all;
    some->sum.n = some->noutput = 0;
    for (int k = first; k < MIN(first + n, all->sum.n + all->noutput); k++) {
        int output = k - all->sum.n;
        if (output >= 0) {
            some->output[some->noutput++] = all->output[output];
            continue;
        }
        some->like[some->sum.n] = all->like[k];
        some->total[some->sum.n] = all->total[k];
        scan_input(&some->sum, all->sum.stand_in[k], NULL);
    }
}

/* Adds the scan. If it has more results than an operator may have, adds several scans, each of which computes all
 * states and some of the other results. If possible, leaves room for the states as outputs, which run_again() adds. */
static int
add_scans(const struct backward *w, struct val **res)
{
    const struct scan *all = &w->scan;
    struct val *out[OP_OUT];
    int n = all->sum.n + all->noutput, fits = OP_OUT - all->state.n;
    if (n <= fits) return scan_add(w->outer, all, res);
    if (fits > all->state.n) fits -= all->state.n;
    if (fits <= 0)
        return fail(E_STATE,
                    "the function of rille.scan has %d states and sums, more than %d; join tensors with rille.concat",
                    all->state.n, OP_OUT - 1);
    struct scan *some = must_alloc(sizeof *some);
    int status = 0;
    for (int first = 0; !status && first < n; first += fits) {
        take_results(all, first, fits, some);
        status = scan_add(w->outer, some, out);
        memcpy(res, out, sizeof *res * (size_t)all->state.n);
        memcpy(res + all->state.n + first, out + all->state.n, sizeof *res * (size_t)MIN(fits, n - first));
    }
    free(some);
    return status;
}

static int
make_gradient(struct backward *w, struct val *const *dout, struct val **dx, int *to, struct val **din)
{
    struct val *res[3 * SCAN_INPUTS];
    const struct attr *was = w->n->attr;
    TRY(add_inputs(w));
    w->scan.first = w->value[0]->is_number ? 0 : w->value[0]->node->serial;
    TRY(copy_body(w));
    TRY(add_gradients(w, dout));
    if (!w->ny) return 0;
    TRY(grad_of_results(w->ctx, w->ny, w->y, w->dy, w->body->ninput, w->value, dx));
    TRY(add_results(w, dx, to));
    w->scan.axis = (int)was[AXIS].i;
    w->scan.length = was[LENGTH].i;
    w->scan.reverse = !was[REVERSE].i;
    w->scan.gradient = true;
    TRY(add_scans(w, res));
    give_gradients(w, to, res, din);
    return 0;
}

int
scan_gradient(const struct call_context *ctx, const struct node *n, struct val *const *dout, struct val **din)
{
    struct call_context own = build_plain(ctx);
    struct backward *w = must_alloc(sizeof *w);
    w->ctx = &own;
    w->outer = ctx;
    w->n = n;
    w->body = body_at(n->attr[BODY].i);
    /* gradient mode is on, because the copies of the body's operators are differentiated next */
    own.grad = true;
    int32_t region = ctx->s->calls.region;
    ctx->s->calls.region = 0;
    int ninput = w->body->ninput, *to = must_alloc(sizeof *to * (size_t)(ninput + 1));
    w->value = must_alloc(sizeof(struct val *) * (size_t)(w->body->nvalue + OP_OUT));
    struct val **dx = must_alloc(sizeof *dx * (size_t)(ninput + 1));
    int status = make_gradient(w, dout, dx, to, din);
    ctx->s->calls.region = region;
    free(dx);
    free(to);
    free(w->value);
    free(w);
    return status;
}
