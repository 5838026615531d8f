/* read_ahead.h - a data source that reads ahead: a thread of its own reads the next batches, so that steps need not
 * wait for a file.
 *
 * The source has READ_AHEAD_DEPTH registers, which are its credits: it fills free registers with consecutive batches
 * and waits if none is free. Steps take batches in that order. For a batch out of order (an epoch restarted, a state
 * loaded), the source restarts there at once and continues behind it. The contents of a register depend only on the
 * position of the batch, so reading ahead changes no bit.
 *
 * A source belongs to the thread that opened it. fill and next run on the source's thread and touch nothing of a
 * session. */
#ifndef RILLE_SESSION_READ_AHEAD_H
#define RILLE_SESSION_READ_AHEAD_H

#include "rille.h"
#include "runtime/base/base.h"

enum { READ_AHEAD_DEPTH = 2 };

struct batch_at { /* rows first to first + n - 1 of an epoch, in the order that seed and epoch determine */
    uint64_t seed, epoch;
    int64_t first, n, length; /* length: elements of a row */
    int64_t vocab;            /* exclusive upper bound of ids; 0: no bound */
};

struct read_ahead_source {
    void *arg;
    size_t (*bytes)(const struct batch_at *at);
    int (*fill)(void *arg, const struct batch_at *at, void *out); /* the taker of the batch gets the error */
    struct batch_at (*next)(void *arg, const struct batch_at *at);
};

struct ahead;
/* Creates a source. The thread starts with the first read_ahead_take. */
struct ahead *read_ahead_new(const struct read_ahead_source *source);
/* Waits for a fill in progress, then frees the source. */
void read_ahead_free(struct ahead **a);

/* Takes the batch at a position; the caller owns it until read_ahead_give_back. E_STATE: no thread; or the error of
 * fill. */
int read_ahead_take(struct ahead *a, const struct batch_at *at, const void **out);
void read_ahead_give_back(struct ahead *a);
void read_ahead_stats(const struct ahead *a, struct rille_source_stats *out);

#endif
