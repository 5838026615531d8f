/* conv2d_grad_x.c - the gradient of conv2d with respect to the image: adds dy times the kernel at the positions of
 * each window. */
#include "kernels/op/conv.h"
#include "kernels/op/conv2d.h"
#include "kernels/cpu/conv/conv.h"

#include "kernels/cpu/conv/conv_f64.h"
#include "kernels/cpu/base/wide.h"

extern const struct op op_conv2d, op_conv2d_grad_w;

enum { DY, W };

static int
rule(const struct call *c, struct str *rule)
{
    bool grouped = c->attr[CONV_GROUPS].i > 1;
    str_add(rule, grouped ? "n(go)[u][v],(go)c[p][q]->n(gc)[h][w]" : "no[u][v],oc[p][q]->nc[h][w]");
    return 0;
}

/* Implements infer(): sets the sizes of letters of the SBP rule that no operand determines. These are h and w;
 * with groups also g, which occurs only in merged dimensions. */
static int
infer(const struct call *c, int64_t *size)
{
    if (c->attr[CONV_GROUPS].i > 1) *size++ = c->attr[CONV_GROUPS].i;
    for (int i = 0; i < 2; i++) *size++ = c->attr[CONV_SIZE].list[i];
    return 0;
}

static void
meet(double *x, double *w, double *y)
{
    *x += *w * *y;
}

static int
ref(const struct kcall *k)
{
    struct conv c = {&k->out[0], &k->in[W], &k->in[DY], meet};
    double *x = f64_of(&k->out[0]);
    int64_t n = view_numel(&k->out[0]);
    for (int64_t i = 0; i < n; i++) x[i] = 0;
    return conv_walk(&c, k->call->attr);
}

static void
convolution(const struct call *c, struct convolution *w)
{
    *w = (struct convolution){.image = -1, .kernel = W, .result = DY};
    conv_windows(c->attr, w);
}

static double
flops(const struct call *c)
{
    return conv_flops(&c->in[W], &c->in[DY]);
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, DY)) din[DY] = b_conv(b, &op_conv2d, dout[0], n->in[W], n->attr, NULL);
    if (b_wants(n, W)) din[W] = b_conv(b, &op_conv2d_grad_w, dout[0], n->in[DY], n->attr, n->in[W]->type.dim + 2);
}

static const struct kernel_variant variants[] = {
    {"dnnl", .dense_in = true, .accepts = conv_accepts, .prepare = conv_x_prepare, .run = conv_run,
     .doubts = nonfinite_weight, .drop = conv_drop},
    {"f64", .dense_in = true, .accepts = conv_f64_accepts, .prepare = conv_x_f64_prepare, .run = conv_x_f64_run,
     .doubts = nonfinite_weight},
    WIDE_ROW,
    {NULL},
};

/* GPU kernel as a matrix product: for each group, the transposed kernels times dy. A term is 0 if no window places
 * this kernel entry on this image entry. */
static const char product[] = CONV_BODY BODY({
    const coordinate channels = dim1(1), height = dim1(2), width = dim1(3), across = size(3),
                     per_image = size(2) * across;
    const coordinate groups = channels ? size(1) / channels : 1, kernels = dim1(0) / groups;
    const coordinate by[] = {(coordinate)stride[0], (coordinate)stride[1]};
    const auto place = [&](coordinate h, int d) {
        return by[d] == 1 ? h : h < 0 || h % by[d] ? (coordinate)-1 : h / by[d];
    };
    multiply(
        groups, channels, size(0) * per_image, kernels * height * width, {false, false},
        [&](coordinate b, coordinate i) {
            const int64_t at[] = {b * kernels, i, 0, 0};
            return x1_at(at);
        },
        [&](coordinate b, coordinate j) {
            const int64_t at[] = {j / per_image, b * kernels, 0, 0};
            const int64_t h = j % per_image / across + padding[0], w = j % across + padding[1];
            return window{x0_at(at), (coordinate)h, (coordinate)w};
        },
        [&](coordinate l) {
            const int64_t in[] = {l / (height * width), 0, l / width % height, l % width}, at[] = {0, in[0], 0, 0};
            const int64_t h = in[2] * dilation[0], w = in[3] * dilation[1];
            return entry{x1_at(in), x0_at(at), (coordinate)h, (coordinate)w};
        },
        [&](int64_t row, const entry &e) { return row + e.other; }, [&](int64_t o) { return x1_stored(o); },
        [&](const entry &e, const window &j) {
            const int64_t at[] = {0, 0, place(j.h - e.h, 0), place(j.w - e.w, 1)};
            return e.image + j.image + x0_at(at);
        },
        [&](int64_t o) { return x0_stored(o); },
        [&](coordinate b, coordinate i, coordinate j, real v) {
            const int64_t at[] = {j / per_image, b * channels + i, j % per_image / across, j % across};
            write(at, v);
        },
        [&](const entry &e, const window &j) {
            return is_place(place(j.h - e.h, 0), (coordinate)dim0(2)) &
                   is_place(place(j.w - e.w, 1), (coordinate)dim0(3));
        });
});

const struct op op_conv2d_grad_x = {
    .name = "conv2d_grad_x",
    .doc = "dx[n, c, u stride + p dilation - padding, ...] = sum over o, p, q of dy[n, o, u, v] w[o, c, p, q]",
    .in = {{"dy", IN_FLOAT}, {"w", IN_FLOAT}},
    .attr = {CONV_ATTRS, [CONV_SIZE] = {"size", ATTR_INTS, ATTR_REQUIRED, .doc = "height and width of x"}},
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
    .sample = {"f32{2,4,3,5} f32{4,3,3,2} size=5,6", "f32{2,6,3,3} f32{6,2,3,3} padding=1 stride=2 groups=2 size=6,5",
               "f32{1,2,7,5} f32{2,2,3,3} dilation=2,1 padding=2,0 size=7,7", "bf16{2,3,3,3} bf16{3,2,2,2} size=4,4",
               "f64{2,6,3,3} f64{6,2,3,3} padding=1 stride=2 groups=2 size=6,5"},
};
