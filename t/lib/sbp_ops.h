/* sbp_ops.h - the smallest set of operators that covers every kind of rule, with their signatures, for the tests of
 * sbp/. */
#ifndef RILLE_T_SBP_OPS_H
#define RILLE_T_SBP_OPS_H

#include "t/lib/missing.h"

static double
cell_f(const struct view *v, int64_t i)
{
    return v->dtype == DT_F64 ? ((double *)v->data)[i] : (double)((int64_t *)v->data)[i];
}

static int
matmul_ref(const struct kcall *k)
{
    const struct view *a = &k->in[0], *b = &k->in[1];
    double *y = k->out->data;
    for (int64_t m = 0; m < a->dim[0]; m++)
        for (int64_t n = 0; n < b->dim[1]; n++) {
            double sum = 0;
            for (int64_t i = 0; i < a->dim[1]; i++) sum += cell_f(a, m * a->dim[1] + i) * cell_f(b, i * b->dim[1] + n);
            y[m * b->dim[1] + n] = sum;
        }
    return 0;
}

/* Computes a row operator like softmax that keeps integers: the square of the row's sum, less the element. */
static int
rest_ref(const struct kcall *k)
{
    const struct view *x = &k->in[0];
    double *y = k->out->data;
    for (int64_t i = 0; i < x->dim[0]; i++) {
        double sum = 0;
        for (int64_t j = 0; j < x->dim[1]; j++) sum += cell_f(x, i * x->dim[1] + j);
        for (int64_t j = 0; j < x->dim[1]; j++) y[i * x->dim[1] + j] = sum * sum - cell_f(x, i * x->dim[1] + j);
    }
    return 0;
}

/* Reduces rows; root: the square root of the sum of squares. */
static void
reduce_rows(const struct kcall *k, enum reduce r, bool root)
{
    const struct view *x = &k->in[0];
    double *y = k->out->data;
    for (int64_t i = 0; i < x->dim[0]; i++) {
        double v = r == RED_SUM ? 0 : -INFINITY;
        for (int64_t j = 0; j < x->dim[1]; j++) {
            double e = cell_f(x, i * x->dim[1] + j);
            v = r == RED_SUM ? v + (root ? e * e : e) : fmax(v, e);
        }
        y[i] = root ? sqrt(v) : v;
    }
}
static int
sum_ref(const struct kcall *k)
{
    reduce_rows(k, RED_SUM, false);
    return 0;
}
static int
max_ref(const struct kcall *k)
{
    reduce_rows(k, RED_MAX, false);
    return 0;
}
static int
norm_ref(const struct kcall *k)
{
    reduce_rows(k, RED_SUM, true);
    return 0;
}

/* Looks up rows of a table by global index. Returns zeros for a row outside this rank's shard. */
static int
lookup_ref(const struct kcall *k)
{
    const struct view *ids = &k->in[0], *table = &k->in[1];
    for (int64_t i = 0; i < ids->dim[0]; i++)
        for (int64_t c = 0; c < table->dim[1]; c++) {
            int64_t row = ((int64_t *)ids->data)[i] - table->offset[0];
            bool here = row >= 0 && row < table->dim[0];
            ((double *)k->out->data)[i * table->dim[1] + c] = here ? cell_f(table, row * table->dim[1] + c) : 0;
        }
    return 0;
}

/* Computes two results: each element less 1, and each row's sum. */
static int
pair_ref(const struct kcall *k)
{
    const struct view *x = &k->in[0];
    double *y = k->out[0].data, *sum = k->out[1].data;
    for (int64_t i = 0; i < x->dim[0]; i++) sum[i] = 0;
    for (int64_t i = 0; i < view_numel(x); i++) {
        y[i] = cell_f(x, i) - 1;
        sum[i / x->dim[1]] += cell_f(x, i);
    }
    return 0;
}

static int
copy_ref(const struct kcall *k)
{
    view_copy(k->out, k->in);
    return 0;
}
static int
same_elements_ref(const struct kcall *k)
{
    int64_t n = view_numel(k->out);
    if (n != view_numel(k->in)) return fail(E_SHAPE, "not the same elements");
    memcpy(k->out->data, k->in->data, sizeof(union cell) * (size_t)n);
    return 0;
}

static int
broadcast_rule(const struct call *c, struct str *rule)
{
    return rule_broadcast(c, rule);
}
static int
reshape_rule(const struct call *c, struct str *rule)
{
    return rule_reshape(c, c->attr[0].n, c->attr[0].list, rule, NULL);
}
static int
reshape_infer(const struct call *c, int64_t *size)
{
    return rule_reshape(c, c->attr[0].n, c->attr[0].list, NULL, size);
}

#define MEANING(name, expr)                                                                                            \
    static double name(const struct call *c, const double *x)                                                          \
    {                                                                                                                  \
        UNUSED(c);                                                                                                     \
        return expr;                                                                                                   \
    }
MEANING(add_f, x[0] + x[1])
MEANING(sub_f, x[0] - x[1])
MEANING(mul_f, x[0] * x[1])
MEANING(neg_f, -x[0])
MEANING(relu_f, x[0] < 0 ? 0 : x[0])
MEANING(square_f, x[0] * x[0])
MEANING(where_f, x[0] != 0 ? x[1] : x[2])

#define ELTWISE(meaning) .shape.make_rule = broadcast_rule, .flags = OP_ELTWISE, .eltwise = {.f = meaning}

static const struct op matmul = {.name = "matmul",
                                 .in = {{"a"}, {"b"}},
                                 .shape.rule = "mk,kn->mn",
                                 .partial.linear = "0|1",
                                 .partial.reduce = RED_SUM,
                                 .host.ref = matmul_ref};
static const struct op add = {.name = "add",
                              .in = {{"a", IN_NUMBER}, {"b", IN_NUMBER}},
                              .partial.linear = "01",
                              .partial.increasing = "0|1",
                              ELTWISE(add_f)};
static const struct op sub = {.name = "sub",
                              .in = {{"a"}, {"b"}},
                              .partial.linear = "*",
                              .partial.increasing = "0",
                              .partial.decreasing = "1",
                              ELTWISE(sub_f)};
static const struct op mul = {
    .name = "mul", .in = {{"a", IN_NUMBER}, {"b", IN_NUMBER}}, .partial.linear = "0|1", ELTWISE(mul_f)};
static const struct op neg = {
    .name = "neg", .in = {{"x"}}, .partial.linear = "0", .partial.decreasing = "0", ELTWISE(neg_f)};
static const struct op relu = {.name = "relu", .in = {{"x"}}, .partial.increasing = "0", ELTWISE(relu_f)};
static const struct op where = {.name = "where",
                                .in = {{"c"}, {"a", IN_NUMBER}, {"b", IN_NUMBER}},
                                .partial.linear = "12",
                                .partial.increasing = "1|2|12",
                                ELTWISE(where_f)};
static const struct op rest = {.name = "rest", .in = {{"x"}}, .shape.rule = "a[b]->a[b]", .host.ref = rest_ref};
static const struct op sum = {.name = "sum",
                              .in = {{"x"}},
                              .shape.rule = "ab->a",
                              .partial.linear = "0",
                              .partial.reduce = RED_SUM,
                              .host.ref = sum_ref};
static const struct op max = {.name = "max",
                              .in = {{"x"}},
                              .shape.rule = "ab->a",
                              .partial.increasing = "0",
                              .partial.reduce = RED_MAX,
                              .host.ref = max_ref};
static const struct op lookup = {.name = "lookup",
                                 .in = {{"ids", IN_INDEX}, {"table"}},
                                 .shape.rule = "n,vc->nc",
                                 .partial.linear = "1",
                                 .partial.reduce = RED_SUM,
                                 .host.ref = lookup_ref};
static const struct op pair = {.name = "pair",
                               .in = {{"x"}},
                               .nout = 2,
                               .shape.rule = "ab->ab,a",
                               .partial.reduce = RED_SUM,
                               .host.ref = pair_ref};
static const struct op reshape = {.name = "reshape",
                                  .in = {{"x"}},
                                  .attr = {{"shape", ATTR_INTS, 0, 0, 0, NULL, NULL}},
                                  .shape.make_rule = reshape_rule,
                                  .shape.infer = reshape_infer,
                                  .partial.linear = "0",
                                  .partial.increasing = "0",
                                  .host.ref = same_elements_ref,
                                  .flags = OP_VIEW};
static const struct op whole_copy = {.name = "whole_copy",
                                     .in = {{"x"}},
                                     .shape.rule = "[a]b->[a]b",
                                     .partial.linear = "0",
                                     .partial.increasing = "0",
                                     .host.ref = copy_ref};

/* Wrong on purpose: this record declares fewer signatures than hold. */
static const struct op dull = {.name = "dull", .in = {{"a"}, {"b"}}, ELTWISE(mul_f)};

/* Wrong on purpose: these records declare signatures that do not hold. */
static const struct op norm = {
    .name = "norm", .in = {{"x"}}, .shape.rule = "ab->a", .partial.reduce = RED_SUM, .host.ref = norm_ref};
static const struct op square = {.name = "square", .in = {{"x"}}, .partial.linear = "0", ELTWISE(square_f)};
static const struct op shortest = {.name = "shortest",
                                   .in = {{"x"}},
                                   .shape.rule = "ab->a",
                                   .partial.increasing = "0",
                                   .partial.reduce = RED_SUM,
                                   .host.ref = max_ref};
static const struct op loose = {.name = "loose", .in = {{"x"}}, .shape.rule = "ab->ab", .host.ref = rest_ref};
static const struct op adds_one = {.name = "adds_one", .in = {{"a"}, {"b"}}, .partial.linear = "0", ELTWISE(add_f)};
static const struct op joint = {.name = "joint", .in = {{"a"}, {"b"}}, .partial.increasing = "01", ELTWISE(add_f)};

static const struct {
    const struct op *op;
    const char *sample;
    const char *sigs; /* the expected signatures on one mesh axis, in order */
} right[] = {
    {&matmul, "f32{4,5} f32{5,3}",
     "S(0), B -> S(0) | S(1), S(0) -> P | B, S(1) -> S(1) | B, B -> B | P, B -> P | B, P -> P"},
    {&add, "f32{4,5} f32{5}",
     "S(0), B -> S(0) | S(1), S(0) -> S(1) | B, B -> B | P, P -> P | P(max), B -> P(max) | B, P(max) -> P(max) | "
     "P(min), B -> P(min) | B, P(min) -> P(min)"},
    {&add, "f32{4,5} f32{1,5}",
     "S(0), B -> S(0) | S(1), S(1) -> S(1) | B, B -> B | P, P -> P | P(max), B -> P(max) | B, P(max) -> P(max) | "
     "P(min), B -> P(min) | B, P(min) -> P(min)"},
    {&add, "f32{4} #2.5", "S(0), - -> S(0) | B, - -> B | P(max), - -> P(max) | P(min), - -> P(min)"},
    {&add, "i64{4} i64{4}", "S(0), S(0) -> S(0) | B, B -> B | P, P -> P"},
    {&sub, "f32{3} f32{3}",
     "S(0), S(0) -> S(0) | B, B -> B | P, P -> P | P(max), B -> P(max) | P(min), B -> P(min) | B, P(max) -> P(min) | "
     "B, P(min) -> P(max)"},
    {&mul, "f32{3} f32{}", "S(0), B -> S(0) | B, B -> B | P, B -> P | B, P -> P"},
    {&mul, "f32{3} #3", "S(0), - -> S(0) | B, - -> B | P, - -> P"},
    {&neg, "f32{3,2}", "S(0) -> S(0) | S(1) -> S(1) | B -> B | P -> P | P(max) -> P(min) | P(min) -> P(max)"},
    {&relu, "f32{3}", "S(0) -> S(0) | B -> B | P(max) -> P(max) | P(min) -> P(min)"},
    {&where, "bool{3} f32{3} f32{}",
     "S(0), S(0), B -> S(0) | B, B, B -> B | B, P, P -> P | B, P(max), B -> P(max) | B, B, P(max) -> P(max) | "
     "B, P(max), P(max) -> P(max) | B, P(min), B -> P(min) | B, B, P(min) -> P(min) | B, P(min), P(min) -> P(min)"},
    {&where, "bool{3} f32{3} #0",
     "S(0), S(0), - -> S(0) | B, B, - -> B | B, P(max), - -> P(max) | B, P(min), - -> P(min)"},
    {&rest, "f32{4,5}", "S(0) -> S(0) | B -> B"},
    {&sum, "f32{4,5}", "S(0) -> S(0) | S(1) -> P | B -> B | P -> P"},
    {&max, "f32{4,5}", "S(0) -> S(0) | S(1) -> P(max) | B -> B | P(max) -> P(max)"},
    {&lookup, "i64{5}<7 f32{7,3}", "S(0), B -> S(0) | B, S(0) -> P | B, S(1) -> S(1) | B, B -> B | B, P -> P"},
    {&pair, "f32{4,5}", "S(0) -> S(0), S(0) | S(1) -> S(1), P | B -> B, B"},
    {&reshape, "f32{4,3} shape=2,6",
     "S(0) -> S(0) | S(0) -> S(1) | S(1) -> S(1) | B -> B | P -> P | P(max) -> P(max) | P(min) -> P(min)"},
    {&reshape, "f32{12} shape=2,2,3",
     "S(0) -> S(0) | S(0) -> S(1) | S(0) -> S(2) | B -> B | P -> P | P(max) -> P(max) | P(min) -> P(min)"},
    {&reshape, "f32{6,4} shape=4,6", "S(0) -> S(0) | B -> B | P -> P | P(max) -> P(max) | P(min) -> P(min)"},
    {&reshape, "f32{5,2} shape=10",
     "S(0) -> S(0) | S(1) -> S(0) | B -> B | P -> P | P(max) -> P(max) | P(min) -> P(min)"},
    {&whole_copy, "f32{3,4}", "S(1) -> S(1) | B -> B | P -> P | P(max) -> P(max) | P(min) -> P(min)"},
};

#endif
