/* team.h - the number of threads of a kernel, and parallel loops.
 *
 * Threads are OpenMP's, as in oneDNN: a thread that calls kernels owns one team, used by both. With one thread
 * everything runs on the caller. */
#ifndef RILLE_KERNELS_CPU_TEAM_H
#define RILLE_KERNELS_CPU_TEAM_H

#include "runtime/base/base.h"

/* Makes oneDNN calls of this thread use n threads from now on (0: 1). Free if n is unchanged. */
void team_set(int n);

/* Calls part(arg, lo, hi) for ranges that cover 0 <= i < n. With several ranges, each has at least `grain`
 * iterations, the least that justifies a thread. The partition depends only on n, grain and threads, so results are
 * bit-identical on every run. A thread processes its range in pieces, and abandons the rest when the result is no
 * longer wanted (runtime/base/stop.h). */
void team_run(int threads, int64_t n, int64_t grain, void (*part)(void *arg, int64_t lo, int64_t hi), void *arg);

/* Calls part() with the number of its share < threads, so that each share may use its own section of scratch.
 * Scratch keeps nothing from earlier calls. */
void team_shares(int threads, int64_t n, int64_t grain, void (*part)(void *arg, int64_t share, int64_t lo, int64_t hi),
                 void *arg);

/* Calls part(arg, share, lo, hi) for ranges of at most `piece` that cover 0 <= i < turns of each share < shares. A
 * thread processes its own share from the front, and then steals turns from the back of other shares, so that a slow
 * or busy core delays nobody. The assignment varies from call to call: results must not depend on it. Limits:
 * LEVEL_MOST shares, 2^31 - 1 turns. */
enum { LEVEL_MOST = 64 };
void team_level(int shares, int64_t turns, int64_t piece,
                void (*part)(void *arg, int64_t share, int64_t lo, int64_t hi), void *arg);

#endif
