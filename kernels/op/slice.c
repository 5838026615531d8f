/* slice.c - a range of positions along one dimension: a view. Negative positions count from the end; a range is
 * clamped to the dimension, as in NumPy. The sliced dimension stays unsplit, because the slices of its shards
 * would differ in size. For a negative step, the call is a view of the entries in ascending order, followed by
 * flip. */
#include "kernels/op/base/op_impl.h"

extern const struct op op_flip, op_slice_grad;

enum { AXIS, START, STOP, STEP };

static int64_t
position(int64_t p, int64_t n)
{
    p = p < 0 ? p + n : p;
    return p < 0 ? 0 : MIN(p, n);
}

struct range {
    int64_t start, step, size;
    bool all; /* true: the range includes every position of the dimension */
};

static struct range
range_of(const struct call *c)
{
    int64_t n = c->in[0].dim[c->attr[AXIS].i];
    struct range r = {.start = position(c->attr[START].i, n)};
    /* A step of n or more selects only the first position, so the step is limited to n. */
    r.step = MIN(c->attr[STEP].i, MAX(n, 1));
    int64_t stop = position(c->attr[STOP].i, n);
    r.size = stop > r.start ? (stop - r.start - 1) / r.step + 1 : 0;
    r.all = r.start == 0 && r.step == 1 && r.size == n;
    return r;
}

static int
infer(const struct call *c, int64_t *size)
{
    if (c->in[0].ndim == 0) return call_fail(E_SHAPE, c, "x must have at least 1 dimension");
    if (c->attr[STEP].i == 0) return call_fail(E_ATTR, c, "step must not be 0");
    struct range r = range_of(c);
    if (!r.all) *size = r.size;
    return 0;
}

/* Returns the position that attribute a means, where a is start or stop of a range with a negative step. Returns
 * `otherwise` if a is not set. */
static int64_t
position_back(const struct attr *a, int64_t n, int64_t otherwise)
{
    int64_t p = a->i < 0 ? a->i + n : a->i;
    return a->set ? MAX(-1, MIN(p, n - 1)) : otherwise;
}

/* Composes a range with a negative step: a view of the entries in ascending order, then flip. */
static int
build(struct build *b, const struct call *c, struct val *const *in, struct val **out)
{
    if (c->attr[STEP].i >= 0 || c->in[0].ndim == 0) return 0;
    int64_t axis = c->attr[AXIS].i, n = c->in[0].dim[axis], step = MIN(-(c->attr[STEP].i + 1), MAX(n, 1) - 1) + 1;
    int64_t start = position_back(&c->attr[START], n, n - 1), stop = position_back(&c->attr[STOP], n, -1);
    int64_t past = start > stop ? start + 1 : 0, first = past ? start - (start - stop - 1) / step * step : 0;
    struct val *y = b_slice(b, in[0], (int)axis, first, past, step);
    struct attr attr[OP_ATTR];
    op_attr_defaults(&op_flip, attr);
    attr_ints(&op_flip, attr, "axes", 1, &axis);
    out[0] = y ? b_call(b, &op_flip, 1, &y, attr) : NULL;
    return b->failed ? (int)err_last() : 0;
}

static int
rule(const struct call *c, struct str *rule)
{
    int axis = (int)c->attr[AXIS].i, ndim = c->in[0].ndim;
    bool all = range_of(c).all;
    for (int d = 0; d < ndim; d++) str_addf(rule, d == axis && !all ? "[%c]" : "%c", letter(d));
    str_add(rule, "->");
    for (int d = 0; d < ndim; d++) str_addf(rule, "%c", letter(d == axis && !all ? ndim : d));
    return 0;
}

static int
view(const struct call *c, const struct view *in, struct view *out, int64_t *skip)
{
    int axis = (int)c->attr[AXIS].i;
    struct range r = range_of(c);
    for (int d = 0; d < in->ndim; d++) out->stride[d] = in->stride[d];
    out->stride[axis] *= r.step;
    *skip = (r.start + out->offset[axis] * r.step - in->offset[axis]) * in->stride[axis];
    return 0;
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (!b_wants(n, 0)) return;
    struct attr attr[OP_ATTR];
    const struct type *x = &n->in[0]->type;
    int64_t size = x->dim[n->attr[AXIS].i];
    op_attr_defaults(&op_slice_grad, attr);
    attr_int(&op_slice_grad, attr, "axis", n->attr[AXIS].i);
    attr_int(&op_slice_grad, attr, "start", position(n->attr[START].i, size));
    attr_int(&op_slice_grad, attr, "step", MIN(n->attr[STEP].i, MAX(size, 1)));
    attr_int(&op_slice_grad, attr, "size", size);
    din[0] = b_call(b, &op_slice_grad, 1, dout, attr);
}

const struct op op_slice = {
    .name = "slice",
    .doc = "y[i] = x[start + i step] along axis, stop excluded",
    .result = "a tensor of x's shape with the positions of the range along axis, a view of x",
    .errors = "x must have at least 1 dimension; step must be 1 or more (flip reverses an axis)",
    .in = {{"x"}},
    .attr = {[AXIS] = {"axis", ATTR_INT, ATTR_REQUIRED | ATTR_AXIS, .doc = "dimension to slice"},
             [START] = {"start", ATTR_INT, .doc = "first position"},
             [STOP] = {"stop", ATTR_INT, ATTR_ABSENT, .i = INT64_MAX,
                       .doc = "end, excluded; default: the size of the axis"},
             [STEP] = {"step", ATTR_INT, .i = 1, .doc = "distance between entries; negative: backwards, from the end"}},
    .shape.make_rule = rule,
    .shape.infer = infer,
    .shape.dtype = OUT_IN0,
    .partial.linear = "0",
    .partial.increasing = "0",
    .build = build,
    .grad.build = grad,
    .host.view = view,
    .flags = OP_VIEW,
    .sample = {"f32{4,6} axis=1 start=1 stop=3", "f32{7} axis=0 start=-5 stop=-1 step=2",
               "i64{4,6} axis=0 start=0 stop=4", "f32{2,3,5} axis=1 start=1 stop=9", "f32{4} axis=0 start=3 stop=1"},
};
