/* choice.c - checks invariants of the choice of a signature, for every operator.
 *
 * Operands without partial values give a partial result only if a split factor is reduced. Work is balanced if that
 * costs no bytes. An update has the layout of its parameter. The test tries all operators in the table, with the
 * prices that a session uses. */
#include "boxing/box.h"
#include "kernels/op/lib/table.h"
#include "t/lib/sound.h"

static int64_t
price(void *arg, const struct type *t, const struct layout *from, const struct layout *to)
{
    UNUSED(arg);
    return box_bytes(t, from, to);
}

static int
choose(struct sound *s, const struct place *p, const struct layout *const *given, struct sig_candidate *out)
{
    s->sample.call.layout = given;
    struct sig_question q = {s->atlas, p, &s->sample.call, &s->rule, price, NULL};
    return sig_choose(&s->arena, &q, out);
}

static bool
is_tried(const struct op *op)
{
    bool computes = op->host.ref || op->flags & (OP_ELTWISE | OP_VIEW);
    return computes && !(op->flags & (OP_SOURCE | OP_MOVE));
}

/* ---- operands without partial values ---- */

static const struct layout *
random_plain(struct sound *s, const struct place *p, int ndim)
{
    struct sbp v[MAX_AXIS];
    const struct layout *l;
    for (int x = 0; x < p->naxis; x++) {
        int d = (int)(next_random(&s->random) % (uint64_t)(ndim + 1));
        v[x] = d < ndim ? (struct sbp){.kind = SBP_S, .axis = (uint8_t)d} : (struct sbp){.kind = SBP_B};
    }
    layout_new(s->atlas, p, v, NULL, &l);
    return l;
}

/* Returns true if a result is partial on mesh axis x although no operand is split there, or if an operand was made
 * partial. */
static bool
partial_by_itself(const struct sound *s, const struct sig_candidate *c, int x)
{
    bool cut = false, made = false;
    for (int k = 0; k < s->noperand; k++) {
        if (s->rule.operand[k].ignored) continue;
        struct sbp v = c->layout[k]->sbp[x];
        if (k < s->rule.nin && v.kind == SBP_P) return true;
        cut |= k < s->rule.nin && v.kind == SBP_S;
        made |= k >= s->rule.nin && v.kind == SBP_P;
    }
    return made && !cut;
}

static void
test_plain(const struct op *op, uint64_t seed)
{
    static const int32_t two[] = {2, 2};
    int tried = 0, wrong = 0;
    for (int i = 0; i < OP_SAMPLE && op->sample[i]; i++)
        for (int n = 0; n < 40; n++) {
            struct sound s;
            struct sig_candidate got;
            const struct layout *given[SAMPLE_IN] = {NULL};
            if (sound_start(&s, op, op->sample[i], seed * 1000 + (uint64_t)n)) diag("%s", err_text());
            const struct place *p = sound_place(&s, 1 + n % 2, two);
            for (int k = 0; k < s.rule.nin; k++)
                if (!s.rule.operand[k].ignored) given[k] = random_plain(&s, p, s.sample.in[k].ndim);
            bool bad = choose(&s, p, given, &got);
            for (int x = 0; x < p->naxis && !bad; x++) bad = partial_by_itself(&s, &got, x);
            if (bad) diag("%s %s: %s", op->name, op->sample[i], sound_layout_text(&s, got.layout));
            wrong += bad;
            tried++;
            sound_end(&s);
        }
    ok(!wrong && tried, "%s: results are partial only if a split factor is reduced", op->name);
}

/* ---- balance ---- */

/* Returns true if some rank has no element of an operand or result that has elements. */
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

/* Returns true if candidate b should have been chosen instead of a, because it moves about as few bytes and is
 * better balanced. */
static bool
is_more_balanced(const struct sound *s, const struct sig_candidate *a, const struct sig_candidate *b)
{
    int64_t x = a->bytes + a->owed, y = b->bytes + b->owed;
    bool idle = leaves_idle(s, a->layout), other = leaves_idle(s, b->layout);
    if (x > 0 && idle && !other) return (double)y <= 1.05 * (double)x;
    return x > 0 && x == y && idle == other && !s->sample.call.op->ninplace && b->share < a->share;
}

static bool
choice_is_balanced(struct sound *s, const struct place *p, const struct layout *const *given)
{
    struct sig_choice all;
    int wrong = 0;
    s->sample.call.layout = given;
    struct sig_question q = {s->atlas, p, &s->sample.call, &s->rule, price, NULL};
    if (sig_list_all(&s->arena, &q, &all)) return false;
    for (int i = 0; i < all.ncandidate; i++) {
        const struct sig_candidate *c = &all.candidate[i];
        wrong += is_more_balanced(s, &all.candidate[0], c);
        wrong += fabs(c->share - sig_share(&s->sample.call, &s->rule, c->layout)) > 1e-9;
    }
    if (wrong) diag("chosen: %s, share %g", sound_layout_text(s, all.candidate->layout), all.candidate->share);
    return !wrong;
}

/* Tries operands without partial values, on meshes whose axes are longer than many dimensions of the samples. */
static void
test_balance(const struct op *op, uint64_t seed)
{
    static const struct {
        int naxis;
        int32_t axis[2];
    } on[] = {{1, {3}}, {1, {4}}, {1, {8}}, {2, {2, 3}}, {2, {2, 4}}};
    int tried = 0, wrong = 0;
    for (int i = 0; i < OP_SAMPLE && op->sample[i]; i++)
        for (int n = 0; n < 40; n++) {
            struct sound s;
            const struct layout *given[SAMPLE_IN] = {NULL};
            if (sound_start(&s, op, op->sample[i], seed * 1000 + (uint64_t)n)) diag("%s", err_text());
            const struct place *p = sound_place(&s, on[n % 5].naxis, on[n % 5].axis);
            for (int k = 0; k < s.rule.nin; k++)
                if (!s.rule.operand[k].ignored) given[k] = random_plain(&s, p, s.sample.in[k].ndim);
            bool bad = !choice_is_balanced(&s, p, given);
            if (bad) diag("%s %s on mesh %d", op->name, op->sample[i], n % 5);
            wrong += bad;
            tried++;
            sound_end(&s);
        }
    ok(!wrong && tried, "%s: of signatures with equal bytes a balanced one is chosen", op->name);
}

/* ---- updates ---- */

static const struct layout *
on_one_axis(struct sound *s, const struct place *p, struct sbp v)
{
    const struct layout *l;
    layout_new(s->atlas, p, &v, NULL, &l);
    return l;
}

/* Tries an update: the gradient (the last operand with the parameter's shape) has the layout `gradient`, 0-d tensors
 * have B, and other operands `state`. Only the gradient may move, and every non-empty result must have the
 * parameter's layout. */
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
    if (choose(s, p, given, &got)) return false;
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

int
main(void)
{
    uint64_t seed = seed_of(1);
    for (int i = 0; i < op_count; i++)
        if (is_tried(op_table[i])) test_plain(op_table[i], seed), test_balance(op_table[i], seed);
    int nupdate = 0;
    for (int i = 0; i < op_count; i++)
        if (op_table[i]->flags & OP_UPDATE) test_update(op_table[i]), nupdate++;
    ok(nupdate >= 2, "%d updates were tried", nupdate);
    return done();
}
