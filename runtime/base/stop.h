/* stop.h - cancellation of long kernels.
 *
 * The thread that runs kernels sets a cancellation check, a function that returns true if the work should end. A
 * kernel calls the check after every few tens of milliseconds of work. If the check returns true, the kernel
 * returns at once, with its results half written. The thread must then discard the results, because a loop that
 * helper threads run (kernels/cpu/base/team.h) cannot report that it ended early. Each thread sets its own check;
 * its helper threads call the same check. */
#ifndef RILLE_RUNTIME_STOP_H
#define RILLE_RUNTIME_STOP_H

#include <stdbool.h>
#include <stdint.h>

struct stop {
    /* cancellation check: returns true if the work should stop. Called by any thread. After the first true, every
     * later call must return true. NULL: no check */
    bool (*wanted)(void *arg);
    void *arg;
};

void stop_ask(bool (*wanted)(void *arg), void *arg); /* NULL: no check */
struct stop stop_asked(void);                        /* returns this thread's check, for its helper threads */
bool stop_now(void);
/* Calls the check every few milliseconds, in a loop of short steps. bytes: size of the step's data, which is added
 * to *since; *since: bytes processed since the last call of the check, initially 0. */
enum { STOP_BYTES = 4 << 20 };
static inline bool
stop_after(int64_t *since, int64_t bytes)
{
    *since += bytes;
    if (*since < STOP_BYTES) return false;
    *since = 0;
    return stop_now();
}
/* Calls the check every STOP_ELEMENTS elements, in a loop over one long line in blocks whose size is a power of
 * two. Returns true if the loop should process the block that begins at element i. */
enum { STOP_ELEMENTS = 1 << 20 };
static inline bool
stop_passes(int64_t i)
{
    return i == 0 || i % STOP_ELEMENTS || !stop_now();
}
/* Returns 0, or E_CANCEL after fail() if the check returned true. */
int stop_check(void);

/* Sets a second check of the calling thread, for long operations that are not kernels (tokenizing texts, reading
 * and verifying files). view_copy(), which returns no status, ignores this check. */
void stop_caller_ask(bool (*wanted)(void *arg), void *arg); /* NULL: no check */
int stop_caller_check(void);                                /* returns 0, or E_CANCEL after fail() */
/* Calls the second check every few milliseconds, as stop_after() calls the first. work: bytes of text, or the
 * number of bytes that take as long. */
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
