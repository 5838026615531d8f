/* ahead.h - a source: reads the batches that steps will want next, on a thread of its own, so that none waits for a
 * file.
 *
 * It has AHEAD_DEPTH registers, and they are its credits: while one is free it fills it with the batch that follows the
 * one before, and with none it waits. Steps take batches in that order; what one asks for out of turn (an epoch begun
 * anew, a loaded state) the source reads at once, and goes on behind it. What is in a register is a function of where
 * the batch stands alone, so that reading ahead changes no bit.
 *
 * It belongs to who opened it, on one thread; fill and next run on the source's thread and touch nothing of a session.
 */
#ifndef RILLE_SESSION_AHEAD_H
#define RILLE_SESSION_AHEAD_H

#include "rille.h"
#include "runtime/base.h"

enum { AHEAD_DEPTH = 2 };

struct batch_at { /* rows first to first + n - 1 of an epoch, in the order that seed and epoch give */
    uint64_t seed, epoch;
    int64_t first, n, length; /* length: of a row */
    int64_t vocab;            /* ids are below it; 0: any are taken */
};

struct ahead_source {
    void *arg;
    size_t (*bytes)(const struct batch_at *at);
    int (*fill)(void *arg, const struct batch_at *at, void *out); /* who takes the batch gets its error */
    struct batch_at (*next)(void *arg, const struct batch_at *at);
};

struct ahead;
/* Reads nothing before somebody asks for a batch; then there is a thread. */
struct ahead *ahead_new(const struct ahead_source *source);
/* Waits for a fill that has begun, then frees the source. */
void ahead_free(struct ahead **a);

/* Takes the batch at a place, the caller's until it gives it back. E_STATE: no thread; or what fill said. */
int ahead_take(struct ahead *a, const struct batch_at *at, const void **out);
void ahead_give_back(struct ahead *a);
void ahead_stats(const struct ahead *a, struct rille_source_stats *out);

#endif
