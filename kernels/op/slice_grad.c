/* slice_grad.c - the gradient of slice: writes dy at the sliced range of a tensor of zeros. */
#include "kernels/op/lib/op_impl.h"

#include "kernels/cpu/base/copies.h"

extern const struct op op_concat, op_slice, op_slice_grad;

enum { AXIS, START, STEP, SIZE };

static int
infer(const struct call *c, int64_t *size)
{
    *size = c->attr[SIZE].i;
    return 0;
}

static int
rule(const struct call *c, struct str *rule)
{
    int axis = (int)c->attr[AXIS].i, ndim = c->in[0].ndim;
    for (int d = 0; d < ndim; d++) str_addf(rule, d == axis ? "[%c]" : "%c", letter(d));
    str_add(rule, "->");
    for (int d = 0; d < ndim; d++) str_addf(rule, "%c", letter(d == axis ? ndim : d));
    return 0;
}

static int
place(const struct kcall *k)
{
    const struct attr *a = k->call->attr;
    const struct view *y = &k->out[0];
    struct view window = k->in[0];
    int axis = (int)a[AXIS].i;
    fill_view(y, 0);
    if (view_numel(&window) == 0) return 0;
    for (int d = 0; d < y->ndim; d++) window.stride[d] = y->stride[d];
    window.stride[axis] *= a[STEP].i;
    window.dtype = y->dtype;
    window.data = (char *)y->data + a[START].i * y->stride[axis] * (int64_t)dtype_bytes(y->dtype);
    copies_run(&window, &k->in[0], k->threads);
    return 0;
}

static int
run(const struct kcall *k, const void *state)
{
    UNUSED(state);
    return place(k);
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (!b_wants(n, 0)) return;
    struct attr attr[OP_ATTR];
    int64_t axis = n->attr[AXIS].i, last = n->in[0]->type.dim[axis] - 1;
    int64_t start = n->attr[START].i, step = n->attr[STEP].i;
    op_attr_defaults(&op_slice, attr);
    attr_int(&op_slice, attr, "axis", axis);
    attr_int(&op_slice, attr, "start", start);
    attr_int(&op_slice, attr, "stop", last < 0 ? start : start + last * step + 1);
    attr_int(&op_slice, attr, "step", step);
    din[0] = b_call(b, &op_slice, 1, dout, attr);
}

/* Builds the sum of slice_grads whose ranges are adjacent: concatenates their operands, and pads the result with
 * zeros once. If the ranges cover the whole axis, the concatenation is the sum. */
static struct val *
plus(struct build *b, const struct node *x, const struct node *y)
{
    const struct node *n = x->attr[START].i <= y->attr[START].i ? x : y, *next = n == x ? y : x;
    int64_t axis = n->attr[AXIS].i, start = n->attr[START].i, size = n->in[0]->type.dim[axis];
    struct attr attr[OP_ATTR];
    struct val *part[2 * JOINED], *joined;
    if (next->attr[AXIS].i != axis || n->attr[STEP].i != 1 || next->attr[STEP].i != 1) return NULL;
    if (start + size != next->attr[START].i) return NULL;
    int npart = b_joined(n->in[0], axis, part);
    npart += b_joined(next->in[0], axis, part + npart);
    if (npart > JOINED) return NULL;
    op_attr_defaults(&op_concat, attr);
    attr_int(&op_concat, attr, "axis", axis);
    joined = b_call(b, &op_concat, npart, part, attr);
    if (!joined || joined->type.dim[axis] == n->attr[SIZE].i) return joined;
    return b_call(b, &op_slice_grad, 1, &joined, n->attr);
}

static const struct kernel_variant variants[] = {{"copy", .run = run}, {NULL}};

static const char element[] = BODY({
    typedef decltype(x0(at)) value;
    int64_t from[8];
    for (int d = 0; d < NDIM; d++) from[d] = at[d];
    const int64_t axis = c->attr[AXIS].i, past = at[axis] - c->attr[START].i, step = c->attr[STEP].i;
    from[axis] = past / step;
    return past % step == 0 && from[axis] >= 0 && from[axis] < dim0(axis) && past / step * step == past ? x0(from)
                                                                                                        : (value)0;
});

const struct op op_slice_grad = {
    .name = "slice_grad",
    .doc = "y[start + i step] = x[i] along axis, else 0",
    .in = {{"x"}},
    .attr = {[AXIS] = {"axis", ATTR_INT, ATTR_REQUIRED | ATTR_AXIS, .doc = "dimension"},
             [START] = {"start", ATTR_INT, .doc = "position of the first entry"},
             [STEP] = {"step", ATTR_INT, .i = 1, .doc = "distance between entries"},
             [SIZE] = {"size", ATTR_INT, ATTR_REQUIRED, .doc = "size of the dimension in the result"}},
    .shape.make_rule = rule,
    .shape.infer = infer,
    .shape.dtype = OUT_IN0,
    .partial.linear = "0",
    .grad.build = grad,
    .rewrite.plus = plus,
    .host.ref = place,
    .gpu.element = element,
    .host.kernel = variants,
    .flags = OP_HIDDEN,
    .sample = {"f32{4,2} axis=1 start=1 step=2 size=6", "f32{3} axis=0 start=0 size=5"},
};
