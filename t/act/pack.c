/* Tests of actors/plan/memory/pack.c: items with overlapping live ranges must never share bytes, and the arena must
 * be close to the lower bound. */
#include "actors/plan/memory/pack.h"
#include "runtime/data/arena.h"
#include "runtime/base/clock.h"
#include "t/lib/tap.h"

/* ---- checking a packing ---- */

static int
by_first(const void *a, const void *b)
{
    const struct pack_item *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

/* Goes through time, with the live items sorted by offset. Returns the number of items that overlap another live
 * item, exceed the arena or are misaligned. */
static int64_t
clashes(const struct pack_item *item, int n, int64_t align, int64_t arena)
{
    struct pack_item *sorted = must_alloc((size_t)n * sizeof *sorted + 1);
    const struct pack_item **alive = must_alloc(((size_t)n + 1) * sizeof(void *));
    memcpy(sorted, item, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_first);
    int64_t wrong = 0;
    int nalive = 0;
    for (int i = 0; i < n; i++) {
        const struct pack_item *x = &sorted[i];
        wrong += x->offset % align != 0 || x->offset < 0 || x->offset + x->bytes > arena;
        int kept = 0, at = 0;
        for (int k = 0; k < nalive; k++)
            if (alive[k]->last >= x->first) alive[kept++] = alive[k];
        nalive = kept;
        if (x->bytes == 0) continue;
        while (at < nalive && alive[at]->offset < x->offset) at++;
        if (at > 0) wrong += alive[at - 1]->offset + alive[at - 1]->bytes > x->offset;
        if (at < nalive) wrong += x->offset + x->bytes > alive[at]->offset;
        memmove(&alive[at + 1], &alive[at], (size_t)(nalive++ - at) * sizeof *alive);
        alive[at] = x;
    }
    free(alive);
    free(sorted);
    return wrong;
}

static void
test_judge(void)
{
    struct pack_item item[] = {{10, 0, 2, 0, 0}, {10, 2, 3, 0, 9}};
    ok(clashes(item, 2, 1, 100) == 1, "the checker finds two live items that share a byte");
    item[1].offset = 10;
    ok(clashes(item, 2, 1, 20) == 0, "the checker accepts adjacent items");
    ok(clashes(item, 2, 1, 19) == 1, "the checker finds an item beyond the arena");
    ok(clashes(item, 2, 16, 100) == 1, "the checker finds a misaligned item");
}

/* ---- exhaustive search of small cases ---- */

struct life {
    int32_t first, last, group;
};
/* Live ranges of items that are live once per run. */
static const struct life once[] = {{0, 0, 0}, {0, 1, 0}, {0, 2, 0}, {0, 3, 0}, {1, 1, 0},
                                   {1, 2, 0}, {1, 3, 0}, {2, 2, 0}, {2, 3, 0}, {3, 3, 0}};
/* Live ranges of items that are live once per period of PERIOD positions. Fields `first` and `last` are positions in
 * the first period. Items of group 0 do not recur. */
enum { PERIOD = 3 };
static const struct life often[] = {{0, 3, 1}, {0, 4, 1}, {1, 4, 1}, {1, 5, 1}, {2, 5, 1}, {0, 3, 2}, {1, 5, 2},
                                    {2, 5, 2}, {0, 0, 0}, {0, 2, 0}, {1, 4, 0}, {3, 3, 0}, {4, 5, 0}};

static int64_t
pack_once(struct pack_item *item, int n, int64_t align)
{
    return pack_offsets(&(struct pack_items){.item = item, .n = n}, align);
}

/* Returns true if the live ranges of two items overlap. */
static bool
meet(const struct pack_item *a, const struct pack_item *b)
{
    bool same = a->group && a->group == b->group;
    int32_t over = same ? PERIOD : 0;
    return a->first <= b->last - over && b->first <= a->last - over;
}

static bool
share_bytes(const struct pack_item *a, const struct pack_item *b)
{
    return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

static int64_t
pairs_that_clash(const struct pack_item *item, int n)
{
    int64_t wrong = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++) wrong += meet(&item[i], &item[k]) && share_bytes(&item[i], &item[k]);
    return wrong;
}

/* Returns the size of the smallest arena. Tries all orders of the items, and places each item at its lowest free
 * offset. One of the orders gives an optimal packing. */
static int64_t
least(struct pack_item *item, int n, int placed)
{
    int64_t best = 0;
    for (int i = 0; i < placed; i++) best = MAX(best, item[i].offset + item[i].bytes);
    if (placed == n) return best;
    best = INT64_MAX;
    for (int k = placed; k < n; k++) {
        struct pack_item x = item[k];
        item[k] = item[placed];
        for (bool moved = !(x.offset = 0); moved;) {
            moved = false;
            for (int i = 0; i < placed; i++) {
                if (!meet(&item[i], &x) || !share_bytes(&item[i], &x)) continue;
                x.offset = item[i].offset + item[i].bytes;
                moved = true;
            }
        }
        item[placed] = x;
        best = MIN(best, least(item, n, placed + 1));
        x = item[placed];
        item[placed] = item[k];
        item[k] = x;
    }
    return best;
}

static void
test_every(const struct life *life, int nlife, int n, int nsize)
{
    int64_t ncase = 1, wrong = 0, larger = 0, below = 0;
    int each = nlife * nsize;
    for (int i = 0; i < n; i++) ncase *= each;
    for (int64_t c = 0; c < ncase; c++) {
        struct pack_item item[4];
        int64_t code = c;
        for (int i = 0; i < n; i++, code /= each) {
            int k = (int)(code % each);
            const struct life *l = &life[k / nsize];
            item[i] = (struct pack_item){1 + k % nsize, l->first, l->last, l->group, -1};
        }
        struct pack_items all = {.item = item, .n = n, .period = PERIOD};
        int64_t arena = pack_offsets(&all, 1), bound = pack_bound(&all, 1), best;
        wrong += pairs_that_clash(item, n);
        for (int i = 0; i < n; i++) wrong += item[i].offset < 0 || item[i].offset + item[i].bytes > arena;
        best = least(item, n, 0);
        below += best < bound;
        larger += arena > best;
    }
    ok(wrong == 0, "in all %lld cases of %d items%s no live items overlap", (long long)ncase, n,
       life == often ? ", some of them per micro-batch," : "");
    ok(below == 0, "no arena is below the lower bound");
    ok(larger == 0, "every arena is minimal (%lld are not)", (long long)larger);
}

/* ---- live ranges as in real plans ---- */

static int64_t
between(uint64_t *seed, int64_t lo, int64_t hi)
{
    return lo + (int64_t)(next_random(seed) % (uint64_t)(hi - lo + 1));
}

/* Fills in the items of a training step. Each layer leaves activations of several sizes for backward; both passes
 * also use temporary values. */
static void
training(struct pack_item *item, int n, uint64_t *seed)
{
    int nlayer = n / 8;
    for (int i = 0; i < n; i++) {
        int32_t layer = i / 8 % nlayer, forward = 4 * layer, backward = 8 * nlayer - 4 * layer;
        int32_t at = (i % 2 ? forward : backward) + (int32_t)between(seed, 0, 3);
        int64_t unit = (int64_t)1 << (10 + i % 4);
        if (i % 8 < 4)
            item[i] = (struct pack_item){3 * unit, forward + i % 4, backward + i % 4, 0, 0};
        else
            item[i] = (struct pack_item){unit * between(seed, 1, 9), at, at + (int32_t)between(seed, 0, 6), 0, 0};
    }
}

/* Fills in the items of inference: a chain, in which each item is read one step after it is written. */
static void
chain(struct pack_item *item, int n, uint64_t *seed)
{
    for (int32_t i = 0; i < n; i++)
        item[i] = (struct pack_item){between(seed, 1, 4096) * 256, i, i + 1 + (int32_t)between(seed, 0, 3), 0, 0};
}

/* Fills in items with random lifetimes, and sizes that differ by up to six orders of magnitude. */
static void
noise(struct pack_item *item, int n, uint64_t *seed)
{
    for (int i = 0; i < n; i++) {
        int32_t first = (int32_t)between(seed, 0, n);
        int64_t bytes = (int64_t)exp2((double)between(seed, 0, 20000) / 1000.0);
        item[i] = (struct pack_item){bytes, first, first + (int32_t)between(seed, 0, n < 4000 ? n / 10 : 400), 0, 0};
    }
}

/* Fills in items of equal size, like the registers of a pipeline. */
static void
equal(struct pack_item *item, int n, uint64_t *seed)
{
    for (int32_t i = 0; i < n; i++) item[i] = (struct pack_item){65536, i, i + (int32_t)between(seed, 1, 60), 0, 0};
}

static const struct {
    const char *name;
    void (*fill)(struct pack_item *item, int n, uint64_t *seed);
    int most; /* largest number of items to try; lower for `training`, whose many live items make the checker slow */
} shapes[] = {{"training", training, 20000},
              {"a chain", chain, 100000},
              {"noise", noise, 100000},
              {"equal registers", equal, 100000}};

static void
test_shape(int shape, int n, int64_t align, double factor, uint64_t seed)
{
    struct pack_item *item = must_alloc((size_t)n * sizeof *item);
    shapes[shape].fill(item, n, &seed);
    int64_t start = now_ns();
    int64_t arena = pack_once(item, n, align), bound = pack_bound(&(struct pack_items){.item = item, .n = n}, align);
    double seconds = 1e-9 * (double)(now_ns() - start);
    const char *name = shapes[shape].name;
    is_int(clashes(item, n, align, arena), 0, "no live items overlap");
    ok((double)arena <= factor * (double)bound, "%s of %d items: the arena is %.3f times the lower bound (%.0f ms)",
       name, n, (double)arena / (double)bound, seconds * 1e3);
    free(item);
}

/* ---- edges ---- */

static void
test_edges(void)
{
    is_int(pack_once(NULL, 0, 64), 0, "no items need an arena of 0 bytes");
    struct pack_item none[] = {{0, 0, 9, 0, -1}, {0, 3, 3, 0, -1}};
    ok(pack_once(none, 2, 64) == 0 && none[0].offset == 0 && none[1].offset == 0,
       "items of 0 bytes need an arena of 0 bytes");
    struct pack_item one[] = {{100, 5, 5, 0, -1}};
    ok(pack_once(one, 1, 64) == 128 && one[0].offset == 0, "one item needs its size, rounded up");
    struct pack_item two[] = {{64, 0, 1, 0, -1}, {64, 1, 2, 0, -1}, {64, 2, 3, 0, -1}};
    is_int(pack_once(two, 3, 64), 128, "an item read at a position does not share bytes with one written there");
    struct pack_item big[] = {{INT64_C(1) << 40, 0, 1, 0, -1}, {INT64_C(3) << 40, 1, 2, 0, -1}, {1, 2, 3, 0, -1}};
    is_int(pack_once(big, 3, 1), INT64_C(4) << 40, "items of terabytes can be packed");
    struct pack_item late[] = {{8, INT32_MAX - 1, INT32_MAX, 0, -1}, {8, -INT32_MAX, INT32_MAX, 0, -1}};
    is_int(pack_once(late, 2, 8), 16, "positions at both ends of the range can be packed");
}

static void
test_repeats(uint64_t seed)
{
    enum { N = 3000 };
    static struct pack_item a[N], b[N];
    noise(a, N, &seed);
    memcpy(b, a, sizeof a);
    pack_once(a, N, 64);
    pack_once(b, N, 64);
    ok(!memcmp(a, b, sizeof a), "the same items give the same offsets");
}

/* Checks that thorough packing is never worse than quick packing, and often better. */
static void
test_thorough(uint64_t seed)
{
    enum { N = 60, CASES = 200 };
    struct pack_item quick[N], item[N];
    int better = 0, worse = 0;
    int64_t wrong = 0, below = 0;
    for (int c = 0; c < CASES; c++) {
        (c % 2 ? noise : training)(quick, N, &seed);
        memcpy(item, quick, sizeof item);
        struct pack_items all = {.item = item, .n = N, .thorough = true};
        int64_t arena = pack_offsets(&all, 64), first = pack_once(quick, N, 64);
        wrong += clashes(item, N, 64, arena);
        below += arena < pack_bound(&all, 64);
        better += arena < first;
        worse += arena > first;
    }
    ok(wrong == 0 && below == 0, "with thorough packing no live items overlap");
    ok(worse == 0 && better > CASES / 40, "of %d arenas, thorough packing shrinks %d and grows none", (int)CASES,
       better);
}

int
main(void)
{
    uint64_t seed = seed_of(7);
    test_judge();
    test_edges();
    for (int n = 1; n <= 4; n++) {
        test_every(once, countof(once), n, n < 3 ? 3 : 5 - n);
        test_every(often, countof(often), n, n < 3 ? 3 : 5 - n);
    }
    static const int sizes[] = {20, 300, 2000, 9000, 100000};
    for (int s = 0; s < (int)countof(shapes); s++)
        for (size_t k = 0; k < countof(sizes); k++)
            test_shape(s, MIN(sizes[k], shapes[s].most), k % 2 ? 64 : 1, 1.3, seed + k);
    for (uint64_t i = 0; i < 40; i++) test_shape((int)(i % 4), (int)(30 + 7 * i), 64, 1.3, seed + 100 + i);
    test_repeats(seed);
    test_thorough(seed);
    return done();
}
