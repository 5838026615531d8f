/* pool.c - compares every variant of every pooling operator with the reference, for a table of shapes, windows,
 * dtypes and values.
 *
 * Shapes are around the sizes of plane groups and vectors. Values are ordinary numbers; or all equal, NaN, infinite,
 * or the least value of the dtype. Max pooling must give the reference's bits; averages may differ by rounding. */
#include "kernels/cpu/base/dnnl.h"
#include "kernels/op/lib/pool.h"
#include "t/lib/kernel/exec.h"

static const char *const ops[] = {"max_pool2d", "max_pool2d_grad", "max_pool2d_pick", "avg_pool2d", "avg_pool2d_grad"};
static const bool by_sum[] = {false, true, false, true, true};

/* Image shapes. */
static const char *const shapes[] = {"1,1,1,1",   "2,3,5,7",   "3,11,7,9",   "1,16,4,4", "1,17,16,16", "1,32,6,5",
                                     "2,16,3,17", "1,3,30,33", "1,2,3,70",   "1,1,40,1", "0,3,8,8",    "2,0,8,8",
                                     "1,16,8,28", "1,20,1,12", "1,18,24,24", "2,33,2,2"};
static const char *const windows[] = {
    "kernel_size=1",
    "kernel_size=1 stride=2",
    "kernel_size=2",
    "kernel_size=2 stride=1",
    "kernel_size=2 ceil_mode=true",
    "kernel_size=3 stride=1 padding=1",
    "kernel_size=3 stride=2 padding=1",
    "kernel_size=3 stride=2 padding=1 count_include_pad=false",
    "kernel_size=3 stride=2 padding=1 ceil_mode=true",
    "kernel_size=3 stride=2 padding=1 ceil_mode=true count_include_pad=false",
    "kernel_size=3 stride=3",
    "kernel_size=2,3 stride=3,1 padding=1,0",
    "kernel_size=1,4 stride=1,2 padding=0,2",
    "kernel_size=2 stride=5 ceil_mode=true",
    "kernel_size=5 stride=3 padding=2 ceil_mode=true",
    "kernel_size=7 stride=1 padding=3",
    "kernel_size=6 stride=2 padding=3 count_include_pad=false",
    "kernel_size=20,3 stride=2,3 padding=10,1",
    "kernel_size=3,66 stride=1,2",
    "kernel_size=2 stride=1 dilation=3 padding=1",
    "kernel_size=2 stride=1 dilation=3,1 padding=1,0",
    "kernel_size=3 stride=2 dilation=2 padding=1 ceil_mode=true",
    "kernel_size=1,3 stride=3 dilation=4,2",
    "kernel_size=3,2 stride=2,1 ceil_mode=true",
    "kernel_size=9 stride=8,5 padding=2,4 ceil_mode=true",
    "kernel_size=9 stride=8,5 padding=2,4 ceil_mode=true count_include_pad=false",
    "kernel_size=40,12 stride=39,11 ceil_mode=true",
    "kernel_size=3 stride=5,3 padding=1,0 dilation=4,2 ceil_mode=true",
};
/* Shapes for large windows. Each window has more than PLANE_LONG elements, or each element is part of more than
 * PLANE_LONG windows. */
static const char *const long_shapes[] = {"1,2,70,70", "1,1,66,71"};
static const char *const long_windows[] = {
    "kernel_size=65 stride=1 padding=32",
    "kernel_size=65 stride=1 padding=32 count_include_pad=false",
    "kernel_size=66 stride=1",
    "kernel_size=66,70 stride=3,1 padding=30,2 ceil_mode=true count_include_pad=false",
};
static const enum dtype dtypes[] = {DT_F32, DT_BF16, DT_F16, DT_F64};

enum values { ORDINARY, EQUAL, STRANGE, LEAST, NOT_A_NUMBER, NVALUES };
static const char *const values_text[] = {"ordinary", "equal", "special", "-infinity", "NaN"};

struct trial {
    struct sample sample;
    struct arena arena;
    struct rule rule;
    struct view view[SAMPLE_IN + OP_OUT];
    void *data[SAMPLE_IN + OP_OUT]; /* operands, and the results of the reference */
};

/* ---- one call ---- */

static double
value(enum values v, uint64_t *random)
{
    static const double strange[] = {NAN, -NAN, INFINITY, -INFINITY, 0, -0.0};
    uint64_t r = next_random(random);
    switch (v) {
    case EQUAL: return (double)(r % 3) - 1;
    case STRANGE: return r % 2 ? strange[r / 2 % countof(strange)] : (double)(r % 100) / 8;
    case LEAST: return -INFINITY;
    case NOT_A_NUMBER: return NAN;
    default: return (double)(r % 4001) / 1000 - 2;
    }
}

/* Fills the operands with values and runs the reference. Only operand 0, the image, has unusual values; the second
 * operand of a gradient has ordinary values. */
static bool
trial_open(struct trial *t, const char *op, const char *text, enum values v, uint64_t seed)
{
    memset(t, 0, sizeof *t);
    struct call *c = &t->sample.call;
    if (!sample_read(op_find(op), text, &t->sample) || call_infer(&t->arena, c, &t->rule)) return false;
    for (int k = 0; k < c->nin + c->nout; k++) {
        const struct type *type = k < c->nin ? &c->in[k] : &c->out[k - c->nin];
        t->data[k] = must_alloc((size_t)type_bytes(type) + 1);
        t->view[k] = view_dense(type, t->data[k]);
        for (int64_t i = 0; k < c->nin && i < type_numel(type); i++)
            elem_set_f(type->dtype, t->data[k], i, value(k ? ORDINARY : v, &seed));
    }
    struct kcall k = {.call = c, .in = t->view, .out = t->view + c->nin, .threads = 1};
    return !ref_run(&k);
}

static void
trial_close(struct trial *t)
{
    for (int k = 0; k < SAMPLE_IN + OP_OUT; k++) free(t->data[k]);
    arena_fini(&t->arena);
}

/* Computes the call by one variant and writes the results to `to`. Returns false if this variant does not accept the
 * call. */
static bool
run(const struct trial *t, const struct kernel_variant *variant, int threads, void *to)
{
    const struct kernel_variant alone[2] = {*variant, {NULL}};
    struct op op = *t->sample.call.op;
    struct call c = t->sample.call;
    struct kcall k = {.call = &c, .in = t->view, .out = t->view + c.nin, .threads = threads};
    struct exec *e;
    op.host.kernel = alone;
    c.op = &op;
    if (exec_new(&k, DEV_CPU, &e)) return ok(false, "%s is prepared: %s", op.name, err_text());
    bool taken = !strcmp(exec_variant(e), variant->name);
    if (taken && exec_once(&e, t->data, &to, 0)) ok(false, "%s runs: %s", op.name, err_text());
    if (e) exec_free(&e);
    return taken;
}

static double
tolerance(enum dtype d, bool sum)
{
    return !sum ? 0 : d == DT_F64 ? 1e-14 : d == DT_F32 ? 2e-6 : d == DT_F16 ? 1e-3 : 8e-3;
}

static bool
equal(const struct view *want, const void *got, bool sum)
{
    double largest = 1;
    for (int64_t i = 0; i < view_numel(want); i++) {
        double w = elem_get_f(want->dtype, want->data, i);
        if (isfinite(w)) largest = fmax(largest, fabs(w));
    }
    for (int64_t i = 0; i < view_numel(want); i++) {
        double g = elem_get_f(want->dtype, got, i), w = elem_get_f(want->dtype, want->data, i);
        bool same = g == w || (isnan(g) && isnan(w)) || fabs(g - w) <= tolerance(want->dtype, sum) * largest;
        if (!same) diag("element %lld is %.9g, expected %.9g by the reference", (long long)i, g, w);
        if (!same) return false;
    }
    return true;
}

/* ---- the table ---- */

/* Writes the operands and attributes of a call of op as text, for images of a shape. Returns false if the window
 * does not fit into the image. */
static bool
write_call(char *text, size_t capacity, const char *op, enum dtype d, const char *shape, const char *window)
{
    const char *dtype = dtype_text(d);
    struct trial t;
    char pooled[64];
    snprintf(text, capacity, "%s{%s} %s", dtype, shape, window);
    bool fits = trial_open(&t, strstr(window, "dilation") ? "max_pool2d" : "avg_pool2d", text, ORDINARY, 1);
    const struct type *x = &t.sample.in[0], *y = &t.sample.out[0];
    snprintf(pooled, sizeof pooled, "%lld,%lld,%lld,%lld", (long long)y->dim[0], (long long)y->dim[1],
             (long long)y->dim[2], (long long)y->dim[3]);
    if (!strcmp(op, "max_pool2d_grad"))
        snprintf(text, capacity, "%s{%s} %s{%s} %s", dtype, shape, dtype, pooled, window);
    if (!strcmp(op, "max_pool2d_pick"))
        snprintf(text, capacity, "%s{%s} %s{%s} %s", dtype, shape, dtype, shape, window);
    if (!strcmp(op, "avg_pool2d_grad"))
        snprintf(text, capacity, "%s{%s} %s size=%lld,%lld", dtype, pooled, window, (long long)x->dim[2],
                 (long long)x->dim[3]);
    trial_close(&t);
    return fits;
}

/* Checks that two threads give the bits of one thread, and that one thread agrees with the reference. */
static bool
variant_is_right(const struct trial *t, const struct kernel_variant *variant, bool sum, int *taken)
{
    const struct call *c = &t->sample.call;
    size_t bytes = (size_t)type_bytes(&c->out[0]);
    void *one = must_alloc(bytes + 1), *two = must_alloc(bytes + 1);
    bool right = true;
    if (run(t, variant, 1, one)) {
        run(t, variant, 2, two);
        right = equal(&t->view[c->nin], one, sum) && !memcmp(one, two, bytes);
        ++*taken;
    }
    free(one);
    free(two);
    return right;
}

static int
try_variant(size_t o, const struct kernel_variant *variant, enum dtype d, const char *const *shape, size_t nshape,
            const char *window, uint64_t seed)
{
    bool right = true;
    int taken = 0;
    for (size_t s = 0; s < nshape; s++)
        for (int v = 0; v < NVALUES; v++) {
            char text[200];
            struct trial t;
            if (!write_call(text, sizeof text, ops[o], d, shape[s], window)) continue;
            bool good = trial_open(&t, ops[o], text, (enum values)v, seed + s) &&
                        variant_is_right(&t, variant, by_sum[o], &taken);
            if (!good) diag("%s, %s values", text, values_text[v]);
            right &= good;
            trial_close(&t);
        }
    if (taken) ok(right, "%s %s %s: \"%s\" equals the reference", ops[o], dtype_text(d), window, variant->name);
    return taken;
}

static void
test_rows(uint64_t seed)
{
    for (size_t o = 0; o < countof(ops); o++)
        for (const struct kernel_variant *variant = op_find(ops[o])->host.kernel; variant->name; variant++) {
            int taken = 0;
            for (size_t d = 0; d < countof(dtypes); d++)
                for (size_t w = 0; w < countof(windows); w++)
                    if (share_next() && (!strstr(windows[w], "dilation") || !strncmp(ops[o], "max", 3)))
                        taken += try_variant(o, variant, dtypes[d], shapes, countof(shapes), windows[w], seed + w);
            bool few = !strcmp(variant->name, "dnnl") && prim_dtype(DT_BF16) == dnnl_data_type_undef;
            ok(!share_all() || taken >= (few ? 1 : 100), "%s: \"%s\" accepted %d calls", ops[o], variant->name, taken);
        }
}

static void
test_long(uint64_t seed)
{
    for (size_t o = 3; o < countof(ops); o++)
        for (const struct kernel_variant *variant = op_find(ops[o])->host.kernel; variant->name; variant++)
            for (size_t d = 0; d < countof(dtypes); d++)
                for (size_t w = 0; w < countof(long_windows); w++)
                    if (share_next())
                        try_variant(o, variant, dtypes[d], long_shapes, countof(long_shapes), long_windows[w],
                                    seed + w);
}

/* Checks two kinds of oneDNN's averages: over windows that the image's edge cuts (ceil_mode), without counting the
 * padding; and over windows that extend into the padding, counting it. */
static void
test_count_padding(uint64_t seed)
{
    const struct kernel_variant *dnnl = op_find(ops[3])->host.kernel;
    while (strcmp(dnnl->name, "dnnl")) dnnl++;
    const char *shape = "1,16,8,28",
               *window = "kernel_size=3 stride=2 padding=1 ceil_mode=true count_include_pad=false";
    ok(try_variant(3, dnnl, DT_F32, &shape, 1, window, seed) == NVALUES, "oneDNN averages the parts of cut windows");
    ok(try_variant(3, dnnl, DT_F32, &shape, 1, "kernel_size=3 stride=1 padding=1", seed) == NVALUES,
       "oneDNN's averages count padding");
}

/* Checks that a batch of 33 planes gives the same bits as a separate call for each plane. */
static void
test_groups(const char *op, enum dtype d, const char *window, uint64_t seed)
{
    char text[2][200];
    struct trial all, one;
    bool same = true;
    write_call(text[0], sizeof text[0], op, d, "3,11,7,9", window);
    write_call(text[1], sizeof text[1], op, d, "1,1,7,9", window);
    const struct kernel_variant *variant = op_find(op)->host.kernel;
    while (strcmp(variant->name, "simd")) variant++;
    trial_open(&all, op, text[0], ORDINARY, seed);
    trial_open(&one, op, text[1], ORDINARY, seed);
    int nin = all.sample.call.nin;
    size_t bytes = (size_t)type_bytes(&one.sample.out[0]);
    char *got = must_alloc((size_t)type_bytes(&all.sample.out[0])), *alone = must_alloc(bytes);
    run(&all, variant, 1, got);
    for (size_t plane = 0; plane < 33; plane++) {
        for (int k = 0; k < nin; k++) {
            size_t size = (size_t)type_bytes(&one.sample.in[k]);
            memcpy(one.data[k], (char *)all.data[k] + plane * size, size);
        }
        run(&one, variant, 1, alone);
        same &= !memcmp(got + plane * bytes, alone, bytes);
    }
    ok(same, "%s of %s, %s: a plane has the same bits alone and in a batch", op, dtype_text(d), window);
    free(got);
    free(alone);
    trial_close(&all);
    trial_close(&one);
}

/* ---- counting the windows of a dimension ---- */

/* Returns true if window u exists along a dimension. Without ceil_mode, the window must fit into the padded image.
 * With ceil_mode, the window must start in or before the image, and the previous window must not reach the end of
 * the padded image. */
static bool
is_window(const struct window *w, bool ceil_mode, int64_t n, int64_t u)
{
    int64_t start = u * w->stride, end = start + w->dilation * (w->kernel - 1) + 1, all = n + 2 * w->padding;
    return ceil_mode ? start < n + w->padding && end - w->stride < all : end <= all;
}

static void
test_sizes(void)
{
    for (int ceil_mode = 0; ceil_mode < 2; ceil_mode++) {
        int wrong = 0;
        for (int i = 0; i < 7 * 7 * 6 * 4 * 4; i++) {
            int64_t n = 1 + i % 7, kernel = 1 + i / 7 % 7, stride = 1 + i / 49 % 6;
            int64_t padding = i / 294 % 4, dilation = 1 + i / 1176, count = 0;
            struct attr attr[OP_ATTR] = {[POOL_KERNEL] = {.n = 1, .list = {kernel}},
                                         [POOL_STRIDE] = {.n = 1, .list = {stride}},
                                         [POOL_PADDING] = {.n = 1, .list = {padding}},
                                         [POOL_DILATION] = {.n = 1, .list = {dilation}},
                                         [POOL_CEIL] = {.i = ceil_mode}};
            const struct window w = pool_window(attr, 0);
            if (padding > kernel / 2) continue;
            while (is_window(&w, ceil_mode, n, count)) count++;
            wrong += pool_size(attr, 0, n) != count;
        }
        ok(!wrong, "pool_size counts the windows, %s",
           ceil_mode ? "also a last one beyond the padding" : "all in the padded image");
    }
}

int
main(void)
{
    uint64_t seed = seed_of(1);
    test_sizes();
    test_rows(seed);
    test_long(seed);
    test_count_padding(seed);
    for (size_t o = 0; o < 2 * countof(ops); o++) {
        const char *op = ops[o / 2];
        enum dtype d = o % 2 ? DT_F64 : DT_F32;
        if (!share_next()) continue;
        test_groups(op, d, "kernel_size=3 stride=1 padding=1", seed);
        test_groups(op, d, "kernel_size=5 stride=2 padding=2", seed);
        test_groups(op, d, "kernel_size=5 stride=3 padding=2", seed);
    }
    return done();
}
