/* sig.c - tests of signatures: derived signatures, their soundness, and the check of layouts. */
#include "kernels/op/base/table.h"
#include "t/lib/kernel/missing.h"

/* ---- derived signatures ---- */

/* Operators that cover every kind of rule, each with its signatures on one mesh axis in the order of derivation. */
static const struct {
    const char *op, *sample, *sigs;
} right[] = {
    {"matmul", "f32{4,5} f32{5,3}",
     "S(0), B -> S(0) | S(1), S(0) -> P | B, S(1) -> S(1) | B, B -> B | P, B -> P | B, P -> P"},
    {"add", "f32{4,5} f32{5}", "S(0), B -> S(0) | S(1), S(0) -> S(1) | B, B -> B | P, P -> P"},
    {"add", "f32{4,5} f32{1,5}", "S(0), B -> S(0) | S(1), S(1) -> S(1) | B, B -> B | P, P -> P"},
    {"add", "f32{4} #2.5", "S(0), - -> S(0) | B, - -> B"},
    {"add", "i64{4} i64{4}", "S(0), S(0) -> S(0) | B, B -> B | P, P -> P"},
    {"mul", "f32{3} f32{}", "S(0), B -> S(0) | B, B -> B | P, B -> P | B, P -> P"},
    {"mul", "f32{3} #3", "S(0), - -> S(0) | B, - -> B | P, - -> P"},
    {"neg", "f32{3,2}", "S(0) -> S(0) | S(1) -> S(1) | B -> B | P -> P | P(max) -> P(min) | P(min) -> P(max)"},
    {"relu", "f32{3}", "S(0) -> S(0) | B -> B | P(max) -> P(max) | P(min) -> P(min)"},
    {"where", "bool{3} f32{3} f32{}",
     "S(0), S(0), B -> S(0) | B, B, B -> B | B, P, P -> P | B, P(max), P(max) -> P(max) | B, P(max), B -> P(max) | "
     "B, B, P(max) -> P(max) | B, P(min), P(min) -> P(min) | B, P(min), B -> P(min) | B, B, P(min) -> P(min)"},
    {"where", "bool{3} f32{3} #0",
     "S(0), S(0), - -> S(0) | B, B, - -> B | B, P(max), - -> P(max) | B, P(min), - -> P(min)"},
    {"softmax", "f32{4,5}", "S(0) -> S(0) | B -> B"},
    {"sum", "f32{4,5} axis=1", "S(0) -> S(0) | S(1) -> P | B -> B | P -> P"},
    {"max", "f32{4,5} axis=1", "S(0) -> S(0) | S(1) -> P(max) | B -> B | P(max) -> P(max)"},
    {"embedding", "i64{5}<7 f32{7,3}", "S(0), B -> S(0) | B, S(0) -> P | B, S(1) -> S(1) | B, B -> B | B, P -> P"},
    {"norm_grad", "f32{4,5} f32{4,5} -", "S(0), S(0), - -> S(0), P, P | B, B, - -> B, B, B | B, P, - -> P, P, P"},
    {"reshape", "f32{4,3} shape=2,6",
     "S(0) -> S(0) | S(0) -> S(1) | S(1) -> S(1) | B -> B | P -> P | P(max) -> P(max) | P(min) -> P(min)"},
    {"reshape", "f32{12} shape=2,2,3",
     "S(0) -> S(0) | S(0) -> S(1) | S(0) -> S(2) | B -> B | P -> P | P(max) -> P(max) | P(min) -> P(min)"},
    {"reshape", "f32{6,4} shape=4,6", "S(0) -> S(0) | B -> B | P -> P | P(max) -> P(max) | P(min) -> P(min)"},
    {"reshape", "f32{5,2} shape=10",
     "S(0) -> S(0) | S(1) -> S(0) | B -> B | P -> P | P(max) -> P(max) | P(min) -> P(min)"},
};

static void
try_golden(const struct op *op, const char *sample, const char *sigs)
{
    struct sound s;
    struct str all = {0}, name = {0};
    int status = sound_start(&s, op, sample, 1);
    for (int g = 0; g < s.list.nsig && !status; g++) {
        str_add(&all, g ? " | " : "");
        str_add(&all, sound_combination(&s, s.list.sig[g].v, NULL));
    }
    str_addf(&name, "signatures of %s %s", op->name, sample);
    is_str(status ? err_text() : str_text(&all), sigs, str_text(&name));
    str_free(&name);
    str_free(&all);
    sound_end(&s);
}

/* Compares the derived signatures with the table. Also tries declarations that no real record has: a difference,
 * which increases with one operand and decreases with the other; and a sum that is linear in each operand, even a
 * scalar one. */
static void
test_golden(void)
{
    struct op sub = *op_find("sub"), add = *op_find("add");
    add.partial.linear_of = NULL;
    add.partial.linear = "01";
    sub.partial.linear_of = NULL;
    sub.partial.linear = "*";
    sub.partial.increasing = "0";
    sub.partial.decreasing = "1";
    for (size_t i = 0; i < countof(right); i++) try_golden(op_find(right[i].op), right[i].sample, right[i].sigs);
    try_golden(&sub, "f32{3} f32{3}",
               "S(0), S(0) -> S(0) | B, B -> B | P, P -> P | P(max), B -> P(max) | P(min), B -> P(min) | "
               "B, P(max) -> P(min) | B, P(min) -> P(max)");
    try_golden(&add, "f32{4} f32{4}", "S(0), S(0) -> S(0) | B, B -> B | P, P -> P");
    try_golden(&add, "f32{4} #2.5", "S(0), - -> S(0) | B, - -> B");
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

/* Adds a false declaration to a real record. The soundness test must find the false signatures that follow from the
 * declaration. (t/op/sound.c proves the signatures of the real records.) */
static void
test_false(uint64_t seed)
{
    static const struct {
        const char *op, *sample, *linear, *increasing, *rule;
        int reduce;
    } wrong[] = {
        {"square", "f32{3}", "0", NULL, NULL, RED_NONE},      {"add", "f32{3} f32{3}", "0", NULL, NULL, RED_NONE},
        {"add", "f32{3} f32{3}", NULL, "01", NULL, RED_NONE}, {"softmax", "f32{4,5}", NULL, NULL, "ab->ab", RED_NONE},
        {"max", "f32{4,5} axis=1", NULL, "0", NULL, RED_SUM}, {"prod", "f32{4,5} axis=1", NULL, NULL, NULL, RED_SUM},
    };
    for (size_t i = 0; i < countof(wrong); i++) {
        struct op op = *op_find(wrong[i].op);
        op.partial = (__typeof__(op.partial)){0};
        op.partial.linear = wrong[i].linear;
        op.partial.increasing = wrong[i].increasing;
        op.partial.reduce = wrong[i].reduce;
        if (wrong[i].rule) op.shape.make_rule = NULL, op.shape.rule = wrong[i].rule;
        struct sound_tally t = prove(&op, wrong[i].sample, seed);
        ok(t.failed > 0 && t.proved > 0, "a false declaration of %s is found", wrong[i].op);
    }
}

static void
collect(void *arg, const struct sound *s, const struct sbp *v)
{
    struct str *all = arg;
    str_add(all, all->len ? " | " : "");
    str_add(all, sound_combination(s, v, NULL));
}

static void
test_missing(uint64_t seed)
{
    struct op dull = *op_find("mul"), unsplit = *op_find("contiguous");
    dull.partial.linear = NULL;
    unsplit.shape.make_rule = NULL;
    unsplit.shape.rule = "[a]b->[a]b";
    const struct {
        const struct op *op;
        const char *sample, *missing;
    } t[] = {
        {op_find("embedding"), "i64{5}<7 f32{7,3}", "B, P(max) -> P(max) | B, P(min) -> P(min)"},
        {&dull, "f32{4} f32{4}", "B, P -> P | P, B -> P"},
        {&unsplit, "f32{3,4}", "S(0) -> S(0)"},
    };
    for (size_t i = 0; i < countof(t); i++) {
        struct sound s;
        struct str all = {0}, name = {0};
        if (sound_start(&s, t[i].op, t[i].sample, seed)) diag("%s", err_text());
        sound_each_missing(&s, collect, &all);
        str_addf(&name, "signatures of %s that hold and are not derived", t[i].op->name);
        is_str(str_text(&all), t[i].missing, str_text(&name));
        str_free(&all);
        str_free(&name);
        sound_end(&s);
    }
}

/* ---- legal layouts on meshes of several axes ---- */

/* Returns, as text, the combinations of layouts that are legal on a mesh for a sample call. */
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
    is_str(legal_on(op_find("reshape"), "f32{4,3} shape=2,6", 1, two), "S(0) -> S(0) | B -> B",
           "only the major factor of each dimension may be split");
    is_str(legal_on(op_find("reshape"), "f32{4,3} shape=2,2,3", 1, two), "S(0) -> S(0) | S(1) -> S(2) | B -> B",
           "a factor that is alone in its dimension may be split");
    is_str(legal_on(op_find("reshape"), "f32{6,2} shape=3,4", 1, two), "S(0, unit 2) -> S(0) | B -> B",
           "splits of 3 x 2 and of 6 coincide with units");
    is_str(legal_on(op_find("reshape"), "f32{6} shape=3,2", 1, two), "S(0, unit 2) -> S(0) | B -> B",
           "a major factor whose split does not divide evenly gives its dimension a unit");
    is_str(legal_on(op_find("reshape"), "f32{6} shape=3,2", 1, three), "S(0) -> S(0) | B -> B",
           "a major factor whose split coincides may be split");
    is_str(legal_on(op_find("reshape"), "f32{6} shape=2,3", 1, four), "S(0, unit 3) -> S(0) | B -> B",
           "shards may be empty");
    is_str(legal_on(op_find("reshape"), "f32{12} shape=2,2,3", 2, two_two),
           "(S(0), S(0, unit 6)) -> (S(0), S(0)) | (S(0), S(0)) -> (S(0), S(1)) | (S(0), B) -> (S(0), B) | "
           "(B, S(0)) -> (B, S(0)) | (B, B) -> (B, B)",
           "the second split continues in the next factor, or leaves ranks without elements");
    is_str(legal_on(op_find("reshape"), "f32{12} shape=2,6", 2, two_one),
           "(S(0), S(0)) -> (S(0), S(0)) | (S(0), S(0)) -> (S(0), S(1)) | (S(0), B) -> (S(0), B) | (B, S(0)) -> (B, "
           "S(0)) | "
           "(B, S(0)) -> (B, S(1)) | (B, B) -> (B, B)",
           "an axis of one rank splits nothing");
}

/* ---- the check of layouts ---- */

/* Lists every layout of a two-dimensional tensor on a mesh of two axes. If the order in which the axes split the
 * tensor matters, lists a layout for each order. */
static int
all_layouts(struct sound *s, const struct place *p, const struct layout **out)
{
    static const uint8_t reversed[MAX_AXIS] = {1, 0};
    struct type t = type_of(DT_F32, 2, (int64_t[]){4, 4});
    struct sbp v[MAX_DIM + 4], pick[2];
    int n = sound_options(&t, v), count = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            if (v[i].kind == SBP_P && v[j].kind == SBP_P && i != j) continue;
            pick[0] = v[i], pick[1] = v[j];
            layout_new(s->atlas, p, pick, NULL, &out[count++]);
            if (v[i].kind == SBP_S && i == j) layout_new(s->atlas, p, pick, reversed, &out[count++]);
        }
    return count;
}

static void
test_check(void)
{
    static const uint8_t reversed[MAX_AXIS] = {1, 0};
    const int32_t two_three[] = {2, 3};
    struct sound s;
    sound_start(&s, op_find("matmul"), "f32{4,6} f32{6,5}", 1);
    const struct place *p = sound_place(&s, 2, two_three);
    struct arena scratch = {0};
    const struct layout *every[64], *layout[3], *derived[200][3];
    int n = all_layouts(&s, p, every), nderived = 0, passed = 0, wrong = 0;
    int choice[MAX_AXIS] = {0};
    for (choice[0] = 0; choice[0] < s.list.nsig; choice[0]++)
        for (choice[1] = 0; choice[1] < s.list.nsig; choice[1]++)
            for (int o = 0; o < 2; o++) {
                sig_layouts(s.atlas, p, &s.sample.call, &s.rule, &s.list, choice, o ? reversed : NULL,
                            derived[nderived]);
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
       "of %d triples of layouts the check passes exactly the %d derived ones", n * n * n, nderived);
    arena_fini(&scratch);
    sound_end(&s);
}

/* Fills, for each operand of matmul, the layouts of one mesh axis that fit its type, with units of 0, 2, 3 and 4. */
static void
layouts_with_units(struct sound *s, const struct place *p, const struct layout *every[3][16], int n[3])
{
    for (int k = 0; k < 3; k++) {
        struct sbp v[MAX_DIM + 4];
        const struct type *t = sound_type(s, k);
        int nv = sound_options(t, v);
        for (int i = n[k] = 0; i < nv; i++)
            for (int32_t unit = 0; unit < (v[i].kind == SBP_S ? 5 : 1); unit++) {
                v[i].unit = unit;
                if (unit != 1 && !layout_new(s->atlas, p, &v[i], NULL, &every[k][n[k]]) &&
                    !layout_fits(every[k][n[k]], t))
                    n[k]++;
            }
    }
}

/* Returns true if the layouts are a derived signature whose factors have some units, or have the same boxes. */
static bool
derived_with_units(struct sound *s, const struct place *p, const struct layout *const *layout)
{
    for (int code = 0; code < 4 * 4 * 4; code++) {
        static const int32_t units[] = {1, 2, 3, 4};
        int32_t unit[RULE_FACTOR] = {units[code % 4], units[code / 4 % 4], units[code / 16]};
        for (int f = 0; f < 3; f++)
            if (s->rule.factor[f].size % unit[f]) unit[f] = 1;
        sig_axis(&s->arena, &s->sample.call, &s->rule, unit, &s->list);
        for (int g = 0; g < s->list.nsig; g++) {
            const struct layout *made[3];
            bool same = sig_layouts(s->atlas, p, &s->sample.call, &s->rule, &s->list, &g, NULL, made);
            for (int k = 0; k < 3 && same; k++) same = layout_same_boxes(made[k], layout[k], sound_type(s, k));
            if (same) return true;
        }
    }
    return false;
}

static void
test_check_units(void)
{
    for (int32_t parts = 2; parts <= 4; parts++) {
        struct sound s;
        sound_start(&s, op_find("matmul"), "f32{12,6} f32{6,4}", 1);
        const struct place *p = sound_place(&s, 1, &parts);
        const struct layout *every[3][16], *layout[3];
        struct arena scratch = {0};
        int n[3], wrong = 0, passed = 0;
        layouts_with_units(&s, p, every, n);
        for (int i = 0; i < n[0] * n[1] * n[2]; i++) {
            layout[0] = every[0][i % n[0]];
            layout[1] = every[1][i / n[0] % n[1]];
            layout[2] = every[2][i / n[0] / n[1]];
            bool legal = !sig_check(&scratch, &s.sample.call, &s.rule, layout);
            wrong += legal != derived_with_units(&s, p, layout);
            passed += legal;
            arena_reset(&scratch);
        }
        ok(!wrong && passed > 10,
           "on %d ranks, %d of %d triples of layouts with units are signatures, and the check agrees", (int)parts,
           passed, n[0] * n[1] * n[2]);
        arena_fini(&scratch);
        sound_end(&s);
    }
}

static void
test_check_errors(void)
{
    const int32_t two[] = {2}, two_two[] = {2, 2};
    struct sound s;
    sound_start(&s, op_find("matmul"), "f32{4,6} f32{6,5}", 1);
    const struct place *p = sound_place(&s, 1, two), *q = sound_place(&s, 2, two_two);
    const struct layout *layout[3];
    layout_parse(s.atlas, p, "S(0)", 2, &layout[0]);
    layout_parse(s.atlas, p, "S(1)", 2, &layout[1]);
    layout_parse(s.atlas, p, "B", 2, &layout[2]);
    ok(sig_check(&s.arena, &s.sample.call, &s.rule, layout) == E_SBP, "layouts that form no signature are an error");
    is_str(err_text(), "matmul: a S(0), b S(1) -> B: not a legal signature", "the message prints the layouts");
    layout[1] = layout_broadcast(s.atlas, q);
    ok(sig_check(&s.arena, &s.sample.call, &s.rule, layout) == E_SBP && strstr(err_text(), "placements"),
       "operands on two placements are an error");
    layout_parse(s.atlas, q, "(S(0), S(0))", 2, &layout[0]);
    layout_parse(s.atlas, q, "(S(0), S(0)) order (1, 0)", 2, &layout[2]);
    ok(sig_check(&s.arena, &s.sample.call, &s.rule, layout) == E_SBP && strstr(err_text(), "orders"),
       "operands split in two orders are an error");
    sound_end(&s);
}

int
main(void)
{
    uint64_t seed = seed_of(1);
    test_golden();
    test_false(seed);
    test_missing(seed);
    test_merged();
    test_check();
    test_check_units();
    test_check_errors();
    return done();
}
