/* pack.c - finds offsets in one arena (the memory of a device): the best result of several greedy heuristics.
 *
 *   placing   places items one by one in some order; largest first is the best order known. An item gets the
 *             lowest gap, or the tightest one, between placed items with overlapping lifetimes. The time is quadratic.
 *             All orders are tried for up to NTHOROUGH items, and largest first for up to NPLACED.
 *   again     places all items again, the topmost one first, up to NAGAIN times. The caller may request this for
 *             results above the lower bound of the arena's size.
 *   sweeping  simulates malloc and free over time, with holes binned by size: a few steps per item. Items are also
 *             swept backwards in time. Items that must stay together (a group) are swept alone, and are one block for
 *             the other items.
 *
 * With more than NPLACED items, the largest are placed and the small rest is swept above them. (Greedy by size:
 * Pisarchyk & Lee 2020; bins by size: Masmano et al. 2004.) */
#include "actors/plan/memory/pack.h"
#include "runtime/data/arena.h"

#include <stdlib.h>
#include <string.h>

enum { NTHOROUGH = 2000, NPLACED = 8000, NAGAIN = 64, MOST_STEPS = 1 << 23 };

/* Size and lifetime of an item or of a group of items, as an attempt to pack sees them. For a sweep backwards in
 * time, the times are negated. */
struct span {
    int64_t bytes; /* size, rounded up to align; never 0 */
    int32_t first, last;
    int32_t item, group;
};
struct pack {
    struct arena arena;
    int n;
    int32_t period;
    bool thorough;
    struct span *span; /* spans of the items, then one span per group */
    int64_t *offset;   /* by span: offset in the current attempt */
    struct ranked *order, *expiry, *alone;
    struct placed *placed;
    struct block *block;
    int64_t *best; /* offsets of the best attempt; best_bytes: size of its arena */
    int64_t best_bytes;
};

/* ---- orders ---- */

struct ranked {
    double key;
    int32_t span;
};

static int
compare_ranked_keys(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->span - y->span;
}

static double
largest(const struct span *s)
{
    return -(double)s->bytes;
}

static double
most_byte_time(const struct span *s)
{
    return -(double)s->bytes * (1 + (double)s->last - s->first);
}

static double
span_length(const struct span *s)
{
    return -(double)s->last + s->first;
}

static double
earliest(const struct span *s)
{
    return s->first;
}

static double
expires(const struct span *s)
{
    return s->last;
}

static double
by_group(const struct span *s)
{
    return s->group;
}

typedef double key_fn(const struct span *s);

/* Sorts ranked[0] to ranked[n - 1] by key; spans with equal keys, by index. */
static void
sort_ranked(const struct pack *p, struct ranked *ranked, int n, key_fn *key)
{
    for (int i = 0; i < n; i++) ranked[i].key = key(&p->span[ranked[i].span]);
    qsort(ranked, (size_t)n, sizeof *ranked, compare_ranked_keys);
}

static void
rank_all(const struct pack *p, struct ranked *ranked, key_fn *key)
{
    for (int i = 0; i < p->n; i++) ranked[i].span = i;
    sort_ranked(p, ranked, p->n, key);
}

/* ---- placing ---- */

struct placed { /* sorted by offset */
    int64_t offset, end;
    int32_t first, last, group;
};

/* Returns true if the lifetimes of two spans overlap. Two spans of one group repeat in every period, so they
 * overlap if their positions within a period overlap. */
static bool
lifetimes_overlap(const struct pack *p, const struct placed *q, const struct span *s)
{
    int32_t over = s->group && s->group == q->group ? p->period : 0;
    return q->last - over >= s->first && q->first <= s->last - over;
}

/* Returns an offset for span s beside the first n placed spans: in the lowest gap that fits, or in the tightest;
 * without a gap, above all placed spans. */
static int64_t
gap_for(const struct pack *p, int n, const struct span *s, bool tightest)
{
    int64_t top = 0, best = -1, best_gap = INT64_MAX;
    for (int i = 0; i < n; i++) {
        const struct placed *q = &p->placed[i];
        if (!lifetimes_overlap(p, q, s)) continue;
        int64_t gap = q->offset - top;
        if (gap >= s->bytes && gap < best_gap) {
            if (!tightest) return top;
            best = top;
            best_gap = gap;
        }
        top = MAX(top, q->end);
    }
    return best >= 0 ? best : top;
}

static void
insert_placed(struct placed *placed, int n, struct placed q)
{
    int lo = 0, hi = n;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (placed[mid].offset <= q.offset)
            lo = mid + 1;
        else
            hi = mid;
    }
    memmove(&placed[lo + 1], &placed[lo], (size_t)(n - lo) * sizeof *placed);
    placed[lo] = q;
}

/* Places the first n spans of the order in the arena. Returns the arena's bytes. */
static int64_t
place(struct pack *p, int n, bool tightest)
{
    int64_t top = 0;
    for (int i = 0; i < n; i++) {
        const struct span *s = &p->span[p->order[i].span];
        int64_t at = gap_for(p, i, s, tightest);
        insert_placed(p->placed, i, (struct placed){at, at + s->bytes, s->first, s->last, s->group});
        p->offset[p->order[i].span] = at;
        top = MAX(top, at + s->bytes);
    }
    return top;
}

/* ---- sweeping ---- */

/* The arena during a sweep: contiguous blocks, linked in address order. A free block is a hole, which is also
 * linked in the bin of its size. Block i belongs to span i; holes have numbers from n on. */
struct block {
    int64_t offset, bytes;
    int32_t before, after;      /* neighbouring blocks in address order; -1: none */
    int32_t bin_prev, bin_next; /* neighbours of a hole in its bin */
    bool hole;
};

enum { SUB_BITS = 4, NBIN = 64 << SUB_BITS };

struct heap {
    struct block *block;
    int32_t tail;  /* topmost block; -1: none */
    int32_t spare; /* unused block numbers, linked by `after` */
    int64_t top;   /* highest end of a block so far */
    int32_t bin[NBIN];
    uint64_t filled[NBIN / 64];
};

/* Returns the bin for holes of a size. Sizes in one bin differ by less than 1/16. */
static int
bin_of(int64_t bytes)
{
    int log = 63 - __builtin_clzll((unsigned long long)bytes);
    int sub = log >= SUB_BITS ? (int)(bytes >> (log - SUB_BITS)) : (int)(bytes << (SUB_BITS - log));
    return log << SUB_BITS | (sub & ((1 << SUB_BITS) - 1));
}

static void
bin_add(struct heap *h, int32_t b)
{
    int k = bin_of(h->block[b].bytes);
    h->block[b].hole = true;
    h->block[b].bin_prev = -1;
    h->block[b].bin_next = h->bin[k];
    if (h->bin[k] >= 0) h->block[h->bin[k]].bin_prev = b;
    h->bin[k] = b;
    h->filled[k / 64] |= UINT64_C(1) << k % 64;
}

static void
bin_remove(struct heap *h, int32_t b)
{
    struct block *x = &h->block[b];
    int k = bin_of(x->bytes);
    if (x->bin_next >= 0) h->block[x->bin_next].bin_prev = x->bin_prev;
    if (x->bin_prev >= 0)
        h->block[x->bin_prev].bin_next = x->bin_next;
    else
        h->bin[k] = x->bin_next;
    if (h->bin[k] < 0) h->filled[k / 64] &= ~(UINT64_C(1) << k % 64);
    x->hole = false;
}

/* Returns a hole for `bytes` bytes: the tightest that fits in the bin of this size, or else a hole of the next
 * non-empty bin; -1: no hole fits. */
static int32_t
hole_for(const struct heap *h, int64_t bytes)
{
    int k = bin_of(bytes);
    int32_t best = -1;
    for (int32_t b = h->bin[k]; b >= 0; b = h->block[b].bin_next) {
        if (h->block[b].bytes < bytes || (best >= 0 && h->block[b].bytes >= h->block[best].bytes)) continue;
        best = b;
        if (h->block[b].bytes == bytes) break;
    }
    if (best >= 0 || ++k == NBIN) return best;
    uint64_t word = h->filled[k / 64] & ~UINT64_C(0) << k % 64;
    for (int w = k / 64; w < NBIN / 64; word = ++w < NBIN / 64 ? h->filled[w] : 0)
        if (word) return h->bin[w * 64 + __builtin_ctzll(word)];
    return -1;
}

/* Links block b between two neighbours in address order. */
static void
link_in(struct heap *h, int32_t before, int32_t b, int32_t after)
{
    h->block[b].before = before;
    h->block[b].after = after;
    if (before >= 0) h->block[before].after = b;
    if (after >= 0)
        h->block[after].before = b;
    else
        h->tail = b;
}

static void
link_out(struct heap *h, int32_t b)
{
    struct block *x = &h->block[b];
    if (x->before >= 0) h->block[x->before].after = x->after;
    if (x->after >= 0)
        h->block[x->after].before = x->before;
    else
        h->tail = x->before;
}

static void
discard_hole(struct heap *h, int32_t b)
{
    bin_remove(h, b);
    link_out(h, b);
    h->block[b].after = h->spare;
    h->spare = b;
}

static void
add_hole(struct heap *h, int32_t before, int64_t offset, int64_t bytes, int32_t after)
{
    int32_t b = h->spare;
    h->spare = h->block[b].after;
    h->block[b] = (struct block){.offset = offset, .bytes = bytes};
    link_in(h, before, b, after);
    bin_add(h, b);
}

/* Allocates block b in a hole; the rest of the hole remains a hole. If no hole fits, allocates b at the top of the
 * arena; a hole directly below the top is then used, too. */
static void
allocate_block(struct heap *h, int32_t b, int64_t bytes)
{
    int32_t hole = hole_for(h, bytes);
    if (hole < 0 && h->tail >= 0 && h->block[h->tail].hole) hole = h->tail;
    int32_t before = hole >= 0 ? h->block[hole].before : h->tail;
    int32_t after = hole >= 0 ? h->block[hole].after : -1;
    int64_t capacity = hole >= 0 ? h->block[hole].bytes : 0;
    int64_t at = before >= 0 ? h->block[before].offset + h->block[before].bytes : 0;
    if (hole >= 0) discard_hole(h, hole);
    h->block[b] = (struct block){.offset = at, .bytes = bytes};
    link_in(h, before, b, after);
    if (capacity > bytes) add_hole(h, b, at + bytes, capacity - bytes, after);
    h->top = MAX(h->top, at + bytes);
}

/* Frees block b, and merges the new hole with adjacent holes. */
static void
free_block(struct heap *h, int32_t b)
{
    struct block *x = &h->block[b];
    int64_t offset = x->offset, bytes = x->bytes;
    int32_t before = x->before, after = x->after;
    link_out(h, b);
    if (before >= 0 && h->block[before].hole) {
        int32_t hole = before;
        offset = h->block[hole].offset;
        bytes += h->block[hole].bytes;
        before = h->block[hole].before;
        discard_hole(h, hole);
    }
    if (after >= 0 && h->block[after].hole) {
        int32_t hole = after;
        bytes += h->block[hole].bytes;
        after = h->block[hole].after;
        discard_hole(h, hole);
    }
    add_hole(h, before, offset, bytes, after);
}

static void
heap_init(struct heap *h, struct pack *p)
{
    int32_t nspan = 2 * p->n;
    *h = (struct heap){.block = p->block, .tail = -1, .spare = nspan};
    for (int k = 0; k < NBIN; k++) h->bin[k] = -1;
    for (int32_t b = 0; b < 2 * nspan + 1; b++) h->block[b].after = b + 1;
}

/* Simulates malloc at the first position of each of the n spans, and free after its last position. over: number
 * that is subtracted from each last position. For spans of one group it is the period, because only positions
 * within a period count; otherwise 0. Returns the arena's bytes. */
static int64_t
sweep_spans(struct pack *p, struct ranked *order, int n, int32_t over)
{
    struct heap h;
    int gone = 0;
    heap_init(&h, p);
    memcpy(p->expiry, order, (size_t)n * sizeof *order);
    sort_ranked(p, order, n, earliest);
    sort_ranked(p, p->expiry, n, expires);
    for (int i = 0; i < n; i++) {
        const struct span *s = &p->span[order[i].span];
        for (; p->span[p->expiry[gone].span].last - over < s->first; gone++) free_block(&h, p->expiry[gone].span);
        allocate_block(&h, order[i].span, s->bytes);
        p->offset[order[i].span] = h.block[order[i].span].offset;
    }
    return h.top;
}

/* Packs a group of n spans into one block. */
static struct span
span_of_block(struct pack *p, struct ranked *order, int n)
{
    struct span b = p->span[order[0].span];
    for (int i = 1; i < n; i++) {
        b.first = MIN(b.first, p->span[order[i].span].first);
        b.last = MAX(b.last, p->span[order[i].span].last);
    }
    b.bytes = sweep_spans(p, order, n, p->period);
    return b;
}

/* Sweeps all spans of the order except the first `skip`: simulates malloc and free over time, above offset `floor`.
 * Returns the arena's bytes. */
static int64_t
sweep_pack(struct pack *p, int skip, int64_t floor)
{
    struct ranked *order = p->order + skip, *alone = p->alone;
    int n = p->n - skip, nalone = 0, nblock = 0;
    sort_ranked(p, order, n, by_group);
    for (int i = 0, more; i < n; i += more) {
        int32_t group = p->span[order[i].span].group;
        for (more = 1; group && i + more < n && p->span[order[i + more].span].group == group;) more++;
        alone[nalone++].span = group ? p->n + nblock : order[i].span;
        if (group) p->span[p->n + nblock++] = span_of_block(p, order + i, more);
    }
    int64_t top = floor + sweep_spans(p, alone, nalone, 0);
    for (int i = 0, block = p->n - 1, group = 0; i < n; i++) {
        const struct span *s = &p->span[order[i].span];
        if (s->group != group) block++;
        group = s->group;
        p->offset[order[i].span] += floor + (group ? p->offset[block] : 0);
    }
    return top;
}

static void
mirror(struct pack *p)
{
    for (int i = 0; i < p->n; i++) {
        int32_t first = p->span[i].first;
        p->span[i].first = -p->span[i].last;
        p->span[i].last = -first;
    }
}

/* ---- choosing ---- */

/* Stores the offsets of this attempt if its arena is smaller than the best so far. */
static void
consider(struct pack *p, int64_t bytes)
{
    if (bytes >= p->best_bytes) return;
    p->best_bytes = bytes;
    memcpy(p->best, p->offset, (size_t)p->n * sizeof *p->best);
}

/* Places all spans again and again until the arena meets the bound. Each time, the topmost span is moved to the
 * front of the order. */
static void
place_again(struct pack *p, int64_t bound)
{
    int64_t steps = MOST_STEPS / ((int64_t)p->n * p->n + 1);
    for (int64_t k = 0; k < MIN(steps, NAGAIN) && p->best_bytes > bound; k++) {
        int64_t bytes = place(p, p->n, k % 2);
        int at = 0;
        consider(p, bytes);
        while (p->offset[p->order[at].span] + p->span[p->order[at].span].bytes < bytes) at++;
        struct ranked top = p->order[at];
        memmove(p->order + 1, p->order, (size_t)at * sizeof *p->order);
        p->order[0] = top;
    }
}

/* Tries the heuristics, cheap ones first, until the bound is met. */
static void
attempt(struct pack *p, int64_t bound)
{
    for (int backwards = 0; backwards < 2 && p->best_bytes > bound; backwards++) {
        rank_all(p, p->order, earliest);
        consider(p, sweep_pack(p, 0, 0));
        mirror(p);
    }
    if (p->best_bytes > bound && p->n > NTHOROUGH) {
        int nplaced = MIN(p->n, NPLACED);
        rank_all(p, p->order, largest);
        consider(p, sweep_pack(p, nplaced, place(p, nplaced, false)));
    }
    static key_fn *const keys[] = {largest, most_byte_time, span_length, earliest};
    for (size_t k = 0; k < 2 * countof(keys) && p->best_bytes > bound && p->n <= NTHOROUGH; k++) {
        rank_all(p, p->order, keys[k / 2]);
        consider(p, place(p, p->n, k % 2));
    }
    for (size_t k = 0; k < countof(keys) && p->thorough && p->n <= NTHOROUGH; k++) {
        rank_all(p, p->order, keys[k]);
        place_again(p, bound);
    }
}

static int64_t
round_up(int64_t bytes, int64_t align)
{
    return (bytes + align - 1) & -align;
}

/* Lists the items that have bytes. */
static void
spans_of(struct pack *p, const struct pack_items *all, int64_t align)
{
    p->span = ARENA_ARRAY(&p->arena, struct span, 2 * all->n);
    for (int i = 0; i < all->n; i++) {
        struct pack_item *x = &all->item[i];
        x->offset = 0;
        assert(x->bytes >= 0 && x->first <= x->last && x->first > INT32_MIN);
        assert(x->group == 0 || x->last - all->period >= x->first);
        if (x->bytes > 0) p->span[p->n++] = (struct span){round_up(x->bytes, align), x->first, x->last, i, x->group};
    }
}

int64_t
pack_offsets(const struct pack_items *all, int64_t align)
{
    assert(align > 0 && (align & (align - 1)) == 0);
    struct pack p = {.best_bytes = INT64_MAX, .period = all->period, .thorough = all->thorough};
    spans_of(&p, all, align);
    if (p.n > 0) {
        p.offset = ARENA_ARRAY(&p.arena, int64_t, 2 * p.n);
        p.best = ARENA_ARRAY(&p.arena, int64_t, p.n);
        p.order = ARENA_ARRAY(&p.arena, struct ranked, p.n);
        p.alone = ARENA_ARRAY(&p.arena, struct ranked, p.n);
        p.expiry = ARENA_ARRAY(&p.arena, struct ranked, p.n);
        p.placed = ARENA_ARRAY(&p.arena, struct placed, MIN(p.n, NPLACED) + 1);
        p.block = ARENA_ARRAY(&p.arena, struct block, 4 * p.n + 1);
        attempt(&p, pack_bound(all, align));
    }
    for (int i = 0; i < p.n; i++) all->item[p.span[i].item].offset = p.best[i];
    arena_fini(&p.arena);
    return p.n > 0 ? p.best_bytes : 0;
}

/* ---- the peak of live bytes ---- */

/* A change of the live bytes at one time. when: 2 t if an item's life begins at time t, 2 t + 1 if it ends at t,
 * so that begins sort before ends. */
struct change {
    int64_t when, bytes, alive; /* alive: live bytes of the item's group after the change */
    int32_t group;
};

static int
compare_pack_times(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    return (x->when > y->when) - (x->when < y->when);
}

static int
by_group_and_time(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    return x->group != y->group ? (x->group > y->group) - (x->group < y->group) : compare_pack_times(a, b);
}

/* Converts the n changes of a group's live bytes from one period to all periods. The number of periods is unknown,
 * so the result is an upper bound at each position. At a position of the first period, it is the largest number of
 * live bytes up to that position; at a position of the last period, the largest from that position on. */
static void
spread_change(struct change *x, int n, int32_t period)
{
    int64_t alive = 0, most = 0, later = 0;
    for (int i = 0; i < n; i++) x[i].alive = alive += x[i].bytes;
    for (int i = n - 1; i >= 0; i--) {
        int64_t before = i ? x[i - 1].alive : 0;
        if (x[i].bytes > 0) continue;
        x[i].when += 2 * (int64_t)period;
        x[i].bytes = -MAX(before - later, 0);
        later = MAX(later, before);
    }
    for (int i = 0; i < n; i++) {
        if (x[i].bytes > 0) x[i].bytes = MAX(x[i].alive - most, 0);
        most = MAX(most, x[i].alive);
    }
}

int64_t
pack_bound(const struct pack_items *p, int64_t align)
{
    int n = 0;
    struct change *change = must_alloc((size_t)p->n * 2 * sizeof *change + 1);
    for (int i = 0; i < p->n; i++) {
        const struct pack_item *x = &p->item[i];
        int64_t bytes = round_up(x->bytes, align), last = (int64_t)x->last - (x->group ? p->period : 0);
        if (bytes == 0) continue;
        change[n++] = (struct change){2 * (int64_t)x->first, bytes, 0, x->group};
        change[n++] = (struct change){2 * last + 1, -bytes, 0, x->group};
    }
    qsort(change, (size_t)n, sizeof *change, by_group_and_time);
    for (int i = 0, more; i < n; i += more) {
        for (more = 1; i + more < n && change[i + more].group == change[i].group;) more++;
        if (change[i].group) spread_change(change + i, more, p->period);
    }
    qsort(change, (size_t)n, sizeof *change, compare_pack_times);
    int64_t alive = 0, most = 0;
    for (int i = 0; i < n; i++) {
        alive += change[i].bytes;
        most = MAX(most, alive);
    }
    free(change);
    return most;
}
