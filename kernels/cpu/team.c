/* team.c - loops shared out among the threads of a kernel. */
#include "kernels/cpu/team.h"

#include <omp.h>

void
team_set(int n)
{
    if (n < 1) n = 1;
    if (omp_get_max_threads() != n) omp_set_num_threads(n);
}

void
team_run(int threads, int64_t n, int64_t grain, void (*part)(void *arg, int64_t lo, int64_t hi), void *arg)
{
    int64_t nteam = MIN((int64_t)threads, n / MAX(grain, 1));
    if (nteam <= 1) {
        if (n > 0) part(arg, 0, n);
        return;
    }
#pragma omp parallel for num_threads((int)nteam) schedule(static, 1)
    for (int64_t i = 0; i < nteam; i++) part(arg, n * i / nteam, n * (i + 1) / nteam);
}
