/* waker.h - words in memory on which threads sleep until others wake them: a waker for one, a bell for many.
 *
 * The sleeper says that it is about to sleep (waker_arm), looks once more at what it waits for, and sleeps. Who makes
 * that true wakes it afterwards. Each stores first and loads second, sequentially consistent, so that at least one sees
 * the other. A wake that comes too late is harmless: the sleeper looks again. A waker has one sleeper; any thread
 * wakes. The word may lie in memory that processes share. (Linux: futex(2).) */
#ifndef RILLE_RUNTIME_WAKER_H
#define RILLE_RUNTIME_WAKER_H

#include <linux/futex.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct waker {
    _Atomic uint32_t asleep; /* 1: the owner sleeps, or is about to */
};

static inline void
waker_arm(struct waker *w)
{
    atomic_store(&w->asleep, 1);
}

/* The owner has no need to sleep after all. */
static inline void
waker_disarm(struct waker *w)
{
    atomic_store_explicit(&w->asleep, 0, memory_order_relaxed);
}

/* After waker_arm: sleeps until somebody wakes it, a signal comes, or so long; 0: for ever. */
static inline void
waker_sleep(struct waker *w, int64_t ns)
{
    struct timespec t = {ns / 1000000000, ns % 1000000000};
    syscall(SYS_futex, &w->asleep, FUTEX_WAIT, 1, ns ? &t : NULL, NULL, 0);
    waker_disarm(w);
}

/* Any thread. */
static inline void
waker_wake(struct waker *w)
{
    if (atomic_load(&w->asleep) && atomic_exchange(&w->asleep, 0))
        syscall(SYS_futex, &w->asleep, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

struct bell {
    _Atomic uint32_t rung, nsleeper;
};

/* Any thread calls it before it looks once more and sleeps. Returns what to give bell_sleep. */
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

/* After bell_arm: sleeps until it rings, or has rung since, or a signal comes. */
static inline void
bell_sleep(struct bell *b, uint32_t armed)
{
    syscall(SYS_futex, &b->rung, FUTEX_WAIT, armed, NULL, NULL, 0);
    bell_disarm(b);
}

/* Wakes all who sleep. */
static inline void
bell_ring(struct bell *b)
{
    if (!atomic_load(&b->nsleeper)) return;
    atomic_fetch_add(&b->rung, 1);
    syscall(SYS_futex, &b->rung, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* A moment of a loop that looks again and again. */
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
