/* build.c - calls an operator on values: adds the operator's node or, for a composite operator, the nodes of its
 * parts. */
#include "actors/session/build/build.h"
#include "actors/session/build/derive.h"
#include "actors/session/build/reuse.h"
#include "actors/session/build/split_propagation.h"
#include "actors/session/core/placing.h"
#include "actors/session/core/session.h"
#include "actors/session/core/tracer.h"

#include "kernels/op/base/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- normalising axis attributes ---- */

static int
axis_normalise(const struct op *op, const struct attr_def *def, struct val *x, int ndim, int64_t *axis)
{
    int64_t a = *axis < 0 ? *axis + ndim : *axis;
    if (a < 0 || a >= ndim)
        return build_refuse(E_ATTR, op, 1, &x, "%s: %s must be from %d to %d, found %lld", op->name, def->name,
                            -MAX(ndim, 1), MAX(ndim, 1) - 1, (long long)*axis);
    *axis = a;
    return 0;
}

/* Makes negative axis numbers positive by counting from the last axis. E_ATTR: an axis is out of range. */
static int
attr_axes(const struct op *op, struct attr *attr, struct val *first)
{
    for (int i = 0, n = op_nattr(op); i < n; i++) {
        const struct attr_def *def = &op->attr[i];
        if (!(def->flags & (ATTR_AXIS | ATTR_AXIS_NEW)) || !first) continue;
        int ndim = first->type.ndim + (def->flags & ATTR_AXIS_NEW ? 1 : 0);
        if (def->kind == ATTR_INT) {
            if (ndim == 0 && (attr[i].i == 0 || attr[i].i == -1))
                attr[i].i = 0;
            else
                TRY(axis_normalise(op, def, first, ndim, &attr[i].i));
        }
        bool scalar = def->kind == ATTR_INTS && ndim == 0;
        for (int k = 0; scalar && k < attr[i].n; k++) scalar = attr[i].list[k] == 0 || attr[i].list[k] == -1;
        if (scalar) attr[i].n = 0; /* a scalar counts as one-dimensional; the empty list stands for all dimensions */
        for (int k = 0; def->kind == ATTR_INTS && k < attr[i].n; k++) {
            TRY(axis_normalise(op, def, first, ndim, &attr[i].list[k]));
            for (int j = 0; j < k; j++)
                if (attr[i].list[j] == attr[i].list[k])
                    return build_refuse(E_ATTR, op, 1, &first, "%s: %s names dimension %d twice", op->name, def->name,
                                        (int)attr[i].list[k]);
        }
    }
    return 0;
}

/* ---- adding the nodes of a call ---- */

static int
add_derived(const struct call_context *ctx, const struct op *op, struct val *const *in, const struct attr *attr,
            const struct derived *d, struct val **out)
{
    struct val *moved[BUILD_OPERANDS];
    struct node_made made = {d->nin, d->nout, d->want, d->type, d->layout};
    if (!tracing(ctx->s)) return build_add(ctx, op, in, attr, &made, out);
    /* the views that a move of an operand makes are separate calls (reuse_below), so the call's strategy does not
     * apply to them */
    struct call_context plain = build_plain(ctx);
    for (int i = 0; i < d->nin; i++) {
        moved[i] = in[i];
        if (d->want[i]) TRY(reuse_below(&plain, d->want[i], &moved[i]));
    }
    return build_add(ctx, op, moved, attr, &made, out);
}

static int
add_source(const struct call_context *ctx, const struct op *op, int nin, struct val *const *in, const struct attr *attr,
           const struct build_source *source, struct val **out)
{
    const struct layout *layout = source->layout, *want[BUILD_OPERANDS] = {NULL};
    const struct type *type = source->type ? source->type : &in[0]->type;
    struct node_made made = {nin, 1, want, type, &layout};
    TRY(type_check(type));
    TRY(layout_settle(ctx->s->atlas, type, &layout));
    if (op->flags & OP_MOVE) want[0] = layout;
    return build_add(ctx, op, in, attr, &made, out);
}

/* Returns placement p with each device moved by `ranks` positions along a mesh axis: the device at coordinate c of
 * the axis then holds the shard of coordinate c - ranks. */
static int
shifted_place(struct atlas *a, const struct place *p, int axis, int64_t ranks, const struct place **out)
{
    int32_t *rank = must_alloc(sizeof *rank * (size_t)p->nrank), coord[MAX_AXIS];
    int64_t n = p->axis[axis], inner = 1;
    for (int k = axis + 1; k < p->naxis; k++) inner *= p->axis[k];
    for (int pos = 0; pos < p->nrank; pos++) {
        place_coord(p, pos, coord);
        int64_t to = ((coord[axis] + ranks) % n + n) % n;
        rank[pos] = p->rank[pos + (to - coord[axis]) * inner];
    }
    int status = place_new(a, p->kind, p->naxis, p->axis, rank, out);
    free(rank);
    return status;
}

/* Sets *l to a layout of x in which no mesh axis but the given one splits `axis`. The shards are equal. */
static int
shift_layout(struct atlas *a, const struct op *op, const struct val *x, int axis, int64_t mesh_axis,
             const struct layout **l)
{
    const struct place *p = x->layout->place;
    struct sbp sbp[MAX_AXIS];
    if (mesh_axis < 0 || mesh_axis >= p->naxis)
        return fail(E_ATTR, "%s: mesh_axis must be from 0 to %d, found %lld", op->name, p->naxis - 1,
                    (long long)mesh_axis);
    if (x->type.dim[axis] % p->axis[mesh_axis])
        return fail(E_SHAPE, "%s: axis %d has %lld elements, must divide by the %d ranks of mesh axis %d", op->name,
                    axis, (long long)x->type.dim[axis], p->axis[mesh_axis], (int)mesh_axis);
    for (int k = 0; k < p->naxis; k++) {
        struct sbp old = x->layout->sbp[k];
        bool keeps = old.kind == SBP_S && old.axis != axis;
        sbp[k] = k == mesh_axis ? (struct sbp){.kind = SBP_S, .axis = (uint8_t)axis}
                 : keeps        ? old
                                : (struct sbp){.kind = SBP_B};
    }
    return layout_new(a, p, sbp, NULL, l);
}

/* Adds a shift along a mesh axis: the result has the devices of the operand, and each device reads the shard of
 * another device. */
static int
add_shift(const struct call_context *ctx, const struct op *op, struct val *const *in, const struct attr *attr,
          struct val **out)
{
    const struct layout *l, *want;
    const struct place *p;
    struct atlas *a = ctx->s->atlas;
    TRY(shift_layout(a, op, in[0], (int)attr[0].i, attr[1].i, &l));
    TRY(shifted_place(a, l->place, (int)attr[1].i, attr[2].i, &p));
    TRY(layout_new(a, p, l->sbp, l->order, &want));
    struct node_made made = {1, 1, &want, &in[0]->type, &l};
    return build_add(ctx, op, in, attr, &made, out);
}

/* Adds the name of a composite operator to an error of an operator inside it. Drops the name of the inner operator
 * if it is hidden, because users do not know it. */
static void
name_composite(const struct op *op)
{
    char name[64];
    size_t n = strcspn(err_text(), ":");
    snprintf(name, sizeof name, "%.*s", (int)n, err_text());
    const struct op *inner = op_find(name);
    if (inner && inner->flags & OP_HIDDEN && !strncmp(err_text() + n, ": ", 2))
        fail(err_last(), "%s", err_text() + n + 2);
    err_of(op->name);
}

/* Expands a call into other operators, by `write`, a function of the operator's record. */
static int
compose(const struct call_context *ctx,
        int (*write)(struct build *, const struct call *, struct val *const *, struct val **), const struct call *c,
        struct val *const *in, struct val **out)
{
    struct call_context inner = build_plain(ctx);
    if (!inner.composite) inner.composite = c->op->name;
    struct builder b = builder_of(&inner);
    int status = write(&b.base, c, in, out);
    if (!status && b.base.failed) status = err_last();
    if (status) name_composite(c->op);
    return status;
}

/* Moves operands to layouts that have the splits of the strategy. If several layouts have these splits, chooses the
 * layout that is cheapest to reach. */
static int
lay_as_asked(struct rille_session *s, const struct strategy *strategy, struct called *c)
{
    const struct layout *asked[BUILD_OPERANDS];
    for (int i = 0, k = 0; i < c->call.nin; i++) {
        const struct layout *l = c->layout[i];
        if (l) TRY(strategy_layout(s->atlas, &c->type[i], l, strategy->pieces[k++], price_move, &asked[i]));
        if (l && !asked[i]) return strategy_fail(strategy, &c->call, l->place);
    }
    for (int i = 0; i < c->call.nin; i++)
        if (c->layout[i]) c->layout[i] = asked[i];
    return 0;
}

static int add_primitive(const struct call_context *ctx, const struct op *op, int nin, struct val *const *in,
                         const struct attr *attr, struct val **out);

/* Adds a reshape to the present shape if a call returns its operand itself. The strategy of the call needs a node
 * of its own. */
static int
look_as_asked(const struct call_context *ctx, const struct op *op, struct val **out)
{
    const struct op *reshape = op_find("reshape");
    struct call_context inner = *ctx;
    struct val *x = out[0];
    struct attr attr[OP_ATTR];
    op_attr_defaults(reshape, attr);
    struct attr *shape = &attr[op_attr_find(reshape, "shape")];
    shape->set = true;
    shape->n = x->type.ndim;
    memcpy(shape->list, x->type.dim, sizeof x->type.dim[0] * x->type.ndim);
    if (!inner.composite) inner.composite = op->name;
    return add_primitive(&inner, reshape, 1, &x, attr, out);
}

/* Expands a composite call with a strategy as if its operands already had the layouts that the strategy requires.
 * Splits the operators inside the call accordingly. */
static int
compose_as_asked(const struct call_context *ctx,
                 int (*write)(struct build *, const struct call *, struct val *const *, struct val **),
                 struct called *c, struct val *const *in, struct val **out)
{
    struct split_propagation inside = {.group = ctx->inside ? ctx->inside->group : ++ctx->s->calls.nstrategy};
    struct call_context inner = build_plain(ctx);
    TRY(strategy_check(ctx->strategy, &c->call));
    TRY(lay_as_asked(ctx->s, ctx->strategy, c));
    split_propagation_begin(&inside, &ctx->s->calls.scratch, ctx->strategy, c->call.nin, in);
    inner.inside = &inside;
    TRY(compose(&inner, write, &c->call, in, out));
    for (int i = 0; i < c->call.nin; i++)
        if (out[0] && out[0] == in[i]) TRY(look_as_asked(&inner, c->call.op, out));
    return 0;
}

/* Expands the call into other operators, as the operator's record defines. out[0] stays NULL if the call stays a
 * single operator. */
static int
write_with(const struct call_context *ctx,
           int (*write)(struct build *, const struct call *, struct val *const *, struct val **), const struct op *op,
           int nin, struct val *const *in, const struct attr *attr, struct val **out)
{
    struct called c;
    build_called(op, nin, in, attr, &c);
    return ctx->strategy ? compose_as_asked(ctx, write, &c, in, out) : compose(ctx, write, &c.call, in, out);
}

/* Adds the call as several operators if that costs less than a single operator. If not, out[0] stays NULL, and the
 * nodes of the attempt are dropped. */
static int
add_split_form(const struct call_context *ctx, const struct op *op, int nin, struct val *const *in,
               const struct attr *attr, int64_t price, struct val **out)
{
    int64_t before = ctx->s->calls.price;
    TRY(write_with(ctx, op->split_form, op, nin, in, attr, out));
    if (out[0] && ctx->s->calls.price - before < price) return 0;
    ctx->s->calls.price = before;
    out[0] = NULL;
    return 0;
}

static int
add_one(const struct call_context *ctx, const struct op *op, int nin, struct val *const *in, const struct attr *attr,
        struct val **out)
{
    const struct layout *want[BUILD_OPERANDS];
    struct derived made;
    const struct derived *d;
    made.want = want;
    int status = derive_call(ctx, op, nin, in, attr, &made, &d);
    /* the operators of split_form may split an axis that the single operator cannot */
    if (status == E_SBP && ctx->strategy && op->split_form) {
        TRY(write_with(ctx, op->split_form, op, nin, in, attr, out));
        if (out[0]) return (err_clear(), 0);
        /* the second derivation reports the error of the call */
        status = derive_call(ctx, op, nin, in, attr, &made, &d);
    }
    TRY(status);
    if (op->split_form && d->bytes > 0 && !ctx->strategy) {
        TRY(add_split_form(ctx, op, nin, in, attr, d->price, out));
        if (out[0]) return 0;
        /* derives again, because the calls in split_form may have cleared the memo that holds the derivation */
        TRY(derive_call(ctx, op, nin, in, attr, &made, &d));
    }
    ctx->s->calls.price += d->price;
    return add_derived(ctx, op, in, attr, d, out);
}

/* Adds an operator inside a composite call that has a strategy: splits the operator as the strategy requires. */
static int
add_inside(const struct call_context *ctx, const struct op *op, int nin, struct val *const *in, const struct attr *attr,
           struct val **out)
{
    struct type result[OP_OUT] = {0};
    struct split_propagation_op cut;
    struct call_context own = *ctx;
    struct called c;
    build_called(op, nin, in, attr, &c);
    c.call.out = result;
    split_propagation_operator(ctx->inside, &ctx->s->calls.scratch, &c.call, in, &cut);
    if (cut.known) own.strategy = &cut.own;
    TRY(add_one(&own, op, nin, in, attr, out));
    split_propagation_made(ctx->inside, &ctx->s->calls.scratch, &cut, c.call.nout, out);
    return 0;
}

static int
add_primitive(const struct call_context *ctx, const struct op *op, int nin, struct val *const *in,
              const struct attr *attr, struct val **out)
{
    bool inside = ctx->inside && !ctx->strategy;
    struct val *own[BUILD_OPERANDS];
    if (trace_microbatches(ctx->s) > 1) {
        memcpy(own, in, sizeof *in * (size_t)nin);
        TRY(trace_operands(ctx, op, nin, own, attr));
        in = own;
    }
    return (inside ? add_inside : add_one)(ctx, op, nin, in, attr, out);
}

/* Returns an existing value that equals the result of the call (for instance, of a transpose of a transpose);
 * NULL: none. A call with a strategy always gets a new node. Outside a trace, the existing value must be the
 * operand, because older values may be freed. If the call inverts a view, the view must have read its operand
 * without a move. A value that needs a gradient never replaces another value. */
static struct val *
folded(const struct call_context *ctx, const struct op *op, int nin, struct val *const *in, const struct attr *attr)
{
    struct called c;
    if (!op->rewrite.fold || ctx->strategy || !in[0] || in[0]->is_number) return NULL;
    const struct node *n = tracing(ctx->s) && in[0]->node && in[0]->node->traced ? in[0]->node : NULL;
    if (n && n->strategy) n = NULL;
    build_called(op, nin, in, attr, &c);
    struct val *v = op->rewrite.fold(&c.call, in[0], n);
    if (!v) return NULL;
    bool asked = ctx->phase == PHASE_FORWARD && (v->needs_grad || in[0]->needs_grad);
    if (asked && (v != in[0] || !ctx->grad)) return NULL;
    return v == in[0] || n->want[0] == v->layout ? v : NULL;
}

/* Calls an operator that is neither a source nor a move. attr: values of all attributes. */
static int
build_written(const struct call_context *ctx, const struct op *op, int nin, struct val *const *in,
              const struct attr *attr, struct val **out)
{
    out[0] = NULL;
    if (op->build) {
        TRY(write_with(ctx, op->build, op, nin, in, attr, out));
        if (out[0]) return 0;
    }
    return add_primitive(ctx, op, nin, in, attr, out);
}

enum { RECREATED = 16 }; /* maximum number of calls that recreate() repeats */

/* Returns true if v, an unplaced value, is made by at most *left calls that read no data and have not run yet. */
static bool
can_recreate(const struct call_context *ctx, const struct val *v, int *left)
{
    const struct node *n = v->node;
    if (v->is_number) return true;
    if (!v->unplaced || v->needs_grad || !n || n->state != NODE_NEW || --*left < 0) return false;
    if (n->nout != 1 || n->strategy || n->own || n->accumulate || n->op->flags & (OP_INPLACE | OP_UPDATE)) return false;
    if (tracing(ctx->s) && !n->traced) return false;
    for (int i = 0; i < n->nin; i++)
        if (n->in[i] && !can_recreate(ctx, n->in[i], left)) return false;
    return true;
}

/* Creates the unplaced value on the placement by repeating the calls that made it. */
static int
recreate(const struct call_context *ctx, const struct val *v, const struct place *to, struct val **out)
{
    const struct node *n = v->node;
    struct val *in[BUILD_OPERANDS], *res[OP_OUT];
    struct build_source source = {.type = &v->type, .layout = layout_broadcast(ctx->s->atlas, to)};
    for (int i = 0; i < n->nin; i++) {
        in[i] = n->in[i];
        if (in[i] && in[i]->layout) TRY(recreate(ctx, n->in[i], to, &in[i]));
    }
    if (n->op->flags & OP_MOVE) return *out = in[0], 0;
    TRY(build_call(ctx, n->op, n->nin, in, n->attr, n->op->flags & OP_SOURCE ? &source : NULL, res));
    return *out = res[0], 0;
}

/* Moves v to the placement. If v is made by a few calls that read no data, repeats these calls on the placement
 * instead, because that moves no bytes. The gradient of a moved value gets the value's layout. */
static int
move_to_place(const struct call_context *ctx, struct val *v, const struct place *to, struct val **out)
{
    const struct layout *l;
    int left = RECREATED;
    if (can_recreate(ctx, v, &left)) return recreate(ctx, v, to, out);
    TRY(placing_layout(ctx->s->atlas, v, to, &l));
    TRY(build_to_global(ctx, v, l, out));
    if ((*out)->node) (*out)->node->pins = 1;
    return 0;
}

/* Sets moved[i] to operand i on the placement. */
static int
move_operands(const struct call_context *ctx, int nin, struct val *const *in, const struct place *to,
              struct val **moved)
{
    struct call_context plain = build_plain(ctx);
    for (int i = 0; i < nin; i++) {
        int same = 0;
        moved[i] = in[i];
        if (!in[i] || !in[i]->layout || in[i]->layout->place == to) continue;
        while (in[same] != in[i]) same++;
        moved[i] = moved[same];
        if (same == i) TRY(move_to_place(&plain, in[i], to, &moved[i]));
    }
    return 0;
}

int
build_call(const struct call_context *ctx, const struct op *op, int nin, struct val *const *in,
           const struct attr *given, const struct build_source *source, struct val **out)
{
    if (nin > BUILD_OPERANDS)
        return fail(E_ARG, "%s: expected at most %d operands, found %d", op->name, BUILD_OPERANDS, nin);
    struct attr attr[OP_ATTR];
    int nattr = op_nattr(op);
    if (given)
        memcpy(attr, given, sizeof *attr * (size_t)nattr);
    else
        op_attr_defaults(op, attr);
    struct val *own[BUILD_OPERANDS], *placed[BUILD_OPERANDS];
    if (op->rewrite.absorb) {
        memcpy(own, in, sizeof *in * (size_t)nin);
        nin = op->rewrite.absorb(own, nin);
        in = own;
    }
    const struct place *to = placing_target(&ctx->s->stages, nin, in);
    if (to) {
        TRY(move_operands(ctx, nin, in, to, placed));
        in = placed;
    }
    int tf32 = ctx->s->calls.tf32 ? op_attr_find(op, "tf32") : -1;
    if (tf32 >= 0) {
        attr[tf32].i = 1;
        attr[tf32].set = true;
    }
    TRY(attr_axes(op, attr, nin ? in[0] : NULL));
    out[0] = folded(ctx, op, nin, in, attr);
    if (out[0]) return 0;
    if (op->flags & (OP_SOURCE | OP_MOVE)) return add_source(ctx, op, nin, in, attr, source, out);
    if (op->flags & OP_SHIFT) return add_shift(ctx, op, in, attr, out);
    return build_written(ctx, op, nin, in, attr, out);
}

struct val *
build_number(struct rille_session *s, bool is_int, double f, int64_t i)
{
    struct number n = {.kind = NUM_FIXED, .is_int = is_int};
    if (is_int)
        n.i = i;
    else
        n.f = f;
    return build_fresh(s, graph_number(s->graph, n));
}

int
build_cast(const struct call_context *ctx, struct val *v, enum dtype d, struct val **out)
{
    const struct op *op = op_find("cast");
    struct attr attr[OP_ATTR];
    struct val *res[OP_OUT];
    *out = v;
    if (v->type.dtype == d) return 0;
    op_attr_defaults(op, attr);
    attr[op_attr_find(op, "dtype")].set = true;
    attr[op_attr_find(op, "dtype")].i = d;
    TRY(build_call(ctx, op, 1, &v, attr, NULL, res));
    *out = res[0];
    return 0;
}

/* Returns true if v is an uncomputed view of all elements of its operand. Returns false if only one of v and its
 * operand needs a gradient, or if v was made before the trace in progress. */
static bool
shows_all(const struct call_context *ctx, const struct val *v)
{
    const struct node *n = v->node;
    bool view = n && n->op->flags & OP_VIEW && n->nin == 1 && n->nout == 1 && !n->strategy && !v->owner;
    if (!view || n->state != NODE_NEW || (tracing(ctx->s) && !n->traced)) return false;
    if (ctx->grad && v->needs_grad != n->in[0]->needs_grad) return false;
    return type_numel(&v->type) == type_numel(&n->in[0]->type);
}

/* Follows v through at most DEEP views of all elements, and returns the value that they show. view: receives the n
 * views, outermost first. */
enum { DEEP = 8 };
static struct val *
shown_below(const struct call_context *ctx, struct val *v, const struct node **view, int *n)
{
    for (*n = 0; *n < DEEP && shows_all(ctx, v); v = v->node->in[0]) view[(*n)++] = v->node;
    return v;
}

/* Applies the n views of `view` to x, from the last to the first. */
static int
show_above(const struct call_context *ctx, struct val *x, int n, const struct node *const *view, const struct val *v,
           struct val **out)
{
    struct val *res[OP_OUT];
    for (; n > 0; n--, x = res[0]) {
        TRY(build_call(ctx, view[n - 1]->op, 1, &x, view[n - 1]->attr, NULL, res));
        if (res[0]->node && res[0]->node->serial > v->node->serial) res[0]->node->shows = node_shown(view[n - 1]);
    }
    *out = x;
    return 0;
}

int
build_cast_below(const struct call_context *ctx, struct val *v, enum dtype d, struct val **out)
{
    const struct node *view[DEEP];
    int n;
    *out = v;
    if (v->type.dtype == d) return 0;
    struct val *x = shown_below(ctx, v, view, &n);
    TRY(build_cast(ctx, x, d, &x));
    return show_above(ctx, x, n, view, v, out);
}

/* If v is an uncomputed cast from half precision to f32, returns the half-precision value; else v. Looks through
 * views of all elements and applies the same views to the result. */
static int
halves_below(const struct call_context *ctx, struct val *v, struct val **out)
{
    const struct node *view[DEEP];
    int n;
    *out = v;
    const struct val *x = shown_below(ctx, v, view, &n);
    const struct node *cast = x->node;
    if (!cast || cast->op != op_find("cast") || x->type.dtype != DT_F32 ||
        !dtype_is_half((enum dtype)cast->in[0]->type.dtype))
        return 0;
    if (cast->state != NODE_NEW || cast->strategy || x->owner || (tracing(ctx->s) && !cast->traced)) return 0;
    if (ctx->grad && x->needs_grad != cast->in[0]->needs_grad) return 0;
    return show_above(ctx, cast->in[0], n, view, v, out);
}

int
build_to_global(const struct call_context *ctx, struct val *v, const struct layout *l, struct val **out)
{
    struct build_source source = {.layout = l};
    TRY(layout_fits(l, &v->type));
    enum reduce from = layout_partial(v->layout), to = layout_partial(l);
    if (from && to && from != to) {
        struct sbp a = {.kind = SBP_P, .reduce = (uint8_t)from}, b = {.kind = SBP_P, .reduce = (uint8_t)to};
        struct str x = {0}, y = {0};
        sbp_print(a, &x);
        sbp_print(b, &y);
        int status = fail(E_SBP, "to_global: %s cannot become %s: convert to B or S first", str_text(&x), str_text(&y));
        str_free(&x);
        str_free(&y);
        return status;
    }
    return build_call(ctx, op_find("to_global"), 1, &v, NULL, &source, out);
}

/* ---- functions that gradients and composites call ---- */

static struct val *
builder_add(struct build *base, const struct op *op, int nin, struct val *const *in, const struct attr *attr,
            struct val **res)
{
    struct builder *b = (struct builder *)base;
    struct val *out[OP_OUT] = {0}, *own[OP_OPERAND];
    if (base->failed) return NULL;
    int status = 0;
    if (op->gpu.halves) {
        memcpy(own, in, sizeof *own * (size_t)nin);
        for (int i = 0; i < nin && !status; i++)
            if (op->gpu.halves >> i & 1) status = halves_below(b->ctx, in[i], &own[i]);
        in = own;
    }
    if (status || build_call(b->ctx, op, nin, in, attr, NULL, out)) {
        base->failed = true;
        return NULL;
    }
    for (int k = 0; res && k < OP_OUT && out[k]; k++) res[k] = out[k];
    return out[0];
}

static struct val *
builder_number(struct build *base, double f)
{
    return build_number(((struct builder *)base)->ctx->s, false, f, 0);
}

static struct val *
builder_integer(struct build *base, int64_t i)
{
    return build_number(((struct builder *)base)->ctx->s, true, 0, i);
}

static void
builder_reverse_body(struct build *base, const struct node *n, struct val *const *dout, struct val **din)
{
    const struct call_context *ctx = ((struct builder *)base)->ctx;
    if (!base->failed) base->failed = ctx->s->calls.reverse_body(ctx, n, dout, din) != 0;
}

struct builder
builder_of(const struct call_context *ctx)
{
    return (struct builder){.base = {.add = builder_add,
                                     .number = builder_number,
                                     .integer = builder_integer,
                                     .reverse_body = builder_reverse_body},
                            .ctx = ctx};
}
