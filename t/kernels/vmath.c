/* vmath.c - tests that the vectorised functions keep the error bounds of kernels/cpu/math/vmath.h, and are exact
 * where libm is exact: at infinities, NaN, zeros and subnormals.
 *
 * The test tries every 9,973rd float. RILLE_LONG=1 tries all floats and prints the largest error. An argument
 * selects the function of that name. Doubles are tested with random values (kernels/cpu/math/vmath_f64.h). */
#include "kernels/cpu/math/vmath.h"
#include "kernels/cpu/math/vmath_f64.h"
#include "runtime/graph/op.h"
#include "t/lib/tap.h"

extern const struct op op_pow;

enum { BLOCK = 1000, BLOCKS = 100 };

static double
sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}
static double
softplus(double x)
{
    return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}
static double
silu(double x)
{
    return x == -INFINITY ? -0.0 : x * sigmoid(x);
}
static double
gelu(double x)
{
    return x == -INFINITY ? -0.0 : 0.5 * x * erfc(-x * M_SQRT1_2);
}
static double
inner(double x)
{
    return 2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
}
static double
gelu_tanh(double x)
{
    return x == -INFINITY ? -0.0 : x * sigmoid(inner(x));
}
static double
gelu_derivative(double x)
{
    return 0.5 * erfc(-x * M_SQRT1_2) + x * exp(-0.5 * x * x) / sqrt(2 * M_PI);
}
static double
gelu_tanh_derivative(double x)
{
    double s = sigmoid(inner(x));
    return s + x * s * (1 - s) * 2 * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

static double
silu_derivative(double x)
{
    double s = sigmoid(x), rest = sigmoid(-x);
    return s * (1 + x * rest);
}

static const struct range {
    const char *name;
    void (*block)(int64_t n, const float *x, float *y);
    double (*f)(double x);
    /* lo, hi: range of arguments; ulp, absolute: allowed errors in units in the last place and as a number, of
     * which the larger one applies */
    double lo, hi, ulp, absolute;
    bool ends; /* true: also compares at the special values */
} ranges[] = {
    {"exp", vec_exp, exp, -104, 89, 1.1, 0, true},
    {"log", vec_log, log, 0, 10, 0.9, 0, true},
    {"log", vec_log, log, 0, 3e38, 0.9, 0, false},
    {"tanh", vec_tanh, tanh, -10, 10, 2.5, 0, true},
    {"sigmoid", vec_sigmoid, sigmoid, -100, 100, 2.1, 0, true},
    {"softplus", vec_softplus, softplus, -104, 1000, 2.9, 0, true},
    {"silu", vec_silu, silu, -120, 80, 3, 0, true},
    {"erf", vec_erf, erf, -5, 5, 2.4, 0, true},
    {"sin", vec_sin, sin, -3, 3, 1.5, 0, true},
    {"cos", vec_cos, cos, -1.5, 1.5, 1.5, 0, true},
    {"sin", vec_sin, sin, -8000, 8000, 0, 1e-7, false},
    {"cos", vec_cos, cos, -8000, 8000, 0, 1e-7, false},
    {"sin", vec_sin, sin, -1e6, 1e6, 1, 1e-7, false},
    {"gelu", vec_gelu, gelu, -13, 6, 4.3, 0, true},
    {"gelu_tanh", vec_gelu_tanh, gelu_tanh, -1.3, 6, 3, 0, true},
    {"gelu_tanh", vec_gelu_tanh, gelu_tanh, -20, -1.3, 0, 3.8e-8, false},
    {"gelu_derivative", vec_gelu_derivative, gelu_derivative, -20, 20, 0, 1.4e-7, false},
    {"gelu_tanh_derivative", vec_gelu_tanh_derivative, gelu_tanh_derivative, -20, 20, 0, 1.3e-7, false},
    {"silu_derivative", vec_silu_derivative, silu_derivative, -3, 80, 0, 1.3e-7, false},
    {"silu_derivative", vec_silu_derivative, silu_derivative, -120, -3, 6, 0, false},
};

/* Returns the error of y, divided by the allowed error. */
static double
excess(const struct range *r, float y, double want)
{
    float rounded = (float)want;
    double unit = (double)nextafterf(fabsf(rounded), INFINITY) - fabs((double)rounded);
    double allowed = fmax(r->ulp * unit, r->absolute);
    return fabs(y - want) / allowed;
}

/* Returns the i-th float in ascending order; negative floats have negative i. */
static float
float_at(int64_t i)
{
    uint32_t u = i < 0 ? (uint32_t)(-1 - i) | 0x80000000 : (uint32_t)i;
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static int64_t
place_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u & 0x80000000 ? -1 - (int64_t)(u & 0x7fffffff) : (int64_t)u;
}

static void
try_range(const struct range *r)
{
    float x[BLOCK], y[BLOCK], at = 0;
    double worst = 0;
    int64_t step = getenv("RILLE_LONG") ? 1 : 9973, end = place_of((float)r->hi);
    for (int64_t i = place_of((float)r->lo); i <= end; i += BLOCK * step) {
        for (int64_t k = 0; k < BLOCK; k++) x[k] = float_at(i + k * step > end ? end : i + k * step);
        r->block(BLOCK, x, y);
        for (int k = 0; k < BLOCK; k++) {
            double want = r->f(x[k]), e = isfinite((float)want) ? excess(r, y[k], want) : 0;
            if (!(e <= worst)) worst = e, at = x[k];
        }
    }
    if (!ok(worst <= 1, "%s keeps its error bound at floats from %g to %g", r->name, r->lo, r->hi))
        diag("%.2f times the bound at %.9g", worst, at);
    else if (step == 1)
        diag("at most %.3f of the bound, at %.9g", worst, at);
}

static void
try_ends(const struct range *r)
{
    const float x[] = {0, -0.0f, INFINITY, -INFINITY, NAN, nanf("0x1ff"), -nanf("0x155"),
                       /* half of each value is exactly representable as a float */
                       1e-40f, -1e-40f, 3e-45f, 3e38f, -3e38f};
    enum { N = sizeof x / sizeof *x };
    float y[N];
    bool good = true;
    r->block(N, x, y);
    for (int i = 0; i < N; i++) {
        float want = (float)r->f(x[i]);
        bool exact = (isnan(want) && isnan(y[i])) || (y[i] == want && signbit(y[i]) == signbit(want));
        bool near = isfinite(want) && want != 0 && isfinite(y[i]) && fabsf(y[i] - want) <= 1e-6f * fabsf(want) + 3e-45f;
        if (!exact && !near) diag("%s(%g) is %g, should be %g", r->name, x[i], y[i], want);
        good &= exact || near;
    }
    ok(good, "%s is right at infinities, NaN, zeros and subnormals", r->name);
}

/* ---- a function and its derivative in one call ---- */

static const struct both {
    const char *name;
    void (*both)(int64_t n, const float *x, float *y, float *slope);
    void (*block)(int64_t n, const float *x, float *y), (*derivative)(int64_t n, const float *x, float *y);
} both[] = {
    {"gelu", vec_gelu_both, vec_gelu, vec_gelu_derivative},
    {"gelu_tanh", vec_gelu_tanh_both, vec_gelu_tanh, vec_gelu_tanh_derivative},
    {"silu", vec_silu_both, vec_silu, vec_silu_derivative},
};

/* Tries floats over the whole range and NaN, in blocks that are no multiple of a vector; also in place. */
static void
try_both(const struct both *b)
{
    float x[BLOCK], y[BLOCK], slope[BLOCK], want[BLOCK], want_slope[BLOCK];
    int64_t step = getenv("RILLE_LONG") ? 1 : 9973;
    int other = 0;
    for (int64_t i = place_of(-nanf("0x1ff")); i <= place_of(nanf("0x1ff")); i += BLOCK * step) {
        for (int64_t k = 0; k < BLOCK; k++) x[k] = float_at(i + k * step);
        b->block(BLOCK, x, want);
        b->derivative(BLOCK, x, want_slope);
        b->both(BLOCK, x, y, slope);
        other += memcmp(y, want, sizeof y) != 0 || memcmp(slope, want_slope, sizeof slope) != 0;
        b->both(BLOCK, x, x, slope);
        other += memcmp(x, want, sizeof x) != 0 || memcmp(slope, want_slope, sizeof slope) != 0;
    }
    ok(other == 0, "%s and its derivative in one call have the same bits as in two calls", b->name);
}

/* ---- doubles: the bounds of kernels/cpu/math/vmath_f64.h ---- */

static long double
sigmoid_l(long double x)
{
    return 1 / (1 + expl(-x));
}
static long double
softplus_l(long double x)
{
    return fmaxl(x, 0) + log1pl(expl(-fabsl(x)));
}
static long double
cube_root_of(long double x)
{
    return powl(x, 1.0L / 3);
}

static const struct range_f64 {
    const char *name;
    block_f64 *block;
    long double (*f)(long double x);
    double lo, hi, ulp;
} ranges_f64[] = {
    {"exp", f64_exp, expl, -700, 700, 4},
    {"log", f64_log, logl, 0, 1000, 4},
    {"tanh", f64_tanh, tanhl, -10, 10, 4},
    {"erf", f64_erf, erfl, -5, 5, 4},
    {"sin", f64_sin, sinl, -3, 3, 4},
    {"cos", f64_cos, cosl, -1.5, 1.5, 4},
    {"sigmoid", f64_sigmoid, sigmoid_l, -700, 700, 6},
    {"softplus", f64_softplus, softplus_l, -700, 700, 6},
    {"pow", f64_pow, cube_root_of, 0, 1e6, 5}, /* includes the error from rounding the exponent 1/3 */
};

/* Checks doubles. An element's bits must not depend on its position in a block. */
static void
try_range_f64(const struct range_f64 *r, uint64_t *random)
{
    static const struct attr none[OP_ATTR];
    const struct call c = {.attr = none};
    double x[BLOCK], third[BLOCK], y[BLOCK], moved[BLOCK], worst = 0, at = 0;
    int other = 0;
    for (int b = 0; b < BLOCKS / 10; b++) {
        for (int i = 0; i < BLOCK; i++) {
            x[i] = r->lo + (r->hi - r->lo) * (double)(next_random(random) >> 11) * 0x1p-53;
            third[i] = 1.0 / 3;
        }
        r->block(&c, BLOCK, (const double *const[]){x, third}, y);
        r->block(&c, BLOCK - 3, (const double *const[]){x + 3, third}, moved);
        other += memcmp(y + 3, moved, (BLOCK - 3) * sizeof *y) != 0;
        for (int i = 0; i < BLOCK; i++) {
            long double want = r->f((long double)x[i]);
            double unit = nextafter(fabs((double)want), INFINITY) - fabs((double)want);
            double e = (double)(fabsl(y[i] - want) / unit);
            if (e > worst) worst = e, at = x[i];
        }
    }
    if (!ok(worst <= r->ulp, "%s of doubles is within %g units in the last place", r->name, r->ulp))
        diag("%.2f at %.17g", worst, at);
    ok(other == 0, "%s of doubles: results do not depend on the position in a block", r->name);
}

static void
try_ends_f64(void)
{
    const double x[] = {NAN, INFINITY, -INFINITY, 0, -0.0};
    static const struct attr none[OP_ATTR];
    static const struct {
        block_f64 *block;
        double (*f)(double x);
    } ends[] = {{f64_exp, exp}, {f64_log, log}, {f64_tanh, tanh}, {f64_erf, erf}, {f64_sin, sin}, {f64_silu, silu}};
    const struct call c = {.attr = none};
    double y[5];
    bool good = true;
    for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
        ends[k].block(&c, 5, (const double *const[]){x}, y);
        for (int i = 0; i < 5; i++) {
            double want = ends[k].f(x[i]);
            good &= isnan(want) ? isnan(y[i]) : y[i] == want && signbit(y[i]) == signbit(want);
        }
    }
    ok(good, "functions of doubles are right at infinities, NaN and zeros");
}

/* ---- powers of floats ---- */

/* Computes y = x^z in f32, as the operators do. */
static void
powers(int64_t n, const float *x, const float *z, float *y)
{
    static const struct attr none[OP_ATTR];
    const struct call c = {.attr = none};
    f32_by_f64(f64_pow_few, &c, n, 2, (const float *const[]){x, z}, y);
}

/* Returns true if y is x^z, rounded to f32. */
static bool
is_power(float x, float z, float y)
{
    float want = (float)pow((double)x, (double)z);
    bool same = isnan(want) ? isnan(y) : y == want && signbit(y) == signbit(want);
    if (!same) diag("%g^%g is %g, not %g", x, z, y, want);
    return same;
}

/* Tries the exponents 1/2, 3/2, 5/2 and 7/2, for which the operator multiplies roots. */
static void
try_half_powers(const float *ends, int nend, uint64_t *random)
{
    const struct call c = {.op = &op_pow};
    float x[BLOCK], z[BLOCK], y[BLOCK];
    int wrong = 0;
    for (int whole = 0; whole < 4; whole++)
        for (int b = 0; b < BLOCKS / 8; b++) {
            for (int i = 0; i < BLOCK; i++) {
                x[i] = (float)exp2((double)(next_random(random) >> 11) * 0x1p-53 * 60 - 30);
                z[i] = (float)whole + 0.5f;
            }
            memcpy(x, ends, sizeof *ends * (size_t)nend);
            op_pow.eltwise.block_f32(&c, BLOCK, (const float *const[]){x, z}, y);
            for (int i = 0; i < BLOCK; i++) wrong += !is_power(x[i], z[i], y[i]);
        }
    is_int(wrong, 0, "powers with half of an odd number as exponent are C's, rounded");
}

static void
try_powers(uint64_t *random)
{
    float x[BLOCK], z[BLOCK], y[BLOCK], at[2] = {0};
    double worst = 0;
    for (int b = 0; b < BLOCKS; b++) {
        /* draws bases close to and far from 1, so that results cover the whole range */
        for (int i = 0; i < BLOCK; i++) {
            double base = (double)(next_random(random) >> 11) * 0x1p-53, result = (double)(next_random(random) >> 11);
            x[i] = (float)(i % 2 ? 1 + (base - 0.5) * 0x1p-8 : exp2(base * 240 - 120));
            z[i] = (float)((result * 0x1p-53 * 240 - 120) / log2((double)x[i]));
        }
        powers(BLOCK, x, z, y);
        for (int i = 0; i < BLOCK; i++) {
            double want = pow((double)x[i], (double)z[i]);
            if (!(fabs(want) > 0x1p-126 && isfinite((float)want))) continue;
            double e = fabs(y[i] - want) / ((double)nextafterf((float)want, INFINITY) - (double)(float)want);
            if (e > worst) worst = e, at[0] = x[i], at[1] = z[i];
        }
    }
    if (!ok(worst < 0.502, "powers of floats are within 0.502 units in the last place"))
        diag("%.3f at %.9g^%.9g", worst, at[0], at[1]);
}

/* Tries every pair of numbers that pow treats specially. */
static void
try_ends_of_powers(uint64_t *random)
{
    static const float ends[] = {0,    -0.0f,    1,         -1,       0.5f,      -0.5f,       2,
                                 -2,   3,        -3,        2.5,      -2.5,      1e30f,       1e9,
                                 -1e9, -1e30,    8388607,   16777216, -16777217, -8388607.5f, NAN,
                                 -NAN, INFINITY, -INFINITY, 1e-30f,   -1e-30f,   0x1p-126f,   -0x1p-126f};
    enum { N = sizeof ends / sizeof *ends };
    float x[N], y[N];
    int wrong = 0;
    for (int k = 0; k < N; k++) {
        for (int i = 0; i < N; i++) x[i] = ends[k];
        powers(N, x, ends, y);
        for (int i = 0; i < N; i++) wrong += !is_power(x[i], ends[i], y[i]);
    }
    is_int(wrong, 0, "powers equal C's pow at zeros, ones, infinities, NaN, and whole and odd exponents");
    try_half_powers(ends, N, random);
}

int
main(int argc, char **argv)
{
    uint64_t random = seed_of(1);
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        if (argc > 1 && strcmp(argv[1], ranges[i].name)) continue;
        try_range(&ranges[i]);
        if (ranges[i].ends) try_ends(&ranges[i]);
    }
    for (size_t i = 0; i < sizeof both / sizeof *both; i++)
        if (argc < 2 || !strcmp(argv[1], both[i].name)) try_both(&both[i]);
    for (size_t i = 0; i < sizeof ranges_f64 / sizeof *ranges_f64; i++) try_range_f64(&ranges_f64[i], &random);
    try_ends_f64();
    try_powers(&random);
    try_ends_of_powers(&random);
    return done();
}
