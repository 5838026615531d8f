/* exp_left.c - the sum of e^x over dimensions minus 1, for sums near 1. A logsumexp near 0 with a split axis needs
 * these digits.
 *
 * The sum is over integers that wrap around, so it is the same in any order and on any number of ranks, and the 1
 * wraps to 0 (exact.h). `at` has one number per sum: the sum is computed if low <= at <= high, and is 0, at no cost,
 * otherwise. For f64 `at` is the approximate result. If |at| >= 1/4 the sum is that of e^(x - base) in units of
 * 2^-80, with base the nearest multiple of 2^-20. */
#include "kernels/op/lib/exp_sum.h"

#include "kernels/cpu/base/exact.h"
#include "kernels/cpu/rows/exp_pairs.h"
#include "kernels/cpu/rows/reduce.h"

enum { X, AT };
enum { LEFT, MORE };
enum { AXIS, LOW, HIGH };

static int
infer(const struct call *c, int64_t *size)
{
    UNUSED(size);
    c->out[LEFT].dtype = c->in[X].dtype == DT_F64 ? DT_I64 : DT_I32;
    c->out[MORE].dtype = DT_I64;
    return exp_sum_infer(c);
}

static bool
is_wanted(const struct call *c, double at)
{
    return at >= c->attr[LOW].f && at <= c->attr[HIGH].f;
}

static bool
by_base(const struct call *c, double at)
{
    return c->in[X].dtype == DT_F64 && fabs(at) >= 0.25;
}

static double
base_of(double at)
{
    return rint(at * 0x1p20) * 0x1p-20;
}

static void
put(const struct kcall *k, int64_t r, uint64_t left, uint64_t more)
{
    const struct view *l = &k->out[LEFT], *o = &k->out[MORE];
    elem_set_i((enum dtype)l->dtype, l->data, r, k->call->out[LEFT].dtype == DT_I32 ? (int32_t)left : (int64_t)left);
    elem_set_i((enum dtype)o->dtype, o->data, r, (int64_t)more);
}

static void
add(const struct call *c, double x, double at, uint64_t *left, uint64_t *more)
{
    uint64_t e[2];
    bool doubles = c->in[X].dtype == DT_F64, based = by_base(c, at);
    exact_exp(x, based ? base_of(at) : 0, e);
    *left += (uint64_t)exact_part(e, based ? EXACT_NEAR : doubles ? EXACT_UNITS : EXACT_SHORT);
    if (doubles && !based) *more += (uint64_t)exact_part(e, EXACT_MORE);
}

static int
ref(const struct kcall *k)
{
    const struct view *x = &k->in[X];
    for (int64_t r = 0; r < view_numel(&k->out[LEFT]); r++) {
        double at = f64_of(&k->in[AT])[r];
        bool wanted = is_wanted(k->call, at);
        uint64_t left = 0, more = 0;
        for (int64_t i = 0; wanted && i < view_numel(x); i++)
            if (exp_sum_place(k, i) == r) add(k->call, f64_of(x)[i], at, &left, &more);
        put(k, r, left, more);
    }
    return 0;
}

/* ---- variants: logsumexp's reduced dimensions are adjacent ---- */

static void
one_line(const struct kcall *k, const struct reals *f, int64_t r, int64_t n, void *const *line)
{
    double at = line_get(&k->in[AT], r);
    bool wanted = is_wanted(k->call, at), doubles = k->in[X].dtype == DT_F64, based = by_base(k->call, at);
    uint64_t left = 0, more = 0;
    UNUSED(f);
    if (wanted && !doubles) left = (uint64_t)exp_pairs_units(DT_F32, n, line[0]);
    if (wanted && based) left = (uint64_t)exp_pairs_units_at(n, line[0], base_of(at));
    for (int64_t i = 0; wanted && doubles && !based && i < n && stop_passes(i); i++)
        add(k->call, line_at(&k->in[X], line[0], i), at, &left, &more);
    put(k, r, left, more);
}

static bool
lines(const struct kcall *k, struct line_call *c)
{
    return exp_sum_lines(k, one_line, c);
}

static const struct kernel_variant variants[] = {LINES_ROW, {NULL}};

/* All threads of a block sum if any of their lines needs it. exact.h numbers the parts. */
static const char line[] = "{" EXACT_BODY BODY(
    const double at = x1((int64_t)0); const bool wanted = at >= c->attr[LOW].f && at <= c->attr[HIGH].f;
    const bool based = sizeof(real) == 8 && fabs(at) >= 0.25; const double base = rint(at * 0x1p20) * 0x1p-20;
    const auto sum =
        [&](int part) {
            return fold<sums>((int64_t)0, [&](element i) {
                uint64_t e[2] = {0, 0};
                if (wanted) exact_exp(x0(i), based ? base : 0, e);
                return exact_part(e, based ? 3 : part);
            });
        };
    int64_t left = 0, more = 0; if (!all_of(!wanted)) {
        left = sum(sizeof(real) == 8 ? 0 : 2);
        if (sizeof(real) == 8) more = sum(1);
        if (based) more = 0;
    } once([&] {
        y0(0, left);
        y1(0, more);
    });) "}";

const struct op op_exp_left = {
    .name = "exp_left",
    .doc =
        "sum of e^x over axis, less 1, in units of 2^-76, or of f64 of 2^-108 and 2^-126, or of e^(x - at) of 2^-80, "
        "where at is in bounds",
    .in = {[X] = {"x", IN_FLOAT}, [AT] = {"at", IN_FLOAT}},
    .nout = 2,
    .attr = {[AXIS] = {"axis", ATTR_INTS, ATTR_AXIS, .doc = "dimensions to sum over, kept with size 1; none: all"},
             [LOW] = {"low", ATTR_FLOAT, .f = -1, .doc = "the least `at` whose sum is wanted"},
             [HIGH] = {"high", ATTR_FLOAT, .f = 1, .doc = "the greatest"}},
    .make_rule = exp_sum_rule,
    .infer = infer,
    .reduce = RED_SUM,
    .ref = ref,
    .line = line,
    .line_dims = reduced_dims,
    .lines = lines,
    .kernel = variants,
    .flags = OP_HIDDEN | OP_UNPLACED,
    .sample = {"f32{4,6} f32{4,1} axis=1", "f64{2,3,5} f32{1,3,1} axis=0,2", "f64{7} f64{1}",
               "f64{3,40} f64{3,1} axis=1 low=-8 high=8", "f32{3,1500} f32{3,1} axis=1"},
};
