/* shim.h - enough of CUDA C++ to run the texts of kernels/cuda on the host: blocks one after the other, a fiber a
 * thread.
 *
 * Between two barriers the threads of a block run one by one, in an order that is drawn from a seed; so a missing
 * barrier shows as results that depend on the seed, and sanitizers see every access. A barrier that not all threads
 * meet ends the program. What it cannot show: races that every order of whole threads hides. */
#ifndef RILLE_T_HOST_SHIM_H
#define RILLE_T_HOST_SHIM_H

#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#define __global__
#define __device__
#define __shared__ static /* one block runs at a time */
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define DEVICE       static inline
#define METHOD
#define FLUSHED(x) shim::flushed(x)
#define MUST(x)    assert(x) /* what bodies keep to */

struct dim3 {
    unsigned x, y, z;
};
static dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace shim
{
enum { MOST = 1024, STACK = 128 << 10 };
static void *scheduler[5], *fiber[MOST][5]; /* where each goes on: __builtin_setjmp's */
static char *stacks;
static bool born[MOST], done[MOST];
static unsigned now;
static void (*kernel)(const void *words);
static const void *argument;

/* Numbers too small for full precision are zeros where the thread's mode says so: libm reads bits, and would see them.
 */
static inline float
flushed(float x)
{
    volatile float one = 1;
    return x * one;
}

/* From one to the other. swapcontext() would ask the system twice for signals each time, which took half of the time of
 * all. AddressSanitizer would forget what it knows of a stack that is left for another. */
__attribute__((noinline, no_sanitize_address)) static void
leave(unsigned me)
{
    if (!__builtin_setjmp(fiber[me])) __builtin_longjmp(scheduler, 1);
}

static void
enter()
{
    for (;;) {
        kernel(argument);
        done[now] = true;
        leave(now);
    }
}

/* A thread's first steps, on a stack of its own. */
static void
start(unsigned t)
{
    ucontext_t at;
    getcontext(&at);
    at.uc_stack.ss_sp = stacks + (size_t)t * STACK;
    at.uc_stack.ss_size = STACK;
    at.uc_link = NULL; /* it has no end */
    makecontext(&at, enter, 0);
    born[t] = true;
    setcontext(&at);
}

__attribute__((noinline, no_sanitize_address)) static void
go_on(unsigned t)
{
    if (__builtin_setjmp(scheduler)) return;
    if (born[t]) __builtin_longjmp(fiber[t], 1);
    start(t);
}

static void
barrier()
{
    unsigned me = now;
    leave(me);
    threadIdx.x = me;
}

static uint64_t
draw(uint64_t *seed)
{
    *seed ^= *seed << 13, *seed ^= *seed >> 7, *seed ^= *seed << 17;
    return *seed;
}

/* Every thread to its next barrier, or to its end: all the same. Their number is a power of two, so that any odd step
 * meets all. */
static bool
round(unsigned threads, uint64_t *seed)
{
    unsigned ended = 0, at = (unsigned)(draw(seed) % threads), step = (unsigned)draw(seed) % threads | 1;
    for (unsigned i = 0; i < threads; i++, at = (at + step) % threads) {
        now = threadIdx.x = at;
        go_on(at);
        ended += done[at];
    }
    if (ended == 0 || ended == threads) return ended == 0;
    fprintf(stderr, "shim: %u of %u threads left before a barrier\n", ended, threads);
    abort();
}

static void
launch(void (*f)(const void *), const void *words, long blocks, unsigned threads, uint64_t seed)
{
    if (!stacks) stacks = (char *)malloc((size_t)MOST * STACK);
    kernel = f;
    argument = words;
    seed = seed * 2862933555777941757u + 3037000493u;
    blockDim = {threads, 1, 1};
    gridDim = {(unsigned)blocks, 1, 1};
    for (long b = 0; b < blocks; b++) {
        blockIdx = {(unsigned)b, 0, 0};
        for (unsigned t = 0; t < threads; t++) done[t] = false;
        while (round(threads, &seed)) continue;
    }
}
} // namespace shim

static inline void
__syncthreads()
{
    shim::barrier();
}

/* Is it true of any thread of the block? */
static inline int
__syncthreads_or(int is)
{
    static int any;
    static unsigned left;
    any |= is != 0;
    shim::barrier();
    int all = any;
    if (++left == blockDim.x) any = 0, left = 0;
    shim::barrier();
    return all;
}

/* The entry of a kernel: run_<name>, which returns how many bytes its argument has. No words: that is all it does. */
#define SHIM_KERNEL(name)                                                                                              \
    static void call_##name(const void *words) { name##_::name(*(const name##_::argument *)words); }                   \
    extern "C" __attribute__((visibility("default"))) long run_##name(const void *words, long blocks, int threads,     \
                                                                      uint64_t seed)                                   \
    {                                                                                                                  \
        if (words) shim::launch(call_##name, words, blocks, threads, seed);                                            \
        return sizeof(name##_::argument);                                                                              \
    }

#endif
