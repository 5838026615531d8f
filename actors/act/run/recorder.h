/* recorder.h - the flight recorder of a device thread: the thread's last acts, and the task for which it waits.
 *
 * The device thread writes the recorder. Other threads and processes may read any word at any time. Words are
 * written one by one, so a reader may see words of different states, and must check every number. */
#ifndef RILLE_ACT_RECORDER_H
#define RILLE_ACT_RECORDER_H

#include "runtime/base/base.h"

#include <stdatomic.h>

enum { RECORDER_ACTS = 16, DOING_OVER = 1 << 30 };

struct recorder {
    _Atomic uint64_t nbegun; /* number of acts that have begun, over all runs */
    _Atomic uint64_t nended; /* number of acts that are complete, over all runs */
    /* ring of the last acts: run << 32 | task + 1; bit DOING_OVER: the kernel call has returned */
    _Atomic uint64_t act[RECORDER_ACTS];
    /* (waiting task + 1) << 32 | (task + 1) of the task on another thread that blocks it; 0: no long wait */
    _Atomic uint64_t wait;
};

/* Records the beginning of an act. */
static inline void
recorder_begin(struct recorder *r, uint32_t run, int task)
{
    uint64_t n = atomic_load_explicit(&r->nbegun, memory_order_relaxed);
    atomic_store_explicit(&r->act[n % RECORDER_ACTS], (uint64_t)run << 32 | (uint32_t)(task + 1), memory_order_relaxed);
    atomic_store_explicit(&r->nbegun, n + 1, memory_order_relaxed);
}

/* Records that the kernel call of the last act has returned. */
static inline void
recorder_over(struct recorder *r)
{
    uint64_t n = atomic_load_explicit(&r->nbegun, memory_order_relaxed);
    _Atomic uint64_t *last = &r->act[(n - 1) % RECORDER_ACTS];
    atomic_store_explicit(last, atomic_load_explicit(last, memory_order_relaxed) | DOING_OVER, memory_order_relaxed);
}

/* Records that an act is complete. */
static inline void
recorder_end(struct recorder *r)
{
    atomic_store_explicit(&r->nended, atomic_load_explicit(&r->nended, memory_order_relaxed) + 1, memory_order_relaxed);
}

/* Records that task `task` of the thread waits for task `by` of another thread. task -1: the thread does not wait. */
static inline void
recorder_wait(struct recorder *r, int task, int by)
{
    atomic_store_explicit(&r->wait, (uint64_t)(task + 1) << 32 | (uint32_t)(by + 1), memory_order_relaxed);
}

/* Sets *task to the task of the k-th last act (0: the last), and *over to true if its kernel call has returned.
 * Returns false if the recorder has no such act of this run. */
static inline bool
recorder_last(struct recorder *r, uint32_t run, uint64_t k, int32_t *task, bool *over)
{
    uint64_t n = atomic_load_explicit(&r->nbegun, memory_order_relaxed);
    if (k >= n || k >= RECORDER_ACTS) return false;
    uint64_t act = atomic_load_explicit(&r->act[(n - 1 - k) % RECORDER_ACTS], memory_order_relaxed);
    *task = ((int32_t)act & ~DOING_OVER) - 1;
    *over = (int32_t)act & DOING_OVER;
    return act >> 32 == run;
}

#endif
