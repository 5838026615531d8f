/* data-ahead.c - tests a data source that reads batches ahead. A batch must depend only on its position, not on the
 * order of reading. The source must read ahead at most as many batches as it has credits. SEED= repeats the
 * positions. */
#include "actors/session/io/read_ahead.h"
#include "runtime/base/error.h"
#include "runtime/data/rng.h"
#include "t/lib/tap.h"

#include <sched.h>

enum { BATCHES = 5, BAD = 3 }; /* BATCHES: number of batches per epoch; BAD: row whose read fails if `fails` is set */

struct made {
    _Atomic int64_t nfill;
    bool fails;
};

static size_t
bytes_of(const struct batch_at *at)
{
    return sizeof(uint64_t) * (size_t)(at->n * at->length);
}

static uint64_t
value_at(const struct batch_at *at, int64_t i)
{
    return rng_key(at->seed, at->epoch) + (uint64_t)(at->first * at->length + i);
}

static int
fill(void *arg, const struct batch_at *at, void *out)
{
    struct made *m = arg;
    m->nfill++;
    if (m->fails && at->first == BAD) return fail(E_IO, "row %lld", (long long)at->first);
    for (int64_t i = 0; i < at->n * at->length; i++) ((uint64_t *)out)[i] = value_at(at, i);
    return 0;
}

static struct batch_at
next(void *arg, const struct batch_at *at)
{
    struct batch_at n = *at;
    UNUSED(arg);
    n.first += at->n;
    if (n.first < BATCHES * at->n) return n;
    n.first = 0;
    n.epoch++;
    return n;
}

static bool
is_right(struct ahead *a, const struct batch_at *at)
{
    const void *data;
    if (read_ahead_take(a, at, &data)) return false;
    bool right = true;
    for (int64_t i = 0; i < at->n * at->length; i++) right = right && ((const uint64_t *)data)[i] == value_at(at, i);
    read_ahead_give_back(a);
    return right;
}

static void
test_places(uint64_t seed)
{
    enum { TIMES = 4000 };
    struct made m = {0};
    struct ahead *a = read_ahead_new(&(struct read_ahead_source){&m, bytes_of, fill, next});
    struct batch_at at = {.seed = 1, .n = 2, .length = 3};
    int right = 0;
    for (uint64_t i = 0; i < TIMES; i++) {
        uint64_t r = rng_key(seed, i);
        if (r % 4 == 0)
            at = (struct batch_at){r >> 8 & 3,
                                   r >> 10 & 3,
                                   (int64_t)(r >> 12 & 3),
                                   1 + (int64_t)(r >> 14 & 3),
                                   1 + (int64_t)(r >> 16 & 31),
                                   0};
        right += is_right(a, &at);
        at = next(NULL, &at);
    }
    read_ahead_free(&a);
    ok(right == TIMES, "%d batches match their positions, one in four out of order", TIMES);
}

static struct rille_source_stats
stats_of(const struct ahead *a)
{
    struct rille_source_stats s;
    read_ahead_stats(a, &s);
    return s;
}

/* Checks that a slow consumer finds each batch ready, because the source reads as soon as it has a credit. */
static void
test_credits(void)
{
    enum { TIMES = 50 };
    struct made m = {0};
    struct ahead *a = read_ahead_new(&(struct read_ahead_source){&m, bytes_of, fill, next});
    struct batch_at at = {.seed = 1, .n = 2, .length = 3};
    bool bounded = true;
    for (int i = 0; i < TIMES; i++, at = next(NULL, &at)) {
        is_right(a, &at);
        while (m.nfill < i + 1 + READ_AHEAD_DEPTH || stats_of(a).full < i + 1) sched_yield();
        for (int k = 0; k < 20; k++) sched_yield();
        bounded = bounded && m.nfill == i + 1 + READ_AHEAD_DEPTH;
    }
    struct rille_source_stats s = stats_of(a);
    ok(bounded, "the source reads exactly as far ahead as it has credits");
    ok(s.waited <= 1 && s.taken == TIMES && s.read == TIMES + READ_AHEAD_DEPTH,
       "the consumer waits for the first batch at most");
    read_ahead_free(&a);
}

static void
test_errors(void)
{
    struct made m = {.fails = true};
    struct ahead *a = read_ahead_new(&(struct read_ahead_source){&m, bytes_of, fill, next});
    struct batch_at at = {.n = 1, .length = 1};
    const void *data;
    bool right = true;
    for (; at.first < BAD; at = next(NULL, &at)) right = right && is_right(a, &at);
    ok(right, "batches before an unreadable one are read");
    ok(read_ahead_take(a, &at, &data) == E_IO && !strcmp(err_text(), "row 3"),
       "taking the unreadable batch reports its error");
    at = next(NULL, &at);
    ok(is_right(a, &at), "the batch after the unreadable one is read");
    read_ahead_free(&a);
    ok(!a, "a source can be freed while it reads ahead");
}

int
main(void)
{
    test_places(seed_of(1));
    test_credits();
    test_errors();
    return done();
}
