/* waker.h - lets threads sleep on a word until another thread wakes them: a waker for one sleeper, a bell for many.
 *
 * The sleeper announces that it is about to sleep (waker_arm), checks its condition once more, and sleeps. The
 * other thread makes the condition true and then wakes the sleeper. Each side first stores and then loads, with
 * sequential consistency, so at least one side sees the other's store. A wake that arrives late is harmless,
 * because the sleeper checks its condition again. A waker has one sleeper; any thread may wake. The word may be in
 * memory shared between processes. */
#ifndef RILLE_RUNTIME_WAKER_H
#define RILLE_RUNTIME_WAKER_H

#include "runtime/base/system.h"

struct waker {
    _Atomic uint32_t asleep; /* 1: the owner sleeps, or is about to sleep */
};

static inline void
waker_arm(struct waker *w)
{
    atomic_store(&w->asleep, 1);
}

/* Cancels waker_arm(), if the owner need not sleep. */
static inline void
waker_disarm(struct waker *w)
{
    atomic_store_explicit(&w->asleep, 0, memory_order_relaxed);
}

/* Sleeps after waker_arm(), until a wake, a signal, or a timeout of ns nanoseconds; ns 0: no timeout. */
static inline void
waker_sleep(struct waker *w, int64_t ns)
{
    system_sleep(&w->asleep, 1, ns, false);
    waker_disarm(w);
}

/* Sleeps like waker_sleep() on a waker that other processes may wake. */
static inline void
waker_sleep_shared(struct waker *w, int64_t ns)
{
    system_sleep(&w->asleep, 1, ns, true);
    waker_disarm(w);
}

/* Wakes the owner of the waker, if it sleeps. Any thread. */
static inline void
waker_wake(struct waker *w)
{
    if (atomic_load(&w->asleep) && atomic_exchange(&w->asleep, 0)) system_wake(&w->asleep);
}

struct bell {
    _Atomic uint32_t rung, nsleeper;
};

/* Announces that the caller is about to sleep. The caller then checks its condition once more. Returns the value for
 * bell_sleep(). Any thread. */
static inline uint32_t
bell_arm(struct bell *b)
{
    atomic_fetch_add(&b->nsleeper, 1);
    return atomic_load(&b->rung);
}

static inline void
bell_disarm(struct bell *b)
{
    atomic_fetch_sub(&b->nsleeper, 1);
}

/* Sleeps until the bell rings or a signal arrives. Returns at once if the bell has rung since bell_arm(). */
static inline void
bell_sleep(struct bell *b, uint32_t armed)
{
    system_sleep(&b->rung, armed, 0, false);
    bell_disarm(b);
}

/* Wakes all threads that sleep on the bell. */
static inline void
bell_ring(struct bell *b)
{
    if (!atomic_load(&b->nsleeper)) return;
    atomic_fetch_add(&b->rung, 1);
    system_wake(&b->rung);
}

/* Pauses briefly, for use in a polling loop. */
static inline void
relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
