/* refused.c - a library with an operator, total, that Rille accepts. OVERRIDE defines changes of the operator's
 * record; Rille must refuse the changed record (t/kernels/loaded.sh). LIST, NO_LIST and LATER change the list of
 * records. */
#include <rille_operator.h>

#include <stddef.h>
#include <stdio.h>

#ifndef OVERRIDE
#define OVERRIDE .flags = 0
#endif
#ifndef LIST
#define LIST &total, &total_dx
#endif

/* Computes y[a] = (sum over b of x[a, b]^3) / by */
static void
sum_cubes(const struct rille_operator_call *c, double by)
{
    const double *x = c->in[0].data;
    const int64_t n = c->in[0].dim[1];
    for (int64_t i = 0; i < c->in[0].dim[0]; i++) {
        double sum = 0;
        for (int64_t k = 0; k < n; k++) sum += x[i * n + k] * x[i * n + k] * x[i * n + k];
        ((double *)c->out[0].data)[i] = sum / by;
    }
}

static int
run(const struct rille_operator_call *c)
{
    sum_cubes(c, 1);
    return 0;
}

/* Computes a mean. Rille must refuse it under the rule of a sum, because the means of shards do not add up to the
 * mean. */
int run_mean(const struct rille_operator_call *c);
int
run_mean(const struct rille_operator_call *c)
{
    sum_cubes(c, (double)c->in[0].dim[1]);
    return 0;
}

int run_error(const struct rille_operator_call *c);
int
run_error(const struct rille_operator_call *c)
{
    snprintf(c->error, c->error_size, "found %d operand", c->nin);
    return 1;
}

int run_silent(const struct rille_operator_call *c);
int
run_silent(const struct rille_operator_call *c)
{
    (void)c;
    return 1;
}

/* Defines the infer() function `name`, which reports `value` as the size of the rule's letter n. */
#define SIZE(name, value)                                                                                              \
    int name(const struct rille_operator_call *c);                                                                     \
    int name(const struct rille_operator_call *c)                                                                      \
    {                                                                                                                  \
        if (c->letter) c->letter[0] = (value);                                                                         \
        return 0;                                                                                                      \
    }
SIZE(size_negative, -1)
SIZE(size_large, (int64_t)1 << 40)
SIZE(size_largest, INT64_MAX)

/* Fills the error buffer to the last byte, without a terminating 0. */
int infer_error(const struct rille_operator_call *c);
int
infer_error(const struct rille_operator_call *c)
{
    for (uint64_t i = 0; i < c->error_size; i++) c->error[i] = 'x';
    return -7;
}

/* Succeeds in the first calls, by which Rille checks the record, and fails in later ones. */
int run_later(const struct rille_operator_call *c);
int
run_later(const struct rille_operator_call *c)
{
    static int calls;
    sum_cubes(c, 1);
    if (__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) < 1000) return 0;
    snprintf(c->error, c->error_size, "a late failure");
    return 1;
}

/* Writes f32 values that differ from those of run(). Rille compares the two functions and must refuse the record. */
int run_fast(const struct rille_operator_call *c);
int
run_fast(const struct rille_operator_call *c)
{
    for (int64_t i = 0; i < c->out[0].dim[0]; i++) ((float *)c->out[0].data)[i] = 0.5f;
    return 0;
}

/* Computes the gradient dx[a, b] = 3 x[a, b]^2 dy[a]. */
static int
run_dx(const struct rille_operator_call *c)
{
    const double *x = c->in[0].data, *dy = c->in[1].data;
    const int64_t n = c->in[0].dim[1];
    for (int64_t i = 0; i < c->in[0].dim[0] * n; i++) ((double *)c->out[0].data)[i] = 3 * x[i] * x[i] * dy[i / n];
    return 0;
}

static const struct rille_operator total_dx = {RILLE_OPERATOR_HEAD,
                                               .name = "total_dx",
                                               .doc = "dx[a, b] = 3 x[a, b]^2 dy[a]",
                                               .operand = {{"x"}, {"dy"}},
                                               .flags = RILLE_OPERATOR_HIDDEN,
                                               .rule = "ab,a->ab",
                                               .run = run_dx,
                                               .sample = {"f32{4,6} f32{4}"}};
static const struct rille_operator total = {RILLE_OPERATOR_HEAD,
                                            .name = "total",
                                            .doc = "y[a] = sum over b of x[a, b]^3",
                                            .operand = {{"x"}},
                                            .rule = "ab->a",
                                            .reduce = RILLE_REDUCE_SUM,
                                            .run = run,
                                            .gradient = {{"total_dx", "0A"}},
                                            .sample = {"f32{4,6}", "f32{3,1}"},
                                            OVERRIDE};
#if defined LATER
/* A record of a future version of the header, which has one more field. The field's value is LATER. */
const struct rille_operator *const *
rille_operators(uint32_t abi)
{
    static struct {
        struct rille_operator record;
        uint64_t field;
    } later;
    static const struct rille_operator *const list[] = {&later.record, &total_dx, NULL};
    (void)abi;
    later.record = total;
    later.record.size = sizeof later;
    later.field = LATER;
    return list;
}
#elif !defined NO_LIST
RILLE_OPERATORS(LIST)
#endif
