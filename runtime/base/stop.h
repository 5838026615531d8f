/* stop.h - cancellation of long kernels.
 *
 * The thread that runs kernels sets a question. A kernel asks it about every few tens of milliseconds of work, and
 * if the answer is yes returns at once with its results half written. The thread whose question was answered yes
 * must discard the results, because a loop run by helpers (kernels/cpu/base/team.h) returns no status. The question
 * belongs to the calling thread; threads that help it ask the same question. */
#ifndef RILLE_RUNTIME_STOP_H
#define RILLE_RUNTIME_STOP_H

#include <stdbool.h>
#include <stdint.h>

struct stop {
    bool (*wanted)(void *arg); /* called by any thread; after a yes always yes; NULL: no question */
    void *arg;
};

void stop_ask(bool (*wanted)(void *arg), void *arg); /* NULL: no question */
struct stop stop_asked(void);                        /* this thread's question, for its helpers */
bool stop_now(void);
/* Asks the question every few milliseconds in a loop of short steps. *since: bytes moved since the last question,
 * initially 0. */
enum { STOP_BYTES = 4 << 20 };
static inline bool
stop_after(int64_t *since, int64_t bytes)
{
    *since += bytes;
    if (*since < STOP_BYTES) return false;
    *since = 0;
    return stop_now();
}
/* Asks the question in a loop over the elements of one long line, processed in blocks of a power of two. Returns
 * true if the block that begins at element i may be processed. */
enum { STOP_ELEMENTS = 1 << 20 };
static inline bool
stop_passes(int64_t i)
{
    return i == 0 || i % STOP_ELEMENTS || !stop_now();
}
/* Returns 0, or E_CANCEL after fail(). */
int stop_check(void);

/* A second question, for long operations that are no kernels (tokenizing texts, reading and checking files). The
 * calling thread sets this cancellation check for itself. It does not stop copies whose reader has no status to return.
 */
void stop_caller_ask(bool (*wanted)(void *arg), void *arg); /* NULL: no question */
int stop_caller_check(void);                                /* 0, or E_CANCEL after fail() */
/* Like stop_after(). work: bytes of text, or other work of the same duration. */
enum { STOP_TEXT = 1 << 18 };
static inline int
stop_caller_after(int64_t *since, int64_t work)
{
    *since += work;
    if (*since < STOP_TEXT) return 0;
    *since = 0;
    return stop_caller_check();
}

#endif
