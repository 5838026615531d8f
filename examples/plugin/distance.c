/* distance.c - a shared library with two operators: squared distances between rows, and softsign.
 *
 *     make && rille -d cpu:4 distance.lua
 *
 * distance is one loop with a gradient and a faster loop for f32. The rule "ab,cb->ac" says how the operator may be
 * split: rows of x or of centres give rows or columns of the result; if the columns of both are split, each rank
 * computes a partial sum. softsign is element-wise. */
#include <rille_operator.h>

#include <math.h>
#include <stdio.h>

/* ---- distance(x, centres): y[a, c] = sum over b of (x[a, b] - centres[c, b])^2 ---- */

static int
distance(const struct rille_operator_call *c)
{
    const int64_t rows = c->in[0].dim[0], columns = c->in[0].dim[1], centres = c->in[1].dim[0];
    const double *x = c->in[0].data, *y = c->in[1].data;
    double *out = c->out[0].data;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < centres; j++) {
            double sum = 0;
            for (int64_t k = 0; k < columns; k++) {
                const double d = x[i * columns + k] - y[j * columns + k];
                sum += d * d;
            }
            out[i * centres + j] = sum;
        }
    return 0;
}

/* Returns the address of row i of an f32 matrix. */
static const float *
row_of(const struct rille_operator_tensor *t, int64_t i)
{
    return (const float *)t->data + i * t->stride[0];
}

/* Computes distance() in f32, for operands with any strides. */
static int
distance_f32(const struct rille_operator_call *c)
{
    const struct rille_operator_tensor *x = &c->in[0], *y = &c->in[1], *out = &c->out[0];
    for (int64_t i = 0; i < x->dim[0]; i++)
        for (int64_t j = 0; j < y->dim[0]; j++) {
            const float *a = row_of(x, i), *b = row_of(y, j);
            double sum = 0;
            for (int64_t k = 0; k < x->dim[1]; k++) {
                const double d = (double)a[k * x->stride[1]] - (double)b[k * y->stride[1]];
                sum += d * d;
            }
            ((float *)out->data)[i * out->stride[0] + j * out->stride[1]] = (float)sum;
        }
    return 0;
}

/* ---- gradients: dx[a, b] = sum over c of 2 dy[a, c] (x[a, b] - centres[c, b]); for centres, -2 dy and the sum over a
 * ---- */

static int
differentiate(const struct rille_operator_call *c, int of_centres)
{
    const int64_t rows = c->in[0].dim[0], columns = c->in[0].dim[1], centres = c->in[1].dim[0];
    const double *x = c->in[0].data, *y = c->in[1].data, *dy = c->in[2].data;
    double *out = c->out[0].data;
    for (int64_t i = 0; i < (of_centres ? centres : rows) * columns; i++) out[i] = 0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < centres; j++)
            for (int64_t k = 0; k < columns; k++) {
                const double d = 2 * dy[i * centres + j] * (x[i * columns + k] - y[j * columns + k]);
                out[(of_centres ? j : i) * columns + k] += of_centres ? -d : d;
            }
    return 0;
}

static int
distance_dx(const struct rille_operator_call *c)
{
    return differentiate(c, 0);
}

static int
distance_dcentres(const struct rille_operator_call *c)
{
    return differentiate(c, 1);
}

static const struct rille_operator op_distance = {
    RILLE_OPERATOR_HEAD,
    .name = "distance",
    .doc = "y[a, c] = sum over b of (x[a, b] - centres[c, b])^2",
    .operand = {{"x", RILLE_OPERAND_FLOAT}, {"centres", RILLE_OPERAND_FLOAT}},
    .rule = "ab,cb->ac",
    .reduce = RILLE_REDUCE_SUM,
    .run = distance,
    .fast = distance_f32,
    .fast_dtypes = 1u << RILLE_DTYPE_F32,
    .gradient = {{"distance_dx", "01A"}, {"distance_dcentres", "01A"}},
    .sample = {"f32{6,4} f32{5,4}", "f64{1,7} f64{3,7}"},
};

static const struct rille_operator op_distance_dx = {
    RILLE_OPERATOR_HEAD,
    .name = "distance_dx",
    .doc = "dx[a, b] = 2 times the sum over c of dy[a, c] (x[a, b] - centres[c, b])",
    .operand = {{"x"}, {"centres"}, {"dy"}},
    .flags = RILLE_OPERATOR_HIDDEN,
    .rule = "ab,cb,ac->ab",
    .reduce = RILLE_REDUCE_SUM,
    .linear = "2",
    .run = distance_dx,
    .sample = {"f32{6,4} f32{5,4} f32{6,5}"},
};

static const struct rille_operator op_distance_dcentres = {
    RILLE_OPERATOR_HEAD,
    .name = "distance_dcentres",
    .doc = "dcentres[c, b] = -2 times the sum over a of dy[a, c] (x[a, b] - centres[c, b])",
    .operand = {{"x"}, {"centres"}, {"dy"}},
    .flags = RILLE_OPERATOR_HIDDEN,
    .rule = "ab,cb,ac->cb",
    .reduce = RILLE_REDUCE_SUM,
    .linear = "2",
    .run = distance_dcentres,
    .sample = {"f32{6,4} f32{5,4} f32{6,5}"},
};

/* ---- softsign(x, scale = 1): y = x / (scale + |x|) ---- */

enum { SCALE };

static int
check_scale(const struct rille_operator_call *c)
{
    if (c->attr[SCALE].f > 0) return 0;
    snprintf(c->error, c->error_size, "scale must be above 0, found %g", c->attr[SCALE].f);
    return -1;
}

static double
softsign(const struct rille_operator_value *attr, const double *x)
{
    return x[0] / (attr[SCALE].f + fabs(x[0]));
}

/* Returns the gradient of softsign. x[0]: softsign's operand; x[1]: the gradient of softsign's result. */
static double
softsign_dx(const struct rille_operator_value *attr, const double *x)
{
    const double d = attr[SCALE].f + fabs(x[0]);
    return x[1] * attr[SCALE].f / (d * d);
}

static const struct rille_operator op_softsign = {
    RILLE_OPERATOR_HEAD,
    .name = "softsign",
    .doc = "y = x / (scale + |x|)",
    .operand = {{"x"}},
    .attribute = {[SCALE] = {"scale", RILLE_ATTRIBUTE_FLOAT, .f = 1, .doc = "distance from 0 at which y is 1/2"}},
    .result = RILLE_RESULT_FLOAT,
    .infer = check_scale,
    .element = softsign,
    .gradient = {{"softsign_dx", "0A"}},
    .sample = {"f32{4,6}", "f32{7} scale=2.5"},
};

static const struct rille_operator op_softsign_dx = {
    RILLE_OPERATOR_HEAD,
    .name = "softsign_dx",
    .doc = "dx = dy scale / (scale + |x|)^2",
    .operand = {{"x"}, {"dy"}},
    .attribute = {[SCALE] = {"scale", RILLE_ATTRIBUTE_FLOAT, .f = 1}},
    .flags = RILLE_OPERATOR_HIDDEN,
    .linear = "1",
    .element = softsign_dx,
    .sample = {"f32{4,6} f32{4,6}"},
};

RILLE_OPERATORS(&op_distance, &op_distance_dx, &op_distance_dcentres, &op_softsign, &op_softsign_dx)
