/* team.c - tests parallel loops: every entry is visited exactly once, results do not depend on the threads that run
 * them, and all threads end early after a stop. Idle helper threads sleep, and end with the thread that owns them. */
#include "kernels/cpu/base/team.h"
#include "runtime/base/stop.h"
#include "t/lib/tap.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { MOST = 200000, THREADS = 5 };

static atomic_uchar seen[MOST];
static atomic_long calls, entries;
static atomic_int asks, most_asks;

static void
part(void *arg, int64_t lo, int64_t hi)
{
    UNUSED(arg);
    atomic_fetch_add(&calls, 1);
    atomic_fetch_add(&entries, hi - lo);
    for (int64_t k = lo; k < hi; k++) atomic_fetch_add(&seen[k], 1);
}

static void
part_of(void *arg, int64_t share, int64_t lo, int64_t hi)
{
    if (share < 0 || share >= THREADS) atomic_fetch_add(&seen[0], 100);
    part(arg, lo, hi);
}

/* Answers a poll of the stop flag: "stop" from poll number most_asks on. */
static bool
wanted(void *arg)
{
    UNUSED(arg);
    return atomic_fetch_add(&asks, 1) >= atomic_load(&most_asks);
}

static void
clear(int most)
{
    memset((void *)seen, 0, sizeof seen);
    calls = entries = 0;
    asks = 0;
    most_asks = most;
}

static void
test_whole(int64_t n, int64_t grain, int threads, bool shares)
{
    clear(1 << 30);
    if (shares)
        team_shares(threads, n, grain, part_of, NULL);
    else
        team_run(threads, n, grain, part, NULL);
    int64_t once = 0;
    for (int64_t k = 0; k < n; k++) once += seen[k] == 1;
    ok(once == n && entries == n, "%lld entries, grain %lld, %d threads%s: each is visited once", (long long)n,
       (long long)grain, threads, shares ? ", shares" : "");
}

static void
part_level(void *arg, int64_t share, int64_t lo, int64_t hi)
{
    part(arg, share * *(const int64_t *)arg + lo, share * *(const int64_t *)arg + hi);
}

/* Delays the first share of a loop: its thread waits until other threads have done the remaining work, or for 0.1
 * s. */
static void
part_waits(void *arg, int64_t share, int64_t lo, int64_t hi)
{
    part_level(arg, share, lo, hi);
    if (share > 0) return;
    for (int tries = 0; tries < 100 && entries < THREADS * *(const int64_t *)arg; tries++) usleep(1000);
}

static void
test_level(int shares, int64_t turns, int64_t piece, bool waits)
{
    clear(1 << 30);
    if (shares) team_level(shares, turns, piece, waits ? part_waits : part_level, &turns);
    int64_t once = 0, n = shares * turns;
    for (int64_t k = 0; k < n; k++) once += seen[k] == 1;
    ok(once == n && entries == n, "%lld turns each of %d shares in pieces of %lld%s: each is visited once",
       (long long)turns, shares, (long long)piece, waits ? ", one slow" : "");
}

/* Checks that, after the first answer "stop", each thread finishes at most its current piece of the loop. */
static void
test_stopped(int threads, bool shares, int most)
{
    clear(most);
    if (shares)
        team_shares(threads, MOST, 1, part_of, NULL);
    else
        team_run(threads, MOST, 1, part, NULL);
    ok(calls <= most + 2 * threads && entries < MOST, "a loop of %d threads%s ends early after %d questions", threads,
       shares ? " with shares" : "", most);
}

/* ---- results, and the threads that compute them ---- */

enum { SUMMED = 3000, LOOPS = 300, OWNERS = 3 };

static void
add_terms(void *arg, int64_t share, int64_t lo, int64_t hi)
{
    float *sum = arg;
    for (int64_t i = lo; i < hi; i++) sum[share] += 1.0f / (float)(i + 1);
}

/* Returns true if n terms added by `threads` threads have the sums that one thread computes. */
static bool
sums_as_alone(int threads, int64_t n)
{
    float sum[THREADS] = {0};
    bool same = true;
    team_shares(threads, n, 1, add_terms, sum);
    for (int64_t i = 0; i < threads; i++) {
        float alone[THREADS] = {0};
        add_terms(alone, i, n * i / threads, n * (i + 1) / threads);
        same &= sum[i] == alone[i];
    }
    return same;
}

/* Runs loops of changing sizes, with and without rests between them. Sets *arg to the number of loops with right
 * results. */
static void *
run_loops(void *arg)
{
    int right = 0;
    for (int i = 0; i < LOOPS; i++) {
        right += sums_as_alone(1 + i % THREADS, SUMMED - i);
        if (i % 7 == 0) team_rest();
        if (i % 50 == 0) usleep(200); /* a pause in which helper threads fall asleep */
    }
    *(int *)arg = right;
    return NULL;
}

static void
sum_inside(void *arg, int64_t lo, int64_t hi)
{
    for (int64_t i = lo; i < hi; i++) atomic_fetch_add((atomic_int *)arg, sums_as_alone(THREADS, SUMMED + i));
}

static int
count_threads(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/task");
    for (struct dirent *e; d && (e = readdir(d));) n += e->d_name[0] != '.';
    if (d) closedir(d);
    return n;
}

static void
test_owners(void)
{
    pthread_t owner[OWNERS];
    int right[OWNERS] = {0}, before = count_threads();
    for (int i = 0; i < OWNERS; i++) assert(!pthread_create(&owner[i], NULL, run_loops, &right[i]));
    for (int i = 0; i < OWNERS; i++) pthread_join(owner[i], NULL);
    for (int i = 0; i < OWNERS; i++)
        ok(right[i] == LOOPS, "thread %d of %d that run loops at a time gets the sums of one thread", i, OWNERS);
    ok(count_threads() == before, "helper threads end with the threads that own them");
}

static void
test_inside(void)
{
    atomic_int right = 0;
    int before = count_threads();
    team_run(THREADS, THREADS, 1, sum_inside, &right);
    ok(right == THREADS, "loops within shares of a loop get the sums of one thread");
    ok(count_threads() == before, "loops within shares of a loop start no threads");
}

static void
test_idle(void)
{
    bool right = sums_as_alone(THREADS, SUMMED);
    usleep(20000);
    clock_t before = clock(); /* processor time of all threads */
    usleep(50000);
    ok(right && clock() - before < CLOCKS_PER_SEC / 200, "idle helper threads sleep");
    team_release();
    ok(sums_as_alone(THREADS, SUMMED), "after team_release() a loop starts new helper threads");
}

int
main(void)
{
    static const int64_t sizes[] = {0, 1, 7, 63, 64, 65, 1000, 12345, MOST};
    static const int64_t grains[] = {0, 1, 3, 100, 4096};
    static const int threads[] = {0, 1, 2, 3, THREADS};
    stop_ask(wanted, NULL);
    for (size_t s = 0; s < countof(sizes); s++)
        for (size_t g = 0; g < countof(grains); g++)
            for (size_t t = 0; t < countof(threads); t++) {
                test_whole(sizes[s], grains[g], threads[t], false);
                test_whole(sizes[s], grains[g], threads[t], true);
            }
    for (size_t s = 0; s < countof(sizes) - 1; s++)
        for (size_t g = 0; g < countof(grains); g++)
            for (size_t t = 0; t < countof(threads); t++) test_level(threads[t], sizes[s], grains[g], false);
    test_level(THREADS, 64, 4, true);
    for (size_t t = 1; t < countof(threads); t++)
        for (int most = 0; most < 20; most += 7) {
            test_stopped(threads[t], false, most);
            test_stopped(threads[t], true, most);
        }
    ok(stop_check() != 0, "stop_check returns an error while the answer is to stop");
    stop_ask(NULL, NULL);
    ok(!stop_check() && !stop_now(), "without a stop function nothing is stopped");
    test_owners();
    test_inside();
    test_idle();
    return done();
}
