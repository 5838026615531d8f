/* sbp-sig.c - signatures: which are derived, that each is sound, which one is chosen, which layouts pass the check. */
#include "t/missing.h"

#include <time.h>

/* ---- operators of this test ---- */

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

/* softmax without the exponential, so that numbers stay whole: each row's sum less the element. */
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

/* Rows are reduced; power undoes what the sum needs: 1 is the sum, 0.5 the 2-norm of a vector. */
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

/* Rows of a table by position; a row that this rank does not hold gives zeros. */
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

/* One tensor's mean and its elements less 1: two results. */
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

#define ELTWISE(meaning) .make_rule = broadcast_rule, .flags = OP_ELTWISE, .eltwise = {.f = meaning}

static const struct op matmul = {
    .name = "matmul", .in = {{"a"}, {"b"}}, .rule = "mk,kn->mn", .linear = "0|1", .reduce = RED_SUM, .ref = matmul_ref};
static const struct op add = {
    .name = "add", .in = {{"a", IN_NUMBER}, {"b", IN_NUMBER}}, .linear = "01", .increasing = "0|1", ELTWISE(add_f)};
static const struct op sub = {
    .name = "sub", .in = {{"a"}, {"b"}}, .linear = "*", .increasing = "0", .decreasing = "1", ELTWISE(sub_f)};
static const struct op mul = {
    .name = "mul", .in = {{"a", IN_NUMBER}, {"b", IN_NUMBER}}, .linear = "0|1", ELTWISE(mul_f)};
static const struct op neg = {.name = "neg", .in = {{"x"}}, .linear = "0", .decreasing = "0", ELTWISE(neg_f)};
static const struct op relu = {.name = "relu", .in = {{"x"}}, .increasing = "0", ELTWISE(relu_f)};
static const struct op where = {.name = "where",
                                .in = {{"c"}, {"a", IN_NUMBER}, {"b", IN_NUMBER}},
                                .linear = "12",
                                .increasing = "1|2|12",
                                ELTWISE(where_f)};
static const struct op rest = {.name = "rest", .in = {{"x"}}, .rule = "a[b]->a[b]", .ref = rest_ref};
static const struct op sum = {
    .name = "sum", .in = {{"x"}}, .rule = "ab->a", .linear = "0", .reduce = RED_SUM, .ref = sum_ref};
static const struct op max = {
    .name = "max", .in = {{"x"}}, .rule = "ab->a", .increasing = "0", .reduce = RED_MAX, .ref = max_ref};
static const struct op lookup = {.name = "lookup",
                                 .in = {{"ids", IN_INDEX}, {"table"}},
                                 .rule = "n,vc->nc",
                                 .linear = "1",
                                 .reduce = RED_SUM,
                                 .ref = lookup_ref};
static const struct op pair = {
    .name = "pair", .in = {{"x"}}, .nout = 2, .rule = "ab->ab,a", .reduce = RED_SUM, .ref = pair_ref};
static const struct op reshape = {.name = "reshape",
                                  .in = {{"x"}},
                                  .attr = {{"shape", ATTR_INTS, 0, 0, 0, NULL, NULL}},
                                  .make_rule = reshape_rule,
                                  .infer = reshape_infer,
                                  .linear = "0",
                                  .increasing = "0",
                                  .ref = same_elements_ref,
                                  .flags = OP_VIEW};
static const struct op whole_copy = {
    .name = "whole_copy", .in = {{"x"}}, .rule = "[a]b->[a]b", .linear = "0", .increasing = "0", .ref = copy_ref};

static const struct op dull = {.name = "dull", .in = {{"a"}, {"b"}}, ELTWISE(mul_f)}; /* says too little */

/* Wrong on purpose. */
static const struct op norm = {.name = "norm", .in = {{"x"}}, .rule = "ab->a", .reduce = RED_SUM, .ref = norm_ref};
static const struct op square = {.name = "square", .in = {{"x"}}, .linear = "0", ELTWISE(square_f)};
static const struct op shortest = {
    .name = "shortest", .in = {{"x"}}, .rule = "ab->a", .increasing = "0", .reduce = RED_SUM, .ref = max_ref};
static const struct op loose = {.name = "loose", .in = {{"x"}}, .rule = "ab->ab", .ref = rest_ref};
static const struct op adds_one = {.name = "adds_one", .in = {{"a"}, {"b"}}, .linear = "0", ELTWISE(add_f)};
static const struct op joint = {.name = "joint", .in = {{"a"}, {"b"}}, .increasing = "01", ELTWISE(add_f)};

static const struct {
    const struct op *op;
    const char *sample;
    const char *sigs; /* of one mesh axis, in order */
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

/* ---- derived signatures ---- */

static void
test_golden(void)
{
    for (size_t i = 0; i < countof(right); i++) {
        struct sound s;
        struct str all = {0};
        int status = sound_start(&s, right[i].op, right[i].sample, 1);
        for (int g = 0; g < s.list.nsig && !status; g++) {
            str_add(&all, g ? " | " : "");
            str_add(&all, sound_text(&s, s.list.sig[g].v));
        }
        struct str name = {0};
        str_addf(&name, "signatures of %s %s", right[i].op->name, right[i].sample);
        is_str(status ? err_text() : str_text(&all), right[i].sigs, str_text(&name));
        str_free(&name);
        str_free(&all);
        sound_end(&s);
    }
}

static const struct {
    int naxis;
    int32_t axis[2];
} mesh[] = {{1, {2}}, {1, {3}}, {1, {4}}, {2, {2, 2}}, {2, {2, 3}}, {2, {1, 3}}};

static struct sound_tally
prove(const struct op *op, const char *sample, uint64_t seed)
{
    struct sound_tally all = {0};
    struct sound s;
    if (sound_start(&s, op, sample, seed)) diag("%s", err_text());
    for (size_t m = 0; m < countof(mesh) && s.noperand; m++) {
        struct sound_tally t = sound_each_derived(&s, mesh[m].naxis, mesh[m].axis);
        all.proved += t.proved, all.failed += t.failed;
    }
    sound_end(&s);
    return all;
}

static void
test_sound(uint64_t seed)
{
    for (size_t i = 0; i < countof(right); i++) {
        struct sound_tally t = prove(right[i].op, right[i].sample, seed);
        ok(t.proved > 0 && t.failed == 0, "all %d signatures of %s %s are sound on %zu meshes", t.proved,
           right[i].op->name, right[i].sample, countof(mesh));
    }
    static const struct {
        const struct op *op;
        const char *sample;
    } wrong[] = {{&norm, "f32{4,5}"},          {&square, "f32{3}"},       {&loose, "f32{4,5}"},
                 {&adds_one, "f32{3} f32{3}"}, {&joint, "f32{3} f32{3}"}, {&shortest, "f32{4,5}"}};
    for (size_t i = 0; i < countof(wrong); i++)
        ok(prove(wrong[i].op, wrong[i].sample, seed).failed > 0, "what %s claims and does not keep is found",
           wrong[i].op->name);
}

static void
collect(void *arg, const struct sound *s, const struct sbp *v)
{
    struct str *all = arg;
    str_add(all, all->len ? " | " : "");
    str_add(all, sound_text(s, v));
}

static void
test_missing(uint64_t seed)
{
    static const struct {
        const struct op *op;
        const char *sample, *missing;
    } t[] = {
        {&matmul, "f32{4,5} f32{5,3}", ""},
        {&add, "f32{4,5} f32{5}", ""},
        {&neg, "f32{4,5}", ""},
        {&sum, "f32{4,5}", ""},
        {&max, "f32{4,5}", ""},
        {&lookup, "i64{5}<7 f32{7,3}", "B, P(max) -> P(max) | B, P(min) -> P(min)"},
        {&rest, "f32{4,5}", ""},
        {&reshape, "f32{4,3} shape=2,6", ""},
        {&dull, "f32{4} f32{4}", "B, P -> P | P, B -> P"},
        {&whole_copy, "f32{3,4}", "S(0) -> S(0)"},
    };
    for (size_t i = 0; i < countof(t); i++) {
        struct sound s;
        struct str all = {0}, name = {0};
        if (sound_start(&s, t[i].op, t[i].sample, seed)) diag("%s", err_text());
        sound_each_missing(&s, collect, &all);
        str_addf(&name, "what holds for %s and is not derived", t[i].op->name);
        is_str(str_text(&all), t[i].missing, str_text(&name));
        str_free(&all);
        str_free(&name);
        sound_end(&s);
    }
}

/* ---- meshes ---- */

/* Combinations legal on a mesh, as text, for one sample. */
static const char *
legal_on(const struct op *op, const char *sample, int naxis, const int32_t *axis)
{
    static struct str all;
    struct sound s;
    str_clear(&all);
    str_add(&all, "");
    if (sound_start(&s, op, sample, 1)) return err_text();
    const struct place *p = sound_place(&s, naxis, axis);
    int choice[MAX_AXIS] = {0};
    for (choice[0] = 0; choice[0] < s.list.nsig; choice[0]++)
        for (choice[1] = 0; choice[1] < (naxis > 1 ? s.list.nsig : 1); choice[1]++) {
            const struct layout *layout[SAMPLE_IN + OP_OUT];
            if (!sig_layouts(s.atlas, p, &s.sample.call, &s.rule, &s.list, choice, NULL, layout)) continue;
            if (layout_has_partial(layout[0])) continue;
            str_add(&all, all.len ? " | " : "");
            str_add(&all, sound_layout_text(&s, layout));
        }
    sound_end(&s);
    return str_text(&all);
}

static void
test_merged(void)
{
    const int32_t two[] = {2}, three[] = {3}, four[] = {4}, two_two[] = {2, 2}, two_one[] = {2, 1};
    is_str(legal_on(&reshape, "f32{4,3} shape=2,6", 1, two), "S(0) -> S(0) | B -> B",
           "the major factor of each dimension may be split, no other");
    is_str(legal_on(&reshape, "f32{4,3} shape=2,2,3", 1, two), "S(0) -> S(0) | S(1) -> S(2) | B -> B",
           "and what is alone in its dimension");
    is_str(legal_on(&reshape, "f32{6,2} shape=3,4", 1, two), "B -> B", "3 of 2 and 6 of 1 are not cut alike");
    is_str(legal_on(&reshape, "f32{6} shape=3,2", 1, two), "B -> B",
           "a major factor whose cut does not coincide may not");
    is_str(legal_on(&reshape, "f32{6} shape=3,2", 1, three), "S(0) -> S(0) | B -> B", "where it does it may");
    is_str(legal_on(&reshape, "f32{6} shape=2,3", 1, four), "B -> B",
           "parts that are empty coincide or not like others");
    is_str(legal_on(&reshape, "f32{12} shape=2,2,3", 2, two_two),
           "(S(0), S(0)) -> (S(0), S(1)) | (S(0), B) -> (S(0), B) | (B, S(0)) -> (B, S(0)) | (B, B) -> (B, B)",
           "the second cut goes on in the next factor");
    is_str(legal_on(&reshape, "f32{12} shape=2,6", 2, two_one),
           "(S(0), S(0)) -> (S(0), S(0)) | (S(0), S(0)) -> (S(0), S(1)) | (S(0), B) -> (S(0), B) | (B, S(0)) -> (B, "
           "S(0)) | "
           "(B, S(0)) -> (B, S(1)) | (B, B) -> (B, B)",
           "an axis of one rank cuts nothing");
}

/* ---- the check ---- */

/* Every layout of a mesh of two axes for a tensor of two dimensions, in both orders where that shows. */
static int
all_layouts(struct sound *s, const struct place *p, const struct layout **out)
{
    static const uint8_t turned[MAX_AXIS] = {1, 0};
    struct type t = type_of(DT_F32, 2, (int64_t[]){4, 4});
    struct sbp v[MAX_DIM + 4], pick[2];
    int n = sound_options(&t, v), count = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            if (v[i].kind == SBP_P && v[j].kind == SBP_P && i != j) continue;
            pick[0] = v[i], pick[1] = v[j];
            layout_new(s->atlas, p, pick, NULL, &out[count++]);
            if (v[i].kind == SBP_S && i == j) layout_new(s->atlas, p, pick, turned, &out[count++]);
        }
    return count;
}

static void
test_check(void)
{
    static const uint8_t turned[MAX_AXIS] = {1, 0};
    const int32_t two_three[] = {2, 3};
    struct sound s;
    sound_start(&s, &matmul, "f32{4,6} f32{6,5}", 1);
    const struct place *p = sound_place(&s, 2, two_three);
    struct arena scratch = {0};
    const struct layout *every[64], *layout[3], *derived[200][3];
    int n = all_layouts(&s, p, every), nderived = 0, passed = 0, wrong = 0;
    int choice[MAX_AXIS] = {0};
    for (choice[0] = 0; choice[0] < s.list.nsig; choice[0]++)
        for (choice[1] = 0; choice[1] < s.list.nsig; choice[1]++)
            for (int o = 0; o < 2; o++) {
                sig_layouts(s.atlas, p, &s.sample.call, &s.rule, &s.list, choice, o ? turned : NULL, derived[nderived]);
                bool known = false;
                for (int i = 0; i < nderived; i++) known |= !memcmp(derived[i], derived[nderived], sizeof derived[i]);
                nderived += !known;
            }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k++) {
                layout[0] = every[i], layout[1] = every[j], layout[2] = every[k];
                bool legal = !sig_check(&scratch, &s.sample.call, &s.rule, layout), known = false;
                for (int d = 0; d < nderived && legal; d++) known |= !memcmp(derived[d], layout, sizeof layout);
                passed += legal;
                wrong += legal && !known;
                if (k == n - 1) arena_reset(&scratch);
            }
    ok(passed == nderived && !wrong && nderived > 36,
       "of %d triples of layouts the check passes the %d that are derived", n * n * n, nderived);
    arena_fini(&scratch);
    sound_end(&s);
}

static void
test_check_errors(void)
{
    const int32_t two[] = {2}, two_two[] = {2, 2};
    struct sound s;
    sound_start(&s, &matmul, "f32{4,6} f32{6,5}", 1);
    const struct place *p = sound_place(&s, 1, two), *q = sound_place(&s, 2, two_two);
    const struct layout *layout[3];
    layout_parse(s.atlas, p, "S(0)", 2, &layout[0]);
    layout_parse(s.atlas, p, "S(1)", 2, &layout[1]);
    layout_parse(s.atlas, p, "B", 2, &layout[2]);
    ok(sig_check(&s.arena, &s.sample.call, &s.rule, layout) == E_SBP, "no signature is an error");
    is_str(err_text(), "matmul: a S(0), b S(1) -> B: not a legal signature", "that shows the layouts");
    layout[1] = layout_broadcast(s.atlas, q);
    ok(sig_check(&s.arena, &s.sample.call, &s.rule, layout) == E_SBP && strstr(err_text(), "placements"),
       "operands on two placements are an error");
    layout_parse(s.atlas, q, "(S(0), S(0))", 2, &layout[0]);
    layout_parse(s.atlas, q, "(S(0), S(0)) order (1, 0)", 2, &layout[2]);
    ok(sig_check(&s.arena, &s.sample.call, &s.rule, layout) == E_SBP && strstr(err_text(), "orders"),
       "cuts in two orders are an error");
    sound_end(&s);
}

/* ---- choosing ---- */

/* A price of the test: bytes of the target that are not held already, and once more for each partial axis that goes. */
static int64_t
price(void *arg, const struct type *t, const struct layout *from, const struct layout *to)
{
    int64_t bytes = 0;
    ++*(int *)arg;
    if (from == to) return 0;
    for (int pos = 0; pos < to->place->nrank; pos++) {
        struct box a, b, both;
        layout_box(from, t, pos, &a);
        layout_box(to, t, pos, &b);
        int64_t common = box_intersect(&a, &b, t->ndim, &both) ? box_numel(&both, t->ndim) : 0;
        bytes += box_numel(&b, t->ndim) - common;
    }
    for (int x = 0; x < to->place->naxis; x++)
        if (from->sbp[x].kind == SBP_P && to->sbp[x].kind != SBP_P) bytes += type_numel(t);
    enum reduce was = layout_partial(from), is = layout_partial(to);
    if (was != RED_NONE && is != RED_NONE && was != is) return INT64_MAX;
    return bytes * (int64_t)dtype_bytes((enum dtype)t->dtype);
}

struct naive {
    int64_t bytes;
    int nsame, nlegal;
    const struct layout *layout[8];
};

/* The definition, without any cleverness. */
static struct naive
choose_naively(struct sound *s, const struct place *p, const struct layout *const *home, const uint8_t *order)
{
    struct naive best = {.bytes = INT64_MAX};
    int asked = 0, choice[MAX_AXIS] = {0}, total = 1;
    for (int x = 0; x < p->naxis; x++) total *= s->list.nsig;
    for (int i = 0; i < total; i++) {
        const struct layout *layout[8];
        struct naive now = {0};
        for (int x = p->naxis - 1, left = i; x >= 0; x--, left /= s->list.nsig) choice[x] = left % s->list.nsig;
        if (!sig_layouts(s->atlas, p, &s->sample.call, &s->rule, &s->list, choice, order, layout)) continue;
        bool possible = true;
        for (int k = 0; k < s->rule.nin; k++) {
            int64_t bytes = price(&asked, &s->sample.in[k], home[k], layout[k]);
            possible &= bytes != INT64_MAX;
            now.bytes += possible ? bytes : 0;
            now.nsame += home[k] == layout[k];
        }
        if (!possible) continue;
        best.nlegal++;
        if (now.bytes > best.bytes || (now.bytes == best.bytes && now.nsame <= best.nsame)) continue;
        best.bytes = now.bytes, best.nsame = now.nsame;
        memcpy(best.layout, layout, sizeof layout);
    }
    return best;
}

/* A layout at random for a tensor of ndim dimensions; mesh order. */
static const struct layout *
random_layout(struct sound *s, const struct place *p, int ndim)
{
    struct sbp v[MAX_AXIS];
    int kind = RED_SUM + (int)(next_random(&s->random) % 3);
    for (int x = 0; x < p->naxis; x++) {
        int i = (int)(next_random(&s->random) % (uint64_t)(ndim + 2));
        v[x] = i < ndim    ? (struct sbp){.kind = SBP_S, .axis = (uint8_t)i}
               : i == ndim ? (struct sbp){.kind = SBP_B}
                           : (struct sbp){.kind = SBP_P, .reduce = (uint8_t)kind};
    }
    const struct layout *l;
    layout_new(s->atlas, p, v, NULL, &l);
    return l;
}

static void
test_choice(uint64_t seed)
{
    static const struct {
        int naxis;
        int32_t axis[3];
    } on[] = {{1, {2}}, {1, {3}}, {2, {2, 2}}, {2, {2, 3}}, {3, {2, 2, 2}}};
    int tried = 0, wrong = 0, unlisted = 0;
    for (size_t i = 0; i < countof(right); i++)
        for (size_t m = 0; m < countof(on); m++) {
            struct sound s;
            sound_start(&s, right[i].op, right[i].sample, seed + i);
            const struct place *p = sound_place(&s, on[m].naxis, on[m].axis);
            for (int n = 0; n < 8; n++) {
                const struct layout *home[8] = {NULL};
                struct sig_choice got;
                int asked = 0;
                for (int k = 0; k < s.rule.nin; k++)
                    if (!s.rule.operand[k].ignored) home[k] = random_layout(&s, p, s.sample.in[k].ndim);
                if (s.noperand > 3 || (s.rule.nin > 1 && s.rule.operand[1].ignored)) continue;
                s.sample.call.layout = home;
                struct naive want = choose_naively(&s, p, home, NULL);
                int status = sig_choose(&s.arena, s.atlas, p, &s.sample.call, &s.rule, price, &asked, true, &got);
                bool same = !status && got.best.bytes == want.bytes && got.best.nsame == want.nsame;
                for (int k = 0; k < s.noperand && same; k++) same = got.best.layout[k] == want.layout[k];
                tried++;
                wrong += !same;
                if (!same) diag("%s", status ? err_text() : sound_layout_text(&s, got.best.layout));
                if (!same && !status) diag("  wanted %s", sound_layout_text(&s, want.layout));
                unlisted += !status && (got.ncandidate != want.nlegal || got.candidate[0].bytes != got.best.bytes);
                for (int c = 1; c < got.ncandidate; c++)
                    unlisted += got.candidate[c].bytes < got.candidate[c - 1].bytes;
            }
            sound_end(&s);
        }
    ok(wrong == 0 && tried > 300, "the choice is that of trying everything, %d times", tried);
    ok(unlisted == 0, "every legal signature is listed, best first");
}

/* With too many combinations to try, two axes at a time: legal, never better than possible, and mostly the best. */
static void
test_by_pairs(uint64_t seed)
{
    const int32_t axis[] = {2, 2, 2, 2};
    int tried = 0, best = 0, wrong = 0;
    struct sound s;
    sound_start(&s, &where, "bool{8,4} f32{8,4} f32{4}", seed);
    const struct place *p = sound_place(&s, 4, axis);
    for (int n = 0; n < 12; n++, tried++) {
        const struct layout *home[3];
        for (int k = 0; k < 3; k++) home[k] = random_layout(&s, p, s.sample.in[k].ndim);
        struct sig_choice got;
        int asked = 0;
        s.sample.call.layout = home;
        struct naive want = choose_naively(&s, p, home, NULL);
        int status = sig_choose(&s.arena, s.atlas, p, &s.sample.call, &s.rule, price, &asked, true, &got);
        wrong += status || got.best.bytes < want.bytes || got.ncandidate != 1 ||
                 sig_check(&s.arena, &s.sample.call, &s.rule, got.best.layout);
        best += !status && got.best.bytes == want.bytes;
    }
    ok(wrong == 0, "a choice made two axes at a time is legal");
    ok(best * 4 >= tried * 3, "and mostly the best: %d of %d", best, tried);
    sound_end(&s);
}

/* The choice for these operands on a mesh, as text with its bytes. */
static const char *
chosen(const struct op *op, const char *sample, int naxis, const int32_t *axis, const char *const *text,
       const uint8_t *same)
{
    static struct str s;
    struct sound t;
    const struct layout *home[8] = {NULL};
    struct sig_choice got;
    int asked = 0;
    str_clear(&s);
    if (sound_start(&t, op, sample, 1)) return err_text();
    const struct place *p = sound_place(&t, naxis, axis);
    for (int k = 0; k < t.rule.nin; k++)
        if (!t.rule.operand[k].ignored && layout_parse(t.atlas, p, text[k], -1, &home[k])) return err_text();
    t.sample.call.layout = home;
    t.sample.call.same = same;
    if (sig_choose(&t.arena, t.atlas, p, &t.sample.call, &t.rule, price, &asked, false, &got)) return err_text();
    if (sig_check(&t.arena, &t.sample.call, &t.rule, got.best.layout)) return err_text();
    str_addf(&s, "%s, %lld bytes", sound_layout_text(&t, got.best.layout), (long long)got.best.bytes);
    sound_end(&t);
    return str_text(&s);
}

static const char *
chosen2(const struct op *op, const char *sample, const char *a, const char *b)
{
    return chosen(op, sample, 1, (const int32_t[]){2}, (const char *const[]){a, b}, NULL);
}

static void
test_ties(void)
{
    static const struct op sgd = {.name = "sgd",
                                  .in = {{"p"}, {"g"}},
                                  .ninplace = 1,
                                  .flags = OP_INPLACE | OP_ELTWISE,
                                  .make_rule = broadcast_rule,
                                  .eltwise = {.f = sub_f}};
    static const uint8_t twice[] = {0, 0};
    is_str(chosen2(&matmul, "f32{4,6} f32{6,8}", "S(0)", "B"), "S(0), B -> S(0), 0 bytes", "data parallel");
    is_str(chosen2(&matmul, "f32{4,6} f32{6,8}", "B", "S(1)"), "B, S(1) -> S(1), 0 bytes", "columns");
    is_str(chosen2(&matmul, "f32{4,6} f32{6,8}", "S(1)", "S(0)"), "S(1), S(0) -> P, 0 bytes",
           "a split contraction is partial");
    is_str(chosen2(&matmul, "f32{4,6} f32{6,8}", "B", "B"), "B, B -> B, 0 bytes", "nothing is cut without need");
    is_str(chosen2(&add, "f32{4} f32{4}", "B", "S(0)"), "S(0), S(0) -> S(0), 0 bytes",
           "to cut costs nothing, to gather does");
    is_str(chosen2(&sgd, "f32{4} f32{4}", "B", "B"), "B, B -> B, 0 bytes", "an update stays where its variable is");
    is_str(chosen2(&sgd, "f32{4} f32{4}", "B", "S(0)"), "S(0), S(0) -> S(0), 16 bytes",
           "bringing the result back costs as much as bringing the gradient would");
    is_str(chosen2(&sgd, "f32{4} f32{4}", "B", "P"), "B, B -> B, 16 bytes",
           "an all-reduce is not better in two halves");
    is_str(chosen2(&sgd, "f32{4} f32{4}", "S(0)", "P"), "S(0), S(0) -> S(0), 16 bytes",
           "a sharded variable stays sharded");
    is_str(chosen2(&mul, "f32{4,4} f32{4,4}", "S(0)", "S(1)"), "S(0), S(0) -> S(0), 32 bytes",
           "equal moves: the first in order");
    is_str(chosen(&dull, "f32{4,4} f32{4,4}", 1, (const int32_t[]){2}, (const char *const[]){"P", "P"}, NULL),
           "S(0), S(0) -> S(0), 128 bytes", "two operands move twice");
    is_str(chosen(&dull, "f32{4,4} f32{4,4}", 1, (const int32_t[]){2}, (const char *const[]){"P", "P"}, twice),
           "S(0), S(0) -> S(0), 64 bytes", "one value that is two operands moves once");
}

static void
test_one_rank(void)
{
    const int32_t one[] = {1}, one_two[] = {1, 2};
    const char *const plain[] = {"B", "B"}, *const cut[] = {"S(0)", "B"}, *const odd[] = {"P", "S(1)"};
    const char *const mixed[] = {"(S(0), B)", "(P, S(1))"};
    is_str(chosen(&matmul, "f32{4,6} f32{6,8}", 1, one, plain, NULL), "B, B -> B, 0 bytes",
           "one rank holds everything");
    is_str(chosen(&matmul, "f32{4,6} f32{6,8}", 1, one, cut, NULL), "S(0), B -> S(0), 0 bytes",
           "names of layouts are kept");
    is_str(chosen(&matmul, "f32{4,6} f32{6,8}", 1, one, odd, NULL), "P, S(1) -> S(1), 0 bytes",
           "whatever they are, nothing moves");
    is_str(chosen(&matmul, "f32{4,6} f32{6,8}", 2, one_two, mixed, NULL),
           "(S(0), B), (P, S(1)) -> (S(0), S(1)), 0 bytes", "an axis of one rank is no reason to move");
}

static void
test_orders(void)
{
    const int32_t two_two[] = {2, 2};
    const char *const turned[] = {"(S(0), S(0)) order (1, 0)", "(B, B)"};
    is_str(chosen(&matmul, "f32{4,6} f32{6,8}", 2, two_two, turned, NULL),
           "(S(0), S(0)) order (1, 0), (B, B) -> (S(0), S(0)) order (1, 0), 0 bytes",
           "an operand's cutting order is followed");
}

/* ---- large meshes ---- */

static int64_t
cheap_price(void *arg, const struct type *t, const struct layout *from, const struct layout *to)
{
    UNUSED(t);
    ++*(int *)arg;
    return 1 + (int64_t)(((uint64_t)from->id * 31 + (uint64_t)to->id) % 97);
}

static double
microseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void
test_large(void)
{
    static const struct {
        const struct op *op;
        const char *sample;
    } t[] = {{&matmul, "f32{4096,1024} f32{1024,4096}"},
             {&where, "bool{64,128,32,32} f32{64,128,32,32} f32{32,32}"},
             {&reshape, "f32{8192,1024} shape=64,128,16,64"},
             {&reshape, "f32{999,1024} shape=27,37,1024"}};
    static int32_t rank[8 * 16 * 8];
    const int32_t axis[] = {8, 16, 8};
    for (int i = 0; i < (int)countof(rank); i++) rank[i] = i;
    for (size_t i = 0; i < countof(t); i++) {
        struct arena a = {0};
        struct atlas *at = atlas_new();
        struct sample s;
        struct rule r;
        const struct place *p;
        const struct layout *home[3];
        sample_read(t[i].op, t[i].sample, &s);
        place_new(at, 0, 3, axis, rank, &p);
        if (call_infer(&a, &s.call, &r)) diag("%s", err_text());
        for (int k = 0; k < 3; k++) layout_parse(at, p, k == 1 ? "(S(1), B, S(0))" : "(S(0), S(1), B)", -1, &home[k]);
        s.call.layout = home;
        double best = 1e9;
        int asked = 0;
        for (int n = 0; n < 5; n++) {
            struct sig_choice got;
            double start = microseconds();
            asked = 0;
            if (sig_choose(&a, at, p, &s.call, &r, cheap_price, &asked, false, &got)) diag("%s", err_text());
            best = fmin(best, microseconds() - start);
        }
        diag("%s: %.0f us, %d prices", t[i].op->name, best, asked);
        ok(best < 20000, "%s on 8 x 16 x 8 ranks is chosen quickly", t[i].op->name);
        arena_fini(&a);
        atlas_free(&at);
    }
}

int
main(void)
{
    uint64_t seed = seed_of(1);
    test_golden();
    test_sound(seed);
    test_missing(seed);
    test_merged();
    test_check();
    test_check_errors();
    test_choice(seed);
    test_by_pairs(seed);
    test_ties();
    test_one_rank();
    test_orders();
    test_large();
    return done();
}
