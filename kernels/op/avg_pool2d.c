/* avg_pool2d.c - the mean of each window of an image, NCHW. */
#include "kernels/cpu/base/dnnl.h"
#include "kernels/cpu/conv/conv.h"
#include "kernels/cpu/conv/pool_dnnl.h"
#include "kernels/op/lib/pool.h"

extern const struct op op_avg_pool2d_grad;

static void
mean(const struct pane *w)
{
    double sum = 0;
    for (int64_t i = w->h0; i < w->h1; i++)
        for (int64_t j = w->w0; j < w->w1; j++) sum += w->in[0][w->plane + i * w->row + j];
    w->out[w->at] = sum / (double)w->count;
}

static int
ref(const struct kcall *k)
{
    struct plane p = pool_plane(k);
    return pool_ref(k, &p, mean);
}

/* ---- variant: oneDNN ----
 *
 * oneDNN transposes images to channels-last and back, and is faster than the loops below if rows are short or
 * elements have few bytes. One core of an EPYC (Zen 5), ms, 3x3 with stride 2 (stride 1 for 28x28):
 *
 *            32x64x112x112  32x64x56x56  32x256x28x28  32x512x14x14  bf16: 32x64x56x56  32x512x14x14
 *   oneDNN              9.0          2.2           4.7          0.56               0.94          0.50
 *   loops               3.9          1.5           5.0          2.04               1.65          2.08 */

static bool
dnnl_accepts(const struct kcall *k)
{
    struct plane p = pool_plane(k);
    return (p.n[1] < 32 || k->in[0].dtype == DT_BF16) && mean_accepts(k, &p);
}

static int
dnnl_prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    struct plane p = pool_plane(k);
    return mean_prepare(k, &p, state, scratch_bytes);
}

/* ---- variant: loops over windows ---- */

static int
prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    struct plane p = pool_plane(k);
    return pool_prepare(k, &p, plane_mean_is_long(&p) ? &plane_mean_long : &plane_mean, state, scratch_bytes);
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (!b_wants(n, 0) || !dout[0]) return;
    struct attr attr[OP_ATTR];
    op_attr_defaults(&op_avg_pool2d_grad, attr);
    for (int i = POOL_KERNEL; i <= POOL_COUNT_PAD; i++) attr[i] = n->attr[i];
    attr_ints(&op_avg_pool2d_grad, attr, "size", 2, n->in[0]->type.dim + 2);
    din[0] = b_call(b, &op_avg_pool2d_grad, 1, dout, attr);
}

static const struct kernel_variant variants[] = {
    {"dnnl", .dense_in = true, .accepts = dnnl_accepts, .prepare = dnnl_prepare, .run = prim_run, .drop = prim_drop},
    {"simd", .dense_in = true, .accepts = pool_accepts, .prepare = prepare, .run = pool_run, .drop = pool_drop},
    {NULL},
};

static const char element[] = POOL_BODY BODY({
    int64_t h0, h1, w0, w1, from[] = {at[0], at[1], 0, 0};
    double sum = 0;
    const int64_t rows = entries(0, at[2], dim0(2), &h0, &h1), columns = entries(1, at[3], dim0(3), &w0, &w1);
    for (from[2] = h0; from[2] < h1; from[2]++)
        for (from[3] = w0; from[3] < w1; from[3]++) sum += x0(from);
    return sum / (double)(rows * columns);
});

const struct op op_avg_pool2d = {
    .name = "avg_pool2d",
    .doc = "y[n, c, u, v] = mean of x over window (u, v)",
    .result = "a tensor (n, c, u, v); u and v are the numbers of windows along the padded height and width",
    .errors = "x must have 4 dimensions: batch, channels, height, width\n"
              "kernel_size and stride must be one or two integers of 1 or more\n"
              "padding must be one or two integers from 0 to half of kernel_size\n"
              "the window must fit into the padded image",
    .in = {{"x", IN_FLOAT}},
    .attr = {POOL_ATTRS(ATTR_HIDDEN, 0)},
    .shape.rule = "nc[h][w]->nc[u][v]",
    .shape.infer = pool_infer,
    .partial.linear = "0",
    .grad.build = grad,
    .host.ref = ref,
    .gpu.element = element,
    .host.kernel = variants,
    .flops = pool_flops,
    .sample = {"f32{2,3,4,6} kernel_size=2", "f32{1,2,5,7} kernel_size=3,2 stride=2,1 padding=1",
               "f32{1,2,5,7} kernel_size=3 padding=1 count_include_pad=false ceil_mode=true",
               "bf16{1,2,4,4} kernel_size=2"},
    .flags = OP_UNPLACED,
};
