/* debt.c - pending reductions: the future cost of a call's partial results.
 *
 * A P result costs nothing when it is computed. Later it costs a reduction, when it becomes B or S. If a choice
 * counted only current moves, it would postpone every reduction. So the bytes of a signature's pending reductions
 * count like those of its moves. The exception is a P that the user's layouts imply: if operands are already split
 * along a reduced factor, the result is P by definition. */
#include "sbp/debt.h"

#include "runtime/data/arena.h"
#include "runtime/tensor/atlas.h"

/* ---- listing the signatures that may be tried ---- */

static bool
lies_partial_sum(const struct search *s, int x)
{
    for (int i = 0; i < s->nmover; i++) {
        struct sbp given = s->mover[i].given->sbp[x];
        if (!s->mover[i].back && given.kind == SBP_P && given.reduce == RED_SUM) return true;
    }
    return false;
}

/* Returns true if an operand with entry `given` may be converted to entry `want`. P can be made from an equal P. P
 * can be made from B if another operand is P(sum): one rank then keeps the value, and the other ranks hold zeros. P
 * is not made from S, because the shard would have to be padded to the full size. P(max) is not made either, because
 * the identity of a maximum is not neutral in arithmetic (inf - inf). */
static bool
may_take(struct sbp given, struct sbp want, bool beside_sum)
{
    if (want.kind != SBP_P || sbp_equal(given, want)) return true;
    return given.kind == SBP_B && want.reduce == RED_SUM && beside_sum;
}

static bool
signature_may(const struct search *s, const struct sig *g, int x, bool beside_sum)
{
    for (int i = 0; i < s->nmover; i++) {
        const struct mover *m = &s->mover[i];
        if (!m->back && !may_take(m->has[x], g->v[m->operand], beside_sum)) return false;
    }
    return true;
}

/* Returns true if the operands' layouts imply that the signature splits its factor on axis x. Two conditions hold
 * then: at least one operand with the factor is already split along the factor, and every other operand with the
 * factor is split along it or is B. */
static bool
signature_forced(const struct search *s, const struct sig *g, int x)
{
    bool cut = false;
    for (int i = 0; i < s->nmover && g->factor >= 0; i++) {
        const struct mover *m = &s->mover[i];
        struct sbp given = m->has[x], want = g->v[m->operand];
        if (m->back || want.kind != SBP_S) continue;
        if (!sbp_equal(given, want) && given.kind != SBP_B) return false;
        cut |= sbp_equal(given, want);
    }
    return cut;
}

void
debt_init(struct search *s)
{
    for (int i = 0; i < s->nfree; i++) {
        int x = s->axis[i];
        bool beside_sum = lies_partial_sum(s, x);
        for (int g = 0; g < s->list.nsig; g++) {
            if (signature_may(s, &s->list.sig[g], x, beside_sum)) s->may[i] |= 1ull << g;
            if (signature_forced(s, &s->list.sig[g], x)) s->forced[i] |= 1ull << g;
        }
    }
    s->debt = ARENA_ARRAY(s->arena, struct debt, NDEBT);
}

/* ---- pricing the pending reduction of a partial layout ---- */

/* Returns layout l with entry v on the given axes. These axes become last in the cutting order, because each shard
 * then stays on a rank that holds an addend of the shard. So no other split along that dimension is cheaper. */
static const struct layout *
paid_layout(const struct search *s, const struct layout *l, uint32_t axes, struct sbp v)
{
    struct sbp sbp[MAX_AXIS];
    uint8_t order[MAX_AXIS];
    const struct layout *to;
    int n = 0, naxis = l->place->naxis;
    for (int x = 0; x < naxis; x++) sbp[x] = axes >> x & 1 ? v : l->sbp[x];
    for (int last = 0; last < 2; last++)
        for (int i = 0; i < naxis; i++)
            if ((int)(axes >> l->order[i] & 1) == last) order[n++] = l->order[i];
    int status = layout_new(s->q->atlas, l->place, sbp, order, &to);
    assert(!status);
    UNUSED(status);
    return to;
}

static int64_t
least_price(const struct search *s, const struct type *t, const struct layout *l, uint32_t axes)
{
    struct sbp v = {.kind = SBP_B};
    int64_t least = s->q->price(s->q->arg, t, l, paid_layout(s, l, axes, v));
    for (int d = 0; d < t->ndim; d++) {
        v = (struct sbp){.kind = SBP_S, .axis = (uint8_t)d};
        least = MIN(least, s->q->price(s->q->arg, t, l, paid_layout(s, l, axes, v)));
    }
    return least;
}

static int64_t
debt_of(const struct search *s, const struct type *t, const struct layout *l, uint32_t axes)
{
    if (!axes) return 0;
    struct debt *d = &s->debt[((uint32_t)l->id * 7 + axes) % NDEBT];
    if (d->layout != l || d->axes != axes || !type_equal(d->type, t))
        *d = (struct debt){.type = t, .layout = l, .axes = axes, .bytes = least_price(s, t, l, axes)};
    return d->bytes;
}

/* ---- summing the pending reductions that a call adds ---- */

/* Returns, as bits, the free axes on which an operand or result is partial at p. Ignores partial results of the
 * signatures in but[free axis] (bits); but NULL: ignores none. */
static uint32_t
partial_axes(const struct search *s, int operand, const struct point *p, const uint64_t *but)
{
    uint32_t axes = 0;
    for (int i = 0; i < s->nfree; i++) {
        int x = s->axis[i], g = p->choice[x];
        if (s->list.sig[g].v[operand].kind == SBP_P && !(but && but[i] >> g & 1)) axes |= 1u << x;
    }
    return axes;
}

/* Returns the bytes of mover i's pending reduction before the call, on axes where the value stays partial. Returns 0
 * for a twin, so that a value that serves as several operands counts once. */
static int64_t
owed_before(const struct search *s, int i, const struct point *p)
{
    const struct mover *m = &s->mover[i];
    uint32_t lies = 0, taken = 0;
    if (m->back || m->twin >= 0 || !layout_has_partial(m->given)) return 0;
    for (int x = 0; x < s->q->place->naxis; x++)
        if (m->given->sbp[x].kind == SBP_P) lies |= 1u << x;
    for (int j = i; j < s->nmover; j++)
        if (j == i || (!s->mover[j].back && s->mover[j].twin == i))
            taken |= partial_axes(s, s->mover[j].operand, p, NULL);
    return debt_of(s, m->type, m->given, lies & taken);
}

int64_t
point_owes(const struct search *s, const struct point *p)
{
    int64_t sum = 0;
    for (int k = s->q->rule->nin + s->q->call->op->ninplace; k < s->list.noperand; k++) {
        uint32_t axes = s->q->rule->operand[k].ignored ? 0 : partial_axes(s, k, p, s->forced);
        if (!axes) continue;
        int64_t owed = debt_of(s, &s->q->call->out[k - s->q->rule->nin], point_layout(s, k, p), axes);
        if (owed == INT64_MAX) return INT64_MAX;
        sum += owed;
    }
    for (int i = 0; i < s->nmover && sum > 0; i++) sum -= owed_before(s, i, p);
    return MAX(sum, 0);
}
