/* team.h - how many threads a kernel may use, and loops that share themselves out among them.
 *
 * Threads are OpenMP's, because oneDNN's are: a thread that calls a kernel owns one team, which both use. With one
 * thread everything runs on the caller. */
#ifndef RILLE_KERNELS_CPU_TEAM_H
#define RILLE_KERNELS_CPU_TEAM_H

#include "runtime/base.h"

/* Makes oneDNN calls of this thread use n threads from now on; n 0 is one. Costs nothing when it is so already. */
void team_set(int n);

/* Calls part(arg, lo, hi) for ranges that cover 0 <= i < n; where there are several, they are at least `grain` long,
 * which is what is worth a thread. The partition depends on n, grain and threads alone, so that results are the same
 * bits every time. A thread takes its range in pieces, and leaves it when nobody wants the result any more
 * (runtime/stop.h). */
void team_run(int threads, int64_t n, int64_t grain, void (*part)(void *arg, int64_t lo, int64_t hi), void *arg);

/* The same, telling each call which of the shares it has: share < threads, so that it may use a part of scratch, which
 * has nothing of the call before. */
void team_shares(int threads, int64_t n, int64_t grain, void (*part)(void *arg, int64_t share, int64_t lo, int64_t hi),
                 void *arg);

#endif
