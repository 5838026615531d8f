/* rows.c - tests kernels that work along an axis: exponentials, long rows whose maximum is near the end, and ids
 * that a lookup rejects. (threads.c tests rows of every length.) */
#include "kernels/cpu/rows/rows.h"
#include "t/lib/kernel/trial.h"

/* ---- exponentials in rows ---- */

static void
test_exponentials(void)
{
    double worst = 0;
    bool sums = true;
    for (int n = 1; n < 200; n += 7)
        for (int part = 0; part < 40; part++) {
            float x[200], y[200];
            double sum = 0;
            for (int i = 0; i < n; i++) x[i] = 3 - (float)(part * n + i) * (87.0f / (40 * 200));
            float got = vec_exp_sum(n, x, 3, y);
            for (int i = 0; i < n; i++) {
                double want = exp((double)(x[i] - 3.0f));
                worst = fmax(worst, fabs(y[i] - want) / want * 0x1p23);
                sum += want;
            }
            sums &= fabs(got - sum) <= 1e-6 * sum;
        }
    ok(worst <= 2, "exponentials are right within 2 units in the last place");
    ok(sums, "the sum of exponentials is right");
    float odd[] = {-INFINITY, -200, NAN, nanf("0x155"), 0}, y[5];
    vec_exp_sum(5, odd, 0, y);
    ok(y[0] == 0 && y[1] == 0 && isnan(y[2]) && isnan(y[3]) && y[4] == 1,
       "values far below the maximum give 0, NaN stays NaN, the maximum gives 1");
}

/* ---- long rows whose maximum is near the end ---- */

enum { LONG = 4000 };
enum shape { RISES, FALLS, STARTS_EMPTY, EMPTY, NAN_FIRST, NAN_LAST, NAN_AND_EMPTY, INFINITE, NSHAPE };

static double
of_shape(enum shape shape, int64_t i)
{
    bool first = i == 3, last = i == LONG - 3, head = i < LONG / 2;
    switch (shape) {
    case RISES: return (double)i / 40;
    case FALLS: return -(double)i / 40;
    case STARTS_EMPTY: return head ? -INFINITY : (double)(i % 7);
    case EMPTY: return -INFINITY;
    case NAN_FIRST: return first ? NAN : (double)(i % 5);
    case NAN_LAST: return last ? NAN : (double)(i % 5);
    case NAN_AND_EMPTY: return first ? NAN : head ? -INFINITY : 1;
    default: return last ? INFINITY : (double)(i % 3);
    }
}

static void
test_long(enum dtype d)
{
    struct trial t;
    const char *variant = "ref";
    char text[60];
    sprintf(text, "%s{%d,%d} i64{%d}<%d", dtype_text(d), NSHAPE, LONG, NSHAPE, LONG);
    if (!trial_open(&t, op_find("cross_entropy_rows"), text, DENSE, 1)) return;
    for (int64_t i = 0; i < NSHAPE * LONG; i++)
        elem_set_f(d, t.in[0].view.data, i, of_shape((enum shape)(i / LONG), i % LONG));
    ok(!trial_reference(&t) && !trial_run(&t, &t.sample.call, 1, t.got, &variant) && strcmp(variant, "ref"),
       "%s is computed by a variant", text);
    for (int s = 0; s < NSHAPE; s++)
        for (int k = 0; k < 3; k++) {
            const struct view *want = &t.want[k].view, *got = &t.got[k].view;
            double a = elem_get_f(got->dtype, got->data, s), b = elem_get_f(want->dtype, want->data, s);
            if (!ok(isnan(b) ? isnan(a) : a == b || fabs(a - b) <= 1e-6 * fabs(b),
                    "%s row %d: result %d equals the reference", text, s, k))
                diag("%g for %g", a, b);
        }
    trial_close(&t);
}

/* ---- ids that a lookup refuses ---- */

static const struct {
    const char *op, *sample;
    int ids;        /* index of the operand that has ids */
    int64_t at, id; /* at: position of the first id that is out of range; id: its value */
    const char *want;
} refusals[] = {
    {"embedding", "i64{3}<4 f32{4,2}", 0, 1, 9,
     "embedding: id 9 at position 1 is not in a table of 4 rows (positions count from 0)"},
    {"embedding", "i32{2,3}<4 f32{4,2}", 0, 5, -1,
     "embedding: id -1 at position {1, 2} is not in a table of 4 rows (positions count from 0)"},
    {"cross_entropy_rows", "f32{3,10} i64{3}<10", 1, 2, 10,
     "cross_entropy: label 10 at position 2 is not one of 10 classes (positions count from 0)"},
    {"cross_entropy_parts", "f32{3,10} i64{3}<10 f32{3}>9", 1, 0, -3,
     "cross_entropy: label -3 at position 0 is not one of 10 classes (positions count from 0)"},
    {"gather", "f32{2,4} i64{2,3}<4 axis=1", 1, 3, 4,
     "gather: id 4 at position {1, 0} is not in an axis of 4 elements (positions count from 0)"},
    {"index_select", "f32{2,4} i64{3}<4 axis=1", 1, 0, 7,
     "index_select: id 7 at position 0 is not in an axis of 4 entries (positions count from 0)"},
    {"one_hot", "i64{3}<4 n=4", 0, 2, 4, "one_hot: id 4 at position 2 is not in a range of 4 (positions count from 0)"},
};

static void
test_refusals(void)
{
    for (size_t i = 0; i < countof(refusals); i++) {
        struct trial t;
        if (!trial_open(&t, op_find(refusals[i].op), refusals[i].sample, DENSE, 5)) continue;
        const struct view *ids = &t.in[refusals[i].ids].view;
        elem_set_i(ids->dtype, ids->data, refusals[i].at, refusals[i].id);
        is_int(trial_run(&t, &t.sample.call, 1, t.got, NULL), E_VALUE, "an id out of range is refused");
        is_str(err_text(), refusals[i].want, "the error names the id and its position");
        is_int(trial_reference(&t), E_VALUE, "the reference refuses the id, too");
        trial_close(&t);
    }
}

int
main(void)
{
    test_exponentials();
    test_long(DT_F32);
    test_long(DT_F64);
    test_refusals();
    return done();
}
