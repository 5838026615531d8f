/* rescale.c - gradient clipping: multiplies a gradient by a factor f, which is 1 if the norm of all gradients is
 * within the bound.
 *
 *   y = f x, of x's dtype; f has no dimensions
 *
 * The operator is linear in x and in f, like mul, but may write its result over x, and does nothing if f is 1. So
 * clipping reads and writes each gradient once, in place, and gradients within the bound are not touched. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/op/base/op_impl.h"

#include "kernels/cpu/base/convert.h"
#include "kernels/cpu/base/team.h"
#include "kernels/cpu/eltwise/tile.h"
#include "runtime/base/simd.h"

#include <string.h>

enum { X, F };
enum { BLOCK = 2048 };

static int
rule(const struct call *c, struct str *rule)
{
    struct str x = {0};
    for (int d = 0; d < c->in[X].ndim; d++) str_addf(&x, "%c", letter(d));
    str_addf(rule, "%s,->%s", str_text(&x), str_text(&x));
    str_free(&x);
    return 0;
}

static int
infer(const struct call *c, int64_t *size)
{
    UNUSED(size);
    if (c->in[F].ndim > 0) return call_fail(E_SHAPE, c, "f must have no dimensions");
    return 0;
}

static int
ref(const struct kcall *k)
{
    double f = *f64_of(&k->in[F]);
    int64_t n = view_numel(&k->in[X]);
    for (int64_t i = 0; i < n; i++) f64_of(&k->out[0])[i] = f * f64_of(&k->in[X])[i];
    return 0;
}

/* y may be the same memory as x. */
#define TIMES(name, type)                                                                                              \
    VECTOR static void name(int64_t n, type f, const type *x, type *y)                                                 \
    {                                                                                                                  \
        INDEPENDENT                                                                                                    \
        for (int64_t i = 0; i < n; i++) y[i] = f * x[i];                                                               \
    }

TIMES(times_f32, float)
TIMES(times_f64, double)

struct part {
    enum dtype dtype;
    double f;
    const char *x;
    char *y;
};

static void
halves(const struct part *p, int64_t lo, int64_t hi)
{
    size_t bytes = dtype_bytes(p->dtype);
    float block[BLOCK];
    for (int64_t i = lo; i < hi; i += BLOCK) {
        int64_t n = MIN(hi - i, BLOCK);
        block_load(COMP_F32, p->dtype, p->x + (size_t)i * bytes, 1, n, block);
        times_f32(n, (float)p->f, block, block);
        block_store(COMP_F32, p->dtype, block, n, p->y + (size_t)i * bytes, 1);
    }
}

static void
range(void *arg, int64_t lo, int64_t hi)
{
    const struct part *p = arg;
    size_t bytes = dtype_bytes(p->dtype), skip = (size_t)lo * bytes;
    if (p->f == 1)
        memcpy(p->y + skip, p->x + skip, (size_t)(hi - lo) * bytes);
    else if (p->dtype == DT_F64)
        times_f64(hi - lo, p->f, (const double *)p->x + lo, (double *)p->y + lo);
    else if (p->dtype == DT_F32)
        times_f32(hi - lo, (float)p->f, (const float *)p->x + lo, (float *)p->y + lo);
    else
        halves(p, lo, hi);
}

static int
run(const struct kcall *k, const void *state)
{
    enum { GRAIN = 1 << 15 };
    UNUSED(state);
    struct part p = {k->in[X].dtype, elem_get_f(k->in[F].dtype, k->in[F].data, 0), k->in[X].data, k->out[0].data};
    if (p.f != 1 || p.x != p.y) team_run(k->threads, view_numel(&k->in[X]), GRAIN, range, &p);
    return 0;
}

/* Builds dx = f dy and df = sum of x dy. */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    const struct type *x = &n->in[X]->type, *f = &n->in[F]->type;
    if (b_wants(n, X)) din[X] = b_cast(b, b_mul(b, dout[0], n->in[F]), x->dtype);
    if (b_wants(n, F)) din[F] = b_cast(b, b_sum_products(b, dout[0], n->in[X], f), f->dtype);
}

static const struct kernel_variant variants[] = {{"simd", .dense_in = true, .run = run}, {NULL}};

static const char line[] = BODY({
    const real f = x1(0);
    each([&](element i) { y0(i, f * (real)x0(i)); });
});

const struct op op_rescale = {
    .name = "rescale",
    .doc = "y = f x, with one number f",
    .in = {{"x", IN_FLOAT}, {"f", IN_FLOAT}},
    .shape.make_rule = rule,
    .shape.infer = infer,
    .shape.dtype = OUT_IN0,
    .partial.linear = "0|1",
    .grad.build = grad,
    .grad.saves = "01",
    .eltwise = {.tile = TILE_MUL}, /* an optimiser update may compute this product itself (update.h) */
    .host.ref = ref,
    .gpu.line = line,
    .gpu.line_dims = no_dims,
    .host.kernel = variants,
    .ninplace = 1,
    .flags = OP_INPLACE | OP_HIDDEN | OP_UNPLACED,
    .sample = {"f32{4,6} f32{}", "bf16{17} f32{}", "f64{3,5,7} f64{}", "f16{2,0} f32{}", "f32{} f32{}"},
};
