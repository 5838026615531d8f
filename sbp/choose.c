/* choose.c - the signature that moves the fewest bytes.
 *
 * What a signature costs is the sum, over operands that move, of the price of one
 * move; on an N-D mesh an operand's layout is one entry for each axis. So prices
 * are kept in a table for each operand, indexed by its entries, and filled when
 * first wanted: many signatures share a layout. A signature that cannot win is
 * dropped before anything is priced.
 *
 * Axes of one rank do not take part: every layout is the same there. They get
 * the entries that most operands already have, so that texts stay as they are.
 *
 * All combinations are tried while there are at most EXACT of them; beyond, one
 * axis is improved at a time from the best of several starts. */
#include "sbp/sig.h"

#include "runtime/arena.h"
#include "runtime/error.h"

#include <stdlib.h>
#include <string.h>

enum { EXACT = 4096, NENTRY = MAX_DIM + 4, UNKNOWN = -1 }; /* S of each dimension, B, three kinds of P */

/* One operand that may have to move: an input on its way in, or a result of an in-place update on its way back. */
struct mover {
    int operand;
    bool back;
    const struct type *type;
    const struct layout *home; /* where it is, or has to be in the end */
    int twin;                  /* an earlier mover of the same value, or -1 */
    uint8_t *entry;            /* signature -> which of the entries that this value may have */
    int nentry;
    struct sbp *entries;
    int home_code;        /* of home, -1 when no signature has its entries */
    uint64_t home_orders; /* bit o: cutting order o gives home when the entries do */
    int64_t *price;       /* [order * codes + code], UNKNOWN until asked; NULL: not kept */
    int ncode;
    int scale[MAX_AXIS]; /* code = sum of entry * scale */
};

struct search {
    struct arena *arena;
    struct atlas *atlas;
    const struct place *place;
    const struct call *call;
    const struct rule *rule;
    sig_price_fn *ask;
    void *arg;
    struct sig_list list;
    int nfree, axis[MAX_AXIS]; /* axes of more than one rank */
    int ncombination;          /* EXACT + 1: too many */
    int nmover;
    struct mover *mover;
    int norder;
    uint8_t (*order)[MAX_AXIS];
    uint32_t *inverted; /* of each order: the pairs of axes of which the later one cuts first (pair_bit) */
    uint64_t *meets;    /* signature -> signatures that cut a dimension it cuts too */
};

/* A point of the search: what is compared. */
struct point {
    int64_t bytes;
    int nsame;
    int order;
    int choice[MAX_AXIS];
};

/* ---- orders ---- */

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
add_order(struct search *s, const uint8_t *order)
{
    int n = s->place->naxis;
    uint32_t bits = inversions(order, n);
    for (int o = 0; o < s->norder; o++)
        if (s->inverted[o] == bits) return;
    memcpy(s->order[s->norder], order, (size_t)n);
    s->inverted[s->norder++] = bits;
}

/* Mesh order, then the orders that operands have. At most 64 fit home_orders. */
static void
find_orders(struct search *s)
{
    static const uint8_t mesh[MAX_AXIS] = {0, 1, 2, 3, 4, 5};
    int room = s->call->nin + 1;
    s->order = arena_alloc(s->arena, sizeof *s->order * (size_t)room);
    s->inverted = ARENA_ARRAY(s->arena, uint32_t, room);
    add_order(s, mesh);
    if (s->nfree < 2) return;
    for (int k = 0; k < s->call->nin && s->norder < 63; k++)
        if (!s->rule->operand[k].ignored) add_order(s, s->call->layout[k]->order);
}

/* Which pairs of axes cut one dimension of some operand: only there does the order show. */
static uint32_t
meeting_pairs(const struct search *s, const int *choice)
{
    uint32_t pairs = 0;
    for (int i = 1; i < s->nfree; i++)
        for (int j = 0; j < i; j++)
            if (s->meets[choice[s->axis[i]]] >> choice[s->axis[j]] & 1) pairs |= pair_bit(s->axis[i], s->axis[j]);
    return pairs;
}

/* Does an earlier order give the same layouts? */
static bool
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

/* ---- movers ---- */

static bool
sbp_equal(struct sbp a, struct sbp b)
{
    return a.kind == b.kind && (a.kind != SBP_S || a.axis == b.axis) && (a.kind != SBP_P || a.reduce == b.reduce);
}

static int
find_entry(const struct mover *m, struct sbp v)
{
    for (int i = 0; i < m->nentry; i++)
        if (sbp_equal(m->entries[i], v)) return i;
    return -1;
}

/* Numbers the entries that signatures give this operand. Twins share the numbers, so that their codes compare. */
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

/* The pairs of axes that cut one dimension in a layout. */
static uint32_t
layout_pairs(const struct search *s, const struct layout *l)
{
    uint32_t pairs = 0;
    for (int i = 1; i < s->nfree; i++)
        for (int j = 0; j < i; j++)
            if (entries_meet(&l->sbp[s->axis[i]], &l->sbp[s->axis[j]])) pairs |= pair_bit(s->axis[i], s->axis[j]);
    return pairs;
}

static void
find_home(struct search *s, struct mover *m)
{
    const struct mover *first = m->twin >= 0 ? &s->mover[m->twin] : m;
    int code = 0, scale = 1;
    for (int i = s->nfree - 1; i >= 0; i--) {
        int e = find_entry(first, m->home->sbp[s->axis[i]]);
        code = e < 0 || code < 0 ? -1 : code + e * scale;
        m->scale[i] = scale;
        scale *= first->nentry;
    }
    m->home_code = code;
    uint32_t pairs = layout_pairs(s, m->home), bits = inversions(m->home->order, s->place->naxis);
    for (int o = 0; o < s->norder; o++)
        if (!((s->inverted[o] ^ bits) & pairs)) m->home_orders |= 1ull << o;
    m->ncode = scale;
    if (m->ncode > EXACT || m->twin >= 0) return;
    int n = s->norder * m->ncode;
    m->price = ARENA_ARRAY(s->arena, int64_t, n);
    for (int i = 0; i < n; i++) m->price[i] = UNKNOWN;
}

static int
twin_of(const struct search *s, int k)
{
    if (!s->call->same || s->call->same[k] == k) return -1;
    for (int i = 0; i < s->nmover; i++)
        if (!s->mover[i].back && s->mover[i].operand == s->call->same[k]) return i;
    return -1;
}

static void
find_movers(struct search *s)
{
    const struct call *c = s->call;
    s->mover = ARENA_ARRAY(s->arena, struct mover, c->nin + c->op->ninplace);
    for (int k = 0; k < c->nin; k++)
        if (!s->rule->operand[k].ignored) {
            assert(c->layout[k] && c->layout[k]->place == s->place);
            s->mover[s->nmover++] =
                (struct mover){.operand = k, .type = &c->in[k], .home = c->layout[k], .twin = twin_of(s, k)};
        }
    for (int k = 0; k < c->op->ninplace; k++)
        if (!s->rule->operand[k].ignored)
            s->mover[s->nmover++] = (struct mover){
                .operand = s->rule->nin + k, .back = true, .type = &c->out[k], .home = c->layout[k], .twin = -1};
    for (int i = 0; i < s->nmover; i++) number_entries(s, &s->mover[i]);
    for (int i = 0; i < s->nmover; i++) find_home(s, &s->mover[i]);
}

/* ---- what a point costs ---- */

static int
code_of(const struct search *s, const struct mover *m, const int *choice)
{
    int code = 0;
    for (int i = 0; i < s->nfree; i++) code += m->entry[choice[s->axis[i]]] * m->scale[i];
    return code;
}

static bool
at_home(const struct mover *m, int code, int order)
{
    return code == m->home_code && m->home_orders >> order & 1;
}

static const struct layout *
layout_at(const struct search *s, int operand, const struct point *p)
{
    struct sbp sbp[MAX_AXIS];
    const struct layout *l = NULL;
    for (int x = 0; x < s->place->naxis; x++) sbp[x] = s->list.sig[p->choice[x]].v[operand];
    int status = layout_new(s->atlas, s->place, sbp, s->order[p->order], &l);
    assert(!status); /* sig_legal has said so */
    UNUSED(status);
    return l;
}

/* Twins share what is known. */
static int64_t
price_of(const struct search *s, const struct mover *m, int code, const struct point *p)
{
    const struct mover *first = m->twin >= 0 ? &s->mover[m->twin] : m;
    int64_t *kept = first->price ? &first->price[p->order * first->ncode + code] : NULL;
    if (kept && *kept != UNKNOWN) return *kept;
    const struct layout *l = layout_at(s, m->operand, p);
    int64_t bytes = m->back ? s->ask(s->arg, m->type, l, m->home) : s->ask(s->arg, m->type, m->home, l);
    if (kept) *kept = bytes;
    return bytes;
}

/* A value that is wanted twice in one layout moves once. */
static bool
moved_before(const struct search *s, int i, int code, const struct point *p)
{
    int first = s->mover[i].twin;
    if (first < 0) return false;
    for (int j = first; j < i; j++)
        if ((j == first || s->mover[j].twin == first) && code_of(s, &s->mover[j], p->choice) == code) return true;
    return false;
}

/* Is a before b: fewer bytes; more operands left as they are; the order S, B, P of the first axis that differs. */
static int
point_compare(const struct point *a, const struct point *b)
{
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
    if (a->nsame != b->nsame) return a->nsame > b->nsame ? -1 : 1;
    for (int x = 0; x < MAX_AXIS; x++)
        if (a->choice[x] != b->choice[x]) return a->choice[x] < b->choice[x] ? -1 : 1;
    return (a->order > b->order) - (a->order < b->order);
}

/* Prices p; false as soon as it cannot come before bound, or is not legal, or a move is impossible. */
static bool
price_point(const struct search *s, struct point *p, const struct point *bound)
{
    int code[RULE_OPERAND + OP_OUT];
    p->bytes = 0, p->nsame = 0;
    for (int i = 0; i < s->nmover; i++) {
        code[i] = code_of(s, &s->mover[i], p->choice);
        p->nsame += !s->mover[i].back && at_home(&s->mover[i], code[i], p->order);
    }
    if (bound && point_compare(bound, p) <= 0) return false;
    if (!sig_legal(s->place, s->rule, &s->list, p->choice, s->order[p->order])) return false;
    for (int i = 0; i < s->nmover; i++) {
        const struct mover *m = &s->mover[i];
        if (at_home(m, code[i], p->order) || moved_before(s, i, code[i], p)) continue;
        int64_t bytes = price_of(s, m, code[i], p);
        if (bytes == INT64_MAX) return false;
        p->bytes += bytes;
        if (bound && point_compare(bound, p) <= 0) return false;
    }
    return true;
}

static void
improve(const struct search *s, const struct point *p, struct point *best, bool *found)
{
    struct point q = *p;
    if (price_point(s, &q, *found ? best : NULL)) *best = q, *found = true;
}

/* ---- searching ---- */

/* How many operands have on axis x already what signature g gives them. */
static int
matches(const struct search *s, int g, int x)
{
    int n = 0;
    for (int i = 0; i < s->nmover; i++) {
        const struct mover *m = &s->mover[i];
        n += !m->back && sbp_equal(m->home->sbp[x], s->list.sig[g].v[m->operand]);
    }
    return n;
}

static bool
has_partial(const struct search *s, int g)
{
    for (int k = 0; k < s->list.noperand; k++)
        if (s->list.sig[g].v[k].kind == SBP_P) return true;
    return false;
}

/* The signature of axis x that leaves most operands as they are; on an axis of one rank nothing is partial. */
static int
most_matching(const struct search *s, int x)
{
    int best = -1, most = -1;
    for (int g = 0; g < s->list.nsig; g++) {
        if (s->place->axis[x] == 1 && has_partial(s, g)) continue;
        int n = matches(s, g, x);
        if (n > most) best = g, most = n;
    }
    return best;
}

static struct point
greedy_point(const struct search *s)
{
    struct point p = {0};
    for (int x = 0; x < s->place->naxis; x++) p.choice[x] = most_matching(s, x);
    return p;
}

/* The next combination of the free axes, the last axis fastest; false after the last. */
static bool
next_point(const struct search *s, struct point *p)
{
    for (int i = s->nfree - 1; i >= 0; i--) {
        int *c = &p->choice[s->axis[i]];
        if (++*c < s->list.nsig) return true;
        *c = 0;
    }
    return false;
}

static void
rewind_point(const struct search *s, struct point *p)
{
    for (int i = 0; i < s->nfree; i++) p->choice[s->axis[i]] = 0;
}

static bool
search_all(const struct search *s, struct point *best)
{
    struct point p = greedy_point(s);
    bool found = false;
    for (p.order = 0; p.order < s->norder; p.order++) improve(s, &p, best, &found);
    rewind_point(s, &p);
    do
        for (p.order = 0; p.order < s->norder; p.order++)
            if (!order_repeats(s, p.choice, p.order)) improve(s, &p, best, &found);
    while (next_point(s, &p));
    return found;
}

/* Changes one axis at a time while that helps. */
static void
descend(const struct search *s, struct point *best, bool *found)
{
    struct point before;
    do {
        before = *best;
        for (int i = 0; i < s->nfree; i++)
            for (int g = 0; g < s->list.nsig; g++) {
                struct point p = *best;
                p.choice[s->axis[i]] = g;
                improve(s, &p, best, found);
            }
    } while (memcmp(&before, best, sizeof before));
}

static bool
search_by_axis(const struct search *s, struct point *best)
{
    bool found = false;
    for (int o = 0; o < s->norder; o++) {
        struct point p = greedy_point(s), start;
        bool started = false;
        p.order = o;
        improve(s, &p, &start, &started);
        for (int g = 0; g < s->list.nsig; g++) {
            for (int i = 0; i < s->nfree; i++) p.choice[s->axis[i]] = g;
            improve(s, &p, &start, &started);
        }
        if (!started) continue;
        descend(s, &start, &started);
        if (!found || point_compare(&start, best) < 0) *best = start;
        found = true;
    }
    return found;
}

/* ---- the answer ---- */

static void
candidate_of(const struct search *s, const struct point *p, struct sig_candidate *out)
{
    *out = (struct sig_candidate){.bytes = p->bytes, .nsame = p->nsame};
    out->layout = arena_alloc(s->arena, sizeof *out->layout * (size_t)s->list.noperand);
    for (int k = 0; k < s->list.noperand; k++)
        if (!s->rule->operand[k].ignored) out->layout[k] = layout_at(s, k, p);
    for (int i = 0; i < s->nmover; i++) {
        const struct mover *m = &s->mover[i];
        if (!m->back && at_home(m, code_of(s, m, p->choice), p->order)) out->layout[m->operand] = m->home;
    }
}

static int
by_rank(const void *a, const void *b)
{
    return point_compare(a, b);
}

/* Every legal combination, best first. With too many, only the best. */
static void
list_all(const struct search *s, const struct point *best, struct sig_choice *out)
{
    bool exact = s->ncombination <= EXACT;
    int room = exact ? s->ncombination * s->norder : 1, n = 0;
    struct point *point = ARENA_ARRAY(s->arena, struct point, room), p = greedy_point(s);
    rewind_point(s, &p);
    do
        for (p.order = 0; exact && p.order < s->norder; p.order++)
            if (!order_repeats(s, p.choice, p.order) && price_point(s, &p, NULL)) point[n++] = p;
    while (exact && next_point(s, &p));
    if (!exact) point[n++] = *best;
    qsort(point, (size_t)n, sizeof *point, by_rank);
    out->ncandidate = n;
    out->candidate = ARENA_ARRAY(s->arena, struct sig_candidate, n);
    for (int i = 0; i < n; i++) candidate_of(s, &point[i], &out->candidate[i]);
}

/* On one rank everything is whole already. */
static bool
all_whole(const struct call *c, const struct rule *r, const struct layout *whole)
{
    for (int k = 0; k < r->nin; k++)
        if (!r->operand[k].ignored && c->layout[k] != whole) return false;
    return true;
}

static void
choose_whole(struct arena *a, const struct rule *r, const struct layout *whole, struct sig_candidate *out)
{
    *out = (struct sig_candidate){0};
    out->layout = arena_alloc(a, sizeof *out->layout * (size_t)(r->nin + r->nout));
    for (int k = 0; k < r->nin + r->nout; k++) {
        if (r->operand[k].ignored) continue;
        out->layout[k] = whole;
        out->nsame += k < r->nin;
    }
}

static int
count_combinations(const struct search *s)
{
    int n = 1;
    for (int i = 0; i < s->nfree; i++)
        if ((n *= s->list.nsig) > EXACT) return EXACT + 1;
    return n;
}

static int
search_init(struct search *s)
{
    TRY(sig_axis(s->arena, s->call, s->rule, &s->list));
    for (int x = 0; x < s->place->naxis; x++)
        if (s->place->axis[x] > 1) s->axis[s->nfree++] = x;
    s->ncombination = count_combinations(s);
    find_orders(s);
    find_meetings(s);
    find_movers(s);
    return 0;
}

static int
none(const struct call *c)
{
    struct str s = {0};
    call_print_operands(c, &s);
    int code = fail(E_SBP, "%s: no signature can be reached; %s", c->op->name, str_text(&s));
    str_free(&s);
    return code;
}

int
sig_choose(struct arena *a, struct atlas *at, const struct place *p, const struct call *c, const struct rule *r,
           sig_price_fn *price, void *arg, bool all, struct sig_choice *out)
{
    *out = (struct sig_choice){0};
    const struct layout *whole = p->nrank == 1 ? layout_broadcast(at, p) : NULL;
    if (whole && !all && all_whole(c, r, whole)) {
        choose_whole(a, r, whole, &out->best);
        return 0;
    }
    struct search s = {.arena = a, .atlas = at, .place = p, .call = c, .rule = r, .ask = price, .arg = arg};
    struct point best = {0};
    TRY(search_init(&s));
    bool found = s.ncombination <= EXACT ? search_all(&s, &best) : search_by_axis(&s, &best);
    if (!found) return none(c);
    candidate_of(&s, &best, &out->best);
    if (all) list_all(&s, &best, out);
    return 0;
}
