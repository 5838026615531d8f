/* Tests of runtime/data/hash.c: added items are found and removed items are not found, whatever their hashes. */
#include "runtime/data/hash.h"
#include "t/lib/tap.h"

enum { ITEMS = 3000, STEPS = 60000 };

static int
times(const struct hash_table *t, uint64_t hash, const void *item)
{
    int n = 0;
    uint32_t at = 0;
    for (void *found; (found = hash_next(t, hash, &at));) n += found == item;
    return n;
}

/* Adds and removes random items, with hashes that are all equal, equal in their low bits, or different. */
static void
test_random(const char *name, uint64_t spread, int nitem, uint64_t seed)
{
    static char item[ITEMS];
    bool in[ITEMS] = {false};
    struct hash_table t = {0};
    int wrong = 0, n = 0;
    for (int step = 0; step < STEPS * nitem / ITEMS; step++) {
        int i = (int)(next_random(&seed) % (uint64_t)nitem);
        uint64_t hash = (uint64_t)i * spread;
        wrong += times(&t, hash, &item[i]) != in[i];
        if (in[i])
            hash_remove(&t, hash, &item[i]);
        else
            hash_add(&t, hash, &item[i]);
        n += in[i] ? -1 : 1;
        in[i] = !in[i];
        wrong += t.n != n;
    }
    for (int i = 0; i < nitem; i++) wrong += times(&t, (uint64_t)i * spread, &item[i]) != in[i];
    is_int(wrong, 0, name);
    hash_free(&t);
    ok(t.n == 0 && !times(&t, 0, item), "a freed table is empty");
}

/* Checks that equal arrays share one copy, made from the caller's array. */
static void
test_kept(void)
{
    struct arena a = {0};
    struct hash_table t = {.arena = &a};
    const int32_t *kept[64];
    int wrong = 0;
    for (int32_t i = 0; i < 64; i++) {
        int32_t x[2] = {i % 8, i / 8 % 2};
        kept[i] = hash_keep(&t, x, i < 32 ? sizeof x : sizeof *x);
        wrong += kept[i] == x || kept[i][0] != i % 8;
        for (int32_t k = 0; k < i; k++) {
            bool same = (k < 32) == (i < 32) && k % 8 == i % 8 && (i >= 32 || k / 8 % 2 == i / 8 % 2);
            wrong += same != (kept[k] == kept[i]);
        }
    }
    is_int(wrong, 0, "equal arrays are stored once");
    is_int(t.n, 24, "the table has one entry per distinct array");
    arena_fini(&a);
}

static void
test_hashes(void)
{
    char text[64];
    int alike = 0;
    memset(text, 'a', sizeof text);
    for (size_t n = 1; n < sizeof text; n++) alike += hash_bytes(0, text, n) == hash_bytes(0, text, n - 1);
    ok(alike == 0 && hash_bytes(1, text, 8) != hash_bytes(2, text, 8),
       "texts of different lengths, or with different seeds, have different hashes");
    struct digest a = DIGEST_BEGIN, b = DIGEST_BEGIN, c = DIGEST_BEGIN;
    digest_bytes(&a, "abcdefghij", 10);
    digest_bytes(&b, "abcdefghij", 10);
    digest_bytes(&c, "abcdefghji", 10);
    ok(!memcmp(&a, &b, sizeof a) && memcmp(&a, &c, sizeof a),
       "equal bytes have equal digests, and different bytes have different digests");
    for (int32_t i = 0; i < 3; i++) is_int(hash_index_of(hash_index(i)), i, "a number survives as an item");
}

int
main(void)
{
    uint64_t seed = seed_of(1);
    test_random("added items are found and removed items are not", 0x9e3779b97f4a7c15ull, ITEMS, seed);
    test_random("the table works if hashes have equal low bits", 1 << 20, 300, seed);
    test_random("the table works if all hashes are equal", 0, 200, seed);
    test_kept();
    test_hashes();
    return done();
}
