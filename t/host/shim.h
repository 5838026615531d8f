/* shim.h - enough of CUDA C++ to run the texts of kernels/cuda on the host: blocks run one after the other, with a
 * fiber per thread.
 *
 * The threads of a block run one by one between two barriers, in a random order that depends on a seed. So results
 * depend on the seed if a barrier is missing. Sanitizers see every access. A barrier that not all threads reach ends
 * the program. Data races between barriers are not detected, because only one thread runs at a time. */
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
#define __shared__ static /* a block's shared memory is static, because only one block runs at a time */
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define DEVICE       static inline
#define METHOD
#define FLUSHED(x) shim::flushed(x)
#define MUST(x)    assert(x) /* checks of kernel bodies become assertions */

struct dim3 {
    unsigned x, y, z;
};
static dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace shim
{
enum { MOST = 1024, STACK = 128 << 10 };
static void *scheduler[5], *fiber[MOST][5]; /* contexts saved by __builtin_setjmp */
static char *stacks;
static bool born[MOST], done[MOST];
static unsigned now;
static void (*kernel)(const void *words);
static const void *argument;

/* Returns 0 for a subnormal number if the thread flushes subnormals. Needed for arguments of libm's functions,
 * which inspect the bits of their arguments. */
static inline float
flushed(float x)
{
    volatile float one = 1;
    return x * one;
}

/* Switches from a fiber to the scheduler. Does not use swapcontext(), whose two system calls took half of the
 * total time. AddressSanitizer must not instrument this function, because the instrumentation would discard what
 * it knows about the fiber's stack. */
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

/* Starts a fiber on its own stack. */
static void
start(unsigned t)
{
    ucontext_t at;
    getcontext(&at);
    at.uc_stack.ss_sp = stacks + (size_t)t * STACK;
    at.uc_stack.ss_size = STACK;
    at.uc_link = NULL; /* the fiber never returns */
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

/* Runs every thread to its next barrier or to its end. All threads must reach a barrier, or all must end. Visits
 * the threads in steps of an odd number; this reaches all of them, because their number is a power of two. Returns
 * false when all threads have ended. */
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
} // end of namespace shim

static inline void
__syncthreads()
{
    shim::barrier();
}

/* __syncthreads_or: returns 1 if `is` is nonzero for any thread of the block. */
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

/* Defines a kernel's entry function run_<name>, which runs the kernel and returns the size of the kernel's argument
 * in bytes. With words == NULL the function only returns the size. */
#define SHIM_KERNEL(name)                                                                                              \
    static void call_##name(const void *words) { name##_::name(*(const name##_::argument *)words); }                   \
    extern "C" __attribute__((visibility("default"))) long run_##name(const void *words, long blocks, int threads,     \
                                                                      uint64_t seed)                                   \
    {                                                                                                                  \
        if (words) shim::launch(call_##name, words, blocks, threads, seed);                                            \
        return sizeof(name##_::argument);                                                                              \
    }

#endif
