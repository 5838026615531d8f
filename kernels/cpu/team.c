/* team.c - loops shared out among the threads of a kernel.
 *
 * ThreadSanitizer does not see how OpenMP's threads wait for each other: under it
 * a loop's threads are made for the loop, and what they share is checked. */
#include "kernels/cpu/team.h"

#include "runtime/denormal.h"
#include "runtime/signals.h"
#include "runtime/stop.h"

#include <omp.h>
#include <pthread.h>

void
team_set(int n)
{
    if (n < 1) n = 1;
    if (omp_get_max_threads() != n) omp_set_num_threads(n);
}

/* How much of a share is done between two questions whether it is still wanted: a grain is worth a thread, some dozens
 * are some milliseconds; one that is a single part of the work may be far more. */
static int64_t
piece_of(int64_t grain)
{
    return grain > 1 ? 64 * grain : 1;
}

struct share {
    void (*part)(void *arg, int64_t lo, int64_t hi);
    void *arg;
    int64_t lo, hi, piece;
    struct stop stop; /* the question of the thread that the others help */
};

/* Share i of nteam. */
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
    const struct share all = {part, arg, 0, n, piece_of(grain), stop_asked()};
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
    signals_hold(); /* threads that the team starts never take any */
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
    struct shares s = {part, arg, n, MAX(MIN((int64_t)threads, n / grain), 1), piece_of(grain)};
    if (n > 0) team_run((int)s.count, s.count, 1, run_shares, &s);
}
