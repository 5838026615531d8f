/* berth_place.c - where uses of registers lie, so that those that meet are apart and all take little.
 *
 * Uses are let down in some orders - the largest first, and of those that are alike
 * who ends last; as registers lie; and so on - each to the lowest place that those
 * before it leave; the best is kept. Then the arena is made a little smaller, again
 * and again: what stands out is taken away and put where it costs least of those
 * that are in its way, which are put elsewhere in turn - those that were often in
 * the way cost more - until all have a place, or the steps are used up, or little
 * more can be won. All of it takes counted looks: of many uses, fewer orders and
 * steps. */
#include "actors/plan/berth_place.h"

#include <stdlib.h>
#include <string.h>

enum {
    ORDER_LOOKS = 1 << 27, /* that orders take, but for the first */
    STEP_LOOKS = 1 << 22,  /* that steps take, each of which looks at all uses, */
    LONGER = 16,           /* and where much can be won so many times that, */
    STEPS = 96,            /* but so many steps for each use at most */
    STEP = 192,            /* by which part of it an arena is made smaller */
    NEAR = 24,             /* by more than which it is searched longer */
    SMALL = 16,            /* those with the fewest bytes, such a part of all together, are small, */
    TINY = 256,            /* or even tiny */
};

/* ---- who meets whom ---- */

/* Marks uses first to last, of which there are some. */
static void
mark(uint64_t *bits, int32_t first, int32_t last)
{
    int32_t lo = first >> 6, hi = last >> 6;
    uint64_t from = ~UINT64_C(0) << (first & 63), to = ~UINT64_C(0) >> (63 - (last & 63));
    bits[lo] |= lo == hi ? from & to : from;
    if (lo == hi) return;
    for (int32_t i = lo + 1; i < hi; i++) bits[i] = ~UINT64_C(0);
    bits[hi] |= to;
}

/* Marks those of tenant y that use u meets. Berth i is that of all pieces i + k nberth. */
static void
mark_met(struct berths *b, const struct use *u, const struct tenant *y, struct reach r)
{
    int32_t n = b->nberth, from = u->berth - r.hi, to = u->berth - r.lo;
    if (from > to) return;
    if (n == b->plan->pieces || !y->again) {
        for (; n < b->plan->pieces && b->tenant[u->tenant].again && to < 0; to += n) from += n; /* a later piece of u */
        from = MAX(from, 0);
        to = MIN(to, y->nuse - 1);
        if (from <= to) mark(b->near, y->first + from, y->first + to);
        return;
    }
    if (to - from + 1 >= n) {
        mark(b->near, y->first, y->first + n - 1);
        return;
    }
    from = (from % n + n) % n;
    to = (to % n + n) % n;
    mark(b->near, y->first + from, y->first + (from <= to ? to : n - 1));
    if (from > to) mark(b->near, y->first, y->first + to);
}

static void
find_near(struct berths *b, int32_t u)
{
    const struct reach *r = &b->reach[b->use[u].tenant * b->ntenant];
    memset(b->near, 0, sizeof *b->near * (size_t)(b->nuse / 64 + 1));
    for (int32_t y = 0; y < b->ntenant; y++) mark_met(b, &b->use[u], &b->tenant[y], r[y]);
    b->near[u >> 6] &= ~(UINT64_C(1) << (u & 63));
}

static bool
is_near(const struct berths *b, int32_t u)
{
    return b->near[u >> 6] >> (u & 63) & 1;
}

/* ---- uses ---- */

static int64_t
top_of(const struct use *u)
{
    return u->offset + u->bytes;
}

void
berths_list(struct berths *b)
{
    int32_t n = 0;
    for (int32_t i = 0; i < b->ntenant; i++) {
        struct tenant *t = &b->tenant[i];
        const struct out_port *o = berth_port(b, t);
        int64_t bytes = where_stride(o->bytes);
        t->first = n;
        t->nuse = t->again ? b->nberth : 1;
        for (int32_t k = 0; k < t->nuse; k++)
            b->use[n++] = (struct use){.tenant = i,
                                       .berth = k,
                                       .bytes = bytes,
                                       .offset = o->where.offset + k % t->nreg * o->where.stride,
                                       .cost = bytes};
    }
}

/* ---- placing ---- */

/* Into a list by address: the first position behind all that lie lower. */
static void
insert(int32_t *list, int32_t n, int32_t u, const struct use *use, bool by_top)
{
    int64_t key = use[u].offset + (by_top ? use[u].bytes : 0);
    int32_t lo = 0, hi = n;
    while (lo < hi) {
        int32_t mid = (lo + hi) / 2;
        if (use[list[mid]].offset + (by_top ? use[list[mid]].bytes : 0) <= key)
            lo = mid + 1;
        else
            hi = mid;
    }
    memmove(&list[lo + 1], &list[lo], (size_t)(n - lo) * sizeof *list);
    list[lo] = u;
}

static void
set_down(struct berths *b, int32_t u, int64_t offset)
{
    b->use[u].offset = offset;
    b->use[u].out = false;
    insert(b->low, b->nplaced, u, b->use, false);
    insert(b->high, b->nplaced, u, b->use, true);
    b->nplaced++;
}

static int32_t
keep_placed(const struct berths *b, int32_t *list)
{
    int32_t n = 0;
    for (int32_t i = 0; i < b->nplaced; i++) {
        list[n] = list[i];
        n += !b->use[list[i]].out;
    }
    return n;
}

/* Those that are marked have no place any more. */
static void
take_out(struct berths *b)
{
    keep_placed(b, b->low);
    b->nplaced = keep_placed(b, b->high);
}

/* The lowest place for u among those that lie. */
static int64_t
lowest_place(struct berths *b, int32_t u)
{
    int64_t at = 0;
    find_near(b, u);
    for (int32_t k = 0; k < b->nplaced; k++) {
        if (!is_near(b, b->low[k])) continue;
        const struct use *q = &b->use[b->low[k]];
        if (q->offset >= at + b->use[u].bytes) break;
        at = MAX(at, top_of(q));
    }
    return at;
}

/* Large ones are often multiples of each other, and anything small between them leaves a gap that none of them fills.
 * So it has its place later, in gaps that there are, or above all. */
static bool
is_small(const struct berths *b, int32_t u)
{
    return b->use[u].bytes < b->small;
}

/* All lie as in the best arena, small ones aside; returns what it takes. */
static int64_t
keep_best(const struct berths *b)
{
    int64_t all = 0;
    for (int32_t u = 0; u < b->nuse; u++) {
        b->best[u] = b->use[u].offset;
        if (!is_small(b, u)) all = MAX(all, top_of(&b->use[u]));
    }
    return all;
}

/* ---- orders ---- */

/* Largest first, and of those that are alike: who ends last, begins first, meets most. By registers; by bytes and how
 * many are met. */
enum order { BY_END, BY_REGISTERS, BY_BEGIN, BY_MET, BY_BYTES_MET, ORDERS };

static int
by_key(const void *x, const void *y)
{
    const struct ordered *a = x, *b = y;
    if (a->key != b->key) return a->key < b->key ? -1 : 1;
    return a->then != b->then ? (a->then > b->then) - (a->then < b->then) : a->use - b->use;
}

/* How many uses have ended before u begins, or begin when it has ended. */
static int32_t
count_apart(const struct berths *b, const struct use *u, bool behind)
{
    int32_t n = b->ntenant, x = u->tenant, sum = 0;
    for (int32_t y = 0; y < n; y++) {
        int32_t first = u->berth + b->after[x * n + y], last = u->berth - b->after[y * n + x];
        sum += MIN(MAX(behind ? b->tenant[y].nuse - first : last + 1, 0), b->tenant[y].nuse);
    }
    return sum;
}

static struct ordered
key_of(const struct berths *b, int32_t use, enum order by)
{
    const struct use *u = &b->use[use];
    if (by == BY_REGISTERS) return (struct ordered){u->offset, 0, use};
    int64_t before = by == BY_END ? 0 : count_apart(b, u, false), behind = by == BY_BEGIN ? 0 : count_apart(b, u, true);
    int64_t met = b->nuse - before - behind;
    return by == BY_BYTES_MET ? (struct ordered){-u->bytes * met, 0, use}
                              : (struct ordered){-u->bytes,
                                                 by == BY_END     ? behind
                                                 : by == BY_BEGIN ? before
                                                                  : -met,
                                                 use};
}

/* Lists those that are not small, but would be below `was` bytes, in an order; returns how many. */
static int32_t
list_ordered(struct berths *b, enum order by, int64_t was)
{
    int32_t n = 0;
    for (int32_t u = 0; u < b->nuse; u++)
        if (!is_small(b, u) && b->use[u].bytes < was) b->ordered[n++] = key_of(b, u, by);
    qsort(b->ordered, (size_t)n, sizeof *b->ordered, by_key);
    return n;
}

/* Lets all down but small ones; returns what they take, or, when it is more than `most`, anything more. */
static int64_t
let_down(struct berths *b, enum order by, int64_t most)
{
    int64_t all = 0;
    int32_t n = list_ordered(b, by, INT64_MAX);
    b->nplaced = 0;
    for (int32_t i = 0; i < n && all <= most; i++) {
        int32_t u = b->ordered[i].use;
        set_down(b, u, lowest_place(b, u));
        all = MAX(all, top_of(&b->use[u]));
    }
    return all;
}

/* ---- a smaller arena ---- */

/* Lists those that u meets: by where they begin, and where they end. Without branches, which nobody could foretell. */
static void
list_met(struct berths *b, int32_t u)
{
    int32_t n = 0, m = 0;
    find_near(b, u);
    for (int32_t i = 0; i < b->nplaced; i++) {
        b->met[n] = b->low[i];
        n += is_near(b, b->low[i]);
    }
    for (int32_t i = 0; i < b->nplaced; i++) {
        b->ends[m] = b->high[i];
        m += is_near(b, b->high[i]);
    }
    for (int32_t i = 0; i < n; i++) {
        const struct use *first = &b->use[b->met[i]], *last = &b->use[b->ends[i]];
        b->begin[i] = (struct point){first->offset, first->cost};
        b->end[i] = (struct point){top_of(last), last->cost};
    }
    b->nmet = n;
    b->looks -= b->nuse;
}

/* Where u is in the way least, right above one of those it meets, or right below; the lowest such place. */
static int64_t
best_place(const struct berths *b, const struct use *u, int64_t top)
{
    int32_t n = b->nmet;
    int64_t best = 0, least = INT64_MAX;
    for (int below = 0; below < 2 && least > 0; below++) {
        int32_t nbegin = 0, nend = 0;
        int64_t cost = 0;
        for (int32_t k = -1; k < n + below && least > 0; k++) {
            int64_t at = below   ? (k < 0   ? -1
                                    : k < n ? b->begin[k].at - u->bytes
                                            : top - u->bytes)
                         : k < 0 ? 0
                                 : b->end[k].at;
            if (at < 0) continue;
            if (at + u->bytes > top) break;
            for (; nbegin < n && b->begin[nbegin].at < at + u->bytes; nbegin++) cost += b->begin[nbegin].cost;
            for (; nend < n && b->end[nend].at <= at; nend++) cost -= b->end[nend].cost;
            if (cost > least || (cost == least && at >= best)) continue;
            least = cost;
            best = at;
        }
    }
    return best;
}

/* Marks those that lie where u is to lie. */
static void
clear_way(struct berths *b, const struct use *u, int64_t at)
{
    int32_t was = b->nqueue;
    for (int32_t i = 0; i < b->nmet && b->begin[i].at < at + u->bytes; i++) {
        struct use *q = &b->use[b->met[i]];
        if (top_of(q) <= at) continue;
        q->out = true;
        q->cost += q->bytes;
        b->queue[b->nqueue++] = b->met[i];
    }
    if (b->nqueue > was) take_out(b);
}

/* Of those that have no place: the most costly. */
static int32_t
next_out(struct berths *b)
{
    int32_t pick = 0;
    for (int32_t k = 1; k < b->nqueue; k++)
        if (b->use[b->queue[k]].cost > b->use[b->queue[pick]].cost) pick = k;
    int32_t u = b->queue[pick];
    b->queue[pick] = b->queue[--b->nqueue];
    return u;
}

/* Puts all below `top`; false: not with so many looks. */
static bool
squeeze(struct berths *b, int64_t top)
{
    b->nqueue = 0;
    for (int32_t u = 0; u < b->nuse; u++) {
        if (is_small(b, u)) continue;
        if (b->use[u].bytes > top) return false;
        b->use[u].out = top_of(&b->use[u]) > top;
        if (b->use[u].out) b->queue[b->nqueue++] = u;
    }
    take_out(b);
    while (b->nqueue > 0 && b->looks > 0) {
        int32_t u = next_out(b);
        list_met(b, u);
        int64_t at = best_place(b, &b->use[u], top);
        clear_way(b, &b->use[u], at);
        set_down(b, u, at);
    }
    return b->nqueue == 0;
}

/* The best of some orders; returns what it takes. */
static int64_t
try_orders(struct berths *b, int64_t enough)
{
    int64_t best = INT64_MAX, looks = ORDER_LOOKS;
    for (int by = 0; by < ORDERS && best > enough && (by == 0 || looks > 0); by++) {
        int64_t all = let_down(b, by, best);
        looks -= (int64_t)b->nuse * b->nuse;
        if (all < best) best = keep_best(b);
        berths_list(b);
    }
    return best;
}

/* They lie as in the best arena, small ones aside. */
static void
lie_best(struct berths *b)
{
    b->nplaced = 0;
    for (int32_t u = 0; u < b->nuse; u++)
        if (!is_small(b, u)) set_down(b, u, b->best[u]);
}

/* Those that are small no longer, with this limit, have a place as well; returns what all take. */
static int64_t
add_smaller(struct berths *b, int64_t bytes, int64_t limit)
{
    int64_t was = b->small;
    lie_best(b);
    b->small = limit;
    int32_t n = list_ordered(b, BY_END, was);
    for (int32_t i = 0; i < n; i++) {
        int32_t u = b->ordered[i].use;
        set_down(b, u, lowest_place(b, u));
        b->best[u] = b->use[u].offset;
        bytes = MAX(bytes, top_of(&b->use[u]));
    }
    return bytes;
}

/* Smaller and smaller, from an arena of so many bytes; returns the least. */
static int64_t
squeeze_on(struct berths *b, int64_t bytes, int64_t bound, int64_t looks)
{
    b->looks = MIN(looks, (int64_t)b->nuse * b->nuse * STEPS);
    lie_best(b);
    while (bytes > bound + bound / BERTHS_GOOD && squeeze(b, MAX(bound, bytes - MAX(bytes / STEP, REG_ALIGN))))
        bytes = keep_best(b);
    return bytes;
}

static int
by_bytes(const void *x, const void *y)
{
    const struct ordered *a = x, *b = y;
    return (a->key > b->key) - (a->key < b->key);
}

/* So many bytes that all uses which have fewer have such a part of all bytes together at most. */
static int64_t
least_large(struct berths *b, int64_t part)
{
    int64_t all = 0, sum = 0, limit = 0;
    for (int32_t u = 0; u < b->nuse; u++) {
        b->ordered[u] = (struct ordered){b->use[u].bytes, 0, u};
        all += b->use[u].bytes;
    }
    qsort(b->ordered, (size_t)b->nuse, sizeof *b->ordered, by_bytes);
    for (int32_t i = 0; i < b->nuse && sum <= all / part; i++) {
        limit = b->ordered[i].key;
        sum += limit;
    }
    return limit;
}

/* Large ones first, then small ones too, at last tiny ones; returns what they take. */
static int64_t
place_by_size(struct berths *b, int64_t bound)
{
    b->small = least_large(b, SMALL);
    int64_t bytes = try_orders(b, bound + bound / BERTHS_GOOD), tiny = least_large(b, TINY);
    bytes = squeeze_on(b, bytes, bound, STEP_LOOKS);
    bytes = add_smaller(b, bytes, tiny);
    bytes = squeeze_on(b, bytes, bound, STEP_LOOKS);
    if (bytes > bound + bound / NEAR) bytes = squeeze_on(b, bytes, bound, LONGER * STEP_LOOKS);
    return add_smaller(b, bytes, 0);
}

int64_t
berths_place(struct berths *b, int64_t bound)
{
    int64_t enough = bound + bound / BERTHS_GOOD, bytes = try_orders(b, enough);
    if (bytes <= enough) return bytes;
    int64_t *best = b->best;
    b->best = b->better;
    int64_t better = place_by_size(b, bound);
    if (better < bytes) return better;
    b->best = best;
    return bytes;
}
