/* conv2d.c - two-dimensional convolution of images in NCHW order with a bank of kernels.
 *
 * y[n, o, u, v] = sum over c, p, q of x[n, c, u stride + p dilation - padding, ...] w[o, c, p, q]
 *
 * n: image; o: output channel; c: input channel; u, v: position in the result; p, q: position in the kernel. The
 * batch, the output channels, the groups and the input channels may be split. Splitting the input channels leaves
 * partial sums. A bias is added to the result. */
#include "kernels/op/conv2d.h"
#include "kernels/op/conv.h"
#include "kernels/cpu/conv/conv.h"

#include "kernels/cpu/conv/conv_f64.h"
#include "kernels/cpu/base/wide.h"

extern const struct op op_conv2d, op_conv2d_grad_w, op_conv2d_grad_x;

enum { X, W, BIAS };

/* ---- functions shared with the gradients of conv2d ---- */

/* Fails with E_ATTR unless lists have at most two entries, and strides, dilations and groups are positive. */
static int
conv_check(const struct call *c)
{
    for (int a = CONV_STRIDE; a <= CONV_DILATION; a++) {
        const struct attr *attr = &c->attr[a];
        if (attr->n > 2)
            return call_fail(E_ATTR, c, "%s must be one or two numbers, found %d", c->op->attr[a].name, attr->n);
        for (int i = 0; i < attr->n; i++)
            if (attr->list[i] < (a == CONV_PADDING ? 0 : 1) || attr->list[i] > INT32_MAX)
                return call_fail(E_ATTR, c, "%s must be at least %d, found %lld", c->op->attr[a].name,
                                 a != CONV_PADDING, (long long)attr->list[i]);
    }
    if (c->attr[CONV_GROUPS].i > 0) return 0;
    return call_fail(E_ATTR, c, "groups must be at least 1, found %lld", (long long)c->attr[CONV_GROUPS].i);
}

/* Returns the size of the result in direction i, for an image of n entries and a kernel of k entries; -1: the
 * image is smaller than a window. */
static int64_t
conv_size(const struct attr *attr, int i, int64_t n, int64_t k)
{
    int64_t stride = attr_pair(&attr[CONV_STRIDE], i, 1), extent = n + 2 * attr_pair(&attr[CONV_PADDING], i, 0);
    int64_t reach = (k - 1) * attr_pair(&attr[CONV_DILATION], i, 1) + 1;
    return extent < reach ? -1 : (extent - reach) / stride + 1;
}

void
conv_windows(const struct attr *attr, struct convolution *w)
{
    for (int i = 0; i < 2; i++) {
        w->stride[i] = attr_pair(&attr[CONV_STRIDE], i, 1);
        w->padding[i] = attr_pair(&attr[CONV_PADDING], i, 0);
        w->dilation[i] = attr_pair(&attr[CONV_DILATION], i, 1);
    }
}

/* One channel of an image, one channel of a kernel, and the plane of the result to which they contribute. */
struct plane {
    double *x, *w, *y;
    int64_t size[2], kernel[2], result[2];
};

static void
plane_walk(const struct plane *p, const struct attr *attr, void (*meet)(double *x, double *w, double *y))
{
    struct convolution at;
    conv_windows(attr, &at);
    for (int64_t u = 0; u < p->result[0]; u++)
        for (int64_t v = 0; v < p->result[1]; v++)
            for (int64_t i = 0; i < p->kernel[0]; i++)
                for (int64_t j = 0; j < p->kernel[1]; j++) {
                    int64_t h = u * at.stride[0] + i * at.dilation[0] - at.padding[0];
                    int64_t w = v * at.stride[1] + j * at.dilation[1] - at.padding[1];
                    if (h < 0 || h >= p->size[0] || w < 0 || w >= p->size[1]) continue;
                    meet(p->x + h * p->size[1] + w, p->w + i * p->kernel[1] + j, p->y + u * p->result[1] + v);
                }
}

/* The number of groups is computed from the shards' sizes, because a rank may hold only some of the groups. */
int
conv_walk(const struct conv *c, const struct attr *attr)
{
    const int64_t *x = c->x->dim, *w = c->w->dim, *y = c->y->dim;
    if (view_numel(c->x) == 0 || view_numel(c->w) == 0 || view_numel(c->y) == 0) return 0;
    int64_t groups = x[1] / w[1], per_group = groups ? y[1] / groups : 0;
    if (groups * w[1] != x[1] || per_group * groups != y[1] || w[0] != y[1] || x[0] != y[0])
        return fail(E_KERNEL, "conv2d: shards of image, kernel and result do not fit: %lld, %lld and %lld channels",
                    (long long)x[1], (long long)w[1], (long long)y[1]);
    struct plane p = {.size = {x[2], x[3]}, .kernel = {w[2], w[3]}, .result = {y[2], y[3]}};
    for (int64_t n = 0; n < x[0]; n++)
        for (int64_t o = 0; o < y[1]; o++)
            for (int64_t k = 0; k < w[1]; k++) {
                int64_t channel = o / per_group * w[1] + k;
                p.x = f64_of(c->x) + (n * x[1] + channel) * x[2] * x[3];
                p.w = f64_of(c->w) + (o * w[1] + k) * w[2] * w[3];
                p.y = f64_of(c->y) + (n * y[1] + o) * y[2] * y[3];
                plane_walk(&p, attr, c->meet);
            }
    return 0;
}

double
conv_flops(const struct type *w, const struct type *y)
{
    return w->dim[0] ? 2 * (double)type_numel(y) * (double)(type_numel(w) / w->dim[0]) : 0;
}

struct val *
b_conv(struct build *b, const struct op *op, struct val *x, struct val *y, const struct attr *attr, const int64_t *size)
{
    if (!x || !y) return NULL;
    struct attr own[OP_ATTR];
    op_attr_defaults(op, own);
    for (int i = CONV_STRIDE; i <= CONV_GROUPS; i++) own[i] = attr[i];
    if (size) attr_ints(op, own, "size", 2, size);
    return b_call(b, op, 2, (struct val *[]){x, y}, own);
}

/* ---- conv2d ---- */

static int
rule(const struct call *c, struct str *rule)
{
    bool grouped = c->attr[CONV_GROUPS].i > 1;
    str_add(rule, grouped ? "n(gc)[h][w],(go)c[p][q],=->n(go)[u][v]" : "nc[h][w],oc[p][q],=->no[u][v]");
    return 0;
}

/* Checks that x and w have 4 dimensions, and that their numbers of channels fit the number of groups. */
static int
check_channels(const struct call *c)
{
    const struct type *x = &c->in[X], *w = &c->in[W];
    int64_t groups = c->attr[CONV_GROUPS].i;
    if (x->ndim != 4 || w->ndim != 4)
        return call_fail(E_SHAPE, c, "x and w must have 4 dimensions, found %d and %d", x->ndim, w->ndim);
    if (x->dim[1] % groups || w->dim[0] % groups)
        return call_fail(E_SHAPE, c,
                         "groups must divide the input channels, %lld, and the output channels, %lld; found %lld",
                         (long long)x->dim[1], (long long)w->dim[0], (long long)groups);
    if (w->dim[1] == x->dim[1] / groups) return 0;
    return call_fail(E_SHAPE, c, "expected an image of %lld channels (dimension 1 of x), found %lld",
                     (long long)(w->dim[1] * groups), (long long)x->dim[1]);
}

static int
infer(const struct call *c, int64_t *size)
{
    const struct type *x = &c->in[X], *w = &c->in[W];
    int64_t groups = c->attr[CONV_GROUPS].i, result[2];
    TRY(conv_check(c));
    TRY(check_channels(c));
    for (int i = 0; i < 2; i++) {
        result[i] = conv_size(c->attr, i, x->dim[2 + i], w->dim[2 + i]);
        if (result[i] < 0)
            return call_fail(E_SHAPE, c,
                             "in dimension %d, the kernel must not exceed the padded image, %lld, found %lld; add "
                             "padding or use a smaller kernel",
                             2 + i, (long long)(x->dim[2 + i] + 2 * attr_pair(&c->attr[CONV_PADDING], i, 0)),
                             (long long)((w->dim[2 + i] - 1) * attr_pair(&c->attr[CONV_DILATION], i, 1) + 1));
    }
    if (groups > 1) { /* letters g and o form the merged dimension of output channels */
        *size++ = groups;
        *size++ = w->dim[0] / groups;
    }
    for (int i = 0; i < 2; i++) *size++ = result[i];
    return 0;
}

static int
build(struct build *b, const struct call *c, struct val *const *in, struct val **out)
{
    if (c->nin <= BIAS || absent(&c->in[BIAS])) return 0;
    const struct type *bias = &c->in[BIAS];
    if (bias->ndim != 1 || c->in[W].ndim != 4 || bias->dim[0] != c->in[W].dim[0])
        return call_fail(E_SHAPE, c,
                         "bias must have shape {%lld}, one entry for each output channel (dimension 0 of w)",
                         c->in[W].ndim ? (long long)c->in[W].dim[0] : 0);
    out[0] = b_add(b, b_conv(b, &op_conv2d, in[X], in[W], c->attr, NULL),
                   b_reshape(b, in[BIAS], 3, (int64_t[]){bias->dim[0], 1, 1}));
    return b->failed ? (int)err_last() : 0;
}

static void
meet(double *x, double *w, double *y)
{
    *y += *x * *w;
}

static int
ref(const struct kcall *k)
{
    struct conv c = {&k->in[X], &k->in[W], &k->out[0], meet};
    double *y = f64_of(&k->out[0]);
    int64_t n = view_numel(&k->out[0]);
    for (int64_t i = 0; i < n; i++) y[i] = 0;
    return conv_walk(&c, k->call->attr);
}

static void
convolution(const struct call *c, struct convolution *w)
{
    *w = (struct convolution){.image = X, .kernel = W, .result = -1};
    conv_windows(c->attr, w);
}

static double
flops(const struct call *c)
{
    return conv_flops(&c->in[W], &c->out[0]);
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    const struct type *x = &n->in[X]->type, *w = &n->in[W]->type;
    if (b_wants(n, X)) din[X] = b_conv(b, &op_conv2d_grad_x, dout[0], n->in[W], n->attr, x->dim + 2);
    if (b_wants(n, W)) din[W] = b_conv(b, &op_conv2d_grad_w, n->in[X], dout[0], n->attr, w->dim + 2);
}

static const struct kernel_variant variants[] = {
    {"dnnl", .dense_in = true, .accepts = conv_accepts, .prepare = conv_prepare, .run = conv_run,
     .doubts = nonfinite_weight, .drop = conv_drop},
    {"f64", .dense_in = true, .accepts = conv_f64_accepts, .prepare = conv_f64_prepare, .run = conv_f64_run,
     .doubts = nonfinite_weight},
    WIDE_ROW,
    {NULL},
};

/* GPU kernel as a matrix product: for each group, the rows are the kernels, and the columns are the windows of the
 * image. */
static const char product[] = CONV_BODY BODY({
    const coordinate channels = dim1(1), height = dim1(2), width = dim1(3), across = size(3),
                     per_image = size(2) * across;
    const coordinate groups = channels ? dim0(1) / channels : 1, kernels = size(1) / groups;
    multiply(
        groups, kernels, size(0) * per_image, channels * height * width, {false, false},
        [&](coordinate b, coordinate i) {
            const int64_t at[] = {b * kernels + i, 0, 0, 0};
            return x1_at(at);
        },
        [&](coordinate b, coordinate j) {
            const int64_t at[] = {j / per_image, b * channels, j % per_image / across * stride[0] - padding[0],
                                  j % across * stride[1] - padding[1]};
            return window{x0_at(at), (coordinate)at[2], (coordinate)at[3]};
        },
        [&](coordinate l) {
            const int64_t in[] = {0, l / (height * width), l / width % height, l % width};
            const int64_t at[] = {0, in[1], in[2] * dilation[0], in[3] * dilation[1]};
            return entry{x1_at(in), x0_at(at), (coordinate)at[2], (coordinate)at[3]};
        },
        [&](int64_t row, const entry &e) { return row + e.other; }, [&](int64_t o) { return x1_stored(o); },
        [&](const entry &e, const window &j) { return e.image + j.image; }, [&](int64_t o) { return x0_stored(o); },
        [&](coordinate b, coordinate i, coordinate j, real v) {
            const int64_t at[] = {j / per_image, b * kernels + i, j % per_image / across, j % across};
            write(at, v);
        },
        [&](const entry &e, const window &j) {
            return is_place(e.h + j.h, (coordinate)dim0(2)) & is_place(e.w + j.w, (coordinate)dim0(3));
        });
});

const struct op op_conv2d = {
    .name = "conv2d",
    .doc = "y[n, o, u, v] = sum over c, p, q of x[n, c, u stride + p dilation - padding, ...] w[o, c, p, q] + bias[o]",
    .result = "a tensor (n, o, u, v); u and v are the numbers of positions of the kernel in the padded image",
    .errors = "x must be (n, c, height, width) and w (o, c / groups, height, width); bias (o)\n"
              "groups must divide c and o\n"
              "stride and dilation must be one or two integers of 1 or more; padding, of 0 or more\n"
              "the kernel must fit into the padded image",
    .in = {{"x", IN_FLOAT}, {"w", IN_FLOAT}, {"bias", IN_FLOAT | IN_OPTIONAL}},
    .attr = {CONV_ATTRS},
    .shape.make_rule = rule,
    .shape.infer = infer,
    .partial.linear = "0|1",
    .partial.reduce = RED_SUM,
    .build = build,
    .grad.build = grad,
    .grad.saves = "01",
    .host.ref = ref,
    .gpu.product = product,
    .gpu.convolution = convolution,
    .host.kernel = variants,
    .flops = flops,
    .flags = OP_NARROW | OP_UNPLACED | OP_LEADS,
    .sample = {"f32{2,3,5,6} f32{4,3,3,2}", "f32{2,4,6,5} f32{6,2,3,3} - padding=1 stride=2 groups=2",
               "f32{1,2,7,7} f32{2,2,3,3} - dilation=2,1 padding=2,0", "bf16{2,2,4,4} bf16{3,2,2,2}",
               "f16{2,2,4,4} f16{3,2,2,2}", "f64{2,4,6,5} f64{6,2,3,3} - padding=1 stride=2,1 groups=2 dilation=1,2",
               "f32{2,3,4,4} f32{2,3,2,2} f32{2}"},
};
