/* conv2d_grad_w.c - the gradient of conv2d with respect to the kernel: products of windows and dy, summed over the
 * batch. A split of the batch leaves partial sums. */
#include "kernels/op/conv.h"
#include "kernels/op/conv2d.h"
#include "kernels/cpu/conv/conv.h"

#include "kernels/cpu/conv/conv_f64.h"
#include "kernels/cpu/base/wide.h"

extern const struct op op_conv2d, op_conv2d_grad_x;

enum { X, DY };

static int
rule(const struct call *c, struct str *rule)
{
    bool grouped = c->attr[CONV_GROUPS].i > 1;
    str_add(rule, grouped ? "n(gc)[h][w],n(go)[u][v]->(go)c[p][q]" : "nc[h][w],no[u][v]->oc[p][q]");
    return 0;
}

/* Implements infer(): sets the sizes of letters of the SBP rule that no operand determines. These are p and q;
 * with groups also g, o and c. */
static int
infer(const struct call *c, int64_t *size)
{
    if (c->attr[CONV_GROUPS].i > 1) {
        *size++ = c->attr[CONV_GROUPS].i;
        *size++ = c->in[DY].dim[1] / c->attr[CONV_GROUPS].i;
        *size++ = c->in[X].dim[1] / c->attr[CONV_GROUPS].i;
    }
    for (int i = 0; i < 2; i++) *size++ = c->attr[CONV_SIZE].list[i];
    return 0;
}

static void
meet(double *x, double *w, double *y)
{
    *w += *x * *y;
}

static int
ref(const struct kcall *k)
{
    struct conv c = {&k->in[X], &k->out[0], &k->in[DY], meet};
    double *w = f64_of(&k->out[0]);
    int64_t n = view_numel(&k->out[0]);
    for (int64_t i = 0; i < n; i++) w[i] = 0;
    return conv_walk(&c, k->call->attr);
}

static void
convolution(const struct call *c, struct convolution *w)
{
    *w = (struct convolution){.image = X, .kernel = -1, .result = DY};
    conv_windows(c->attr, w);
}

static double
flops(const struct call *c)
{
    return conv_flops(&c->out[0], &c->in[DY]);
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, X)) din[X] = b_conv(b, &op_conv2d_grad_x, n->in[DY], dout[0], n->attr, n->in[X]->type.dim + 2);
    if (b_wants(n, DY)) din[DY] = b_conv(b, &op_conv2d, n->in[X], dout[0], n->attr, NULL);
}

static const struct kernel_variant variants[] = {
    {"dnnl", .dense_in = true, .accepts = conv_accepts, .prepare = conv_w_prepare, .run = conv_w_run,
     .doubts = nonfinite_result, .drop = conv_w_drop},
    {"f64", .dense_in = true, .accepts = conv_f64_accepts, .prepare = conv_w_f64_prepare, .run = conv_w_f64_run,
     .doubts = nonfinite_result},
    WIDE_ROW,
    {NULL},
};

/* GPU kernel as a matrix product. For each group, the rows of the first factor are the channels of dy. A column of
 * the second factor belongs to one entry of the kernel, and has the image entries that this entry is multiplied
 * by. */
static const char product[] = CONV_BODY BODY({
    const coordinate channels = size(1), height = size(2), width = size(3), across = dim1(3),
                     per_image = dim1(2) * across;
    const coordinate groups = channels ? dim0(1) / channels : 1, kernels = size(0) / groups;
    multiply(
        groups, kernels, channels * height * width, dim1(0) * per_image, {false, true},
        [&](coordinate b, coordinate i) {
            const int64_t at[] = {0, b * kernels + i, 0, 0};
            return x1_at(at);
        },
        [&](coordinate b, coordinate j) {
            const int64_t at[] = {0, b * channels + j / (height * width), j / width % height * dilation[0],
                                  j % width * dilation[1]};
            return window{x0_at(at), (coordinate)at[2], (coordinate)at[3]};
        },
        [&](coordinate l) {
            const int64_t in[] = {l / per_image, 0, l % per_image / across, l % across};
            const int64_t at[] = {in[0], 0, in[2] * stride[0] - padding[0], in[3] * stride[1] - padding[1]};
            return entry{x1_at(in), x0_at(at), (coordinate)at[2], (coordinate)at[3]};
        },
        [&](int64_t row, const entry &e) { return row + e.other; }, [&](int64_t o) { return x1_stored(o); },
        [&](const entry &e, const window &j) { return e.image + j.image; }, [&](int64_t o) { return x0_stored(o); },
        [&](coordinate b, coordinate i, coordinate j, real v) {
            const int64_t at[] = {b * kernels + i, j / (height * width), j / width % height, j % width};
            write(at, v);
        },
        [&](const entry &e, const window &j) {
            return is_place(e.h + j.h, (coordinate)dim0(2)) & is_place(e.w + j.w, (coordinate)dim0(3));
        });
});

const struct op op_conv2d_grad_w = {
    .name = "conv2d_grad_w",
    .doc = "dw[o, c, p, q] = sum over n, u, v of dy[n, o, u, v] x[n, c, u stride + p dilation - padding, ...]",
    .in = {{"x", IN_FLOAT}, {"dy", IN_FLOAT}},
    .attr = {CONV_ATTRS, [CONV_SIZE] = {"size", ATTR_INTS, ATTR_REQUIRED, .doc = "height and width of the kernel"}},
    .shape.make_rule = rule,
    .shape.infer = infer,
    .partial.linear = "0|1",
    .partial.reduce = RED_SUM,
    .grad.build = grad,
    .grad.saves = "01",
    .host.ref = ref,
    .gpu.product = product,
    .gpu.convolution = convolution,
    .host.kernel = variants,
    .flops = flops,
    .flags = OP_HIDDEN | OP_UNPLACED | OP_LEADS,
    .sample = {"f32{2,3,5,6} f32{2,4,3,5} size=3,2", "f32{2,4,6,5} f32{2,6,3,3} padding=1 stride=2 groups=2 size=3,3",
               "f32{1,2,7,7} f32{1,2,7,5} dilation=2,1 padding=2,0 size=3,3", "bf16{2,2,4,4} bf16{2,3,3,3} size=2,2",
               "f64{2,4,6,5} f64{2,6,3,3} padding=1 stride=2 groups=2 size=3,3"},
};
