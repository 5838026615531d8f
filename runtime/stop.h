/* stop.h - how a kernel that takes long learns that nobody wants its result any more.
 *
 * Whoever runs kernels on a thread names a question; a kernel asks it between parts of its work that take some tens of
 * milliseconds, and after a yes returns at once, its results half written. Who said yes must not take them for results:
 * a loop that helps (kernels/cpu/team.h) has no status to give. The question belongs to the calling thread; threads
 * that help it ask as it does. */
#ifndef RILLE_RUNTIME_STOP_H
#define RILLE_RUNTIME_STOP_H

#include <stdbool.h>
#include <stdint.h>

struct stop {
    bool (*wanted)(void *arg); /* any thread may call it; after a yes it says no more no; NULL: nobody */
    void *arg;
};

void stop_ask(bool (*wanted)(void *arg), void *arg); /* NULL: nobody */
struct stop stop_asked(void);                        /* this thread's question, for those that help it */
bool stop_now(void);
/* For loops of short steps: *since, 0 at first, sums up their work, in bytes that they move; after some milliseconds'
 * worth of it this asks the question. */
enum { STOP_BYTES = 4 << 20 };
static inline bool
stop_after(int64_t *since, int64_t bytes)
{
    *since += bytes;
    if (*since < STOP_BYTES) return false;
    *since = 0;
    return stop_now();
}
/* The same of a loop over the elements of one long line, by blocks whose size is a power of two: may it do the block
 * from element i on? */
enum { STOP_ELEMENTS = 1 << 20 };
static inline bool
stop_passes(int64_t i)
{
    return i == 0 || i % STOP_ELEMENTS || !stop_now();
}
/* 0, or E_CANCEL after fail(). */
int stop_check(void);

/* What no kernel does and a caller waits for - texts cut into tokens, files read and checked - asks a question of its
 * own, which the caller names for its thread: a yes to it stops no copy whose reader has no status to give. */
void stop_caller_ask(bool (*wanted)(void *arg), void *arg); /* NULL: nobody */
int stop_caller_check(void);                                /* 0, or E_CANCEL after fail() */
/* For loops of short steps, as stop_after() is: `work`, in bytes of text or what takes as long. */
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
