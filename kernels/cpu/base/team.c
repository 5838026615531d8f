/* team.c - runs loops that are divided among the threads of a kernel.
 *
 * ThreadSanitizer does not understand the synchronisation of OpenMP's threads. Under ThreadSanitizer a loop creates
 * its threads with pthread_create() instead, so that accesses to shared data are checked. */
#include "kernels/cpu/base/team.h"

#include "runtime/base/denormal.h"
#include "runtime/base/signals.h"
#include "runtime/base/stop.h"

#include <omp.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>

void
team_set(int n)
{
    /* Plans at most OMP_THREAD_LIMIT threads, because oneDNN's products are wrong if a team has fewer threads than
     * planned. */
    if (n > omp_get_thread_limit()) n = omp_get_thread_limit();
    if (n < 1) n = 1;
    if (omp_get_max_threads() != n) omp_set_num_threads(n);
}

void
team_release(void)
{
    omp_pause_resource_all(omp_pause_soft);
}

/* Returns the number of iterations between two checks for a stop. A grain is the minimum work per thread; 64 grains
 * take some milliseconds. If grain is 1, a single iteration may be long, so the loop checks after each one. */
static int64_t
piece_of_grain(int64_t grain)
{
    return grain > 1 ? 64 * grain : 1;
}

struct share {
    void (*part)(void *arg, int64_t lo, int64_t hi);
    void *arg;
    int64_t lo, hi, piece;
    struct stop stop; /* stop check of the thread that called team_run() */
};

/* Returns share i of the nteam shares of a loop. */
static struct share
share_of(const struct share *all, int64_t i, int64_t nteam)
{
    struct share s = *all;
    s.lo = all->hi * i / nteam;
    s.hi = all->hi * (i + 1) / nteam;
    return s;
}

static void
run_pieces(const struct share *s)
{
    for (int64_t lo = s->lo; lo < s->hi && (lo == s->lo || !stop_now()); lo += s->piece)
        s->part(s->arg, lo, MIN(lo + s->piece, s->hi));
}

static void *
run_share(void *arg)
{
    const struct share *s = arg;
    denormals_flush();
    struct stop own = stop_asked();
    stop_ask(s->stop.wanted, s->stop.arg);
    run_pieces(s);
    stop_ask(own.wanted, own.arg);
    return NULL;
}

void
team_run(int threads, int64_t n, int64_t grain, void (*part)(void *arg, int64_t lo, int64_t hi), void *arg)
{
    int64_t nteam = MIN((int64_t)threads, n / MAX(grain, 1));
    const struct share all = {part, arg, 0, n, piece_of_grain(grain), stop_asked()};
    if (nteam <= 1) {
        run_pieces(&all);
        return;
    }
#ifdef __SANITIZE_THREAD__
    enum { MOST = 64 };
    struct share share[MOST];
    pthread_t thread[MOST];
    nteam = MIN(nteam, MOST);
    for (int64_t i = 0; i < nteam; i++) {
        share[i] = share_of(&all, i, nteam);
        int status = i > 0 ? pthread_create(&thread[i], NULL, run_share, &share[i]) : 0;
        assert(!status);
    }
    run_share(&share[0]);
    for (int64_t i = 1; i < nteam; i++) pthread_join(thread[i], NULL);
#else
    signals_hold(); /* new threads of the team receive no signals */
#pragma omp parallel for num_threads((int)nteam) schedule(static, 1)
    for (int64_t i = 0; i < nteam; i++) {
        struct share share = share_of(&all, i, nteam);
        run_share(&share);
    }
    signals_pass_in_time();
#endif
}

struct shares {
    void (*part)(void *arg, int64_t share, int64_t lo, int64_t hi);
    void *arg;
    int64_t n, count, piece;
};

static void
run_shares(void *arg, int64_t first, int64_t end)
{
    const struct shares *s = arg;
    for (int64_t i = first; i < end; i++) {
        int64_t lo = s->n * i / s->count, hi = s->n * (i + 1) / s->count;
        for (; lo < hi && !stop_now(); lo += s->piece) s->part(s->arg, i, lo, MIN(lo + s->piece, hi));
    }
}

void
team_shares(int threads, int64_t n, int64_t grain, void (*part)(void *arg, int64_t share, int64_t lo, int64_t hi),
            void *arg)
{
    grain = MAX(grain, 1);
    struct shares s = {part, arg, n, MAX(MIN((int64_t)threads, n / grain), 1), piece_of_grain(grain)};
    if (n > 0) team_run((int)s.count, s.count, 1, run_shares, &s);
}

/* ---- work stealing between shares ---- */

/* The remaining turns of a share, from `first` to `end`, packed into one word for atomic exchange. */
struct left {
    alignas(64) _Atomic uint64_t range;
};

static uint64_t
pack_range(int64_t first, int64_t end)
{
    return (uint64_t)first << 32 | (uint64_t)end;
}

/* Removes up to n turns from a share and returns them in *lo and *hi. front: true for the share's own thread, which
 * takes turns from the front; other threads take turns from the back. Other threads leave the last piece, because
 * the share's own thread is about to process it. Returns false if no turns may be removed. */
static bool
take_turns(struct left *left, int64_t n, bool front, int64_t *lo, int64_t *hi)
{
    uint64_t range = atomic_load_explicit(&left->range, memory_order_relaxed), rest;
    do {
        int64_t first = (int64_t)(range >> 32), end = (int64_t)(range & UINT32_MAX), some = MIN(n, end - first);
        if (some <= 0 || (!front && some == end - first)) return false;
        *lo = front ? first : end - some;
        *hi = *lo + some;
        rest = front ? pack_range(*hi, end) : pack_range(first, *lo);
    } while (
        !atomic_compare_exchange_weak_explicit(&left->range, &range, rest, memory_order_relaxed, memory_order_relaxed));
    return true;
}

struct level {
    void (*part)(void *arg, int64_t share, int64_t lo, int64_t hi);
    void *arg;
    struct left *left;
    int64_t shares, piece;
};

static void
run_level(void *arg, int64_t first, int64_t end)
{
    const struct level *l = arg;
    for (int64_t own = first, lo, hi; own < end; own++)
        for (int64_t i = 0; i < l->shares; i++) {
            int64_t share = (own + i) % l->shares;
            while (!stop_now() && take_turns(&l->left[share], l->piece, i == 0, &lo, &hi))
                l->part(l->arg, share, lo, hi);
        }
}

void
team_level(int shares, int64_t turns, int64_t piece, void (*part)(void *arg, int64_t share, int64_t lo, int64_t hi),
           void *arg)
{
    struct left left[LEVEL_MOST];
    assert(shares <= LEVEL_MOST && turns <= INT32_MAX);
    for (int i = 0; i < shares; i++) atomic_init(&left[i].range, pack_range(0, turns));
    struct level l = {part, arg, left, shares, MAX(piece, 1)};
    if (turns > 0) team_run(shares, shares, 1, run_level, &l);
}
