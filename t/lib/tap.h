/* tap.h - functions for test programs: ok(), is() and others check and print TAP; done() prints TAP's plan line at the
 * end. */
#ifndef RILLE_T_TAP_H
#define RILLE_T_TAP_H

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int tap_count, tap_failed;

/* timeout of a test program for alarm(), s; equal to the limit per file in .ci/prove */
enum { HANG = 1800 };

/* Prints the result of a check. The name is a sentence that states the expected fact. */
static inline bool __attribute__((format(printf, 2, 3))) ok(bool pass, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    printf("%sok %d - ", pass ? "" : "not ", ++tap_count);
    vprintf(fmt, ap);
    printf("\n");
    va_end(ap);
    if (!pass) tap_failed++;
    fflush(stdout);
    return pass;
}

static inline void __attribute__((format(printf, 1, 2))) diag(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    printf("# ");
    vprintf(fmt, ap);
    printf("\n");
    va_end(ap);
}

static inline bool
is_int(int64_t got, int64_t want, const char *name)
{
    bool pass = ok(got == want, "%s", name);
    if (!pass) diag("got %lld, want %lld", (long long)got, (long long)want);
    return pass;
}

static inline bool
is_str(const char *got, const char *want, const char *name)
{
    bool pass = ok(got && want && !strcmp(got, want), "%s", name);
    if (!pass) diag("got  \"%s\"\n# want \"%s\"", got ? got : "(null)", want ? want : "(null)");
    return pass;
}

/* Returns the seed of a random test: $SEED or the default. Prints the seed, so that a failure can be repeated. */
static inline uint64_t
seed_of(uint64_t by_default)
{
    const char *e = getenv("SEED");
    uint64_t seed = e ? strtoull(e, NULL, 10) : by_default;
    diag("SEED=%llu", (unsigned long long)seed);
    return seed;
}

static inline uint64_t
next_random(uint64_t *state) /* the splitmix64 generator */
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

/* Returns true if this run takes case i of an exhaustive loop. SHARE=k/n takes about one case in n, chosen by a
 * hash, so that nested loops are covered evenly. The n runs with k = 0 to n - 1 together take every case. Without
 * SHARE, or with SHARE=all, a run takes every case. Every run takes case 0. */
static inline bool
share(int64_t i)
{
    /* which: number k of the share of cases that this run takes, from 0; of: number n of shares; 0: this run takes
     * all cases; -1: $SHARE is not read yet */
    static int64_t which, of = -1;
    if (of < 0) {
        const char *e = getenv("SHARE");
        long long k, n;
        bool one = e && sscanf(e, "%lld/%lld", &k, &n) == 2 && n > 1;
        which = one ? k : 0;
        of = one ? n : 0;
        if (of) printf("# share %lld/%lld\n", k, n);
    }
    uint64_t state = (uint64_t)i;
    return !of || i == 0 || (int64_t)(next_random(&state) % (uint64_t)of) == which;
}

/* Returns true if this run takes every case. */
static inline bool
share_all(void)
{
    const char *e = getenv("SHARE");
    return !e || !strchr(e, '/');
}

/* Returns true if the tried cases fulfil the condition `has`, or if this run takes only a share of the cases,
 * because these may not suffice. */
static inline bool
covered(bool has)
{
    return has || !share_all();
}

/* Returns share(i), where i counts the calls of this function in all loops. */
static inline bool
share_next(void)
{
    static int64_t i;
    return share(i++);
}

/* Returns how many of n random cases this run takes, and advances *seed to the first of them. With SHARE=k/m, a run
 * takes n / m cases, but at least `least` (or all, if n is smaller). */
static inline int
share_some(int n, int least, uint64_t *seed)
{
    const char *e = getenv("SHARE");
    long long k = 0, of = 1;
    if (!e || sscanf(e, "%lld/%lld", &k, &of) != 2 || of < 2) return n;
    share(0);
    int some = (int)(n / of);
    if (some < least) some = n < least ? n : least;
    if (seed) *seed += (uint64_t)k * (uint64_t)n;
    return some;
}

static inline int
share_of(int n, uint64_t *seed)
{
    return share_some(n, 100, seed);
}

static inline int
done(void)
{
    printf("1..%d\n", tap_count);
    return tap_failed ? 1 : 0;
}

#endif
