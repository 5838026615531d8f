/* team.c - loops shared out among the threads of a kernel.
 *
 * ThreadSanitizer does not see how OpenMP's threads wait for each other: under it
 * a loop's threads are made for the loop, and what they share is checked. */
#include "kernels/cpu/team.h"

#include "runtime/denormal.h"

#include <omp.h>
#ifdef __SANITIZE_THREAD__
#include <pthread.h>
#endif

void
team_set(int n)
{
    if (n < 1) n = 1;
    if (omp_get_max_threads() != n) omp_set_num_threads(n);
}

struct share {
    void (*part)(void *arg, int64_t lo, int64_t hi);
    void *arg;
    int64_t lo, hi;
};

static struct share
share_of(void (*part)(void *arg, int64_t lo, int64_t hi), void *arg, int64_t n, int64_t i, int64_t nteam)
{
    return (struct share){part, arg, n * i / nteam, n * (i + 1) / nteam};
}

static void *
run_share(void *arg)
{
    const struct share *s = arg;
    denormals_flush();
    s->part(s->arg, s->lo, s->hi);
    return NULL;
}

void
team_run(int threads, int64_t n, int64_t grain, void (*part)(void *arg, int64_t lo, int64_t hi), void *arg)
{
    int64_t nteam = MIN((int64_t)threads, n / MAX(grain, 1));
    if (nteam <= 1) {
        if (n > 0) part(arg, 0, n);
        return;
    }
#ifdef __SANITIZE_THREAD__
    enum { MOST = 64 };
    struct share share[MOST];
    pthread_t thread[MOST];
    nteam = MIN(nteam, MOST);
    for (int64_t i = 0; i < nteam; i++) {
        share[i] = share_of(part, arg, n, i, nteam);
        int status = i > 0 ? pthread_create(&thread[i], NULL, run_share, &share[i]) : 0;
        assert(!status);
    }
    run_share(&share[0]);
    for (int64_t i = 1; i < nteam; i++) pthread_join(thread[i], NULL);
#else
#pragma omp parallel for num_threads((int)nteam) schedule(static, 1)
    for (int64_t i = 0; i < nteam; i++) {
        struct share share = share_of(part, arg, n, i, nteam);
        run_share(&share);
    }
#endif
}

struct shares {
    void (*part)(void *arg, int64_t share, int64_t lo, int64_t hi);
    void *arg;
    int64_t n, count;
};

static void
run_shares(void *arg, int64_t lo, int64_t hi)
{
    const struct shares *s = arg;
    for (int64_t i = lo; i < hi; i++) s->part(s->arg, i, s->n * i / s->count, s->n * (i + 1) / s->count);
}

void
team_shares(int threads, int64_t n, int64_t grain, void (*part)(void *arg, int64_t share, int64_t lo, int64_t hi),
            void *arg)
{
    struct shares s = {part, arg, n, MAX(MIN((int64_t)threads, n / MAX(grain, 1)), 1)};
    if (n > 0) team_run((int)s.count, s.count, 1, run_shares, &s);
}
