/* long.c - tests that long sums of floats are exact: sums of twenty million ones. (Addition in f32 would stop at
 * 16,777,216.) Also tests long matrix products, which accumulate in f32: errors must be small, and bits must not
 * depend on the number of threads. */
#include "runtime/data/rng.h"
#include "t/lib/kernel/exec.h"
#include "sbp/infer.h"

/* Calls of operators that sum. Operands contain ones, and ids are zeros. Absent operands stay absent. */
static const struct {
    const char *op, *text;
    double want;
    int result; /* index of the result whose last element is checked */
} sums[] = {
    {"sum", "f32{20000000}", 2e7, 0},
    {"sum", "f32{20000000,1} axis=0", 2e7, 0},
    {"sum", "f32{10000001,2} axis=0", 10000001, 0},
    {"cumsum", "f32{20000000} axis=0", 2e7, 0},
    {"index_add", "f32{1} i32{20000000}<1 f32{20000000} axis=0", 2e7, 0},
    {"gather_grad", "f32{1} i32{20000000}<1 f32{20000000} axis=0", 2e7, 0},
    {"norm_grad", "f32{20000000,1} f32{20000000,1} f32{1} eps=0 center=0", 2e7, 1},
    {"norm_grad", "f32{20000000,1} f32{20000000,1} f32{1} eps=0 center=0", 2e7, 2},
    {"exp_sum", "f32{20000000} f32{1} axis=0", 2e7, 0},
    {"cross_entropy_parts", "f32{20000000} i64{}<20000000 f32{}", 2e7, 0},
    {"avg_pool2d", "f32{1,1,1,20000000} kernel_size=1,20000000", 1, 0},
    {"avg_pool2d", "f32{1,1,20000000,1} kernel_size=20000000,1", 1, 0},
    {"avg_pool2d", "f32{1,1,4001,5000} kernel_size=4000,4999 stride=1", 1, 0},
    {"avg_pool2d", "f32{1,17,1000,1001} kernel_size=1000 stride=1", 1, 0},
    {"avg_pool2d", "f32{1,17,500000,3} kernel_size=500000,3", 1, 0},
    {"avg_pool2d", "bf16{1,17,1000,1000} kernel_size=1000", 1, 0},
    {"avg_pool2d", "f16{1,17,1000,1000} kernel_size=1000", 1, 0},
};

/* Fills a tensor with copies of its first n elements. */
static void
repeat(const struct type *t, char *to, int64_t n)
{
    size_t all = (size_t)type_bytes(t);
    for (size_t at = (size_t)n * dtype_bytes(t->dtype); at < all; at *= 2) memcpy(to + at, to, MIN(at, all - at));
}

static void *
ones(const struct type *t)
{
    char *p = must_alloc((size_t)type_bytes(t) + 1);
    bool some = t->dtype && type_numel(t) > 0;
    if (some) elem_set_f(t->dtype, p, 0, dtype_is_float((enum dtype)t->dtype));
    if (some) repeat(t, p, 1);
    return p;
}

static void
try_sum(const char *op, const char *text, double want, int result)
{
    struct arena a = {0};
    struct sample s;
    struct rule rule;
    struct view view[SAMPLE_IN + OP_OUT];
    void *data[SAMPLE_IN + OP_OUT];
    if (!ok(sample_read(op_find(op), text, &s) && !call_infer(&a, &s.call, &rule), "%s %s can be called", op, text))
        return;
    int n = s.call.nin + s.call.nout;
    for (int i = 0; i < n; i++) {
        const struct type *t = i < s.call.nin ? &s.in[i] : &s.out[i - s.call.nin];
        view[i] = view_dense(t, NULL);
        data[i] = ones(t);
    }
    struct kcall k = {.call = &s.call, .in = view, .out = view + s.call.nin, .threads = 2};
    int status = kcall_once(&k, data, data + s.call.nin, NULL);
    const struct type *last = &s.out[result];
    double got = elem_get_f(last->dtype, data[s.call.nin + result], type_numel(last) - 1);
    if (!ok(!status && got == want, "%s %s of ones: result %d is the number of ones", op, text, result))
        diag("%.1f, not %.1f", got, want);
    for (int i = 0; i < n; i++) free(data[i]);
    arena_fini(&a);
}

/* ---- products: accumulate in f32, in several parts if long ---- */

static const struct {
    const char *op, *text;
    bool transposed[2]; /* by operand: true if the operand is column-major */
    double within;      /* allowed relative error */
} products[] = {
    {"matmul", "f32{4000000} f32{4000000}", {0}, 1e-4},
    {"matmul", "f32{1,1000000} f32{1000000,64}", {0}, 1e-4},
    {"matmul", "f32{1,1000000} f32{1000000,7}", {false, true}, 1e-4},
    {"matmul", "f32{64,1000000} f32{1000000,1}", {0}, 1e-4},
    {"matmul", "f32{64,1000000} f32{1000000,1}", {true, false}, 1e-4},
    {"matmul", "f32{3,1000003} f32{1000003,5}", {0}, 1e-4},
    {"matmul", "f32{3,1000003} f32{1000003,21}", {0}, 1e-4},
    {"matmul", "f32{8,1000000} f32{1000000,16}", {false, true}, 1e-4},
    {"matmul", "f32{8,70000} f32{70000,16}", {0}, 1e-4},
    {"matmul", "f32{70,300001} f32{300001,33}", {true, true}, 1e-4},
    {"matmul", "f32{7,100003} f32{100003,3}", {true, false}, 1e-4},
    {"matmul", "f32{3,1000000} f32{1000000,2}", {true, false}, 1e-4},
    {"matmul", "f32{16,70000} f32{70000,16}", {true, false}, 1e-4},
    {"matmul", "f32{2,10000000} f32{10000000,2}", {0}, 1e-4},
    {"matmul", "f32{2,10000000} f32{10000000,2}", {true, true}, 1e-4},
    {"matmul", "f32{5,2,200000} f32{5,200000,3}", {0}, 1e-4},
    {"matmul", "f32{5,9,100000} f32{5,100000,12}", {0}, 1e-4},
    {"contract", "f32{1000000,1} f32{1000000,1}", {0}, 1e-4},
    {"contract", "f32{1000000,64} f32{1000000,1}", {0}, 1e-4},
    {"contract", "f32{1000,1000,9} f32{1000,1000,11}", {0}, 1e-4},
    {"contract", "bf16{1000000,1} bf16{1000000,1} dtype=f32", {0}, 1e-4},
    {"contract", "bf16{1000000,8} bf16{1000000,16} dtype=f32", {0}, 1e-4},
    {"contract", "f16{1000000,8} f16{1000000,16} dtype=f32", {0}, 1e-4},
    {"contract", "f16{300000,40} f16{300000,33} dtype=f32", {0}, 1e-4},
    {"matmul", "f16{1,1000000} f16{1000000,20}", {0}, 0x1p-10},
    {"matmul", "bf16{1,1000000} bf16{1000000,20}", {0}, 0x1p-8},
    {"matmul", "bf16{1,1000000} bf16{1000000,20}", {false, true}, 0x1p-8},
    {"matmul", "bf16{64,1000000} bf16{1000000,20}", {0}, 0x1p-8},
};

/* Fills an operand with 0.1, rounded to its dtype, and returns the rounded value. Sums of products of this value are
 * inexact and do not overflow f16. */
static double
fill(const struct type *t, void *to)
{
    elem_set_f(t->dtype, to, 0, 0.1);
    repeat(t, to, 1);
    return elem_get_f(t->dtype, to, 0);
}

/* Fills an operand with random values, whose sum depends on the order of additions. The values repeat after a prime
 * number of elements, so rows and columns differ. */
static void
fill_at_random(const struct type *t, void *to, uint64_t seed)
{
    int64_t n = MIN(type_numel(t), 65537);
    for (int64_t i = 0; i < n; i++) elem_set_f(t->dtype, to, i, rng_uniform(seed, 0, (uint64_t)i, 24) - 0.5);
    repeat(t, to, n);
}

static void
turn(struct view *v)
{
    v->stride[0] = 1;
    v->stride[1] = v->dim[0];
}

static bool
multiply(struct sample *s, struct view *view, void **data, int threads)
{
    struct kcall k = {.call = &s->call, .in = view, .out = view + s->call.nin, .threads = threads};
    return !kcall_once(&k, data, data + s->call.nin, NULL);
}

static void
try_product(const char *op, const char *text, const bool *transposed, double within)
{
    struct arena a = {0};
    struct sample s;
    struct rule rule;
    struct view view[3];
    void *data[3];
    double x = 0, worst = 0;
    if (!ok(sample_read(op_find(op), text, &s) && !call_infer(&a, &s.call, &rule), "%s %s can be called", op, text))
        return;
    const struct type *out = &s.out[0];
    for (int i = 0; i < 3; i++) {
        const struct type *t = i < 2 ? &s.in[i] : out;
        view[i] = view_dense(t, NULL);
        data[i] = must_alloc((size_t)type_bytes(t));
        if (i < 2 && transposed[i]) turn(&view[i]);
        if (i < 2) x = fill(t, data[i]);
    }
    /* matmul sums over the last dimension of operand 0, contract over all other dimensions */
    bool last = !strcmp(op, "matmul");
    int64_t n = s.in[0].dim[s.in[0].ndim - 1], terms = last ? n : type_numel(&s.in[0]) / n;
    void *one = must_alloc((size_t)type_bytes(out));
    bool good = multiply(&s, view, data, 1);
    memcpy(one, data[2], (size_t)type_bytes(out));
    for (int64_t i = 0; i < type_numel(out); i++)
        worst = fmax(worst, fabs(elem_get_f(out->dtype, one, i) / (x * x * (double)terms) - 1));
    if (!ok(good && worst <= within, "%s %s%s%s has a relative error of at most %.1g", op, text,
            transposed[0] ? ", a transposed" : "", transposed[1] ? ", b transposed" : "", within))
        diag("off by %.2g", worst);
    for (int i = 0; i < 2; i++) fill_at_random(&s.in[i], data[i], (uint64_t)i);
    bool same = multiply(&s, view, data, 1);
    memcpy(one, data[2], (size_t)type_bytes(out));
    for (int threads = 2; threads <= 3; threads++)
        same = same && multiply(&s, view, data, threads) && !memcmp(one, data[2], (size_t)type_bytes(out));
    if (out->dtype != DT_BF16) ok(same, "two and three threads give the same bits");
    free(one);
    for (int i = 0; i < 3; i++) free(data[i]);
    arena_fini(&a);
}

int
main(void)
{
    for (size_t i = 0; i < countof(products); i++)
        if (share_next()) try_product(products[i].op, products[i].text, products[i].transposed, products[i].within);
    for (size_t i = 0; i < countof(sums); i++)
        if (share_next()) try_sum(sums[i].op, sums[i].text, sums[i].want, sums[i].result);
    return done();
}
