/* denormal.h - flushes denormal numbers to zero while kernels compute.
 *
 * On most processors, an operation on a denormal number takes a hundred times as long as on a normal number.
 * Compute threads set the mode once; code that computes on a thread of the user's program sets the mode, and
 * restores it afterwards. bf16 and f16 are not affected: kernels compute them as f32, in which denormal f16
 * numbers are normal. The mode belongs to the calling thread. */
#ifndef RILLE_RUNTIME_DENORMAL_H
#define RILLE_RUNTIME_DENORMAL_H

#include "runtime/base/base.h"

#ifdef __x86_64__
#include <xmmintrin.h>
#endif

/* Sets the mode, and returns the previous mode for denormals_restore(). */
static inline uint64_t
denormals_flush(void)
{
#if defined(__x86_64__)
    enum { FLUSH = 0x8040 }; /* bits that flush results (FTZ) and operands (DAZ) */
    unsigned was = _mm_getcsr();
    if ((was & FLUSH) != FLUSH) _mm_setcsr(was | FLUSH);
    return was;
#elif defined(__aarch64__)
    const uint64_t flush = 1 << 24; /* the bit FZ flushes both results and operands */
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
