/* choose.c - tests the choice of a signature: comparison with an exhaustive search for every operator, ties, updates,
 * and meshes of one rank and of many. Prices are those that a session uses. */
#include "boxing/box.h"
#include "boxing/bytes.h"
#include "kernels/op/base/table.h"
#include "runtime/base/clock.h"
#include "t/lib/kernel/missing.h"
#include "sbp/choose.h"

static int64_t
price(void *arg, const struct type *t, const struct layout *from, const struct layout *to)
{
    UNUSED(arg);
    return box_bytes(t, from, to);
}

struct naive {
    int64_t bytes, owed;
    double share;
    bool idle;
    int nsame, nlegal;
    const struct layout *layout[SAMPLE_IN + OP_OUT];
};

/* Returns the lowest price of removing partial values from layout l: of converting it to a layout whose entries on
 * the given axes are B or S. Tries all combinations of split dimensions. The given axes split in mesh order, or
 * after all other axes. */
static int64_t
debt_naively(struct sound *s, const struct type *t, const struct layout *l, unsigned axes)
{
    int64_t least = axes ? INT64_MAX : 0;
    int total = 1, naxis = l->place->naxis;
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
        least = MIN(least, box_bytes(t, l, to));
    }
    return least;
}

/* Returns true if an operand becomes partial on mesh axis x although the rules forbid it. */
static bool
partial_by_itself(const struct sound *s, const struct layout *const *given, const struct layout *const *layout, int x)
{
    bool beside_sum = false;
    for (int k = 0; k < s->rule.nin; k++)
        beside_sum |= given[k] && given[k]->sbp[x].kind == SBP_P && given[k]->sbp[x].reduce == RED_SUM;
    for (int k = 0; k < s->rule.nin; k++) {
        if (!given[k]) continue;
        struct sbp was = given[k]->sbp[x], is = layout[k]->sbp[x];
        bool padded = was.kind == SBP_B && is.reduce == RED_SUM && beside_sum;
        if (is.kind == SBP_P && !padded && !(was.kind == SBP_P && was.reduce == is.reduce)) return true;
    }
    return false;
}

/* Returns true if, on mesh axis x, operands are already split as signature g requires: at least one operand has
 * the required split, and no other operand is partial or split along another dimension. */
static bool
laid_out_so(const struct sound *s, const struct sig *g, const struct layout *const *given, int x)
{
    int same = 0, other = 0;
    for (int k = 0; k < s->rule.nin; k++) {
        if (!given[k] || g->v[k].kind != SBP_S) continue;
        struct sbp was = given[k]->sbp[x];
        bool is = sig_entry_is(given[k], &s->sample.in[k], x, g->v[k]);
        same += is;
        other += was.kind == SBP_P || (was.kind == SBP_S && !is);
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
        for (int x = 0; x < p->naxis && layout[k]; x++)
            if (layout[k]->sbp[x].kind == SBP_P &&
                (k >= s->rule.nin ? !(forced >> x & 1) : given[k]->sbp[x].kind == SBP_P))
                axes |= 1u << x;
        if (!layout[k]) continue;
        if (k < s->rule.nin)
            before += debt_naively(s, &s->sample.in[k], given[k], axes);
        else
            owed += debt_naively(s, &s->sample.call.out[k - s->rule.nin], layout[k], axes);
    }
    return MAX(owed - before, 0);
}

/* Returns true if a rank has no element of an operand or result, although this operand or result is not empty. */
static bool
leaves_idle(const struct sound *s, const struct layout *const *layout)
{
    for (int k = 0; k < s->noperand; k++)
        for (int pos = 0; layout[k] && type_numel(sound_type(s, k)) && pos < layout[k]->place->nrank; pos++) {
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

/* Compares two choices. The first difference decides: total bytes (plus 5 % if ranks have no work), share of the
 * busiest rank, bytes moved now, number of unchanged operands. The earlier choice wins a tie. */
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
    int choice[MAX_AXIS] = {0}, total = 1;
    for (int x = 0; x < p->naxis; x++) total *= s->list.nsig;
    for (int i = 0; i < total; i++) {
        struct naive now = {0};
        for (int x = p->naxis - 1, left = i; x >= 0; x--, left /= s->list.nsig) choice[x] = left % s->list.nsig;
        if (!sig_layouts(s->atlas, p, &s->sample.call, &s->rule, &s->list, choice, order, now.layout)) continue;
        bool possible = true;
        for (int x = 0; x < p->naxis; x++) possible &= !partial_by_itself(s, given, now.layout, x);
        for (int k = 0; k < s->rule.nin && possible; k++) {
            if (!given[k]) continue;
            int64_t bytes = box_bytes(&s->sample.in[k], given[k], now.layout[k]);
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

/* Returns a random layout for a tensor; its axes split in mesh order, some by units. plain: without partial values. */
static const struct layout *
random_layout(struct sound *s, const struct place *p, const struct type *t, bool plain)
{
    struct sbp v[MAX_AXIS];
    static const uint8_t mesh_order[MAX_AXIS] = {0, 1, 2, 3, 4, 5};
    int ndim = t->ndim, kind = RED_SUM + (int)(next_random(&s->random) % 3);
    for (int x = 0; x < p->naxis; x++) {
        int i = (int)(next_random(&s->random) % (uint64_t)(ndim + (plain ? 1 : 2)));
        int32_t unit = plain && next_random(&s->random) % 3 == 0 ? 2 : 0;
        v[x] = i < ndim    ? (struct sbp){.kind = SBP_S, .axis = (uint8_t)i, .unit = unit}
               : i == ndim ? (struct sbp){.kind = SBP_B}
                           : (struct sbp){.kind = SBP_P, .reduce = (uint8_t)kind};
    }
    const struct layout *l;
    layout_drop_units(p, t, mesh_order, v);
    layout_new(s->atlas, p, v, NULL, &l);
    return l;
}

/* Compares the choice for these operands with an exhaustive search. Also checks the list of legal signatures:
 * complete, best first, with their shares of the work. */
static bool
is_best(struct sound *s, const struct place *p, const struct layout *const *given)
{
    struct sig_choice all;
    struct sig_candidate got;
    s->sample.call.layout = given;
    sound_list(s, p, given);
    struct naive want = choose_naively(s, p, given, NULL);
    struct sig_question q = {s->atlas, p, &s->sample.call, &s->rule, price, NULL};
    if (sig_choose(&s->arena, &q, &got) || sig_list_all(&s->arena, &q, &all)) return want.nlegal == 0;
    bool same = got.bytes == want.bytes && got.owed == want.owed && got.nsame == want.nsame &&
                fabs(got.share - want.share) < 1e-9;
    for (int k = 0; k < s->noperand; k++) same &= got.layout[k] == want.layout[k];
    bool listed = all.ncandidate == want.nlegal && all.candidate[0].layout[0] == got.layout[0];
    for (int c = 1; c < all.ncandidate; c++) {
        const struct sig_candidate *now = &all.candidate[c], *before = now - 1;
        listed &= 1.05 * (double)(now->bytes + now->owed) + 1 >= (double)(before->bytes + before->owed);
        listed &= fabs(now->share - sig_share(&s->sample.call, &s->rule, now->layout)) < 1e-9;
    }
    if (!same) diag("  %s, share %g", sound_layout_text(s, got.layout), got.share);
    if (!same)
        diag("  wanted %s, share %g%s", sound_layout_text(s, want.layout), want.share, listed ? "" : ", unlisted");
    return same && listed;
}

static bool
is_tried(const struct op *op)
{
    bool computes = op->host.ref || op->flags & (OP_ELTWISE | OP_VIEW);
    return computes && !op->ninplace && !(op->flags & (OP_SOURCE | OP_MOVE));
}

/* Tries random operands on meshes, some with an axis longer than most dimensions of the samples. */
static void
test_choice(const struct op *op, uint64_t seed)
{
    static const struct {
        int naxis;
        int32_t axis[3];
    } on[] = {{1, {2}}, {1, {3}}, {1, {8}}, {2, {2, 2}}, {2, {2, 3}}, {2, {2, 4}}, {3, {2, 2, 2}}};
    int tried = 0, wrong = 0;
    for (int i = 0; i < OP_SAMPLE && op->sample[i]; i++)
        for (int n = 0; n < 2 * (int)countof(on); n++) {
            struct sound s;
            const struct layout *given[SAMPLE_IN] = {NULL};
            if (!share_next() && tried) continue;
            if (sound_start(&s, op, op->sample[i], seed + (uint64_t)n)) diag("%s", err_text());
            const struct place *p = sound_place(&s, on[n / 2].naxis, on[n / 2].axis);
            for (int k = 0; k < s.rule.nin; k++)
                if (!s.rule.operand[k].ignored) given[k] = random_layout(&s, p, &s.sample.in[k], n % 2);
            bool large = p->naxis == 3 && (s.noperand > 3 || s.list.nsig > 12), good = large || is_best(&s, p, given);
            if (!good) diag("%s %s on mesh %d", op->name, op->sample[i], n / 2);
            wrong += !good;
            tried += !large;
            sound_end(&s);
        }
    ok(!wrong && tried, "%s: the choice equals that of an exhaustive search, %d times", op->name, tried);
}

/* Tests a mesh with too many combinations, where sig_choose works on two axes at a time. The choice must be legal,
 * never cheaper than the optimum, and mostly optimal. */
static void
test_by_pairs(uint64_t seed)
{
    const int32_t axis[] = {2, 2, 2, 2};
    int tried = 0, best = 0, wrong = 0;
    struct sound s;
    sound_start(&s, op_find("mul"), "f32{2,2,2,2,2,2,2,2} f32{2,2,2,2,2,2,2,2}", seed);
    const struct place *p = sound_place(&s, 4, axis);
    for (int n = 0; n < 6; n++, tried++) {
        const struct layout *given[2];
        for (int k = 0; k < 2; k++) given[k] = random_layout(&s, p, &s.sample.in[k], false);
        struct sig_candidate got;
        struct sig_choice all;
        s.sample.call.layout = given;
        struct naive want = choose_naively(&s, p, given, NULL);
        struct sig_question q = {s.atlas, p, &s.sample.call, &s.rule, price, NULL};
        int status = sig_choose(&s.arena, &q, &got) || sig_list_all(&s.arena, &q, &all);
        wrong += status || all.ncandidate != 1 || got.bytes + got.owed < want.bytes + want.owed ||
                 sig_check(&s.arena, &s.sample.call, &s.rule, got.layout);
        best += !status && got.bytes + got.owed == want.bytes + want.owed;
    }
    ok(wrong == 0, "a choice made two axes at a time is legal");
    ok(best * 4 >= tried * 3, "a choice made two axes at a time is mostly optimal: %d of %d", best, tried);
    sound_end(&s);
}

/* Returns, as text, the choice for two operands, with its bytes. mesh: the lengths of its axes, as decimal digits. */
static const char *
chosen(const struct op *op, const char *sample, int mesh, const char *const *text, const uint8_t *same)
{
    static struct str s;
    struct sound t;
    const struct layout *given[2] = {NULL};
    struct sig_candidate got;
    str_clear(&s);
    if (sound_start(&t, op, sample, 1)) return err_text();
    const struct place *p = sound_place(&t, mesh > 9 ? 2 : 1, (int32_t[]){mesh > 9 ? mesh / 10 : mesh, mesh % 10});
    for (int k = 0; k < t.rule.nin; k++)
        if (!t.rule.operand[k].ignored && layout_parse(t.atlas, p, text[k], -1, &given[k])) return err_text();
    t.sample.call.layout = given;
    t.sample.call.same = same;
    struct sig_question q = {t.atlas, p, &t.sample.call, &t.rule, price, NULL};
    if (sig_choose(&t.arena, &q, &got)) return err_text();
    if (sig_check(&t.arena, &t.sample.call, &t.rule, got.layout)) return err_text();
    str_addf(&s, "%s, %lld bytes", sound_layout_text(&t, got.layout), (long long)got.bytes);
    if (got.owed) str_addf(&s, ", %lld owed", (long long)got.owed);
    sound_end(&t);
    return str_text(&s);
}

static void
test_ties(void)
{
    static const uint8_t twice[] = {0, 0};
    static const char mm[] = "f32{4,6} f32{6,8}", v[] = "f32{4} f32{4}", sq[] = "f32{4,4} f32{4,4}";
    struct op dull = *op_find("mul"), sgd = *op_find("sub");
    dull.partial.linear = NULL;
    sgd.ninplace = 1;
    sgd.flags = OP_INPLACE | OP_ELTWISE;
    sgd.partial = (__typeof__(sgd.partial)){0};
    const struct op *matmul = op_find("matmul"), *add = op_find("add"), *mul = op_find("mul");
    const struct {
        const struct op *op;
        const char *sample;
        int mesh;
        const char *a, *b, *want, *name;
    } row[] = {
        {matmul, mm, 2, "S(0)", "B", "S(0), B -> S(0), 0 bytes", "data parallel"},
        {matmul, mm, 2, "B", "S(1)", "B, S(1) -> S(1), 0 bytes", "columns"},
        {matmul, mm, 2, "S(1)", "S(0)", "S(1), S(0) -> P, 0 bytes", "a split contraction is partial"},
        {matmul, mm, 2, "B", "B", "B, B -> B, 0 bytes", "nothing is split without need"},
        {add, v, 2, "B", "S(0)", "S(0), S(0) -> S(0), 0 bytes", "splitting is free, and gathering is not"},
        {&sgd, v, 2, "B", "B", "B, B -> B, 0 bytes", "an update keeps the layout of its variable"},
        {&sgd, v, 2, "B", "S(0)", "S(0), S(0) -> S(0), 16 bytes", "gathering gradient or result costs the same"},
        {&sgd, v, 2, "B", "P", "B, B -> B, 32 bytes", "an all-reduce stays one move"},
        {&sgd, v, 2, "S(0)", "P", "S(0), S(0) -> S(0), 16 bytes", "a sharded variable stays sharded"},
        {mul, sq, 2, "S(0)", "S(1)", "S(0), S(0) -> S(0), 32 bytes", "of equal moves, the first in order is chosen"},
        {&dull, sq, 2, "P", "P", "S(0), S(0) -> S(0), 128 bytes", "two different operands are moved twice"},
        {matmul, mm, 1, "B", "B", "B, B -> B, 0 bytes", "on one rank nothing moves"},
        {matmul, mm, 1, "S(0)", "B", "S(0), B -> S(0), 0 bytes", "on one rank the operands' layouts are kept"},
        {matmul, mm, 1, "P", "S(1)", "P, S(1) -> S(1), 0 bytes", "on one rank nothing moves, whatever the layouts"},
        {matmul, mm, 12, "(S(0), B)", "(P, S(1))", "(S(0), B), (P, S(1)) -> (S(0), S(1)), 0 bytes",
         "an axis of one rank causes no move"},
        {matmul, mm, 22, "(S(0), S(0)) order (1, 0)", "(B, B)",
         "(S(0), S(0)) order (1, 0), (B, B) -> (S(0), S(0)) order (1, 0), 0 bytes",
         "the choice follows an operand's split order"},
    };
    for (size_t i = 0; i < countof(row); i++) {
        const char *const given[] = {row[i].a, row[i].b};
        is_str(chosen(row[i].op, row[i].sample, row[i].mesh, given, NULL), row[i].want, row[i].name);
    }
    is_str(chosen(&dull, sq, 2, (const char *[]){"P", "P"}, twice), "S(0), S(0) -> S(0), 64 bytes",
           "one value used as two operands is moved once");
}

/* ---- updates ---- */

static const struct layout *
on_one_axis(struct sound *s, const struct place *p, struct sbp v)
{
    const struct layout *l;
    layout_new(s->atlas, p, &v, NULL, &l);
    return l;
}

/* Tries an update. Its gradient (the last operand with the parameter's shape) has the layout `gradient`, operands
 * without dimensions have B, and all other operands have the layout `state`. Only the gradient may move, and every
 * non-empty result must have the parameter's layout. */
static bool
update_stays(struct sound *s, struct sbp state, struct sbp gradient)
{
    static const int32_t two[] = {2};
    const struct place *p = sound_place(s, 1, two);
    const struct layout *given[SAMPLE_IN] = {NULL}, *split = on_one_axis(s, p, state);
    struct sig_candidate got;
    int last = 0;
    for (int k = 0; k < s->rule.nin; k++) {
        if (s->rule.operand[k].ignored) continue;
        bool number = s->sample.in[k].ndim == 0;
        given[k] = number ? on_one_axis(s, p, (struct sbp){.kind = SBP_B}) : split;
        if (!number) last = k;
    }
    given[last] = on_one_axis(s, p, gradient);
    s->sample.call.layout = given;
    struct sig_question q = {s->atlas, p, &s->sample.call, &s->rule, price, NULL};
    if (sig_choose(&s->arena, &q, &got)) return false;
    bool right = got.owed == 0 && got.bytes == box_bytes(&s->sample.in[last], given[last], split);
    for (int k = 0; k < s->rule.nout; k++)
        right &= got.layout[s->rule.nin + k] == split || type_numel(&s->sample.call.out[k]) == 0;
    if (!right)
        diag("%s: %s, %lld bytes", s->sample.call.op->name, sound_layout_text(s, got.layout), (long long)got.bytes);
    return right;
}

static void
test_update(const struct op *op)
{
    int tried = 0, wrong = 0;
    for (int i = 0; i < OP_SAMPLE && op->sample[i]; i++) {
        struct sound s;
        if (sound_start(&s, op, op->sample[i], 1)) diag("%s", err_text());
        for (int d = 0; d < s.sample.in[0].ndim; d++, tried++) {
            struct sbp cut = {.kind = SBP_S, .axis = (uint8_t)d}, sum = {.kind = SBP_P, .reduce = RED_SUM};
            wrong += !update_stays(&s, cut, cut) || !update_stays(&s, cut, sum);
        }
        sound_end(&s);
    }
    ok(!wrong && tried, "%s is split like its parameter", op->name);
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
        const char *op, *sample;
    } t[] = {{"matmul", "f32{4096,1024} f32{1024,4096}"},
             {"where", "bool{64,128,32,32} f32{64,128,32,32} f32{32,32}"},
             {"reshape", "f32{8192,1024} shape=64,128,16,64"},
             {"reshape", "f32{999,1024} shape=27,37,1024"}};
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
        sample_read(op_find(t[i].op), t[i].sample, &s);
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
        diag("%s: %.0f us, %d prices", t[i].op, best, asked);
        ok(best < 20000, "%s on 8 x 16 x 8 ranks is chosen quickly", t[i].op);
        arena_fini(&a);
        atlas_free(&at);
    }
}

int
main(void)
{
    uint64_t seed = seed_of(1);
    int nupdate = 0;
    for (int i = 0; i < op_count; i++) {
        if (is_tried(op_table[i])) test_choice(op_table[i], seed);
        if (op_table[i]->flags & OP_UPDATE) test_update(op_table[i]), nupdate++;
    }
    ok(nupdate >= 2, "%d updates were tried", nupdate);
    test_by_pairs(seed);
    test_ties();
    test_large();
    return done();
}
