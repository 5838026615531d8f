/* scan_body.c - writes nodes as the body of a scan, and adds the scan. */
#include "actors/session/scan/scan_body.h"
#include "actors/session/build/build.h"
#include "actors/session/core/session.h"

#include "kernels/op/base/build.h"
#include "kernels/op/base/table.h"

#include <stdlib.h>
#include <string.h>

enum { BODY, AXIS, LENGTH, REVERSE };

int
scan_stand_in(const struct call_context *ctx, struct val *v, struct val **out)
{
    struct val *res[OP_OUT];
    TRY(build_call(ctx, op_find("contiguous"), 1, &v, NULL, NULL, res));
    *out = res[0];
    (*out)->input = STAND_IN;
    (*out)->needs_grad = ctx->grad && dtype_is_float((enum dtype)v->type.dtype);
    return 0;
}

int
scan_slice(const struct call_context *ctx, struct val *v, int axis, struct val **out)
{
    struct builder b = builder_of(ctx);
    int64_t at = body_axis(axis, v->type.ndim);
    struct val *x = b_squeeze(&b.base, b_slice(&b.base, v, (int)at, 0, 1, 1), &at, 1);
    return x ? scan_stand_in(ctx, x, out) : (int)err_last();
}

/* State while the body of a scan is written. A stand-in is a placeholder for an input of the body at one position.
 * node->index is 1 for nodes that depend on a stand-in. If val->mark is `mark`, then val->index is the number of
 * the value in the body. */
struct writer {
    const struct call_context *ctx;
    const struct scan *scan;
    uint64_t mark;
    int ninput, nresult;
    /* by input of the body: the stand-in (input), and the scan's operand for the input (given; NULL for a sum) */
    struct val *input[4 * SCAN_INPUTS], *given[4 * SCAN_INPUTS];
    bool used[4 * SCAN_INPUTS];
    struct val *result[3 * SCAN_INPUTS];
    struct node **node; /* nodes of the body, in a runnable order */
    int32_t nnode, capacity;
    struct val *operand[SCAN_INPUTS]; /* operands of the scan */
    int noperand, ncapture;
    int nvalue;
    struct str text;
};

static void
list_inputs(struct writer *w, const struct scan_inputs *list)
{
    for (int i = 0; i < list->n; i++) {
        w->input[w->ninput] = list->stand_in[i];
        w->given[w->ninput++] = list->operand[i];
    }
}

static void
list_results(struct writer *w, int n, struct val *const *v)
{
    for (int i = 0; i < n; i++) w->result[w->nresult++] = v[i];
}

static int
list_inputs_and_results(struct writer *w)
{
    const struct scan *c = w->scan;
    const struct scan_inputs *list[] = {&c->state, &c->sum, &c->slice, &c->capture};
    for (size_t i = 0; i < countof(list); i++) list_inputs(w, list[i]);
    list_results(w, c->state.n, c->next);
    list_results(w, c->sum.n, c->total);
    list_results(w, c->noutput, c->output);
    if (w->nresult <= OP_OUT) return 0;
    return fail(E_ARG,
                "the function has %d states, outputs and gradients, more than %d; join tensors with rille.concat",
                w->nresult, OP_OUT);
}

/* ---- finding the nodes of the body ---- */

static bool
is_inside(const struct writer *w, const struct val *v)
{
    return v && v->node && v->node->serial >= w->scan->first && v->node->state == NODE_NEW;
}

/* Lists the nodes on which v depends and which depend on a stand-in, operands before readers. Returns true if v
 * depends on a stand-in. */
static bool
visit_value(struct writer *w, struct val *v)
{
    if (v && v->mark == w->mark) return w->used[v->index] = true;
    if (!is_inside(w, v)) return false;
    struct node *n = v->node;
    if (n->mark == w->mark) return n->index;
    bool depends = false;
    n->mark = w->mark;
    n->index = 0;
    for (int i = 0; i < n->nin; i++) depends |= visit_value(w, n->in[i]);
    n->index = depends;
    if (!depends) return false;
    GROW(w->node, w->nnode + 1, w->capacity);
    w->node[w->nnode++] = n;
    return true;
}

static int
check_node(const struct scan *c, const struct node *n)
{
    const char *why = NULL;
    if (n->op->flags & OP_RANDOM) why = "draws random numbers";
    if (n->op->flags & (OP_UPDATE | OP_INPLACE)) why = "updates a variable";
    if (n->op->flags & OP_SHIFT) why = "exchanges shards between ranks";
    /* a gradient needs no such check: it reads indices that the differentiated operator (such as topk) returned */
    if (n->op->host.say && !c->gradient) why = "checks the values of its operands";
    if (n->own) why = "has a gradient function or hook of its own";
    if (n->strategy) why = "has a strategy";
    if (n->accumulate) why = "sums over the whole batch";
    return why ? fail(E_STATE, "%s %s", n->name, why) : 0;
}

/* ---- choosing outputs for the gradient ---- */

static bool
is_output(const struct writer *w, const struct val *v)
{
    for (int k = w->scan->state.n; k < w->nresult; k++)
        if (w->result[k] == v) return true;
    return false;
}

static int
count_floats(const struct scan_inputs *list)
{
    int n = 0;
    for (int i = 0; i < list->n; i++) n += dtype_is_float((enum dtype)list->stand_in[i]->type.dtype);
    return n;
}

static bool
is_outside(const struct writer *w, const struct val *v)
{
    return v && v->mark != w->mark && !(is_inside(w, v) && v->node->mark == w->mark && v->node->index);
}

/* Returns the number of tensors outside of the body that nodes of the body read. *sums: number of those that need
 * a gradient. */
static int
count_captured(const struct writer *w, int *sums)
{
    const struct val *seen[SCAN_INPUTS];
    int n = 0;
    for (int32_t i = 0; i < w->nnode; i++)
        for (int k = 0; k < w->node[i]->nin; k++) {
            const struct val *v = w->node[i]->in[k];
            int at = 0;
            while (at < n && seen[at] != v) at++;
            if (!is_outside(w, v) || v->is_number || at < n) continue;
            if (n == SCAN_INPUTS) return n;
            seen[n++] = v;
            *sums += v->needs_grad;
        }
    return n;
}

/* Returns the only node of the body that reads v; NULL: several do, or none. */
static struct node *
only_reader(const struct writer *w, const struct val *v)
{
    struct node *reader = NULL;
    for (int32_t i = 0; i < w->nnode; i++)
        for (int k = 0; k < w->node[i]->nin; k++) {
            if (w->node[i]->in[k] != v) continue;
            if (reader) return NULL;
            reader = w->node[i];
        }
    return reader;
}

/* Returns the result of the element-wise operators, such as additions, that are the only readers of v and whose
 * gradients read no values. Returns v if there are none. The gradient of the body reads this result instead of v. */
static struct val *
sum_of_terms(const struct writer *w, struct val *v)
{
    struct node *n;
    while (!is_output(w, v) && (n = only_reader(w, v)) && n->op->flags & OP_ELTWISE && !n->op->grad.saves &&
           type_equal(&n->out[0]->type, &v->type))
        v = n->out[0];
    return v;
}

/* Adds outputs that the gradient of the scan will read: the states before each position, then as many results of
 * expensive operators (not element-wise) as fit. The gradient recomputes all other values. E_ARG: the gradient would
 * have too many operands or results. */
static int
keep_outputs(struct writer *w)
{
    const struct scan *c = w->scan;
    int sums = 0, inputs = count_captured(w, &sums) + c->slice.n + w->nresult + c->state.n;
    int backward = count_floats(&c->state) + sums + count_floats(&c->slice);
    if (!c->differs) return 0;
    if (backward > OP_OUT || w->nresult + c->state.n > OP_OUT || inputs > SCAN_INPUTS - OP_OUT)
        return fail(E_ARG, "the gradient of the function has %d results, more than %d, or too many operands", backward,
                    OP_OUT);
    list_results(w, c->state.n, c->state.stand_in);
    for (int32_t i = 0; i < w->nnode; i++) {
        const struct node *n = w->node[i];
        if (n->op->flags & (OP_ELTWISE | OP_VIEW | OP_MOVE) || n->nout > 1) continue;
        struct val *v = sum_of_terms(w, n->out[0]);
        bool fits = w->nresult < OP_OUT && v->type.ndim >= c->axis && dtype_is_float((enum dtype)v->type.dtype);
        if (fits && !is_output(w, v)) list_results(w, 1, &v);
    }
    return 0;
}

/* ---- numbering the values of the body ---- */

static bool
is_same_number(const struct val *x, const struct val *y)
{
    const struct number *a = &x->number, *b = &y->number;
    bool same = x->is_number && y->is_number && a->kind == b->kind && a->is_int == b->is_int;
    return same && (a->kind == NUM_LIVE ? a->live == b->live : a->kind == NUM_FIXED && a->i == b->i);
}

static int
give_number(struct writer *w, struct val *v, int number)
{
    v->mark = w->mark;
    v->index = number;
    return 0;
}

static int
too_many(void)
{
    return fail(E_ARG, "the function reads more than %d tensors and numbers", SCAN_INPUTS);
}

/* If v is computed outside of the body, makes v an operand of the scan. Does nothing if v is an operand already. */
static int
capture(struct writer *w, struct val *v)
{
    int captures = w->noperand - w->ncapture, inner = w->scan->sum.n;
    if (!is_outside(w, v)) return 0;
    for (int k = captures; k < w->noperand; k++)
        if (w->operand[k] == v || is_same_number(w->operand[k], v)) return give_number(w, v, k + inner);
    if (w->noperand == SCAN_INPUTS) return too_many();
    if (v->is_number && v->number.kind != NUM_FIXED && v->number.kind != NUM_LIVE)
        return fail(E_STATE, "the function draws random numbers");
    w->operand[w->noperand] = v;
    w->ncapture++;
    return give_number(w, v, inner + w->noperand++);
}

/* Numbers the inputs that the body reads, and makes their values operands of the scan. Other inputs are dropped:
 * they get neither a number nor a mark. */
static int
number_inputs(struct writer *w)
{
    const struct scan *c = w->scan;
    int number = 0, always = c->state.n + c->sum.n, captures = always + c->slice.n;
    for (int k = 0; k < c->sum.n; k++) w->used[captures + c->like[k]] = true;
    for (int i = 0; i < w->ninput; i++) {
        if (i >= always && !w->used[i]) continue;
        give_number(w, w->input[i], number++);
        if (!w->given[i]) continue;
        if (w->noperand == SCAN_INPUTS) return too_many();
        w->operand[w->noperand++] = w->given[i];
        w->ncapture += i >= captures;
    }
    return 0;
}

static int
capture_all(struct writer *w)
{
    for (int32_t i = 0; i < w->nnode; i++)
        for (int k = 0; k < w->node[i]->nin; k++) TRY(capture(w, w->node[i]->in[k]));
    for (int k = 0; k < w->nresult; k++) TRY(capture(w, w->result[k]));
    w->nvalue = w->noperand + w->scan->sum.n;
    return 0;
}

/* ---- writing the body as text ---- */

/* Returns true if the node passes no gradient to its operands although its operator has a gradient: for instance, if
 * the function called it under rille.no_grad, or if the node is a detached tensor. */
static bool
stops_gradient(const struct writer *w, const struct node *n)
{
    const struct val *y = n->out[0];
    bool needs = false, moves = n->op->flags & OP_MOVE;
    for (int i = 0; i < n->nin; i++) needs |= n->in[i] && n->in[i]->needs_grad;
    return w->ctx->grad && needs && (!y->needs_grad || val_is_variable(y)) && (n->op->grad.build || moves) &&
           dtype_is_float((enum dtype)y->type.dtype);
}

static void
write_operator(struct writer *w, const struct node *n)
{
    int in[BUILD_OPERANDS];
    for (int i = 0; i < n->nin; i++) in[i] = n->in[i] ? n->in[i]->index : -1;
    body_write(n->op, n->attr, n->nin, in, &w->text);
    str_add(&w->text, ";");
    for (int k = 0; k < n->nout; k++) give_number(w, n->out[k], w->nvalue++);
}

static void
write_body_node(struct writer *w, const struct node *n)
{
    if (n->op->flags & OP_MOVE)
        give_number(w, n->out[0], n->in[0]->index); /* the number of the operand, because a move changes no value */
    else
        write_operator(w, n);
    for (int k = 0; k < n->nout && stops_gradient(w, n); k++) {
        body_write(op_find("stop_gradient"), NULL, 1, &n->out[k]->index, &w->text);
        str_add(&w->text, ";");
        give_number(w, n->out[k], w->nvalue++);
    }
}

static void
write_inputs(struct writer *w)
{
    const struct scan *c = w->scan;
    str_addf(&w->text, "%d,%d,%d", c->state.n, w->noperand - w->ncapture - c->state.n, w->ncapture);
    for (int k = 0; k < c->sum.n; k++) str_addf(&w->text, ",=%d", c->capture.stand_in[c->like[k]]->index);
    str_add(&w->text, ":");
}

static int
write_body(struct writer *w)
{
    TRY(list_inputs_and_results(w));
    for (int i = 0; i < w->ninput; i++) give_number(w, w->input[i], i);
    for (int k = 0; k < w->nresult; k++) visit_value(w, w->result[k]);
    for (int32_t i = 0; i < w->nnode; i++) TRY(check_node(w->scan, w->node[i]));
    TRY(keep_outputs(w));
    TRY(number_inputs(w));
    TRY(capture_all(w));
    write_inputs(w);
    for (int32_t i = 0; i < w->nnode; i++) write_body_node(w, w->node[i]);
    if (text_ends(str_text(&w->text), ";")) str_cut(&w->text, w->text.len - 1);
    for (int k = 0; k < w->nresult; k++) str_addf(&w->text, "%s%d", k ? "," : ">", w->result[k]->index);
    return 0;
}

void
scan_attrs(int64_t body, int axis, int64_t length, bool reverse, struct attr *attr)
{
    attr[BODY] = (struct attr){.set = true, .i = body};
    attr[AXIS] = (struct attr){.set = true, .i = axis};
    attr[LENGTH] = (struct attr){.set = true, .i = length};
    attr[REVERSE] = (struct attr){.set = true, .i = reverse};
}

int
scan_add(const struct call_context *ctx, const struct scan *c, struct val **out)
{
    struct writer w = {.ctx = ctx, .scan = c, .mark = graph_mark(ctx->s->graph)};
    struct attr attr[OP_ATTR];
    int64_t body = 0;
    int status = write_body(&w);
    if (!status) status = body_number(str_text(&w.text), &body);
    scan_attrs(body, c->axis, c->length, c->reverse, attr);
    if (!status) status = build_call(ctx, op_find("scan"), w.noperand, w.operand, attr, NULL, out);
    str_free(&w.text);
    free(w.node);
    return status;
}
