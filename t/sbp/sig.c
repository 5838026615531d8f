/* sig.c - tests of signatures: derived signatures, their soundness, and the check of layouts. */
#include "t/lib/sbp_ops.h"

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
        ok(prove(wrong[i].op, wrong[i].sample, seed).failed > 0, "the false signatures that %s declares are found",
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
        str_addf(&name, "signatures of %s that hold and are not derived", t[i].op->name);
        is_str(str_text(&all), t[i].missing, str_text(&name));
        str_free(&all);
        str_free(&name);
        sound_end(&s);
    }
}

/* ---- meshes ---- */

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
    is_str(legal_on(&reshape, "f32{4,3} shape=2,6", 1, two), "S(0) -> S(0) | B -> B",
           "only the major factor of each dimension may be split");
    is_str(legal_on(&reshape, "f32{4,3} shape=2,2,3", 1, two), "S(0) -> S(0) | S(1) -> S(2) | B -> B",
           "a factor that is alone in its dimension may be split");
    is_str(legal_on(&reshape, "f32{6,2} shape=3,4", 1, two), "B -> B", "splits of 3 x 2 and of 6 do not coincide");
    is_str(legal_on(&reshape, "f32{6} shape=3,2", 1, two), "B -> B",
           "a major factor whose split does not coincide may not be split");
    is_str(legal_on(&reshape, "f32{6} shape=3,2", 1, three), "S(0) -> S(0) | B -> B",
           "a major factor whose split coincides may be split");
    is_str(legal_on(&reshape, "f32{6} shape=2,3", 1, four), "B -> B", "empty shards must coincide, too");
    is_str(legal_on(&reshape, "f32{12} shape=2,2,3", 2, two_two),
           "(S(0), S(0)) -> (S(0), S(1)) | (S(0), B) -> (S(0), B) | (B, S(0)) -> (B, S(0)) | (B, B) -> (B, B)",
           "the second split continues in the next factor");
    is_str(legal_on(&reshape, "f32{12} shape=2,6", 2, two_one),
           "(S(0), S(0)) -> (S(0), S(0)) | (S(0), S(0)) -> (S(0), S(1)) | (S(0), B) -> (S(0), B) | (B, S(0)) -> (B, "
           "S(0)) | "
           "(B, S(0)) -> (B, S(1)) | (B, B) -> (B, B)",
           "an axis of one rank splits nothing");
}

/* ---- the check ---- */

/* Lists every layout of a two-dimensional tensor on a mesh of two axes, in both orders if the order matters. */
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
    sound_start(&s, &matmul, "f32{4,6} f32{6,5}", 1);
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
    test_sound(seed);
    test_missing(seed);
    test_merged();
    test_check();
    test_check_errors();
    return done();
}
