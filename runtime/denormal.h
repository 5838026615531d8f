/* denormal.h - numbers too small for their format's full precision are zeros while kernels compute.
 *
 * An operation on such a number takes a hundred times as long as any other, on most processors. Threads that compute
 * set the mode once; who computes on a thread of somebody else's sets it and puts back what was there. Halves are
 * apart: kernels compute them as f32, in which f16's smallest numbers are ordinary. The mode is the calling
 * thread's. */
#ifndef RILLE_RUNTIME_DENORMAL_H
#define RILLE_RUNTIME_DENORMAL_H

#include "runtime/base.h"

#ifdef __x86_64__
#include <xmmintrin.h>
#endif

/* The thread's mode as it was, for denormals_restore(). */
static inline uint64_t
denormals_flush(void)
{
#if defined(__x86_64__)
    enum { FLUSH = 0x8040 }; /* results (FTZ), operands (DAZ) */
    unsigned was = _mm_getcsr();
    if ((was & FLUSH) != FLUSH) _mm_setcsr(was | FLUSH);
    return was;
#elif defined(__aarch64__)
    const uint64_t flush = 1 << 24; /* FZ: both */
    uint64_t was;
    __asm__ volatile("mrs %0, fpcr" : "=r"(was));
    if (!(was & flush)) __asm__ volatile("msr fpcr, %0" : : "r"(was | flush));
    return was;
#else
    return 0;
#endif
}

static inline void
denormals_restore(uint64_t was)
{
#if defined(__x86_64__)
    if (_mm_getcsr() != was) _mm_setcsr((unsigned)was);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(was));
#else
    UNUSED(was);
#endif
}

#endif
