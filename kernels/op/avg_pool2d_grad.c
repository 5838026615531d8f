/* avg_pool2d_grad.c - the gradient of avg_pool2d: distributes dy evenly over each window. */
#include "kernels/cpu/base/dnnl.h"
#include "kernels/cpu/conv/conv.h"
#include "kernels/cpu/conv/pool_dnnl.h"
#include "kernels/op/lib/pool.h"

extern const struct op op_avg_pool2d;

static int
infer(const struct call *c, int64_t *size)
{
    for (int i = 0; i < 2; i++) size[i] = c->attr[POOL_SIZE].list[i];
    return 0;
}

static void
spread(const struct pane *w)
{
    for (int64_t i = w->h0; i < w->h1; i++)
        for (int64_t j = w->w0; j < w->w1; j++) w->out[w->plane + i * w->row + j] += w->in[0][w->at] / (double)w->count;
}

static int
ref(const struct kcall *k)
{
    struct plane p = pool_back_plane(k);
    return pool_ref(k, &p, spread);
}

/* ---- variant: oneDNN ----
 *
 * oneDNN is faster in the same cases as in avg_pool2d.c. One core of an EPYC (Zen 5), ms, 3x3 with stride 2
 * (stride 1 for 40x40 and 28x28):
 *
 *            32x64x112x112  32x64x56x56  32x128x40x40  32x256x28x28  32x512x14x14  bf16: 32x64x56x56
 *   oneDNN             11.5      2.3-3.4           5.1           5.1          0.98               2.2
 *   loops               6.9           2.8           6.3           8.7          1.87               3.2 */

static bool
dnnl_accepts(const struct kcall *k)
{
    struct plane p = pool_back_plane(k);
    return (p.n[1] < 48 || k->in[0].dtype == DT_BF16) && mean_back_accepts(k, &p);
}

static int
dnnl_prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    struct plane p = pool_back_plane(k);
    return mean_back_prepare(k, &p, state, scratch_bytes);
}

/* ---- variant: loops over windows ---- */

static int
prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    struct plane p = pool_back_plane(k);
    return pool_prepare(k, &p, plane_mean_back_is_long(&p) ? &plane_mean_back_long : &plane_mean_back, state,
                        scratch_bytes);
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 0)) din[0] = b_pool(b, &op_avg_pool2d, 1, dout, n->attr);
}

static const struct kernel_variant variants[] = {
    {"dnnl", .dense_in = true, .accepts = dnnl_accepts, .prepare = dnnl_prepare, .run = prim_run, .drop = prim_drop},
    {"simd", .dense_in = true, .accepts = pool_back_accepts, .prepare = prepare, .run = pool_run, .drop = pool_drop},
    {NULL},
};

static const char element[] = POOL_BODY BODY({
    int64_t u0, u1, v0, v1, lo, hi;
    double sum = 0;
    windows(0, at[2], dim0(2), &u0, &u1);
    windows(1, at[3], dim0(3), &v0, &v1);
    for (int64_t u = u0; u < u1; u++)
        for (int64_t v = v0; v < v1; v++) {
            const int64_t from[] = {at[0], at[1], u, v};
            const int64_t rows = entries(0, u, whole(2), &lo, &hi), columns = entries(1, v, whole(3), &lo, &hi);
            sum += x0(from) / (double)(rows * columns);
        }
    return sum;
});

const struct op op_avg_pool2d_grad = {
    .name = "avg_pool2d_grad",
    .doc = "dx = sum over windows of dy / number of entries in the window",
    .in = {{"dy", IN_FLOAT}},
    .attr = {POOL_ATTRS(ATTR_HIDDEN, 0), [POOL_SIZE] = {"size", ATTR_INTS, ATTR_REQUIRED,
                                                        .doc = "height and width of x"}},
    .shape.rule = "nc[u][v]->nc[h][w]",
    .shape.infer = infer,
    .partial.linear = "0",
    .grad.build = grad,
    .host.ref = ref,
    .gpu.element = element,
    .host.kernel = variants,
    .flops = pool_back_flops,
    .flags = OP_HIDDEN | OP_UNPLACED,
    .sample = {"f32{2,3,3,5} kernel_size=2 stride=1 size=4,6",
               "f32{1,2,3,8} kernel_size=3,2 stride=2,1 padding=1 size=5,7",
               "f32{1,2,3,3} kernel_size=3 stride=2 padding=1 ceil_mode=true count_include_pad=false size=4,5"},
};
