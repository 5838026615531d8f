/* reduce.c - compares sums, products, maxima, minima and sums of squares with a plain loop, for every dtype and
 * along each axis. Rows and columns have every length that a kernel treats specially. Memory layouts are dense,
 * transposed, repeated, reversed, strided and unaligned. Values are ordinary numbers, NaN, infinities, zeros of both
 * signs, and subnormals, which count as zeros. */
#include "kernels/cpu/rows/fold.h"
#include "runtime/base/denormal.h"
#include "t/lib/kernel/exec.h"
#include "sbp/infer.h"

enum { DENSE, TURNED, REPEATED, BACKWARDS, FAR, NFORM };
enum { ORDINARY, ONE_NAN, ONE_INFINITE, BOTH_INFINITE, ZEROS, SUBNORMAL, NVALUES };
static const char *const form_text[] = {"dense", "transposed", "repeated", "reversed", "strided"};
static const char *const op_text[] = {"sum", "prod", "max", "min", "square_sum"};
enum { SUM, PROD, GREATEST, LEAST, SQUARES, NOP };

static double
value_of(int values, int op, int64_t i, int64_t n)
{
    double v = op == PROD ? 1 + (double)(i * 7 % 13 - 6) / 1024 : (double)(i * 7919 % 1013 - 506) / 64;
    if (values == ONE_NAN && i == n / 3) return NAN;
    if (values == ONE_INFINITE && i == n / 2) return -INFINITY;
    if (values == BOTH_INFINITE && i % 5 == 1) return i % 2 ? INFINITY : -INFINITY;
    if (values == ZEROS) return i % 3 ? -0.0 : 0.0;
    if (values == SUBNORMAL) return i % 2 ? 0x1p-140 : -0x1p-135;
    return v;
}

/* Returns a view of m rows of n elements in this layout. */
static struct view
view_of(enum dtype d, int form, int64_t m, int64_t n, char *data)
{
    struct view v = {.dtype = (uint8_t)d, .ndim = 2, .dim = {m, n}, .global = {m, n}};
    int64_t stride[NFORM][2] = {{n, 1}, {1, m}, {0, 1}, {-n, -1}, {n * 3 + 1, 2}},
            first = form == BACKWARDS ? m * n - 1 : 0;
    v.stride[0] = stride[form][0];
    v.stride[1] = stride[form][1];
    /* data begins at an address that is not aligned to vectors */
    v.data = data + (1 + first) * (int64_t)dtype_bytes(d);
    return v;
}

static double
combined(int op, double a, double x)
{
    switch (op) {
    case SUM: return a + x;
    case PROD: return a * x;
    case GREATEST: return isnan(a) ? a : isnan(x) || x > a ? x : a;
    case LEAST: return isnan(a) ? a : isnan(x) || x < a ? x : a;
    default: return a + x * x;
    }
}

struct tried {
    int bad, n;
};

/* Checks result k: computes it by a plain loop over rows r0 to r1 and columns c0 to c1. */
static void
look(struct tried *t, const struct view *x, const struct view *y, int op, int64_t k, int64_t r0, int64_t r1, int64_t c0,
     int64_t c1)
{
    static const double first[NOP] = {0, 1, -INFINITY, INFINITY, 0};
    enum dtype d = x->dtype;
    bool whole = !dtype_is_float(d);
    double a = first[op], size = 0;
    int64_t i = op == PROD, least = op == GREATEST ? INT64_MIN : INT64_MAX;
    for (int64_t r = r0; r < r1; r++)
        for (int64_t c = c0; c < c1; c++) {
            int64_t at = r * x->stride[0] + c * x->stride[1];
            double v = elem_get_f(d, x->data, at);
            a = combined(op, a, v);
            size += fabs(op == SQUARES ? v * v : v);
            if (!whole) continue;
            int64_t w = elem_get_i(d, x->data, at);
            i = op == SUM ? i + w : op == PROD ? (int64_t)((uint64_t)i * (uint64_t)w) : i;
            least = op == GREATEST ? MAX(least, w) : MIN(least, w);
        }
    t->n++;
    if (whole) {
        t->bad += elem_get_i(y->dtype, y->data, k) != (op == SUM || op == PROD ? i : least);
        return;
    }
    static const double last[NDTYPE] = {[DT_F32] = 0x1p-23, [DT_F64] = 0x1p-45, [DT_BF16] = 0x1p-8, [DT_F16] = 0x1p-10};
    double got = elem_get_f(y->dtype, y->data, k), most = y->dtype == DT_F16 ? 65504 : INFINITY;
    double near = (op == GREATEST || op == LEAST ? 0 : last[y->dtype] * fabs(a) + 0x1p-45 * size);
    if (fabs(a) > most) a = copysign(INFINITY, a);
    bool good = isnan(a) ? isnan(got) : isinf(a) ? got == a : fabs(got - a) <= near + (op == PROD ? 1e-7 : 0);
    bool sign = op != SUM || a != 0 || got != 0 || !signbit(got) == !signbit(a);
    t->bad += !good || !sign;
}

static int
try_one(struct tried *t, int op, enum dtype d, int form, int64_t m, int64_t n, int axis, int values)
{
    char text[100], what[20];
    snprintf(what, sizeof what, axis < 0 || op == SQUARES ? "" : "axis=%d", axis);
    snprintf(text, sizeof text, "%s{%lld,%lld} %s", dtype_text(d), (long long)m, (long long)n, what);
    struct arena arena = {0};
    struct sample s;
    struct rule rule;
    int64_t room = 2 + (form == FAR ? m * (n * 3 + 1) + 2 * n : m * n);
    char *from = calloc((size_t)room, 8);
    TRY(sample_read(op_find(op_text[op]), text, &s) ? 0 : fail(E_ARG, "%s", text));
    TRY(call_infer(&arena, &s.call, &rule));
    struct view x = view_of(d, form, m, n, from), y = view_dense(&s.out[0], NULL);
    char *to = aligned_alloc(64, ((size_t)view_numel(&y) * 8 + 127) / 64 * 64);
    for (int64_t r = 0; r < m; r++)
        for (int64_t c = 0; c < n; c++) {
            double v = value_of(values, op, r * n + c, m * n);
            int64_t at = r * x.stride[0] + c * x.stride[1];
            if (dtype_is_float(d))
                elem_set_f(d, x.data, at, v);
            else
                elem_set_i(d, x.data, at, (int64_t)(r * n + c) * 7919 % 251 - (d == DT_U8 ? 0 : 125));
        }
    struct kcall k = {.call = &s.call, .in = &x, .out = &y, .threads = 1 + (int)((m + n) % 3)};
    TRY(kcall_once(&k, &x.data, (void *[]){to}, NULL));
    y.data = to;
    for (int64_t i = 0; i < view_numel(&y); i++)
        if (axis < 0 || op == SQUARES)
            look(t, &x, &y, op, i, 0, m, 0, n);
        else
            look(t, &x, &y, op, i, axis ? i : 0, axis ? i + 1 : m, axis ? 0 : i, axis ? n : i + 1);
    free(from);
    free(to);
    arena_fini(&arena);
    return 0;
}

static void
try_row(int op, enum dtype d, int form)
{
    static const int64_t rows[] = {1, 2, 5, 70}, sizes[] = {255, 257, 777, 4097, 20001};
    struct tried t = {0};
    int status = 0;
    for (int64_t n = 1; n < 140 + (int64_t)countof(sizes); n += n < 20 || n > 60 ? 1 : 3)
        for (size_t i = 0; i < countof(rows); i++) {
            int64_t m = rows[i], size = n < 140 ? n : sizes[n - 140];
            if (size > 1000 && m > 5) continue;
            int values = dtype_is_float(d) ? (int)((n + (int64_t)i) % NVALUES) : ORDINARY;
            if (op == PROD && values != ONE_NAN && values != ZEROS) values = ORDINARY;
            for (int axis = -1; axis < 2 && !status; axis++) {
                status = try_one(&t, op, d, form, m, size, axis, values);
                if (!status) status = try_one(&t, op, d, form, size, m, axis, values);
            }
        }
    if (!ok(!status && t.bad == 0, "%s of %s, %s: %d results are right", op_text[op], dtype_text(d), form_text[form],
            t.n))
        diag("%d differ; %s", t.bad, status ? err_text() : "");
}

/* Checks that sums of -0 are -0, both in columns that are summed as vectors and in the columns that do not fill a
 * vector. */
static void
zero_columns(enum dtype d)
{
    static const float want = -0.0f;
    uint16_t x[FOLD_ROWS * 200];
    float sum[200];
    int bad = 0;
    for (int64_t i = 0; i < (int64_t)countof(x); i++) elem_set_f(d, x, i, -0.0);
    for (int64_t n = 1; n <= 200; n++)
        for (int64_t rows = 1; rows <= FOLD_ROWS; rows++) {
            bad += !fold_halves(d, x, 200, rows, n, sum);
            for (int64_t i = 0; i < n; i++) bad += memcmp(&sum[i], &want, sizeof want) != 0;
        }
    ok(bad == 0, "columns of %s that are -0 sum to -0: %d differ", dtype_text(d), bad);
}

int
main(void)
{
    static const enum dtype dtypes[] = {DT_F32, DT_F64, DT_BF16, DT_F16, DT_I64, DT_I32, DT_U8};
    denormals_flush(); /* treats denormals as zeros, as the threads of devices do */
    for (int op = 0; op < NOP; op++)
        for (size_t i = 0; i < countof(dtypes); i++)
            for (int form = 0; form < NFORM; form++)
                if ((op != SQUARES || dtype_is_float(dtypes[i])) && share_next()) try_row(op, dtypes[i], form);
    zero_columns(DT_BF16);
    zero_columns(DT_F16);
    return done();
}
