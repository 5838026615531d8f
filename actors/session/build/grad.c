/* grad.c - reverse-mode differentiation: adds the nodes that compute gradients to the same graph.
 *
 * Visits nodes from a value back to the leaves, in reverse order of creation. Each operator's record expresses its
 * gradient by other operators, so gradients have layouts, prices and gradients of their own. The gradient of a leaf
 * is summed over the micro-batches at the leaf, before any move. */
#include "actors/session/build/grad.h"
#include "actors/session/build/build.h"
#include "actors/session/build/derive.h"
#include "actors/session/build/own_gradient.h"
#include "actors/session/build/reuse.h"
#include "actors/session/core/layouts.h"
#include "actors/session/core/session.h"
#include "actors/session/core/tracer.h"

#include "actors/plan/rewrite/recompute.h"
#include "kernels/op/base/table.h"

#include <stdlib.h>
#include <string.h>

/* Gradient of a value: the sum of the contributions so far. */
struct gradient {
    struct val *total; /* sum of the contributions added so far; NULL: none */
    /* contributions not yet in `total`: results of operators that can be called once for several contributions
     * (rewrite.sum) */
    struct val **part;
    int32_t npart, part_capacity;
};

/* State of a backward pass. val->index of a reached value is its index in `at` and `grad`. */
struct sweep {
    /* context for new nodes: phase backward, source line of the value from which the pass starts */
    const struct call_context *ctx;
    bool pieces;        /* the start value has one value per micro-batch, and so do its gradients */
    struct node **node; /* nodes reached from the start value; later sorted, latest node first */
    int32_t nnode, node_capacity;
    struct val **at;          /* values that the backward pass has reached */
    struct gradient *grad;    /* gradients of the reached values, in the same order */
    struct node **recomputed; /* by node: its recomputed copy; NULL: none yet */
    struct val *const *asked; /* values whose gradients are requested */
    int nasked;
    int32_t nat, at_capacity, grad_capacity;
    uint64_t mark;
};

static int32_t
gradient_slot(struct sweep *w, struct val *v)
{
    if (v->mark == w->mark) return v->index;
    GROW(w->at, w->nat + 1, w->at_capacity);
    GROW(w->grad, w->nat + 1, w->grad_capacity);
    v->mark = w->mark;
    v->index = w->nat;
    w->at[w->nat] = v;
    w->grad[w->nat] = (struct gradient){0};
    return w->nat++;
}

/* Returns true if differentiation stops at v: v is a variable's version, a placeholder (stand-in) of rille.scan,
 * or has no node. */
static bool
ends_sweep(const struct val *v)
{
    return !v->node || v->input == STAND_IN || val_is_variable(v);
}

static void
reach_value(struct sweep *w, struct val *v)
{
    gradient_slot(w, v);
    if (ends_sweep(v) || v->node->mark == w->mark) return;
    v->node->mark = w->mark;
    GROW(w->node, w->nnode + 1, w->node_capacity);
    w->node[w->nnode++] = v->node;
}

static int
by_serial_down(const void *a, const void *b)
{
    const struct node *x = *(struct node *const *)a, *y = *(struct node *const *)b;
    return x->serial < y->serial ? 1 : x->serial > y->serial ? -1 : 0;
}

/* Returns the value that receives v's gradient. Usually this is v. If build_cast_below or reuse_below moved a cast
 * or a move below a view x, the program reads a new view v in place of x. Then x receives the gradient if x's
 * gradient is requested or x has hooks. */
static struct val *
val_asked(const struct sweep *w, struct val *v)
{
    if (!v->node || !v->node->shows) return v;
    for (int i = 0; i < w->nasked; i++)
        if (w->asked[i]->node && w->asked[i]->node->serial == v->node->shows) return w->asked[i];
    for (const struct own_gradient *own = w->ctx->s->handles.own; own; own = own->next)
        if (own->hooks && own->node->serial == v->node->shows) return own->node->out[0];
    return v;
}

static bool
has_function(const struct node *n)
{
    return n->own && n->own->function;
}

/* Marks v as reached if a node of this recomputation region computes v. The backward pass then recomputes v
 * together with the region. */
static void
reach_inner(struct sweep *w, struct val *v, int32_t region)
{
    if (!v || ends_sweep(v) || v->needs_grad || v->node->region != region) return;
    if (!v->node->accumulate && !v->node->after) reach_value(w, v);
}

/* n is a view of one result of a user's function. Marks the arguments of the function as reached, instead of n's
 * operands. If n is recomputed, also marks the values that the function's forward computed and saved. */
static int
reach_function(struct sweep *w, const struct node *n)
{
    struct own_function *f = n->own->function;
    if (f->mark != w->mark && f->npending > 0)
        return fail(E_STATE,
                    "backward was called inside another backward pass and reached %s (%s:%d), which the outer pass is "
                    "computing",
                    f->user.name, n->line.file ? n->line.file : "?", n->line.line);
    f->mark = w->mark;
    f->npending++;
    for (int i = 0; i < f->nin; i++)
        if (f->in[i]) reach_value(w, val_asked(w, f->in[i]));
    for (int i = 0; n->region && i < f->nsaved; i++) reach_inner(w, f->saved[i], n->region);
    return 0;
}

/* Returns true if a result of n was assigned to a variable by an assignment that records the gradient. */
static bool
is_recorded(const struct node *n)
{
    for (int k = 0; k < n->nout; k++)
        if (n->out[k]->recorded) return true;
    return false;
}

/* Returns the name of the operator through which the backward pass has reached n. */
static const char *
reached_from(const struct sweep *w, const struct node *n)
{
    for (int32_t i = 0; i < w->nnode; i++)
        for (int k = 0; k < w->node[i]->nin; k++)
            if (w->node[i]->in[k] && w->node[i]->in[k]->node == n) return w->node[i]->name;
    return "an operator";
}

static int
find_nodes(struct sweep *w)
{
    for (int32_t i = 0; i < w->nnode; i++) {
        const struct node *n = w->node[i];
        if (n->spent)
            return fail(E_STATE,
                        "backward() was already called through %s (%s:%d), and its saved tensors are freed; add the "
                        "losses and call backward() once, or call backward{retain_graph = true} before",
                        n->name, n->line.file ? n->line.file : "?", n->line.line);
        if (tracing(w->ctx->s) && !n->traced && is_recorded(n))
            return fail(E_STATE,
                        "the step reads a variable to which a value with a gradient was assigned outside of the step "
                        "(%s:%d); assign it in the step, or detach() the value",
                        n->line.file ? n->line.file : "?", n->line.line);
        if (n->accumulate)
            return fail(E_STATE,
                        "the loss is not a sum of the losses of %d micro-batches: %s (%s:%d) needs a sum over the rows "
                        "of the whole batch that depends on parameters; use micro_batches = 1; detach() the sum if no "
                        "gradient shall flow through it; or compute the loss in rille.per_micro_batch(fn) for "
                        "the mean of the losses of the micro-batches",
                        trace_microbatches(w->ctx->s), reached_from(w, n), n->line.file ? n->line.file : "?",
                        n->line.line);
        const char *why = trace_microbatches(w->ctx->s) > 1 ? trace_ungraded(w->ctx->s, n) : NULL;
        if (why)
            return fail(E_PLAN, "the loss is not a mean of the losses of %d micro-batches: %s (%s:%d) %s",
                        trace_microbatches(w->ctx->s), n->name, n->line.file ? n->line.file : "?", n->line.line, why);
        if (has_function(n)) TRY(reach_function(w, n));
        for (int k = 0; k < n->nin; k++)
            if (n->in[k] && n->in[k]->needs_grad)
                reach_value(w, val_asked(w, n->in[k]));
            else if (n->region && (has_function(n) || !n->out[0]->needs_grad))
                reach_inner(w, n->in[k], n->region);
    }
    if (w->nnode > 1) qsort(w->node, (size_t)w->nnode, sizeof(*w->node), by_serial_down);
    return 0;
}

static int
call2(const struct call_context *ctx, const char *op, struct val *a, struct val *b, struct val **out)
{
    struct val *in[2] = {a, b}, *res[OP_OUT];
    TRY(build_call(ctx, op_find(op), 2, in, NULL, NULL, res));
    *out = res[0];
    return 0;
}

/* Returns true if node n is still to be computed, so that n's operator may fuse an addition into n. */
static bool
is_gradient_asked(const struct node *n)
{
    return n && n->state == NODE_NEW;
}

/* Returns true if g is the result of a move that completes a pending sum and that is not computed yet. */
static bool
is_reduced(const struct val *g)
{
    const struct node *n = g->node;
    return is_gradient_asked(n) && n->op == op_find("to_global") && !n->accumulate && !g->owner &&
           layout_partial(n->in[0]->layout) == RED_SUM && !layout_partial(g->layout);
}

/* Adds two gradients whose moves convert between equal layouts. Adds the operands of the two moves, which are pending
 * sums, and moves the result, so one reduction suffices. Column layers that read the same input have such gradients. */
static int
add_before_move(const struct call_context *ctx, const struct val *x, const struct val *y, struct val **sum)
{
    TRY(call2(ctx, "add", x->node->in[0], y->node->in[0], sum));
    return build_to_global(ctx, *sum, y->layout, sum);
}

/* Adds `before`, an earlier gradient of the same value, to *g. Fuses the addition into the node of one of the two
 * gradients if the operator of that node can (rewrite.onto). */
static int
add_gradient(const struct call_context *ctx, struct val *before, struct val **g)
{
    const struct node *x = before->node, *y = (*g)->node;
    if (before->layout == (*g)->layout) {
        if (is_reduced(before) && is_reduced(*g) && x->in[0]->layout == y->in[0]->layout &&
            type_equal(&x->in[0]->type, &y->in[0]->type))
            return add_before_move(ctx, before, *g, g);
        struct builder b = builder_of(ctx);
        struct val *sum = NULL;
        if (is_gradient_asked(y) && y->op->rewrite.onto)
            sum = y->op->rewrite.onto(&b.base, y, before);
        else if (is_gradient_asked(x) && x->op->rewrite.onto)
            sum = x->op->rewrite.onto(&b.base, x, *g);
        if (b.base.failed) return err_last();
        if (sum) return *g = sum, 0;
    }
    return call2(ctx, "add", before, *g, g);
}

static bool
is_after(const struct val *v)
{
    return v->node && (v->node->accumulate || v->node->after);
}

/* Sums a gradient over the micro-batches. A gradient that does not depend on data is the same for all micro-batches,
 * so it is multiplied by the number of micro-batches instead. */
static int
sum_of_pieces(const struct sweep *w, const struct call_context *ctx, struct val *g, struct val **out)
{
    *out = g;
    if (!w->pieces || is_after(g)) return 0;
    if (trace_per_microbatch(g)) return trace_sum(ctx, g, out);
    return call2(ctx, "mul", g, build_number(ctx->s, false, trace_microbatches(ctx->s), 0), out);
}

/* Returns true if the whole batch's v is the mean of the micro-batches' values. */
static bool
is_batch_mean(const struct rille_session *s, const struct val *v)
{
    return trace_per_microbatch(v) && !trace_adds(s, v);
}

/* Converts g, the gradient of the micro-batch's v, to the gradient of the whole batch's v, which users see, or back.
 * If the batch's v is the mean of m micro-batches, the gradient of the micro-batch's v is 1/m of that of the batch. */
static int
batch_gradient(const struct call_context *ctx, const struct val *v, bool back, struct val **g)
{
    int32_t m = trace_microbatches(ctx->s);
    if (!*g || m == 1 || !is_batch_mean(ctx->s, v)) return 0;
    return call2(ctx, "mul", *g, build_number(ctx->s, false, back ? 1.0 / m : m, 0), g);
}

/* Walks from v back through operands of v's shape. Returns true if every node on the way reads its operands
 * without a move. If there is a move, such as a reduce-scatter, the node before the move needs the unsplit
 * gradient. */
static bool
lies_as_value(const struct val *v)
{
    while (v && !ends_sweep(v)) {
        const struct node *n = v->node;
        const struct val *from = NULL;
        for (int k = 0; k < n->nin; k++) {
            if (!n->in[k] || !n->in[k]->needs_grad) continue;
            if (n->in[k]->layout != n->want[k]) return false;
            if (shape_equal(&n->in[k]->type, &v->type)) from = n->in[k];
        }
        v = from;
    }
    return true;
}

/* Splits *g, the replicated gradient of v, in the same way as v. Each rank then keeps only its shard, and later
 * operators do less work. Does nothing if the split would move bytes, or if a node before v needs the
 * unsplit gradient. */
static int
cut_as(const struct call_context *ctx, const struct val *v, struct val **g)
{
    const struct layout *has = (*g)->layout, *l;
    struct sbp want[MAX_AXIS];
    for (int a = 0; a < has->place->naxis; a++) {
        want[a] = has->sbp[a];
        if (has->sbp[a].kind == SBP_B && v->layout->sbp[a].kind == SBP_S) want[a] = v->layout->sbp[a];
    }
    TRY(layout_new(ctx->s->atlas, has->place, want, v->layout->order, &l));
    if (l == has || price_move(NULL, &v->type, has, l) || !lies_as_value(v)) return 0;
    TRY(reuse_below(ctx, l, g));
    return (*g)->layout == l ? 0 : build_to_global(ctx, *g, l, g);
}

/* Adds g to the total of a gradient. If only one of the two is already summed over the micro-batches, first sums the
 * other one, too. */
static int
add_to_total(struct sweep *w, const struct call_context *ctx, struct gradient *to, struct val *g)
{
    if (to->total && is_after(to->total) != is_after(g)) {
        TRY(sum_of_pieces(w, ctx, to->total, &to->total));
        TRY(sum_of_pieces(w, ctx, g, &g));
    }
    if (to->total) TRY(add_gradient(ctx, to->total, &g));
    to->total = g;
    return 0;
}

/* Adds g to the gradient of v. First moves g to v's placement, and casts it to v's dtype. If g is replicated and v
 * is split, splits g like v. If v is the same for all micro-batches (a weight that two stages share), the move to
 * another placement happens once per batch. */
static int
receive_gradient(struct sweep *w, const struct call_context *ctx, struct val *v, struct val *g)
{
    if (!shape_equal(&g->type, &v->type))
        return fail(E_KERNEL, "internal error: a gradient does not have its operand's shape");
    if (trace_microbatches(ctx->s) > 1 && (trace_per_microbatch(g) || !trace_per_microbatch(v)))
        TRY(trace_rows(ctx, v, &g));
    if (g->layout->place != v->layout->place) {
        const struct layout *l;
        TRY(layout_summed(ctx->s->atlas, v->layout, &l));
        if (trace_per_microbatch(g) && !trace_per_microbatch(v)) TRY(sum_of_pieces(w, ctx, g, &g));
        TRY(build_to_global(ctx, g, l, &g));
    }
    TRY(build_cast(ctx, g, v->type.dtype, &g));
    TRY(cut_as(ctx, v, &g));
    int32_t i = gradient_slot(w, v);
    if (!is_gradient_asked(g->node) || !g->node->op->rewrite.sum || is_after(g))
        return add_to_total(w, ctx, &w->grad[i], g);
    struct gradient *to = &w->grad[i];
    GROW(to->part, to->npart + 1, to->part_capacity);
    to->part[to->npart++] = g;
    return 0;
}

/* Adds the contributions in `part` to the total of the gradient. Contributions with the same operator and layout
 * are summed in one call. */
static int
sum_parts(struct sweep *w, const struct call_context *ctx, struct gradient *to)
{
    while (to->npart > 0) {
        struct val *first = to->part[0], *g = first, **same = must_alloc(sizeof(*same) * (size_t)to->npart);
        int32_t nsame = 0, left = 0;
        for (int32_t i = 0; i < to->npart; i++) {
            struct val *v = to->part[i];
            bool alike = v->node->op == first->node->op && v->layout == first->layout;
            *(alike ? &same[nsame++] : &to->part[left++]) = v;
        }
        to->npart = left;
        struct call_context there = *ctx;
        struct builder b = builder_of(&there);
        there.at = first->node->line;
        there.composite = first->node->name;
        if (nsame > 1) g = first->node->op->rewrite.sum(&b.base, nsame, same);
        free(same);
        if (b.base.failed) return err_last();
        TRY(add_to_total(w, &there, to, g));
    }
    return 0;
}

/* Converts *din, the gradient of the result of an explicit to_global, to the layout of the operand of to_global. */
static int
propagate_back(const struct call_context *ctx, const struct node *n, struct val **din)
{
    const struct layout *l;
    if (!n->pins || !*din) return 0;
    TRY(layout_summed(ctx->s->atlas, n->in[0]->layout, &l));
    return l == (*din)->layout ? 0 : build_to_global(ctx, *din, l, din);
}

/* ---- recomputing nodes for backward ---- */

static int64_t
bytes_made(const struct node *n)
{
    int64_t bytes = 0;
    for (int k = 0; k < n->nout && !(n->op->flags & OP_VIEW); k++) bytes += type_bytes(&n->out[k]->type);
    return bytes;
}

/* Computes the bytes that are in memory after node k of the list: alive[k] counts the results of nodes 0 to k that
 * later nodes of the list read. work[k]: bytes of the results of node k. */
static void
find_alive_bytes(const struct sweep *w, struct node *const *node, int32_t n, const double *work, int64_t *alive)
{
    /* at: by node, 1 + the node's position in the list; 0: not in the list. last: by node, 1 + the position of its
     * last reader */
    int32_t *at = must_alloc(sizeof *at * 2 * (size_t)(w->nnode + 1)), *last = at + w->nnode;
    int64_t *gone = must_alloc(sizeof *gone * (size_t)(n + 1)), now = 0;
    for (int32_t k = 0; k < n; k++) at[node[k]->index] = last[node[k]->index] = k + 1;
    for (int32_t k = 0; k < n; k++)
        for (int i = 0; i < node[k]->nin; i++) {
            const struct val *v = node[k]->in[i];
            if (v && !ends_sweep(v) && v->node->mark == w->mark && at[v->node->index]) last[v->node->index] = k + 1;
        }
    for (int32_t k = 0; k < n; k++) {
        now -= gone[k];
        alive[k] = now += last[node[k]->index] > k + 1 ? (int64_t)work[k] : 0;
        gone[last[node[k]->index] - 1] += last[node[k]->index] > k + 1 ? (int64_t)work[k] : 0;
    }
    free(at);
    free(gone);
}

/* Divides a step's single recomputation region into smaller ones. With a single region, all results of a stage would
 * be in memory at once. */
static void
cut_region(struct sweep *w)
{
    struct rille_session *s = w->ctx->s;
    int32_t region = s->calls.step_region, n = 0;
    if (!region || s->calls.region != region) return;
    struct node **node = must_alloc(sizeof *node * (size_t)(w->nnode + 1));
    for (int32_t i = w->nnode; i-- > 0;)
        if (w->node[i]->region == region) node[n++] = w->node[i];
    double *work = must_alloc(sizeof *work * (size_t)(n + 1));
    int64_t *alive = must_alloc(sizeof *alive * (size_t)(n + 1));
    bool *ends = must_alloc((size_t)n + 1);
    for (int32_t k = 0; k < n; k++) work[k] = (double)bytes_made(node[k]);
    find_alive_bytes(w, node, n, work, alive);
    recompute_cut(n, work, alive, ends);
    for (int32_t k = 0, part = ++s->calls.nregion; k < n; k++) {
        node[k]->region = part;
        if (ends[k]) part = ++s->calls.nregion;
    }
    free(node);
    free(work);
    free(alive);
    free(ends);
}

/* Returns the recomputed copy of v, or v itself. */
static struct val *
val_recomputed(const struct sweep *w, struct val *v)
{
    if (!v || ends_sweep(v) || v->node->mark != w->mark || !w->recomputed[v->node->index]) return v;
    return w->recomputed[v->node->index]->out[v->out];
}

/* Returns true if the backward pass recomputes the node. Nodes that are the same for all micro-batches (casts and
 * views of weights) are computed once per batch and kept. */
static bool
is_repeated_node(const struct sweep *w, const struct node *n)
{
    return n->region && (trace_microbatches(w->ctx->s) == 1 || n->per_piece);
}

/* Adds a copy of node n, with recomputed operands. The copy's results have the layouts of n's results. */
static int
node_recompute(struct sweep *w, struct node *n)
{
    struct call_context there = *w->ctx;
    struct type type[OP_OUT];
    const struct layout *layout[OP_OUT];
    struct val *out[OP_OUT], **in = must_alloc(sizeof *in * (size_t)(n->nin + 1));
    struct node_made made = {n->nin, n->nout, n->want, type, layout};
    for (int k = 0; k < n->nout; k++) type[k] = n->out[k]->type, layout[k] = n->out[k]->layout;
    for (int i = 0; i < n->nin; i++) in[i] = val_recomputed(w, n->in[i]);
    there.at = n->line;
    there.composite = n->name;
    int status = build_add(&there, n->op, in, n->attr, &made, out);
    free(in);
    if (status) return status;
    /* needs_grad must be set before the gradient functions of operators run, because these functions read
     * needs_grad */
    for (int k = 0; k < n->nout; k++) out[k]->needs_grad = n->out[k]->needs_grad;
    w->recomputed[n->index] = out[0]->node;
    w->recomputed[n->index]->recomputes = n->recomputes ? n->recomputes : n->serial;
    if (has_function(n)) own_function_share(w->recomputed[n->index], n->own);
    return 0;
}

/* Returns the node whose results the gradient reads: n, or its recomputed copy. The first request for a region
 * recomputes the whole region. */
static int
node_for_grad(struct sweep *w, struct node *n, struct node **out)
{
    int status = 0;
    *out = n;
    if (!is_repeated_node(w, n)) return 0;
    for (int32_t i = w->nnode; !status && !w->recomputed[n->index] && i-- > 0;)
        if (w->node[i]->region == n->region && is_repeated_node(w, w->node[i])) status = node_recompute(w, w->node[i]);
    *out = w->recomputed[n->index];
    return status;
}

/* ---- the backward pass ---- */

/* Marks the reached values and nodes again, if a function of the user has overwritten the marks by another walk
 * over the graph. */
static void
mark_again(struct sweep *w)
{
    if (graph_last_mark(w->ctx->s->graph) == w->mark) return;
    for (int32_t i = 0; i < w->nat; i++) w->at[i]->mark = w->mark, w->at[i]->index = i;
    for (int32_t i = 0; i < w->nnode; i++) w->node[i]->mark = w->mark, w->node[i]->index = i;
}

/* Passes the final gradient at v to hooks, which may replace it. */
static int
pass_hooks(struct sweep *w, const struct call_context *ctx, struct hook *hooks, const struct val *v)
{
    int32_t i = v->index;
    struct val *g = w->grad[i].total;
    if (!hooks || !g) return 0;
    if (trace_microbatches(ctx->s) > 1) TRY(trace_rows(ctx, v, &g));
    TRY(batch_gradient(ctx, v, false, &g));
    int status = own_hooks_call(ctx, hooks, val_is_variable(v) ? 0 : v->out, &g);
    mark_again(w);
    if (!status) status = batch_gradient(ctx, v, true, &g);
    w->grad[i].total = g;
    return status;
}

/* Records the gradient g of one result of the user's function. When all results have been visited, calls the
 * backward function and adds the gradients of the function's arguments. */
static int
through_function(struct sweep *w, const struct call_context *ctx, struct node *n, struct val *g)
{
    struct own_function *f = n->own->function;
    struct val **sum = &f->dresult[n->own->result];
    struct node *from;
    TRY(batch_gradient(ctx, n->out[0], false, &g));
    if (g && *sum) TRY(call2(ctx, "add", *sum, g, &g));
    if (g) *sum = g;
    if (--f->npending > 0) return 0;
    bool any = false;
    for (int k = 0; k < f->nresult; k++) any = any || f->dresult[k];
    if (!any) return 0;
    TRY(node_for_grad(w, n, &from));
    struct val **din = must_alloc(sizeof *din * (size_t)(f->nin + f->nsaved + 1)), **saved = din + f->nin;
    for (int i = 0; i < f->nsaved; i++) saved[i] = val_recomputed(w, f->saved[i]);
    f->nref++; /* keeps f: the user's function may drop the results, which hold f */
    int status = own_function_call(ctx, f, saved, din);
    mark_again(w);
    for (int i = 0; !status && i < f->nin; i++) {
        if (!din[i]) continue;
        status = batch_gradient(ctx, f->in[i], true, &din[i]);
        if (!status) status = receive_gradient(w, ctx, val_asked(w, f->in[i]), din[i]);
    }
    own_function_drop(ctx->s->graph, f);
    free(din);
    return status;
}

static int
through_node(struct sweep *w, struct node *n)
{
    struct val *dout[OP_OUT] = {0};
    struct call_context there = *w->ctx;
    bool any = false;
    there.at = n->line;
    there.composite = n->name;
    for (int k = 0; k < n->nout; k++) {
        if (n->out[k]->mark != w->mark) continue;
        TRY(sum_parts(w, w->ctx, &w->grad[n->out[k]->index]));
        if (n->own) TRY(pass_hooks(w, &there, n->own->hooks, n->out[k]));
        dout[k] = w->grad[n->out[k]->index].total;
        any = any || dout[k];
    }
    if (has_function(n)) return through_function(w, &there, n, dout[0]);
    if (!any) return 0;
    struct node *from;
    TRY(node_for_grad(w, n, &from));
    struct val **din = must_alloc(sizeof *din * (size_t)(n->nin + 1));
    struct builder b = builder_of(&there);
    int status = 0;
    if (n->op->grad.build)
        n->op->grad.build(&b.base, from, dout, din);
    else
        din[0] = dout[0];
    if (b.base.failed) status = err_last();
    mark_again(w);
    if (!status) status = propagate_back(&there, n, &din[0]);
    if (status) err_note("gradient of %s", n->name);
    for (int i = 0; !status && i < n->nin; i++)
        if (din[i] && n->in[i] && n->in[i]->needs_grad)
            status = receive_gradient(w, &there, val_asked(w, n->in[i]), din[i]);
    free(din);
    return status;
}

/* Makes the initial gradient in y's shape: ones, or 1/m if the batch's value is the mean over m micro-batches. */
static int
seed(const struct call_context *ctx, struct val *y, struct val **out)
{
    const struct layout *l;
    TRY(layout_summed(ctx->s->atlas, y->layout, &l));
    struct build_source source = {.type = &y->type, .layout = l};
    double share = is_batch_mean(ctx->s, y) ? 1.0 / trace_microbatches(ctx->s) : 1;
    struct val *one = build_number(ctx->s, false, share, 0), *res[OP_OUT];
    TRY(build_call(ctx, op_find("full"), 1, &one, NULL, &source, res));
    *out = res[0];
    return 0;
}

/* Passes the gradients dy of the values y back to all values that they depend on. */
static int
sweep_back(struct sweep *w, const struct call_context *backward, int ny, struct val *const *y, struct val *const *dy)
{
    int status = 0;
    w->ctx = backward;
    w->mark = graph_mark(backward->s->graph);
    for (int k = 0; k < ny; k++) reach_value(w, y[k]);
    TRY(find_nodes(w));
    w->recomputed = must_alloc(sizeof(struct node *) * (size_t)(w->nnode + 1));
    for (int32_t i = 0; i < w->nnode; i++) w->node[i]->index = i;
    cut_region(w);
    for (int k = 0; !status && k < ny; k++) status = receive_gradient(w, backward, y[k], dy[k]);
    for (int32_t i = 0; !status && i < w->nnode; i++) status = through_node(w, w->node[i]);
    for (int32_t i = 0; !status && i < w->nat; i++) status = sum_parts(w, backward, &w->grad[i]);
    w->ctx = NULL;
    return status;
}

static int
sweep_from(struct sweep *w, const struct call_context *ctx, struct val *y)
{
    struct val *dy;
    struct call_context backward = *ctx;
    backward.phase = PHASE_BACKWARD;
    w->pieces = trace_microbatches(ctx->s) > 1 && trace_per_microbatch(y);
    if (!y->needs_grad)
        return fail(E_STATE, "no gradient: the value depends on no tensor that requires one; a leaf tensor must have "
                             "requires_grad = true");
    TRY(seed(&backward, y, &dy));
    return sweep_back(w, &backward, 1, &y, &dy);
}

/* Drops the gradients that a failed pass left in the records of the user's functions. */
static void
forget_functions(const struct sweep *w)
{
    for (int32_t i = 0; i < w->nnode; i++) {
        struct own_function *f = has_function(w->node[i]) ? w->node[i]->own->function : NULL;
        if (!f || f->mark != w->mark) continue;
        f->npending = 0;
        memset(f->dresult, 0, sizeof(struct val *) * (size_t)f->nresult);
    }
}

static void
sweep_fini(struct sweep *w)
{
    free(w->node);
    free(w->recomputed);
    free(w->at);
    for (int32_t i = 0; i < w->nat; i++) free(w->grad[i].part);
    free(w->grad);
}

int
grad_values(const struct call_context *ctx, struct val *y, int n, struct val *const *x, struct val **dx)
{
    struct sweep w = {.asked = x, .nasked = n};
    for (int i = 0; i < n; i++) dx[i] = NULL;
    for (int i = 0; i < n; i++)
        if (!x[i]->needs_grad)
            return fail(
                E_STATE, "tensor %d of the list does not require a gradient%s", i + 1,
                tracing(ctx->s)
                    ? "; arguments of a graph do not require gradients; detach the argument, and set requires_grad"
                    : "");
    int status = sweep_from(&w, ctx, y);
    w.ctx = ctx;
    for (int i = 0; !status && i < n; i++) {
        if (x[i]->mark != w.mark) continue;
        struct val *before = w.grad[x[i]->index].total;
        if (val_is_variable(x[i])) status = pass_hooks(&w, ctx, x[i]->owner->hooks, x[i]);
        dx[i] = w.grad[x[i]->index].total;
        if (!status && dx[i] && trace_microbatches(ctx->s) > 1) status = trace_rows(ctx, x[i], &dx[i]);
        if (!status) status = batch_gradient(ctx, x[i], false, &dx[i]);
        w.grad[x[i]->index].total = before; /* restores the total, because the list may contain x[i] twice */
    }
    forget_functions(&w);
    sweep_fini(&w);
    return status;
}

int
grad_suiting(struct rille_session *s, const struct layout *l, const struct layout *has, const struct layout **out)
{
    struct sbp want[MAX_AXIS];
    for (int a = 0; a < l->place->naxis; a++) {
        want[a] = l->sbp[a];
        if (l->sbp[a].kind == SBP_B && has->place == l->place && has->sbp[a].kind == SBP_P)
            want[a] = has->sbp[a];
        else if (l->sbp[a].kind == SBP_P)
            want[a] = (struct sbp){.kind = SBP_B};
    }
    return layout_new(s->atlas, l->place, want, l->order, out);
}

int
grad_of_results(const struct call_context *ctx, int ny, struct val *const *y, struct val *const *dy, int n,
                struct val *const *x, struct val **dx)
{
    struct sweep w = {.asked = x, .nasked = n};
    int status = sweep_back(&w, ctx, ny, y, dy);
    for (int i = 0; !status && i < n; i++) dx[i] = x[i]->mark == w.mark ? w.grad[x[i]->index].total : NULL;
    forget_functions(&w);
    sweep_fini(&w);
    return status;
}

/* Moves g to the layout in which t's gradient is stored. */
static int
suit(const struct call_context *ctx, const struct rille_tensor *t, struct val **g)
{
    const struct layout *to = t->grad_layout;
    if (!to) TRY(grad_suiting(ctx->s, t->val->layout, (*g)->layout, &to));
    return to == (*g)->layout ? 0 : build_to_global(ctx, *g, to, g);
}

/* Passes g to t's hooks, then adds g to t's gradient. */
static int
add_to_leaf(const struct sweep *w, const struct call_context *ctx, struct rille_tensor *t, struct val *g)
{
    if (!trace_per_microbatch(t->val))
        TRY(sum_of_pieces(w, ctx, g, &g));
    else if (trace_microbatches(ctx->s) > 1)
        TRY(trace_rows(ctx, t->val, &g));
    TRY(batch_gradient(ctx, t->val, false, &g));
    if (t->hooks) TRY(own_hooks_call(ctx, t->hooks, 0, &g));
    TRY(suit(ctx, t, &g));
    if (t->grad) TRY(call2(ctx, "add", t->grad->val, g, &g));
    trace_journal(ctx->s, t);
    tensor_rebind_grad(t, g);
    return 0;
}

static int
deposit(const struct sweep *w, const struct call_context *ctx, const struct val *v, struct val *g)
{
    struct rille_tensor *t = rille_tensor_hold(v->owner); /* keeps the tensor: a hook may free the user's handle */
    int status = add_to_leaf(w, ctx, t, g);
    rille_tensor_free(&t);
    return status;
}

int
grad_deposit(const struct call_context *ctx, struct val *y, bool retain)
{
    struct sweep w = {0};
    struct call_context plain = *ctx, weight;
    plain.grad = false;
    weight = plain;
    weight.phase = PHASE_WEIGHT;
    int status = sweep_from(&w, &plain, y);
    for (int32_t i = 0; !status && i < w.nat; i++) {
        struct val *v = w.at[i];
        if (w.grad[i].total && val_is_variable(v) && v->owner->requires_grad && v->owner->nref > 0)
            status = deposit(&w, &weight, v, w.grad[i].total);
    }
    forget_functions(&w);
    for (int32_t i = 0; !status && !retain && i < w.nnode; i++) node_spend(ctx->s->graph, w.node[i]);
    sweep_fini(&w);
    return status;
}
