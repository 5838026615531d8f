/* fields.c - a library whose operators use every field of a record (t/kernels/loaded.sh): several results, all kinds
 * of attributes, optional operands, integer operands, operands that are a number, sizes that infer() sets,
 * reductions by maximum, and element_f32. */
#include <rille_operator.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- moments(x): sums of the rows, and of their squares ---- */

static int
moments(const struct rille_operator_call *c)
{
    const double *x = c->in[0].data;
    const int64_t n = c->in[0].dim[1];
    for (int64_t i = 0; i < c->in[0].dim[0]; i++) {
        double sum = 0, squares = 0;
        for (int64_t k = 0; k < n; k++) {
            sum += x[i * n + k];
            squares += x[i * n + k] * x[i * n + k];
        }
        ((double *)c->out[0].data)[i] = sum;
        ((double *)c->out[1].data)[i] = squares;
    }
    return 0;
}

/* Gradient of moments: dx[a, b] = ds[a] + 2 x[a, b] dq[a] */
static int
moments_dx(const struct rille_operator_call *c)
{
    const double *x = c->in[0].data, *ds = c->in[1].data, *dq = c->in[2].data;
    const int64_t n = c->in[0].dim[1];
    for (int64_t i = 0; i < c->in[0].dim[0] * n; i++) ((double *)c->out[0].data)[i] = ds[i / n] + 2 * x[i] * dq[i / n];
    return 0;
}

static const struct rille_operator op_moments = {RILLE_OPERATOR_HEAD,
                                                 .name = "row_moments",
                                                 .doc = "s[a] = sum over b of x[a, b]; q[a] = sum over b of x[a, b]^2",
                                                 .operand = {{"x"}},
                                                 .results = 2,
                                                 .rule = "ab->a,a",
                                                 .reduce = RILLE_REDUCE_SUM,
                                                 .run = moments,
                                                 .gradient = {{"row_moments_dx", "0AB"}},
                                                 .sample = {"f32{4,6}"}};
static const struct rille_operator op_moments_dx = {RILLE_OPERATOR_HEAD,
                                                    .name = "row_moments_dx",
                                                    .doc = "dx[a, b] = ds[a] + 2 x[a, b] dq[a]",
                                                    .operand = {{"x"}, {"ds"}, {"dq"}},
                                                    .flags = RILLE_OPERATOR_HIDDEN,
                                                    .rule = "ab,a,a->ab",
                                                    .linear = "12",
                                                    .run = moments_dx,
                                                    .sample = {"f32{4,6} f32{4} f32{4}"}};

/* ---- peak(x): the largest element of each row ---- */

static int
peak(const struct rille_operator_call *c)
{
    const double *x = c->in[0].data;
    const int64_t n = c->in[0].dim[1];
    for (int64_t i = 0; i < c->in[0].dim[0]; i++) {
        double most = -INFINITY;
        for (int64_t k = 0; k < n; k++) most = fmax(most, x[i * n + k]);
        ((double *)c->out[0].data)[i] = most;
    }
    return 0;
}

static double
peak_operations(const struct rille_operator_call *c)
{
    return (double)c->in[0].dim[0] * (double)c->in[0].dim[1];
}

static const struct rille_operator op_peak = {RILLE_OPERATOR_HEAD,
                                              .name = "peak",
                                              .doc = "y[a] = max over b of x[a, b]",
                                              .operand = {{"x", RILLE_OPERAND_FLOAT}},
                                              .rule = "ab->a",
                                              .reduce = RILLE_REDUCE_MAX,
                                              .run = peak,
                                              .operations = peak_operations,
                                              .sample = {"f32{4,6}"}};

/* ---- spread(ids, extra = nil, count, how, at, on): for each id, a row of `count` numbers ---- */

enum { COUNT, HOW, AT, ON };

static int
spread_size(const struct rille_operator_call *c)
{
    if (c->attr[COUNT].i < 1) {
        snprintf(c->error, c->error_size, "count must be at least 1, found %lld", (long long)c->attr[COUNT].i);
        return -1;
    }
    c->letter[0] = c->attr[COUNT].i;
    return 0;
}

/* Writes row a: extra[a], plus a number at the positions `at` (none given: everywhere). The number is 1 (how =
 * "one") or the id (how = "id"). If `on` is false, the whole row is 0. */
static int
spread(const struct rille_operator_call *c)
{
    const int64_t *ids = c->in[0].data, n = c->out[0].dim[1];
    int64_t *out = c->out[0].data;
    for (int64_t i = 0; i < c->in[0].dim[0]; i++)
        for (int64_t k = 0; k < n; k++) {
            const int64_t extra = c->in[1].dtype != RILLE_DTYPE_NONE ? ((const int64_t *)c->in[1].data)[i] : 0;
            int here = c->attr[AT].n == 0;
            for (int32_t a = 0; a < c->attr[AT].n; a++) here |= c->attr[AT].list[a] == k;
            out[i * n + k] = c->attr[ON].i ? (here ? (c->attr[HOW].i ? ids[i] : 1) : 0) + extra : 0;
        }
    return 0;
}

static const struct rille_operator op_spread = {
    RILLE_OPERATOR_HEAD,
    .name = "spread",
    .doc = "y[a, n] = ids[a] or 1",
    .operand = {{"ids", RILLE_OPERAND_INTEGER}, {"extra", RILLE_OPERAND_INTEGER | RILLE_OPERAND_OPTIONAL}},
    .attribute = {[COUNT] = {"count", RILLE_ATTRIBUTE_INT, .i = 3, .doc = "length of a row"},
                  [HOW] = {"how", RILLE_ATTRIBUTE_WORD, .words = "one|id"},
                  [AT] = {"at", RILLE_ATTRIBUTE_INTS},
                  [ON] = {"on", RILLE_ATTRIBUTE_BOOL, .i = 1}},
    .rule = "a,a->a[n]",
    .result = RILLE_RESULT_I64,
    .infer = spread_size,
    .run = spread,
    .sample = {"i64{5}<7", "i32{4} i32{4} count=2 how=id at=1", "i64{3} - on=false"}};

/* ---- blend(x, y, t): x + t (y - x), element-wise with broadcasting ---- */

static double
blend(const struct rille_operator_value *attr, const double *x)
{
    (void)attr;
    return x[0] + x[2] * (x[1] - x[0]);
}

static void
blend_f32(const struct rille_operator_value *attr, int64_t n, const float *const *x, float *y)
{
    (void)attr;
    for (int64_t i = 0; i < n; i++) y[i] = x[0][i] + x[2][i] * (x[1][i] - x[0][i]);
}

static double
blend_dx(const struct rille_operator_value *attr, const double *x)
{
    (void)attr;
    return x[1] * (1 - x[0]);
}

static const struct rille_operator op_blend = {
    RILLE_OPERATOR_HEAD,
    .name = "blend",
    .doc = "z = x + t (y - x)",
    .operand = {{"x"}, {"y"}, {"t", RILLE_OPERAND_NUMBER}},
    .accepts = "F",
    .linear = "01",
    .element = blend,
    .element_f32 = blend_f32,
    .gradient = {{"blend_dx", "2A"}, {"mul", "2A"}, {"blend_dt", "01A"}},
    .sample = {"f32{4,6} f32{6} f32{4,1}", "f32{5} f32{5} #0.25", "bf16{2,3} bf16{2,3} bf16{3}"}};
static const struct rille_operator op_blend_dx = {RILLE_OPERATOR_HEAD,
                                                  .name = "blend_dx",
                                                  .doc = "dx = (1 - t) dz",
                                                  .operand = {{"t", RILLE_OPERAND_NUMBER}, {"dz"}},
                                                  .flags = RILLE_OPERATOR_HIDDEN,
                                                  .linear = "1",
                                                  .element = blend_dx,
                                                  .sample = {"f32{4,6} f32{4,6}", "#0.5 f32{3}"}};

static double
blend_dt(const struct rille_operator_value *attr, const double *x)
{
    (void)attr;
    return x[2] * (x[1] - x[0]);
}

static const struct rille_operator op_blend_dt = {RILLE_OPERATOR_HEAD,
                                                  .name = "blend_dt",
                                                  .doc = "dt = dz (y - x)",
                                                  .operand = {{"x"}, {"y"}, {"dz"}},
                                                  .flags = RILLE_OPERATOR_HIDDEN,
                                                  .linear = "2|01",
                                                  .element = blend_dt,
                                                  .sample = {"f32{4,6} f32{4,6} f32{4,6}"}};

RILLE_OPERATORS(&op_moments, &op_moments_dx, &op_peak, &op_spread, &op_blend, &op_blend_dx, &op_blend_dt)
