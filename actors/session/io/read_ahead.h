/* read_ahead.h - a prefetching data source: a thread reads the next batches, so that steps need not wait for a file.
 *
 * The source has READ_AHEAD_DEPTH registers, which are its credits: it fills free registers with consecutive batches
 * and waits if none is free. Steps take batches in that order. If a step needs another batch (after an epoch
 * restarts, or a state is loaded), the source restarts at that batch. The contents of a register depend only on the
 * position of the batch, so reading ahead changes no bit.
 *
 * Only the thread that opened a source may use it. The functions fill and next run on the source's thread and use no
 * session state. */
#ifndef RILLE_SESSION_READ_AHEAD_H
#define RILLE_SESSION_READ_AHEAD_H

#include "rille.h"
#include "runtime/base/base.h"

enum { READ_AHEAD_DEPTH = 2 };

/* position of a batch, which consists of the rows first to first + n - 1 of an epoch; seed and epoch determine
 * the order of rows */
struct batch_at {
    uint64_t seed, epoch;
    int64_t first, n, length; /* n: number of rows; length: elements per row */
    int64_t vocab;            /* exclusive upper bound of token ids; 0: no bound */
};

struct read_ahead_source {
    void *arg;
    size_t (*bytes)(const struct batch_at *at);
    /* reads one batch; read_ahead_take() reports its error */
    int (*fill)(void *arg, const struct batch_at *at, void *out);
    struct batch_at (*next)(void *arg, const struct batch_at *at);
};

struct ahead;
/* Creates a source. The first read_ahead_take() starts its thread. */
struct ahead *read_ahead_new(const struct read_ahead_source *source);
/* Waits for the read in progress, then frees the source. */
void read_ahead_free(struct ahead **a);

/* Takes the batch at a position. The caller owns the batch until read_ahead_give_back(). E_STATE: no thread could be
 * started. Other errors come from the fill function. */
int read_ahead_take(struct ahead *a, const struct batch_at *at, const void **out);
void read_ahead_give_back(struct ahead *a);
void read_ahead_stats(const struct ahead *a, struct rille_source_stats *out);

#endif
