/* search.c - prepares the choice of a signature: numbers the cutting orders, entries and layouts that each operand
 * may have. */
#include "sbp/search.h"
#include "sbp/debt.h"

#include "runtime/data/arena.h"
#include "runtime/tensor/atlas.h"

#include <string.h>

/* ---- listing the cutting orders ---- */

static uint32_t
pair_bit(int x, int y)
{
    if (x > y) return pair_bit(y, x);
    return 1u << (y * (y - 1) / 2 + x);
}

static uint32_t
inversions(const uint8_t *order, int naxis)
{
    uint32_t bits = 0;
    for (int i = 0; i < naxis; i++)
        for (int j = i + 1; j < naxis; j++)
            if (order[i] > order[j]) bits |= pair_bit(order[i], order[j]);
    return bits;
}

static void
add_search_order(struct search *s, const uint8_t *order)
{
    int n = s->q->place->naxis;
    uint32_t bits = inversions(order, n);
    for (int o = 0; o < s->norder; o++)
        if (s->inverted[o] == bits) return;
    memcpy(s->order[s->norder], order, (size_t)n);
    s->inverted[s->norder++] = bits;
}

/* Lists the order of the mesh axes, then the cutting orders of the operands. Lists at most 64 orders, because
 * given_orders has a bit for each. */
static void
find_orders(struct search *s)
{
    static const uint8_t mesh[MAX_AXIS] = {0, 1, 2, 3, 4, 5};
    int capacity = s->q->call->nin + 1;
    s->order = arena_alloc(s->arena, sizeof *s->order * (size_t)capacity);
    s->inverted = ARENA_ARRAY(s->arena, uint32_t, capacity);
    add_search_order(s, mesh);
    if (s->nfree < 2) return;
    for (int k = 0; k < s->q->call->nin && s->norder < 63; k++)
        if (!s->q->rule->operand[k].ignored) add_search_order(s, s->q->call->layout[k]->order);
}

/* Returns, as bits, the pairs of axes that split the same dimension of some operand. Two cutting orders mean
 * different layouts only if they order such a pair differently. */
static uint32_t
meeting_pairs(const struct search *s, const int *choice)
{
    uint32_t pairs = 0;
    for (int i = 1; i < s->nfree; i++)
        for (int j = 0; j < i; j++)
            if (s->meets[choice[s->axis[i]]] >> choice[s->axis[j]] & 1) pairs |= pair_bit(s->axis[i], s->axis[j]);
    return pairs;
}

bool
order_repeats(const struct search *s, const int *choice, int order)
{
    if (!order) return false;
    uint32_t pairs = meeting_pairs(s, choice);
    for (int o = 0; o < order; o++)
        if (!((s->inverted[o] ^ s->inverted[order]) & pairs)) return true;
    return false;
}

static bool
entries_meet(const struct sbp *a, const struct sbp *b)
{
    return a->kind == SBP_S && b->kind == SBP_S && a->axis == b->axis;
}

static void
find_meetings(struct search *s)
{
    const struct sig_list *l = &s->list;
    s->meets = ARENA_ARRAY(s->arena, uint64_t, l->nsig);
    for (int i = 0; i < l->nsig; i++)
        for (int j = 0; j < l->nsig; j++)
            for (int k = 0; k < l->noperand; k++)
                if (entries_meet(&l->sig[i].v[k], &l->sig[j].v[k])) s->meets[i] |= 1ull << j;
}

/* ---- numbering the layouts of movers ---- */

bool
sbp_equal(struct sbp a, struct sbp b)
{
    return a.kind == b.kind && (a.kind != SBP_S || (a.axis == b.axis && a.unit == b.unit)) &&
           (a.kind != SBP_P || a.reduce == b.reduce);
}

static int
find_entry(const struct mover *m, struct sbp v)
{
    for (int i = 0; i < m->nentry; i++)
        if (sbp_equal(m->entries[i], v)) return i;
    return -1;
}

/* Numbers the entries that signatures assign to this operand. Movers of the same value share the numbers, so that
 * their codes are comparable. */
static void
number_entries(struct search *s, struct mover *m)
{
    struct mover *first = m->twin >= 0 ? &s->mover[m->twin] : m;
    if (first == m) m->entries = ARENA_ARRAY(s->arena, struct sbp, NENTRY);
    m->entry = ARENA_ARRAY(s->arena, uint8_t, s->list.nsig);
    for (int g = 0; g < s->list.nsig; g++) {
        struct sbp v = s->list.sig[g].v[m->operand];
        int e = find_entry(first, v);
        if (e < 0) first->entries[e = first->nentry++] = v;
        m->entry[g] = (uint8_t)e;
    }
}

/* Returns, as bits, the pairs of axes that split the same dimension in a layout. */
static uint32_t
layout_pairs(const struct search *s, const struct layout *l)
{
    uint32_t pairs = 0;
    for (int i = 1; i < s->nfree; i++)
        for (int j = 0; j < i; j++)
            if (entries_meet(&l->sbp[s->axis[i]], &l->sbp[s->axis[j]])) pairs |= pair_bit(s->axis[i], s->axis[j]);
    return pairs;
}

/* Fills in the field `has` of a mover. */
static void
name_given(const struct search *s, struct mover *m)
{
    memcpy(m->has, m->given->sbp, sizeof m->has);
    for (int x = 0; x < s->q->place->naxis; x++)
        for (int g = 0; g < s->list.nsig && (s->list.unit || m->given->sbp[x].unit); g++) {
            struct sbp v = s->list.sig[g].v[m->operand];
            if (!sig_entry_is(m->given, m->type, x, v)) continue;
            m->has[x] = v;
            break;
        }
}

static void
find_given(struct search *s, struct mover *m)
{
    name_given(s, m);
    const struct mover *first = m->twin >= 0 ? &s->mover[m->twin] : m;
    int code = 0, scale = 1;
    for (int i = s->nfree - 1; i >= 0; i--) {
        int e = find_entry(first, m->has[s->axis[i]]);
        code = e < 0 || code < 0 ? -1 : code + e * scale;
        m->scale[i] = scale;
        scale *= first->nentry;
    }
    m->given_code = code;
    uint32_t pairs = layout_pairs(s, m->given), bits = inversions(m->given->order, s->q->place->naxis);
    for (int o = 0; o < s->norder; o++)
        if (!((s->inverted[o] ^ bits) & pairs)) m->given_orders |= 1ull << o;
    m->ncode = scale;
    if (m->ncode > EXACT || m->twin >= 0) return;
    int n = s->norder * m->ncode;
    m->price = ARENA_ARRAY(s->arena, int64_t, n);
    for (int i = 0; i < n; i++) m->price[i] = UNKNOWN;
}

static int
twin_of(const struct search *s, int k)
{
    if (!s->q->call->same || s->q->call->same[k] == k) return -1;
    for (int i = 0; i < s->nmover; i++)
        if (!s->mover[i].back && s->mover[i].operand == s->q->call->same[k]) return i;
    return -1;
}

static void
find_movers(struct search *s)
{
    const struct call *c = s->q->call;
    s->mover = ARENA_ARRAY(s->arena, struct mover, c->nin + c->op->ninplace);
    for (int k = 0; k < c->nin; k++)
        if (!s->q->rule->operand[k].ignored) {
            assert(c->layout[k] && c->layout[k]->place == s->q->place);
            s->mover[s->nmover++] =
                (struct mover){.operand = k, .type = &c->in[k], .given = c->layout[k], .twin = twin_of(s, k)};
        }
    for (int k = 0; k < c->op->ninplace; k++)
        if (!s->q->rule->operand[k].ignored)
            s->mover[s->nmover++] = (struct mover){
                .operand = s->q->rule->nin + k, .back = true, .type = &c->out[k], .given = c->layout[k], .twin = -1};
    for (int i = 0; i < s->nmover; i++) number_entries(s, &s->mover[i]);
    for (int i = 0; i < s->nmover; i++) find_given(s, &s->mover[i]);
}

int
mover_code(const struct search *s, const struct mover *m, const int *choice)
{
    int code = 0;
    for (int i = 0; i < s->nfree; i++) code += m->entry[choice[s->axis[i]]] * m->scale[i];
    return code;
}

bool
mover_stays(const struct mover *m, int code, int order)
{
    return code == m->given_code && m->given_orders >> order & 1;
}

static const struct type *
type_of_operand(const struct search *s, int k)
{
    const struct call *c = s->q->call;
    return k < c->nin ? &c->in[k] : &c->out[k - c->nin];
}

const struct layout *
point_layout(const struct search *s, int operand, const struct point *p)
{
    struct sbp sbp[MAX_AXIS];
    const struct layout *l = NULL;
    for (int x = 0; x < s->q->place->naxis; x++) sbp[x] = s->list.sig[p->choice[x]].v[operand];
    if (s->list.unit) layout_drop_units(s->q->place, type_of_operand(s, operand), s->order[p->order], sbp);
    int status = layout_new(s->q->atlas, s->q->place, sbp, s->order[p->order], &l);
    assert(!status); /* cannot fail, because sig_legal() accepted the layout */
    UNUSED(status);
    return l;
}

/* ---- computing the busiest rank's share of the work ---- */

void
point_spread(const struct search *s, struct point *p)
{
    const struct rule *r = s->q->rule;
    int64_t cut[RULE_FACTOR];
    double busiest = 1, all = 1;
    p->idle = false;
    for (int f = 0; f < r->nfactor; f++) cut[f] = 1;
    for (int i = 0; i < s->nfree; i++) {
        int f = s->list.sig[p->choice[s->axis[i]]].factor;
        if (f >= 0) cut[f] *= s->q->place->axis[s->axis[i]];
    }
    for (int f = 0; f < r->nfactor; f++) {
        int64_t size = MAX(1, r->factor[f].size), unit = shard_unit(size, s->list.unit ? s->list.unit[f] : 0);
        busiest *= (double)((size / unit + cut[f] - 1) / cut[f] * unit);
        all *= (double)size;
        p->idle |= cut[f] > size / unit;
    }
    p->share = busiest / all;
    p->load = s->q->call->op->ninplace ? 1 : p->share;
}

/* ---- filling in the tables of a search ---- */

static int
count_combinations(const struct search *s)
{
    int n = 1;
    for (int i = 0; i < s->nfree; i++)
        if ((n *= __builtin_popcountll(s->may[i])) > EXACT) return EXACT + 1;
    return n;
}

int
search_init(struct search *s)
{
    int32_t unit[RULE_FACTOR];
    const struct call *c = s->q->call;
    sig_units(s->q->rule, s->q->place, c->layout, c->nin, unit);
    TRY(sig_axis(s->arena, c, s->q->rule, unit, &s->list));
    for (int x = 0; x < s->q->place->naxis; x++)
        if (s->q->place->axis[x] > 1) s->axis[s->nfree++] = x;
    find_orders(s);
    find_meetings(s);
    find_movers(s);
    debt_init(s);
    s->ncombination = count_combinations(s);
    return 0;
}
