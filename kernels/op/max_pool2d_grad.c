/* max_pool2d_grad.c - the gradient of max_pool2d: adds each dy at the position of its window's maximum. If several
 * elements equal the maximum, the first one receives dy. */
#include "kernels/op/lib/pool.h"

#include <math.h>

extern const struct op op_max_pool2d_pick;

/* Returns the position of the window's maximum in x; -1: all of the window is padding. */
static int64_t
find_greatest(const struct pane *w)
{
    const double *x = w->in[0];
    int64_t best = -1;
    for (int64_t i = w->h0; i < w->h1; i += w->step[0])
        for (int64_t j = w->w0; j < w->w1; j += w->step[1]) {
            int64_t at = w->plane + i * w->row + j;
            if (best < 0 || x[at] > x[best] || (isnan(x[at]) && !isnan(x[best]))) best = at;
        }
    return best;
}

static void
add_at_greatest(const struct pane *w)
{
    int64_t best = find_greatest(w);
    if (best >= 0) w->out[best] += w->in[1][w->at];
}

static int
ref(const struct kcall *k)
{
    struct plane p = pool_back_plane(k);
    return pool_ref(k, &p, add_at_greatest);
}

/* Defines best(u, v): position in the plane of the maximum of window (u, v); -1: all of the window is padding. */
#define BEST_BODY                                                                                                      \
    POOL_BODY BODY(const auto best = [&](int64_t u, int64_t v) {                                                       \
        int64_t h0, h1, w0, w1, from[] = {at[0], at[1], 0, 0}, found = -1;                                             \
        real most = -INFINITY;                                                                                         \
        entries(0, u, dim0(2), &h0, &h1);                                                                              \
        entries(1, v, dim0(3), &w0, &w1);                                                                              \
        for (from[2] = h0; from[2] < h1; from[2] += step[0])                                                           \
            for (from[3] = w0; from[3] < w1; from[3] += step[1]) {                                                     \
                const real x = x0(from);                                                                               \
                if (found >= 0 && !(x > most || (x != x && most == most))) continue;                                   \
                most = x;                                                                                              \
                found = from[2] * dim0(3) + from[3];                                                                   \
            }                                                                                                          \
        return found;                                                                                                  \
    };)

/* ---- variants for floats ---- */

static int
prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    struct plane p = pool_back_plane(k);
    return pool_prepare(k, &p, &plane_max_back, state, scratch_bytes);
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 1)) din[1] = b_pool(b, &op_max_pool2d_pick, 2, (struct val *[]){n->in[0], dout[0]}, n->attr);
}

static const struct kernel_variant variants[] = {
    {"simd", .dense_in = true, .accepts = pool_back_accepts, .prepare = prepare, .run = pool_run, .drop = pool_drop},
    {NULL},
};

static const char element[] = BEST_BODY BODY({
    int64_t u0, u1, v0, v1;
    double sum = 0;
    windows(0, at[2], dim1(2), &u0, &u1);
    windows(1, at[3], dim1(3), &v0, &v1);
    for (int64_t u = u0; u < u1; u++)
        for (int64_t v = v0; v < v1; v++) {
            const int64_t from[] = {at[0], at[1], u, v};
            if (best(u, v) == at[2] * dim0(3) + at[3]) sum += x1(from);
        }
    return sum;
});

const struct op op_max_pool2d_grad = {
    .name = "max_pool2d_grad",
    .doc = "dx = dy where x is the greatest of its window, summed over windows",
    .in = {{"x", IN_FLOAT}, {"dy", IN_FLOAT}},
    .attr = {POOL_ATTRS(0, ATTR_HIDDEN)},
    .shape.rule = "nc[h][w],nc[u][v]->nc[h][w]",
    .partial.linear = "1",
    .grad.build = grad,
    .grad.saves = "0",
    .host.ref = ref,
    .gpu.element = element,
    .host.kernel = variants,
    .flops = pool_back_flops,
    .flags = OP_HIDDEN | OP_UNPLACED,
    .sample = {"f32{2,3,4,6} f32{2,3,3,5} kernel_size=2 stride=1",
               "f32{1,2,5,7} f32{1,2,3,8} kernel_size=3,2 stride=2,1 padding=1",
               "f32{2,1,6,5} f32{2,1,3,2} kernel_size=2 dilation=2 ceil_mode=true"},
};

/* ---- computing the gradient of this operator: selects elements of dy's gradient at the positions of the maxima
 * ---- */

static void
read_at_greatest(const struct pane *w)
{
    int64_t best = find_greatest(w);
    w->out[w->at] = best < 0 ? 0 : w->in[1][best];
}

static int
pick_ref(const struct kcall *k)
{
    struct plane p = pool_plane(k);
    return pool_ref(k, &p, read_at_greatest);
}

static int
pick_prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    struct plane p = pool_plane(k);
    return pool_prepare(k, &p, &plane_max_pick, state, scratch_bytes);
}

static void
pick_grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 1)) din[1] = b_pool(b, &op_max_pool2d_grad, 2, (struct val *[]){n->in[0], dout[0]}, n->attr);
}

static const struct kernel_variant pick_variants[] = {
    {"simd", .dense_in = true, .accepts = pool_accepts, .prepare = pick_prepare, .run = pool_run, .drop = pool_drop},
    {NULL},
};

static const char pick_element[] = BEST_BODY BODY({
    const int64_t found = best(at[2], at[3]), from[] = {at[0], at[1], found / dim0(3), found % dim0(3)};
    return found < 0 ? 0 : x1(from);
});

const struct op op_max_pool2d_pick = {
    .name = "max_pool2d_pick",
    .doc = "y = h where x is the greatest of each window",
    .in = {{"x", IN_FLOAT}, {"h", IN_FLOAT}},
    .attr = {POOL_ATTRS(0, ATTR_HIDDEN)},
    .shape.rule = "nc[h][w],nc[h][w]->nc[u][v]",
    .shape.infer = pool_infer,
    .partial.linear = "1",
    .grad.build = pick_grad,
    .grad.saves = "0",
    .host.ref = pick_ref,
    .gpu.element = pick_element,
    .host.kernel = pick_variants,
    .flops = pool_flops,
    .flags = OP_HIDDEN,
    .sample = {"f32{2,3,4,6} f32{2,3,4,6} kernel_size=2 stride=1",
               "f32{1,2,5,7} f32{1,2,5,7} kernel_size=3,2 stride=2,1 padding=1",
               "f32{2,1,6,5} f32{2,1,6,5} kernel_size=2 dilation=2 ceil_mode=true"},
};
