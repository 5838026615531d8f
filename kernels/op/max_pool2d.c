/* max_pool2d.c - the maximum of each window of an image, NCHW; NaN if an element of the window is NaN. */
#include "kernels/op/lib/pool.h"

#include <math.h>

extern const struct op op_max_pool2d_grad;

static void
greatest(const struct pane *w)
{
    double max = -INFINITY;
    for (int64_t i = w->h0; i < w->h1; i += w->step[0])
        for (int64_t j = w->w0; j < w->w1; j += w->step[1]) {
            double v = w->in[0][w->plane + i * w->row + j];
            if (v > max || isnan(v)) max = v;
        }
    w->out[w->at] = max;
}

static int
ref(const struct kcall *k)
{
    struct plane p = pool_plane(k);
    return pool_ref(k, &p, greatest);
}

/* ---- variants for floats ---- */

static int
prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    struct plane p = pool_plane(k);
    return pool_prepare(k, &p, &plane_max, state, scratch_bytes);
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 0)) din[0] = b_pool(b, &op_max_pool2d_grad, 2, (struct val *[]){n->in[0], dout[0]}, n->attr);
}

static const struct kernel_variant variants[] = {
    {"simd", .dense_in = true, .accepts = pool_accepts, .prepare = prepare, .run = pool_run, .drop = pool_drop},
    {NULL},
};

static const char element[] = POOL_BODY BODY({
    int64_t h0, h1, w0, w1, from[] = {at[0], at[1], 0, 0};
    real most = -INFINITY;
    entries(0, at[2], dim0(2), &h0, &h1);
    entries(1, at[3], dim0(3), &w0, &w1);
    for (from[2] = h0; from[2] < h1; from[2] += step[0])
        for (from[3] = w0; from[3] < w1; from[3] += step[1]) most = greatest::join(most, x0(from));
    return most;
});

const struct op op_max_pool2d = {
    .name = "max_pool2d",
    .doc = "y[n, c, u, v] = greatest of x over window (u, v)",
    .result = "a tensor (n, c, u, v); u and v are the numbers of windows along the padded height and width",
    .errors = "x must have 4 dimensions: batch, channels, height, width\n"
              "kernel_size, stride and dilation must be one or two integers of 1 or more\n"
              "padding must be one or two integers from 0 to half of kernel_size\n"
              "the window must fit into the padded image",
    .in = {{"x", IN_FLOAT}},
    .attr = {POOL_ATTRS(0, ATTR_HIDDEN)},
    .shape.rule = "nc[h][w]->nc[u][v]",
    .shape.infer = pool_infer,
    .grad.build = grad,
    .grad.saves = "0",
    .host.ref = ref,
    .gpu.element = element,
    .host.kernel = variants,
    .flops = pool_flops,
    .sample = {"f32{2,3,4,6} kernel_size=2", "f32{1,2,5,7} kernel_size=3,2 stride=2,1 padding=1",
               "f32{2,1,6,5} kernel_size=2 dilation=2 ceil_mode=true", "bf16{1,2,4,4} kernel_size=2"},
    .flags = OP_UNPLACED,
};
