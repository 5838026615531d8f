/* team.h - parallel loops.
 *
 * Each thread that calls kernels owns a team of helper threads, which runs its loops. Idle helpers sleep. oneDNN has
 * threads of its own (dnnl.c). With one thread everything runs on the calling thread. */
#ifndef RILLE_KERNELS_CPU_TEAM_H
#define RILLE_KERNELS_CPU_TEAM_H

#include "runtime/base/base.h"

/* Makes idle helpers of the calling thread sleep at once, because other threads are about to compute. */
void team_rest(void);
/* Ends the helpers of the calling thread; the next loop starts new ones. Must be called before fork(), because the
 * child has no helpers. Helpers also end with the thread that owns them. */
void team_release(void);

/* Calls part(arg, lo, hi) for ranges that together cover 0 <= i < n, on up to `threads` threads. grain: minimum
 * number of iterations of each range if there are several, because fewer are not worth starting a thread. The
 * partition depends only on n, grain and threads, so results are bit-identical on every run. A thread processes its
 * range in pieces, and abandons the rest if the run was stopped (runtime/base/stop.h). */
void team_run(int threads, int64_t n, int64_t grain, void (*part)(void *arg, int64_t lo, int64_t hi), void *arg);

/* Calls part() for ranges as team_run() does, and also passes the number of the range (share < threads). Each range
 * may use its own section of scratch, which keeps nothing from earlier calls. */
void team_shares(int threads, int64_t n, int64_t grain, void (*part)(void *arg, int64_t share, int64_t lo, int64_t hi),
                 void *arg);

/* Calls part(arg, share, lo, hi) for ranges of at most `piece` turns; a turn is one value of i. The ranges of each
 * share < shares together cover 0 <= i < turns. A thread processes its own share from the front, and then steals
 * turns from the back of other shares, so that a slow or busy core delays no other. Turns run on different threads
 * from call to call, so results must not depend on the thread. Limits: LEVEL_MOST shares, 2^31 - 1 turns. */
enum { LEVEL_MOST = 64 };
void team_level(int shares, int64_t turns, int64_t piece,
                void (*part)(void *arg, int64_t share, int64_t lo, int64_t hi), void *arg);

#endif
