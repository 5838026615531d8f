/* choose.c - chooses the signature of a call that costs the fewest bytes: those moved now plus those of pending
 * reductions. Among signatures with equal bytes, chooses the most balanced.
 *
 * Bytes moved now are the sum of the prices of the operands that move. debt.c computes the bytes of pending
 * reductions. A signature that would make an operand partial without a request by the user is never tried. A
 * signature that cannot win is dropped before any price is computed, and each price is computed once (search.h).
 *
 * All combinations are tried if there are at most EXACT. With more combinations, the search changes two mesh axes at
 * a time, starting from the best of several combinations. */
#include "sbp/choose.h"
#include "sbp/debt.h"
#include "sbp/infer.h"

#include "runtime/data/arena.h"
#include "runtime/base/error.h"
#include "runtime/tensor/atlas.h"

#include <stdlib.h>
#include <string.h>

/* ---- computing the cost of a point (a combination of signatures) ---- */

/* Returns the price of moving mover i, a value that may have to move (search.h). Movers of the same value (twins)
 * share the cache. */
static int64_t
price_of(const struct search *s, const struct mover *m, int code, const struct point *p)
{
    const struct mover *first = m->twin >= 0 ? &s->mover[m->twin] : m;
    int64_t *kept = first->price ? &first->price[p->order * first->ncode + code] : NULL;
    if (kept && *kept != UNKNOWN) return *kept;
    const struct layout *l = point_layout(s, m->operand, p);
    int64_t bytes =
        m->back ? s->q->price(s->q->arg, m->type, l, m->given) : s->q->price(s->q->arg, m->type, m->given, l);
    if (kept) *kept = bytes;
    return bytes;
}

/* Returns true if an earlier mover of the same value moves to the same layout. That move counts once, because a
 * value moves to a layout only once. */
static bool
moved_before(const struct search *s, int i, int code, const struct point *p)
{
    int first = s->mover[i].twin;
    if (first < 0) return false;
    for (int j = first; j < i; j++)
        if ((j == first || s->mover[j].twin == first) && mover_code(s, &s->mover[j], p->choice) == code) return true;
    return false;
}

/* Returns the cost of a point (a combination of signatures, search.h): bytes moved now plus bytes of pending
 * reductions. The cost is 5 % higher if the point leaves ranks without work. */
static int64_t
point_bytes(const struct point *p)
{
    int64_t all = p->bytes + p->owed;
    return p->idle && all ? all + all / 20 + 1 : all;
}

/* Compares two points: by total bytes; then, if bytes are moved or pending, by the busiest rank's load; then by
 * bytes moved now; then by the number of operands that stay; last by the order S, B, P on the first axis that
 * differs. */
static int
point_compare(const struct point *a, const struct point *b)
{
    int64_t x = point_bytes(a), y = point_bytes(b);
    if (x != y) return x < y ? -1 : 1;
    if (x > 0 && a->load != b->load) return a->load < b->load ? -1 : 1;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
    if (a->nsame != b->nsame) return a->nsame > b->nsame ? -1 : 1;
    for (int i = 0; i < MAX_AXIS; i++)
        if (a->choice[i] != b->choice[i]) return a->choice[i] < b->choice[i] ? -1 : 1;
    return (a->order > b->order) - (a->order < b->order);
}

/* Computes the price of p, a combination of signatures. Returns false as soon as p turns out to be illegal, to
 * need an impossible move, or to rank behind `bound`. */
static bool
price_point(const struct search *s, struct point *p, const struct point *bound)
{
    int code[RULE_OPERAND + OP_OUT];
    p->bytes = 0, p->owed = 0, p->nsame = 0;
    point_spread(s, p);
    for (int i = 0; i < s->nmover; i++) {
        code[i] = mover_code(s, &s->mover[i], p->choice);
        p->nsame += !s->mover[i].back && mover_stays(&s->mover[i], code[i], p->order);
    }
    if (bound && point_compare(bound, p) <= 0) return false;
    if (!sig_legal(s->q->place, s->q->rule, &s->list, p->choice, s->order[p->order])) return false;
    for (int i = 0; i < s->nmover; i++) {
        const struct mover *m = &s->mover[i];
        if (mover_stays(m, code[i], p->order) || moved_before(s, i, code[i], p)) continue;
        int64_t bytes = price_of(s, m, code[i], p);
        if (bytes == INT64_MAX) return false;
        p->bytes += bytes;
        if (bound && point_compare(bound, p) <= 0) return false;
    }
    p->owed = point_owes(s, p);
    return p->owed != INT64_MAX && (!bound || point_compare(bound, p) > 0);
}

static void
improve_point(const struct search *s, const struct point *p, struct point *best, bool *found)
{
    struct point q = *p;
    if (price_point(s, &q, *found ? best : NULL)) *best = q, *found = true;
}

/* ---- searching for the best combination of signatures ---- */

/* Returns the number of operands that already have signature g's entry on axis x. */
static int
matches(const struct search *s, int g, int x)
{
    int n = 0;
    for (int i = 0; i < s->nmover; i++) {
        const struct mover *m = &s->mover[i];
        n += !m->back && sbp_equal(m->has[x], s->list.sig[g].v[m->operand]);
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

/* Returns the signature of axis x that leaves the most operands unchanged. If the axis has one rank, only signatures
 * without P are considered. */
static int
most_matching(const struct search *s, int x, uint64_t may)
{
    int best = -1, most = -1;
    for (int g = 0; g < s->list.nsig; g++) {
        if (!(may >> g & 1) || (s->q->place->axis[x] == 1 && has_partial(s, g))) continue;
        int n = matches(s, g, x);
        if (n > most) best = g, most = n;
    }
    return best;
}

static struct point
greedy_point(const struct search *s)
{
    struct point p = {0};
    for (int x = 0; x < s->q->place->naxis; x++) p.choice[x] = most_matching(s, x, ~0ull);
    for (int i = 0; i < s->nfree; i++) p.choice[s->axis[i]] = most_matching(s, s->axis[i], s->may[i]);
    return p;
}

/* Advances *g to the next allowed signature of free axis i. After the last, resets *g to the first and returns
 * false. */
static bool
next_signature(const struct search *s, int i, int *g)
{
    uint64_t later = *g < SIG_AXIS - 1 ? s->may[i] >> (*g + 1) : 0;
    *g = later ? *g + 1 + __builtin_ctzll(later) : __builtin_ctzll(s->may[i]);
    return later;
}

/* Advances to the next combination of signatures on the free axes; the last axis changes fastest. Returns false
 * after the last combination. */
static bool
next_point(const struct search *s, struct point *p)
{
    for (int i = s->nfree - 1; i >= 0; i--)
        if (next_signature(s, i, &p->choice[s->axis[i]])) return true;
    return false;
}

static void
rewind_point(const struct search *s, struct point *p)
{
    for (int i = 0; i < s->nfree; i++) p->choice[s->axis[i]] = __builtin_ctzll(s->may[i]);
}

static bool
search_all(const struct search *s, struct point *best)
{
    struct point p = greedy_point(s);
    bool found = false;
    for (p.order = 0; p.order < s->norder; p.order++) improve_point(s, &p, best, &found);
    rewind_point(s, &p);
    do
        for (p.order = 0; p.order < s->norder; p.order++)
            if (!order_repeats(s, p.choice, p.order)) improve_point(s, &p, best, &found);
    while (next_point(s, &p));
    return found;
}

/* Tries every pair of signatures on two free axes; the other axes stay as in *best. */
static void
improve_pair(const struct search *s, int i, int j, struct point *best)
{
    bool found = true;
    struct point p = *best;
    int *g = &p.choice[s->axis[i]], *h = &p.choice[s->axis[j]];
    *g = __builtin_ctzll(s->may[i]), *h = __builtin_ctzll(s->may[j]);
    do do
            improve_point(s, &p, best, &found);
        while (next_signature(s, j, h));
    while (next_signature(s, i, g));
}

/* Improves *best by changing two axes at a time, until no pair of axes gains. Single axes would not suffice, because
 * often an axis can change only together with another one. */
static void
descend(const struct search *s, struct point *best)
{
    struct point before;
    do {
        before = *best;
        for (int i = 1; i < s->nfree; i++)
            for (int j = 0; j < i; j++) improve_pair(s, j, i, best);
    } while (point_compare(&before, best));
}

static bool
search_by_pairs(const struct search *s, struct point *best)
{
    bool found = false;
    for (int o = 0; o < s->norder; o++) {
        struct point p = greedy_point(s), start;
        bool started = false;
        p.order = o;
        improve_point(s, &p, &start, &started);
        for (int g = 0; g < s->list.nsig; g++) {
            for (int i = 0; i < s->nfree; i++)
                if (s->may[i] >> g & 1) p.choice[s->axis[i]] = g;
            improve_point(s, &p, &start, &started);
        }
        if (!started) continue;
        descend(s, &start);
        if (!found || point_compare(&start, best) < 0) *best = start;
        found = true;
    }
    return found;
}

/* ---- listing the chosen combinations, best first ---- */

static void
point_candidate(const struct search *s, const struct point *p, struct sig_candidate *out)
{
    *out = (struct sig_candidate){.bytes = p->bytes, .owed = p->owed, .share = p->share, .nsame = p->nsame};
    out->layout = arena_alloc(s->arena, sizeof *out->layout * (size_t)s->list.noperand);
    for (int k = 0; k < s->list.noperand; k++)
        if (!s->q->rule->operand[k].ignored) out->layout[k] = point_layout(s, k, p);
    for (int i = 0; i < s->nmover; i++) {
        const struct mover *m = &s->mover[i];
        if (!m->back && mover_stays(m, mover_code(s, m, p->choice), p->order)) out->layout[m->operand] = m->given;
    }
}

static int
compare_point_ranks(const void *a, const void *b)
{
    return point_compare(a, b);
}

/* Lists every legal combination, best first. If there are too many combinations, lists only the best one. */
static void
list_all(const struct search *s, const struct point *best, struct sig_choice *out)
{
    bool exact = s->ncombination <= EXACT;
    int capacity = exact ? s->ncombination * s->norder : 1, n = 0;
    struct point *point = ARENA_ARRAY(s->arena, struct point, capacity), p = greedy_point(s);
    rewind_point(s, &p);
    do
        for (p.order = 0; exact && p.order < s->norder; p.order++)
            if (!order_repeats(s, p.choice, p.order) && price_point(s, &p, NULL)) point[n++] = p;
    while (exact && next_point(s, &p));
    if (!exact) point[n++] = *best;
    qsort(point, (size_t)n, sizeof *point, compare_point_ranks);
    out->ncandidate = n;
    out->candidate = ARENA_ARRAY(s->arena, struct sig_candidate, n);
    for (int i = 0; i < n; i++) point_candidate(s, &point[i], &out->candidate[i]);
}

/* Returns true if all operands are broadcast, as is usual on a single rank. */
static bool
all_broadcast(const struct call *c, const struct rule *r, const struct layout *broadcast)
{
    for (int k = 0; k < r->nin; k++)
        if (!r->operand[k].ignored && c->layout[k] != broadcast) return false;
    return true;
}

static void
choose_broadcast(struct arena *a, const struct rule *r, const struct layout *broadcast, struct sig_candidate *out)
{
    *out = (struct sig_candidate){.share = 1};
    out->layout = arena_alloc(a, sizeof *out->layout * (size_t)(r->nin + r->nout));
    for (int k = 0; k < r->nin + r->nout; k++) {
        if (r->operand[k].ignored) continue;
        out->layout[k] = broadcast;
        out->nsame += k < r->nin;
    }
}

static int
choose_none(const struct call *c)
{
    struct str s = {0};
    call_print_operands(c, &s);
    int code = fail(E_SBP, "%s: no signature fits the operands; %s", c->op->name, str_text(&s));
    str_free(&s);
    return code;
}

static int
find_best(struct search *s, struct point *best)
{
    TRY(search_init(s));
    bool found = s->ncombination <= EXACT ? search_all(s, best) : search_by_pairs(s, best);
    return found ? 0 : choose_none(s->q->call);
}

int
sig_choose(struct arena *a, const struct sig_question *q, struct sig_candidate *best)
{
    struct search s = {.arena = a, .q = q};
    struct point p = {0};
    const struct layout *broadcast = q->place->nrank == 1 ? layout_broadcast(q->atlas, q->place) : NULL;
    if (broadcast && all_broadcast(q->call, q->rule, broadcast)) {
        choose_broadcast(a, q->rule, broadcast, best);
        return 0;
    }
    TRY(find_best(&s, &p));
    point_candidate(&s, &p, best);
    return 0;
}

int
sig_list_all(struct arena *a, const struct sig_question *q, struct sig_choice *out)
{
    struct search s = {.arena = a, .q = q};
    struct point best = {0};
    TRY(find_best(&s, &best));
    list_all(&s, &best, out);
    return 0;
}
