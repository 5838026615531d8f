/* linear_int8.c - a linear layer with weights of one byte, for inference. Byte b in row n of w stands for the weight
 * (b - 128) * scale[n].
 *
 *   y[.., n] = scale[n] * sum over k of x[.., k] (w[n, k] - 128)
 *
 * Bytes are converted to floats in registers, so a product with one row of x reads a quarter of the bytes of f32
 * weights. GPT-2 124M on one core of a shared EPYC takes 5.0 ms per token, at 25 GB/s of weights. If the rows of w
 * are read as one stream and converted in the L1 cache, it takes 7.0 ms. For two or more rows of x, a row of w is
 * converted once. A split of k leaves partial sums; a split of n splits w's rows. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/cpu/base/lanes.h"
#include "kernels/cpu/base/team.h"
#include "kernels/cpu/base/wide.h"
#include "kernels/op/base/op_impl.h"
#include "runtime/base/simd.h"
#include "runtime/base/stop.h"

enum { IN_X, IN_W, IN_SCALE };
enum { ZERO = 128 }; /* byte that stands for the weight 0 */

static int
rule(const struct call *c, struct str *rule)
{
    int batch = c->in[IN_X].ndim - 1;
    for (int d = 0; d < batch; d++) str_addf(rule, "%c", letter(d));
    str_add(rule, "z,yz,y->");
    for (int d = 0; d < batch; d++) str_addf(rule, "%c", letter(d));
    str_add(rule, "y");
    return 0;
}

static int
infer(const struct call *c, int64_t *size)
{
    UNUSED(size);
    const struct type *x = &c->in[IN_X], *w = &c->in[IN_W];
    if (x->ndim == 0) return call_fail(E_SHAPE, c, "x must have at least 1 dimension");
    if (w->ndim != 2 || w->dtype != DT_U8)
        return call_fail(E_DTYPE, c, "w must be u8 with 2 dimensions, found %s with %d", dtype_text(w->dtype), w->ndim);
    return 0;
}

/* Sizes of the matrices of a call. */
struct sizes {
    int64_t m, n, k;
};

static struct sizes
sizes_of(const struct kcall *k)
{
    const struct view *x = &k->in[IN_X], *w = &k->in[IN_W];
    struct sizes s = {.m = 1, .n = w->dim[0], .k = w->dim[1]};
    for (int d = 0; d + 1 < x->ndim; d++) s.m *= x->dim[d];
    return s;
}

static int
ref(const struct kcall *k)
{
    struct sizes s = sizes_of(k);
    const double *x = f64_of(&k->in[IN_X]), *scale = f64_of(&k->in[IN_SCALE]);
    const int64_t *w = i64_of(&k->in[IN_W]);
    for (int64_t i = 0; i < s.m; i++)
        for (int64_t j = 0; j < s.n; j++) {
            double sum = 0;
            for (int64_t l = 0; l < s.k; l++) sum += x[i * s.k + l] * (double)(w[j * s.k + l] - ZERO);
            f64_of(&k->out[0])[i * s.n + j] = sum * scale[j];
        }
    return 0;
}

/* ---- variant: f32 ---- */

/* WAYS: number of vector accumulators per row, which fixes the order of additions. STREAMS: number of rows that
 * are multiplied in parallel. */
enum { WAYS = WIDE / LANES, STREAMS = 4 };
#define LANES_FILE "kernels/op/lib/linear_int8_level.inc"
#include "kernels/cpu/base/lanes_levels.inc"

extern const struct op op_matmul;

VECTOR static void
row_floats(int64_t k, const uint8_t *w, float *out)
{
    for (int64_t l = 0; l < k; l++) out[l] = (float)(w[l] - ZERO);
}

static void
rows_range(void *arg, int64_t share, int64_t lo, int64_t hi)
{
    const struct kcall *k = arg;
    struct sizes s = sizes_of(k);
    const float *x = k->in[IN_X].data, *scale = k->in[IN_SCALE].data;
    float *y = k->out[0].data, *row = (float *)k->scratch + share * s.k;
    const uint8_t *w = k->in[IN_W].data;
    if (s.m == 1) {
        OF_LEVEL(dot_rows)(hi - lo, s.k, x, w + lo * s.k, scale + lo, y + lo);
        return;
    }
    for (int64_t j = lo; j < hi; j++) {
        row_floats(s.k, w + j * s.k, row);
        for (int64_t i = 0; i < s.m; i++) y[i * s.n + j] = OF_LEVEL(dot_floats)(s.k, x + i * s.k, row) * scale[j];
    }
}

static bool
accepts(const struct kcall *k)
{
    return k->in[IN_X].dtype == DT_F32 && k->in[IN_SCALE].dtype == DT_F32 && k->out[0].dtype == DT_F32;
}

static int
prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    UNUSED(state);
    *scratch_bytes = sizeof(float) * (size_t)sizes_of(k).k * (size_t)MAX(k->threads, 1);
    return 0;
}

static int
run(const struct kcall *k, const void *state)
{
    UNUSED(state);
    struct sizes s = sizes_of(k);
    enum { WORTH = 1 << 16 }; /* minimum number of products per thread */
    int64_t grain = MAX(1, WORTH / MAX(s.k * s.m, 1));
    team_shares(k->threads, s.n, grain, rows_range, (void *)(uintptr_t)k);
    return 0;
}

/* ---- variant: f64 ---- */

static bool
accepts_f64(const struct kcall *k)
{
    return k->in[IN_X].dtype == DT_F64 && k->in[IN_SCALE].dtype == DT_F64;
}

static int
run_f64(const struct kcall *k, const void *state)
{
    UNUSED(state);
    struct sizes s = sizes_of(k);
    const double *x = k->in[IN_X].data, *scale = k->in[IN_SCALE].data;
    const uint8_t *w = k->in[IN_W].data;
    for (int64_t at = 0, since = 0; at < s.m * s.n && !stop_after(&since, s.k * 9); at++) {
        int64_t i = at / s.n, j = at % s.n;
        double sum = 0;
        for (int64_t l = 0; l < s.k; l++) sum += x[i * s.k + l] * (double)(w[j * s.k + l] - ZERO);
        ((double *)k->out[0].data)[at] = sum * scale[j];
    }
    return 0;
}

/* Builds the gradients dx = (dy * scale) (w - 128) and dscale = sum over rows of dy * (x (w - 128)^T). */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    struct val *x = n->in[IN_X], *scale = n->in[IN_SCALE];
    struct val *centred = b_sub(b, b_cast(b, n->in[IN_W], x->type.dtype), b_integer(b, ZERO));
    if (b_wants(n, IN_X)) din[IN_X] = b_call2(b, &op_matmul, b_mul(b, dout[0], scale), centred);
    if (b_wants(n, IN_SCALE)) {
        struct val *y = b_call2(b, &op_matmul, x, b_transpose_last(b, centred));
        din[IN_SCALE] = b_sum_products(b, dout[0], y, &scale->type);
    }
}

static double
flops(const struct call *c)
{
    return 2.0 * (double)type_numel(&c->in[IN_X]) * (double)c->in[IN_W].dim[0];
}

static const struct kernel_variant variants[] = {
    {"bytes", .dense_in = true, .accepts = accepts, .prepare = prepare, .run = run},
    {"f64", .dense_in = true, .accepts = accepts_f64, .run = run_f64},
    WIDE_ROW,
    {NULL},
};

static const char product[] = BODY({
    enum { ZERO = 128 };
    const auto row = [&](int64_t i, int64_t *at) {
        for (int d = NDIM0 - 2; d >= 0; i /= dim0(d--)) at[d] = i % dim0(d);
    };
    int64_t rows = 1;
    for (int d = 0; d < NDIM0 - 1; d++) rows *= dim0(d);
    multiply(
        1, rows, dim1(0), dim1(1), {false, true},
        [&](int64_t, int64_t i) {
            int64_t at[8] = {};
            row(i, at);
            return x0_at(at);
        },
        [&](int64_t, int64_t j) {
            const int64_t at[] = {j, 0};
            return x1_at(at);
        },
        [&](int64_t l) { return l; },
        [&](int64_t i, int64_t l) {
            int64_t at[8] = {};
            at[NDIM0 - 1] = l;
            return i + x0_at(at);
        },
        [&](int64_t o) { return x0_stored(o); },
        [&](int64_t l, int64_t j) {
            const int64_t at[] = {0, l};
            return j + x1_at(at);
        },
        [&](int64_t o) { return (real)(x1_from(o) - ZERO); },
        [&](int64_t, int64_t i, int64_t j, real v) {
            int64_t at[8];
            row(i, at);
            at[NDIM0 - 1] = j;
            write(at, v * (real)x2(&j));
        });
});

const struct op op_linear_int8 = {
    .name = "linear_int8",
    .doc = "y[.., n] = scale[n] * sum over k of x[.., k] (w[n, k] - 128); w: u8",
    .result = "a tensor (..., n)",
    .errors = "x must be (..., k), w (n, k) of dtype u8, scale (n)",
    .source = "Dettmers et al. 2022, without outliers",
    .in = {{"x", IN_FLOAT}, {"w"}, {"scale", IN_FLOAT}},
    .shape.make_rule = rule,
    .shape.infer = infer,
    .shape.dtype = OUT_IN0,
    .partial.linear = "0|2",
    .partial.reduce = RED_SUM,
    .grad.build = grad,
    .grad.saves = "012",
    .host.ref = ref,
    .gpu.product = product,
    .host.kernel = variants,
    .flags = OP_NARROW | OP_UNPLACED,
    .flops = flops,
    .sample = {"f32{3,70} u8{5,70} f32{5}", "f32{1,1,130} u8{4,130} f32{4}", "bf16{2,3,6} u8{4,6} bf16{4}"},
};
