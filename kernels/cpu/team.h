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

/* Calls part(arg, share, lo, hi) for ranges of at most `piece` that cover 0 <= i < turns of each share < shares. A
 * thread has a share, which it goes through from the first turn on, and then takes last turns of other shares, so that
 * one whose core is slower, or busy, keeps nobody waiting. Who computes what differs from call to call: results must
 * not depend on it. At most LEVEL_MOST shares and 2^31 - 1 turns. */
enum { LEVEL_MOST = 64 };
void team_level(int shares, int64_t turns, int64_t piece,
                void (*part)(void *arg, int64_t share, int64_t lo, int64_t hi), void *arg);

#endif
