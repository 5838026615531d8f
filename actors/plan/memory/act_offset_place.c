/* act_offset_place.c - packs register uses into a device arena: uses that may be live at the same time must not
 * overlap in address.
 *
 * 1. Greedy strip packing: sorts the uses by several keys (size, then end of life; current offset; ...), places each
 * at the lowest free offset, and keeps the best packing.
 *
 * 2. Improvement by ejection: shrinks the arena by 1/192 and evicts each use that reaches beyond its new end. An
 * evicted use is reinserted at the offset where further evictions cost least; the newly evicted uses are then
 * reinserted in the same way. Each eviction raises the cost of evicting that use again. Stops when a shrunk arena
 * cannot be packed within the budget, or when the arena is close to the lower bound.
 *
 * The budget counts comparisons, not time, so the result is deterministic. A device with many uses gets fewer greedy
 * orders and fewer ejection steps. */
#include "actors/plan/memory/act_offset_place.h"

#include <stdlib.h>
#include <string.h>

enum {
    ORDER_LOOKS = 1 << 27, /* budget of all greedy orders, in comparisons; the first order runs whatever it takes */
    STEP_LOOKS = 1 << 22,  /* budget of an ejection search, in comparisons; each step makes one comparison per use */
    LONGER = 16,           /* factor by which STEP_LOOKS grows while the arena is far above the lower bound */
    STEPS = 96,            /* largest number of ejection steps per use */
    STEP = 192,            /* the arena shrinks by 1/STEP of its size at a time */
    /* an arena is far above the lower bound if it exceeds the bound by more than 1/NEAR of the bound */
    NEAR = 24,
    /* Uses are placed in three groups: large, small, tiny. The smallest uses that together hold 1/SMALL of all bytes
     * are not large. The smallest uses that together hold 1/TINY of all bytes are tiny. */
    SMALL = 16,
    TINY = 256,
};

/* ---- overlapping lifetimes ---- */

/* Sets the bits of uses first to last in the mask; first <= last. */
static void
mark_uses(uint64_t *bits, int32_t first, int32_t last)
{
    int32_t lo = first >> 6, hi = last >> 6;
    uint64_t from = ~UINT64_C(0) << (first & 63), to = ~UINT64_C(0) >> (63 - (last & 63));
    bits[lo] |= lo == hi ? from & to : from;
    if (lo == hi) return;
    for (int32_t i = lo + 1; i < hi; i++) bits[i] = ~UINT64_C(0);
    bits[hi] |= to;
}

/* Marks the uses of live range y that may be live at the same time as use u. Use i of a live range stands for all
 * micro-batches i + k * nact_offset (k = 0, 1, ...). */
static void
mark_met(struct act_offsets *b, const struct use *u, const struct live_range *y, struct reach r)
{
    int32_t n = b->nact_offset, from = u->berth - r.hi, to = u->berth - r.lo;
    if (from > to) return;
    if (n == b->plan->pieces || !y->again) {
        for (; n < b->plan->pieces && b->live_range[u->live_range].again && to < 0; to += n)
            from += n; /* the next micro-batch that has the offset of use u */
        from = MAX(from, 0);
        to = MIN(to, y->nuse - 1);
        if (from <= to) mark_uses(b->near, y->first + from, y->first + to);
        return;
    }
    if (to - from + 1 >= n) {
        mark_uses(b->near, y->first, y->first + n - 1);
        return;
    }
    from = (from % n + n) % n;
    to = (to % n + n) % n;
    mark_uses(b->near, y->first + from, y->first + (from <= to ? to : n - 1));
    if (from > to) mark_uses(b->near, y->first, y->first + to);
}

static void
find_near_uses(struct act_offsets *b, int32_t u)
{
    const struct reach *r = &b->reach[b->use[u].live_range * b->nlive_range];
    memset(b->near, 0, sizeof *b->near * (size_t)(b->nuse / 64 + 1));
    for (int32_t y = 0; y < b->nlive_range; y++) mark_met(b, &b->use[u], &b->live_range[y], r[y]);
    b->near[u >> 6] &= ~(UINT64_C(1) << (u & 63));
}

static bool
is_near(const struct act_offsets *b, int32_t u)
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
act_offsets_list(struct act_offsets *b)
{
    int32_t n = 0;
    for (int32_t i = 0; i < b->nlive_range; i++) {
        struct live_range *t = &b->live_range[i];
        const struct out_port *o = act_offset_port(b, t);
        int64_t bytes = where_stride(o->bytes);
        t->first = n;
        t->nuse = t->again ? b->nact_offset : 1;
        for (int32_t k = 0; k < t->nuse; k++)
            b->use[n++] = (struct use){.live_range = i,
                                       .berth = k,
                                       .bytes = bytes,
                                       .offset = o->where.offset + k % t->nreg * o->where.stride,
                                       .cost = bytes};
    }
}

/* ---- placing ---- */

/* Inserts use u into a list sorted by address, after all uses at the same or a lower address. */
static void
insert_use(int32_t *list, int32_t n, int32_t u, const struct use *use, bool by_top)
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
set_down(struct act_offsets *b, int32_t u, int64_t offset)
{
    b->use[u].offset = offset;
    b->use[u].out = false;
    insert_use(b->low, b->nplaced, u, b->use, false);
    insert_use(b->high, b->nplaced, u, b->use, true);
    b->nplaced++;
}

static int32_t
keep_placed(const struct act_offsets *b, int32_t *list)
{
    int32_t n = 0;
    for (int32_t i = 0; i < b->nplaced; i++) {
        list[n] = list[i];
        n += !b->use[list[i]].out;
    }
    return n;
}

/* Removes evicted uses from the two sorted lists. */
static void
remove_placed(struct act_offsets *b)
{
    keep_placed(b, b->low);
    b->nplaced = keep_placed(b, b->high);
}

/* Returns the lowest free offset for use u: there it overlaps no placed use that may be live at the same time. */
static int64_t
lowest_place(struct act_offsets *b, int32_t u)
{
    int64_t at = 0;
    find_near_uses(b, u);
    for (int32_t k = 0; k < b->nplaced; k++) {
        if (!is_near(b, b->low[k])) continue;
        const struct use *q = &b->use[b->low[k]];
        if (q->offset >= at + b->use[u].bytes) break;
        at = MAX(at, top_of(q));
    }
    return at;
}

/* Returns true if the use is small, so that it is placed later, in gaps or on top. Sizes of large uses are often
 * multiples of each other, so large uses fit together well. A small use between them would leave a gap that no
 * large use fills. */
static bool
is_small(const struct act_offsets *b, int32_t u)
{
    return b->use[u].bytes < b->small;
}

/* Stores the current offsets as the best ones. Returns the bytes of the arena that large uses need. */
static int64_t
keep_best_offsets(const struct act_offsets *b)
{
    int64_t all = 0;
    for (int32_t u = 0; u < b->nuse; u++) {
        b->best[u] = b->use[u].offset;
        if (!is_small(b, u)) all = MAX(all, top_of(&b->use[u]));
    }
    return all;
}

/* ---- greedy orders ---- */

/* Sort keys of the greedy orders. BY_END, BY_BEGIN, BY_MET: by size; of equal size, first the use with the latest
 * end, the earliest begin, or the most overlapping uses. BY_REGISTERS: by the offset of the register.
 * BY_BYTES_MET: by size times the number of overlapping uses. */
enum order { BY_END, BY_REGISTERS, BY_BEGIN, BY_MET, BY_BYTES_MET, ORDERS };

static int
compare_use_keys(const void *x, const void *y)
{
    const struct ordered *a = x, *b = y;
    if (a->key != b->key) return a->key < b->key ? -1 : 1;
    return a->then != b->then ? (a->then > b->then) - (a->then < b->then) : a->use - b->use;
}

/* Counts uses of all live ranges. behind false: returns the number of uses that have certainly ended before use u
 * begins; behind true: the number of uses that begin after use u has certainly ended. */
static int32_t
count_apart(const struct act_offsets *b, const struct use *u, bool behind)
{
    int32_t n = b->nlive_range, x = u->live_range, sum = 0;
    for (int32_t y = 0; y < n; y++) {
        int32_t first = u->berth + b->after[x * n + y], last = u->berth - b->after[y * n + x];
        sum += MIN(MAX(behind ? b->live_range[y].nuse - first : last + 1, 0), b->live_range[y].nuse);
    }
    return sum;
}

static struct ordered
order_key(const struct act_offsets *b, int32_t use, enum order by)
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

/* Sorts the uses that are smaller than `was` bytes and not small (b->small) into b->ordered. Returns the number of
 * sorted uses. */
static int32_t
list_ordered(struct act_offsets *b, enum order by, int64_t was)
{
    int32_t n = 0;
    for (int32_t u = 0; u < b->nuse; u++)
        if (!is_small(b, u) && b->use[u].bytes < was) b->ordered[n++] = order_key(b, u, by);
    qsort(b->ordered, (size_t)n, sizeof *b->ordered, compare_use_keys);
    return n;
}

/* Places the large uses in the given order. Returns the arena's bytes; stops early if the arena exceeds `most`
 * bytes. */
static int64_t
let_down(struct act_offsets *b, enum order by, int64_t most)
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

/* ---- ejection ---- */

/* Lists the placed uses that may be live at the same time as use u: in `met`, sorted by lowest address, and in
 * `ends`, sorted by highest address. The loops are branch-free, because branches would be unpredictable. */
static void
list_met(struct act_offsets *b, int32_t u)
{
    int32_t n = 0, m = 0;
    find_near_uses(b, u);
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

/* Returns the offset for use u that causes the cheapest evictions; of equally good offsets, the lowest. Tries the
 * offsets directly above and below uses that may be live at the same time. */
static int64_t
best_place(const struct act_offsets *b, const struct use *u, int64_t top)
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

/* Evicts the uses that overlap use u at this offset. */
static void
clear_way(struct act_offsets *b, const struct use *u, int64_t at)
{
    int32_t was = b->nqueue;
    for (int32_t i = 0; i < b->nmet && b->begin[i].at < at + u->bytes; i++) {
        struct use *q = &b->use[b->met[i]];
        if (top_of(q) <= at) continue;
        q->out = true;
        q->cost += q->bytes;
        b->queue[b->nqueue++] = b->met[i];
    }
    if (b->nqueue > was) remove_placed(b);
}

/* Removes the use with the highest eviction cost from the queue, and returns the use. */
static int32_t
next_out(struct act_offsets *b)
{
    int32_t pick = 0;
    for (int32_t k = 1; k < b->nqueue; k++)
        if (b->use[b->queue[k]].cost > b->use[b->queue[pick]].cost) pick = k;
    int32_t u = b->queue[pick];
    b->queue[pick] = b->queue[--b->nqueue];
    return u;
}

/* Packs the large uses below address `top`. Returns false if the budget ran out. */
static bool
squeeze_offsets(struct act_offsets *b, int64_t top)
{
    b->nqueue = 0;
    for (int32_t u = 0; u < b->nuse; u++) {
        if (is_small(b, u)) continue;
        if (b->use[u].bytes > top) return false;
        b->use[u].out = top_of(&b->use[u]) > top;
        if (b->use[u].out) b->queue[b->nqueue++] = u;
    }
    remove_placed(b);
    while (b->nqueue > 0 && b->looks > 0) {
        int32_t u = next_out(b);
        list_met(b, u);
        int64_t at = best_place(b, &b->use[u], top);
        clear_way(b, &b->use[u], at);
        set_down(b, u, at);
    }
    return b->nqueue == 0;
}

/* Places uses in one greedy order after the other, until an arena has at most `enough` bytes. Returns the bytes of
 * the smallest arena. */
static int64_t
try_offset_orders(struct act_offsets *b, int64_t enough)
{
    int64_t best = INT64_MAX, looks = ORDER_LOOKS;
    for (int by = 0; by < ORDERS && best > enough && (by == 0 || looks > 0); by++) {
        int64_t all = let_down(b, by, best);
        looks -= (int64_t)b->nuse * b->nuse;
        if (all < best) best = keep_best_offsets(b);
        act_offsets_list(b);
    }
    return best;
}

/* Gives each large use the offset that it has in the best arena found so far. */
static void
lie_best(struct act_offsets *b)
{
    b->nplaced = 0;
    for (int32_t u = 0; u < b->nuse; u++)
        if (!is_small(b, u)) set_down(b, u, b->best[u]);
}

/* Lowers b->small, the size limit of small uses, and places the uses that are no longer small. Returns the arena's
 * bytes. */
static int64_t
add_smaller(struct act_offsets *b, int64_t bytes, int64_t limit)
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

/* Makes an arena of `bytes` smaller step by step, until a step fails. Returns the bytes of the smallest arena. */
static int64_t
squeeze_on(struct act_offsets *b, int64_t bytes, int64_t bound, int64_t looks)
{
    b->looks = MIN(looks, (int64_t)b->nuse * b->nuse * STEPS);
    lie_best(b);
    while (bytes > bound + bound / ACT_OFFSETS_GOOD &&
           squeeze_offsets(b, MAX(bound, bytes - MAX(bytes / STEP, REG_ALIGN))))
        bytes = keep_best_offsets(b);
    return bytes;
}

static int
compare_use_bytes(const void *x, const void *y)
{
    const struct ordered *a = x, *b = y;
    return (a->key > b->key) - (a->key < b->key);
}

/* Returns the largest size limit such that the uses below the limit hold at most 1/part of all bytes. */
static int64_t
least_large(struct act_offsets *b, int64_t part)
{
    int64_t all = 0, sum = 0, limit = 0;
    for (int32_t u = 0; u < b->nuse; u++) {
        b->ordered[u] = (struct ordered){b->use[u].bytes, 0, u};
        all += b->use[u].bytes;
    }
    qsort(b->ordered, (size_t)b->nuse, sizeof *b->ordered, compare_use_bytes);
    for (int32_t i = 0; i < b->nuse && sum <= all / part; i++) {
        limit = b->ordered[i].key;
        sum += limit;
    }
    return limit;
}

/* Packs large uses first, then small uses, then tiny uses. Returns the arena's bytes. */
static int64_t
place_by_size(struct act_offsets *b, int64_t bound)
{
    b->small = least_large(b, SMALL);
    int64_t bytes = try_offset_orders(b, bound + bound / ACT_OFFSETS_GOOD), tiny = least_large(b, TINY);
    bytes = squeeze_on(b, bytes, bound, STEP_LOOKS);
    bytes = add_smaller(b, bytes, tiny);
    bytes = squeeze_on(b, bytes, bound, STEP_LOOKS);
    if (bytes > bound + bound / NEAR) bytes = squeeze_on(b, bytes, bound, LONGER * STEP_LOOKS);
    return add_smaller(b, bytes, 0);
}

int64_t
act_offsets_place(struct act_offsets *b, int64_t bound)
{
    int64_t enough = bound + bound / ACT_OFFSETS_GOOD, bytes = try_offset_orders(b, enough);
    if (bytes <= enough) return bytes;
    int64_t *best = b->best;
    b->best = b->better;
    int64_t better = place_by_size(b, bound);
    if (better < bytes) return better;
    b->best = best;
    return bytes;
}
