/* choose.c - tests the choice of a signature for one call: comparison with an exhaustive search, ties, and meshes of
 * one rank and of many. */
#include "runtime/base/clock.h"
#include "t/lib/sbp_ops.h"

/* Returns a simple price of a move: the bytes of the target layout that each rank lacks, plus the tensor's bytes for
 * each axis on which it stops being partial. */
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
    int64_t bytes, owed;
    double share;
    bool idle;
    int nsame, nlegal;
    const struct layout *layout[8];
};

/* Returns the lowest price of making these axes of layout l B or S, over all combinations of dimensions. The axes
 * split in mesh order, or after the other axes. */
static int64_t
debt_naively(struct sound *s, const struct type *t, const struct layout *l, unsigned axes)
{
    int64_t least = axes ? INT64_MAX : 0;
    int asked = 0, total = 1, naxis = l->place->naxis;
    for (int x = 0; x < naxis; x++) total *= axes >> x & 1 ? t->ndim + 1 : 1;
    for (int i = 0; axes && i < 2 * total; i++) {
        struct sbp v[MAX_AXIS];
        uint8_t after[MAX_AXIS];
        const struct layout *to;
        int left = i / 2, n = 0;
        for (int x = 0; x < naxis; x++) {
            v[x] = l->sbp[x];
            if (!(axes >> x & 1)) continue;
            int d = left % (t->ndim + 1);
            left /= t->ndim + 1;
            v[x] = d < t->ndim ? (struct sbp){.kind = SBP_S, .axis = (uint8_t)d} : (struct sbp){.kind = SBP_B};
        }
        for (unsigned last = 0; last < 2; last++)
            for (int x = 0; x < naxis; x++)
                if ((axes >> x & 1) == last) after[n++] = (uint8_t)x;
        layout_new(s->atlas, l->place, v, i % 2 ? after : NULL, &to);
        least = MIN(least, price(&asked, t, l, to));
    }
    return least;
}

/* Returns true if an operand becomes partial on mesh axis x in a way that is not allowed. */
static bool
partial_by_itself(const struct sound *s, const struct layout *const *given, const struct layout *const *layout, int x)
{
    bool beside_sum = false;
    for (int k = 0; k < s->rule.nin; k++)
        beside_sum |= given[k]->sbp[x].kind == SBP_P && given[k]->sbp[x].reduce == RED_SUM;
    for (int k = 0; k < s->rule.nin; k++) {
        struct sbp was = given[k]->sbp[x], is = layout[k]->sbp[x];
        bool padded = was.kind == SBP_B && is.reduce == RED_SUM && beside_sum;
        if (is.kind == SBP_P && !padded && !(was.kind == SBP_P && was.reduce == is.reduce)) return true;
    }
    return false;
}

/* Returns true if, on axis x, an operand already splits the factor of signature g, and every other operand with this
 * factor splits it in the same way or is B. */
static bool
laid_out_so(const struct sound *s, const struct sig *g, const struct layout *const *given, int x)
{
    int same = 0, other = 0;
    for (int k = 0; k < s->rule.nin; k++) {
        struct sbp was = given[k]->sbp[x];
        if (g->v[k].kind != SBP_S) continue;
        same += was.kind == SBP_S && was.axis == g->v[k].axis;
        other += was.kind == SBP_P || (was.kind == SBP_S && was.axis != g->v[k].axis);
    }
    return g->factor >= 0 && same && !other;
}

static int64_t
owed_naively(struct sound *s, const struct place *p, const struct layout *const *given, const int *choice,
             const struct layout *const *layout)
{
    int64_t owed = 0, before = 0;
    unsigned forced = 0;
    for (int x = 0; x < p->naxis; x++)
        if (laid_out_so(s, &s->list.sig[choice[x]], given, x)) forced |= 1u << x;
    for (int k = 0; k < s->noperand; k++) {
        unsigned axes = 0;
        for (int x = 0; x < p->naxis; x++)
            if (layout[k]->sbp[x].kind == SBP_P &&
                (k >= s->rule.nin ? !(forced >> x & 1) : given[k]->sbp[x].kind == SBP_P))
                axes |= 1u << x;
        if (k < s->rule.nin)
            before += debt_naively(s, &s->sample.in[k], given[k], axes);
        else
            owed += debt_naively(s, &s->sample.call.out[k - s->rule.nin], layout[k], axes);
    }
    return MAX(owed - before, 0);
}

/* Returns true if some rank has no element of an operand or result. */
static bool
leaves_idle(const struct sound *s, const struct layout *const *layout)
{
    for (int k = 0; k < s->noperand; k++)
        for (int pos = 0; pos < layout[k]->place->nrank; pos++) {
            struct type part = layout_shard(layout[k], sound_type(s, k), pos);
            if (!type_numel(&part)) return true;
        }
    return false;
}

static int64_t
counted(const struct naive *n)
{
    int64_t all = n->bytes + n->owed;
    return n->idle && all ? all + all / 20 + 1 : all;
}

/* Compares two choices by total bytes (plus 5 % if ranks have no work), then by share of the busiest rank, by bytes
 * moved now, and by number of unchanged operands. The earlier choice wins a tie. */
static bool
is_better(const struct naive *a, const struct naive *b)
{
    if (!b->nlegal) return true;
    if (counted(a) != counted(b)) return counted(a) < counted(b);
    if (counted(a) && fabs(a->share - b->share) > 1e-9) return a->share < b->share;
    return a->bytes != b->bytes ? a->bytes < b->bytes : a->nsame > b->nsame;
}

/* Chooses a signature by exhaustive search over all combinations. */
static struct naive
choose_naively(struct sound *s, const struct place *p, const struct layout *const *given, const uint8_t *order)
{
    struct naive best = {0};
    int asked = 0, choice[MAX_AXIS] = {0}, total = 1;
    for (int x = 0; x < p->naxis; x++) total *= s->list.nsig;
    for (int i = 0; i < total; i++) {
        struct naive now = {0};
        for (int x = p->naxis - 1, left = i; x >= 0; x--, left /= s->list.nsig) choice[x] = left % s->list.nsig;
        if (!sig_layouts(s->atlas, p, &s->sample.call, &s->rule, &s->list, choice, order, now.layout)) continue;
        bool possible = true;
        for (int x = 0; x < p->naxis; x++) possible &= !partial_by_itself(s, given, now.layout, x);
        for (int k = 0; k < s->rule.nin && possible; k++) {
            int64_t bytes = price(&asked, &s->sample.in[k], given[k], now.layout[k]);
            possible = bytes != INT64_MAX;
            now.bytes += possible ? bytes : 0;
            now.nsame += given[k] == now.layout[k];
        }
        if (!possible) continue;
        now.owed = owed_naively(s, p, given, choice, now.layout);
        now.share = sig_share(&s->sample.call, &s->rule, now.layout);
        now.idle = leaves_idle(s, now.layout);
        now.nlegal = best.nlegal + 1;
        if (is_better(&now, &best)) best = now;
        best.nlegal = now.nlegal;
    }
    return best;
}

/* Returns a random layout for a tensor of ndim dimensions; its axes split in mesh order. */
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
                const struct layout *given[8] = {NULL};
                struct sig_choice got;
                int asked = 0;
                for (int k = 0; k < s.rule.nin; k++)
                    if (!s.rule.operand[k].ignored) given[k] = random_layout(&s, p, s.sample.in[k].ndim);
                if (s.noperand > 3 || (s.rule.nin > 1 && s.rule.operand[1].ignored)) continue;
                s.sample.call.layout = given;
                struct naive want = choose_naively(&s, p, given, NULL);
                struct sig_question q = {s.atlas, p, &s.sample.call, &s.rule, price, &asked};
                struct sig_candidate best;
                int status = sig_choose(&s.arena, &q, &best);
                bool same = !status && best.bytes == want.bytes && best.owed == want.owed && best.nsame == want.nsame &&
                            fabs(best.share - want.share) < 1e-9;
                for (int k = 0; k < s.noperand && same; k++) same = best.layout[k] == want.layout[k];
                tried++;
                wrong += !same;
                if (!same) diag("%s", status ? err_text() : sound_layout_text(&s, best.layout));
                if (!same && !status)
                    diag("  wanted %s, share %g not %g", sound_layout_text(&s, want.layout), want.share, best.share);
                unlisted += sig_list_all(&s.arena, &q, &got) || got.ncandidate != want.nlegal ||
                            got.candidate[0].layout[0] != best.layout[0];
                for (int c = 1; c < got.ncandidate; c++)
                    unlisted += 1.05 * (double)(got.candidate[c].bytes + got.candidate[c].owed) + 1 <
                                (double)(got.candidate[c - 1].bytes + got.candidate[c - 1].owed);
            }
            sound_end(&s);
        }
    ok(wrong == 0 && tried > 300, "the choice equals that of an exhaustive search, %d times", tried);
    ok(unlisted == 0, "every legal signature is listed, best first");
}

/* Tests a mesh with too many combinations, where sig_choose works on two axes at a time. The choice must be legal,
 * never cheaper than the optimum, and mostly optimal. */
static void
test_by_pairs(uint64_t seed)
{
    const int32_t axis[] = {2, 2, 2, 2};
    int tried = 0, best = 0, wrong = 0;
    struct sound s;
    sound_start(&s, &mul, "f32{2,2,2,2,2,2,2,2} f32{2,2,2,2,2,2,2,2}", seed);
    const struct place *p = sound_place(&s, 4, axis);
    for (int n = 0; n < 6; n++, tried++) {
        const struct layout *given[2];
        for (int k = 0; k < 2; k++) given[k] = random_layout(&s, p, s.sample.in[k].ndim);
        struct sig_candidate got;
        struct sig_choice all;
        int asked = 0;
        s.sample.call.layout = given;
        struct naive want = choose_naively(&s, p, given, NULL);
        struct sig_question q = {s.atlas, p, &s.sample.call, &s.rule, price, &asked};
        int status = sig_choose(&s.arena, &q, &got) || sig_list_all(&s.arena, &q, &all);
        wrong += status || all.ncandidate != 1 || got.bytes + got.owed < want.bytes + want.owed ||
                 sig_check(&s.arena, &s.sample.call, &s.rule, got.layout);
        best += !status && got.bytes + got.owed == want.bytes + want.owed;
    }
    ok(wrong == 0, "a choice made two axes at a time is legal");
    ok(best * 4 >= tried * 3, "a choice made two axes at a time is mostly optimal: %d of %d", best, tried);
    sound_end(&s);
}

/* Returns, as text, the choice for these operands on a mesh, with its bytes. */
static const char *
chosen(const struct op *op, const char *sample, int naxis, const int32_t *axis, const char *const *text,
       const uint8_t *same)
{
    static struct str s;
    struct sound t;
    const struct layout *given[8] = {NULL};
    struct sig_candidate got;
    int asked = 0;
    str_clear(&s);
    if (sound_start(&t, op, sample, 1)) return err_text();
    const struct place *p = sound_place(&t, naxis, axis);
    for (int k = 0; k < t.rule.nin; k++)
        if (!t.rule.operand[k].ignored && layout_parse(t.atlas, p, text[k], -1, &given[k])) return err_text();
    t.sample.call.layout = given;
    t.sample.call.same = same;
    struct sig_question q = {t.atlas, p, &t.sample.call, &t.rule, price, &asked};
    if (sig_choose(&t.arena, &q, &got)) return err_text();
    if (sig_check(&t.arena, &t.sample.call, &t.rule, got.layout)) return err_text();
    str_addf(&s, "%s, %lld bytes", sound_layout_text(&t, got.layout), (long long)got.bytes);
    if (got.owed) str_addf(&s, ", %lld owed", (long long)got.owed);
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
                                  .shape.make_rule = broadcast_rule,
                                  .eltwise = {.f = sub_f}};
    static const uint8_t twice[] = {0, 0};
    is_str(chosen2(&matmul, "f32{4,6} f32{6,8}", "S(0)", "B"), "S(0), B -> S(0), 0 bytes", "data parallel");
    is_str(chosen2(&matmul, "f32{4,6} f32{6,8}", "B", "S(1)"), "B, S(1) -> S(1), 0 bytes", "columns");
    is_str(chosen2(&matmul, "f32{4,6} f32{6,8}", "S(1)", "S(0)"), "S(1), S(0) -> P, 0 bytes",
           "a split contraction is partial");
    is_str(chosen2(&matmul, "f32{4,6} f32{6,8}", "B", "B"), "B, B -> B, 0 bytes", "nothing is split without need");
    is_str(chosen2(&add, "f32{4} f32{4}", "B", "S(0)"), "S(0), S(0) -> S(0), 0 bytes",
           "splitting is free, and gathering is not");
    is_str(chosen2(&sgd, "f32{4} f32{4}", "B", "B"), "B, B -> B, 0 bytes",
           "an update keeps the layout of its variable");
    is_str(chosen2(&sgd, "f32{4} f32{4}", "B", "S(0)"), "S(0), S(0) -> S(0), 16 bytes",
           "gathering the gradient costs the same as gathering the result");
    is_str(chosen2(&sgd, "f32{4} f32{4}", "B", "P"), "B, B -> B, 16 bytes",
           "an all-reduce is not replaced by reduce-scatter and all-gather");
    is_str(chosen2(&sgd, "f32{4} f32{4}", "S(0)", "P"), "S(0), S(0) -> S(0), 16 bytes",
           "a sharded variable stays sharded");
    is_str(chosen2(&mul, "f32{4,4} f32{4,4}", "S(0)", "S(1)"), "S(0), S(0) -> S(0), 32 bytes",
           "of equal moves, the first in order is chosen");
    is_str(chosen(&dull, "f32{4,4} f32{4,4}", 1, (const int32_t[]){2}, (const char *const[]){"P", "P"}, NULL),
           "S(0), S(0) -> S(0), 128 bytes", "two different operands are moved twice");
    is_str(chosen(&dull, "f32{4,4} f32{4,4}", 1, (const int32_t[]){2}, (const char *const[]){"P", "P"}, twice),
           "S(0), S(0) -> S(0), 64 bytes", "one value used as two operands is moved once");
}

static void
test_one_rank(void)
{
    const int32_t one[] = {1}, one_two[] = {1, 2};
    const char *const plain[] = {"B", "B"}, *const cut[] = {"S(0)", "B"}, *const odd[] = {"P", "S(1)"};
    const char *const mixed[] = {"(S(0), B)", "(P, S(1))"};
    is_str(chosen(&matmul, "f32{4,6} f32{6,8}", 1, one, plain, NULL), "B, B -> B, 0 bytes",
           "on one rank nothing moves");
    is_str(chosen(&matmul, "f32{4,6} f32{6,8}", 1, one, cut, NULL), "S(0), B -> S(0), 0 bytes",
           "on one rank the operands' layouts are kept");
    is_str(chosen(&matmul, "f32{4,6} f32{6,8}", 1, one, odd, NULL), "P, S(1) -> S(1), 0 bytes",
           "on one rank nothing moves, whatever the layouts");
    is_str(chosen(&matmul, "f32{4,6} f32{6,8}", 2, one_two, mixed, NULL),
           "(S(0), B), (P, S(1)) -> (S(0), S(1)), 0 bytes", "an axis of one rank causes no move");
}

static void
test_orders(void)
{
    const int32_t two_two[] = {2, 2};
    const char *const swapped[] = {"(S(0), S(0)) order (1, 0)", "(B, B)"};
    is_str(chosen(&matmul, "f32{4,6} f32{6,8}", 2, two_two, swapped, NULL),
           "(S(0), S(0)) order (1, 0), (B, B) -> (S(0), S(0)) order (1, 0), 0 bytes",
           "the choice follows an operand's split order");
}

/* ---- large meshes ---- */

static int64_t
cheap_price(void *arg, const struct type *t, const struct layout *from, const struct layout *to)
{
    UNUSED(t);
    ++*(int *)arg;
    return 1 + (int64_t)(((uint64_t)from->id * 31 + (uint64_t)to->id) % 97);
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
        const struct layout *given[3];
        sample_read(t[i].op, t[i].sample, &s);
        place_new(at, 0, 3, axis, rank, &p);
        if (call_infer(&a, &s.call, &r)) diag("%s", err_text());
        for (int k = 0; k < 3; k++) layout_parse(at, p, k == 1 ? "(S(1), B, S(0))" : "(S(0), S(1), B)", -1, &given[k]);
        s.call.layout = given;
        double best = 1e9;
        int asked = 0;
        for (int n = 0; n < 5; n++) {
            struct sig_candidate got;
            struct sig_question q = {at, p, &s.call, &r, cheap_price, &asked};
            int64_t start = now_ns();
            asked = 0;
            if (sig_choose(&a, &q, &got)) diag("%s", err_text());
            best = fmin(best, 1e-3 * (double)(now_ns() - start));
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
    test_choice(seed);
    test_by_pairs(seed);
    test_ties();
    test_one_rank();
    test_orders();
    test_large();
    return done();
}
