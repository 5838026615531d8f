/* body_bind.c - finds the types of a body's values for a call, and the dimensions that a layout may split.
 *
 * A factor is a group of dimensions that are split alike. Dimensions are in one factor if the SBP rule of one of the
 * body's operators gives them the same letter. A factor may be split if three conditions hold: each operator has a
 * signature for the layouts that its operands then have; the next states have the layouts of the states; every
 * result is split or a partial sum. */
#include "kernels/op/base/body_bind.h"

#include "runtime/data/arena.h"
#include "runtime/base/error.h"
#include "sbp/sig.h"
#include "sbp/infer.h"

#include <string.h>

/* ---- types of a body's values ---- */

static int
refuse(const struct call *c, const char *what)
{
    return fail(E_ARG, "%s: the body does not suit the operands: %s", c->op->name, what);
}

/* Returns the type of one slice. */
static struct type
slice_type(const struct type *whole, int64_t axis)
{
    struct type t = *whole;
    t.ndim--;
    for (int d = body_axis(axis, whole->ndim); d < t.ndim; d++) t.dim[d] = whole->dim[d + 1];
    return t;
}

static int
bind_inputs(const struct call *c, int64_t axis, struct bound_body *b)
{
    const struct body *body = b->body;
    int slices = body->nstate + body->nsum, captures = slices + body->nslice;
    if (c->nin != body_noperand(body)) return refuse(c, "the number of operands differs");
    for (int i = 0; i < body->ninput; i++) {
        int k = body_operand(body, i);
        if (k < 0) continue;
        b->value[i].type = c->in[k];
        if (i >= captures) continue;
        if (c->in[k].weak || (i >= slices && c->in[k].ndim == 0)) return refuse(c, "a state or slice is a number");
        if (i >= slices) b->value[i].type = slice_type(&c->in[k], axis);
    }
    for (int k = 0; k < body->nsum; k++) {
        struct type *t = &b->value[body->nstate + k].type;
        *t = b->value[body->like[k]].type;
        if (dtype_is_half((enum dtype)t->dtype)) t->dtype = DT_F32;
    }
    return 0;
}

static int64_t
words_of(const char *text)
{
    int64_t n = 1;
    for (; *text; text++) n += *text == '|';
    return n;
}

/* Returns true if the index of a word or of an axis is in range, so that the operator's functions need not check the
 * index. */
static bool
attr_fits(const struct attr_def *def, const struct attr *a, const struct type *x)
{
    bool axis = def->flags & (ATTR_AXIS | ATTR_AXIS_NEW), fits = true;
    int64_t n = x->ndim + (def->flags & ATTR_AXIS_NEW ? 1 : 0);
    if (def->kind == ATTR_TEXT && (a->i < 0 || a->i >= words_of(def->text))) return false;
    if (axis && def->kind == ATTR_INT) return a->i >= 0 && a->i < MAX(1, n);
    for (int k = 0; axis && k < a->n; k++) fits = fits && a->list[k] >= 0 && a->list[k] < n;
    return fits;
}

static bool
suits(const struct body_node *n, const struct type *in)
{
    int least = 0, most = op_noperand(n->op);
    for (int i = 0; i < most; i++)
        if (!(n->op->in[i].flags & IN_OPTIONAL)) least = i + 1;
    if (n->nin < least || (n->nin > most && !(n->op->in[most - 1].flags & IN_LIST))) return false;
    for (int i = 0; i < op_nattr(n->op); i++)
        if (!attr_fits(&n->op->attr[i], &n->attr[i], &in[0])) return false;
    return true;
}

static int
bind_node(struct arena *a, const struct call *c, struct bound_body *b, int i)
{
    const struct body_node *n = &b->body->node[i];
    struct type *in = ARENA_ARRAY(a, struct type, n->nin + 1);
    for (int k = 0; k < n->nin; k++)
        if (n->in[k] >= 0) in[k] = b->value[n->in[k]].type;
    if (!suits(n, in)) return refuse(c, "an operator has wrong operands or attributes");
    struct type *out = ARENA_ARRAY(a, struct type, n->nout);
    b->call[i] = (struct call){.op = n->op, .nin = n->nin, .nout = n->nout, .in = in, .out = out, .attr = n->attr};
    if (call_infer(a, &b->call[i], &b->rule[i])) return fail(err_last(), "%s: %s", c->op->name, err_text());
    for (int k = 0; k < n->nout; k++) b->value[n->first + k].type = out[k];
    return 0;
}

static int
check_states(const struct call *c, const struct bound_body *b)
{
    for (int i = 0; i < b->body->nstate + b->body->nsum; i++)
        if (!type_equal(&b->value[i].type, &b->value[b->body->result[i]].type))
            return refuse(c, "the next state has another type than the state");
    for (int k = 0; k < b->body->noutput; k++) {
        const struct type *t = &b->value[b->body->result[b->body->nstate + b->body->nsum + k]].type;
        if (t->weak || t->ndim == MAX_DIM) return refuse(c, "an output is a number, or has too many dimensions");
    }
    return 0;
}

/* ---- grouping dimensions into factors ---- */

/* Groups of dimensions (union-find). Dimension d of value v has the index v * MAX_DIM + d. above: by dimension,
 * another dimension of its group; the group's representative has its own index. */
struct groups {
    struct bound_body *b;
    int *above;
};

static int
group_of(const struct groups *g, int x)
{
    while (g->above[x] != x) x = g->above[x];
    return x;
}

static void
join(struct groups *g, int x, int y)
{
    g->above[group_of(g, y)] = group_of(g, x);
}

static void
join_values(struct groups *g, int v, int w)
{
    for (int d = 0; d < g->b->value[v].type.ndim; d++) join(g, v * MAX_DIM + d, w * MAX_DIM + d);
}

static void
join_letters(struct groups *g, int i)
{
    const struct body_node *n = &g->b->body->node[i];
    const struct rule *r = &g->b->rule[i];
    int first[RULE_FACTOR];
    for (int f = 0; f < r->nfactor; f++) first[f] = -1;
    for (int k = 0; k < r->nin + r->nout; k++) {
        int v = k < r->nin ? n->in[k] : n->first + k - r->nin;
        for (int d = 0; v >= 0 && !r->operand[k].ignored && d < r->operand[k].ndim; d++) {
            if (r->operand[k].dim[d].nfactor != 1) continue;
            int *at = &first[(int)r->operand[k].dim[d].factor[0]];
            if (*at < 0)
                *at = v * MAX_DIM + d;
            else
                join(g, *at, v * MAX_DIM + d);
        }
    }
}

/* Gives each group of dimensions a factor number. */
static void
number_factors(struct arena *a, const struct groups *g)
{
    struct bound_body *b = g->b;
    /* by representative of a group: 1 + number of the group's factor; 0: not numbered yet */
    int *number = ARENA_ARRAY(a, int, b->body->nvalue *MAX_DIM), n = 0;
    b->factor = ARENA_ARRAY(a, struct body_factor, b->body->nvalue * MAX_DIM);
    for (int v = 0; v < b->body->nvalue; v++)
        for (int d = 0; d < b->value[v].type.ndim; d++) {
            int *at = &number[group_of(g, v * MAX_DIM + d)];
            b->value[v].factor[d] = -1;
            if (b->value[v].type.dim[d] == 1) continue;
            if (!*at) b->factor[n].size = b->value[v].type.dim[d], *at = ++n;
            b->value[v].factor[d] = *at - 1;
        }
    b->nfactor = n;
}

static void
find_factors(struct arena *a, struct bound_body *b)
{
    const struct body *body = b->body;
    struct groups g = {b, ARENA_ARRAY(a, int, body->nvalue *MAX_DIM)};
    for (int x = 0; x < body->nvalue * MAX_DIM; x++) g.above[x] = x;
    for (int k = 0; k < body->nsum; k++) join_values(&g, body->nstate + k, body->like[k]);
    for (int i = 0; i < body->nnode; i++) join_letters(&g, i);
    for (int i = 0; i < body->nstate + body->nsum; i++) join_values(&g, i, body->result[i]);
    number_factors(a, &g);
}

/* ---- deciding which factors (sets of equal dimensions) a layout may split ---- */

/* Layout of one value on one mesh axis, while one factor is split. open: the layout is not known yet. A sum is open
 * at first, because it begins with zeros, which any layout can hold. */
struct entry {
    bool open;
    struct sbp sbp;
};

/* Returns true if a value may have layout s while the factor is split. A value with a dimension of this factor must
 * be split along this dimension. Any other value must be replicated or a partial sum. */
static bool
entry_suits(const struct body_value *v, int factor, struct sbp s)
{
    for (int d = 0; d < v->type.ndim; d++)
        if ((v->factor[d] == factor) != (s.kind == SBP_S && s.axis == d)) return false;
    return s.kind != SBP_P || s.reduce == RED_SUM;
}

/* Sets the layout of an input: split along the dimension of the factor, or replicated if there is none. Returns
 * false if two dimensions have the factor. */
static bool
input_entry(const struct body_value *v, int factor, struct entry *e)
{
    *e = (struct entry){.sbp.kind = SBP_B};
    for (int d = 0; d < v->type.ndim; d++)
        if (v->factor[d] == factor) e->sbp = (struct sbp){.kind = SBP_S, .axis = (uint8_t)d};
    return entry_suits(v, factor, e->sbp);
}

static bool
is_same_sbp(struct sbp x, struct sbp y)
{
    return x.kind == y.kind && (x.kind != SBP_S || x.axis == y.axis) && (x.kind != SBP_P || x.reduce == y.reduce);
}

/* Returns true if the signature fits: its operand layouts are those of the operands, and its result layouts suit the
 * split of the factor. */
static bool
sig_fits(const struct bound_body *b, int i, const struct sig *s, int factor, const struct entry *e)
{
    const struct body_node *n = &b->body->node[i];
    for (int k = 0; k < n->nin; k++)
        if (n->in[k] >= 0 && !b->rule[i].operand[k].ignored && !e[n->in[k]].open &&
            !is_same_sbp(s->v[k], e[n->in[k]].sbp))
            return false;
    for (int k = 0; k < n->nout; k++)
        if (!entry_suits(&b->value[n->first + k], factor, s->v[n->nin + k])) return false;
    return true;
}

/* Sets the layouts of a node's results, and of its open operands, by the first signature that fits. Returns false if
 * no signature fits. */
static bool
pass_node(const struct bound_body *b, int i, const struct sig_list *list, int factor, struct entry *e)
{
    const struct body_node *n = &b->body->node[i];
    int s = 0;
    while (s < list->nsig && !sig_fits(b, i, &list->sig[s], factor, e)) s++;
    if (s == list->nsig) return false;
    const struct sbp *v = list->sig[s].v;
    for (int k = 0; k < n->nin; k++)
        if (n->in[k] >= 0 && e[n->in[k]].open) e[n->in[k]] = (struct entry){.sbp = v[k]};
    for (int k = 0; k < n->nout; k++) e[n->first + k] = (struct entry){.sbp = v[n->nin + k]};
    return true;
}

/* Tries to split the factor. Returns the number of inputs, nodes and results, in this order, up to the first that
 * does not permit the split. The factor may be split if all do (all_splits). */
static int
count_splits(const struct bound_body *b, const struct sig_list *list, int factor, struct entry *e)
{
    const struct body *body = b->body;
    int nstate = body->nstate + body->nsum, n = 0;
    for (int i = 0; i < body->ninput; i++, n++) {
        if (!input_entry(&b->value[i], factor, &e[i])) return n;
        e[i].open = body_operand(body, i) < 0;
    }
    for (int i = 0; i < body->nnode; i++, n++)
        if (!pass_node(b, i, &list[i], factor, e)) return n;
    for (int k = 0; k < body_nresult(body); k++, n++) {
        const struct entry *end = &e[body->result[k]];
        if (end->open || end->sbp.kind == SBP_B) return n;
        if (k < nstate && !e[k].open && !is_same_sbp(e[k].sbp, end->sbp)) return n;
    }
    return n;
}

static int
all_splits(const struct body *body)
{
    return body->ninput + body->nnode + body_nresult(body);
}

/* Sets the factor of each dimension to `to` if the dimension's original factor, in `was`, is `of`. */
static void
set_factor(const struct bound_body *b, const int *was, int of, int to)
{
    for (int v = 0; v < b->body->nvalue; v++)
        for (int d = 0; d < b->value[v].type.ndim; d++)
            if (was[v * MAX_DIM + d] == of) b->value[v].factor[d] = to;
}

/* Decides whether factor f may be split, alone or merged with later factors of the same size. Merging is needed for
 * dimensions that must be split alike although no operator's rule connects them. Example: a gradient is the sum of
 * two sums over the batch, which are computed from different values. */
static void
find_split(struct bound_body *b, const struct sig_list *list, const int *was, int f, struct entry *e)
{
    int n = count_splits(b, list, f, e), all = all_splits(b->body);
    for (int g = f + 1; g < b->nfactor && n < all; g++) {
        if (b->factor[g].size != b->factor[f].size || b->factor[g].joined) continue;
        set_factor(b, was, g, f);
        int more = count_splits(b, list, f, e);
        if (more > n)
            b->factor[g].joined = 1 + f, n = more, g = f;
        else
            set_factor(b, was, g, g);
    }
    b->factor[f].split = n == all;
    for (int g = f + 1; g < b->nfactor && n < all; g++)
        if (b->factor[g].joined == 1 + f) set_factor(b, was, g, g), b->factor[g].joined = 0;
}

static int
find_splits(struct arena *a, struct bound_body *b)
{
    const struct body *body = b->body;
    struct sig_list *list = ARENA_ARRAY(a, struct sig_list, body->nnode);
    struct entry *e = ARENA_ARRAY(a, struct entry, body->nvalue);
    int *was = ARENA_ARRAY(a, int, body->nvalue *MAX_DIM);
    for (int v = 0; v < body->nvalue; v++)
        for (int d = 0; d < b->value[v].type.ndim; d++) was[v * MAX_DIM + d] = b->value[v].factor[d];
    for (int i = 0; i < body->nnode; i++) TRY(sig_axis(a, &b->call[i], &b->rule[i], NULL, &list[i]));
    for (int f = 0; f < b->nfactor; f++)
        if (!b->factor[f].joined) find_split(b, list, was, f, e);
    return 0;
}

int
body_bind(struct arena *a, const struct call *c, int64_t axis, struct bound_body *b)
{
    *b = (struct bound_body){.body = body_at(c->attr[0].i)};
    if (!b->body) return fail(E_ARG, "%s: the body must exist", c->op->name);
    b->value = ARENA_ARRAY(a, struct body_value, b->body->nvalue);
    b->call = ARENA_ARRAY(a, struct call, b->body->nnode);
    b->rule = ARENA_ARRAY(a, struct rule, b->body->nnode);
    TRY(bind_inputs(c, axis, b));
    for (int i = 0; i < b->body->nnode; i++) TRY(bind_node(a, c, b, i));
    TRY(check_states(c, b));
    find_factors(a, b);
    return find_splits(a, b);
}

/* ---- views of a body's values ---- */

struct view
body_slice(const struct view *whole, int64_t axis)
{
    struct view v = *whole;
    v.ndim--;
    for (int d = body_axis(axis, whole->ndim); d < v.ndim; d++) {
        v.dim[d] = whole->dim[d + 1];
        v.stride[d] = whole->stride[d + 1];
        v.offset[d] = whole->offset[d + 1];
        v.global[d] = whole->global[d + 1];
    }
    return v;
}

/* Stores the range of each factor in an input's shard: size, offset and global size are those of dimension 0 of the
 * view of[f] of factor f. */
static void
note_ranges(const struct body_value *v, const struct view *shard, struct view *of)
{
    for (int d = 0; d < v->type.ndim; d++) {
        if (v->factor[d] < 0) continue;
        struct view *f = &of[v->factor[d]];
        f->dim[0] = shard->dim[d], f->offset[0] = shard->offset[d], f->global[0] = shard->global[d];
    }
}

static struct view
dense_view(const struct body_value *v, const struct view *of)
{
    struct view dense = view_dense(&v->type, NULL);
    int64_t stride = 1;
    for (int d = v->type.ndim - 1; d >= 0; d--) {
        const struct view *f = v->factor[d] < 0 ? NULL : &of[v->factor[d]];
        if (f) dense.dim[d] = f->dim[0], dense.offset[d] = f->offset[0], dense.global[d] = f->global[0];
        dense.stride[d] = stride;
        stride *= dense.dim[d];
    }
    return dense;
}

struct view *
body_views(struct arena *a, const struct bound_body *b, const struct kcall *k, int64_t axis)
{
    const struct body *body = b->body;
    int slices = body->nstate + body->nsum;
    struct view *view = ARENA_ARRAY(a, struct view, body->nvalue), *of = ARENA_ARRAY(a, struct view, b->nfactor + 1);
    for (int f = 0; f < b->nfactor; f++) of[f].dim[0] = of[f].global[0] = b->factor[f].size;
    for (int i = 0; i < body->ninput; i++) {
        int from = body_operand(body, i);
        if (from < 0) continue;
        bool slice = i >= slices && i < slices + body->nslice;
        view[i] = slice ? body_slice(&k->in[from], axis) : k->in[from];
        view[i].data = NULL;
        note_ranges(&b->value[i], &view[i], of);
    }
    for (int v = 0; v < body->nvalue; v++)
        if (v >= body->ninput || body_operand(body, v) < 0) view[v] = dense_view(&b->value[v], of);
    return view;
}

/* Returns true if the shard's dimensions have the sizes size[] of their factors. Sets a size that is not known yet
 * (-1). */
static bool
has_sizes(const struct bound_body *b, const struct body_value *v, const struct view *shard, int64_t *size)
{
    for (int d = 0; d < v->type.ndim; d++) {
        int f = v->factor[d];
        if (f >= 0 && size[f] < 0) size[f] = b->factor[f].split ? shard->dim[d] : b->factor[f].size;
        if (shard->dim[d] != (f < 0 ? 1 : size[f])) return false;
    }
    return true;
}

bool
body_fits(struct arena *a, const struct bound_body *b, const struct kcall *k, int64_t axis, int64_t length)
{
    const struct body *body = b->body;
    int states = body->nstate + body->nsum;
    int64_t *size = ARENA_ARRAY(a, int64_t, b->nfactor + 1);
    for (int f = 0; f < b->nfactor; f++) size[f] = -1;
    for (int i = 0; i < body->ninput + body_nresult(body); i++) {
        int result = i - body->ninput, from = result < 0 ? body_operand(body, i) : result;
        if (from < 0) continue;
        bool slice = result < 0 ? i >= states && i < states + body->nslice : result >= states;
        const struct body_value *v = &b->value[result < 0 ? i : body->result[result]];
        struct view shard = result < 0 ? k->in[from] : k->out[from];
        if (slice && shard.dim[body_axis(axis, shard.ndim)] != length) return false;
        if (slice) shard = body_slice(&shard, axis);
        if (!has_sizes(b, v, &shard, size)) return false;
    }
    return true;
}
