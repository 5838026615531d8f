/* cross_entropy.c - the loss of a classifier: minus the logarithm of the label's probability.
 *
 * The operator is a composite, because the count of labels and the sum over the batch must be taken over all
 * ranks. If the classes are unsplit, one operator computes the loss per position. If the classes are split, a
 * maximum (P(max)) is computed first; one operator then computes a sum of exponentials and the logit at the label
 * (both P(sum)). So ranks exchange a few numbers per position, never the logits. A mean divides by the number of
 * labels that count. For 16-bit logits all these numbers are f32, without an f32 copy of the logits. */
#include "kernels/op/cross_entropy.h"
#include "kernels/op/cross_entropy_rows.h"

extern const struct op op_cross_entropy_parts, op_cross_entropy_rows, op_label_count, op_max, op_stop_gradient;

enum { REDUCTION, IGNORE, SMOOTHING };
enum { MEAN, SUM, NONE };

/* Checks that the labels have the shape of the logits without the class axis. */
static int
check(const struct call *c)
{
    const struct type *x = &c->in[0], *labels = &c->in[1];
    if (!dtype_is_float(x->dtype)) return call_fail(E_DTYPE, c, "logits must be float, found %s", dtype_text(x->dtype));
    if (!dtype_is_int(labels->dtype))
        return call_fail(E_DTYPE, c, "labels must be the classes' numbers, i64 or i32, found %s; convert them to i64",
                         dtype_text(labels->dtype));
    if (!(c->attr[SMOOTHING].f >= 0 && c->attr[SMOOTHING].f <= 1))
        return call_fail(E_ATTR, c, "label_smoothing must be from 0 to 1, found %g", c->attr[SMOOTHING].f);
    if (x->ndim == 0) return call_fail(E_SHAPE, c, "logits must have a dimension for the classes");
    struct type want = *x;
    int axis = ce_axis(x->ndim);
    want.ndim--;
    for (int d = axis; d < want.ndim; d++) want.dim[d] = x->dim[d + 1];
    if (shape_equal(&want, labels)) return 0;
    struct str s = {0}, has = {0};
    shape_print(&want, &s);
    shape_print(labels, &has);
    int code = call_fail(E_SHAPE, c, "labels must have shape %s (axis %d of logits is the classes), found %s",
                         str_text(&s), axis, str_text(&has));
    str_free(&s);
    str_free(&has);
    return code;
}

static void
take_attrs(const struct op *op, const struct call *c, struct attr *attr)
{
    op_attr_defaults(op, attr);
    attr_int(op, attr, "ignore_index", c->attr[IGNORE].i);
    if (op_attr_find(op, "label_smoothing") >= 0) attr_float(op, attr, "label_smoothing", c->attr[SMOOTHING].f);
}

static struct val *
with_labels(struct build *b, const struct op *op, const struct call *c, int nin, struct val *const *in)
{
    struct attr attr[OP_ATTR];
    take_attrs(op, c, attr);
    return b_call(b, op, nin, in, attr);
}

/* Builds log(sum) - at, where sum = sum of e^(x - m) and at = x[label] - m. Both are sums over ranks. Because the
 * maximum m is subtracted, sum >= 1 and its logarithm is not negative. */
static struct val *
split_losses(struct build *b, const struct call *c, struct val *const *in)
{
    int64_t axis = ce_axis(c->in[0].ndim);
    struct val *m = b_call1(b, &op_stop_gradient, b_reduce(b, &op_max, in[0], &axis, 1, false)), *part[OP_OUT];
    struct val *counts = ce_which_count(b, in[1], c->attr[IGNORE].i);
    struct attr attr[OP_ATTR];
    take_attrs(&op_cross_entropy_parts, c, attr);
    if (!b->add(b, &op_cross_entropy_parts, 3, (struct val *[]){in[0], in[1], m}, attr, part)) return NULL;
    return b_sub(b, b_log(b, b_where(b, counts, part[0], b_number(b, 1))), part[1]);
}

static int
build(struct build *b, const struct call *c, struct val *const *in, struct val **out)
{
    TRY(check(c));
    int axis = ce_axis(c->in[0].ndim);
    bool split = c->in[0].dim[axis] > 0 && is_cut(c, 0, axis);
    struct val *loss = split ? split_losses(b, c, in) : with_labels(b, &op_cross_entropy_rows, c, 2, in);
    if (c->attr[REDUCTION].i != NONE) loss = b_sum(b, loss, NULL, 0, false);
    if (c->attr[REDUCTION].i == MEAN) loss = b_div(b, loss, with_labels(b, &op_label_count, c, 1, in + 1));
    out[0] = b_cast(b, loss, c->in[0].dtype);
    return b->failed ? (int)err_last() : 0;
}

const struct op op_cross_entropy = {
    .name = "cross_entropy",
    .doc = "-log softmax(logits)[label], classes on axis 1; mean over the labels that are not ignored",
    .result = "a tensor without dimensions; with reduction \"none\", a tensor of labels' shape",
    .errors = "labels must have logits' shape without dimension 1, the classes (of one dimension: without it)\n"
              "a label must be from 0 to the number of classes - 1, or ignore_index\n"
              "label_smoothing must be from 0 to 1",
    .in = {{"logits", IN_FLOAT}, {"labels", IN_INDEX}},
    .attr = {[REDUCTION] = {"reduction", ATTR_TEXT, .text = "mean|sum|none", .doc = "reduction of the losses"},
             [IGNORE] = {"ignore_index", ATTR_INT, .i = -100, .doc = "label to ignore"},
             [SMOOTHING] = {"label_smoothing", ATTR_FLOAT,
                            .doc = "share of the target that is spread over all classes"}},
    .build = build,
    .flags = OP_WIDE,
    .sample = {"f32{4,6} i64{4}<6", "f32{2,5,3} i32{2,3}<5 reduction=sum label_smoothing=0.25", "f32{7} i64{}<7",
               "f32{5,3} i64{5}<3 ignore_index=1", "bf16{3,4} i64{3}<4 reduction=none"},
};
